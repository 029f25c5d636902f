"""Two hundred streams at a time for some minutes: the memory of all processes stays as it is.

`SOAK_SECONDS` (180) and `SOAK_STREAMS` (200) change it. Every tenth client leaves in the middle of its answer, every
tenth provider breaks it off, so that what leaks on an unusual end is seen too.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.load import Load
from tests.fault.plan import CLIENTS, Fault, Plan
from tests.fault.provider import ChecksumProvider
from tests.fault.world import World, configuration
from tests.soak.memory import Memory

SECONDS = float(os.environ.get("SOAK_SECONDS", "180"))
STREAMS = int(os.environ.get("SOAK_STREAMS", "200"))


def long_plans(seed: int) -> Iterator[Plan]:
    """Streams of some seconds, without end."""
    draw = random.Random(seed)
    for number in itertools.count():
        route = draw.choice(("o", "a", "g"))
        fault = Fault("end", draw.randint(1, 30)) if draw.random() < 0.1 else Fault("long")
        leaves = draw.choice(("fin", "rst")) if draw.random() < 0.1 else ""
        yield Plan(number, draw.randrange(2**31), draw.choice(CLIENTS), route, True, draw.choice((0, 1)), (fault,),
                   leaves, draw.randint(500, 4000), draw.choice((100, 1000, 20_000)))


@pytest.mark.soak
def test_memory_is_flat(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    provider = ChecksumProvider()
    provider.start()
    world = World(configuration(provider), tmp_path)
    memory = Memory({"Envoy": world.envoy_pid(), **{f"worker {n}": pid for n, pid in enumerate(world.workers, 1)},
                     "limits": world.counting_pid(), "extproc up": world.gateway.process.pid},
                    every=max(1.0, min(10.0, SECONDS / 12)))
    load = Load(world.port, long_plans(7), STREAMS)
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []

    async def soak() -> None:
        running = [0]
        watching = asyncio.create_task(memory.watch(running))
        for _ in range(int(SECONDS * 10)):
            await asyncio.sleep(0.1)
            running[0] = load.running
            # What is over is counted and forgotten: the memory of this process is nobody's affair.
            for one in load.done:
                outcomes[one.verdict.outcome] += 1
                if one.verdict.outcome == "wrong" or (one.verdict.unexpected and not one.plan.leaves):
                    wrong.append(f"{one.plan.model}: {one.verdict}")
            load.done.clear()
            provider.ledger.clear()
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching

    try:
        asyncio.run(load.during(soak()))
        assert world.total("extproc_streams") == 0
    finally:
        code = world.gateway.terminate()
        provider.stop()
    with capsys.disabled():
        print(f"\n{outcomes.total()} requests: {dict(outcomes)}\n\n{memory.markdown()}")
    assert code == 0
    assert wrong == []
    assert memory.grown() == []
