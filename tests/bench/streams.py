"""Steady streams through one side: CPU per event, time on the way, memory per stream.

Every stream runs for the whole measurement; what is counted lies between two moments at which all of them run, so that
opening and closing cost nothing here. Several windows of one run give the spread.
"""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass, field

from tests.bench.load import Side, opened
from tests.bench.processes import cpu_seconds, resident_bytes
from tests.bench.sides import Running

RATES = {1: 100.0, 10: 50.0, 100: 12.0, 1000: 1.2, 2000: 0.6, 5000: 0.24, 8000: 0.15}
"""Streams -> events a second of each: the total stays where two cores, shared with the load, are half idle."""


@dataclass
class Window:
    """What one window cost: microseconds of CPU per event, events a second, milliseconds on the way."""

    processor: float
    envoy: float
    rate: float
    times: list[float] = field(default_factory=list)


@dataclass
class Measured:
    """All windows of one run."""

    streams: int
    windows: list[Window]
    processor_kb: float
    """Memory per stream."""
    envoy_kb: float

    def times(self) -> list[float]:
        return sorted(time for window in self.windows for time in window.times)


def share(values: list[float], part: float) -> float:
    """The value below which this share of the sorted values lies."""
    return values[min(int(len(values) * part), len(values) - 1)] if values else float("nan")


async def measure(running: Running, streams: int, seconds: float, windows: int) -> Measured:
    """`seconds`: the length of one window."""
    side: Side = running.side
    times: list[int] = []
    await warm(side)
    before = [resident_bytes(pids) for pids in (running.processor, running.envoy)]
    open_streams = await opened(side, f"steady-{RATES[streams]:g}", streams, times.append)
    try:
        await asyncio.sleep(1.0)
        found = []
        gc.collect()
        for _ in range(windows):
            times.clear()
            start = [cpu_seconds(pids) for pids in (running.processor, running.envoy)]
            await asyncio.sleep(seconds)
            spent = [cpu_seconds(pids) - then for pids, then in
                     zip((running.processor, running.envoy), start, strict=True)]
            events = len(times) or 1
            found.append(Window(spent[0] * 1e6 / events, spent[1] * 1e6 / events, len(times) / seconds,
                                [one / 1e6 for one in times]))
        after = [resident_bytes(pids) for pids in (running.processor, running.envoy)]
    finally:
        for stream in open_streams:
            stream.close()
    await asyncio.sleep(0.5)
    kilobytes = [(now - then) / streams / 1024 for now, then in zip(after, before, strict=True)]
    return Measured(streams, found, *kilobytes)


async def warm(side: Side) -> None:
    """Connections, caches and code are there before anything counts."""
    streams = await opened(side, "steady-50", 4, lambda _: None)
    await asyncio.sleep(0.5)
    for stream in streams:
        stream.close()
    await asyncio.sleep(0.2)
