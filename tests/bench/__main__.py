"""`python -m tests.bench [--quick] [--json F]`: measures, prints tables, keeps the figures.

Compared are the gateway on each transport, a plain Envoy that only forwards, and LiteLLM's proxy where it is installed
(or BENCH_LITELLM names it), all on the same load, one after the other in one run. Everything runs on loopback and is
bounded in count and time. Figures are for comparing within one run on one machine; the spread is that of the windows.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import partial
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from tests.bench import core, pairs, passed, requests, sides, streams
from tests.bench.load import BrokenStreamError
from tests.bench.sides import Running
from tests.bench.streams import Measured, share

Open = Callable[[], AbstractContextManager[Running]]
WIDTH = 118
PASSING = "one API"
"""The side on which client and provider speak the same API, on the native transport."""
FROM_RESPONSES, TO_RESPONSES = "from Responses", "to Responses"
"""Sides with the Responses API as the client's and as the provider's."""
PLAIN = "plain"
"""The side that only forwards."""
FLOOR, ONE_HOP = "floor", "one hop"
"""The gateway's Envoy with a worker that does nothing; the gateway's worker behind an Envoy with one hop."""


class Results:
    """What was measured, by side, and how it is shown."""

    def __init__(self) -> None:
        self.streams: dict[str, list[Measured]] = {}
        self.requests: dict[str, list[requests.Cost]] = {}
        self.first: dict[str, requests.First] = {}
        self.first_beside: dict[str, requests.First] = {}
        """The same beside so many events that half of all CPUs is busy."""
        self.failed: list[str] = []

    def tables(self) -> list[Table]:
        return [self._streams(), self._first(), self._requests()]

    def _streams(self) -> Table:
        table = Table("side", "streams", "events/s", "processor us/event", "Envoy us/event", "on the way p50",
                      "p99", "processor KB/stream", "Envoy KB/stream", title="Steady streams, one event a chunk")
        for name, found in self.streams.items():
            for one in found:
                times = one.times()
                table.add_row(name, str(one.streams), spread([w.rate for w in one.windows], "{:.0f}"),
                              spread([w.processor for w in one.windows], "{:.0f}"),
                              spread([w.envoy for w in one.windows], "{:.0f}"),
                              f"{share(times, 0.5):.2f} ms", f"{share(times, 0.99):.2f} ms",
                              f"{one.processor_kb:.0f}" if one.streams >= 100 else "",
                              f"{one.envoy_kb:.0f}" if one.streams >= 100 else "")
        return table

    def _first(self) -> Table:
        table = Table("side", "p50 added", "to plain's", "p99", "beside events/s", "p50 added", "to plain's", "p99",
                      title="Time to the first token beyond that of a plain Envoy, short requests one by one")
        for name, (alone, beside) in self._first_figures().items():
            table.add_row(name, *_first(alone), *(("-", "-", "-", "-") if beside is None else
                                                  (f"{beside['beside']:.0f}", *_first(beside))))
        return table

    def _first_figures(self) -> dict[str, list[dict[str, float] | None]]:
        """Milliseconds, of each side alone and beside events."""
        return {name: [None if found is None else {
                    "p50": share(found.times, 0.5), "p99": share(found.times, 0.99),
                    "plain_p50": share(found.plain, 0.5), "plain_p99": share(found.plain, 0.99),
                    "beside": found.beside, "busy": found.busy} for found in (alone, self.first_beside.get(name))]
                for name, alone in self.first.items()}

    def _requests(self) -> Table:
        table = Table("side", "size", "processor CPU", "Envoy CPU", "time to first token", title="Requests by size")
        for name, costs in self.requests.items():
            for cost in costs:
                table.add_row(name, f"{cost.size / 1000:g} KB", f"{cost.processor:.2f} ms", f"{cost.envoy:.2f} ms",
                              f"{cost.first:.2f} ms")
        return table

    def as_json(self) -> str:
        return json.dumps({
            "streams": {name: [{"streams": one.streams, "processor_kb": one.processor_kb, "envoy_kb": one.envoy_kb,
                                "p50": share(one.times(), 0.5), "p99": share(one.times(), 0.99),
                                "windows": [{"processor": w.processor, "envoy": w.envoy, "rate": w.rate}
                                            for w in one.windows]} for one in found]
                        for name, found in self.streams.items()},
            "requests": {name: [asdict(cost) for cost in costs] for name, costs in self.requests.items()},
            "failed": self.failed,
            "first": self._first_figures(),
        }, indent=1) + "\n"


def _first(found: dict[str, float] | None) -> tuple[str, str, str]:
    """What is added at p50, the same as a part of a plain Envoy's own time (a ratio, whatever the machine's speed), and
    at p99."""
    assert found is not None
    added = found["p50"] - found["plain_p50"]
    return f"{added:.2f} ms", f"{added / found['plain_p50']:.1f}x", f"{found['p99'] - found['plain_p99']:.2f} ms"


def spread(values: list[float], form: str) -> str:
    """The median and, in brackets, the range."""
    middle, low, high = (form.format(one) for one in (statistics.median(values), min(values), max(values)))
    return middle if low == high else f"{middle} ({low}-{high})"


def run(opens: dict[str, Open], plain: Open, counts: list[int], *, quick: bool,
        say: Callable[[str], None]) -> Results:
    """`plain`: a plain Envoy, beside which the first token of every other side is measured."""
    results = Results()
    for name, start in opens.items():
        tokens = 0 if name == PLAIN else 60 if quick else 400
        with start() as running:
            say(f"{name}: requests")
            if tokens:
                with plain() as other:
                    results.first[name] = uvloop.run(requests.first_tokens(running, other, tokens))
            if name not in (PASSING, FROM_RESPONSES):  # its requests are those of the other API
                results.requests[name] = [
                    uvloop.run(requests.measure(running, size,
                                                max(3, min(40, 40_000_000 // size) // (4 if quick else 1))))
                    for size in requests.SIZES]
            for count in counts:
                say(f"{name}: {count} streams")
                try:
                    measured = uvloop.run(streams.measure(running, count, 1.5 if quick else 3.0, 3))
                except (TimeoutError, BrokenStreamError) as error:
                    results.failed.append(f"{name}: {count} streams: {str(error) or 'not all began within a minute'}")
                    break
                results.streams.setdefault(name, []).append(measured)
            else:
                if tokens and running.envoy:  # LiteLLM's proxy does not come to its half
                    say(f"{name}: half load")
                    half = uvloop.run(requests.half_load(running.side))
                    with plain() as other:
                        results.first_beside[name] = uvloop.run(requests.first_tokens(running, other, tokens, half))
    return results


def core_table(quick: bool) -> Table:
    """The translation alone, without gRPC or Envoy."""
    count = 5_000 if quick else 50_000
    table = Table("measurement", "CPU", title="The translation alone")
    for kind, events in (("text", core.text_events(count)), ("calls", core.call_events(count))):
        table.add_row(f"{kind}, native: per event", f"{core.microseconds_per_event(events):.1f} us")
        table.add_row(f"{kind}, calls of every dialect looked for: per event",
                      f"{core.microseconds_per_event(events, model=core.UNKNOWN):.1f} us")
    for client in passed.URLS:
        for upstream in passed.URLS:
            table.add_row(f"{client} to {upstream}, text: per event",
                          f"{passed.microseconds_per_event(client, upstream, count):.1f} us")
            table.add_row(f"{client} to {upstream}: request of 400 KB",
                          f"{passed.milliseconds_per_request(client, upstream, 400_000):.1f} ms")
    for (pair, kind), micros in pairs.microseconds_per_event(count, rounds=3).items():
        table.add_row(f"{pair.client} to {pair.upstream}, {kind}: per event", f"{micros:.1f} us")
    sizes = (62_500, 125_000, 250_000) if quick else (250_000, 500_000, 1_000_000)
    for kind, in_call in (("prose", False), ("a call's argument", True)):
        figures = " / ".join(f"{core.microseconds_per_character(size, in_call=in_call):.2f}" for size in sizes)
        table.add_row(f"{kind} in pieces of one character, at {' / '.join(f'{size // 1000} KB' for size in sizes)}: "
                      "per character", f"{figures} us")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter windows, fewer repetitions")
    parser.add_argument("--core", action="store_true", help="only the translation, without Envoy")
    parser.add_argument("--sides", default="native,grpcio,one API,from Responses,to Responses,one hop,floor,plain,"
                        "litellm",
                        help="which of them, comma-separated")
    parser.add_argument("--streams", default="1,10,100,1000", help="how many at once, comma-separated")
    parser.add_argument("--json", type=Path, help="keep the figures in this file")
    options = parser.parse_args()
    console = Console(width=WIDTH)
    console.print(core_table(options.quick))
    if options.core:
        return
    with sides.provider() as port:
        opens: dict[str, Open] = {"native": partial(sides.gateway, "native", port),
                                  "grpcio": partial(sides.gateway, "grpcio", port),
                                  PASSING: partial(sides.gateway, "native", port, passing=True),
                                  FROM_RESPONSES: partial(sides.responses, port, client=True),
                                  TO_RESPONSES: partial(sides.responses, port, client=False),
                                  ONE_HOP: partial(sides.one_hop, port), FLOOR: partial(sides.floor, port),
                                  PLAIN: partial(sides.plain, port), "litellm": partial(sides.litellm, port)}
        chosen = {name: opens[name] for name in options.sides.split(",")}
        if "litellm" in chosen and sides.litellm_program() is None:
            console.print("LiteLLM: not installed, not compared")
            del chosen["litellm"]
        results = run(chosen, opens[PLAIN], [int(count) for count in options.streams.split(",")], quick=options.quick,
                      say=lambda text: Console(stderr=True).print(f"[dim]{text}"))
    for table in results.tables():
        console.print(table)
    for failure in results.failed:
        console.print(f"not measured: {failure}")
    if options.json:
        options.json.write_text(results.as_json())


if __name__ == "__main__":
    main()
