"""What everything but the processor's own work costs: a worker on the native transport whose exchanges hand on every
byte as it came, `python -m tests.bench.floor CONFIG ADDRESS`.

Envoy, its two hops and the transport are those of the gateway; nothing is read, checked, translated or counted. What
the gateway costs more than this is the processor's own.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import uvloop

from extproc.config import Config, load_config
from extproc.ext_proc import messages
from extproc.ext_proc.base import Exchange, Responses
from extproc.ext_proc.incoming import BodyChunk, EnvoyMessage, HeadersMessage
from extproc.headers import BACKEND_METADATA
from extproc.process.log import Log
from extproc.transport.health import Health
from extproc.transport.servers import make_server
from extproc.worker.metrics import PrometheusMetrics
from extproc.worker.stream import Streams
from extproc.worker.worker import tune_memory


class HandOn(Exchange):
    """Either hop. `routes`: at the edge, the headers that Envoy chooses the only route by."""

    hop = "select"

    def __init__(self, config: Config, routes: dict[str, str], *, request_id: str, now: float) -> None:
        super().__init__(config, request_id=request_id, now=now)
        self._routes = routes
        self._body: list[bytes] = []

    @property
    def is_logged(self) -> bool:
        return False

    @property
    def next_deadline(self) -> float | None:
        return None

    def _handle_message(self, message: EnvoyMessage, now: float) -> Responses:
        if type(message) is not BodyChunk:
            return [messages.response_head({}, [])] if type(message) is HeadersMessage and message.response else []
        if message.response:
            return messages.body_chunks(messages.RESPONSE_BODY, message.data, end=message.end)
        self._body.append(message.data)
        if not message.end:
            return []
        self.done = bool(self._routes)
        head = messages.request_head(self._routes or {":path": "/v1/chat/completions"}, [],
                                     clear_route_cache=bool(self._routes))
        return [head, *messages.body_chunks(messages.REQUEST_BODY, b"".join(self._body), end=True)]


async def serve(config: Config, address: str) -> None:
    routes = {"x-extproc-route": config.models[0].id, "x-extproc-api": "anthropic"}

    def make(config: Config, metadata: Mapping[str, str], *, request_id: str, now: float) -> Exchange:
        return HandOn(config, {} if BACKEND_METADATA in metadata else routes, request_id=request_id, now=now)

    log = Log("error", list)
    streams = Streams(config, log, PrometheusMetrics(), ThreadPoolExecutor(1), make=make)
    health = Health(lambda service: True)
    server = make_server("native", {**streams.methods, **health.methods}, partial(log.write_event, "error"))
    await server.start(address)
    tune_memory()
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(load_config(Path(sys.argv[1]), os.environ), sys.argv[2]))
