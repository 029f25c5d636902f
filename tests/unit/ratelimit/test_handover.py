"""A process that counts gets a successor under load: what was counted counts on, exactly, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from extproc.config import Config, LimitKey, Team, TeamLimits
from extproc.process.log import Log
from extproc.ratelimit import handover, process
from extproc.ratelimit.pb.rate_limit_service_pb2 import RateLimitRequest, RateLimitResponse
from extproc.ratelimit.process import File, LimitsProcess
from extproc.ratelimit.service import SERVICE
from tests.ports import free_port

REQUESTS = LimitKey("red", "", "requests_per_minute")
STREAMS = LimitKey("red", "", "concurrent_streams")
TOKEN = "known-to-both"


class One:
    """A process of its own, but for the process; `events` are the names of its log's lines."""

    def __init__(self, address: str, folder: Path, *, after: str = "", token: str = TOKEN, requests: int = 100) -> None:
        self.events: list[str] = []
        self.address = address
        limits = TeamLimits(requests_per_minute=requests, concurrent_streams=2)
        self.process = LimitsProcess(
            Config(backends={}, models=[], teams={"red": Team(key="k", limits=limits)}), address,
            log=Log("info", write=lambda line: self.events.append(json.loads(line)["event"])),
            file=File(folder / "counters.json"), clock=lambda: 1_800_014_400.0, after=after, token=token)

    async def ask(self, stream: str = "", *, ended: bool = False) -> bool:
        """Whether one more request may go on; with `stream`, whether one more may run."""
        async with grpc.aio.insecure_channel(self.address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            return await ask(channel, stream, ended=ended)

    def running(self) -> int:
        return self.process.service.counters.running(STREAMS)


async def ask(channel: grpc.aio.Channel, stream: str = "", *, ended: bool = False) -> bool:
    request = RateLimitRequest(domain="extproc")
    descriptor = request.descriptors.add(is_negative_hits=ended)
    entries = {"team": "red", "limit": (STREAMS if stream else REQUESTS).kind, **({"stream": stream} if stream else {})}
    for key, value in entries.items():
        descriptor.entries.add(key=key, value=value)
    call = channel.unary_unary(f"/{SERVICE}/ShouldRateLimit", request_serializer=RateLimitRequest.SerializeToString,
                               response_deserializer=RateLimitResponse.FromString)
    answer: RateLimitResponse = await call(request, timeout=10, wait_for_ready=True)
    return answer.overall_code == RateLimitResponse.OK


@pytest.fixture(params=["sockets", "port"])
def addresses(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Of the one that leaves and the one that comes."""
    if request.param == "sockets":
        return f"unix:{tmp_path}/limits.1", f"unix:{tmp_path}/limits.2"
    port = f"127.0.0.1:{free_port()}"
    return port, port


def test_under_load_every_request_counts_once(addresses: tuple[str, str], tmp_path: Path) -> None:
    """Its clients stay on the connections that they have for as long as those live."""
    async def scene() -> None:
        old, new = One(addresses[0], tmp_path), One(addresses[1], tmp_path, after=addresses[0])
        await old.process.start()
        assert await old.ask("a")
        said: Counter[object] = Counter()
        handed = asyncio.Event()

        async def client() -> None:
            async with grpc.aio.insecure_channel(old.address) as channel:
                while said[False] < 50:
                    if said.total() > 40:
                        handed.set()
                    try:
                        said[await ask(channel)] += 1
                    except grpc.aio.AioRpcError as error:  # its connection ended with the port: the failure mode's case
                        said[error.code()] += 1

        clients = [asyncio.create_task(client()) for _ in range(8)]
        await handed.wait()
        await new.process.start()
        await asyncio.gather(*clients)
        lost = said[grpc.StatusCode.UNAVAILABLE] + said[grpc.StatusCode.CANCELLED]
        assert said[True] <= 100 <= said[True] + lost
        if addresses[0] != addresses[1]:
            assert lost == 0
        assert set(said) <= {True, False, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
        assert old.events[-1] == "limits_handed_over"
        assert new.running() == 1
        assert await new.ask("b")
        assert not await new.ask("c")
        await new.ask("a", ended=True)
        assert await new.ask("c"), "the end of a request that began before was heard"
        old.process.succeeded()
        await old.process.stop()
        await new.process.stop()
        kept = json.loads((tmp_path / "counters.json").read_bytes())
        assert [used for *_, used in kept] == [100], "the old one has not written its figures over the new ones"

    asyncio.run(scene())


def test_only_the_successor_is_said_to_be_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a port both have the same address: who starts them must not take the old one for the new one."""
    async def serves(channel: grpc.aio.Channel, name: str) -> bool:
        try:
            answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=name))
        except grpc.aio.AioRpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    async def scene() -> None:
        monkeypatch.setattr(process.os, "getpid", lambda: 77)
        one = One(f"unix:{tmp_path}/limits.1", tmp_path)
        await one.process.start()
        async with grpc.aio.insecure_channel(one.address) as channel:
            assert [await serves(channel, name) for name in ("", "process-77", "process-7")] == [True, True, False]
        await one.process.stop()

    asyncio.run(scene())


