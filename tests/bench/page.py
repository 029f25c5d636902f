"""Figures of the benchmark -> the tables of docs/performance.md: `python -m tests.bench.page docs/bench.json`."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"
START, END = "<!-- bench -->\n", "<!-- end -->"


def tables(figures: dict[str, Any]) -> Iterator[str]:
    yield ("| side | streams | events/s | processor, us per event | Envoy, us per event | on the way, p50 / p99 | "
           "memory per stream, processor / Envoy |")
    yield "|---|---|---|---|---|---|---|"
    for side, found in figures["streams"].items():
        for one in found:
            spent = [_spread([window[part] for window in one["windows"]]) for part in ("rate", "processor", "envoy")]
            memory = (f"{one['processor_kb']:.0f} / {one['envoy_kb']:.0f} KB"
                      if one["streams"] >= 100 and one["processor_kb"] >= 0 else "")
            yield (f"| {side} | {one['streams']} | {' | '.join(spent)} | {one['p50']:.2f} / {one['p99']:.2f} ms | "
                   f"{memory} |")
    yield from (f"\nNot measured: {failure}." for failure in figures["failed"])
    yield "\n| side | " + " | ".join(f"{one['size'] / 1000:g} KB" for one in next(iter(figures["requests"].values()))
                                     ) + " |"
    yield "|---|" + "---|" * len(next(iter(figures["requests"].values())))
    for side, costs in figures["requests"].items():
        yield f"| {side} | " + " | ".join(f"{one['processor']:.1f} + {one['envoy']:.1f} ms" for one in costs) + " |"
    yield ("\nThe second table is CPU per request over both hops, processor + Envoy, by the size of a request (tools, "
           "then turns of a\ncall and its result of 6 KB each).")
    yield ("\n| side | first token of a short request, p50 / p99 | through a plain Envoy, in turns with it | added | "
           "both beside a load, CPUs busy | added |")
    yield "|---|---|---|---|---|---|"
    for side, (alone, beside) in figures["first"].items():
        yield f"| {side} | {' | '.join((*_first(alone), *_loaded(beside)))} |"


def _first(found: dict[str, float]) -> tuple[str, str, str]:
    """The side's, a plain Envoy's, and what the side adds to it."""
    p50, p99, plain, late = (found[name] for name in ("p50", "p99", "plain_p50", "plain_p99"))
    return f"{p50:.2f} / {p99:.2f} ms", f"{plain:.2f} / {late:.2f} ms", f"{p50 - plain:.2f} / {p99 - late:.2f} ms"


def _loaded(found: dict[str, float] | None) -> tuple[str, str]:
    if found is None:
        return "-", "-"
    own, plain, added = _first(found)
    return f"{own}, {plain} beside {found['beside']:.0f} events/s, {found['busy']:.0%}", added


def _spread(values: list[float]) -> str:
    middle, low, high = statistics.median(values), min(values), max(values)
    return f"{middle:.0f}" if round(low) == round(high) else f"{middle:.0f} ({low:.0f}-{high:.0f})"


def main() -> None:
    head, _, rest = PAGE.read_text().partition(START)
    _, _, tail = rest.partition(END)
    figures = json.loads(Path(sys.argv[1]).read_text())
    PAGE.write_text(head + START + "\n".join(tables(figures)) + "\n" + END + tail)


if __name__ == "__main__":
    main()
