"""The transport of our own: sockets and time for `extproc.transport.http2`, on asyncio or uvloop.

`NativeServer` listens on a Unix socket or a TCP port; each connection is read into an `http2.Connection`, and what that
wants to say leaves in one write per wake-up, for all of its streams together. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
from contextlib import suppress
from typing import cast

from extproc.transport.http2.abuse_budget import Limits
from extproc.transport.http2.connection import Connection, Log
from extproc.transport.rpc import Methods

BACKLOG = 1024
"""Connections that wait to be accepted. Envoy opens one per thread and 1024 streams."""

HIGH, LOW = 256 * 1024, 64 * 1024
"""Bytes that the transport holds for a peer that reads slowly before nothing more is cut, and until it is again."""

_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""`localhost` may have an address of a kind that this machine has not."""

CONNECTIONS = 1024
"""At the same time. Envoy has one or two for each of its threads; a port may be open to others as well."""
LINGER = 1.0
"""Seconds in which the last bytes may leave for a peer that reads slowly."""


class NativeServer:
    """Serves `methods` on at most so many `connections` at once. `log(event, **details)` hears of broken connections
    and of calls that raised."""

    def __init__(self, methods: Methods, *, limits: Limits | None = None, log: Log | None = None,
                 connections: int = CONNECTIONS) -> None:
        self._methods = methods
        self._most = connections
        self._crowded = False
        """It was said already that there are too many."""
        self._limits = limits or Limits()
        self._log = log
        self._servers: list[asyncio.Server] = []
        self._files: list[tuple[str, os.stat_result]] = []
        self._connections: set[_Protocol] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self.port = 0
        """Of TCP; 0 on a Unix socket."""

    async def start(self, address: str) -> None:
        """Listens on `unix:/path` or `host:port`. A socket file that lies there is replaced. Raises RuntimeError when
        the address cannot be used."""
        loop = asyncio.get_running_loop()
        try:
            for one in await self._bind(address):
                create = loop.create_unix_server if one.family == socket.AF_UNIX else loop.create_server
                self._servers.append(await create(self._accept, sock=one, backlog=BACKLOG))
        except (OSError, ValueError) as error:
            raise RuntimeError(f"cannot listen on {address}: {error}") from error

    async def stop(self, grace: float) -> None:
        """Listens no more and gives running streams `grace` seconds; then, or at once, they end as UNAVAILABLE. May be
        called again with less patience."""
        self._remove_files()
        for server in self._servers:
            server.close()
        self._servers.clear()
        if grace > 0:
            for one in tuple(self._connections):
                one.drain()
            await self._until_empty(grace)
        for one in tuple(self._connections):
            one.shut()
        await self._until_empty(LINGER)
        for one in tuple(self._connections):
            one.abort()
        await self._until_empty(LINGER)

    # -------------------------------------------------------------------------------------------------------- listening

    async def _bind(self, address: str) -> list[socket.socket]:
        if address.startswith("unix:"):
            return [self._bind_file(address.removeprefix("unix:").replace("///", "/", 1))]
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdecimal():
            raise ValueError("neither unix:/path nor host:port")
        host = host.removeprefix("[").removesuffix("]")
        found = await asyncio.get_running_loop().getaddrinfo(
            host or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        sockets: list[socket.socket] = []
        missing: OSError | None = None
        for family, _, _, _, place in dict.fromkeys(found):
            try:
                sockets.append(self._bind_port(family, (place[0], self.port or int(port), *place[2:])))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    for one in sockets:
                        one.close()
                    raise
                missing = error
            else:
                self.port = sockets[0].getsockname()[1]
        if missing is not None and not sockets:
            raise missing
        return sockets

    def _bind_port(self, family: int, place: tuple[object, ...]) -> socket.socket:
        one = socket.socket(family, socket.SOCK_STREAM)
        try:
            # A port in TIME_WAIT may be used again. It is never shared: that would balance connections, not streams.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, place[0] != "::")
            one.bind(place)
        except OSError:
            one.close()
            raise
        return one

    def _bind_file(self, path: str) -> socket.socket:
        """Listens under another name first: whoever connects to `path` meanwhile finds the predecessor there."""
        with suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                raise FileExistsError(errno.EEXIST, "something else has this name")
        unborn = path[:-1] + "~"  # no longer than the path itself: what a socket's path may hold is short
        with suppress(FileNotFoundError):
            os.unlink(unborn)
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            one.bind(unborn)
            one.listen(BACKLOG)
            os.rename(unborn, path)
        except OSError:
            one.close()
            raise
        self._files.append((path, os.lstat(path)))
        return one

    def _remove_files(self) -> None:
        """Unless a successor listens there meanwhile."""
        for path, ours in self._files:
            with suppress(OSError):
                if os.path.samestat(os.lstat(path), ours):
                    os.unlink(path)
        self._files.clear()

    # ------------------------------------------------------------------------------------------------------ connections

    def _accept(self) -> _Protocol:
        return _Protocol(self, self._methods, self._limits, self._log)

    def joined(self, one: _Protocol) -> bool:
        """A connection is there. False: it must go, there are too many."""
        if len(self._connections) >= self._most:
            if self._log is not None and not self._crowded:
                self._log("too_many_connections", connections=len(self._connections))
            self._crowded = True
            return False
        self._connections.add(one)
        self._empty.clear()
        return True

    def left(self, one: _Protocol) -> None:
        """It is gone."""
        if one not in self._connections:
            return
        self._connections.remove(one)
        self._crowded = False
        if not self._connections:
            self._empty.set()

    async def _until_empty(self, patience: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._empty.wait()


class _Protocol(asyncio.Protocol):
    """One connection's socket and timer."""

    def __init__(self, server: NativeServer, methods: Methods, limits: Limits, log: Log | None) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._connection = Connection(methods, limits, self._loop.time(), self._wake, log)
        self._log = log
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = float("inf")
        self._closing = False

    # ---------------------------------------------------------------------------------------------- what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(HIGH, LOW)
        if not self._server.joined(self):
            transport.abort()
            return
        self._flush()

    def data_received(self, data: bytes) -> None:
        try:
            self._connection.receive(data, self._loop.time())
        except Exception as error:
            self._crashed(error)
            return
        self._flush()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._connection.pause(True)

    def resume_writing(self) -> None:
        self._connection.pause(False)
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._transport = None
        self._connection.lost()
        self._server.left(self)

    # -------------------------------------------------------------------------------------------- what the server calls

    def drain(self) -> None:
        self._connection.drain(self._loop.time())
        self._flush()

    def shut(self) -> None:
        self._connection.shut()
        self._flush()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # ----------------------------------------------------------------------------------------------------------- output

    def _wake(self) -> None:
        self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """One write of everything that goes out now."""
        connection, transport = self._connection, self._transport
        if transport is None:
            connection.take()
            return
        try:
            data = connection.take()
        except Exception as error:  # frames may have waited for this
            self._crashed(error)
            return
        if data:
            transport.write(data)
        if connection.finished:
            self._close()
            return
        if connection.more:
            self._wake()
        if connection.next_deadline < self._due:
            self._set_timer()

    def _crashed(self, error: Exception) -> None:
        """A bug of ours must not leave streams that never end."""
        if self._log is not None:
            self._log("connection_crashed", reason=f"{type(error).__name__}: {error}")
        self.abort()

    def _close(self) -> None:
        if self._transport is not None and not self._closing:
            self._closing = True
            self._transport.close()
            self._loop.call_later(LINGER, self.abort)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = self._connection.next_deadline
        self._timer = self._loop.call_at(self._due, self._ring)

    def _ring(self) -> None:
        self._timer, self._due = None, float("inf")
        self._connection.on_time(self._loop.time())
        self._flush()
