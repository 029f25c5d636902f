"""How late the event loop of a worker is: a timer that rings four times a second and looks at the clock.

A loop that is held up by long work (a huge JSON, a blocking call) delays every stream of its worker; nothing else shows
it. Each ring costs a few microseconds. It never does anything about what it sees.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

EVERY = 0.25
"""Seconds between two looks: a delay of this length is always seen, a shorter one as often as its share of it."""
REMEMBERED = 30.0
"""Seconds for which the worst delay is told, at most twice as long."""


class LagMonitor:
    """`tell` gets the delay of each look and the worst one of the last `REMEMBERED` seconds. `clock` is a steady one,
    in seconds; the loop's own stands still while callbacks run."""

    def __init__(self, tell: Callable[[float, float], None], *, loop: asyncio.AbstractEventLoop | None = None,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self._loop = loop or asyncio.get_running_loop()
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._worst = self._worst_before = 0.0
        self._turn = 0.0

    def start(self) -> None:
        """From now on, until `stop`."""
        self._turn = self._clock() + REMEMBERED
        self._again()

    def stop(self) -> None:
        """Rings no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _again(self) -> None:
        self._due = self._clock() + EVERY
        self._timer = self._loop.call_later(EVERY, self._ring)

    def _ring(self) -> None:
        now = self._clock()
        late = max(now - self._due, 0.0)
        if now >= self._turn:
            self._turn = now + REMEMBERED
            self._worst_before, self._worst = self._worst, 0.0
        self._worst = max(self._worst, late)
        self._tell(late, max(self._worst, self._worst_before))
        self._again()
