"""What a run showed, as numbers and as markdown tables; `complaints` are what must not be."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.gateway import ended
from tests.fault.accounts import Accounts, settle
from tests.fault.judge import OUTCOMES
from tests.fault.load import Done, Load
from tests.fault.plan import KINDS, plans
from tests.fault.provider import ChecksumProvider
from tests.fault.world import ROOM, TEAMS, World, configuration, poll


@dataclass
class Report:
    """One run."""

    seed: int
    asked: int
    load: Load
    accounts: Accounts
    envoys_alive: bool
    counting_alive: bool
    workers: int
    died: list[int]
    """Of the first workers those that are gone, though they were neither killed nor replaced."""
    streams_left: float
    places_left: float
    requests_left: int
    connections_left: int
    damaged: list[str]
    strangers: list[str]
    internal: list[str]
    exit_code: int = 0
    complaints: list[str] = field(default_factory=list)

    @property
    def done(self) -> Sequence[Done]:
        return self.load.done

    @property
    def outcomes(self) -> Counter[str]:
        return Counter(one.verdict.outcome for one in self.done)

    def check(self) -> None:
        """Fills `complaints`."""
        say = self.complaints.append
        if len(self.done) != self.asked:
            say(f"{len(self.done)} of {self.asked} requests ended")
        for one in self.done:
            named = (f"{one.plan.model} {one.plan.client} {'stream' if one.plan.streamed else 'whole'} "
                     f"{[f'{fault.name}@{fault.at}' for fault in one.plan.faults]} {one.plan.leaves}")
            if one.verdict.outcome == "wrong":
                say(f"wrong: {named}: {one.verdict.why}")
            elif one.verdict.unexpected and not one.struck and not one.plan.leaves:
                say(f"unexpected {one.verdict.outcome}: {named}: {one.verdict.why}")
        for what, names in (("false figures", self.accounts.false), ("tokens not counted", self.accounts.uncounted),
                            ("damaged on the way to the provider", self.damaged), ("strangers", self.strangers),
                            ("internal errors", self.internal),
                            ("lost without a kill", [name for name in self.accounts.lost_names if "(" in name])):
            if names:
                say(f"{what}: {len(names)}: {names[:5]}")
        whole = self.accounts.whole["whole"].tokens
        for who, counted in (("the log", self.accounts.logged), ("/metrics", self.accounts.metrics),
                             ("the limits", self.accounts.limits)):
            if counted["whole"] != whole:
                say(f"{who}: {counted['whole']} tokens, not {whole}, for requests without a cut")
        for what, left in (("streams of workers", self.streams_left), ("places of concurrent_streams",
                           self.places_left), ("requests in Envoy", self.requests_left),
                           ("connections in Envoy", self.connections_left)):
            if left:
                say(f"{left:g} {what} are left")
        if not self.envoys_alive or not self.counting_alive:
            say("Envoy or the process that counts has been started again")
        if self.workers != 2:
            say(f"{self.workers} workers at the end")
        if self.died:
            say(f"workers died that nobody killed: {self.died}")
        if self.exit_code:
            say(f"exit code {self.exit_code}")

    # ------------------------------------------------------------------------------------------------------- for people

    def markdown(self) -> str:
        return "\n".join([self._head(), "", *self._answers(), "", *self._tokens(), "", *self._processes(), ""])

    def _head(self) -> str:
        clients = Counter(one.plan.client for one in self.done)
        calls = sum(1 for one in self.done if one.plan.calls)
        return (f"{len(self.done)} requests, {self.load.concurrency} at a time, {self.load.seconds:.0f} s, seed "
                f"{self.seed}. By client: {', '.join(f'{count} {name}' for name, count in sorted(clients.items()))}; "
                f"{sum(one.plan.streamed for one in self.done)} streamed, {calls} with tools. Providers of three APIs, "
                "two workers.")

    def _answers(self) -> list[str]:
        rows: dict[str, Counter[str]] = defaultdict(Counter)
        for one in self.done:
            for kind in (one.plan.kind, "**all**"):
                rows[kind][one.verdict.outcome] += 1
                if one.verdict.backend and one.verdict.backend != one.plan.backends[0]:
                    rows[kind]["by another"] += 1
        columns = (*OUTCOMES[:1], "by another", *OUTCOMES[1:])
        lines = ["| what happens to the first attempt | requests | whole and right | of these from another provider | "
                 "error status | error event | reset | client left | **wrong** |", f"|---|{'--:|' * 8}"]
        for kind in [*(kind for kind in KINDS if kind in rows), "**all**"]:
            among = rows[kind]
            lines.append(_row(KINDS.get(kind, kind), sum(among[outcome] for outcome in OUTCOMES),
                              *(among[column] for column in columns)))
        return lines

    def _tokens(self) -> list[str]:
        names = {"whole": "nothing breaks off", "cut": "client or provider break some off",
                 "struck": "around the kill of a worker"}
        lines = ["| requests, where | answers | their tokens | of these in broken answers | in the log | /metrics | "
                 "limits | **lost**, of a killed worker |", f"|---|{'--:|' * 7}"]
        accounts = self.accounts
        for team in TEAMS:
            whole, cut, lost = accounts.whole[team], accounts.cut[team], accounts.lost[team]
            lines.append(_row(
                names[team], whole.attempts + cut.attempts + lost.attempts, whole.tokens + cut.tokens + lost.tokens,
                f"{cut.tokens} ({cut.attempts})" if cut.attempts else 0, accounts.logged[team], accounts.metrics[team],
                accounts.limits[team], f"{lost.tokens} ({lost.attempts})" if lost.attempts else 0))
        return lines

    def _processes(self) -> list[str]:
        struck = [one for one in self.done if one.struck]
        failed = [one for one in struck if one.verdict.unexpected]
        later = [one for one in self.done if one.verdict.unexpected and not one.struck and not one.plan.leaves]
        foreign = len(self.damaged) + len(self.strangers)
        return [
            f"* Workers killed: {len(self.load.killed)}, with {len(struck)} requests in progress on all workers, of "
            f"which {len(failed)} failed with an error or a reset. All workers replaced under load: "
            f"{self.load.replaced} times. Further requests that failed without a fault of a provider: {len(later)}.",
            f"* At the end there are {self.workers} workers and the first Envoy; left over are {self.streams_left:g} "
            f"streams in the workers, {self.requests_left} requests and {self.connections_left} connections of clients "
            f"in Envoy, {self.places_left:g} places of `concurrent_streams`.",
            f"* Requests that reached a provider damaged or with a foreign key: {foreign}. Whole answers that were "
            f"counted with other figures than the provider's: {len(self.accounts.false)}. Broken answers that nobody "
            f"counted: {len(self.accounts.uncounted)}."]


def _row(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def run(count: int, seed: int, directory: Path, *, concurrency: int = 48, kills: Sequence[int] = (),
        successions: Sequence[int] = (), patient: bool = True) -> Report:
    """Runs the suite once. `directory` is for the gateway's configuration."""
    provider = ChecksumProvider()
    provider.start()
    try:
        world = World(configuration(provider), directory)
        try:
            load = Load(world.port, plans(seed, count, patient=patient), concurrency, world, kills, successions)
            report = asyncio.run(_run(world, provider, load, seed, count))
        finally:
            code = world.gateway.terminate()
    finally:
        provider.stop()
    report.exit_code = code
    report.check()
    return report


