"""The processor's worker processes: one per socket, restarted when they die, ended together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client import multiprocess

from extproc.up.children import Child, Line, StartError

START_PATIENCE = 30.0
"""Seconds within which a worker must answer its health check."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
"""Seconds before a worker that died is started again; doubled each time it dies soon."""
STEADY = 30.0
"""Seconds of life after which a worker's death counts as its first."""

Command = Callable[[str], Sequence[str]]
"""A worker's address -> the command that runs it."""


def processors() -> int:
    """CPU cores that this process may use."""
    with contextlib.suppress(AttributeError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def worker_command(config_path: Path | None) -> Command:
    """The command line's own `worker`, with the same configuration file."""
    more = ["--config", str(config_path)] if config_path else []
    return lambda address: [sys.executable, "-m", "extproc", "worker", "--listen", address, *more]


class Workers:
    """`addresses` are gRPC addresses, one worker each. `say` gets what an operator should know."""

    def __init__(self, addresses: Sequence[str], command: Command, *, env: Mapping[str, str], metrics: Path,
                 on_line: Line, say: Line) -> None:
        self._addresses = addresses
        self._command = command
        self._env = {**env, "PROMETHEUS_MULTIPROC_DIR": str(metrics)}
        self._metrics = metrics
        self._on_line = on_line
        self._say = say
        self._children: dict[str, Child] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._ending = False

    async def start(self) -> None:
        """Starts all and returns when all are healthy. Raises StartError with the last words of one that is not."""
        await asyncio.gather(*(self._start_one(address) for address in self._addresses))
        self._keepers = [asyncio.create_task(self._keep(address)) for address in self._addresses]

    async def end(self, patience: float) -> None:
        """Lets all drain, for at most `patience` seconds."""
        self._ending = True
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*(child.end(patience) for child in self._children.values()))

    def kill(self) -> None:
        """Ends all at once."""
        self._ending = True
        for child in self._children.values():
            child.send(signal.SIGKILL)

    async def _start_one(self, address: str) -> None:
        _remove_old_socket(address)
        child = await Child.start("worker", self._command(address), env=self._env, on_line=self._on_line,
                                  on_error=lambda line: print(line, file=sys.stderr, flush=True))
        self._children[address] = child
        await _healthy(child, address)

    async def _keep(self, address: str) -> None:
        """Starts the worker of this address again whenever it dies."""
        pause, since = FIRST_PAUSE, time.monotonic()
        while True:
            child = self._children[address]
            await child.wait()
            if self._ending:
                return
            multiprocess.mark_process_dead(child.pid, path=str(self._metrics))  # type: ignore[no-untyped-call]
            if time.monotonic() - since > STEADY:
                pause = FIRST_PAUSE
            self._say(f"the {child.last_words(0)}; starting it again in {pause:g} s")
            await asyncio.sleep(pause)
            pause, since = min(pause * 2, LONGEST_PAUSE), time.monotonic()
            with contextlib.suppress(StartError):  # seen again at the top of the loop
                await self._start_one(address)


def _remove_old_socket(address: str) -> None:
    """A worker that was killed leaves its socket behind."""
    if address.startswith("unix:"):
        Path(address.removeprefix("unix:")).unlink(missing_ok=True)


async def _healthy(child: Child, address: str) -> None:
    """Until the worker says SERVING, which it does once it can take streams."""
    end = time.monotonic() + START_PATIENCE
    async with grpc.aio.insecure_channel(address, options=[("grpc.initial_reconnect_backoff_ms", 50),
                                                           ("grpc.max_reconnect_backoff_ms", 100),
                                                           ("grpc.min_reconnect_backoff_ms", 50)]) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        while time.monotonic() < end:
            if child.exit_code is not None:
                await child.wait()
                raise StartError(f"the {child.last_words(1)}")  # the rest went to standard error as it came
            with contextlib.suppress(grpc.aio.AioRpcError):
                answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=1)
                if answer.status == health_pb2.HealthCheckResponse.SERVING:
                    return
            await asyncio.sleep(0.03)
    child.send(signal.SIGKILL)
    await child.wait()
    raise StartError(f"a worker was not healthy within {START_PATIENCE:g} s on {address}; the {child.last_words(1)}")
