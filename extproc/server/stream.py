"""One ext_proc stream of gRPC: reads Envoy's messages, feeds the exchange, writes its answers, keeps its time.

The exchange decides everything; here are only the reading loop, one timer and one lock per stream. The lock makes
answers of a message and of the timer follow one another. The worker calls `Streams.process` for every stream.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from functools import partial
from typing import Any, Protocol, TypeVar

import grpc

from extproc.config import Config
from extproc.exchange.base import Exchange, Responses
from extproc.exchange.pb.external_processor_pb2 import ProcessingRequest, ProcessingResponse
from extproc.exchange.roles import make_exchange
from extproc.server.generations import Accepted
from extproc.server.log import Log
from extproc.server.metrics import Metrics

SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"

T = TypeVar("T")


class Context(Protocol):
    """What is used of grpc's context of a stream."""

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...
    async def read(self) -> Any: ...
    async def write(self, message: ProcessingResponse) -> None: ...


class Streams:
    """All streams of a worker. `make` builds an exchange from a stream's metadata. What is in `accepted` holds for new
    streams; a running one keeps what it began with."""

    def __init__(self, config: Config, log: Log, metrics: Metrics, threads: Executor, *, debug_bodies: bool = False,
                 make: Callable[..., Exchange] | None = None) -> None:
        self._numbers: dict[int, tuple[Config, int]] = {}
        self._running: set[Exchange] = set()
        self.take(Accepted.only(config))
        self._log = log
        self._metrics = metrics
        self._threads = threads
        self._debug_bodies = debug_bodies
        self._make = make or partial(make_exchange, find=lambda rule: self.accepted.find(rule))
        self.active = 0
        self.began = 0
        """Streams since the start: tells a quiet worker from one that is idle by chance."""

    def handler(self) -> grpc.GenericRpcHandler:
        """The service, registered by its name: the messages are our own, the path is Envoy's."""
        method = grpc.stream_stream_rpc_method_handler(
            self.process, request_deserializer=ProcessingRequest.FromString,
            response_serializer=ProcessingResponse.SerializeToString)
        return grpc.method_handlers_generic_handler(SERVICE, {"Process": method})

    async def process(self, _messages: object, context: Context) -> None:
        """One stream, until Envoy ends it. Returning earlier would let Envoy pass the body on untranslated."""
        metadata = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        loop = asyncio.get_running_loop()
        exchange = self._make(self.accepted.serving.config, metadata, request_id=str(uuid.uuid4()), now=loop.time())
        stream = _Stream(exchange, context, self)
        self.active += 1
        self._running.add(exchange)
        self.began += 1
        self._metrics.began(exchange.hop)
        try:
            await stream.run()
        finally:
            self.active -= 1
            self._running.discard(exchange)
            self._finished(exchange, loop.time())

    def take(self, accepted: Accepted) -> None:
        """What holds for new streams from now on."""
        self.accepted = accepted
        used = {id(exchange.config) for exchange in self._running}
        self._numbers = {**{key: found for key, found in self._numbers.items() if key in used},
                         **{id(one.config): (one.config, one.number) for one in (accepted.serving, *accepted.known)}}

    def running(self, generation: int) -> bool:
        """Whether a stream runs on this generation's configuration."""
        return any(self._numbers[id(exchange.config)][1] == generation for exchange in self._running
                   if id(exchange.config) in self._numbers)

    def _finished(self, exchange: Exchange, now: float) -> None:
        record = exchange.closed(now)
        self._metrics.finished(record)
        if exchange.crash is not None:
            self._log.crash(record, exchange.crash)
        if record.hop != "select" or record.reason is not None or record.outcome != "ok":
            self._log.exchange(record)
        else:
            self._log.line("debug", "routed", request_id=record.request_id, rule=record.rule, ms=record.ms)

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Runs `work` in a thread; when the stream is cancelled meanwhile, still waits for it: two threads never
        touch one exchange."""
        future = asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise

    def show(self, message: ProcessingRequest | ProcessingResponse, request_id: str) -> None:
        """Logs a message's body when the debug switch is on."""
        if not self._debug_bodies:
            return
        if isinstance(message, ProcessingRequest):
            part = message.WhichOneof("request")
            if part in ("request_body", "response_body"):
                self._log.body(f"envoy->{part}", request_id, getattr(message, part).body)
            return
        part = message.WhichOneof("response")
        if part in ("request_body", "response_body"):
            mutation = getattr(message, part).response.body_mutation
            self._log.body(f"{part}->envoy", request_id, mutation.streamed_response.body)
        elif part == "immediate_response":
            self._log.body(f"{part}->envoy", request_id, message.immediate_response.body)


class _Stream:
    """The reading loop and the timer of one stream."""

    def __init__(self, exchange: Exchange, context: Context, streams: Streams) -> None:
        self._exchange = exchange
        self._context = context
        self._streams = streams
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._ringing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        self._set_timer()
        try:
            while True:
                message = await self._context.read()
                if message is grpc.aio.EOF:
                    return
                await self._take(message)
                self._set_timer()
        finally:
            await self._stop_timer()

    async def _take(self, message: ProcessingRequest) -> None:
        exchange, streams = self._exchange, self._streams
        streams.show(message, exchange.record.request_id)
        async with self._turn:
            if exchange.is_heavy(message):
                answers = await streams.in_thread(exchange.receive, message, self._loop.time())
            else:
                answers = exchange.receive(message, self._loop.time())
            await self._send(answers)

    async def _send(self, answers: Responses) -> None:
        for answer in answers:
            self._streams.show(answer, self._exchange.record.request_id)
            await self._context.write(answer)

    # ------------------------------------------------------------------------------------------------------- the timer

    def _set_timer(self) -> None:
        """One timer per stream: it is moved only when something is due sooner; a later deadline is noticed when it
        rings."""
        due = self._exchange.next_deadline
        if due is None or (self._timer is not None and self._due <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_at(due, self._ring)

    def _ring(self) -> None:
        self._timer = None
        due = self._exchange.next_deadline
        if due is None:
            return
        if due > self._loop.time() + 0.001 or (self._ringing is not None and not self._ringing.done()):
            self._due = max(due, self._loop.time() + 0.01)
            self._timer = self._loop.call_at(self._due, self._ring)
            return
        self._ringing = self._loop.create_task(self._on_time())

    async def _on_time(self) -> None:
        try:
            async with self._turn:
                await self._send(self._exchange.on_time(self._loop.time()))
        except (grpc.RpcError, grpc.aio.UsageError, grpc.aio.InternalError, asyncio.InvalidStateError):
            return  # Envoy has gone; the reading loop learns it by itself.
        self._set_timer()

    async def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._ringing is not None and not self._ringing.done():
            self._ringing.cancel()
            await asyncio.wait([self._ringing])
