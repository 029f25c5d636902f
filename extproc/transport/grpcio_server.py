"""The transport on grpcio: its streams -> the calls of `extproc.transport.rpc`.

The server that everybody knows, kept beside our own (`extproc.transport.native`) as the reference: whatever holds on
one must hold on the other. Per stream one task reads; what is sent goes out by that task, or by a short one when
nothing is being read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import Enum, auto

import grpc

from extproc.transport.rpc import Call, Method, Methods, Status

OPTIONS: list[tuple[str, int]] = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Envoy pings every few seconds, also on silent streams; by default grpc closes such a connection.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    # One socket per process: sharing a port would balance connections, not streams.
    ("grpc.so_reuseport", 0),
]

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_GONE = (grpc.RpcError, grpc.aio.UsageError, grpc.aio.InternalError, asyncio.InvalidStateError)
"""What grpcio raises when something is sent on a stream that has ended."""


class GrpcioServer:
    """Serves `methods`; raw bytes both ways."""

    def __init__(self, methods: Methods) -> None:
        self._server = grpc.aio.server(options=OPTIONS)
        self._server.add_generic_rpc_handlers((_Handler(methods),))
        self.port = 0

    async def start(self, address: str) -> None:
        """Listens on `unix:/path` or `host:port`. Raises RuntimeError when the address cannot be used."""
        self.port = self._server.add_insecure_port(address)
        if not self.port:
            raise RuntimeError(f"cannot listen on {address}")
        await self._server.start()

    async def stop(self, grace: float) -> None:
        """Takes nothing new and gives running streams `grace` seconds. May be called again with less patience."""
        await self._server.stop(grace)


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """The methods, as grpcio asks for them."""

    def __init__(self, methods: Methods) -> None:
        self._methods = {path: grpc.stream_stream_rpc_method_handler(_serving(method))
                         for path, method in methods.items()}

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return self._methods.get(details.method)


def _serving(method: Method) -> Callable[[object, grpc.aio.ServicerContext], object]:
    async def serve(_messages: object, context: grpc.aio.ServicerContext) -> None:
        metadata = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        peer = _Peer(context)
        call = method(metadata, peer)
        try:
            try:
                await _read(call, peer, context)
            except asyncio.CancelledError:
                if not peer.ended:
                    raise
            await peer.finish()
        finally:
            peer.gone = True
            call.closed()

    return serve


async def _read(call: Call, peer: _Peer, context: grpc.aio.ServicerContext) -> None:
    """Until the call has ended the RPC."""
    while not peer.ended:
        peer.waits = Waits.FOR_MESSAGES
        data = await context.read()
        peer.waits = Waits.NO
        if data is grpc.aio.EOF:
            call.half_closed()
            await peer.until(lambda: peer.ended)
            return
        if call.message(data):
            await peer.flush()
        else:
            await peer.until(peer.is_resumed)


class Waits(Enum):
    """What a stream's task waits for."""

    NO = auto()
    """It runs, and sends what was queued before it waits again."""
    FOR_MESSAGES = auto()
    FOR_THE_CALL = auto()


class _Peer:
    """The client of one stream."""

    def __init__(self, context: grpc.aio.ServicerContext) -> None:
        self._context = context
        self._queue: deque[bytes] = deque()
        self._turn = asyncio.Lock()
        self._stirred = asyncio.Event()
        self._resumed = False
        self._status: tuple[Status, str] | None = None
        self._task = asyncio.current_task()
        self._sending: asyncio.Task[None] | None = None
        self.waits = Waits.NO
        self.gone = False

    @property
    def ended(self) -> bool:
        return self._status is not None

    # ------------------------------------------------------------------------------------------------ what a call calls

    def send(self, message: bytes) -> None:
        if self.gone or self.ended:
            return
        self._queue.append(message)
        if self.waits is not Waits.NO and (self._sending is None or self._sending.done()):
            self._sending = asyncio.get_running_loop().create_task(self._send_quietly())

    def end(self, status: Status = Status.OK, text: str = "") -> None:
        if self.gone or self.ended:
            return
        self._status = (status, text)
        self._stirred.set()
        if self.waits is Waits.FOR_MESSAGES and self._task is not None:
            self._task.cancel()

    def calm(self) -> None:
        """Every stream is a task here, and nobody waits for a turn."""

    def resume(self) -> None:
        self._resumed = True
        self._stirred.set()

    # ------------------------------------------------------------------------------------------ what its task calls

    async def flush(self) -> None:
        """Everything that was sent is with grpcio, which waits for the client's window."""
        async with self._turn:
            while self._queue:
                await self._context.write(self._queue.popleft())

    async def _send_quietly(self) -> None:
        try:
            await self.flush()
        except _GONE:
            return  # The client has gone; the stream's task learns it by itself.

    def is_resumed(self) -> bool:
        """Whether the call takes messages again, asked once."""
        resumed, self._resumed = self._resumed, False
        return resumed or self.ended

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for the call; what it sent before has left."""
        await self.flush()
        self.waits = Waits.FOR_THE_CALL
        while not condition():
            await self._stirred.wait()
            self._stirred.clear()
        self.waits = Waits.NO
        await self.flush()

    async def finish(self) -> None:
        """The last messages and the status."""
        await self.flush()
        if self._status is not None and self._status[0] is not Status.OK:
            await self._context.abort(_CODES[int(self._status[0])], self._status[1])
