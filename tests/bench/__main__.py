"""`python -m tests.bench [--quick]`: starts provider, gateway and a plain Envoy, measures, prints one table.

Everything runs on loopback and is bounded in count; quick mode takes less than a minute. Figures are for comparing
versions on one machine.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import sys
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench import core, passed
from tests.bench.load import KEY, Idle, Side, Taken, one_by_one, together
from tests.bench.plain_envoy import PlainEnvoy
from tests.bench.processes import cpu_seconds, resident_bytes
from tests.e2e.gateway import Gateway, Process, free_port

Row = tuple[str, str, str]


@dataclass
class Bench:
    """Both sides and how much to do."""

    gateway: Gateway
    through: Side
    plain: PlainEnvoy
    straight: Side
    quick: bool

    def workers(self) -> list[int]:
        return self.gateway.worker_pids()

    def envoy(self) -> list[int]:
        return self.gateway.envoy_pids()


@contextmanager
def running(quick: bool) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        provider = Process("provider", [sys.executable, "-m", "tests.bench.provider"])
        try:
            port = int(provider.wait_for_line(re.compile(r"port (\d+)"), 20)[1])
            gateway = Gateway(configuration(port), directory)
            try:
                plain = PlainEnvoy(directory, port, threads=2)
                try:
                    yield Bench(gateway, Side("gateway", gateway.port, "/v1/messages", b'"text_delta"'), plain,
                                Side("plain Envoy", plain.port, "/v1/chat/completions", b'"content":" '), quick)
                finally:
                    plain.stop()
            finally:
                gateway.terminate(30)
        finally:
            provider.process.terminate()
            provider.process.wait(10)


def configuration(provider_port: int) -> dict[str, object]:
    return {"admin": f"127.0.0.1:{free_port()}", "workers": 2,
            "backends": {"bench": {"api": "openai", "url": f"http://127.0.0.1:{provider_port}/v1", "key": "none"}},
            "models": [{"match": "*", "attempts": [{"backend": "bench", "model": "*"}]}],
            "teams": {"bench": {"key": KEY}}}


# ----------------------------------------------------------------------------------------------------- measurements
def streamed_events(bench: Bench) -> list[Row]:
    """CPU per event, once with every event alone on the wire, once as fast as it goes."""
    rows: list[Row] = []
    for label, model, streams in (("events alone", f"events-{100 if bench.quick else 400}-10", 10),
                                  ("events in bulk", f"events-{1000 if bench.quick else 4000}-0", 4)):
        worker, envoy, taken = spent(bench.workers(), bench.envoy(), together(bench.through, model, streams))
        events = sum(one.events for one in taken)
        _, plain, straight = spent([], [bench.plain.process.pid], together(bench.straight, model, streams))
        count = sum(one.events for one in straight)
        rows += [(f"{label}: processor CPU per event", f"{worker * 1e6 / events:.0f} us", "-"),
                 (f"{label}: Envoy CPU per event", f"{envoy * 1e6 / events:.0f} us", f"{plain * 1e6 / count:.0f} us")]
    return rows


def first_token(bench: Bench) -> list[Row]:
    count = 40 if bench.quick else 200
    for side in (bench.through, bench.straight):
        asyncio.run(one_by_one(side, "short", 5))
    through, straight = ([one.first for one in asyncio.run(one_by_one(side, "short", count))]
                         for side in (bench.through, bench.straight))
    return [("time to first token, median", ms(statistics.median(through)), ms(statistics.median(straight))),
            ("time to first token, 95 %", ms(share(through, 0.95)), ms(share(straight, 0.95))),
            ("added to the first token, median", ms(statistics.median(through) - statistics.median(straight)), "-")]


def large_requests(bench: Bench) -> list[Row]:
    rows: list[Row] = []
    for label, size, count in (("400 KB request", 400_000, 10 if bench.quick else 40),
                               ("10 MB request", 10_000_000, 3 if bench.quick else 10)):
        words = "word " * (size // 5)
        worker, envoy, taken = spent(bench.workers(), bench.envoy(), one_by_one(bench.through, "short", count, words))
        _, plain, straight = spent([], [bench.plain.process.pid], one_by_one(bench.straight, "short", count, words))
        rows += [(f"{label}: time, median", ms(statistics.median(t.whole for t in taken)),
                  ms(statistics.median(t.whole for t in straight))),
                 (f"{label}: processor CPU", ms(worker / count), "-"),
                 (f"{label}: Envoy CPU", ms(envoy / count), ms(plain / count))]
    return rows


def idle_memory(bench: Bench) -> list[Row]:
    streams = 200 if bench.quick else 500

    async def measure(side: Side, groups: list[list[int]]) -> list[float]:
        async with Idle(side, 20):
            pass
        before = [resident_bytes(pids) for pids in groups]
        async with Idle(side, streams):
            return [(resident_bytes(pids) - start) / streams / 1024 for pids, start in zip(groups, before, strict=True)]

    worker, envoy = asyncio.run(measure(bench.through, [bench.workers(), bench.envoy()]))
    plain, = asyncio.run(measure(bench.straight, [[bench.plain.process.pid]]))
    return [(f"memory per idle stream ({streams}), processor", f"{worker:.0f} KB", "-"),
            (f"memory per idle stream ({streams}), Envoy", f"{envoy:.0f} KB", f"{plain:.0f} KB")]


def passed_alone(bench: Bench) -> list[Row]:
    count = 5_000 if bench.quick else 50_000
    pairs = [(client, upstream) for client in passed.URLS for upstream in passed.URLS]
    return [(f"{client} to {upstream}, text: CPU per event",
             f"{passed.microseconds_per_event(client, upstream, count):.1f} us", "-") for client, upstream in pairs] + [
        (f"{client} to {upstream}, request of 400 KB: CPU",
         f"{passed.milliseconds_per_request(client, upstream, 400_000):.1f} ms", "-") for client, upstream in pairs]


def core_alone(bench: Bench) -> list[Row]:
    count = 5_000 if bench.quick else 50_000
    kinds = (("text", core.text_events(count)), ("calls", core.call_events(count)))
    return [(f"translation core, {kind}: CPU per event", f"{core.microseconds_per_event(events):.1f} us", "-")
            for kind, events in kinds] + [
        (f"translation core, {kind}, calls looked for: CPU per event",
         f"{core.microseconds_per_event(events, model=core.UNKNOWN):.1f} us", "-") for kind, events in kinds]


def text_alone(bench: Bench) -> list[Row]:
    """The same figure for every size shows that the cost is linear."""
    sizes = (62_500, 125_000, 250_000) if bench.quick else (250_000, 500_000, 1_000_000)
    return [(f"{kind} in 1-character pieces, every dialect looked for: CPU per character at "
             f"{' / '.join(f'{size // 1000} KB' for size in sizes)}",
             " / ".join(f"{core.microseconds_per_character(size, in_call=in_call):.2f}" for size in sizes) + " us", "-")
            for kind, in_call in (("prose", False), ("a call's argument", True))]


# ----------------------------------------------------------------------------------------------------------- helpers
def spent(first: list[int], second: list[int],
          work: Coroutine[None, None, list[Taken]]) -> tuple[float, float, list[Taken]]:
    """CPU seconds that two groups of processes spend while `work` runs, and what it returns."""
    groups = (first, second)
    before = [cpu_seconds(pids) for pids in groups]
    taken = asyncio.run(work)
    after = [cpu_seconds(pids) for pids in groups]
    return after[0] - before[0], after[1] - before[1], taken


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"


def share(values: list[float], part: float) -> float:
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, less than a minute")
    parser.add_argument("--core", action="store_true", help="only the translation core, without Envoy")
    options = parser.parse_args()
    table = Table("measurement", "gateway", "plain Envoy", title="extproc on loopback")
    if options.core:
        for measure in (core_alone, passed_alone, text_alone):
            for row in measure(Bench(None, None, None, None, options.quick)):  # type: ignore[arg-type]
                table.add_row(*row)
    else:
        with running(options.quick) as bench:
            for measure in (core_alone, passed_alone, text_alone, idle_memory, first_token, streamed_events,
                            large_requests):
                for row in measure(bench):  # idle memory first: what larger requests free would hide it
                    table.add_row(*row)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
