"""The process that counts: one for a gateway, whatever the number of its workers, or one for several gateways.

`extproc up` and `extproc serve` start it and start it again when it dies; `extproc limits` is the same by itself. It
reads its configuration again when the file changes or SIGHUP comes, and keeps what was counted; an unusable file is
reported and changes nothing. Counters are written to a file once a second, so a crash forgets at most that and the
requests that run; without a file they begin at 0. A successor (`handover`) forgets nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import msgspec
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from extproc.config import Config, ConfigError
from extproc.process.log import Log
from extproc.process.running import LOG_LEVEL, run_until_stopped
from extproc.ratelimit.counters import Kept
from extproc.ratelimit.handover import TOKEN, Handed, Successor, hand_over_handler, take_over
from extproc.ratelimit.pb.rate_limit_service_pb2 import RateLimitRequest, RateLimitResponse
from extproc.ratelimit.service import SERVICE, LimitService, Observer
from extproc.transport.grpcio_server import OPTIONS

SAVE_EVERY = 1.0
"""Seconds between two looks at what there is to save and whether the configuration changed."""
GRACE = 0.5
"""Seconds that calls have to end when the process is told to."""


CONNECTION_AGE = 10.0
"""Seconds after which a connection is asked to end and made anew, without a failed call: so connections move on to a
successor by themselves."""
AGE_GRACE = 5.0
"""Seconds that calls on such a connection have."""
LEAVING = CONNECTION_AGE * 1.1 + AGE_GRACE + 1
"""Seconds for which a process with a successor passes on what still comes; ages differ by a tenth."""
PORT_PATIENCE = 5.0
"""Seconds within which a predecessor's port must be free."""
PORT_GIVEN_UP = 35.0
"""Seconds after which a predecessor without a port stops waiting for its successor: longer than a start may take."""
PROCESS = "process-"
"""The service of the health check that only the process with this id serves."""

_AGES = [("grpc.max_connection_age_ms", int(CONNECTION_AGE * 1000)),
         ("grpc.max_connection_age_grace_ms", int(AGE_GRACE * 1000))]


class File:
    """The file of the counters. `kept` reads it, "" counts as none; `keep` replaces it at once."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def kept(self) -> list[Kept]:
        """What was written last; raises OSError or ValueError (no such file is an empty list)."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[Kept])
        except FileNotFoundError:
            return []
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from None

    def keep(self, counters: list[Kept]) -> None:
        """Raises OSError."""
        beside = self._path.with_name(f".{self._path.name}.new")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(counters))
        beside.replace(self._path)


