"""One worker: one process, one address, the ext_proc service on one of two transports.

`run_worker` serves until it is told to stop. First the health check reports NOT_SERVING, so that Envoy sends new
streams to other workers; then running streams end; then it returns. The command line calls it. It starts no other
process.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import extproc.dialects.validation  # noqa: F401 - takes 35 ms, for which no first response should wait
from extproc.bounds import LONGEST_STREAM
from extproc.config import Config
from extproc.process.log import LibraryHandler, Log
from extproc.process.reserved_files import reserve_files
from extproc.process.running import LOG_LEVEL, run_until_stopped
from extproc.transport.health import Health
from extproc.transport.servers import chosen_transport, make_server
from extproc.worker.exchange_log import configured_secrets, longest_first
from extproc.worker.generations import Accepted
from extproc.worker.metrics import Metrics, PrometheusMetrics
from extproc.worker.stream import SERVICE, Streams

HEALTH_WAIT = 7.0
"""Seconds for which a busy worker continues to accept streams after reporting NOT_SERVING: longer than Envoy needs to
notice (3 failed checks, 2 s apart)."""

QUIET = 0.3
"""Seconds without a stream after which a stopping worker counts as idle."""

_REMEMBERED_CONFIGS = 8
"""Configurations whose keys are masked in the log."""

DEBUG_BODIES = "EXTPROC_DEBUG_BODIES"

ACCEPTED, RUNNING = "accepted-", "running-"
"""Names of health check services: is the file with this digest (`Accepted.write`) in use; do streams of this generation
run."""

LAG_INTERVAL = 0.25
"""Seconds between two measurements of the event loop's lag. A delay of this length is always noticed, a shorter one
with a probability of its share."""
WORST_LAG_WINDOW = 30.0
"""Seconds for which the worst delay is reported, at most twice as long."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # glibc's mallopt.h
KEPT = 64 * 1024 * 1024
"""At most so many bytes of freed memory stay with the process: what a few requests of 10 MB need."""
LARGEST_KEPT = 32 * 1024 * 1024
"""Blocks up to this size, the largest that glibc allows, come from that memory. Larger ones come from the system and go
back to it."""


