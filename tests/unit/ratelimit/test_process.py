"""The life of the process that counts: it serves, saves, goes on after a restart, and takes other limits."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from extproc.config import Config, ConfigError, LimitKey, Team, TeamLimits
from extproc.process.log import Log
from extproc.ratelimit.counters import Hit, State
from extproc.ratelimit.metrics import LimitMetrics
from extproc.ratelimit.pb.rate_limit_service_pb2 import RateLimitRequest, RateLimitResponse
from extproc.ratelimit.process import File, LimitsProcess, stamp_of
from extproc.ratelimit.service import SERVICE

KEY = LimitKey("red", "", "requests_per_minute")


def config(number: int) -> Config:
    return Config(backends={}, models=[], teams={"red": Team(key="k", limits=TeamLimits(requests_per_minute=number))})


class World:
    """One process; `events` are the lines of its log."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.events: list[dict[str, Any]] = []
        self.address = f"unix:{folder}/limits.sock"
        self.process = LimitsProcess(
            config(3), self.address, log=Log("info", write=lambda line: self.events.append(json.loads(line))),
            clock=lambda: 1_800_014_400.0, **options)

    def names(self) -> list[str]:
        return [event["event"] for event in self.events]

    async def ask(self) -> bool:
        """Whether one more request may go on."""
        request = RateLimitRequest(domain="extproc")
        descriptor = request.descriptors.add()
        for key, value in (("team", "red"), ("limit", KEY.kind)):
            descriptor.entries.add(key=key, value=value)
        async with grpc.aio.insecure_channel(self.address) as channel:
            call = channel.unary_unary(f"/{SERVICE}/ShouldRateLimit",
                                       request_serializer=RateLimitRequest.SerializeToString,
                                       response_deserializer=RateLimitResponse.FromString)
            answer: RateLimitResponse = await call(request)
        return answer.overall_code == RateLimitResponse.OK


@asynccontextmanager
async def running(folder: Path, **options: Any) -> AsyncIterator[World]:
    world = World(folder, **options)
    await world.process.start()
    try:
        yield world
    finally:
        await world.process.stop()


def test_it_says_serving_and_counts(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path) as world:
            async with grpc.aio.insecure_channel(world.address) as channel:
                for service in ("", SERVICE):
                    answer = await health_pb2_grpc.HealthStub(channel).Check(
                        health_pb2.HealthCheckRequest(service=service))
                    assert answer.status == health_pb2.HealthCheckResponse.SERVING
            assert [await world.ask() for _ in range(4)] == [True, True, True, False]
            # Calls at once, over connections of their own, are exact too.
            world.process.service.counters.use({KEY: 10})
            assert sum(await asyncio.gather(*(world.ask() for _ in range(30)))) == 7

    asyncio.run(scene())


@pytest.mark.parametrize("tidy", [True, False])
def test_a_restart_goes_on_with_the_counters(tmp_path: Path, tidy: bool) -> None:
    file = tmp_path / "counters.json"

    async def scene() -> None:
        async with running(tmp_path, file=File(file)) as world:
            assert [await world.ask() for _ in range(2)] == [True, True]
            if not tidy:
                world.process.tend()
                kept = file.read_bytes()
        if not tidy:
            file.write_bytes(kept)  # as after a crash: nothing was saved at the end
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        async with running(tmp_path, file=File(file)) as world:
            assert [await world.ask() for _ in range(2)] == [True, False]

    asyncio.run(scene())


@pytest.mark.parametrize("text", [b"", b"{}", b'[["red"]]', b"\xff"])
def test_a_file_that_cannot_be_read_is_said_and_counting_begins_anew(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "counters.json"
    file.write_bytes(text)

    async def scene() -> None:
        async with running(tmp_path, file=File(file)) as world:
            assert world.names() == ["counters_not_read", "limits_ready"]
            assert await world.ask()

    asyncio.run(scene())


def test_a_place_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path, file=File(tmp_path / "missing" / "counters.json")) as world:
            for _ in range(3):
                await world.ask()
                world.process.tend()
            assert world.names().count("counters_not_saved") == 1

    asyncio.run(scene())


def test_a_changed_file_changes_the_limits_and_an_unusable_one_nothing(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("4")

    def read() -> Config:
        text = source.read_text()
        if text == "nonsense":
            raise ConfigError([("teams", "is nonsense")])
        return config(int(text))

    async def scene() -> None:
        async with running(tmp_path, read=read, stamp=lambda: stamp_of(source)) as world:
            assert [await world.ask() for _ in range(4)] == [True, True, True, False]
            world.process.tend()
            assert not await world.ask(), "nothing has changed"
            _replace(source, "5")
            world.process.tend()
            assert [await world.ask() for _ in range(3)] == [True, True, False]
            _replace(source, "nonsense")
            world.process.tend()
            assert not await world.ask()
            assert world.names()[-2:] == ["limits_reloaded", "limits_not_reloaded"]
            assert world.events[-1]["reason"] == "teams: is nonsense"

    asyncio.run(scene())


def _replace(path: Path, text: str) -> None:
    beside = path.with_name("beside")
    beside.write_text(text)
    os.replace(beside, path)


def test_an_address_in_use_is_an_error(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path / "missing")
        with pytest.raises(RuntimeError):
            await world.process.start()

    asyncio.run(scene())


def test_metrics_say_what_was_counted_and_refused() -> None:
    metrics = LimitMetrics()
    labels = {"team": "red", "model": "", "limit": KEY.kind}
    counted = State(KEY, 3, 2, 60, over=False, counted=True)
    metrics.used(Hit(KEY, 2), counted)
    metrics.used(Hit(KEY, 1), State(KEY, 3, 0, 60, over=True))
    metrics.used(Hit(KEY, 1, back=True), counted)
    metrics.refused(State(KEY, 3, 0, 60, over=True))
    value = metrics.registry.get_sample_value
    assert value("extproc_limit_hits_total", labels) == 2
    assert value("extproc_limit_refusals_total", labels) == 1
    assert value("extproc_limit_remaining", labels) == 2


def test_metrics_know_a_limit_before_its_first_request(tmp_path: Path) -> None:
    """With what a predecessor left in the file, and again when a limit is added."""
    async def scene() -> None:
        metrics = LimitMetrics()
        added = LimitKey("red", "", "tokens_per_day")
        both = Config(backends={}, models=[], teams={"red": Team(key="k", limits=TeamLimits(
            requests_per_minute=5, tokens_per_day=70))})

        def value(name: str, key: LimitKey = KEY) -> float | None:
            return metrics.registry.get_sample_value(f"extproc_limit_{name}", {
                "team": key.team, "model": key.rule, "limit": key.kind})

        file = File(tmp_path / "counters.json")
        async with running(tmp_path, file=file) as world:
            await world.ask()
        async with running(tmp_path, file=file, observer=metrics, read=lambda: both) as world:
            assert [value(name) for name in ("hits_total", "refusals_total", "remaining")] == [0, 0, 2]
            assert value("remaining", added) is None
            world.process.reload()
            assert [value(name, added) for name in ("hits_total", "refusals_total", "remaining")] == [0, 0, 70]
            assert value("remaining") == 4

    asyncio.run(scene())
