"""The backend hop: one attempt at one provider, translated both ways; also the whole of one-hop mode.

Envoy's messages in, Envoy's messages out, a `Translation` in between. `RequestHalf` sends the request; this module
handles times, the response and its end. The response head is withheld until the provider's first byte, because Envoy
accepts body chunks only after it has sent some itself (if a further attempt remains: until the first content or
`commit_after`). A failure before that is a status and fails over. Every exchange ends with a response or an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from extproc.apis.shared.provider_errors import kind_of_status
from extproc.config import Config
from extproc.endpoints import api_of
from extproc.errors import GATEWAY_REFUSALS, Failure, triggers_failover
from extproc.ext_proc import messages
from extproc.ext_proc.accounting import Figures
from extproc.ext_proc.attempt import AttemptTranslation, make_translation
from extproc.ext_proc.base import LARGE_RESPONSE, METADATA_NAMESPACE, Responses
from extproc.ext_proc.incoming import BodyChunk, EnvoyMessage, HeadersMessage, TrailersMessage
from extproc.ext_proc.record import MAX_REPAIRS, ClosedBy, Record
from extproc.ext_proc.request_half import Phase, RequestHalf
from extproc.ext_proc.select import refuse_trailers
from extproc.headers import LONGEST_FORWARDED_VALUE, REMOVED_FROM_RESPONSE, RESPONSE_TO_TRANSLATION

TICK = 1.0
"""The least number of seconds between two ticks while a response streams."""

FIRST_TOKEN_TIMEOUT = "first_token_timeout"
"""The reason in the log of an attempt that got no first token in time."""

STREAM_BROKEN = "stream_broken"
"""The reason in the log of a response whose connection to the provider broke. Envoy resets it at the client."""

PROVIDER_CLOSE_TIMEOUT = 1.0
"""Seconds that a complete response waits for the provider to close, so that its connection can be reused."""


class TranslateExchange(RequestHalf):
    """One attempt. `backend`: the name in the filter's gRPC metadata. `one_hop`: there was no edge hop. `make`: makes
    the Translation. `find_config`: id of a rule -> the configuration that has it, for requests that the edge hop routed
    by an earlier configuration."""

    __slots__ = (
        "_body_seen",
        "_commit_at",
        "_commit_on_body",
        "_head_sent",
        "_next_tick",
        "_provider_close_due",
        "_provider_headers",
    )

    def __init__(self, config: Config, backend: str, *, request_id: str, now: float, one_hop: bool = False,
                 make: Callable[..., AttemptTranslation] = make_translation,
                 find_config: Callable[[str], Config | None] | None = None) -> None:
        super().__init__(config, backend, request_id=request_id, now=now, one_hop=one_hop, make=make,
                         find_config=find_config)
        self._provider_headers: dict[str, str] = {}
        self._head_sent = False
        self._body_seen = False
        self._commit_on_body = False
        self._next_tick = now
        self._commit_at: float | None = None
        self._provider_close_due: float | None = None

    def close(self, now: float) -> Record:
        record = super().close(now)
        record.retried = self._is_retried and triggers_failover(record.status)
        if self._translation is not None:
            self._translation.close()
        return record

    @property
    def _is_retried(self) -> bool:
        """True if the attempt failed and a further one remains."""
        choice = self._choice
        return self.record.outcome in ("error", "provider_error") and choice is not None and not choice.last

    @property
    def awaits_end_report(self) -> bool:
        return self.record.outcome == "client_closed" and self._phase is not Phase.REQUEST

    def set_closed_by(self, by: ClosedBy) -> None:
        record = self.record
        record.closed_by = by
        # If the connection breaks before the provider's head, Envoy sends a reply that the processor sees.
        if by == "provider" or (by == "unknown" and self._phase is Phase.RESPONSE):
            record.outcome, record.failure, record.reason = "provider_error", "server", STREAM_BROKEN
            record.retried = self._is_retried and not self._head_sent
        elif by == "gateway":
            record.outcome, record.reason = "error", "gateway_stopped"

    # ---------------------------------------------------------------------------------------------- messages and times

    def should_offload(self, last: BodyChunk) -> bool:
        if last.response:  # a response that is not streamed is decoded and encoded at its end
            return not self._head_sent and self._accounting.received_bytes + len(last.data) > LARGE_RESPONSE
        if self._admission is not None:
            return self._admission.should_offload(last.data)
        return "content-encoding" in self._headers or self._body.should_offload(last.data)

    @property
    def next_deadline(self) -> float | None:
        if self.done:
            return None
        if self._phase is Phase.RESPONSE:
            due = self._next_tick
            for other in (self._commit_at, self._first_token_due, self._provider_close_due):
                if other is not None and other < due:
                    due = other
            return due
        if self._phase is Phase.PROVIDER:
            due = self._sent_at + self.config.timeouts.idle
            return due if self._first_token_deadline is None else min(due, self._first_token_deadline)
        return super().next_deadline

    def _handle_message(self, message: EnvoyMessage, now: float) -> Responses:
        if type(message) is BodyChunk:
            return self._response_body(message, now) if message.response else self._request_body(message, now)
        if type(message) is HeadersMessage:
            return self._response_head(message, now) if message.response else self._request_head(message, now)
        if type(message) is TrailersMessage:
            if message.response:
                return self._response_trailers(message, now)
            if self._phase is not Phase.REQUEST:
                return []
            raise refuse_trailers()
        raise RuntimeError("a message without a part")

    def _handle_deadline(self, now: float) -> Responses:
        if self._phase is Phase.REQUEST:
            return super()._handle_deadline(now)
        if self._phase is Phase.PROVIDER:
            return self._check_provider_timeouts(now)
        assert self._translation is not None
        if self._provider_close_due is not None and now >= self._provider_close_due:
            return self._send_output(b"", now, end=True)
        if self._first_token_due is not None and now >= self._first_token_due:
            return self._fail_first_token(now)
        if self._commit_at is not None and now >= self._commit_at:
            self._commit_at = None
            self._commit()
        out = self._send_output(self._translation.tick(now), now)
        self._next_tick = now + TICK
        if self._head_sent:  # thousands of quiet streams need no tick every second
            self._next_tick = max(self._next_tick, self._translation.due)
        return out

    # ---------------------------------------------------------------------------------------------- before the response

    def _check_provider_timeouts(self, now: float) -> Responses:
        """No response head has arrived. A status can still be sent while Envoy waits for the provider."""
        if self._first_token_deadline is not None and now >= self._first_token_deadline:
            failure = self._first_token_failure()
            self.record.set_failure(failure, "provider_error")
            return self._end_with_failure(failure, FIRST_TOKEN_TIMEOUT, now)
        idle = self.config.timeouts.idle
        if now < self._sent_at + idle:
            return []
        failure = Failure(kind="timeout", status=504, message=f"The provider sent nothing for {idle:g} seconds.")
        self.record.set_failure(failure, "provider_error")
        return self._end_with_failure(failure, "provider_timeout", now)

    @property
    def _first_token_due(self) -> float | None:
        """The deadline of the first token; None after it, or without a limit."""
        if self._first_token_deadline is None:
            return None
        translation = self._translation
        waiting = translation is not None and not translation.received_output and not translation.done
        return self._first_token_deadline if waiting else None

    def _first_token_failure(self) -> Failure:
        assert self._first_token_deadline is not None
        seconds = round(self._first_token_deadline - self._sent_at, 3)
        return Failure(kind="timeout", status=504, message=f"The provider sent no token for {seconds:g} seconds.")

    # --------------------------------------------------------------------------------------------------------- response

    def _response_head(self, message: HeadersMessage, now: float) -> Responses:
        headers = self._provider_headers = message.headers
        code = headers.get(":status", "0")
        status = 200 if code == "200" else int(code)
        translation = self._translation
        if self._phase is not Phase.PROVIDER or translation is None:
            return self._local_reply(status, message.attributes, now)
        self._phase = Phase.RESPONSE
        self.deadline_moved_up = True
        self._next_tick = now + TICK
        self._accounting.note_response(code, now)
        translation.start(status, {name: headers[name] for name in RESPONSE_TO_TRANSLATION[tuple(headers)]})
        if message.end:
            return self._respond_with_head_only(translation.finish(), now)
        if self._choice is None or self._choice.last:
            # A body of another type may still be an error.
            self._commit_on_body = headers.get("content-type", "").strip().lower().startswith("text/event-stream")
        else:
            self._commit_at = max(now + self.config.timeouts.commit_after, self._first_token_deadline or 0)
        return self._send_output(translation.tick(now), now)

    def _commit(self) -> None:
        """Ends withholding, now or at the first byte of the body."""
        self._commit_on_body = True
        if self._body_seen and self._translation is not None:
            self._translation.commit()

    def _fail_first_token(self, now: float) -> Responses:
        """The provider sent a head but no token. If the head is still withheld, the error is a status, which triggers a
        further attempt; else it is an error event."""
        assert self._translation is not None
        self.record.reason = FIRST_TOKEN_TIMEOUT
        return self._send_output(self._translation.fail(self._first_token_failure()), now, end=True)

    def _response_body(self, part: BodyChunk, now: float) -> Responses:
        translation = self._translation
        assert translation is not None
        if not self._body_seen:
            self._body_seen = True
            if self._commit_on_body:
                translation.commit()
        self._accounting.received_bytes += len(part.data)
        data = translation.feed(part.data, now) if part.data else b""
        if not part.end:
            return self._send_output(data, now) if data or translation.done or not self._head_sent else []
        return self._send_output(data + translation.finish(), now, end=True)

    def _response_trailers(self, message: TrailersMessage, now: float) -> Responses:
        assert self._translation is not None
        trailers = messages.response_trailers(message.headers)
        return self._send_output(self._translation.finish(), now, trailers=trailers)

    def _send_output(self, data: bytes, now: float, *, end: bool = False,
                     trailers: bytes | None = None) -> Responses:
        """Sends the output of the Translation. `end`: these are the last bytes. `trailers`: an encoded message that
        follows them and ends the response instead. A failure always ends it, whatever the provider still sends."""
        translation = self._translation
        assert translation is not None
        out: Responses = []
        if not self._head_sent:
            if translation.head is None:
                if end or trailers:
                    raise RuntimeError("the response ended without a head")
                return out
            if not self._body_seen:
                return self._fail_before_body(data, now)
            out.append(messages.response_head(*self._begin_response(now)))
        failed = translation.failure is not None
        end = end or (failed and not trailers)
        if data:
            self.record.response_bytes += len(data)
            if self.record.ms_first_token is None and translation.content_began:
                self.record.ms_first_token = self._elapsed_ms(now)
        out.extend(messages.body_chunks(messages.RESPONSE_BODY, data, end=end))
        if trailers:
            out.append(trailers)
        if translation.done and self.record.ms_response is None:
            self.record.ms_response = self._elapsed_ms(now)
        if end or trailers:
            self._complete(out)
        elif translation.done and self._provider_close_due is None:
            self._provider_close_due = now + PROVIDER_CLOSE_TIMEOUT
            self.deadline_moved_up = True
        elif out and self._accounting.is_estimate_due(now):
            figures = self._accounting.estimated_figures(translation.usage)
            out[-1] = messages.append_metadata(out[-1], METADATA_NAMESPACE, figures)
        return out

    def _fail_before_body(self, data: bytes, now: float) -> Responses:
        """The response failed before the first byte of its body. Envoy would refuse body chunks, so the error is an
        immediate response."""
        translation = self._translation
        assert translation is not None
        assert translation.head is not None
        failure = translation.failure
        self._record_result()
        reason = self.record.reason or (failure.kind if failure is not None else "provider_error")
        return self.reply(translation.head.status, translation.head.headers, data, reason, now)

    def _respond_with_head_only(self, data: bytes, now: float) -> Responses:
        """The provider sent a head without a body. No chunk can follow, so a body is sent together with the head."""
        set_headers, remove = self._begin_response(now)
        out = [messages.response_head_with_body(set_headers, remove, data) if data
               else messages.response_head(set_headers, remove)]
        self.record.response_bytes += len(data)
        self._complete(out)
        return out

    def _begin_response(self, now: float) -> tuple[dict[str, str], Sequence[str]]:
        """The headers for the client, and the names of the provider's headers that do not cross."""
        assert self._translation is not None
        head = self._translation.head
        if head is None:
            raise RuntimeError("the response ended without a head")
        self._head_sent = True
        self._commit_at = None
        self.record.status = head.status
        self.record.ms_head = self._elapsed_ms(now)
        given = self._provider_headers
        remove: Sequence[str] = REMOVED_FROM_RESPONSE[tuple(given)]
        if max(map(len, given.values()), default=0) > LONGEST_FORWARDED_VALUE:
            remove = [name for name, value in given.items() if name in remove or len(value) > LONGEST_FORWARDED_VALUE]
        return {":status": str(head.status), **head.headers}, remove

    def _local_reply(self, status: int, attributes: Mapping[str, str], now: float) -> Responses:
        """Rewrites a local reply of Envoy into an error of the client's API. It may arrive before the request is
        complete. If a filter before ours refused the request (Envoy Gateway checks keys there), no part of the request
        came here, and only `attributes` have its path."""
        if not self.record.path and (target := attributes.get("request.path")):
            self.api = self.record.api = api_of(target, {})
            self.record.path = target.partition("?")[0][:200]
            self.record.request_id = attributes.get("request.id") or self.record.request_id
        status = status if status >= 400 else 500
        kind = kind_of_status(status)
        message = GATEWAY_REFUSALS.get(kind, "The gateway ended the request before a provider was asked.")
        failure = Failure(kind=kind, status=status, message=message)
        self.record.set_failure(failure, "error")
        return self._end_with_failure(failure, "local_reply", now)

    # -------------------------------------------------------------------------------------------------------------- end

    def _end_with_failure(self, failure: Failure, reason: str, now: float) -> Responses:
        if not self._head_sent or self._translation is None:
            return super()._end_with_failure(failure, reason, now)
        self.done = True
        self.record.reason = reason
        try:
            data = self._translation.fail(failure)
        except Exception:
            # Envoy resets the response: a broken stream must not look finished.
            return super()._end_with_failure(failure, reason, now)
        return messages.body_chunks(messages.RESPONSE_BODY, data, end=True)

    def _complete(self, out: Responses) -> None:
        """The last message is in `out`: adds the final figures to it."""
        self.done = True
        self._record_result()
        out[-1] = messages.append_metadata(out[-1], METADATA_NAMESPACE, self._final_figures())

    def _record_early_end(self) -> None:
        if self._translation is not None:
            self._record_result()
            if self.record.outcome == "ok" and not self._translation.done:
                self.record.outcome = "client_closed"
        super()._record_early_end()
        self.unanswered = self._phase is Phase.REQUEST

    def _record_result(self) -> None:
        translation, record = self._translation, self.record
        assert translation is not None
        failure = translation.failure
        if failure is not None:
            record.set_failure(failure, "provider_error")
        record.outcome = record.outcome or "ok"
        record.finish = translation.finish_reason
        record.tool_calls = translation.tool_calls
        record.calls = translation.calls
        loggable = self.config.events.loggable_name
        record.bad_calls = [replace(bad, tool=loggable(bad.tool)) for bad in translation.bad_calls]
        record.repairs = [replace(repair, tool=loggable(repair.tool)) for repair in translation.repairs[:MAX_REPAIRS]]
        record.repaired = len(translation.repairs)
        usage = self._accounting.final_usage(translation.usage, failure)
        record.usage = usage if usage.input or usage.output else None
        record.dropped, record.hints = translation.dropped.losses, translation.dropped.hints

    def _final_figures(self) -> Figures:
        """The tokens used, and the finish reason or the failure."""
        translation = self._translation
        assert translation is not None
        return self._accounting.final_figures(translation.usage, translation.failure)
