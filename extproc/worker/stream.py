"""One ext_proc stream: Envoy's messages as bytes -> the exchange -> its responses as bytes, and the exchange's timer.

A `Call` of the seam (`extproc.transport.rpc`): whichever transport carries the messages, this is what they mean to the
worker. The exchange decides everything. This module adds one timer per stream and a thread for heavy work, during which
the stream accepts no message. There is no task and no lock: everything else happens between two wake-ups.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from itertools import count
from secrets import randbits
from uuid import uuid4

from google.protobuf.message import DecodeError

from extproc.config import Config
from extproc.ext_proc.base import Exchange, Responses
from extproc.ext_proc.incoming import BodyChunk, EnvoyMessage, read_message
from extproc.ext_proc.pb.external_processor_pb2 import ProcessingResponse
from extproc.ext_proc.record import ClosedBy
from extproc.ext_proc.roles import make_exchange
from extproc.process.log import Log
from extproc.transport.rpc import Methods, Peer, Status
from extproc.worker.exchange_log import log_body, log_crash, log_exchange
from extproc.worker.generations import Accepted
from extproc.worker.metrics import Metrics
from extproc.worker.stream_ends import EndReports

_LAST = (1 << 48) - 1
"""The largest last part of an id."""

SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"


class Streams:
    """All streams of a worker.

    `make` builds an exchange from a stream's metadata. New streams get the configuration in `accepted`; a running one
    keeps the one that it began with. Used on the event loop's thread only.
    """

    def __init__(self, config: Config, log: Log, metrics: Metrics, threads: Executor, *, debug_bodies: bool = False,
                 make: Callable[..., Exchange] | None = None) -> None:
        self.end_reports = EndReports()
        self._generation_numbers: dict[int, tuple[Config, int]] = {}
        self._running: set[Exchange] = set()
        self.set_accepted(Accepted.only(config))
        self._log = log
        self._metrics = metrics
        self.threads = threads
        self.debug_bodies = debug_bodies
        self._id_prefix, self._counter = str(uuid4())[:-12], count(randbits(48), randbits(48) | 1)
        """Request ids of this worker: the prefix is unique, none of 2^48 repeats, and none reveals how many there were.
        """
        self._next_id = ""
        """The next id, made while nobody waits for it."""
        self.make_exchange = make or partial(make_exchange, find_config=lambda rule: self.accepted.find(rule))
        self.active = 0
        self.began = 0
        """Streams since the start: tells a quiet worker from one that is idle by chance."""

    @property
    def methods(self) -> Methods:
        """The services by their paths. The messages are our own, the paths are Envoy's."""
        return {f"/{SERVICE}/Process": self.open, **self.end_reports.methods}

    def open(self, metadata: Mapping[str, str], peer: Peer) -> Stream:
        """A new stream."""
        loop = asyncio.get_running_loop()
        request_id, self._next_id = self._next_id or self._new_id(), ""
        exchange = self.make_exchange(self.accepted.serving.config, metadata, request_id=request_id, now=loop.time())
        self.active += 1
        self._running.add(exchange)
        self.began += 1
        self._metrics.began(exchange.hop)
        return Stream(exchange, peer, self, loop)

    def _new_id(self) -> str:
        return f"{self._id_prefix}{next(self._counter) & _LAST:012x}"

    def prepare_next_id(self) -> None:
        """Makes the id of the next stream."""
        self._next_id = self._next_id or self._new_id()

    def close(self, exchange: Exchange, now: float) -> None:
        """A stream has ended."""
        self.active -= 1
        self._running.discard(exchange)
        exchange.close(now)
        if exchange.awaits_end_report:
            record = exchange.record
            # Another gateway counts its attempts itself and does not report them.
            attempt = 0 if record.hop == "onehop" else record.attempt or 1
            self.end_reports.await_report(record.request_id, attempt, partial(self._ended, exchange))
        else:
            self._record(exchange)

    def _ended(self, exchange: Exchange, by: ClosedBy) -> None:
        exchange.set_closed_by(by)
        self._record(exchange)

    def _record(self, exchange: Exchange) -> None:
        """Counts and logs the exchange."""
        record = exchange.record
        self._metrics.finished(record)
        if exchange.crash is not None:
            log_crash(self._log, record, exchange.crash)
        if exchange.is_logged:
            log_exchange(self._log, record)
        else:
            self._log.write_event("debug", "routed", request_id=record.request_id, rule=record.rule, ms=record.ms)

    def set_accepted(self, accepted: Accepted) -> None:
        """New streams get this configuration."""
        self.accepted = accepted
        used = {id(exchange.config) for exchange in self._running}
        self._generation_numbers = {**{key: found for key, found in self._generation_numbers.items() if key in used},
                         **{id(one.config): (one.config, one.number) for one in (accepted.serving, *accepted.known)}}

    def is_generation_running(self, generation: int) -> bool:
        """True if a stream runs on this generation's configuration."""
        return any(self._generation_numbers[id(exchange.config)][1] == generation for exchange in self._running
                   if id(exchange.config) in self._generation_numbers)

    def log_request_body(self, message: EnvoyMessage, request_id: str) -> None:
        """Logs the body of a message, if the debug switch is on."""
        if isinstance(message, BodyChunk):
            direction = f"envoy->{'response' if message.response else 'request'}_body"
            log_body(self._log, direction, request_id, message.data)

    def log_response_body(self, response: bytes, request_id: str) -> None:
        """Logs the body of a response, if the debug switch is on."""
        message = ProcessingResponse.FromString(response)
        part = message.WhichOneof("response")
        if part in ("request_body", "response_body"):
            mutation = getattr(message, part).response.body_mutation
            log_body(self._log, f"{part}->envoy", request_id, mutation.streamed_response.body)
        elif part == "immediate_response":
            log_body(self._log, f"{part}->envoy", request_id, message.immediate_response.body)


