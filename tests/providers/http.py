"""A small HTTP/1.1 server in a thread of its own, for scripted providers: requests in, scripted bytes out.

A provider subclasses `ScriptedServer` and turns each `Exchange` into a `Reply`; a reply is a list of body pieces and
gates, and says how it ends: properly, cut off, with a TCP reset, or never. Tests release gates and wait on events, so
nothing here sleeps. It never understands the body: that is the provider's part.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER on, zero seconds: closing sends RST instead of FIN."""


class Gate:
    """Holds a reply until the test opens it. `reached` is set when the reply stands before it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._open = False
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def open(self) -> None:
        with self._lock:
            self._open = True
            waiting, self._waiting = self._waiting, []
        for loop, event in waiting:
            with contextlib.suppress(RuntimeError):  # the server was stopped meanwhile
                loop.call_soon_threadsafe(event.set)

    async def passed(self) -> None:
        event = asyncio.Event()
        with self._lock:
            if not self._open:
                self._waiting.append((asyncio.get_running_loop(), event))
            else:
                event.set()
        self.reached.set()
        await event.wait()


@dataclass
class Reply:
    """An answer. `framing`: chunked, a content-length, or "close" (the end of the connection is the end of the body).

    `end`: "end" ends the body as its framing says; "cut" closes the connection in the middle of the framing; "reset"
    sends a TCP reset; "hang" sends nothing more until the peer leaves. `hold` is passed before the head goes out.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Sequence[bytes | Gate] = ()
    end: Literal["end", "cut", "reset", "hang"] = "end"
    framing: Literal["chunked", "length", "close"] = "chunked"
    hold: Gate | None = None


@dataclass
class Exchange:
    """One request as it came, and what became of its answer."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case; repeated ones joined with a comma."""
    raw: bytes
    connection: int
    closed: threading.Event = field(default_factory=threading.Event)
    """The peer closed the connection before the reply had ended."""
    finished: threading.Event = field(default_factory=threading.Event)
    """The reply was written to its end."""


class ScriptedServer:
    """Listens on a free loopback port from `start()` to `stop()`; `respond` is called in the server's thread."""

    def __init__(self) -> None:
        self.port = 0
        self.connections: set[Connection] = set()
        self.accepted = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        self._ready = threading.Event()
        self._stop = asyncio.Event()

    def respond(self, exchange: Exchange) -> Reply:
        raise NotImplementedError

    def start(self) -> None:
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the scripted provider did not start")

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def in_loop(self, work: Callable[[], object]) -> None:
        """Runs `work` in the server's thread and waits until it is done."""
        done = threading.Event()

        def run() -> None:
            work()
            done.set()

        self._loop.call_soon_threadsafe(run)
        if not done.wait(10):
            raise RuntimeError("the scripted provider hangs")

    def drop_connections(self) -> None:
        def drop() -> None:
            for connection in list(self.connections):
                if connection.transport is not None:
                    connection.transport.abort()

        self.in_loop(drop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        server = await self._loop.create_server(lambda: Connection(self), "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for connection in list(self.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(0)  # lets connection_lost run; not a wait for anything


class Connection(asyncio.Protocol):
    """One client connection: reads requests one after the other, plays the reply of each."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.number = 0
        self.transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._exchange: Exchange | None = None
        self._task: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------------------------------- transport's calls
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server.accepted += 1
        self.number = self.server.accepted
        self.server.connections.add(self)
        self._task = asyncio.get_running_loop().create_task(self._converse())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._arrived.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.connections.discard(self)
        if self._exchange is not None and not self._exchange.finished.is_set():
            self._exchange.closed.set()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # ------------------------------------------------------------------------------------------------ conversation
    async def _converse(self) -> None:
        assert self.transport is not None
        while not self.transport.is_closing():
            exchange = await self._read_request()
            self._exchange = exchange
            await self._play(self.server.respond(exchange), exchange)

    async def _read_request(self) -> Exchange:
        head = (await self._until(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers: dict[str, str] = {}
        for line in lines:
            if line:
                name, value = line.split(":", 1)
                name = name.strip().lower()
                headers[name] = f"{headers[name]},{value.strip()}" if name in headers else value.strip()
        if "100-continue" in headers.get("expect", ""):
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if "chunked" in headers.get("transfer-encoding", ""):
            body = await self._read_chunked()
        else:
            body = await self._exactly(int(headers.get("content-length", "0")))
        return Exchange(method, path, headers, body, self.number)

    async def _read_chunked(self) -> bytes:
        body = bytearray()
        while size := int((await self._until(b"\r\n")).split(b";")[0], 16):
            body += await self._exactly(size)
            await self._exactly(2)
        while await self._until(b"\r\n") != b"\r\n":
            pass
        return bytes(body)

    async def _until(self, mark: bytes) -> bytes:
        while (at := self._buffer.find(mark)) < 0:
            self._arrived.clear()
            await self._arrived.wait()
        return self._take(at + len(mark))

    async def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._arrived.clear()
            await self._arrived.wait()
        return self._take(count)

    def _take(self, count: int) -> bytes:
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    async def _play(self, reply: Reply, exchange: Exchange) -> None:
        if reply.hold is not None:
            await reply.hold.passed()
        self._write(head_of(reply, exchange))
        for step in reply.body:
            if isinstance(step, Gate):
                await step.passed()
            elif step:
                chunked = reply.framing == "chunked" and exchange.method != "HEAD"
                self._write(b"%x\r\n%b\r\n" % (len(step), step) if chunked else step)
                await self._writable.wait()
        await self._end(reply, exchange)

    async def _end(self, reply: Reply, exchange: Exchange) -> None:
        assert self.transport is not None
        if reply.end == "hang":
            await asyncio.Event().wait()
        if reply.end == "reset":
            exchange.finished.set()
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self.transport.abort()
            return
        if reply.end == "end" and reply.framing == "chunked":
            self._write(b"0\r\n\r\n")
        exchange.finished.set()
        if reply.end == "cut" or reply.framing == "close":
            self.transport.close()

    def _write(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)


def head_of(reply: Reply, exchange: Exchange) -> bytes:
    """The response head with the framing's own headers."""
    headers = dict(reply.headers)
    if reply.framing == "length":
        headers["content-length"] = str(sum(len(step) for step in reply.body if isinstance(step, bytes)))
    elif reply.framing == "close":
        headers["connection"] = "close"
    else:
        headers["transfer-encoding"] = "chunked"
    lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
