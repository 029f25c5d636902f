"""The edge hop: reads a request once, chooses the route of its model and hands the bytes on unchanged.

Request headers and body in; out come the headers that Envoy routes by and the same body, or an answer of our own. The
response never passes here. The head is withheld until the body is complete, because the model's name is in the body.
"""

from __future__ import annotations

from extproc.config import Config
from extproc.ext_proc import messages
from extproc.ext_proc.admission import AdmittedRequest, GatewayResponse, RequestAdmission, request_api
from extproc.ext_proc.attempt import chosen_order
from extproc.ext_proc.base import Exchange, Refused, Responses
from extproc.ext_proc.incoming import Chunk, Head, Incoming, Trailers
from extproc.ext_proc.trace_context import trace_id
from extproc.headers import (
    API_HEADER,
    FORGED,
    LIMITED_TEAM_HEADER,
    ORDER_HEADER,
    ROUTE_HEADER,
    STREAM_ID_HEADER,
    TEAM_HEADER,
)


class SelectExchange(Exchange):
    """One request at the edge. Once routed, the exchange is done: the backend hop records the rest."""

    __slots__ = ("_admission", "_own_id", "routed")

    hop = "select"

    def __init__(self, config: Config, *, request_id: str, now: float) -> None:
        super().__init__(config, request_id=request_id, now=now)
        self._admission = RequestAdmission(config, self.record, edge=True)
        self._own_id = request_id
        self.routed = False
        """The request went on to a provider."""

    @property
    def has_line(self) -> bool:
        return not self.routed and super().has_line

    def should_offload(self, last: Chunk) -> bool:
        return self._admission.should_offload(last.data)

    def _receive(self, message: Incoming, now: float) -> Responses:
        if type(message) is Chunk:
            if message.response:
                raise _unexpected(message)
            self._admission.body.add(message.data)
            return self._route(now) if message.end else []
        if type(message) is Head and not message.response:
            return self._head(message, now)
        if type(message) is Trailers and not message.response:
            raise trailers_refused()
        raise _unexpected(message)

    def _head(self, message: Head, now: float) -> Responses:
        headers = message.headers
        self.api = request_api(headers)
        self.record.api = self.api
        self.record.path = headers.get(":path", "").partition("?")[0][:200]
        self.record.request_id = headers.get("x-request-id", self.record.request_id)
        self.record.trace_id = trace_id(headers)
        if wrong := messages.wrong_body_mode(message.modes, response=False):
            raise Refused(f"Wrong configuration: {wrong}.", reason="body_mode", status=500, kind="server")
        answer = self._admission.head(headers, self.api)
        if answer is not None:
            return self._own(answer, now)
        return self._route(now) if message.end else []

    def _route(self, now: float) -> Responses:
        found = self._admission.complete()
        if isinstance(found, GatewayResponse):
            return self._own(found, now)
        self.done = self.routed = True
        self.record.outcome = "ok"
        routing_headers = {ROUTE_HEADER: found.rule.id, API_HEADER: self.api}
        if len(found.rule.attempt_orders) > 1:
            routing_headers[ORDER_HEADER] = self._order(found)
        if self.config.limited_teams:
            routing_headers.update(self._limited())
        by_envoy = TEAM_HEADER if self.config.teams else None
        forged = [name for name in FORGED[tuple(self._admission.headers)] if name != by_envoy]
        return [messages.request_head(routing_headers, forged, clear_route_cache=True), *self._echo()]

    def _order(self, found: AdmittedRequest) -> str:
        """The order of the rule's attempts for this request, if some of them have weights."""
        return str(chosen_order(found.rule, found.routing_fields.conversation or self._own_id.encode()))

    def _limited(self) -> dict[str, str]:
        """What Envoy asks the rate limit service with: the team where it has limits, and an id of this very request,
        which no client can choose. Counting a prompt's tokens is no use of a model."""
        team, endpoint = self._admission.team, self._admission.endpoint
        kinds = self.config.limited_teams.get(team) if team is not None else None
        if team is None or kinds is None or (endpoint is not None and endpoint.operation == "count_tokens"):
            return {}
        return {LIMITED_TEAM_HEADER: team, STREAM_ID_HEADER: self._own_id}

    def _echo(self) -> Responses:
        return messages.chunks(messages.REQUEST_BODY, self._admission.body.raw(), end=True)

    def _own(self, answer: GatewayResponse, now: float) -> Responses:
        return self.answer(answer.status, answer.headers, answer.body, answer.reason, now)


def _unexpected(message: Incoming) -> RuntimeError:
    part = "a part of a response" if getattr(message, "response", False) else "a message without a part"
    return RuntimeError(f"the edge hop got {part}; its filter must send requests only")


def trailers_refused() -> Refused:
    """Envoy sends a request that has trailers upstream with its body doubled when a retry policy is set."""
    return Refused("Requests with trailers are not supported.", reason="request_trailers", status=400)
