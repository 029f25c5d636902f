"""The worker processes: one per address, restarted when they die, configured and replaced while they serve.

A worker on a Unix socket listens on a path of its own (`w0.1`), and the address (`w0.sock`) is a link to it. So a
successor can listen before its predecessor stops, and one rename moves all new connections to it.
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
from extproc.gateway.child_processes import ChildProcess, LineSink, StartError
from extproc.process.metric_files import retire_process

START_PATIENCE = 30.0
"""Seconds within which a worker must answer its health check."""
CONFIGURE_PATIENCE = 30.0
"""Seconds within which all workers must have taken a new configuration."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
"""Seconds before a worker that died is restarted; doubled each time it dies soon."""
STEADY = 30.0
"""Seconds of life after which a worker's death counts as its first."""
NOTICED = 2.0
"""Seconds in which Envoy notices a restarted worker (`envoy_config.clusters`)."""

ACCEPTED, RUNNING = "accepted-", "running-"
"""Questions to a worker's health service, besides its health (`extproc.worker.worker`)."""

Command = Callable[[str], Sequence[str]]
"""A worker's address -> the command that runs it."""

_SERVING = health_pb2.HealthCheckResponse.SERVING


def processors() -> int:
    """CPU cores that this process may use."""
    with contextlib.suppress(AttributeError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def worker_command(accepted: Path) -> Command:
    """Runs a worker that reads the accepted configuration from this file."""
    return lambda address: [sys.executable, "-m", "extproc.worker.worker_process", "--listen", address,
                            "--accepted", str(accepted)]


class Workers:
    """`addresses` are gRPC addresses, one worker each. `report` receives messages for the operator."""

    def __init__(self, addresses: Sequence[str], command: Command, *, env: Mapping[str, str], metrics: Path,
                 on_line: LineSink, report: LineSink, name: str = "worker") -> None:
        self._addresses = addresses
        self._name = name
        self._command = command
        self._env = {**env, "PROMETHEUS_MULTIPROC_DIR": str(metrics)}
        self._metrics = metrics
        self._on_line = on_line
        self._report = report
        self._children: dict[str, ChildProcess] = {}
        self.retiring: set[ChildProcess] = set()
        """Replaced processes that finish what they run."""
        self._start_locks = {address: asyncio.Lock() for address in addresses}
        """Held while a process of this address is started: a worker that dies while it is replaced gets one successor.
        """
        self._supervisors: set[asyncio.Task[None]] = set()
        self._ending = False

    @property
    def pids(self) -> list[int]:
        """The process of each address, in the order of the addresses."""
        return [self._children[address].pid for address in self._addresses]

    async def start(self) -> None:
        """Starts all and returns when all are healthy. Raises StartError with the last lines of one that is not."""
        await asyncio.gather(*(self._start_one(address) for address in self._addresses))
        for address in self._addresses:
            self._start_supervisor(address)

    async def stop(self, patience: float) -> None:
        """Lets all drain, for at most `patience` seconds."""
        self._ending = True
        for supervisor in self._supervisors:
            supervisor.cancel()
        await asyncio.gather(*(child.stop(patience) for child in (*self._children.values(), *self.retiring)))

    def kill(self) -> None:
        """Kills all."""
        self._ending = True
        for child in (*self._children.values(), *self.retiring):
            child.send_signal(signal.SIGKILL)

    # --------------------------------------------------------------------------------------------------- configuration

    def set_env(self, env: Mapping[str, str]) -> None:
        """The environment of workers that are started from now on."""
        self._env = {**env, "PROMETHEUS_MULTIPROC_DIR": str(self._metrics)}

    async def configure(self, digest: str) -> bool:
        """Tells all workers to read the accepted configuration, and waits until each of them uses it for new streams.
        Returns False if one does not in time."""
        end = time.monotonic() + CONFIGURE_PATIENCE
        waiting = set(self._addresses)
        last_signal = 0.0
        while waiting and time.monotonic() < end and not self._ending:
            if time.monotonic() - last_signal > 0.5:  # a worker may have been started again meanwhile
                last_signal = time.monotonic()
                for address in waiting:
                    self._children[address].send_signal(signal.SIGHUP)
            responses = await asyncio.gather(*(_is_serving(address, ACCEPTED + digest) for address in waiting))
            waiting = {address for address, holds in zip(waiting, responses, strict=True) if not holds}
            if waiting:
                await asyncio.sleep(0.02)
        return not waiting

    async def any_serves(self) -> bool:
        """True if at least one worker reports SERVING. Returns with the first that does: a hanging one would take two
        seconds, too long for many probes."""
        probes = [asyncio.ensure_future(_is_serving(address, "")) for address in self._addresses]
        try:
            for probe in asyncio.as_completed(probes):
                if await probe:
                    return True
            return False
        finally:
            for pending in probes:
                pending.cancel()

    async def is_generation_in_use(self, generation: int) -> bool:
        """True if a stream runs on this generation of the configuration, or may run: on a worker that is being replaced
        or does not answer."""
        if self.retiring:
            return True
        responses = await asyncio.gather(*(_is_serving(address, f"{RUNNING}{generation}", unknown=True)
                                         for address in self._addresses))
        return any(responses)

    # ------------------------------------------------------------------------------------------------------ successors

    async def replace(self) -> bool:
        """Replaces the process of every worker, one after the other. The old ones finish what they run. Returns False
        if a new one does not start: the others then stay as they are."""
        for address in self._addresses:
            try:
                overlap = _has_link(address)
                async with self._start_locks[address]:
                    await (self._replace_overlapping(address) if overlap else self._replace_after_exit(address))
                if not overlap:
                    await asyncio.sleep(NOTICED)
            except (StartError, OSError) as error:
                self._report(f"not replaced: {error}")
                return False
        return True

    async def _replace_overlapping(self, address: str) -> None:
        """Starts the successor first. A process that has just died is restarted anyway."""
        old = self._children[address]
        if old.exit_code is not None:
            return
        await self._start_one(address)
        self._start_supervisor(address)
        if old.exit_code is None:  # else its supervisor has seen that it is replaced
            self.retiring.add(old)  # its supervisor will not restart it
            old.send_signal(signal.SIGUSR1)

    async def _replace_after_exit(self, address: str) -> None:
        """Ends the process first, because only one can listen on a port. The others serve meanwhile. A process that has
        just died is restarted anyway; a successor that does not start is retried, as after a crash."""
        if len(self._addresses) == 1:
            raise StartError(f"the only worker listens on a port ({address}), which a successor cannot share; "
                             "listen on unix:/path, or run two")
        old = self._children[address]
        if old.exit_code is not None:
            return
        self.retiring.add(old)
        old.send_signal(signal.SIGTERM)
        await old.wait()
        try:
            await self._start_one(address)
        finally:
            self._start_supervisor(address)

    # ------------------------------------------------------------------------------------------------------- processes

    async def _start_one(self, address: str) -> None:
        socket_address = _free_socket(address)
        child = await ChildProcess.start(self._name, self._command(socket_address), env=self._env,
                                         on_line=self._on_line, on_error=console.print_error)
        before = self._children.get(address)
        if before is None or before.exit_code is not None:
            self._children[address] = child
        try:
            await _wait_until_healthy(child, socket_address)
            _point_link(address, socket_address)
        except BaseException:
            child.send_signal(signal.SIGKILL)
            raise
        self._children[address] = child

    def _start_supervisor(self, address: str) -> None:
        supervisor = asyncio.create_task(self._supervise(address, self._children[address]))
        self._supervisors.add(supervisor)
        supervisor.add_done_callback(self._supervisors.discard)

    async def _supervise(self, address: str, child: ChildProcess) -> None:
        """Restarts the worker of this address whenever it dies, unless it has a successor."""
        pause, since = FIRST_PAUSE, time.monotonic()
        while True:
            await child.wait()
            if self._ending:
                return
            retire_process(self._metrics, child.pid)
            if child in self.retiring:
                self.retiring.discard(child)
                return
            if time.monotonic() - since > STEADY:
                pause = FIRST_PAUSE
            self._report(f"the {child.describe_end(0)}; starting it again in {pause:g} s")
            await asyncio.sleep(pause)
            pause, since = min(pause * 2, LONGEST_PAUSE), time.monotonic()
            async with self._start_locks[address]:
                if self._children[address] is not child:  # replaced meanwhile
                    return
                try:
                    await self._start_one(address)
                except StartError:
                    pass  # it is dead, which the top of the loop notices
                except OSError as error:  # no room for its link on a full disk
                    self._report(f"the {self._name} cannot be started: {error}")
                child = self._children[address]


# ---------------------------------------------------------------------------------------------------- sockets and links


def _has_link(address: str) -> bool:
    return address.startswith("unix:") and socket_path_problem(f"{_stem(address)}.999") is None


def _stem(address: str) -> str:
    return address.removeprefix("unix:").removesuffix(".sock")


def _free_socket(address: str) -> str:
    """Where the next worker of this address listens: a free path beside the address. Removes what a killed worker left
    there."""
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
    """True if a process responses on this socket."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(0.5)
        try:
            asking.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True


def _point_link(address: str, socket_address: str) -> None:
    """Points the address to this socket for new connections. The link is relative, because the folder may be mounted
    elsewhere."""
    if socket_address == address:
        return
    link = Path(address.removeprefix("unix:"))
    temporary = link.with_name(f".{link.name}.new")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(Path(socket_address.removeprefix("unix:")).name)
    temporary.replace(link)


# --------------------------------------------------------------------------------------------------------------- health


async def _is_serving(address: str, service: str, *, unknown: bool = False) -> bool:
    """True if the worker's health service reports SERVING for this service; `unknown` if it does not answer."""
    async with grpc.aio.insecure_channel(address) as channel:
        status = await _health_status(channel, service, 2)
    return unknown if status is None else status == _SERVING


async def _health_status(channel: grpc.aio.Channel, service: str, seconds: float) -> int | None:
    """The status that the worker's health service reports; None if it does not respond in time. The event loop has a
    timeout besides gRPC's: a call that never ended would block a reload forever."""
    request = health_pb2.HealthCheckRequest(service=service)
    try:
        async with asyncio.timeout(seconds + 1):
            response = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=seconds)
    except (grpc.aio.AioRpcError, TimeoutError):
        return None
    return int(response.status)


async def _wait_until_healthy(child: ChildProcess, address: str) -> None:
    """Waits until the worker reports SERVING, which it does once it accepts streams."""
    end = time.monotonic() + START_PATIENCE
    async with grpc.aio.insecure_channel(address, options=[("grpc.initial_reconnect_backoff_ms", 50),
                                                           ("grpc.max_reconnect_backoff_ms", 100),
                                                           ("grpc.min_reconnect_backoff_ms", 50)]) as channel:
        while time.monotonic() < end:
            if child.exit_code is not None:
                await child.wait()
                raise StartError(f"the {child.describe_end(1)}")  # the rest went to standard error already
            if await _health_status(channel, "", 1) == _SERVING:
                return
            await asyncio.sleep(0.03)
    child.send_signal(signal.SIGKILL)
    await child.wait()
    raise StartError(f"a worker was not healthy within {START_PATIENCE:g} s on {address}; the {child.describe_end(1)}")
