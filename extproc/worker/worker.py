"""One worker: one process, one address, the ext_proc service on one of two transports.

`run_worker` serves until it is told to stop: first the health check says NOT_SERVING, so that Envoy sends new streams
elsewhere, then running ones end, then it returns. The command line calls it; it starts no other process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import extproc.dialects.validation  # noqa: F401 - takes 35 ms, and not in the middle of a first answer
from extproc.bounds import LONGEST_STREAM
from extproc.config import Config
from extproc.process.log import LibraryHandler, Log
from extproc.process.reserved_files import reserve_files
from extproc.process.running import LOG_LEVEL, run_until_stopped
from extproc.transport.health import Health
from extproc.transport.servers import chosen_transport, make_server
from extproc.worker import memory
from extproc.worker.exchange_log import configured_secrets, longest_first
from extproc.worker.generations import Accepted
from extproc.worker.lag import LagMonitor
from extproc.worker.metrics import Metrics, PrometheusMetrics
from extproc.worker.stream import SERVICE, Streams

HEALTH_WAIT = 7.0
"""Seconds for which a busy worker goes on taking streams after it said NOT_SERVING: longer than Envoy needs to notice
(3 failed checks, 2 s apart)."""

QUIET = 0.3
"""Seconds without a stream after which a stopping worker counts as idle."""

_REMEMBERED = 8
"""Configurations whose keys are masked in the log."""

DEBUG_BODIES = "EXTPROC_DEBUG_BODIES"

ACCEPTED, RUNNING = "accepted-", "running-"
"""Services of the health check: is the file of this digest (`Accepted.write`) in use; do streams of this generation
run."""


class Worker:
    """The server of one process and its life: `start`, `stop`. `health_wait` and `quiet` are seconds; `transport` is a
    name of `extproc.transport.servers`."""

    def __init__(self, config: Config, address: str, *, log: Log, metrics: Metrics, debug_bodies: bool = False,
                 health_wait: float = HEALTH_WAIT, quiet: float = QUIET, transport: str | None = None) -> None:
        self._address = address
        self._log = log
        self._health_wait = health_wait
        self._quiet = quiet
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="extproc")
        self.streams = Streams(config, log, metrics, self._threads, debug_bodies=debug_bodies)
        self._digest = ""
        self._serving = False
        self._health = Health(self._healthy)
        self._transport = transport or chosen_transport()
        self._server = make_server(self._transport, {**self.streams.methods, **self._health.methods},
                                   partial(log.write_event, "warning"))
        self._hurry = asyncio.Event()
        self._metrics = metrics
        self._lag = LagMonitor(metrics.lagged)

    async def start(self) -> None:
        """Listens and says SERVING. Raises RuntimeError when the address cannot be used."""
        self._serving = True
        await self._server.start(self._address)
        self._metrics.configured(self.streams.accepted.serving.number)
        self._metrics.started()
        self._lag.start()
        self._log.write_event("info", "serving", address=self._address, pid=os.getpid(),
                       transport=self._transport)

    def _healthy(self, service: str) -> bool | None:
        """What the health service says: of the worker, and what the parent process asks while it changes the
        configuration."""
        if service in ("", SERVICE):
            return self._serving
        if service.startswith(ACCEPTED):
            return self._digest == service.removeprefix(ACCEPTED)
        if service.startswith(RUNNING):
            number = service.removeprefix(RUNNING)
            return number.isdecimal() and self.streams.running(int(number))
        return None

    def take(self, accepted: Accepted, digest: str) -> None:
        """New streams get this configuration; running ones keep theirs. `digest`: of the file that holds it."""
        if digest == self._digest:
            return
        self.streams.take(accepted)
        self._digest = digest
        self._health.notify_watchers()
        if self._serving:
            self._metrics.configured(accepted.serving.number)
        self._log.write_event("info", "configured", generation=accepted.serving.number, streams=self.streams.active)

    async def hand_over(self) -> None:
        """Ends where a successor has taken the address over already: new connections go there, and every stream that
        runs here is finished, however long it takes. Envoy is not told NOT_SERVING: the endpoint is well."""
        self._metrics.leaving()
        self._log.write_event("info", "handing_over", streams=self.streams.active)
        await self._close(LONGEST_STREAM)

    async def stop(self) -> None:
        """Drains: at once when idle, at once when `hurry` is called, else when the last stream has ended or
        `timeouts.drain` is over."""
        self._serving = False
        self._metrics.leaving()
        self._health.notify_watchers()
        self._log.write_event("info", "draining", streams=self.streams.active)
        await self._unnoticed()
        await self._close(self.streams.accepted.serving.config.timeouts.drain)

    async def _close(self, patience: float) -> None:
        self._log.write_event("info", "closed", streams=self.streams.active)
        stopping = asyncio.ensure_future(self._server.stop(patience))
        hurried = asyncio.ensure_future(self._hurry.wait())
        await asyncio.wait([stopping, hurried], return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not stopping.done():
            await self._server.stop(0)
            await stopping
        self.streams.end_reports.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._lag.stop()
        self._log.write_event("info", "stopped")

    def hurry(self) -> None:
        """Ends a drain at once."""
        self._hurry.set()

    async def _unnoticed(self) -> None:
        """Until Envoy has seen NOT_SERVING the socket must stay open, or new streams would fail. A worker without a
        stream for a short while gets none any more."""
        loop = asyncio.get_running_loop()
        told = loop.time()
        began, quiet_since = self.streams.began, told
        while loop.time() < told + self._health_wait and not self._hurry.is_set():
            if self.streams.active or self.streams.began != began:
                began, quiet_since = self.streams.began, loop.time()
            if loop.time() - quiet_since >= self._quiet:
                return
            await asyncio.sleep(min(self._quiet / 4, 0.05))


async def serve(worker: Worker, read: Callable[[], tuple[Accepted, str]] | None = None, log: Log | None = None) -> None:
    """Runs a worker until SIGTERM or SIGINT; a second signal ends it at once. SIGUSR1: a successor has its address.
    SIGHUP: `read` gives another configuration."""
    told = asyncio.Event()
    handing_over = asked = False

    def on_signal() -> None:
        nonlocal asked
        if asked:
            worker.hurry()
        asked = True
        told.set()

    def on_successor() -> None:
        nonlocal handing_over
        handing_over = not told.is_set()
        told.set()

    def on_change() -> None:
        if read is None:
            return
        try:
            worker.take(*read())
        except (OSError, ValueError) as error:
            if log is not None:
                log.write_event("error", "not_configured", reason=str(error))

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    loop.add_signal_handler(signal.SIGUSR1, on_successor)
    loop.add_signal_handler(signal.SIGHUP, on_change)
    # The signal may have come before there was somebody to hear it; and then it is not sent again for this content.
    on_change()
    await worker.start()
    memory.settle()
    await told.wait()
    await (worker.hand_over() if handing_over else worker.stop())


class _Secrets:
    """The secrets of every configuration that this worker has had: texts may still quote a key that was replaced."""

    def __init__(self, first: Config, streams: Streams) -> None:
        self._configs = [first]
        self._streams = streams
        self._seen: Accepted | None = None
        self._change = False
        """Some of them stand in files."""
        self._found: list[str] = []

    def __call__(self) -> list[str]:
        accepted = self._streams.accepted
        if accepted is not self._seen:
            self._seen = accepted
            new = [accepted.serving.config, *(one.config for one in accepted.known)]
            self._configs = [*new, *(one for one in self._configs if one not in new)][:_REMEMBERED]
            self._change = any(backend.has_key_files for config in self._configs
                               for backend in config.backends.values())
        elif not self._change:
            return self._found
        found = {key for config in self._configs for key in configured_secrets(config)}
        self._found = longest_first(found)
        return self._found


def run_worker(config: Config, address: str, *, debug_bodies: bool = False, health_wait: float = HEALTH_WAIT,
               accepted: Path | None = None) -> int:
    """Serves on `unix:/path` or `host:port` until told to stop. `accepted`: the file in which the parent process says
    what the configuration is now. Returns the exit code: 0, or 1 when the address cannot be used."""
    debug_bodies = debug_bodies or os.environ.get(DEBUG_BODIES) == "1"
    secrets: Callable[[], Sequence[str]] = partial(configured_secrets, config)
    log = Log(os.environ.get(LOG_LEVEL, "debug" if debug_bodies else "info"), lambda: secrets())
    logging.getLogger().addHandler(LibraryHandler(log))
    reserve_files()

    async def main() -> None:
        nonlocal secrets
        worker = Worker(config, address, log=log, metrics=PrometheusMetrics(), debug_bodies=debug_bodies,
                        health_wait=health_wait)
        secrets = _Secrets(config, worker.streams)
        await serve(worker, None if accepted is None else partial(Accepted.read, accepted), log)

    return run_until_stopped(main(), log)
