"""The process that counts: one for a gateway, whatever the number of its workers, or one for several gateways.

`extproc up` and `extproc serve` start it and start it again when it dies; `extproc limits` is the same by itself. It
reads its configuration again when the file changes or SIGHUP comes, and keeps what was counted; an unusable file is
reported and changes nothing. Counters are written to a file once a second, so a crash forgets at most that and the
requests that run; without a file they begin at 0.
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
import uvloop
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from extproc.config import Config, ConfigError
from extproc.limiting.counters import Kept
from extproc.limiting.service import SERVICE, LimitService, Observer
from extproc.server.log import Log
from extproc.server.grpcio import OPTIONS
from extproc.server.worker import LOG_LEVEL

SAVE_EVERY = 1.0
"""Seconds between two looks at what there is to save and whether the configuration changed."""
GRACE = 0.5
"""Seconds that calls have to end when the process is told to."""


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
    when it is worth reading."""

    def __init__(self, config: Config, address: str, *, log: Log, read: Callable[[], Config] | None = None,
                 stamp: Callable[[], object] = lambda: None, file: File | None = None,
                 observer: Observer | None = None, clock: Callable[[], float] = time.time) -> None:
        self.service = LimitService(config.limit_numbers, clock, observer)
        self._address = address
        self._log = log
        self._read = read
        self._stamp = stamp
        self._seen = stamp()
        self._file = file
        self._saved = 0
        self._save_failed = False
        self._health = health.aio.HealthServicer()
        self._server = grpc.aio.server(options=OPTIONS)

    async def start(self) -> None:
        """Goes on from the file, listens and says SERVING. Raises RuntimeError when the address cannot be used."""
        if self._file is not None:
            try:
                self.service.counters.restore(self._file.kept())
            except (OSError, ValueError) as error:
                self._log.line("warning", "counters_not_read", reason=str(error))
        self._server.add_generic_rpc_handlers((self.service.handler(),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        if not self._server.add_insecure_port(self._address):
            raise RuntimeError(f"cannot listen on {self._address}")
        await self._server.start()
        for name in ("", SERVICE):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        self._log.line("info", "limits_ready", address=self._address, pid=os.getpid())

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
            self._log.line("error", "limits_not_reloaded", reason=str(error))
            return
        self.service.counters.use(config.limit_numbers)
        self._log.line("info", "limits_reloaded", limits=len(config.limit_numbers))

    def _save(self) -> None:
        counters = self.service.counters
        if self._file is None or counters.changes == self._saved:
            return
        self._saved = counters.changes
        try:
            self._file.keep(counters.kept())
            self._save_failed = False
        except OSError as error:
            if not self._save_failed:
                self._log.line("warning", "counters_not_saved", reason=str(error))
            self._save_failed = True

    async def stop(self) -> None:
        """Ends the server and saves once more."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(GRACE)
        self._save()


async def run(process: LimitsProcess) -> None:
    """Until SIGTERM or SIGINT."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    loop.add_signal_handler(signal.SIGHUP, process.reload)
    await process.start()
    while not told.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(told.wait(), SAVE_EVERY)
        process.tend()
    await process.stop()


def run_limits(read: Callable[[], Config], source: Path, address: str, *, counters: Path | None = None,
               observer: Observer | None = None) -> int:
    """Serves on `unix:/path` or `host:port` until told to stop. `read` gives the configuration, again when the file
    `source` changes. `counters`: their file, where the configuration names none. Raises ConfigError. Returns the exit
    code: 0, or 1 when the address cannot be used."""
    log = Log(os.environ.get(LOG_LEVEL, "info"))
    config = read()
    named = config.limits_service.counters
    file = Path(named) if named else counters

    async def main() -> None:
        await run(LimitsProcess(config, address, log=log, observer=observer, file=File(file) if file else None,
                                read=read, stamp=lambda: stamp_of(source)))

    try:
        uvloop.run(main())
    except RuntimeError as error:
        if "listen" not in str(error) and "bind" not in str(error):
            raise
        log.line("error", "not_started", reason=str(error))
        return 1
    return 0


def stamp_of(path: Path) -> object:
    """Something that changes when the file does, also where a link is swapped; None while there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