class Stream:
    """One stream, from its first message to its end; a `Call`."""

    __slots__ = (
        "_busy",
        "_due",
        "_exchange",
        "_gone",
        "_half_closed",
        "_loop",
        "_peer",
        "_rest_deferred",
        "_streams",
        "_time",
        "_timer",
        "_urgent",
    )

    def __init__(self, exchange: Exchange, peer: Peer, streams: Streams, loop: asyncio.AbstractEventLoop) -> None:
        self._exchange = exchange
        self._peer = peer
        self._streams = streams
        self._loop = loop
        self._time = loop.time
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._busy = False
        self._half_closed = False
        self._gone = False
        self._urgent = True
        """The first token has not been sent."""
        self._rest_deferred = False
        """`_do_rest` will run."""
        self._defer_rest()

    # --------------------------------------------------------------------------------------- called by the transport

    def message(self, data: bytes) -> bool:
        exchange = self._exchange
        try:
            message = read_message(data)
        except DecodeError:
            self._peer.end(Status.INTERNAL, "the message is not a ProcessingRequest")
            return True
        if self._streams.debug_bodies:
            self._streams.log_request_body(message, exchange.record.request_id)
        if type(message) is BodyChunk and message.end and exchange.should_offload(message):
            self._busy = True
            work = self._loop.run_in_executor(
                self._streams.threads, _receive_in_thread, exchange, message, self._time())
            work.add_done_callback(self._on_heavy_work_done)
            return False
        if responses := exchange.receive(message, self._time()):
            self._send(responses)
            if self._urgent and exchange.record.ms_first_token is not None:
                self._urgent = False
                self._peer.lower_priority()
        if exchange.deadline_moved_up or exchange.can_prepare:
            self._defer_rest()
        return True

    def _defer_rest(self) -> None:
        """Work for which nobody waits is done soon, when what was sent has left."""
        if not self._rest_deferred:
            self._rest_deferred = True
            self._loop.call_soon(self._do_rest)

    def _do_rest(self) -> None:
        self._rest_deferred = False
        self._streams.prepare_next_id()
        if self._gone or self._busy:
            return
        self._set_timer()
        _prepare(self._exchange)

    def half_closed(self) -> None:
        # Ending before Envoy does would make it forward the body untranslated.
        self._half_closed = True
        if not self._busy:
            self._peer.end()

    def closed(self) -> None:
        self._gone = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._busy:  # else the thread still works on the exchange
            self._streams.close(self._exchange, self._time())

    # ------------------------------------------------------------------------------------------------------ heavy work

    def _on_heavy_work_done(self, work: asyncio.Future[Responses]) -> None:
        """Back from the thread. Two threads never use one exchange at a time."""
        self._busy = False
        if work.cancelled():
            responses = []
        elif error := work.exception():
            responses = self._exchange.fail(error if isinstance(error, Exception) else RuntimeError(repr(error)),
                                          self._time())
        else:
            responses = work.result()
        if self._gone:
            self._streams.close(self._exchange, self._time())
            return
        self._send(responses)
        if self._half_closed:
            self._peer.end()
            return
        self._defer_rest()
        self._peer.resume()

    def _send(self, responses: Responses) -> None:
        for response in responses:
            if self._streams.debug_bodies:
                self._streams.log_response_body(response, self._exchange.record.request_id)
            self._peer.send(response)

    # ------------------------------------------------------------------------------------------------------- the timer

    def _set_timer(self) -> None:
        """One timer per stream. It is moved only if something is due sooner; a later deadline is noticed when it fires.
        """
        self._exchange.deadline_moved_up = False
        due = self._exchange.next_deadline
        if due is None or (self._timer is not None and self._due <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._busy:
            return  # checked again when the thread is done
        now = self._time()
        due = self._exchange.next_deadline
        if due is None:
            return
        if due <= now + 0.001:
            self._send(self._exchange.on_deadline(max(now, due)))
            due = self._exchange.next_deadline
            if due is None:
                return
        self._due = max(due, now + 0.01)
        self._timer = self._loop.call_at(self._due, self._on_timer)


def _receive_in_thread(exchange: Exchange, message: BodyChunk, now: float) -> Responses:
    """Runs in a thread, with the preparation: that takes long for a large request, too."""
    responses = exchange.receive(message, now)
    _prepare(exchange)
    return responses


def _prepare(exchange: Exchange) -> None:
    if exchange.can_prepare:
        with suppress(Exception):  # it will be raised and handled again where the result is needed
            exchange.prepare()
