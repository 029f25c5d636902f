"""Debian's Prometheus on a gateway's /metrics: asked by its API, with the shipped alerts as they are but for times.

Times are shortened so that a test needs seconds: every range of an expression is `WINDOW`, and no alert waits (`for`).
"""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from tests.e2e.gateway import Process
from tests.e2e.wire import request
from tests.ports import free_port

PATIENCE = 30.0
WINDOW, INTERVAL = "10s", "500ms"
_RANGE = re.compile(r"\[\d+[smh]\]")
_READY = re.compile(r"Server is ready to receive web requests")

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="Prometheus is not installed (Debian: apt-get install prometheus)")


class Prometheus(Process):
    """One process that reads `target` (host:port). Its data and its files are in `directory`."""

    def __init__(self, target: str, rules: Path, directory: Path) -> None:
        self._config = directory / "prometheus.json"
        self._rules = directory / "rules.json"
        self._rules.write_text(json.dumps(_without_waiting(yaml.safe_load(rules.read_text(encoding="utf-8")))))
        # JSON is YAML.
        self._config.write_text(json.dumps({
            "global": {"scrape_interval": INTERVAL, "scrape_timeout": INTERVAL, "evaluation_interval": INTERVAL},
            "rule_files": [str(self._rules)],
            "scrape_configs": [{"job_name": "extproc", "static_configs": [{"targets": [target]}]}]}))
        address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{address}"
        super().__init__("prometheus", [
            "prometheus", f"--config.file={self._config}", f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address={address}"])
        self.wait_for_line(_READY, PATIENCE)

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """The result of an instant query: a list of `{"metric": labels, "value": [time, text]}`."""
        found = self._get("query", query=expression)
        return list(found["result"])

    def series(self, name: str) -> list[dict[str, str]]:
        """The labels of each series of this name, from the first scrape on."""
        return list(self._get("series", **{"match[]": name}))

    def firing(self) -> dict[str, list[dict[str, Any]]]:
        """Alerts by name, with `labels`, `annotations` and `value`."""
        found: dict[str, list[dict[str, Any]]] = {}
        for alert in self._get("alerts")["alerts"]:
            if alert["state"] == "firing":
                found.setdefault(alert["labels"]["alertname"], []).append(alert)
        return found

    def until(self, holds: Callable[[], Any], what: str, again: Callable[[], object] = lambda: None) -> None:
        """Polls, and calls `again` before each look: Prometheus tells nobody when it has scraped."""
        end, ticker = time.monotonic() + PATIENCE, threading.Event()
        while True:
            again()
            if holds():
                return
            assert time.monotonic() < end, f"not within {PATIENCE:g} s: {what}\n{self.output}"
            ticker.wait(0.1)

    def _get(self, path: str, **query: str) -> Any:
        answer = request(self.url, "GET", f"/api/v1/{path}?{urlencode(query)}", headers={}).json()
        assert answer["status"] == "success", answer
        return answer["data"]


def _without_waiting(content: Any) -> Any:
    for group in content["groups"]:
        for rule in group["rules"]:
            rule["expr"] = _RANGE.sub(f"[{WINDOW}]", rule["expr"])
            rule.pop("for", None)
    return content
