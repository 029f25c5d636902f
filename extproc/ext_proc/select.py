"""The edge hop: reads a request once, chooses the route of its model and forwards the bytes unchanged.

Request headers and body in; the headers for Envoy's routing and the same body out, or a response of the gateway's own.
The provider's response does not pass here. The head is withheld until the body is complete, because the model's name is
in the body.
"""

from __future__ import annotations

from extproc.config import Config
from extproc.ext_proc import messages
from extproc.ext_proc.admission import AdmittedRequest, GatewayResponse, RequestAdmission, request_api
from extproc.ext_proc.attempt import choose_attempt_order
from extproc.ext_proc.base import Exchange, RefusedRequest, Responses
from extproc.ext_proc.incoming import BodyChunk, EnvoyMessage, HeadersMessage, TrailersMessage
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
    """One request at the edge. The exchange is done when the request is routed; the backend hop records the rest."""

    __slots__ = ("_admission", "_stream_id", "routed")

    hop = "select"

    def __init__(self, config: Config, *, request_id: str, now: float) -> None:
        super().__init__(config, request_id=request_id, now=now)
        self._admission = RequestAdmission(config, self.record, edge=True)
        self._stream_id = request_id
        self.routed = False
        """The request was sent towards a provider."""

    @property
    def is_logged(self) -> bool:
        return not self.routed and super().is_logged

    def should_offload(self, last: BodyChunk) -> bool:
        return self._admission.should_offload(last.data)

    def _handle_message(self, message: EnvoyMessage, now: float) -> Responses:
        if type(message) is BodyChunk:
            if message.response:
                raise _unexpected(message)
            self._admission.body.append(message.data)
            return self._route_request(now) if message.end else []
        if type(message) is HeadersMessage and not message.response:
            return self._handle_headers(message, now)
        if type(message) is TrailersMessage and not message.response:
            raise refuse_trailers()
        raise _unexpected(message)

    def _handle_headers(self, message: HeadersMessage, now: float) -> Responses:
        headers = message.headers
        self.api = request_api(headers)
        self.record.api = self.api
        self.record.path = headers.get(":path", "").partition("?")[0][:200]
        self.record.request_id = headers.get("x-request-id", self.record.request_id)
        self.record.trace_id = trace_id(headers)
        if error := messages.find_body_mode_error(message.modes, response=False):
            raise RefusedRequest(f"Wrong configuration: {error}.", reason="body_mode", status=500, kind="server")
        response = self._admission.check_headers(headers, self.api)
        if response is not None:
            return self._respond(response, now)
        return self._route_request(now) if message.end else []

    def _route_request(self, now: float) -> Responses:
        admitted = self._admission.admit()
        if isinstance(admitted, GatewayResponse):
            return self._respond(admitted, now)
        self.done = self.routed = True
        self.record.outcome = "ok"
        routing_headers = {ROUTE_HEADER: admitted.rule.id, API_HEADER: self.api}
        if len(admitted.rule.attempt_orders) > 1:
            routing_headers[ORDER_HEADER] = self._attempt_order(admitted)
        if self.config.limited_teams:
            routing_headers.update(self._rate_limit_headers())
        set_by_envoy = TEAM_HEADER if self.config.teams else None
        forged = [name for name in FORGED[tuple(self._admission.headers)] if name != set_by_envoy]
        return [messages.request_head(routing_headers, forged, clear_route_cache=True), *self._unchanged_body()]

    def _attempt_order(self, admitted: AdmittedRequest) -> str:
        """The order of the rule's attempts for this request, if some of them have weights."""
        key = admitted.routing_fields.conversation_key or self._stream_id.encode()
        return str(choose_attempt_order(admitted.rule, key))

    def _rate_limit_headers(self) -> dict[str, str]:
        """The descriptors for Envoy's rate limit service: the team if it has limits, and an id of this request that no
        client can choose. Token counts are not limited."""
        team, endpoint = self._admission.team, self._admission.endpoint
        kinds = self.config.limited_teams.get(team) if team is not None else None
        if team is None or kinds is None or (endpoint is not None and endpoint.operation == "count_tokens"):
            return {}
        return {LIMITED_TEAM_HEADER: team, STREAM_ID_HEADER: self._stream_id}

    def _unchanged_body(self) -> Responses:
        return messages.body_chunks(messages.REQUEST_BODY, self._admission.body.raw(), end=True)

    def _respond(self, response: GatewayResponse, now: float) -> Responses:
        return self.reply(response.status, response.headers, response.body, response.reason, now)


def _unexpected(message: EnvoyMessage) -> RuntimeError:
    part = "a part of a response" if getattr(message, "response", False) else "a message without a part"
    return RuntimeError(f"the edge hop got {part}; its filter must send requests only")


def refuse_trailers() -> RefusedRequest:
    """With a retry policy, Envoy sends the body of a request with trailers upstream twice."""
    return RefusedRequest("Requests with trailers are not supported.", reason="request_trailers", status=400)
