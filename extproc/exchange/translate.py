"""The backend hop: one attempt on one provider, translated both ways; also the whole of one-hop mode.

Envoy's messages in, Envoy's messages out, a `Translation` in between. The request's head is withheld until its body is
complete and translated; the response's head until the provider's first byte, because Envoy takes nothing of an answer's
body before it has sent some itself (with a further attempt to come: until the first content or `commit_after`). What
fails before that is a status, and fails over. Chooses no route,
opens no socket, never ends without an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from extproc.config import Config
from extproc.config.versions import plain_name
from extproc.conversation import Failure
from extproc.errors import RequestError
from extproc.exchange import messages
from extproc.exchange.accounting import Accounting, Figures
from extproc.exchange.attempt import (
    Choice,
    Misrouted,
    Translating,
    chosen_by_backend,
    chosen_by_route,
    make_translation,
)
from extproc.exchange.base import HEAVY_BODY, Exchange, Refused, Responses
from extproc.exchange.content import Asked, Body, read_asked
from extproc.exchange.intake import MODEL_NOT_FOUND, Intake, OwnAnswer, request_api
from extproc.exchange.pb.external_processor_pb2 import ProcessingRequest
from extproc.exchange.record import MAX_REPAIRS, Record
from extproc.exchange.routes import Endpoint, find_endpoint
from extproc.exchange.select import trailers_refused
from extproc.exchange.trace_context import trace_headers, trace_id
from extproc.failover import is_retried
from extproc.head import LONGEST_VALUE
from extproc.profiles.telemetry import provider_name

TICK = 1.0
"""Seconds between two looks at the clock while an answer is on its way."""

FIRST_TOKEN_TIMEOUT = "first_token_timeout"
"""The reason, for the log, of an attempt that was given up for want of a first token."""

LINGER = 1.0
"""Seconds for which a complete answer waits for the provider to close, so that its connection can be used again."""

_PASSED = frozenset({"date", "retry-after", "retry-after-ms", "x-should-retry"})
_PASSED_PREFIXES = ("x-ratelimit-", "anthropic-ratelimit-")


class Phase(Enum):
    """What the exchange waits for."""

    REQUEST = auto()
    PROVIDER = auto()
    ANSWER = auto()


class TranslateExchange(Exchange):
    """One attempt. `backend` is the name in the filter's gRPC metadata; `one_hop`: no edge hop came before. `find`: the
    configuration that knows the rule of a request that another one has routed."""

    hop = "translate"

    def __init__(self, config: Config, backend: str, *, request_id: str, now: float, one_hop: bool = False,
                 translation: Callable[..., Translating] = make_translation,
                 find: Callable[[str], Config | None] | None = None) -> None:
        self.hop = "onehop" if one_hop else "translate"
        super().__init__(config, request_id=request_id, now=now)
        self.record.backend = plain_name(backend)
        self._find = find
        self._backend = backend
        self._intake = Intake(config, self.record, edge=False) if one_hop else None
        self._body = self._intake.body if self._intake else Body(config.limits)
        self._make = translation
        self._phase = Phase.REQUEST
        self._headers: dict[str, str] = {}
        self._translation: Translating | None = None
        self._choice: Choice | None = None
        self._provider_headers: dict[str, str] = {}
        self._head_sent = False
        self._body_seen = False
        self._commits = False
        self._sent_at = now
        self._next_tick = now
        self._commit_at: float | None = None
        self._first_token_at: float | None = None
        self._linger_until: float | None = None
        self._accounting = Accounting(self.record)

    def closed(self, now: float) -> Record:
        record, choice = super().closed(now), self._choice
        record.retried = (record.outcome in ("error", "provider_error") and choice is not None and not choice.last
                          and is_retried(record.status))
        return record

    # ------------------------------------------------------------------------------------------------- steps and times

    def is_heavy(self, message: ProcessingRequest) -> bool:
        part = message.WhichOneof("request")
        if part == "request_body":
            return message.request_body.end_of_stream and (
                self._body.size + len(message.request_body.body) > HEAVY_BODY
                or "content-encoding" in self._headers or bool(self._intake and self._intake.heavy))
        # A whole answer is decoded and encoded in one go at its end.
        return (part == "response_body" and message.response_body.end_of_stream and not self._head_sent
                and self._accounting.received + len(message.response_body.body) > HEAVY_BODY)

    @property
    def next_deadline(self) -> float | None:
        if self.done:
            return None
        if self._phase is Phase.ANSWER:
            due = self._next_tick
            others = (self._commit_at, self._first_token_due, self._linger_until)
            return min([due, *(other for other in others if other is not None)])
        if self._phase is Phase.PROVIDER:
            due = self._sent_at + self.config.timeouts.idle
            return due if self._first_token_at is None else min(due, self._first_token_at)
        return super().next_deadline

    def _receive(self, message: ProcessingRequest, now: float) -> Responses:
        part = message.WhichOneof("request")
        if part == "response_body":
            return self._response_body(message, now)
        if part == "request_headers":
            return self._request_head(message, now)
        if part == "request_body":
            return self._request_body(message, now)
        if part == "response_headers":
            return self._response_head(message, now)
        if part == "response_trailers":
            return self._response_trailers(message, now)
        if part == "request_trailers":
            if self._phase is not Phase.REQUEST:
                return []
            raise trailers_refused()
        raise RuntimeError("a message without a part")

    def _on_time(self, now: float) -> Responses:
        if self._phase is Phase.REQUEST:
            return super()._on_time(now)
        if self._phase is Phase.PROVIDER:
            return self._provider_silent(now)
        assert self._translation is not None
        if self._linger_until is not None and now >= self._linger_until:
            return self._answer(b"", now, end=True)
        if self._first_token_due is not None and now >= self._first_token_due:
            return self._too_late(now)
        if self._commit_at is not None and now >= self._commit_at:
            self._commit_at = None
            self._commit()
        self._next_tick = now + TICK
        return self._answer(self._translation.tick(now), now)

    # --------------------------------------------------------------------------------------------------------- request

    def _request_head(self, message: ProcessingRequest, now: float) -> Responses:
        headers = self._headers = messages.read_headers(message.request_headers)
        record = self.record
        by_edge = headers.get("x-extproc-api") if self._intake is None else None
        self.api = by_edge or request_api(headers)
        record.api = self.api
        record.path = headers.get(":path", "").partition("?")[0][:200]
        record.request_id = headers.get("x-request-id", record.request_id)
        record.trace_id = trace_id(headers)
        record.team = headers.get("x-extproc-team")
        if wrong := messages.wrong_body_mode(message, response=True):
            raise Refused(f"Wrong configuration: {wrong}.", reason="body_mode", status=500, kind="server")
        if self._intake is None and self._find is not None:
            self.config = self._find(headers.get("x-extproc-route", "")) or self.config
        if self._backend not in self.config.backends:
            raise Misrouted(f"the filter names the backend {self._backend!r}, which is not configured")
        if self._intake is not None:
            answer = self._intake.head(headers, self.api)
            if answer is not None:
                return self._own(answer, now)
        else:
            self._choice = chosen_by_route(self.config, headers, self._backend)
            self._body.expect(headers.get("content-length"))
        return self._send_request(now) if message.request_headers.end_of_stream else []

    def _request_body(self, message: ProcessingRequest, now: float) -> Responses:
        if self._phase is not Phase.REQUEST:
            return []
        self._body.add(message.request_body.body)
        return self._send_request(now) if message.request_body.end_of_stream else []

    def _send_request(self, now: float) -> Responses:
        """The whole request is there: translate it and send it on."""
        if self._intake is not None:
            found = self._intake.complete()
            if isinstance(found, OwnAnswer):
                return self._own(found, now)
            asked, body = found.asked, found.body
            self._choice = chosen_by_backend(found.rule, self._backend)
            if self._choice is None:
                raise Refused(f'The model "{asked.model[:200]}" is not served by the backend "{self._backend}".',
                              reason="model_elsewhere", status=404, kind="not_found", code=MODEL_NOT_FOUND)
        else:
            body = self._body.decoded(self._headers.get("content-encoding"))
            asked = read_asked(body, self.config.limits)
        choice = self._choice
        assert choice is not None
        self._note_request(asked, choice)
        backend = self.config.backends[self._backend]
        translation = self._make(self.config, self.api, backend, choice, asked.model, self.record.request_id,
                                 find_endpoint(self._headers.get(":path", "")))
        self._translation = translation
        given = {name: value for name, value in self._headers.items()
                 if not name.startswith(":") and name != "content-encoding"}
        try:
            request = translation.request(body, given)
        except RequestError as refusal:
            self.record.failed(refusal.failure, "error")
            return self.answer(refusal.status, refusal.headers, refusal.body, refusal.failure.kind, now)
        self._body.chunks.clear()
        self._phase = Phase.PROVIDER
        self._sent_at = now
        patience = choice.first_token(self.config)
        if patience is not None and self.record.stream:
            self._first_token_at = now + patience
        self._accounting.asked(len(request.body), only_counts=self._only_counts)
        routing = {":path": request.path}
        if request.method != self._headers.get(":method"):
            routing[":method"] = request.method
        if backend.is_traced:
            routing.update(trace_headers(self._headers))
        head = messages.request_head({**routing, **request.headers}, self._headers)
        head = messages.with_metadata(head, self.metadata({**self._names(), **self._accounting.estimate()}))
        return [head, *messages.chunks(messages.request_chunk, request.body, end=True)]

    def _note_request(self, asked: Asked, choice: Choice) -> None:
        record = self.record
        record.model = asked.model[:200]
        endpoint = self._endpoint
        record.stream = bool(asked.stream) or (endpoint is not None and endpoint.operation == "events")
        if endpoint is not None:
            record.api, record.operation = endpoint.client, endpoint.asks_for
        backend = self.config.backends[self._backend]
        record.provider = provider_name(backend.api, backend.host, backend.base_path, backend.provider)
        record.provider_api = backend.api
        record.rule = choice.rule.match
        record.attempt = choice.number
        record.model_setting = choice.attempt.model
        record.provider_model = choice.attempt.provider_model(choice.rule.match, asked.model)[:200]
        record.request_bytes = self._body.size

    def _own(self, answer: OwnAnswer, now: float) -> Responses:
        return self.answer(answer.status, answer.headers, answer.body, answer.reason, now)

    def _provider_silent(self, now: float) -> Responses:
        """No response head came; a status may still be sent while Envoy waits for the provider."""
        if self._first_token_at is not None and now >= self._first_token_at:
            failure = self._no_token()
            self.record.failed(failure, "provider_error")
            return self._fail(failure, FIRST_TOKEN_TIMEOUT, now)
        idle = self.config.timeouts.idle
        if now < self._sent_at + idle:
            return []
        failure = Failure(kind="timeout", status=504, message=f"The provider sent nothing for {idle:g} seconds.")
        self.record.failed(failure, "provider_error")
        return self._fail(failure, "provider_timeout", now)

    @property
    def _first_token_due(self) -> float | None:
        """Until when the first token must be there; None once it is, or where there is no limit."""
        translation = self._translation
        waiting = translation is not None and not translation.heard and not translation.done
        return self._first_token_at if waiting else None

    def _no_token(self) -> Failure:
        assert self._first_token_at is not None
        seconds = round(self._first_token_at - self._sent_at, 3)
        return Failure(kind="timeout", status=504, message=f"The provider sent no token for {seconds:g} seconds.")

    # ---------------------------------------------------------------------------------------------------------- answer

    def _response_head(self, message: ProcessingRequest, now: float) -> Responses:
        headers = self._provider_headers = messages.read_headers(message.response_headers)
        status = int(headers.get(":status", "0"))
        translation = self._translation
        if self._phase is not Phase.PROVIDER or translation is None:
            # A local reply of Envoy may overtake a request that is still on its way in.
            return self._local_reply(status, now)
        self._phase = Phase.ANSWER
        self._next_tick = now + TICK
        self._accounting.answered(headers.get(":status", ""), now)
        translation.start(status, {name: value for name, value in headers.items() if not name.startswith(":")})
        if message.response_headers.end_of_stream:
            return self._bodiless(translation.finish(), now)
        if self._choice is None or self._choice.last:
            # Any other body may still turn out to be an error.
            self._commits = headers.get("content-type", "").strip().lower().startswith("text/event-stream")
        else:
            self._commit_at = max(now + self.config.timeouts.commit_after, self._first_token_at or 0)
        return self._answer(translation.tick(now), now)

    def _commit(self) -> None:
        """Nothing is withheld from now on, or from the first byte on."""
        self._commits = True
        if self._body_seen and self._translation is not None:
            self._translation.commit()

    def _too_late(self, now: float) -> Responses:
        """A head came but no token: an error with a status where the head is still withheld, and so a further
        attempt; else an error event."""
        assert self._translation is not None
        self.record.reason = FIRST_TOKEN_TIMEOUT
        return self._answer(self._translation.fail(self._no_token()), now, end=True)

    def _response_body(self, message: ProcessingRequest, now: float) -> Responses:
        translation = self._translation
        assert translation is not None
        part = message.response_body
        if not self._body_seen:
            self._body_seen = True
            if self._commits:
                translation.commit()
        self._accounting.received += len(part.body)
        data = translation.feed(part.body, now) if part.body else b""
        if not part.end_of_stream:
            return self._answer(data, now) if data or translation.done or not self._head_sent else []
        return self._answer(data + translation.finish(), now, end=True)

    def _response_trailers(self, message: ProcessingRequest, now: float) -> Responses:
        assert self._translation is not None
        answer = messages.response_trailers(messages.read_map(message.response_trailers.trailers))
        return self._answer(self._translation.finish(), now, trailers=answer)

    def _answer(self, data: bytes, now: float, *, end: bool = False,
                trailers: bytes | None = None) -> Responses:
        """Sends what the Translation gave. `end`: these are the last bytes; `trailers` follow them and end the answer
        instead. A failure is always an end, whatever the provider still sends."""
        translation = self._translation
        assert translation is not None
        out: Responses = []
        if not self._head_sent:
            if translation.head is None:
                if end or trailers:
                    raise RuntimeError("the answer ended without a head")
                return out
            if not self._body_seen:
                return self._instead(data, now)
            out.append(messages.response_head(*self._head(now)))
        failed = translation.failure is not None
        end = end or (failed and not trailers)
        if data:
            self.record.response_bytes += len(data)
            if self.record.ms_first_token is None and translation.content_began:
                self.record.ms_first_token = self._ms(now)
        out.extend(messages.chunks(messages.response_chunk, data, end=end))
        if trailers:
            out.append(trailers)
        if translation.done and self.record.ms_answer is None:
            self.record.ms_answer = self._ms(now)
        if end or trailers:
            self._finished(out)
        elif translation.done and self._linger_until is None:
            self._linger_until = now + LINGER
        elif out and self._accounting.is_due(now):
            out[-1] = messages.with_metadata(out[-1], self.metadata(self._accounting.estimate(translation.usage)))
        return out

    def _instead(self, data: bytes, now: float) -> Responses:
        """The answer failed before the first byte of its body: chunks of ours would be refused by Envoy, which answers
        with this instead."""
        translation = self._translation
        assert translation is not None
        assert translation.head is not None
        failure = translation.failure
        self._sum_up()
        reason = self.record.reason or (failure.kind if failure is not None else "provider_error")
        return self.answer(translation.head.status, translation.head.headers, data, reason, now)

    def _bodiless(self, data: bytes, now: float) -> Responses:
        """The provider sent a head only; no chunk can follow, so a body goes out together with the head."""
        set_headers, remove = self._head(now)
        out = [messages.response_head_with_body(set_headers, remove, data) if data
               else messages.response_head(set_headers, remove)]
        self.record.response_bytes += len(data)
        self._finished(out)
        return out

    def _head(self, now: float) -> tuple[dict[str, str], list[str]]:
        """Headers for the client and the provider's that do not cross."""
        assert self._translation is not None
        head = self._translation.head
        if head is None:
            raise RuntimeError("the answer ended without a head")
        self._head_sent = True
        self._commit_at = None
        self.record.status = head.status
        self.record.ms_head = self._ms(now)
        remove = [name for name, value in self._provider_headers.items() if len(value) > LONGEST_VALUE
                  or (name not in _PASSED and not name.startswith(_PASSED_PREFIXES))]
        return {":status": str(head.status), **head.headers}, remove

    def _local_reply(self, status: int, now: float) -> Responses:
        failure = Failure(kind="server", status=status if status >= 400 else 500,
                          message="The gateway ended the request before a provider was asked.")
        self.record.failed(failure, "error")
        return self._fail(failure, "local_reply", now)

    # ----------------------------------------------------------------------------------------------------------- ends

    def _fail(self, failure: Failure, reason: str, now: float) -> Responses:
        if not self._head_sent or self._translation is None:
            return super()._fail(failure, reason, now)
        self.done = True
        self.record.reason = reason
        try:
            data = self._translation.fail(failure)
        except Exception:
            # Envoy cuts the answer off: a broken stream must not look finished.
            return super()._fail(failure, reason, now)
        return messages.chunks(messages.response_chunk, data, end=True)

    def _finished(self, out: Responses) -> None:
        """The last message is in `out`: it takes the exact figures along."""
        self.done = True
        self._sum_up()
        out[-1] = messages.with_metadata(out[-1], self.metadata(self._figures()))

    def _closed_early(self) -> None:
        if self._translation is not None:
            self._sum_up()
            if self.record.outcome == "ok" and not self._translation.done:
                self.record.outcome = "client_closed"
        super()._closed_early()
        self.unanswered = self._phase is Phase.REQUEST

    def _sum_up(self) -> None:
        translation, record = self._translation, self.record
        assert translation is not None
        failure = translation.failure
        if failure is not None:
            record.failed(failure, "provider_error")
        record.outcome = record.outcome or "ok"
        record.finish = translation.finish_reason
        record.tool_calls = translation.tool_calls
        record.calls = translation.calls
        record.repairs = translation.repairs[:MAX_REPAIRS]
        record.repaired = len(translation.repairs)
        usage = self._accounting.usage(translation.usage, failure)
        record.usage = usage if usage.input or usage.output else None
        record.dropped, record.hints = translation.dropped.losses, translation.dropped.hints

    # ---------------------------------------------------------------------------------------------------------- figures

    def _names(self) -> dict[str, str | float | None]:
        record = self.record
        return {"rule": record.rule, "model": record.model, "provider_model": record.provider_model,
                "backend": record.backend, "api": record.api, "team": record.team, "attempt": record.attempt,
                "operation": record.operation}

    def _figures(self) -> Figures:
        """What was used, when all is over, and how it ended."""
        translation = self._translation
        assert translation is not None
        return self._accounting.figures(translation.usage, translation.failure)

    @property
    def _endpoint(self) -> Endpoint | None:
        return find_endpoint(self._headers.get(":path", ""))

    @property
    def _only_counts(self) -> bool:
        endpoint = self._endpoint
        return endpoint is not None and endpoint.operation == "count_tokens"
