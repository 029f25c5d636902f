"""Envoy's admin endpoint: questions to a running Envoy, and its drain.

`extproc up` uses it for the Envoy that it started, `extproc drain` for one that runs elsewhere, such as in a container
of its own. Nothing here starts or ends a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import time

from extproc.config import parse_address

_PATIENCE = 5.0
"""Seconds for one response."""
LISTENER_STAYS = 2.0
"""Seconds for which a draining Envoy with running requests still accepts connections, while it asks clients to
reconnect elsewhere."""


class EnvoyAdmin:
    """The admin endpoint at `address`: `unix:/path` or `host:port`."""

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(self, method: str, path: str) -> tuple[int, str]:
        """Returns (status, text). Raises OSError or HTTPException if Envoy does not respond."""
        connection = self._connection()
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self._address.startswith("unix:"):
            return _UnixConnection(self._address.removeprefix("unix:"))
        host, port = parse_address(self._address)
        return http.client.HTTPConnection(host, port, timeout=_PATIENCE)

    def active_requests(self) -> int:
        """Requests for which clients wait."""
        text = self.ask("GET", "/stats?filter=^http.edge.downstream_rq_active$")[1]
        return int(text.rpartition(": ")[2] or 0)

    async def drain(self, patience: float) -> bool:
        """Stops accepting requests and waits for the running ones, for at most `patience` seconds.

        Returns whether all have ended. An Envoy that does not respond has none.
        """
        end = time.monotonic() + patience
        with contextlib.suppress(OSError, http.client.HTTPException):
            await asyncio.to_thread(self.ask, "POST", "/drain_listeners?inboundonly&graceful")
            await self._wait_until_idle(min(end, time.monotonic() + LISTENER_STAYS))
            # Close the listener, then check again for a request that arrived in between.
            await asyncio.to_thread(self.ask, "POST", "/drain_listeners?inboundonly")
            return await self._wait_until_idle(end)
        return True

    async def _wait_until_idle(self, end: float) -> bool:
        """Waits until no request runs. Returns False if the clock reaches `end` first."""
        while await asyncio.to_thread(self.active_requests) > 0:
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
