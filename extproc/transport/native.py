"""Our own transport: sockets and time for `extproc.transport.http2`, on asyncio or uvloop.

`NativeServer` listens on a Unix socket or a TCP port. Each connection's bytes go into an `http2.Connection`, whose
output leaves in one write per wake-up, for all of its streams together. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
from contextlib import suppress
from typing import cast

from extproc.transport.http2.abuse_budget import ConnectionLimits
from extproc.transport.http2.connection import Connection, Log
from extproc.transport.rpc import Methods

BACKLOG = 1024
"""Connections that wait to be accepted. Envoy opens one per thread and 1024 streams."""

HIGH, LOW = 256 * 1024, 64 * 1024
"""Bytes in the socket's write buffer above which no more frames are cut, and below which cutting continues."""

_UNAVAILABLE_FAMILY = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""`localhost` may have an address of a family that this machine does not support."""

CONNECTIONS = 1024
"""Concurrent connections. Envoy has one or two for each of its threads; a port may be open to others as well."""
LINGER = 1.0
"""Seconds in which the last bytes may leave to a peer that reads slowly."""


class NativeServer:
    """Serves `methods` on at most `connections` concurrent connections. `log(event, **details)` receives broken
    connections and calls that raised."""

    def __init__(self, methods: Methods, *, limits: ConnectionLimits | None = None, log: Log | None = None,
                 connections: int = CONNECTIONS) -> None:
        self._methods = methods
        self._max_connections = connections
        self._limit_logged = False
        """The connection limit was logged already."""
        self._limits = limits or ConnectionLimits()
        self._log = log
        self._servers: list[asyncio.Server] = []
        self._files: list[tuple[str, os.stat_result]] = []
        self._connections: set[_Protocol] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self.port = 0
        """The TCP port; 0 on a Unix socket."""

    async def start(self, address: str) -> None:
        """Listens on `unix:/path` or `host:port`. Replaces an existing socket file. Raises RuntimeError if the address
        cannot be used."""
        loop = asyncio.get_running_loop()
        try:
            for one in await self._bind(address):
                create = loop.create_unix_server if one.family == socket.AF_UNIX else loop.create_server
                self._servers.append(await create(self._accept, sock=one, backlog=BACKLOG))
        except (OSError, ValueError) as error:
            raise RuntimeError(f"cannot listen on {address}: {error}") from error

    async def stop(self, grace: float) -> None:
        """Stops listening and gives running streams `grace` seconds; then, or at once, they end as UNAVAILABLE. May be
        called again with a shorter time."""
        self._remove_files()
        for server in self._servers:
            server.close()
        self._servers.clear()
        if grace > 0:
            for one in tuple(self._connections):
                one.drain()
            await self._wait_until_empty(grace)
        for one in tuple(self._connections):
            one.shut_down()
        await self._wait_until_empty(LINGER)
        for one in tuple(self._connections):
            one.abort()
        await self._wait_until_empty(LINGER)

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
                if error.errno not in _UNAVAILABLE_FAMILY:
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
            # A port in TIME_WAIT may be reused. It is never shared: that would balance connections, not streams.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, place[0] != "::")
            one.bind(place)
        except OSError:
            one.close()
            raise
        return one

    def _bind_file(self, path: str) -> socket.socket:
        """Listens under a temporary path and renames it, so that clients which connect to `path` meanwhile reach the
        predecessor."""
        with suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                raise FileExistsError(errno.EEXIST, "something else has this name")
        temporary = path[:-1] + "~"  # no longer than `path`: the length of a socket's path is limited
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            one.bind(temporary)
            one.listen(BACKLOG)
            os.rename(temporary, path)
        except OSError:
            one.close()
            raise
        self._files.append((path, os.lstat(path)))
        return one

    def _remove_files(self) -> None:
        """Removes our socket files, unless a successor has replaced them."""
        for path, ours in self._files:
            with suppress(OSError):
                if os.path.samestat(os.lstat(path), ours):
                    os.unlink(path)
        self._files.clear()

    # ------------------------------------------------------------------------------------------------------ connections

    def _accept(self) -> _Protocol:
        return _Protocol(self, self._methods, self._limits, self._log)

    def register(self, one: _Protocol) -> bool:
        """Adds a connection. Returns False if there are too many; it must then be closed."""
        if len(self._connections) >= self._max_connections:
            if self._log is not None and not self._limit_logged:
                self._log("too_many_connections", connections=len(self._connections))
            self._limit_logged = True
            return False
        self._connections.add(one)
        self._empty.clear()
        return True

    def unregister(self, one: _Protocol) -> None:
        """The connection is closed."""
        if one not in self._connections:
            return
        self._connections.remove(one)
        self._limit_logged = False
        if not self._connections:
            self._empty.set()

    async def _wait_until_empty(self, patience: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._empty.wait()


class _Protocol(asyncio.Protocol):
    """The socket and timer of one connection."""

    def __init__(self, server: NativeServer, methods: Methods, limits: ConnectionLimits, log: Log | None) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._connection = Connection(methods, limits, self._loop.time(), self._schedule_flush, log)
        self._log = log
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = float("inf")
        self._closing = False

    # ---------------------------------------------------------------------------------------- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(HIGH, LOW)
        if not self._server.register(self):
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
        self._connection.set_write_paused(True)

    def resume_writing(self) -> None:
        self._connection.set_write_paused(False)
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._transport = None
        self._connection.on_connection_lost()
        self._server.unregister(self)

    # -------------------------------------------------------------------------------------------- called by the server

    def drain(self) -> None:
        self._connection.drain(self._loop.time())
        self._flush()

    def shut_down(self) -> None:
        self._connection.shut_down()
        self._flush()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # ----------------------------------------------------------------------------------------------------------- output

    def _schedule_flush(self) -> None:
        self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Writes all current output at once."""
        connection, transport = self._connection, self._transport
        if transport is None:
            connection.take_output()
            return
        try:
            data = connection.take_output()
        except Exception as error:  # it may process postponed frames
            self._crashed(error)
            return
        if data:
            transport.write(data)
        if connection.finished:
            self._close()
            return
        if connection.has_output:
            self._schedule_flush()
        if connection.next_deadline < self._due:
            self._set_timer()

    def _crashed(self, error: Exception) -> None:
        """A bug here must not leave streams that never end."""
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
        self._timer = self._loop.call_at(self._due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer, self._due = None, float("inf")
        self._connection.on_timer(self._loop.time())
        self._flush()
