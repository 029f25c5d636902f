"""The comparison: the same Envoy binary that only forwards to the provider, without the processor."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from tests.e2e.gateway import GatewayError
from tests.ports import free_port

TYPE = "type.googleapis.com/envoy.extensions."
START_SECONDS = 20


def binary() -> str:
    """Envoy beside the interpreter, else on PATH."""
    beside = Path(sys.executable).parent / "envoy"
    found = str(beside) if beside.exists() else shutil.which("envoy")
    if found is None:
        raise GatewayError("no envoy binary beside the interpreter or on PATH")
    return found


def bootstrap(port: int, admin_port: int, provider_port: int) -> dict[str, Any]:
    manager = {
        "@type": TYPE + "filters.network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": "plain",
        "stream_idle_timeout": "900s",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
            {"match": {"prefix": "/"}, "route": {"cluster": "provider", "timeout": "0s"}}]}]},
        "http_filters": [{"name": "router", "typed_config": {"@type": TYPE + "filters.http.router.v3.Router"}}]}
    return {
        "admin": {"address": address(admin_port)},
        "static_resources": {
            "listeners": [{"name": "plain", "address": address(port), "filter_chains": [
                {"filters": [{"name": "http", "typed_config": manager}]}]}],
            "clusters": [{"name": "provider", "type": "STATIC", "load_assignment": {
                "cluster_name": "provider", "endpoints": [{"lb_endpoints": [
                    {"endpoint": {"address": address(provider_port)}}]}]}}]}}


def address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


class PlainEnvoy:
    """Runs from construction to `stop()`."""

    def __init__(self, directory: Path, provider_port: int, threads: int) -> None:
        self.port = free_port()
        admin = free_port()
        config = directory / "plain-envoy.json"
        config.write_text(json.dumps(bootstrap(self.port, admin, provider_port)))
        self._log = directory / "plain-envoy.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [binary(), "-c", str(config), "--concurrency", str(threads), "--disable-hot-restart",
                 "--log-level", "warning"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._wait_for(f"http://127.0.0.1:{admin}/ready")

    def _wait_for(self, url: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with urlopen(url, timeout=1) as answer:
                    if re.match(b"LIVE", answer.read()):
                        return
            except (URLError, OSError):
                time.sleep(0.05)
        self.stop()
        raise GatewayError(f"Envoy did not start:\n{self._log.read_text()}")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)