def test_a_successor_that_dies_leaves_the_counters_where_they_were(tmp_path: Path) -> None:
    async def scene() -> None:
        old = One(f"unix:{tmp_path}/limits.1", tmp_path, requests=3)
        await old.process.start()
        assert await old.ask()
        assert await handover.take_over(old.address, f"unix:{tmp_path}/nobody", TOKEN) is not None
        assert [await old.ask() for _ in range(3)] == [True, True, False]
        assert old.events[-1] == "limits_taken_back"
        await old.process.stop()
        assert json.loads((tmp_path / "counters.json").read_bytes())[0][-1] == 3

    asyncio.run(scene())


@pytest.mark.parametrize("token", ["guessed", ""])
def test_nobody_else_can_take_over(tmp_path: Path, token: str) -> None:
    async def scene() -> None:
        old = One(f"unix:{tmp_path}/limits.1", tmp_path)
        await old.process.start()
        assert await handover.take_over(old.address, "192.0.2.1:1", token) is None
        assert await old.ask()
        assert old.events == ["limits_ready"]
        await old.process.stop()

    asyncio.run(scene())


def test_without_a_token_there_is_nothing_to_ask(tmp_path: Path) -> None:
    """`extproc limits` on a network."""
    async def scene() -> None:
        one = One(f"unix:{tmp_path}/limits.1", tmp_path, token="")
        await one.process.start()
        assert await handover.take_over(one.address, "192.0.2.1:1", "") is None
        await one.process.stop()

    asyncio.run(scene())


@pytest.mark.parametrize("predecessor", ["nobody", "one that knows nothing of it"])
def test_without_a_predecessor_the_file_counts(tmp_path: Path, predecessor: str) -> None:
    async def scene() -> None:
        old = One(f"unix:{tmp_path}/limits.1", tmp_path, token="" if predecessor != "nobody" else TOKEN, requests=3)
        await old.process.start()
        assert await old.ask()
        old.process.tend()
        if predecessor == "nobody":
            await old.process.stop()
        new = One(f"unix:{tmp_path}/limits.2", tmp_path, after=old.address, requests=3)
        await new.process.start()
        assert [await new.ask() for _ in range(3)] == [True, True, False]
        new.process.tend()
        if predecessor != "nobody":
            old.process.succeeded()
            assert old.process.over.is_set()
            await old.process.stop()
        await new.process.stop()
        assert json.loads((tmp_path / "counters.json").read_bytes())[0][-1] == 3

    asyncio.run(scene())


def test_who_gave_up_its_port_in_vain_ends_with_what_it_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is then started again as after a crash."""
    async def scene() -> Any:
        monkeypatch.setattr(process, "PORT_GIVEN_UP", 0.01)
        one = One(f"127.0.0.1:{free_port()}", tmp_path)
        await one.process.start()
        assert await one.ask()
        assert await handover.take_over(one.address, one.address, TOKEN) is not None
        await asyncio.wait_for(one.process.over.wait(), 10)
        await one.process.stop()
        return json.loads((tmp_path / "counters.json").read_bytes())

    assert asyncio.run(scene())[0][-1] == 1
