"""Workers that die, are replaced, or fail to start, on ports and on Unix sockets: one serves at any time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from extproc.gateway import workers as workers_module
from extproc.gateway.workers import Workers
from tests.ports import free_port

PROGRAM = textwrap.dedent("""
    import os, pathlib, signal, sys, threading
    from concurrent import futures
    import grpc
    from grpc_health.v1 import health, health_pb2, health_pb2_grpc

    folder, address = pathlib.Path(sys.argv[1]), sys.argv[2]
    if (folder / "obstacle").exists():
        sys.exit("there is an obstacle")
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda *_: over.set())
    server = grpc.server(futures.ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
    servicer = health.HealthServicer()
    servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    server.add_insecure_port(address)
    server.start()
    while not over.wait(0.02):
        pass
    server.stop(0.2).wait()
""")


class World:
    """Workers whose program only answers health checks. `said`: the messages to the operator."""

    def __init__(self, folder: Path, addresses: list[str]) -> None:
        self.folder = folder
        self.addresses = addresses
        self.said: list[str] = []
        (folder / "program.py").write_text(PROGRAM)
        self.workers = Workers(
            addresses, lambda place: [sys.executable, str(folder / "program.py"), str(folder), place],
            env=dict(os.environ), metrics=folder, on_line=lambda line: None, report=self.said.append)

    @property
    def pids(self) -> list[int]:
        return self.workers.pids

    async def serving(self) -> list[bool]:
        return [await self._serves(address) for address in self.addresses]

    async def _serves(self, address: str) -> bool:
        """Asks twice, as Envoy does: a connection in the backlog of a closed socket is rejected."""
        return await self._answers(address) or await self._answers(address)

    async def _answers(self, address: str) -> bool:
        # A connection of its own each time: where new ones go is the question.
        async with grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            try:
                async with asyncio.timeout(6):
                    await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
            except (grpc.aio.AioRpcError, TimeoutError):
                return False
        return True

    async def until(self, holds: Callable[[], bool], what: str, *, serving: bool = False) -> None:
        """Polls, because other processes have no event to wait for. `serving`: until all serve, too."""
        for _ in range(2000):
            if holds() and (not serving or all(await self.serving())):
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{what}: {self.said}")

    def processes(self) -> int:
        """The number of processes that run the program."""
        return sum(_runs(path, self.folder) for path in Path("/proc").iterdir() if path.name.isdecimal())


def _runs(process: Path, folder: Path) -> bool:
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return len(words) > 2 and words[1:3] == [str(folder / "program.py").encode(), str(folder).encode()]


@asynccontextmanager
async def started(folder: Path, number: int, *, ports: bool) -> AsyncIterator[World]:
    world = World(folder, [f"127.0.0.1:{free_port()}" if ports else f"unix:{folder}/w{one}.sock"
                           for one in range(number)])
    await world.workers.start()
    try:
        yield world
    finally:
        await world.workers.stop(5)
        assert world.processes() == 0, "nobody is left behind"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "NOTICED", 0)
    monkeypatch.setattr(workers_module, "FIRST_PAUSE", 0.01)


both = pytest.mark.parametrize("ports", [True, False], ids=["ports", "sockets"])


@both
def test_all_are_replaced_and_one_serves_at_any_time(tmp_path: Path, ports: bool) -> None:
    async def scene() -> None:
        async with started(tmp_path, 2, ports=ports) as world:
            before = world.pids
            replacing = asyncio.create_task(world.workers.replace())
            while not replacing.done():
                now = await world.serving()
                assert any(now) if ports else all(now)
            assert await replacing
            assert not set(before) & set(world.pids)
            assert await world.serving() == [True, True]
            assert world.said == [], "what is meant to end is no news"
            await world.until(lambda: not world.workers.retiring, "the old ones end")
            assert world.processes() == 2

    asyncio.run(scene())


@both
def test_a_crashed_worker_is_restarted_at_its_address(tmp_path: Path, ports: bool) -> None:
    async def scene() -> None:
        async with started(tmp_path, 2, ports=ports) as world:
            first, second = world.pids
            os.kill(first, signal.SIGKILL)
            await world.until(lambda: world.pids[0] != first and len(world.said) == 1, "started again")
            assert world.pids[1] == second
            await world.until(lambda: True, "both serve", serving=True)
            assert "SIGKILL" in world.said[0]

    asyncio.run(scene())


@both
def test_a_successor_that_does_not_start(tmp_path: Path, ports: bool) -> None:
    """On a port its predecessor has ended by then, so it is retried until it starts. The others stay."""
    async def scene() -> None:
        async with started(tmp_path, 2, ports=ports) as world:
            before = world.pids
            (tmp_path / "obstacle").touch()
            assert not await world.workers.replace()
            assert "not replaced: the worker ended with exit code 1\n    there is an obstacle" in world.said[0]
            assert world.pids[1] == before[1]
            assert await world.serving() == [not ports, True]
            (tmp_path / "obstacle").unlink()
            await world.until(lambda: True, "both serve", serving=True)
            assert (world.pids[0] == before[0]) is not ports
            assert await world.workers.replace(), "the next time it works"
            assert not set(before) & set(world.pids)

    asyncio.run(scene())


def test_the_only_worker_on_a_port_is_not_replaced(tmp_path: Path) -> None:
    async def scene() -> None:
        async with started(tmp_path, 1, ports=True) as world:
            before = world.pids
            assert not await world.workers.replace()
            assert "listen on unix:/path, or run two" in world.said[0]
            assert (world.pids, await world.serving()) == (before, [True])

    asyncio.run(scene())


@both
def test_a_worker_that_dies_while_it_is_replaced_has_one_successor(tmp_path: Path, ports: bool) -> None:
    async def scene() -> None:
        async with started(tmp_path, 2, ports=ports) as world:
            before = world.pids
            replacing = asyncio.create_task(world.workers.replace())
            await asyncio.sleep(0)  # it has begun with the first
            os.kill(before[0], signal.SIGKILL)
            await replacing
            await world.until(lambda: not set(before) & set(world.pids) and not world.workers.retiring, "replaced")
            await world.until(lambda: world.processes() == 2, "two processes, no more", serving=True)

    asyncio.run(scene())


def test_a_hanging_worker_delays_no_probe(tmp_path: Path) -> None:
    """Probes and Prometheus ask whether any worker serves, and wait a second or three."""
    async def scene() -> None:
        async with started(tmp_path, 2, ports=False) as world:
            for hanging in world.pids:
                os.kill(hanging, signal.SIGSTOP)
                async with asyncio.timeout(1.5):
                    assert await world.workers.any_serves()
                os.kill(hanging, signal.SIGCONT)
            for hanging in world.pids:
                os.kill(hanging, signal.SIGSTOP)
            await world.until(lambda: all(map(_is_stopped, world.pids)), "all threads have stopped")
            assert not await world.workers.any_serves()
            for hanging in world.pids:
                os.kill(hanging, signal.SIGCONT)

    asyncio.run(scene())


def _is_stopped(pid: int) -> bool:
    """True if every thread is stopped: a thread that runs when the signal arrives continues for a moment."""
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in threads)
