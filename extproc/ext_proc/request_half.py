"""The request of one attempt: Envoy's messages with the client's request -> messages with the provider's request.

The first half of the translate exchange. The head is withheld until the body is complete. Then the attempt is chosen,
its `Translation` is made, and head and body are sent together. Only refusals go to the client from here; the response
is handled in `translate`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from extproc.config import Config
from extproc.config.versions import plain_name
from extproc.endpoints import ENDPOINT_OF, Endpoint
from extproc.errors import RequestError
from extproc.ext_proc import messages
from extproc.ext_proc.accounting import TokenAccounting
from extproc.ext_proc.admission import MODEL_NOT_FOUND, GatewayResponse, RequestAdmission, request_api
from extproc.ext_proc.attempt import (
    AttemptTranslation,
    ChosenAttempt,
    RoutingMismatchError,
    find_attempt_by_backend,
    find_attempt_by_route,
    make_translation,
)
from extproc.ext_proc.base import METADATA_NAMESPACE, Exchange, RefusedRequest, Responses
from extproc.ext_proc.incoming import BodyChunk, HeadersMessage
from extproc.ext_proc.request_body import RequestBodyBuffer, RoutingFields, peek_routing_fields
from extproc.ext_proc.trace_context import trace_headers, trace_id
from extproc.headers import API_HEADER, REQUEST_TO_TRANSLATION, ROUTE_HEADER, TEAM_HEADER
from extproc.profiles.telemetry import telemetry_provider_name


class Phase(Enum):
    """The messages that the exchange waits for."""

    REQUEST = auto()
    PROVIDER = auto()
    RESPONSE = auto()


class RequestHalf(Exchange):
    """See `TranslateExchange`. From `_phase` PROVIDER on, the request is sent, and `_translation` and `_choice` are
    set."""

    __slots__ = (
        "_accounting",
        "_admission",
        "_backend",
        "_body",
        "_choice",
        "_endpoint",
        "_find_config",
        "_first_token_deadline",
        "_headers",
        "_make_translation",
        "_phase",
        "_sent_at",
        "_translation",
        "hop",
    )

    def __init__(self, config: Config, backend: str, *, request_id: str, now: float, one_hop: bool = False,
                 make: Callable[..., AttemptTranslation] = make_translation,
                 find_config: Callable[[str], Config | None] | None = None) -> None:
        self.hop = "onehop" if one_hop else "translate"
        super().__init__(config, request_id=request_id, now=now)
        self.record.backend = plain_name(backend)
        self._find_config = find_config
        self._backend = backend
        self._admission = RequestAdmission(config, self.record, edge=False) if one_hop else None
        self._body = self._admission.body if self._admission else RequestBodyBuffer(config.limits)
        self._make_translation = make
        self._phase = Phase.REQUEST
        self._headers: dict[str, str] = {}
        self._endpoint: Endpoint | None = None
        self._translation: AttemptTranslation | None = None
        self._choice: ChosenAttempt | None = None
        self._sent_at = now
        self._first_token_deadline: float | None = None
        """The deadline of the first token; None: no limit."""
        self._accounting = TokenAccounting(self.record)

    def _request_head(self, message: HeadersMessage, now: float) -> Responses:
        headers = self._headers = message.headers
        target = headers.get(":path", "")
        self._endpoint = ENDPOINT_OF[target]
        record = self.record
        edge_api = headers.get(API_HEADER) if self._admission is None else None
        self.api = edge_api or request_api(headers)
        record.api = self.api
        record.path = target.partition("?")[0][:200]
        record.request_id = headers.get("x-request-id", record.request_id)
        record.trace_id = trace_id(headers)
        record.team = headers.get(TEAM_HEADER)
        if error := messages.find_body_mode_error(message.modes, response=True):
            raise RefusedRequest(f"Wrong configuration: {error}.", reason="body_mode", status=500, kind="server")
        if self._admission is None and self._find_config is not None:
            self.config = self._find_config(headers.get(ROUTE_HEADER, "")) or self.config
            self.deadline_moved_up = True  # its timeouts may be shorter
        if self._backend not in self.config.backends:
            raise RoutingMismatchError(f"the filter names the backend {self._backend!r}, which is not configured")
        if self._admission is not None:
            response = self._admission.check_headers(headers, self.api)
            if response is not None:
                return self._respond(response, now)
        else:
            self._choice = find_attempt_by_route(self.config, headers, self._backend)
            self._body.check_announced_size(headers.get("content-length"))
        return self._send_request(now) if message.end else []

    def _request_body(self, part: BodyChunk, now: float) -> Responses:
        if self._phase is not Phase.REQUEST:
            return []
        self._body.append(part.data)
        return self._send_request(now) if part.end else []

    def _send_request(self, now: float) -> Responses:
        """Called when the request is complete: translates it and sends it to the provider."""
        if self._admission is not None:
            admitted = self._admission.admit()
            if isinstance(admitted, GatewayResponse):
                return self._respond(admitted, now)
            routing_fields, body = admitted.routing_fields, admitted.body
            self._choice = find_attempt_by_backend(admitted.rule, self._backend)
            if self._choice is None:
                name = routing_fields.model[:200]
                raise RefusedRequest(f'The model "{name}" is not served by the backend "{self._backend}".',
                              reason="model_elsewhere", status=404, kind="not_found", code=MODEL_NOT_FOUND)
        else:
            body = self._body.decode(self._headers.get("content-encoding"))
            routing_fields = peek_routing_fields(body, self.config.limits)
        choice = self._choice
        assert choice is not None
        self._note_request(routing_fields, choice)
        backend = self.config.backends[self._backend]
        translation = self._make_translation(self.config, self.api, backend, choice, routing_fields.model,
                                             self.record.request_id, self._endpoint)
        self._translation = translation
        self.record.provider_api = translation.provider_api
        headers = self._headers
        given = {name: headers[name] for name in REQUEST_TO_TRANSLATION[tuple(headers)]}
        try:
            request = translation.request(body, given)
        except RequestError as refusal:
            self.record.set_failure(refusal.failure, "error")
            return self.reply(refusal.status, refusal.headers, refusal.body, refusal.failure.kind, now)
        self._body.chunks.clear()
        self._phase = Phase.PROVIDER
        self.can_prepare = self.deadline_moved_up = True
        self._sent_at = now
        timeout = choice.first_token_timeout(self.config)
        if timeout is not None and self.record.stream:
            self._first_token_deadline = now + timeout
        self._accounting.note_request(len(request.body), only_counts=self._counts_tokens_only)
        routing = {":path": request.path}
        if request.method != self._headers.get(":method"):
            routing[":method"] = request.method
        if backend.is_traced:
            routing.update(trace_headers(self._headers))
        head = messages.request_head({**routing, **request.headers}, self._headers)
        metadata = {**self._routing_metadata(), **self._accounting.estimated_figures()}
        if self._admission is not None:
            # For the access log of the surrounding gateway: the header itself is not forwarded.
            metadata["request_id"] = self.record.request_id
        head = messages.append_metadata(head, METADATA_NAMESPACE, metadata)
        return [head, *messages.body_chunks(messages.REQUEST_BODY, request.body, end=True)]

    def prepare(self) -> None:
        super().prepare()
        if self._phase is Phase.PROVIDER and self._translation is not None and not self.done:
            self._translation.prepare()

    def _note_request(self, routing_fields: RoutingFields, choice: ChosenAttempt) -> None:
        record = self.record
        record.model = routing_fields.model[:200]
        endpoint = self._endpoint
        record.stream = bool(routing_fields.stream) or (endpoint is not None and endpoint.operation == "events")
        if endpoint is not None:
            record.api, record.operation = endpoint.client, endpoint.asks_for
        backend = self.config.backends[self._backend]
        record.provider = telemetry_provider_name(backend.api, backend.host, backend.base_path, backend.provider)
        record.rule = choice.rule.match
        record.attempt = choice.number
        record.model_setting = choice.attempt.model
        record.provider_model = choice.attempt.provider_model(choice.rule.match, routing_fields.model)[:200]
        record.request_bytes = self._body.size

    def _respond(self, response: GatewayResponse, now: float) -> Responses:
        return self.reply(response.status, response.headers, response.body, response.reason, now)

    def _routing_metadata(self) -> dict[str, messages.Value]:
        record = self.record
        return {"rule": record.rule, "model": record.model, "provider_model": record.provider_model,
                "backend": record.backend, "api": record.api, "team": record.team, "attempt": record.attempt,
                "operation": record.operation}

    @property
    def _counts_tokens_only(self) -> bool:
        endpoint = self._endpoint
        return endpoint is not None and endpoint.operation == "count_tokens"
