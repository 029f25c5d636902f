"""A gateway with limited teams for tests: the real Envoy, real workers, the process that counts with a clock of the
test's own, and a scripted provider."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from extproc.config import Attempt, Backend, Config, LimitKey, LimitsService, ModelRule, Team, TeamLimits
from extproc.envoy_config import RuntimeLayout
from extproc.process.log import Log
from extproc.ratelimit.counters import Charge, LimitStatus
from extproc.ratelimit.kinds import LIMIT_KINDS
from extproc.ratelimit.server import RateLimitServer
from extproc.worker.metrics import PrometheusMetrics
from extproc.worker.worker import Worker
from tests.envoy.running import Answer, RunningEnvoy
from tests.ports import free_port
from tests.providers.openai import OpenAIProvider

T = TypeVar("T")

NOON = 1_800_014_400.0
"""A noon in UTC; the clock stands still until a test moves it."""
HELLO: dict[str, Any] = {"max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}


class Loop:
    """An event loop in a thread, for servers."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    def call(self, work: Callable[[], T]) -> T:
        """Runs `work` there: grpc wants its servers made in the loop that they run in."""
        async def there() -> T:
            return work()

        return self.run(there())

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)


class Seen:
    """What the process that counts decided."""

    def __init__(self) -> None:
        self.refusals: list[LimitStatus] = []
        self.charges: list[tuple[Charge, LimitStatus]] = []

    def limit_known(self, status: LimitStatus) -> None:
        """How a limit stands, of which nothing was counted: not decided by a request."""

    def charged(self, charge: Charge, status: LimitStatus) -> None:
        self.charges.append((charge, status))

    def refused(self, status: LimitStatus) -> None:
        self.refusals.append(status)


class Limited:
    """Started by the constructor; `teams` are limits by team, the key of team `x` is `key-x`."""

    def __init__(self, provider: OpenAIProvider, teams: dict[str, TeamLimits | None], *, workers: int = 2,
                 service: bool = True, **changes: Any) -> None:
        self.provider = provider
        self.now = NOON
        self.seen = Seen()
        self.config = configuration(provider, teams, **changes)
        self.layout = RuntimeLayout.create(workers)
        self.servers = Loop()
        quiet = Log("error", write=lambda _: None)
        self.limits_server = self.make_limits_server(self.config)
        self.workers = self.servers.call(lambda: [
            Worker(self.config, address, log=quiet, metrics=PrometheusMetrics(), quiet=0.01)
            for address in self.layout.sockets])
        for worker in self.workers:
            self.servers.run(worker.start())
        self.serves = False
        if service:
            self.start_service()
        self.envoy = RunningEnvoy(self.config, processor=False, layout=self.layout)

    def make_limits_server(self, config: Config) -> RateLimitServer:
        return self.servers.call(lambda: RateLimitServer(
            config, f"unix:{self.layout.limits_socket}", log=Log("error", write=lambda _: None), observer=self.seen,
            clock=lambda: self.now))

    def start_service(self) -> None:
        self.servers.run(self.limits_server.start())
        self.serves = True

    def stop_service(self) -> None:
        self.servers.run(self.limits_server.stop())
        self.serves = False

    def ask(self, team: str = "red", model: str = "m", path: str = "/v1/messages", **more: Any) -> Answer:
        body = json.dumps({"model": model, **HELLO, **more}).encode()
        return self.envoy.request("POST", path, body, {
            "content-type": "application/json", "x-api-key": f"key-{team}"})

    def at_once(self, number: int, **what: Any) -> list[Answer]:
        """Requests in parallel."""
        with ThreadPoolExecutor(number) as pool:
            return list(pool.map(lambda _: self.ask(**what), range(number)))

    def used(self, kind: str, team: str = "red", rule: str = "") -> int:
        """What is counted now."""
        key = LimitKey(team, rule, kind)
        counters = self.limits_server.service.counters
        if kind == "concurrent_streams":
            return self.servers.call(lambda: counters.count_streams(key))
        window = int(self.now // LIMIT_KINDS[kind].window_seconds)
        return self.servers.call(lambda: next(
            (one.used for one in counters.snapshot() if (one.key, one.window) == (key, window)), 0))

    def until_used(self, kind: str, number: int, **which: str) -> None:
        """Waits until that much is counted: Envoy tells of the end when the client has its answer already."""
        until(lambda: self.used(kind, **which) == number, lambda: f"{kind} is {self.used(kind, **which)}, not {number}")

    def stop(self) -> None:
        self.envoy.stop()
        for worker in self.workers:
            worker.end_at_once()
            self.servers.run(worker.stop())
        if self.serves:
            self.stop_service()
        self.servers.stop()


def until(holds: Callable[[], bool], what: Callable[[], str]) -> None:
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end, what()
        time.sleep(0.01)


def configuration(provider: OpenAIProvider, teams: dict[str, TeamLimits | None], **changes: Any) -> Config:
    """`m` has one attempt, `pair` two; `nowhere` leads to a port where nothing listens."""
    backends = {"b": Backend(api="openai", url=provider.url, key="k"),
                "other": Backend(api="openai", url=provider.url, key="k"),
                "down": Backend(api="openai", url=f"http://127.0.0.1:{free_port()}/v1", key="k")}
    models = [ModelRule(match="m", attempts=[Attempt(backend="b", model="first")]),
              ModelRule(match="pair", attempts=[Attempt(backend="b", model="first"),
                                                Attempt(backend="other", model="second")]),
              ModelRule(match="nowhere", attempts=[Attempt(backend="down", model="x")]),
              ModelRule(match="glob-*", attempts=[Attempt(backend="b", model="first")]),
              ModelRule(match="50% Ü/*", attempts=[Attempt(backend="b", model="first")])]
    values: dict[str, Any] = {
        "listen": f"127.0.0.1:{free_port()}", "backends": backends, "models": models,
        "teams": {name: Team(key=f"key-{name}", limits=limits) for name, limits in teams.items()},
        # Everything runs in this one process: a short patience would be about the machine.
        "limits_service": LimitsService(timeout=20), **changes}
    return Config(**values)
