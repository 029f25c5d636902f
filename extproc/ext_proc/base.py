"""What both exchanges share: the guard around every step, refusals in the client's shape, the record.

An exchange is one ext_proc stream without its I/O: messages and time in, messages out. The server calls `receive` for
each message, `on_deadline` when `next_deadline` has passed, `closed` when the stream is gone. Whatever happens inside,
the client gets an error and never an untranslated body: an exception turns into an error answer here.
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
"""Bytes. Larger responses that are not streamed are translated in a thread: they are searched for calls and reasoning,
and cut into events."""


class RefusedRequest(BadRequest):
    """A refusal with a reason for the access log and headers of its own."""

    def __init__(self, message: str, *, reason: str, headers: Mapping[str, str] | None = None, status: int = 400,
                 kind: str = "invalid_request", code: str | None = None) -> None:
        super().__init__(message, kind=kind, status=status, code=code)  # type: ignore[arg-type]
        self.reason = reason
        self.headers = dict(headers or {})


class Exchange:
    """One ext_proc stream. `request_id` names the exchange towards client and log until Envoy's own id is known;
    times are seconds of any steady clock, always the same one."""

    # With its subclasses it has more fields than the dictionary of an instance shares with others of its class: one
    # would be built up for each.
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
        """Nothing more will be sent; messages that still come are ignored."""
        self.deadline_moved_up = True
        """`next_deadline` may be sooner than when it was last asked for; whoever sets the timer clears this."""
        self.can_prepare = False
        """There is work for `prepare`."""
        self.crash: Exception | None = None
        """The exception that ended this exchange, for the server's log."""
        self.unanswered = False
        """The stream ended from outside before anything was said about the request."""
        self.api = next(iter(CLIENT_APIS))
        """The name of the client API in whose shape errors are; until the headers are known, the first one."""
        self.began = now
        self.last_message = now

    # ------------------------------------------------------------------------------------------- what the server calls

    def receive(self, message: EnvoyMessage, now: float) -> Responses:
        """One message of Envoy -> what to send, in this order."""
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
        """What is due by now: pings, timeouts."""
        if self.done:
            return []
        try:
            return self._handle_deadline(now)
        except BadRequest as refusal:
            return self.refuse(refusal, now)
        except Exception as error:
            return self.fail(error, now)

    def prepare(self) -> None:
        """Does ahead what the next message will need, while others are at work: called once what was sent is on its
        way, when `can_prepare` says so. Sends nothing; may raise, and then nothing was prepared."""
        self.can_prepare = False

    def fail(self, error: Exception, now: float) -> Responses:
        """Ends the exchange after an exception."""
        self.crash = error
        failure = Failure(kind="server", status=500,
                          message=f"Internal error of the gateway; its log has more under {self.record.request_id}.")
        self.record.set_failure(failure, "error")
        return self._end_with_failure(failure, "internal_error", now)

    def close(self, now: float) -> Record:
        """The stream has ended, by whichever side; the record is complete now."""
        if not self.done:
            self._record_early_end()
            self.done = True
        self.record.ms = self._elapsed_ms(now)
        self.record.round_times()
        return self.record

    @property
    def awaits_end_report(self) -> bool:
        """The stream was ended from outside while an answer was wanted, by whom `ended` has yet to say; only then is
        the record complete."""
        return False

    def set_closed_by(self, by: ClosedBy) -> None:
        """Who ended it."""

    @property
    def is_logged(self) -> bool:
        """Whether the log gets a line of it. Envoy tells of what was never answered, as of everything that does not
        come here (`extproc.envoy_config.access_log`), unless it tells nothing; a gateway around us is not asked to."""
        return not self.unanswered or self.hop == "onehop" or self.config.access_log == "off"

    @property
    def next_deadline(self) -> float | None:
        """When `on_deadline` wants to be called, unless messages come before. With each message it moves on, or stays;
        where it becomes sooner, `deadline_moved_up` says so."""
        return None if self.done else self._request_due

    def should_offload(self, last: BodyChunk) -> bool:
        """True if `receive` of the last chunk of a body may take so long that a thread should run it."""
        return False

    # ------------------------------------------------------------------------------------------- what an exchange does

    def _handle_message(self, message: EnvoyMessage, now: float) -> Responses:
        raise NotImplementedError

    def _handle_deadline(self, now: float) -> Responses:
        if now < self._request_due:
            return []
        raise RefusedRequest("The request did not arrive in time.", reason="request_timeout", status=408,
                             kind="timeout")

    @property
    def _request_due(self) -> float:
        """Until when more of the request must come, and all of it."""
        timeouts = self.config.timeouts
        return min(self.last_message + timeouts.stream_idle, self.began + timeouts.request)

    def _end_with_failure(self, failure: Failure, reason: str, now: float) -> Responses:
        """Ends with this failure while no response head went out."""
        answer = self._encode_error(failure)
        return self.reply(answer.status, answer.headers, answer.body, reason, now)

    def _record_early_end(self) -> None:
        self.unanswered = True
        self.record.outcome = self.record.outcome or "client_closed"

    # --------------------------------------------------------------------------------------------------------- answers

    def refuse(self, refusal: BadRequest, now: float) -> Responses:
        """Ends with an error in the client's shape."""
        failure = refusal.failure
        self.record.set_failure(failure, "error")
        answer = self._encode_error(failure)
        headers = answer.headers
        reason: str = failure.kind
        if isinstance(refusal, RefusedRequest):
            headers, reason = {**answer.headers, **refusal.headers}, refusal.reason
        return self.reply(answer.status, headers, answer.body, reason, now)

    def reply(self, status: int, headers: Mapping[str, str], body: bytes, reason: str, now: float) -> Responses:
        """Ends with an answer of our own."""
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
