"""One worker: one process, one address, the ext_proc service on grpcio.

`run_worker` serves until it is told to stop: first the health check says NOT_SERVING, so that Envoy sends new streams
elsewhere, then running ones end, then it returns. The command line calls it; it starts no other process.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import grpc
import uvloop
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from extproc.config import Config
from extproc.server.log import LibraryHandler, Log, secrets_of
from extproc.server.metrics import Metrics, PrometheusMetrics
from extproc.server.stream import SERVICE, Streams

HEALTH_WAIT = 7.0
"""Seconds for which a busy worker goes on taking streams after it said NOT_SERVING: longer than Envoy needs to notice
(3 failed checks, 2 s apart)."""

QUIET = 0.3
"""Seconds without a stream after which a stopping worker counts as idle."""

DEBUG_BODIES = "EXTPROC_DEBUG_BODIES"
LOG_LEVEL = "EXTPROC_LOG_LEVEL"

OPTIONS: list[tuple[str, int]] = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Envoy pings every few seconds, also on silent streams; by default grpc closes such a connection.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    # One socket per process: sharing a port would balance connections, not streams.
    ("grpc.so_reuseport", 0),
]


class Worker:
    """The server of one process and its life: `start`, `stop`. `health_wait` and `quiet` are seconds."""

    def __init__(self, config: Config, address: str, *, log: Log, metrics: Metrics, debug_bodies: bool = False,
                 health_wait: float = HEALTH_WAIT, quiet: float = QUIET) -> None:
        self._config = config
        self._address = address
        self._log = log
        self._health_wait = health_wait
        self._quiet = quiet
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="extproc")
        self.streams = Streams(config, log, metrics, self._threads, debug_bodies=debug_bodies)
        self._health = health.aio.HealthServicer()
        self._server = grpc.aio.server(options=OPTIONS)
        self._hurry = asyncio.Event()

    async def start(self) -> None:
        """Listens and says SERVING. Raises RuntimeError when the address cannot be used."""
        self._server.add_generic_rpc_handlers((self.streams.handler(),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        if not self._server.add_insecure_port(self._address):
            raise RuntimeError(f"cannot listen on {self._address}")
        await self._server.start()
        for service in ("", SERVICE):
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)
        self._log.line("info", "ready", address=self._address, pid=os.getpid())

    async def stop(self) -> None:
        """Drains: at once when idle, at once when `hurry` is called, else when the last stream has ended or
        `timeouts.drain` is over."""
        await self._health.enter_graceful_shutdown()
        self._log.line("info", "draining", streams=self.streams.active)
        await self._unnoticed()
        self._log.line("info", "closed", streams=self.streams.active)
        stopping = asyncio.ensure_future(self._server.stop(self._config.timeouts.drain))
        hurried = asyncio.ensure_future(self._hurry.wait())
        await asyncio.wait([stopping, hurried], return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not stopping.done():
            await self._server.stop(0)
            await stopping
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._log.line("info", "stopped")

    def hurry(self) -> None:
        """Ends a drain at once."""
        self._hurry.set()

    async def _unnoticed(self) -> None:
        """Until Envoy has seen NOT_SERVING the socket must stay open, or new streams would fail. A worker without a
        stream for a short while gets none any more."""
        loop = asyncio.get_running_loop()
        over = loop.time() + self._health_wait
        began, quiet_since = self.streams.began, loop.time()
        while loop.time() < over and not self._hurry.is_set():
            if self.streams.active or self.streams.began != began:
                began, quiet_since = self.streams.began, loop.time()
            if loop.time() - quiet_since >= self._quiet:
                return
            await asyncio.sleep(min(self._quiet / 4, 0.05))


async def serve(worker: Worker) -> None:
    """Runs a worker until SIGTERM or SIGINT; a second signal ends it at once."""
    told = asyncio.Event()

    def on_signal() -> None:
        if told.is_set():
            worker.hurry()
        told.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    await worker.start()
    _settle_garbage()
    await told.wait()
    await worker.stop()


def _settle_garbage() -> None:
    """What lives as long as the process is never looked at again, and short-lived messages do not set off a
    collection every few hundred allocations."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def run_worker(config: Config, address: str, *, debug_bodies: bool = False,
               health_wait: float = HEALTH_WAIT) -> int:
    """Serves on `unix:/path` or `host:port` until told to stop. Returns the exit code: 0, or 1 when the address
    cannot be used."""
    debug_bodies = debug_bodies or os.environ.get(DEBUG_BODIES) == "1"
    log = Log(os.environ.get(LOG_LEVEL, "debug" if debug_bodies else "info"), partial(secrets_of, config))
    logging.getLogger().addHandler(LibraryHandler(log))

    async def main() -> None:
        await serve(Worker(config, address, log=log, metrics=PrometheusMetrics(), debug_bodies=debug_bodies,
                           health_wait=health_wait))

    try:
        uvloop.run(main())
    except RuntimeError as error:
        if "listen" not in str(error) and "bind" not in str(error):
            raise
        log.line("error", "not_started", reason=str(error))
        return 1
    return 0
