"""Which parts must start or recover before requests are served. Every probe asks all parts; nothing is remembered.

`/readyz` and `extproc_ready` come from here. The admin server asks on a thread of its own; the checks run on the
parent's event loop.
"""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Callable
from concurrent.futures import TimeoutError as LateError

from extproc.gateway.envoy_admin import EnvoyAdmin
from extproc.gateway.workers import Workers

PATIENCE = 2.5
"""Seconds for all answers together: slightly longer than a worker's health check."""


class Readiness:
    """The parts of one running gateway. `limits` returns the rate limit process while it is needed, else None. `envoy`
    is None if Envoy runs elsewhere."""

    def __init__(self, loop: asyncio.AbstractEventLoop, workers: Workers, limits: Callable[[], Workers | None],
                 envoy: EnvoyAdmin | None) -> None:
        self._loop = loop
        self._workers = workers
        self._limits = limits
        self._envoy = envoy

    def missing(self) -> list[str]:
        """A sentence for each part that does not serve. For any thread except the event loop's own."""
        probe = asyncio.run_coroutine_threadsafe(self._missing(), self._loop)
        try:
            return probe.result(PATIENCE + 0.5)
        except LateError:
            probe.cancel()
            return ["the gateway's own process is too busy to ask its parts"]

    async def _missing(self) -> list[str]:
        counting = self._limits()
        workers, limits, envoy = await asyncio.gather(
            self._workers.any_serves(), counting.any_serves() if counting is not None else _no_process(),
            self._envoy_problem())
        found = []
        if envoy is not None:
            found.append(f"Envoy: {envoy}")
        if not workers:
            found.append("workers: none answers its health check")
        if counting is not None and not limits:
            found.append("limits: the process that counts does not answer its health check")
        return found

    async def _envoy_problem(self) -> str | None:
        """Why Envoy would not serve; None if it would."""
        if self._envoy is None:
            return None
        try:
            status, text = await asyncio.wait_for(asyncio.to_thread(self._envoy.ask, "GET", "/ready"), PATIENCE)
        except TimeoutError:
            return "does not answer"
        except (OSError, http.client.HTTPException):
            return "is not there"
        return None if status == 200 else text.strip()[:80].lower()


async def _no_process() -> bool:
    return False
