"""The transport on grpcio: its streams -> the calls of `extproc.transport.rpc`.

The widely used server, kept beside our own (`extproc.transport.native`) as the reference: both must behave the same.
One task per stream reads. Messages are sent by that task, or by a short-lived one while nothing is read.
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
    # Envoy pings every few seconds, also on silent streams. By default grpc closes such a connection.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    # One socket per process: sharing a port would balance connections, not streams.
    ("grpc.so_reuseport", 0),
]

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_GONE = (grpc.RpcError, grpc.aio.UsageError, grpc.aio.InternalError, asyncio.InvalidStateError)
"""The exceptions of grpcio when something is sent on a stream that has ended."""


class GrpcioServer:
    """Serves `methods`. Messages are bytes in both directions."""

    def __init__(self, methods: Methods) -> None:
        self._server = grpc.aio.server(options=OPTIONS)
        self._server.add_generic_rpc_handlers((_Handler(methods),))
        self.port = 0

    async def start(self, address: str) -> None:
        """Listens on `unix:/path` or `host:port`. Raises RuntimeError if the address cannot be used."""
        self.port = self._server.add_insecure_port(address)
        if not self.port:
            raise RuntimeError(f"cannot listen on {address}")
        await self._server.start()

    async def stop(self, grace: float) -> None:
        """Accepts nothing new and gives running streams `grace` seconds. May be called again with a shorter time."""
        await self._server.stop(grace)


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Finds the method for grpcio."""

    def __init__(self, methods: Methods) -> None:
        self._methods = {path: grpc.stream_stream_rpc_method_handler(_handler_for(method))
                         for path, method in methods.items()}

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return self._methods.get(details.method)


def _handler_for(method: Method) -> Callable[[object, grpc.aio.ServicerContext], object]:
    async def serve(_messages: object, context: grpc.aio.ServicerContext) -> None:
        metadata = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        peer = _Peer(context)
        call = method(metadata, peer)
        try:
            try:
                await _read_messages(call, peer, context)
            except asyncio.CancelledError:
                if not peer.ended:
                    raise
            await peer.finish()
        finally:
            peer.closed_by_client = True
            call.closed()

    return serve


async def _read_messages(call: Call, peer: _Peer, context: grpc.aio.ServicerContext) -> None:
    """Delivers messages until the call has ended the RPC."""
    while not peer.ended:
        peer.waits_for = Waiting.FOR_MESSAGES
        data = await context.read()
        peer.waits_for = Waiting.NOT
        if data is grpc.aio.EOF:
            call.half_closed()
            await peer.wait_until(lambda: peer.ended)
            return
        if call.message(data):
            await peer.flush()
        else:
            await peer.wait_until(peer.is_resumed)


class Waiting(Enum):
    """What the task of a stream waits for."""

    NOT = auto()
    """It runs, and sends what was queued before it waits again."""
    FOR_MESSAGES = auto()
    FOR_THE_CALL = auto()


class _Peer:
    """The client of one stream."""

    def __init__(self, context: grpc.aio.ServicerContext) -> None:
        self._context = context
        self._queue: deque[bytes] = deque()
        self._write_lock = asyncio.Lock()
        self._changed = asyncio.Event()
        self._resumed = False
        self._status: tuple[Status, str] | None = None
        self._task = asyncio.current_task()
        self._sending: asyncio.Task[None] | None = None
        self.waits_for = Waiting.NOT
        self.closed_by_client = False

    @property
    def ended(self) -> bool:
        return self._status is not None

    # --------------------------------------------------------------------------------------------- the interface `Peer`

    def send(self, message: bytes) -> None:
        if self.closed_by_client or self.ended:
            return
        self._queue.append(message)
        if self.waits_for is not Waiting.NOT and (self._sending is None or self._sending.done()):
            self._sending = asyncio.get_running_loop().create_task(self._send_quietly())

    def end(self, status: Status = Status.OK, text: str = "") -> None:
        if self.closed_by_client or self.ended:
            return
        self._status = (status, text)
        self._changed.set()
        if self.waits_for is Waiting.FOR_MESSAGES and self._task is not None:
            self._task.cancel()

    def lower_priority(self) -> None:
        """Every stream is a task here, and none has priority."""

    def resume(self) -> None:
        self._resumed = True
        self._changed.set()

    # ------------------------------------------------------------------------------------ called by the stream's task

    async def flush(self) -> None:
        """Passes everything that was sent to grpcio, which waits for the client's window."""
        async with self._write_lock:
            while self._queue:
                await self._context.write(self._queue.popleft())

    async def _send_quietly(self) -> None:
        try:
            await self.flush()
        except _GONE:
            return  # the client is gone, which the stream's task learns by itself

    def is_resumed(self) -> bool:
        """True if the call accepts messages again. Resets that state."""
        resumed, self._resumed = self._resumed, False
        return resumed or self.ended

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Waits for the call. What it has sent before has left."""
        await self.flush()
        self.waits_for = Waiting.FOR_THE_CALL
        while not condition():
            await self._changed.wait()
            self._changed.clear()
        self.waits_for = Waiting.NOT
        await self.flush()

    async def finish(self) -> None:
        """Sends the last messages and the status."""
        await self.flush()
        if self._status is not None and self._status[0] is not Status.OK:
            await self._context.abort(_CODES[int(self._status[0])], self._status[1])
