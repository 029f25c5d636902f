"""The gateway under test: its configuration, its processes, and what it says about itself."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extproc.gateway.envoy_admin import EnvoyAdmin
from tests.e2e.gateway import Gateway
from tests.e2e.wire import request
from tests.fault.plan import BACKENDS, FIRST_TOKEN, IDLE, ROUTES
from tests.fault.provider import KEYS, ChecksumProvider
from tests.ports import free_port

TEAMS = {"whole": "sk-team-whole", "cut": "sk-team-cut", "struck": "sk-team-struck"}
"""Who asks: requests whose tokens are all told, those of which a part is cut off, those that a kill may strike."""
PLENTY = 4_000_000_000
ROOM = 10_000
"""`concurrent_streams`."""
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def configuration(provider: ChecksumProvider, *, workers: int = 2, **changes: Any) -> dict[str, Any]:
    """Every route as a rule of its own, three teams with limits that nobody reaches."""
    def attempts(route: str) -> list[dict[str, Any]]:
        return [{"backend": BACKENDS[letter], "model": "*",
                 **({} if place == len(route) - 1 else {"first_token_timeout": FIRST_TOKEN})}
                for place, letter in enumerate(route)]

    limits = {"requests_per_minute": PLENTY, "tokens_per_minute": PLENTY, "tokens_per_day": PLENTY,
              "concurrent_streams": ROOM}
    return {
        "admin": f"127.0.0.1:{free_port()}", "workers": workers,
        "backends": {name: {"api": name, "url": url, "key": KEYS[name]} for name, url in provider.urls.items()},
        "models": [{"match": f"{route}.*", "attempts": attempts(route)} for route in ROUTES],
        "teams": {name: {"key": key, "limits": limits} for name, key in TEAMS.items()},
        "timeouts": {"idle": IDLE, "commit_after": 3}, **changes}


@dataclass(frozen=True)
class Sample:
    """One line of /metrics."""

    name: str
    labels: dict[str, str]
    value: float


class World:
    """A running gateway."""

    def __init__(self, config: dict[str, Any], directory: Path) -> None:
        self.gateway = Gateway(config, directory)
        self.workers = self.worker_pids()

    @property
    def port(self) -> int:
        return self.gateway.port

    def worker_pids(self) -> list[int]:
        """The workers that have an address now, the counting process not among them."""
        return [pid for pid in self.gateway.worker_pids() if b"extproc.worker.worker_process" in command(pid)]

    def envoy_pid(self) -> int:
        [pid] = self.gateway.envoy_pids()
        return pid

    def counting_pid(self) -> int:
        """The process that counts limits."""
        [pid] = [pid for pid in self.gateway.worker_pids() if b"limits" in command(pid)]
        return pid

    async def replace_workers(self) -> None:
        """SIGUSR1: every worker gets a successor; returns when the last one serves."""
        def replaced() -> int:
            return sum("the workers are replaced" in line for line in list(self.gateway.lines))

        before = replaced()
        self.gateway.process.send_signal(signal.SIGUSR1)
        await poll(lambda: replaced() > before, "the workers are replaced")

    def metrics(self) -> list[Sample]:
        text = request(f"http://{self.gateway.admin}", "GET", "/metrics").body.decode()
        return [Sample(found[1], dict(_LABEL.findall(found[2] or "")), float(found[3]))
                for line in text.splitlines() if (found := _SAMPLE.match(line))]

    def total(self, name: str, **labels: str) -> float:
        """The sum of all samples with these labels."""
        return sum(sample.value for sample in self.metrics()
                   if sample.name == name and labels.items() <= sample.labels.items())

    def envoy(self, pattern: str) -> dict[str, int]:
        """Envoy's own figures."""
        arguments = command(self.envoy_pid())
        bootstrap = Path(arguments[arguments.index(b"-c") + 1].decode())
        try:
            said = EnvoyAdmin(f"unix:{bootstrap.parent.parent}/admin.sock").ask("GET", f"/stats?filter={pattern}")[1]
        except (OSError, http.client.HTTPException):
            return {}
        return {name: int(value) for name, _, value in (line.partition(": ") for line in said.splitlines())
                if value.isdecimal()}

    def records(self) -> list[dict[str, Any]]:
        """The workers' lines about attempts on providers, in the order of their ends."""
        found = [json.loads(line) for line in list(self.gateway.lines)
                 if line.startswith("{") and '"event":"exchange"' in line]
        return [one for one in found if one["hop"] == "translate" and "model" in one]

    def internal_errors(self) -> list[str]:
        return [line[:600] for line in list(self.gateway.lines) if '"event":"internal_error"' in line
                or '"event":"library"' in line]


def command(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


async def poll(holds: Callable[[], bool], what: str, seconds: float = 40) -> None:
    """Waits for what other processes do, of which no event tells."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        await asyncio.sleep(0.02)
