"""The delay of the event loop, measured by a timer, without real waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from extproc.worker.worker import LAG_INTERVAL, WORST_LAG_WINDOW, LagMonitor


class Loop:
    """A loop whose only timer fires on the test's request."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timer: Callable[[], None] | None = None
        self.cancelled = False

    def call_later(self, delay: float, ring: Callable[[], None]) -> Any:
        assert delay == LAG_INTERVAL
        self.timer = ring
        return self

    def cancel(self) -> None:
        self.cancelled = True

    def ring(self, late: float = 0.0) -> None:
        self.now += LAG_INTERVAL + late
        assert self.timer is not None
        self.timer()


class Watched:
    """A monitor on such a loop, and its reports."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.told: list[tuple[float, float]] = []
        self.monitor = LagMonitor(self._note, loop=cast(asyncio.AbstractEventLoop, self.loop),
                                  clock=lambda: self.loop.now)
        self.monitor.start()

    def _note(self, late: float, worst: float) -> None:
        self.told.append((round(late, 3), round(worst, 3)))


def test_each_measurement_reports_its_delay_and_the_worst() -> None:
    watched = Watched()
    for late in (0.0, 0.4, 0.1):
        watched.loop.ring(late)
    assert watched.told == [(0.0, 0.0), (0.4, 0.4), (0.1, 0.4)]


def test_a_timer_that_fires_early_is_not_late() -> None:
    watched = Watched()
    watched.loop.ring(-0.001)
    assert watched.told == [(0.0, 0.0)]


def test_the_worst_is_forgotten_after_a_while() -> None:
    watched = Watched()
    watched.loop.ring(1.5)
    for _ in range(round(WORST_LAG_WINDOW / LAG_INTERVAL)):
        watched.loop.ring()
    assert watched.told[-1] == (0.0, 1.5)
    for _ in range(round(WORST_LAG_WINDOW / LAG_INTERVAL)):
        watched.loop.ring()
    assert watched.told[-1] == (0.0, 0.0)


def test_it_stops() -> None:
    watched = Watched()
    watched.monitor.stop()
    assert watched.loop.cancelled


def test_a_blocked_loop_is_noticed() -> None:
    """A real loop: the next measurement shows the blocking work."""
    async def play() -> list[float]:
        delays: list[float] = []
        clock = [0.0]
        looked = asyncio.Event()

        def tell(late: float, worst: float) -> None:
            delays.append(late)
            looked.set()

        monitor = LagMonitor(tell, clock=lambda: clock[0])
        monitor.start()
        clock[0] += LAG_INTERVAL + 0.7  # what the clock shows when the loop comes round again
        async with asyncio.timeout(5):
            await looked.wait()
        monitor.stop()
        return delays

    assert asyncio.run(play())[0] == pytest.approx(0.7)
