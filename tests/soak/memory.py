"""The memory of the gateway's processes over time, as a table, and whether it is flat."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

GROWTH, SLACK = 0.05, 4.0
"""What the last third may have more than the middle one: a share, and MB."""


def own_megabytes(pid: int) -> float:
    """The process's proportional share of memory (PSS); pages that processes share count by their part."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"no figure for {pid}")


@dataclass
class Memory:
    """Measures processes by name, every `every` seconds, until cancelled."""

    pids: Mapping[str, int]
    every: float
    rows: list[tuple[float, int, dict[str, float]]] = field(default_factory=list)

    async def watch(self, streams: list[int]) -> None:
        """`streams[0]` is the number of requests in progress, for the table."""
        began = time.monotonic()
        while True:
            self.rows.append((time.monotonic() - began, streams[0],
                              {name: own_megabytes(pid) for name, pid in self.pids.items()}))
            await asyncio.sleep(self.every)

    def thirds(self, name: str) -> tuple[float, float]:
        """The means of the middle third and of the last one."""
        values = [row[2][name] for row in self.rows]
        third = len(values) // 3
        return mean(values[third:-third]), mean(values[-third:])

    def grown(self) -> list[str]:
        """Processes that do not stay as they are."""
        found = []
        for name in self.pids:
            middle, last = self.thirds(name)
            if last > middle * (1 + GROWTH) + SLACK:
                found.append(f"{name}: {middle:.1f} MB, then {last:.1f} MB")
        return found

    def markdown(self) -> str:
        names = list(self.pids)
        lines = [f"| after | requests running | {' | '.join(f'{name}, MB' for name in names)} |",
                 f"|--:|--:|{'--:|' * len(names)}"]
        lines += [f"| {at:.0f} s | {streams} | {' | '.join(f'{values[name]:.1f}' for name in names)} |"
                  for at, streams, values in self.rows]
        thirds = {name: self.thirds(name) for name in names}
        lines.append(f"| middle third | | {' | '.join(f'{thirds[name][0]:.1f}' for name in names)} |")
        lines.append(f"| last third | | {' | '.join(f'{thirds[name][1]:.1f}' for name in names)} |")
        return "\n".join(lines)