def full(seed: int, directory: Path, count: int = 2800) -> Report:
    """The suite at its full size: four kills, then all workers are replaced."""
    return run(count, seed, directory, kills=[count * part // 20 for part in (1, 5, 9, 13)],
               successions=[count * 17 // 20])


async def _run(world: World, provider: ChecksumProvider, load: Load, seed: int, count: int) -> Report:
    envoy, counting = world.envoy_pid(), world.counting_pid()
    await load.run()

    def left() -> tuple[float, float, int, int]:
        free = [one.value for one in world.metrics() if one.name == "extproc_limit_remaining"
                and one.labels["limit"] == "concurrent_streams"]
        figures = world.envoy("^http.(edge|in).*(downstream_rq_active|downstream_cx_active)$")
        return (world.total("extproc_streams"), sum(ROOM - value for value in free),
                sum(value for name, value in figures.items() if name.endswith("rq_active")),
                figures.get("http.edge.downstream_cx_active", 0))

    for _ in range(150):
        remains = left()
        if not any(remains):
            break
        await asyncio.sleep(0.1)
    await poll(lambda: len(world.worker_pids()) == 2, "two workers")
    # Envoy tells the counting process after the client has its answer.
    accounts = await asyncio.to_thread(settle, world, provider.ledger, load.done)
    for _ in range(30):
        before, accounts = accounts.limits, settle(world, provider.ledger, load.done)
        if accounts.limits == before and accounts.limits["whole"] == accounts.whole["whole"].tokens:
            break
        await asyncio.sleep(0.1)
    workers = world.worker_pids()
    return Report(
        seed, count, load, accounts, not ended(envoy),
        load.replaced > 0 or not ended(counting), len(workers),
        [] if load.replaced else sorted({*world.workers} - {*workers} - {*load.killed}),
        *remains, [f"{one.number} {one.backend}" for one in provider.ledger if not one.undamaged],
        provider.strangers, world.internal_errors())
