"""What processes cost: CPU seconds and resident memory from /proc, for the gateway's workers and Envoy alike."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PAGE = 4096


def cpu_seconds(pids: Iterable[int]) -> float:
    """Time on a CPU of all threads since they began, to the nanosecond (scheduler statistics, not clock ticks)."""
    total = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def resident_bytes(pids: Iterable[int]) -> int:
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE for pid in pids)


def machine_ticks() -> tuple[int, int]:
    """Clock ticks of all CPUs since the machine began: all of them, and those in which they were idle."""
    ticks = [int(one) for one in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks), ticks[3] + ticks[4]


def busy_since(before: tuple[int, int]) -> float:
    """The part of all CPUs that was busy since then."""
    ticks, idle = (now - then for now, then in zip(machine_ticks(), before, strict=True))
    return 1 - idle / ticks