class Worker:
    """The server of one process, with `start` and `stop`. `health_wait` and `quiet` are seconds; `transport` is a name
    of `extproc.transport.servers`."""

    def __init__(self, config: Config, address: str, *, log: Log, metrics: Metrics, debug_bodies: bool = False,
                 health_wait: float = HEALTH_WAIT, quiet: float = QUIET, transport: str | None = None) -> None:
        self._address = address
        self._log = log
        self.health_wait = health_wait
        self._quiet = quiet
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="extproc")
        self.streams = Streams(config, log, metrics, self._threads, debug_bodies=debug_bodies)
        self._digest = ""
        self._serving = False
        self._health = Health(self._health_of)
        self._transport = transport or chosen_transport()
        self._server = make_server(self._transport, {**self.streams.methods, **self._health.methods},
                                   partial(log.write_event, "warning"))
        self._end_now = asyncio.Event()
        self._metrics = metrics
        self._lag = LagMonitor(metrics.lagged)

    async def start(self) -> None:
        """Listens and reports SERVING. Raises RuntimeError if the address cannot be used."""
        self._serving = True
        await self._server.start(self._address)
        self._metrics.configured(self.streams.accepted.serving.number)
        self._metrics.started()
        self._lag.start()
        self._log.write_event("info", "serving", address=self._address, pid=os.getpid(),
                       transport=self._transport)

    def _health_of(self, service: str) -> bool | None:
        """The status of a health check service: of the worker itself, or one that the parent process checks during a
        reload."""
        if service in ("", SERVICE):
            return self._serving
        if service.startswith(ACCEPTED):
            return self._digest == service.removeprefix(ACCEPTED)
        if service.startswith(RUNNING):
            number = service.removeprefix(RUNNING)
            return number.isdecimal() and self.streams.is_generation_running(int(number))
        return None

    def set_accepted(self, accepted: Accepted, digest: str) -> None:
        """New streams get this configuration; running ones keep theirs. `digest`: of the file that holds it."""
        if digest == self._digest:
            return
        self.streams.set_accepted(accepted)
        self._digest = digest
        self._health.notify_watchers()
        if self._serving:
            self._metrics.configured(accepted.serving.number)
        self._log.write_event("info", "configured", generation=accepted.serving.number, streams=self.streams.active)

    async def hand_over(self) -> None:
        """Ends after a successor has taken over the address: new connections go there, and every running stream is
        finished, however long it takes. Envoy is not told NOT_SERVING, because the endpoint is healthy."""
        self._metrics.leaving()
        self._log.write_event("info", "handing_over", streams=self.streams.active)
        await self._close(LONGEST_STREAM)

    async def stop(self) -> None:
        """Drains: at once if idle or if `end_at_once` is called, else when the last stream has ended or
        `timeouts.drain` is over."""
        self._serving = False
        self._metrics.leaving()
        self._health.notify_watchers()
        self._log.write_event("info", "draining", streams=self.streams.active)
        await self._wait_until_unused()
        await self._close(self.streams.accepted.serving.config.timeouts.drain)

    async def _close(self, patience: float) -> None:
        self._log.write_event("info", "closed", streams=self.streams.active)
        stopping = asyncio.ensure_future(self._server.stop(patience))
        ended_at_once = asyncio.ensure_future(self._end_now.wait())
        await asyncio.wait([stopping, ended_at_once], return_when=asyncio.FIRST_COMPLETED)
        ended_at_once.cancel()
        if not stopping.done():
            await self._server.stop(0)
            await stopping
        self.streams.end_reports.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._lag.stop()
        self._log.write_event("info", "stopped")

    def end_at_once(self) -> None:
        """Ends a drain at once."""
        self._end_now.set()

    async def _wait_until_unused(self) -> None:
        """Keeps the socket open until Envoy has noticed NOT_SERVING, or new streams would fail. A worker without a
        stream for a short while gets no more."""
        loop = asyncio.get_running_loop()
        stop_began = loop.time()
        began, quiet_since = self.streams.began, stop_began
        while loop.time() < stop_began + self.health_wait and not self._end_now.is_set():
            if self.streams.active or self.streams.began != began:
                began, quiet_since = self.streams.began, loop.time()
            if loop.time() - quiet_since >= self._quiet:
                return
            await asyncio.sleep(min(self._quiet / 4, 0.05))


