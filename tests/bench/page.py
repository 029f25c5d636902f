"""Figures of the benchmark -> the table of docs/performance.md: `python -m tests.bench.page docs/bench.json`."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"
START, END = "<!-- bench -->\n", "<!-- end -->"
NAMES = {"native": "**extproc**", "one API": "extproc, same API on both sides",
         "from Responses": "extproc, Responses client", "to Responses": "extproc, Responses provider",
         "one hop": "extproc, one-hop mode", "grpcio": "extproc on grpcio",
         "floor": "Envoy and a worker that only forwards", "plain": "Envoy alone", "litellm": "LiteLLM"}
"""Sides in the order of their rows."""
STREAMS, MANY = 100, 1000
"""The number of streams for CPU and delay, and for memory."""
SIZES = (4_000, 400_000, 10_000_000)
"""Bytes of a request."""
MISSING = "-"


def table(figures: dict[str, Any]) -> Iterator[str]:
    """The lines of the table, then one line for each measurement that failed."""
    yield (f"| | event, {STREAMS} streams | delay of an event, p50 / p99 | first token later than through Envoy alone, "
           "p50 / p99 | request of 4 KB | request of 400 KB | request of 10 MB | memory per stream |")
    yield "|---" * 8 + "|"
    for side in (side for side in NAMES if side in figures["streams"]):
        cells = (NAMES[side], *_stream(figures, side), _first_token(figures, side), *_requests(figures, side),
                 _memory(figures, side))
        yield f"| {' | '.join(cells)} |"
    yield from (f"\nNot measured: {failure}." for failure in figures["failed"])


def _stream(figures: dict[str, Any], side: str) -> tuple[str, str]:
    found = _measured(figures, side, STREAMS)
    if found is None:
        return MISSING, MISSING
    cpu = [statistics.median(window[part] for window in found["windows"]) for part in ("processor", "envoy")]
    return f"{cpu[0]:.0f} + {cpu[1]:.0f} us", f"{found['p50']:.2f} / {found['p99']:.2f} ms"


def _first_token(figures: dict[str, Any], side: str) -> str:
    if side not in figures["first"]:
        return MISSING
    alone, _ = figures["first"][side]
    return f"{alone['p50'] - alone['plain_p50']:.1f} / {alone['p99'] - alone['plain_p99']:.1f} ms"


def _requests(figures: dict[str, Any], side: str) -> list[str]:
    costs = {cost["size"]: cost for cost in figures["requests"].get(side, ())}
    return [f"{costs[size]['processor']:.1f} + {costs[size]['envoy']:.1f} ms" if size in costs else MISSING
            for size in SIZES]


def _memory(figures: dict[str, Any], side: str) -> str:
    found = _measured(figures, side, MANY)
    return MISSING if found is None else f"{max(found['processor_kb'], 0):.0f} + {max(found['envoy_kb'], 0):.0f} KB"


def _measured(figures: dict[str, Any], side: str, streams: int) -> dict[str, Any] | None:
    return next((one for one in figures["streams"][side] if one["streams"] == streams), None)


def main() -> None:
    figures = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    _, _, tail = rest.partition(END)
    PAGE.write_text(head + START + "\n".join(table(figures)) + "\n" + END + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
