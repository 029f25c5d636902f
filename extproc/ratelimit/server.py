"""The rate limit service as a process: one for a gateway, whatever the number of its workers, or one for several.

`extproc up` and `extproc serve` start it and restart it when it dies; `extproc limits` runs it alone. It reads its
configuration again when the file changes or SIGHUP arrives, and keeps its counters. An invalid file is logged and
changes nothing. Counters are saved to a file every second. A crash loses at most the last second and the requests in
progress; without a file, counting restarts at 0.
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
from extproc.ratelimit.counters import SavedCounter
from extproc.ratelimit.metrics import DecisionObserver
from extproc.ratelimit.service import SERVICE, RateLimitService
from extproc.transport.grpcio_server import OPTIONS

SAVE_INTERVAL = 1.0
"""Seconds between two checks of the counters and of the configuration file."""
GRACE = 0.5
"""Seconds that running calls may still take when the process is stopped."""


class CountersFile:
    """The file in which counters survive a restart. A missing file holds none."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> list[SavedCounter]:
        """The counters that were saved last. Raises OSError or ValueError."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[SavedCounter])
        except FileNotFoundError:
            return []
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from None

    def save(self, counters: list[SavedCounter]) -> None:
        """Replaces the file atomically. Raises OSError."""
        temporary = self._path.with_name(f".{self._path.name}.new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(counters))
        temporary.replace(self._path)


class RateLimitServer:
    """The service with its server, its counters file and its configuration file.

    `read_config` loads the configuration again; it is called when `file_stamp` returns another value than before.
    """

    def __init__(self, config: Config, address: str, *, log: Log, read_config: Callable[[], Config] | None = None,
                 file_stamp: Callable[[], object] = lambda: None, counters_file: CountersFile | None = None,
                 observer: DecisionObserver | None = None, clock: Callable[[], float] = time.time) -> None:
        self.service = RateLimitService(config.limit_numbers, clock, observer)
        self._limits = list(config.limit_numbers)
        self._address = address
        self._log = log
        self._read_config = read_config
        self._file_stamp = file_stamp
        self._seen_stamp = file_stamp()
        self._counters_file = counters_file
        self._saved_changes = 0
        self._save_failed = False
        self._health = health.aio.HealthServicer()
        self._server = grpc.aio.server(options=OPTIONS)

    async def start(self) -> None:
        """Restores the counters, listens and reports SERVING. Raises RuntimeError if the address cannot be used."""
        self._server.add_generic_rpc_handlers((self.service.grpc_handler(),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._restore_counters()
        self.service.report_limits(self._limits)
        if not self._server.add_insecure_port(self._address):
            raise RuntimeError(f"cannot listen on {self._address}")
        await self._server.start()
        for name in ("", SERVICE):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        self._log.write_event("info", "limits_ready", address=self._address, pid=os.getpid())

    def _restore_counters(self) -> None:
        if self._counters_file is not None:
            try:
                self.service.counters.restore(self._counters_file.load())
            except (OSError, ValueError) as error:
                self._log.write_event("warning", "counters_not_read", reason=str(error))

    def run_routine(self) -> None:
        """Reads a changed configuration and saves changed counters."""
        if (stamp := self._file_stamp()) != self._seen_stamp:
            self._seen_stamp = stamp
            self.reload()
        self._save_counters()

    def reload(self) -> None:
        """Reads the configuration and puts its limits in force. An invalid one is logged."""
        if self._read_config is None:
            return
        try:
            config = self._read_config()
        except (ConfigError, OSError, ValueError) as error:
            self._log.write_event("error", "limits_not_reloaded", reason=str(error))
            return
        self.service.counters.set_limits(config.limit_numbers)
        self.service.report_limits(config.limit_numbers)
        self._log.write_event("info", "limits_reloaded", limits=len(config.limit_numbers))

    def _save_counters(self) -> None:
        counters = self.service.counters
        if self._counters_file is None or counters.changes == self._saved_changes:
            return
        self._saved_changes = counters.changes
        try:
            self._counters_file.save(counters.snapshot())
            self._save_failed = False
        except OSError as error:
            if not self._save_failed:
                self._log.write_event("warning", "counters_not_saved", reason=str(error))
            self._save_failed = True

    async def stop(self) -> None:
        """Stops serving and saves the counters."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(GRACE)
        self._save_counters()


async def serve_until_stopped(server: RateLimitServer) -> None:
    """Serves until SIGTERM or SIGINT. SIGHUP reloads the configuration."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    loop.add_signal_handler(signal.SIGHUP, server.reload)
    await server.start()
    while not stopped.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), SAVE_INTERVAL)
        server.run_routine()
    await server.stop()


def run_rate_limit_server(read_config: Callable[[], Config], source: Path, address: str, *,
                          counters: Path | None = None, observer: DecisionObserver | None = None) -> int:
    """Serves on `unix:/path` or `host:port` until SIGTERM or SIGINT.

    `read_config` loads the configuration, and loads it again when the file `source` changes. `counters`: the counters
    file if the configuration names none. Raises ConfigError. Returns the exit code: 0, or 1 if the address cannot be
    used.
    """
    log = Log(os.environ.get(LOG_LEVEL, "info"))
    config = read_config()
    configured = config.limits_service.counters
    file = Path(configured) if configured else counters

    async def main() -> None:
        await serve_until_stopped(RateLimitServer(
            config, address, log=log, observer=observer, counters_file=CountersFile(file) if file else None,
            read_config=read_config, file_stamp=lambda: file_stamp(source)))

    return run_until_stopped(main(), log)


def file_stamp(path: Path) -> object:
    """A value that changes with the file, also when a link is swapped. None for a missing file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