class LagMonitor:
    """Measures how late the event loop is: a timer that fires four times a second and compares the clock.

    Long work (a huge JSON, a blocking call) delays every stream of the worker, and nothing else shows it. A measurement
    costs a few microseconds. `report` receives each delay and the worst one of the last `WORST_LAG_WINDOW` seconds.
    `clock` must be steady, in seconds; the loop's own clock stands still while callbacks run.
    """

    def __init__(self, report: Callable[[float, float], None], *, loop: asyncio.AbstractEventLoop | None = None,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._report = report
        self._loop = loop or asyncio.get_running_loop()
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._worst = self._worst_before = 0.0
        self._window_end = 0.0

    def start(self) -> None:
        """Measures until `stop`."""
        self._window_end = self._clock() + WORST_LAG_WINDOW
        self._start_timer()

    def stop(self) -> None:
        """Stops measuring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start_timer(self) -> None:
        self._due = self._clock() + LAG_INTERVAL
        self._timer = self._loop.call_later(LAG_INTERVAL, self._on_timer)

    def _on_timer(self) -> None:
        now = self._clock()
        late = max(now - self._due, 0.0)
        if now >= self._window_end:
            self._window_end = now + WORST_LAG_WINDOW
            self._worst_before, self._worst = self._worst, 0.0
        self._worst = max(self._worst, late)
        self._report(late, max(self._worst, self._worst_before))
        self._start_timer()


def tune_memory() -> None:
    """Tunes memory for a process that serves, once everything is imported.

    By default glibc requests every block over 128 KB from the system and returns it. The page faults of a request of
    some hundred KB then cost more than its translation. And the garbage collector need not visit what the imports
    created.
    """
    with suppress(OSError, AttributeError):  # another C library has no mallopt
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, LARGEST_KEPT)
        mallopt(_TRIM_THRESHOLD, KEPT)
        mallopt(_ARENA_MAX, 1)
    gc.collect()
    gc.freeze()
    # A stream leaves no reference cycles behind (`Exchange.closed`), but exceptions and libraries do. The oldest
    # generation is collected often, too: that takes milliseconds, because frozen objects are not in it.
    gc.set_threshold(50_000, 10, 2)


async def serve(worker: Worker, read: Callable[[], tuple[Accepted, str]] | None = None, log: Log | None = None) -> None:
    """Runs a worker until SIGTERM or SIGINT; a second signal ends it at once. SIGUSR1: a successor has its address.
    SIGHUP: `read` returns another configuration."""
    stop_requested = asyncio.Event()
    handing_over = signalled = False

    def on_signal() -> None:
        nonlocal signalled
        if signalled:
            worker.end_at_once()
        signalled = True
        stop_requested.set()

    def on_successor() -> None:
        nonlocal handing_over
        handing_over = not stop_requested.is_set()
        stop_requested.set()

    def on_reload() -> None:
        if read is None:
            return
        try:
            worker.set_accepted(*read())
        except (OSError, ValueError) as error:
            if log is not None:
                log.write_event("error", "not_configured", reason=str(error))

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    loop.add_signal_handler(signal.SIGUSR1, on_successor)
    loop.add_signal_handler(signal.SIGHUP, on_reload)
    # The signal may have arrived before its handler was installed, and is not sent again for the same content.
    on_reload()
    await worker.start()
    tune_memory()
    await stop_requested.wait()
    await (worker.hand_over() if handing_over else worker.stop())


class _MaskedSecrets:
    """The secrets of every configuration that this worker has had: texts may still quote a replaced key."""

    def __init__(self, first: Config, streams: Streams) -> None:
        self._configs = [first]
        self._streams = streams
        self._seen: Accepted | None = None
        self._in_files = False
        """Some of them are in files."""
        self._found: list[str] = []

    def __call__(self) -> list[str]:
        accepted = self._streams.accepted
        if accepted is not self._seen:
            self._seen = accepted
            new = [accepted.serving.config, *(one.config for one in accepted.known)]
            self._configs = [*new, *(one for one in self._configs if one not in new)][:_REMEMBERED_CONFIGS]
            self._in_files = any(backend.has_key_files for config in self._configs
                               for backend in config.backends.values())
        elif not self._in_files:
            return self._found
        found = {key for config in self._configs for key in configured_secrets(config)}
        self._found = longest_first(found)
        return self._found


def run_worker(config: Config, address: str, *, debug_bodies: bool = False, health_wait: float = HEALTH_WAIT,
               accepted: Path | None = None) -> int:
    """Serves on `unix:/path` or `host:port` until it is told to stop. `accepted`: the file in which the parent process
    writes the configuration. Returns the exit code: 0, or 1 if the address cannot be used."""
    debug_bodies = debug_bodies or os.environ.get(DEBUG_BODIES) == "1"
    secrets: Callable[[], Sequence[str]] = partial(configured_secrets, config)
    log = Log(os.environ.get(LOG_LEVEL, "debug" if debug_bodies else "info"), lambda: secrets())
    logging.getLogger().addHandler(LibraryHandler(log))
    reserve_files()

    async def main() -> None:
        nonlocal secrets
        worker = Worker(config, address, log=log, metrics=PrometheusMetrics(), debug_bodies=debug_bodies,
                        health_wait=health_wait)
        secrets = _MaskedSecrets(config, worker.streams)
        await serve(worker, None if accepted is None else partial(Accepted.read, accepted), log)

    return run_until_stopped(main(), log)
