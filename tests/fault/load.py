"""The load: clients that work off the plans, and what is done to the workers meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.e2e.gateway import ended
from tests.fault.client import Got, ask
from tests.fault.judge import Verdict, judge
from tests.fault.plan import Plan
from tests.fault.world import TEAMS, World, poll

NOTICED = 0.1
"""Seconds after a kill in which Envoy may still choose the dead worker: what began then counts as struck by it."""


LEFT = 0.5
"""Seconds within which a worker has heard of a client that left."""


@dataclass
class Done:
    """One request that is over. `struck`: a worker was killed while it ran."""

    plan: Plan
    got: Got
    verdict: Verdict
    team: str
    struck: bool = False


@dataclass
class Load:
    """`kills` and `successions`: after how many requests a worker is killed, or all are replaced."""

    port: int
    plans: Iterable[Plan]
    concurrency: int
    world: World | None = None
    kills: Sequence[int] = ()
    successions: Sequence[int] = ()
    done: list[Done] = field(default_factory=list)
    killed: list[int] = field(default_factory=list)
    replaced: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self._running: dict[int, str] = {}
        self._struck: set[int] = set()
        self._striking = False
        self._idle = 0
        """Clients that have nothing left to do."""
        self._changed = asyncio.Condition()

    @property
    def running(self) -> int:
        """Requests in progress."""
        return len(self._running)

    async def run(self) -> None:
        began = time.monotonic()
        work = iter(self.plans)
        disturbing = asyncio.create_task(self._disturb())
        await asyncio.gather(*(self._client(work) for _ in range(self.concurrency)))
        await disturbing
        self.seconds = time.monotonic() - began

    async def _client(self, work: Iterator[Plan]) -> None:
        for plan in work:
            team = "struck" if self._striking else "whole" if plan.exact else "cut"
            self._running[plan.number] = team
            got = await ask(self.port, plan, TEAMS[team])
            async with self._changed:
                del self._running[plan.number]
                self.done.append(Done(plan, got, judge(plan, got), team, plan.number in self._struck))
                self._changed.notify_all()
        async with self._changed:
            self._idle += 1
            self._changed.notify_all()

    async def during(self, deed: Awaitable[None]) -> None:
        """Requests again and again until the deed is done; those that run then are finished."""
        over = asyncio.Event()
        began = time.monotonic()
        work = itertools.takewhile(lambda _: not over.is_set(), self.plans)
        clients = [asyncio.create_task(self._client(work)) for _ in range(self.concurrency)]
        try:
            await deed
        finally:
            over.set()
            await asyncio.gather(*clients)
        self.seconds = time.monotonic() - began

    # ----------------------------------------------------------------------------------------------- what is done to it

    async def _disturb(self) -> None:
        for after, deed in sorted([*((count, self._kill) for count in self.kills),
                                   *((count, self._succeed) for count in self.successions)],
                                  key=lambda one: one[0]):
            await self._until(lambda after=after: len(self.done) >= after)  # type: ignore[misc]
            await deed()

    async def _kill(self) -> None:
        """Only requests of the team "struck" run then, so that the accounts of the others stay exact."""
        self._striking = True
        await self._until(lambda: all(team == "struck" for team in self._running.values())
                          and (self._idle > 0 or len(self._running) > self.concurrency // 2))
        world = self.world
        assert world is not None
        over = {one.plan.model for one in self.done if not one.plan.leaves and not one.struck}
        # A worker writes of a request when its client has the answer already.
        await poll(lambda: over <= {record["model"] for record in world.records()}, "lines of all that is over")
        victim = world.worker_pids()[len(self.killed) % 2]
        self._struck |= self._running.keys()
        for one in self.done:
            # Of a client that has just left the worker may know nothing yet.
            one.struck |= bool(one.plan.leaves) and time.monotonic() - one.got.ended < LEFT
        os.kill(victim, signal.SIGKILL)
        await poll(lambda: ended(victim), "the killed worker is dead")
        await asyncio.sleep(NOTICED)
        self._struck |= self._running.keys()
        self.killed.append(victim)
        self._striking = False
        # Two again, or the next kill would leave nobody.
        await poll(lambda: len(world.worker_pids()) == 2, "the killed worker is replaced")

    async def _succeed(self) -> None:
        """SIGUSR1: every worker gets a successor; nobody notices."""
        assert self.world is not None
        await self.world.replace_workers()
        self.replaced += 1

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with self._changed, asyncio.timeout(200):
            await self._changed.wait_for(holds)
