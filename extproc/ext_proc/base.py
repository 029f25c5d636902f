"""The base of the exchanges: exception handling around every step, refusals in the client's API, the record.

An exchange is one ext_proc stream without its I/O: messages and time in, messages out. The worker calls `receive` for
each message, `on_deadline` when `next_deadline` has passed, and `close` at the end of the stream. An exception inside
becomes an error response, so that the client never gets an untranslated body.
"""

from __future__ import annotations

from collections.abc import Mapping

from extproc.apis import CLIENT_APIS, FALLBACK_CLIENT_API
from extproc.apis.base import HttpError
from extproc.config import Config
from extproc.errors import BadRequest, Failure
from extproc.ext_proc import messages
from extproc.ext_proc.incoming import BodyChunk, EnvoyMessage, OtherMessage
from extproc.ext_proc.record import ClosedBy, Record

Responses = list[bytes]
"""Encoded `ProcessingResponse` messages, in order."""

METADATA_NAMESPACE = "extproc"
"""The namespace of the dynamic metadata that exchanges emit."""

LARGE_RESPONSE = 64 * 1024
"""Bytes. Larger responses that are not streamed are translated in a thread: they are scanned for calls and reasoning,
and split into events."""


class RefusedRequest(BadRequest):
    """A refusal with a reason for the access log, and additional headers."""

    def __init__(self, message: str, *, reason: str, headers: Mapping[str, str] | None = None, status: int = 400,
                 kind: str = "invalid_request", code: str | None = None) -> None:
        super().__init__(message, kind=kind, status=status, code=code)  # type: ignore[arg-type]
        self.reason = reason
        self.headers = dict(headers or {})


class Exchange:
    """One ext_proc stream. `request_id` identifies the exchange to client and log until Envoy's own id is known. Times
    are seconds of one monotonic clock."""

    # Slots, because instances with this many fields do not share the keys of their dictionaries.
    __slots__ = (
        "api",
        "began",
        "can_prepare",
        "config",
        "crash",
        "deadline_moved_up",
        "done",
        "last_message",
        "record",
        "unanswered",
    )

    hop = ""

    def __init__(self, config: Config, *, request_id: str, now: float) -> None:
        self.config = config
        self.record = Record(hop=self.hop, request_id=request_id)
        self.done = False
        """Nothing more is sent. Further messages are ignored."""
        self.deadline_moved_up = True
        """`next_deadline` may be sooner than at the last call. The owner of the timer clears this."""
        self.can_prepare = False
        """`prepare` has work to do."""
        self.crash: Exception | None = None
        """The exception that ended this exchange, for the log."""
        self.unanswered = False
        """The stream was ended from outside before the exchange replied to the request."""
        self.api = next(iter(CLIENT_APIS))
        """The name of the client API in which errors are encoded; the first one until the headers are known."""
        self.began = now
        self.last_message = now

    # ------------------------------------------------------------------------------------------ interface of the worker

    def receive(self, message: EnvoyMessage, now: float) -> Responses:
        """One message of Envoy -> the messages to send, in order."""
        self.last_message = now
        if self.done or (type(message) is OtherMessage and message.observed_only):
            return []
        try:
            return self._handle_message(message, now)
        except BadRequest as refusal:
            return self.refuse(refusal, now)
        except Exception as error:
            return self.fail(error, now)

    def on_deadline(self, now: float) -> Responses:
        """Does what is due: pings, timeouts."""
        if self.done:
            return []
        try:
            return self._handle_deadline(now)
        except BadRequest as refusal:
            return self.refuse(refusal, now)
        except Exception as error:
            return self.fail(error, now)

    def prepare(self) -> None:
        """Does work for the next message in advance. Called if `can_prepare` is set, after the messages were sent.
        Sends nothing. May raise; nothing is prepared then."""
        self.can_prepare = False

    def fail(self, error: Exception, now: float) -> Responses:
        """Ends the exchange after an exception."""
        self.crash = error
        failure = Failure(kind="server", status=500,
                          message=f"Internal error of the gateway; its log has more under {self.record.request_id}.")
        self.record.set_failure(failure, "error")
        return self._end_with_failure(failure, "internal_error", now)

    def close(self, now: float) -> Record:
        """The stream has ended, on either side. Returns the complete record."""
        if not self.done:
            self._record_early_end()
            self.done = True
        self.record.ms = self._elapsed_ms(now)
        self.record.round_times()
        return self.record

    @property
    def awaits_end_report(self) -> bool:
        """True if the stream was ended from outside while a response was due. The record is complete after
        `set_closed_by`."""
        return False

    def set_closed_by(self, by: ClosedBy) -> None:
        """Records who ended the stream."""

    @property
    def is_logged(self) -> bool:
        """True if this log has a line of the exchange. Envoy's access log has the lines of unanswered requests
        (`extproc.envoy_config.access_log`), unless it is off or belongs to a surrounding gateway."""
        return not self.unanswered or self.hop == "onehop" or self.config.access_log == "off"

    @property
    def next_deadline(self) -> float | None:
        """The time for `on_deadline`, unless a message comes before. A message moves it to a later time or leaves it;
        `deadline_moved_up` is set if it becomes sooner."""
        return None if self.done else self._request_due

    def should_offload(self, last: BodyChunk) -> bool:
        """True if `receive` of the last chunk of a body may take so long that a thread should run it."""
        return False

    # ----------------------------------------------------------------------------------------------- for the subclasses

    def _handle_message(self, message: EnvoyMessage, now: float) -> Responses:
        raise NotImplementedError

    def _handle_deadline(self, now: float) -> Responses:
        if now < self._request_due:
            return []
        raise RefusedRequest("The request did not arrive in time.", reason="request_timeout", status=408,
                             kind="timeout")

    @property
    def _request_due(self) -> float:
        """The time by which more of the request must arrive, or all of it, whichever is sooner."""
        timeouts = self.config.timeouts
        return min(self.last_message + timeouts.stream_idle, self.began + timeouts.request)

    def _end_with_failure(self, failure: Failure, reason: str, now: float) -> Responses:
        """Ends the exchange with this failure, before a response head was sent."""
        error = self._encode_error(failure)
        return self.reply(error.status, error.headers, error.body, reason, now)

    def _record_early_end(self) -> None:
        self.unanswered = True
        self.record.outcome = self.record.outcome or "client_closed"

    # --------------------------------------------------------------------------------------------------------- replies

    def refuse(self, refusal: BadRequest, now: float) -> Responses:
        """Ends the exchange with an error in the client's API."""
        failure = refusal.failure
        self.record.set_failure(failure, "error")
        error = self._encode_error(failure)
        headers = error.headers
        reason: str = failure.kind
        if isinstance(refusal, RefusedRequest):
            headers, reason = {**error.headers, **refusal.headers}, refusal.reason
        return self.reply(error.status, headers, error.body, reason, now)

    def reply(self, status: int, headers: Mapping[str, str], body: bytes, reason: str, now: float) -> Responses:
        """Ends the exchange with a response of the gateway's own."""
        self.done = True
        record = self.record
        record.status = status
        record.reason = reason
        record.outcome = record.outcome or ("ok" if status < 400 else "error")
        record.ms_head = record.ms_head or self._elapsed_ms(now)
        record.response_bytes += len(body)
        return [messages.immediate_response(status, headers, body, reason)]

    def _encode_error(self, failure: Failure) -> HttpError:
        return CLIENT_APIS.get(self.api, FALLBACK_CLIENT_API).encode_error(failure, self.record.request_id)

    def _elapsed_ms(self, now: float) -> float:
        return (now - self.began) * 1000
