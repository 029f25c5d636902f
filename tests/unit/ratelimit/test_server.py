"""The rate limit server: it serves, saves its counters, restores them after a restart, and reloads its limits."""

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
from extproc.ratelimit.counters import Charge, LimitStatus
from extproc.ratelimit.metrics import LimitMetrics
from extproc.ratelimit.pb.rate_limit_service_pb2 import RateLimitRequest, RateLimitResponse
from extproc.ratelimit.server import CountersFile, RateLimitServer, file_stamp
from extproc.ratelimit.service import SERVICE

KEY = LimitKey("red", "", "requests_per_minute")


def config(number: int) -> Config:
    return Config(backends={}, models=[], teams={"red": Team(key="k", limits=TeamLimits(requests_per_minute=number))})


class World:
    """One server. `events` are the lines of its log."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.events: list[dict[str, Any]] = []
        self.address = f"unix:{folder}/limits.sock"
        self.server = RateLimitServer(
            config(3), self.address, log=Log("info", write=lambda line: self.events.append(json.loads(line))),
            clock=lambda: 1_800_014_400.0, **options)

    def names(self) -> list[str]:
        return [event["event"] for event in self.events]

    async def ask(self) -> bool:
        """True if one more request is allowed."""
        request = RateLimitRequest(domain="extproc")
        descriptor = request.descriptors.add()
        for key, value in (("team", "red"), ("limit", KEY.kind)):
            descriptor.entries.add(key=key, value=value)
        async with grpc.aio.insecure_channel(self.address) as channel:
            call = channel.unary_unary(f"/{SERVICE}/ShouldRateLimit",
                                       request_serializer=RateLimitRequest.SerializeToString,
                                       response_deserializer=RateLimitResponse.FromString)
            response: RateLimitResponse = await call(request)
        return response.overall_code == RateLimitResponse.OK


@asynccontextmanager
async def running(folder: Path, **options: Any) -> AsyncIterator[World]:
    world = World(folder, **options)
    await world.server.start()
    try:
        yield world
    finally:
        await world.server.stop()


def test_it_reports_serving_and_counts(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path) as world:
            async with grpc.aio.insecure_channel(world.address) as channel:
                for service in ("", SERVICE):
                    answer = await health_pb2_grpc.HealthStub(channel).Check(
                        health_pb2.HealthCheckRequest(service=service))
                    assert answer.status == health_pb2.HealthCheckResponse.SERVING
            assert [await world.ask() for _ in range(4)] == [True, True, True, False]
            # Concurrent calls on several connections are counted exactly.
            world.server.service.counters.set_limits({KEY: 10})
            assert sum(await asyncio.gather(*(world.ask() for _ in range(30)))) == 7

    asyncio.run(scene())


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_restores_the_counters(tmp_path: Path, clean: bool) -> None:
    file = tmp_path / "counters.json"

    async def scene() -> None:
        async with running(tmp_path, counters_file=CountersFile(file)) as world:
            assert [await world.ask() for _ in range(2)] == [True, True]
            if not clean:
                world.server.run_routine()
                kept = file.read_bytes()
        if not clean:
            file.write_bytes(kept)  # as after a crash: nothing was saved at the end
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        async with running(tmp_path, counters_file=CountersFile(file)) as world:
            assert [await world.ask() for _ in range(2)] == [True, False]

    asyncio.run(scene())


@pytest.mark.parametrize("text", [b"", b"{}", b'[["red"]]', b"\xff"])
def test_an_unreadable_file_is_logged_and_counting_restarts_at_0(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "counters.json"
    file.write_bytes(text)

    async def scene() -> None:
        async with running(tmp_path, counters_file=CountersFile(file)) as world:
            assert world.names() == ["counters_not_read", "limits_ready"]
            assert await world.ask()

    asyncio.run(scene())


def test_a_failure_to_save_is_logged_once(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path, counters_file=CountersFile(tmp_path / "missing" / "counters.json")) as world:
            for _ in range(3):
                await world.ask()
                world.server.run_routine()
            assert world.names().count("counters_not_saved") == 1

    asyncio.run(scene())


def test_a_changed_file_changes_the_limits_and_an_invalid_one_changes_nothing(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("4")

    def read() -> Config:
        text = source.read_text()
        if text == "nonsense":
            raise ConfigError([("teams", "is nonsense")])
        return config(int(text))

    async def scene() -> None:
        async with running(tmp_path, read_config=read, file_stamp=lambda: file_stamp(source)) as world:
            assert [await world.ask() for _ in range(4)] == [True, True, True, False]
            world.server.run_routine()
            assert not await world.ask(), "nothing has changed"
            _replace(source, "5")
            world.server.run_routine()
            assert [await world.ask() for _ in range(3)] == [True, True, False]
            _replace(source, "nonsense")
            world.server.run_routine()
            assert not await world.ask()
            assert world.names()[-2:] == ["limits_reloaded", "limits_not_reloaded"]
            assert world.events[-1]["reason"] == "teams: is nonsense"

    asyncio.run(scene())


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name("temporary")
    temporary.write_text(text)
    os.replace(temporary, path)


def test_an_address_in_use_is_an_error(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path / "missing")
        with pytest.raises(RuntimeError):
            await world.server.start()

    asyncio.run(scene())


def test_metrics_count_charges_and_refusals() -> None:
    metrics = LimitMetrics()
    labels = {"team": "red", "model": "", "limit": KEY.kind}
    counted = LimitStatus(KEY, 3, 2, 60, exceeded=False, counted=True)
    metrics.charged(Charge(KEY, 2), counted)
    metrics.charged(Charge(KEY, 1), LimitStatus(KEY, 3, 0, 60, exceeded=True))
    metrics.charged(Charge(KEY, 1, refund=True), counted)
    metrics.refused(LimitStatus(KEY, 3, 0, 60, exceeded=True))
    value = metrics.registry.get_sample_value
    assert value("extproc_limit_hits_total", labels) == 2
    assert value("extproc_limit_refusals_total", labels) == 1
    assert value("extproc_limit_remaining", labels) == 2


def test_metrics_show_a_limit_before_its_first_request(tmp_path: Path) -> None:
    """After a restart with saved counters, and when a reload adds a limit."""
    async def scene() -> None:
        metrics = LimitMetrics()
        added = LimitKey("red", "", "tokens_per_day")
        both = Config(backends={}, models=[], teams={"red": Team(key="k", limits=TeamLimits(
            requests_per_minute=5, tokens_per_day=70))})

        def value(name: str, key: LimitKey = KEY) -> float | None:
            return metrics.registry.get_sample_value(f"extproc_limit_{name}", {
                "team": key.team, "model": key.rule, "limit": key.kind})

        file = CountersFile(tmp_path / "counters.json")
        async with running(tmp_path, counters_file=file) as world:
            await world.ask()
        async with running(tmp_path, counters_file=file, observer=metrics, read_config=lambda: both) as world:
            assert [value(name) for name in ("hits_total", "refusals_total", "remaining")] == [0, 0, 2]
            assert value("remaining", added) is None
            world.server.reload()
            assert [value(name, added) for name in ("hits_total", "refusals_total", "remaining")] == [0, 0, 70]
            assert value("remaining") == 4

    asyncio.run(scene())
