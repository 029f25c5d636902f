"""What is missing before a request would be served: each part of the gateway is asked, now, and nothing is remembered.

`/readyz` and `extproc_ready` come from here. The admin server asks on a thread of its own; the questions run on the
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
"""Seconds for all answers together: a little longer than for a worker's health."""


class Readiness:
    """The parts of one running gateway. `counting` is the process that counts limits while it is needed, else None;
    `envoy` is None where Envoy runs elsewhere."""

    def __init__(self, loop: asyncio.AbstractEventLoop, workers: Workers, counting: Callable[[], Workers | None],
                 envoy: EnvoyAdmin | None) -> None:
        self._loop = loop
        self._workers = workers
        self._counting = counting
        self._envoy = envoy

    def missing(self) -> list[str]:
        """A sentence for each part that does not serve; for any thread but the loop's own."""
        asked = asyncio.run_coroutine_threadsafe(self._missing(), self._loop)
        try:
            return asked.result(PATIENCE + 0.5)
        except LateError:
            asked.cancel()
            return ["the gateway's own process is too busy to ask its parts"]

    async def _missing(self) -> list[str]:
        counting = self._counting()
        workers, limits, envoy = await asyncio.gather(
            self._workers.any_serves(), counting.any_serves() if counting is not None else _nobody(),
            self._envoy_says())
        found = []
        if envoy is not None:
            found.append(f"Envoy: {envoy}")
        if not workers:
            found.append("workers: none answers its health check")
        if counting is not None and not limits:
            found.append("limits: the process that counts does not answer its health check")
        return found

    async def _envoy_says(self) -> str | None:
        """Why it would not serve."""
        if self._envoy is None:
            return None
        try:
            status, text = await asyncio.wait_for(asyncio.to_thread(self._envoy.ask, "GET", "/ready"), PATIENCE)
        except TimeoutError:
            return "does not answer"
        except (OSError, http.client.HTTPException):
            return "is not there"
        return None if status == 200 else text.strip()[:80].lower()


async def _nobody() -> bool:
    return False
