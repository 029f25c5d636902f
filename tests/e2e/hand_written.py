"""One-hop mode for tests: the shipped Envoy configuration with a test's own ports, `extproc serve` behind it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.bench.plain_envoy import binary
from tests.e2e.gateway import PROVIDER_KEY, ROOT, Process, workers_of
from tests.e2e.test_lifecycle import wait_until
from tests.e2e.wire import request
from tests.ports import free_port

BACKEND = "openrouter"


def adapted(listen: int, processor: int, provider: int) -> dict[str, Any]:
    """envoy/one-hop.yaml with these ports and a provider without TLS; everything else stays as shipped."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "envoy" / "one-hop.yaml").read_text())
    config["admin"]["address"]["socket_address"]["port_value"] = free_port()
    resources = config["static_resources"]
    resources["listeners"][0]["address"]["socket_address"]["port_value"] = listen
    clusters = {cluster["name"]: cluster for cluster in resources["clusters"]}
    for name, port in (("processor", processor), (BACKEND, provider)):
        place = clusters[name]["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
        place["address"] = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
        place.pop("hostname", None)
    openrouter = clusters[BACKEND]
    del openrouter["transport_socket"]
    for options in openrouter["typed_extension_protocol_options"].values():
        del options["auto_config"]  # HTTP/2 is negotiated in TLS only
        options["explicit_http_config"] = {"http_protocol_options": {}}
    return config


@dataclass
class HandWritten:
    """A running pair: Envoy's base URL and the processes behind it."""

    url: str
    worker_pids: list[int]
    log: list[str]
    """Lines of the processor, as they come."""
    envoy_pids: list[int]


@contextmanager
def running(config: dict[str, Any], envoy_config: dict[str, Any], directory: Path, edge: int,
            processor: int) -> Iterator[HandWritten]:
    """An Envoy with `envoy_config`, which listens on the port `edge`, and `extproc serve` with `config` on the port
    `processor`."""
    (directory / "extproc.yaml").write_text(json.dumps(config))
    (directory / "envoy.json").write_text(json.dumps(envoy_config))
    workers = Process("extproc serve", [sys.executable, "-m", "extproc", "serve", "--config",
                                        str(directory / "extproc.yaml"), "--listen", f"127.0.0.1:{processor}"])
    envoy = None
    try:
        workers.wait_for_line(re.compile("ready"), 30)
        envoy = Process("envoy", [binary(), "-c", str(directory / "envoy.json"), "--disable-hot-restart",
                                  "--concurrency", "2", "--log-level", "warning"],
                        {"OPENROUTER_KEY": f"Bearer {PROVIDER_KEY}"})

        def serves() -> bool:
            with suppress(OSError):
                return request(f"http://127.0.0.1:{edge}", "GET", "/healthz").status == 200
            return envoy.process.poll() is not None

        wait_until(serves, 30, "Envoy serves")
        assert envoy.process.poll() is None, envoy.output
        yield HandWritten(f"http://127.0.0.1:{edge}", workers_of(workers.process.pid), workers.lines,
                          [envoy.process.pid])
    finally:
        if envoy is not None:
            envoy.terminate()
        code = workers.terminate()
    assert code == 0, workers.output
