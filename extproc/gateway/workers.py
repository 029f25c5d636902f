"""The processor's worker processes: one per address, started again when they die, configured and replaced while they
serve, ended together.

A worker on a Unix socket listens under a name of its own (`w0.1`), and the address (`w0.sock`) is a link to it. So a
successor can listen before its predecessor stops, and one rename lets all new connections go to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from extproc.envoy_config.layout import socket_path_problem
from extproc.gateway import console
from extproc.gateway.child_processes import Child, Line, StartError
from extproc.process.metric_files import retire

START_PATIENCE = 30.0
"""Seconds within which a worker must answer its health check."""
CONFIGURE_PATIENCE = 30.0
"""Seconds within which all workers must have taken a new configuration."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
"""Seconds before a worker that died is started again; doubled each time it dies soon."""
STEADY = 30.0
"""Seconds of life after which a worker's death counts as its first."""
NOTICED = 2.0
"""Seconds in which Envoy notices a worker that was started again (`bootstrap.clusters`)."""

ACCEPTED, RUNNING = "accepted-", "running-"
"""What a worker's health service is asked beside its health (`extproc.worker.worker`)."""

Command = Callable[[str], Sequence[str]]
"""A worker's address -> the command that runs it."""

_SERVING = health_pb2.HealthCheckResponse.SERVING


def processors() -> int:
    """CPU cores that this process may use."""
    with contextlib.suppress(AttributeError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def worker_command(accepted: Path) -> Command:
    """A worker that reads in a file what was accepted."""
    return lambda address: [sys.executable, "-m", "extproc.worker.worker_process", "--listen", address,
                            "--accepted", str(accepted)]


class Workers:
    """`addresses` are gRPC addresses, one worker each. `say` gets what an operator should know."""

    def __init__(self, addresses: Sequence[str], command: Command, *, env: Mapping[str, str], metrics: Path,
                 on_line: Line, say: Line, name: str = "worker") -> None:
        self._addresses = addresses
        self._name = name
        self._command = command
        self._env = {**env, "PROMETHEUS_MULTIPROC_DIR": str(metrics)}
        self._metrics = metrics
        self._on_line = on_line
        self._say = say
        self._children: dict[str, Child] = {}
        self._leaving: set[Child] = set()
        self._changing = {address: asyncio.Lock() for address in addresses}
        """Held while a process of this address is started: one that dies while it is replaced has one successor."""
        self._keepers: set[asyncio.Task[None]] = set()
        self._ending = False

    async def start(self) -> None:
        """Starts all and returns when all are healthy. Raises StartError with the last words of one that is not."""
        await asyncio.gather(*(self._start_one(address) for address in self._addresses))
        for address in self._addresses:
            self._watch(address)

    async def end(self, patience: float) -> None:
        """Lets all drain, for at most `patience` seconds."""
        self._ending = True
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*(child.end(patience) for child in (*self._children.values(), *self._leaving)))

    def kill(self) -> None:
        """Ends all at once."""
        self._ending = True
        for child in (*self._children.values(), *self._leaving):
            child.send(signal.SIGKILL)

    # ---------------------------------------------------------------------------------------------------- new settings

    def set_env(self, env: Mapping[str, str]) -> None:
        """The environment of workers that are started from now on."""
        self._env = {**env, "PROMETHEUS_MULTIPROC_DIR": str(self._metrics)}

    async def configure(self, digest: str) -> bool:
        """Tells all to read what was accepted, and waits until new streams get it on each of them. False when one does
        not take it in time."""
        end = time.monotonic() + CONFIGURE_PATIENCE
        waiting = set(self._addresses)
        told = 0.0
        while waiting and time.monotonic() < end and not self._ending:
            if time.monotonic() - told > 0.5:  # a worker may have been started again meanwhile
                told = time.monotonic()
                for address in waiting:
                    self._children[address].send(signal.SIGHUP)
            answers = await asyncio.gather(*(_ask(address, ACCEPTED + digest) for address in waiting))
            waiting = {address for address, holds in zip(waiting, answers, strict=True) if not holds}
            if waiting:
                await asyncio.sleep(0.02)
        return not waiting

    async def any_serves(self) -> bool:
        """Whether at least one answers that it serves. Returns with the first that does: one that hangs would take two
        seconds, which are too long for many probes."""
        asked = [asyncio.ensure_future(_ask(address, "")) for address in self._addresses]
        try:
            for answer in asyncio.as_completed(asked):
                if await answer:
                    return True
            return False
        finally:
            for one in asked:
                one.cancel()

    async def in_use(self, generation: int) -> bool:
        """Whether a stream runs on this generation of the configuration, as far as can be known: a worker that is being
        replaced or does not answer may have one."""
        if self._leaving:
            return True
        answers = await asyncio.gather(*(_ask(address, f"{RUNNING}{generation}", unknown=True)
                                         for address in self._addresses))
        return any(answers)

    # ------------------------------------------------------------------------------------------------------ successors

    async def replace(self) -> bool:
        """A new process for every worker, one after the other; the old ones finish what they run. False when a new one
        does not start: the others then stay as they are."""
        for address in self._addresses:
            try:
                overlap = _has_link(address)
                async with self._changing[address]:
                    await (self._succeed(address) if overlap else self._restart(address))
                if not overlap:
                    await asyncio.sleep(NOTICED)
            except (StartError, OSError) as error:
                self._say(f"not replaced: {error}")
                return False
        return True

    async def _succeed(self, address: str) -> None:
        """The successor is there first. One that has just died is started again anyway."""
        old = self._children[address]
        if old.exit_code is not None:
            return
        await self._start_one(address)
        self._watch(address)
        if old.exit_code is None:  # else its keeper has seen that it is not wanted any more
            self._leaving.add(old)  # its keeper will see that and leave it alone
            old.send(signal.SIGUSR1)

    async def _restart(self, address: str) -> None:
        """Only one process can listen on a port: the others serve meanwhile. One that has just died is started again
        anyway; one that does not start any more is tried again and again, as after a crash."""
        if len(self._addresses) == 1:
            raise StartError(f"the only worker listens on a port ({address}), which a successor cannot share; "
                             "listen on unix:/path, or run two")
        old = self._children[address]
        if old.exit_code is not None:
            return
        self._leaving.add(old)
        old.send(signal.SIGTERM)
        await old.wait()
        try:
            await self._start_one(address)
        finally:
            self._watch(address)

    # ------------------------------------------------------------------------------------------------------- processes

    async def _start_one(self, address: str) -> None:
        place = _place(address)
        child = await Child.start(self._name, self._command(place), env=self._env, on_line=self._on_line,
                                  on_error=console.complain)
        before = self._children.get(address)
        if before is None or before.exit_code is not None:
            self._children[address] = child
        try:
            await _healthy(child, place)
            _point(address, place)
        except BaseException:
            child.send(signal.SIGKILL)
            raise
        self._children[address] = child

    def _watch(self, address: str) -> None:
        keeper = asyncio.create_task(self._keep(address, self._children[address]))
        self._keepers.add(keeper)
        keeper.add_done_callback(self._keepers.discard)

    async def _keep(self, address: str, child: Child) -> None:
        """Starts the worker of this address again whenever it dies; one that has a successor just ends."""
        pause, since = FIRST_PAUSE, time.monotonic()
        while True:
            await child.wait()
            if self._ending:
                return
            retire(self._metrics, child.pid)
            if child in self._leaving:
                self._leaving.discard(child)
                return
            if time.monotonic() - since > STEADY:
                pause = FIRST_PAUSE
            self._say(f"the {child.last_words(0)}; starting it again in {pause:g} s")
            await asyncio.sleep(pause)
            pause, since = min(pause * 2, LONGEST_PAUSE), time.monotonic()
            async with self._changing[address]:
                if self._children[address] is not child:  # replaced meanwhile
                    return
                try:
                    await self._start_one(address)
                except StartError:
                    pass  # it is dead, which is seen at the top of the loop
                except OSError as error:  # a full disk has no room for its link
                    self._say(f"the {self._name} cannot be started: {error}")
                child = self._children[address]


