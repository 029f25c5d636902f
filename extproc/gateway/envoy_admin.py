"""Envoy's admin endpoint: what is asked of a running Envoy, and how it is drained.

`extproc up` asks the Envoy that it started, `extproc drain` one that runs elsewhere, such as in a container of its own.
Nothing here starts or ends a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import time

from extproc.config import parse_address

_PATIENCE = 5.0
"""Seconds for one answer."""
LISTENER_STAYS = 2.0
"""Seconds for which a draining Envoy with running requests still takes new connections, while it asks clients to go
elsewhere."""


class EnvoyAdmin:
    """The admin endpoint at `address`: `unix:/path` or `host:port`."""

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(self, method: str, path: str) -> tuple[int, str]:
        """(status, text). Raises OSError or HTTPException where nobody answers."""
        connection = self._connection()
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self._address.startswith("unix:"):
            return _UnixConnection(self._address.removeprefix("unix:"))
        host, port = parse_address(self._address)
        return http.client.HTTPConnection(host, port, timeout=_PATIENCE)

    def active(self) -> int:
        """Requests that clients wait for."""
        text = self.ask("GET", "/stats?filter=^http.edge.downstream_rq_active$")[1]
        return int(text.rpartition(": ")[2] or 0)

    async def drain(self, patience: float) -> bool:
        """Stops taking requests and waits for the running ones: at once when there are none, at most `patience`
        seconds. Returns whether all ended; an Envoy that does not answer has none."""
        end = time.monotonic() + patience
        with contextlib.suppress(OSError, http.client.HTTPException):
            await asyncio.to_thread(self.ask, "POST", "/drain_listeners?inboundonly&graceful")
            await self._idle(min(end, time.monotonic() + LISTENER_STAYS))
            # Close the door, then look once more for a request that came in between.
            await asyncio.to_thread(self.ask, "POST", "/drain_listeners?inboundonly")
            return await self._idle(end)
        return True

    async def _idle(self, end: float) -> bool:
        """Whether no request runs any more before the clock says `end`."""
        while await asyncio.to_thread(self.active) > 0:
            if time.monotonic() > end:
                return False
            await asyncio.sleep(0.05)
        return True


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("envoy", timeout=_PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_PATIENCE)
        self.sock.connect(self._path)
