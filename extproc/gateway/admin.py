"""The gateway's admin port: /metrics, /healthz and /readyz, on a thread of the parent process."""

from __future__ import annotations

import contextlib
import http.server
import platform
import socket
import threading
import time
from collections.abc import Callable

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST

from extproc import __version__
from extproc.config import Config, parse_address
from extproc.endpoints import HEALTH_PATH, METRICS_PATH, READY_PATH
from extproc.gateway.addresses import is_port_free, resolve_port
from extproc.process.metric_files import shared_metrics

DEFAULT_ADDRESS = next(field.default for field in msgspec.structs.fields(Config) if field.name == "admin")

_READY_METRIC = (b"# HELP extproc_ready Whether requests would be served\n# TYPE extproc_ready gauge\n"
                 b"extproc_ready %d\n")
_BUILD = (f"# HELP extproc_build_info What runs here\n# TYPE extproc_build_info gauge\n"
          f'extproc_build_info{{version="{__version__}",python="{platform.python_version()}"}} 1\n').encode()

__all__ = ["AdminServer", "admin_address", "shared_metrics"]

HEALING = 10.0
"""Seconds that a gateway has to recover: it restarts processes that die. After that, /healthz reports failure."""


class AdminServer:
    """`metrics` returns the text of /metrics. Not ready before `start_serving` and after `start_stopping`; alive in
    both cases, as long as this thread answers."""

    def __init__(self, address: tuple[str, int], metrics: Callable[[], bytes],
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._clock = clock
        self._find_missing: Callable[[], list[str]] = lambda: ["the gateway is starting"]
        self._serves = False
        """The gateway has started and was not told to stop."""
        self._failing_since: float | None = None
        admin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, kind, body = admin.respond(self.path.partition("?")[0])
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Not logged."""

        self._server = http.server.ThreadingHTTPServer(address, Handler)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name="admin", daemon=True).start()

    def start_serving(self, find_missing: Callable[[], list[str]]) -> None:
        """Everything is started. From now on `find_missing` is called for every probe and names what does not serve."""
        self._find_missing, self._serves = find_missing, True

    def start_stopping(self) -> None:
        """No new requests are wanted."""
        self._serves = False
        self._find_missing = lambda: ["the gateway is stopping"]

    def _missing(self) -> list[str]:
        """The parts that do not serve. The start of a failure is remembered for /healthz."""
        missing = self._find_missing()
        if not missing or not self._serves:
            self._failing_since = None
        elif self._failing_since is None:
            self._failing_since = self._clock()
        return missing

    def respond(self, path: str) -> tuple[int, str, bytes]:
        """The response to GET: status, content type, body."""
        text = "text/plain; charset=utf-8"
        if path == METRICS_PATH:
            return 200, CONTENT_TYPE_LATEST, self._metrics() + _READY_METRIC % (not self._missing()) + _BUILD
        if path == HEALTH_PATH:
            missing, since = self._missing(), self._failing_since
            if since is None or self._clock() - since < HEALING:
                return 200, text, b"ok\n"
            return 503, text, "".join(f"{sentence}\n" for sentence in missing).encode()
        if path == READY_PATH:
            missing = self._missing()
            body = msgspec.json.encode({"ready": not missing, "missing": missing})
            return 503 if missing else 200, "application/json", body + b"\n"
        return 404, text, f"served here: {METRICS_PATH} {HEALTH_PATH} {READY_PATH}\n".encode()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # wakes the thread, which otherwise looks every half second
            self._server.socket.shutdown(socket.SHUT_RDWR)
        self._server.shutdown()
        self._server.server_close()


def admin_address(config: Config) -> tuple[str, int]:
    """The address of the admin port. The default port yields to a free one if it is taken. A configured port that is
    taken raises StartError."""
    host, port = parse_address(config.admin)
    if config.admin == DEFAULT_ADDRESS and not is_port_free(host, port):
        return host, 0
    return host, resolve_port(host, port)