# ---------------------------------------------------------------------------------------------------- sockets and links


def _has_link(address: str) -> bool:
    return address.startswith("unix:") and socket_path_problem(f"{_stem(address)}.999") is None


def _stem(address: str) -> str:
    return address.removeprefix("unix:").removesuffix(".sock")


def _place(address: str) -> str:
    """Where the next worker of this address listens: a free name beside the address. What a killed worker left there is
    removed."""
    if not _has_link(address):
        if address.startswith("unix:"):
            Path(address.removeprefix("unix:")).unlink(missing_ok=True)
        return address
    link, number = Path(address.removeprefix("unix:")), 1
    current = os.readlink(link) if link.is_symlink() else ""
    while (path := Path(f"{_stem(address)}.{number}")).exists() or path.name == current:
        if path.is_socket() and path.name != current and not _listening(path):
            path.unlink(missing_ok=True)
            break
        number += 1
    return f"unix:{path}"


def _listening(path: Path) -> bool:
    """Whether somebody answers on this socket."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(0.5)
        try:
            asking.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True


def _point(address: str, place: str) -> None:
    """New connections to the address go to this place. The link is relative: the folder may be mounted elsewhere."""
    if place == address:
        return
    link = Path(address.removeprefix("unix:"))
    beside = link.with_name(f".{link.name}.new")
    beside.unlink(missing_ok=True)
    beside.symlink_to(Path(place.removeprefix("unix:")).name)
    beside.replace(link)


# --------------------------------------------------------------------------------------------------------------- health


async def _ask(address: str, service: str, *, unknown: bool = False) -> bool:
    """Whether the worker's health service says SERVING about this; `unknown` where it says nothing."""
    async with grpc.aio.insecure_channel(address) as channel:
        status = await _status(channel, service, 2)
    return unknown if status is None else status == _SERVING


async def _status(channel: grpc.aio.Channel, service: str, seconds: float) -> int | None:
    """What the worker's health service says; None where it does not within so many seconds. The clock is the event
    loop's as well as gRPC's: a call that never ended would hold up a reload for ever."""
    asked = health_pb2.HealthCheckRequest(service=service)
    try:
        async with asyncio.timeout(seconds + 1):
            answer = await health_pb2_grpc.HealthStub(channel).Check(asked, timeout=seconds)
    except (grpc.aio.AioRpcError, TimeoutError):
        return None
    return int(answer.status)


async def _healthy(child: Child, address: str) -> None:
    """Until the worker says SERVING, which it does once it can take streams."""
    end = time.monotonic() + START_PATIENCE
    async with grpc.aio.insecure_channel(address, options=[("grpc.initial_reconnect_backoff_ms", 50),
                                                           ("grpc.max_reconnect_backoff_ms", 100),
                                                           ("grpc.min_reconnect_backoff_ms", 50)]) as channel:
        while time.monotonic() < end:
            if child.exit_code is not None:
                await child.wait()
                raise StartError(f"the {child.last_words(1)}")  # the rest went to standard error as it came
            if await _status(channel, "", 1) == _SERVING:
                return
            await asyncio.sleep(0.03)
    child.send(signal.SIGKILL)
    await child.wait()
    raise StartError(f"a worker was not healthy within {START_PATIENCE:g} s on {address}; the {child.last_words(1)}")