class LimitsProcess:
    """The life of one: `start`, `tend` (again and again), `stop`. `read` gives the configuration anew, `stamp` changes
    when it is worth reading. `after`: the address under which a predecessor may serve; `token`: what it and successors
    know each other by."""

    def __init__(self, config: Config, address: str, *, log: Log, read: Callable[[], Config] | None = None,
                 stamp: Callable[[], object] = lambda: None, file: File | None = None,
                 observer: Observer | None = None, clock: Callable[[], float] = time.time, after: str = "",
                 token: str = "") -> None:
        self.service = LimitService(config.limit_numbers, clock, observer)
        self._limits = list(config.limit_numbers)
        self.service.elsewhere = self._when_ready
        self._ready = asyncio.Event()
        self._after = after
        self._token = token
        self._successor: Successor | None = None
        self._handed_over = False
        self._told = False
        self.over = asyncio.Event()
        """It is time to stop."""
        self._closing: asyncio.Task[None] | None = None
        self._address = address
        self._log = log
        self._read = read
        self._stamp = stamp
        self._seen = stamp()
        self._file = file
        self._saved = 0
        self._save_failed = False
        self._health = health.aio.HealthServicer()
        self._server = grpc.aio.server(options=[*OPTIONS, *_AGES])

    async def start(self) -> None:
        """Goes on from its predecessor or the file, listens and says SERVING. Raises RuntimeError when the address
        cannot be used."""
        self._server.add_generic_rpc_handlers((self.service.handler(),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        if self._token:
            self._server.add_generic_rpc_handlers((hand_over_handler(self._token, self._hand_over),))
        if self._after == self._address:
            handed = await self._take_over()
            await self._listen(PORT_PATIENCE if handed else 0)
        else:
            await self._listen(0)  # first, as the predecessor passes questions on at once
            handed = await self._take_over()
        if handed is not None:
            handed.into(self.service.counters)
        else:
            self._restore()
        self.service.tell_limits(self._limits)
        self.service.elsewhere = None
        self._ready.set()
        for name in ("", SERVICE, f"{PROCESS}{os.getpid()}"):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        self._log.write_event("info", "limits_ready", address=self._address, pid=os.getpid(),
                       **({} if handed is None else {"taken_over": len(handed.kept)}))

    async def _listen(self, patience: float) -> None:
        end = time.monotonic() + patience
        while True:
            try:
                port = self._server.add_insecure_port(self._address)
            except RuntimeError:
                port = 0
            if port:
                await self._server.start()
                return
            if time.monotonic() >= end:
                raise RuntimeError(f"cannot listen on {self._address}")
            await asyncio.sleep(0.005)

    def _restore(self) -> None:
        if self._file is not None:
            try:
                self.service.counters.restore(self._file.kept())
            except (OSError, ValueError) as error:
                self._log.write_event("warning", "counters_not_read", reason=str(error))

    # ------------------------------------------------------------------------------------------- from one to the next

    async def _take_over(self) -> Handed | None:
        if not (self._after and self._token):
            return None
        return await take_over(self._after, self._address, self._token)

    async def _when_ready(self, request: RateLimitRequest) -> RateLimitResponse:
        await self._ready.wait()
        return self.service.answer(request)

    def _hand_over(self, successor: str) -> Handed:
        """Everything, for the process at this address; nothing is decided or saved here any more."""
        self._save()
        self._handed_over = True
        self._successor = Successor(successor, self._take_back)
        self.service.elsewhere = self._successor.ask
        self._log.write_event("info", "limits_handed_over", address=successor)
        if successor == self._address:
            self._closing = asyncio.ensure_future(self._server.stop(GRACE))  # it waits for the port
            asyncio.get_running_loop().call_later(PORT_GIVEN_UP, self._alone)
        return Handed.of(self.service.counters)

    def _take_back(self, request: RateLimitRequest) -> RateLimitResponse:
        """The successor is gone: what it counted is lost, what was counted here is not."""
        if self._handed_over:
            self._handed_over, self.service.elsewhere = False, None
            self._log.write_event("warning", "limits_taken_back")
        return self.service.answer(request)

    def succeeded(self) -> None:
        """Told by who starts processes: a successor has the address, and every new connection goes there."""
        self._told = True
        if self._handed_over and self._closing is None:
            asyncio.get_running_loop().call_later(LEAVING, self.over.set)
        else:
            self._handed_over = True  # what is counted is the successor's affair, whether it asked or not
            self.over.set()

    def _alone(self) -> None:
        """The port is given up, and there is no successor: who starts processes starts another one."""
        if not self._told:
            self._handed_over = False
            self.over.set()

    # ------------------------------------------------------------------------------------------------------- routine

    def tend(self) -> None:
        """Reads a changed configuration and saves changed counters."""
        if (stamp := self._stamp()) != self._seen:
            self._seen = stamp
            self.reload()
        self._save()

    def reload(self) -> None:
        """Takes the configuration as it is now."""
        if self._read is None:
            return
        try:
            config = self._read()
        except (ConfigError, OSError, ValueError) as error:
            self._log.write_event("error", "limits_not_reloaded", reason=str(error))
            return
        self.service.counters.use(config.limit_numbers)
        if not self._handed_over:  # else the successor knows how they stand
            self.service.tell_limits(config.limit_numbers)
        self._log.write_event("info", "limits_reloaded", limits=len(config.limit_numbers))

    def _save(self) -> None:
        counters = self.service.counters
        if self._file is None or counters.changes == self._saved or self._handed_over:
            return
        self._saved = counters.changes
        try:
            self._file.keep(counters.kept())
            self._save_failed = False
        except OSError as error:
            if not self._save_failed:
                self._log.write_event("warning", "counters_not_saved", reason=str(error))
            self._save_failed = True

    async def stop(self) -> None:
        """Ends the server and saves once more."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(GRACE)
        self._save()
        if self._successor is not None:
            await self._successor.close()


async def run(process: LimitsProcess) -> None:
    """Until SIGTERM or SIGINT, or for a while behind a successor (SIGUSR1)."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, process.over.set)
    loop.add_signal_handler(signal.SIGHUP, process.reload)
    loop.add_signal_handler(signal.SIGUSR1, process.succeeded)
    await process.start()
    while not process.over.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.over.wait(), SAVE_EVERY)
        process.tend()
    await process.stop()


def run_limits(read: Callable[[], Config], source: Path, address: str, *, counters: Path | None = None,
               observer: Observer | None = None, after: str = "") -> int:
    """Serves on `unix:/path` or `host:port` until told to stop. `read` gives the configuration, again when the file
    `source` changes. `counters`: their file, where the configuration names none. Raises ConfigError. Returns the exit
    code: 0, or 1 when the address cannot be used."""
    log = Log(os.environ.get(LOG_LEVEL, "info"))
    config = read()
    named = config.limits_service.counters
    file = Path(named) if named else counters

    async def main() -> None:
        await run(LimitsProcess(config, address, log=log, observer=observer, file=File(file) if file else None,
                                read=read, stamp=lambda: stamp_of(source), after=after,
                                token=os.environ.get(TOKEN, "")))

    return run_until_stopped(main(), log)


def stamp_of(path: Path) -> object:
    """Something that changes when the file does, also where a link is swapped; None while there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
