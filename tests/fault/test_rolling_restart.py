"""Every worker is replaced while requests run: none fails, not even those that take longer than their worker."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.plain_envoy import binary
from tests.e2e.gateway import Process
from tests.e2e.wire import request
from tests.fault.load import Load
from tests.fault.plan import calm_plans
from tests.fault.provider import ChecksumProvider
from tests.fault.world import World, configuration, poll
from tests.ports import free_port

RATE = 40
"""Requests a second, at least."""


@pytest.fixture
def provider() -> Iterator[ChecksumProvider]:
    serving = ChecksumProvider()
    serving.start()
    yield serving
    serving.stop()


def check(load: Load, capsys: pytest.CaptureFixture[str], what: str) -> None:
    bad = [(one.plan.model, one.verdict) for one in load.done if one.verdict.outcome != "right"]
    rate = len(load.done) / load.seconds
    with capsys.disabled():
        print(f"\n{what}: {len(load.done)} requests in {load.seconds:.0f} s ({rate:.0f} a second), "
              f"{sum(one.plan.faults[0].name == 'long' for one in load.done)} long ones, {len(bad)} failed")
    assert bad == []
    assert rate >= RATE


@pytest.mark.fault
def test_sigusr1_replaces_all_workers(provider: ChecksumProvider, tmp_path: Path,
                                      capsys: pytest.CaptureFixture[str]) -> None:
    """`extproc up`, three times in a row, while answers of the first workers still run."""
    world = World(configuration(provider), tmp_path)
    first = set(world.workers)
    load = Load(world.port, calm_plans(1), concurrency=96)

    async def replace() -> None:
        await poll(lambda: len(load.done) > 50, "requests run")
        for _ in range(3):
            await world.replace_workers()
        seen = len(load.done)
        await poll(lambda: len(load.done) > seen + 100, "requests go on")

    try:
        asyncio.run(load.during(replace()))
        assert not first & set(world.worker_pids())
    finally:
        code = world.gateway.terminate()
    assert code == 0, world.gateway.output
    check(load, capsys, "SIGUSR1, three times")


class Processors:
    """Two `extproc serve` behind an Envoy of its own, as two pods."""

    def __init__(self, provider: ChecksumProvider, directory: Path) -> None:
        self.edge = free_port()
        self._directory = directory
        self._addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        for number in range(2):
            config = configuration(provider, workers=1, listen=f"127.0.0.1:{self.edge}")
            for team in config["teams"].values():
                del team["limits"]
            (directory / f"extproc-{number}.yaml").write_text(json.dumps(config))
        self.running = [self._start(number) for number in range(2)]
        for process in self.running:
            process.wait_for_line(re.compile("processor ready"), 60)
        bootstrap = directory / "envoy.json"
        made = Process("envoy-config", [
            sys.executable, "-m", "extproc", "envoy-config", "--with-secrets", "--config",
            str(directory / "extproc-0.yaml"), "--output", str(bootstrap),
            *(part for address in self._addresses for part in ("--processor", address))])
        assert made.process.wait(60) == 0, made.output
        self.envoy = Process("envoy", [binary(), "-c", str(bootstrap), "--disable-hot-restart", "--concurrency", "2",
                                       "--log-level", "warning"])

    def _start(self, number: int) -> Process:
        return Process(f"extproc serve {number}", [
            sys.executable, "-m", "extproc", "serve", "--config", str(self._directory / f"extproc-{number}.yaml"),
            "--listen", self._addresses[number]])

    def serves(self) -> bool:
        """Whether Envoy answers."""
        assert self.envoy.process.poll() is None, self.envoy.output
        try:
            return request(f"http://127.0.0.1:{self.edge}", "GET", "/healthz").status == 200
        except OSError:
            return False

    async def upgrade(self, number: int) -> float:
        """SIGTERM, its end, its successor on the same address, as a rolling update does it. Returns the seconds that
        the old one took to end."""
        began = time.monotonic()
        code = await asyncio.to_thread(self.running[number].terminate, 60)
        assert code == 0, self.running[number].output
        took = time.monotonic() - began
        self.running[number] = self._start(number)
        await asyncio.to_thread(self.running[number].wait_for_line, re.compile("processor ready"), 60)
        return took

    def stop(self) -> None:
        self.envoy.terminate()
        for process in self.running:
            process.terminate(30)


@pytest.mark.fault
def test_sigterm_to_one_processor_after_the_other(provider: ChecksumProvider, tmp_path: Path,
                                                  capsys: pytest.CaptureFixture[str]) -> None:
    """`extproc serve` behind a static Envoy: a pod is told to go, drains, ends, another one comes; then the other."""
    processors = Processors(provider, tmp_path)
    load = Load(processors.edge, calm_plans(2), concurrency=96)

    async def upgrade() -> None:
        await poll(lambda: len(load.done) > 50, "requests run")
        for number in range(2):
            await processors.upgrade(number)
            seen = len(load.done)
            # Envoy's health check must have found the new one before the other one goes, as a readiness probe would.
            await poll(lambda seen=seen: len(load.done) > seen + 250, "requests go on")  # type: ignore[misc]

    try:
        asyncio.run(poll(processors.serves, "Envoy serves"))
        asyncio.run(load.during(upgrade()))
    finally:
        processors.stop()
    check(load, capsys, "SIGTERM, one processor after the other")
