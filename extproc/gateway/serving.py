"""One run of `extproc serve`: the workers alone, for an Envoy that runs elsewhere, from start to drain.

Called by `program` with a checked configuration, free addresses and an empty runtime directory. It starts no Envoy and
changes none. If a changed configuration needs another configuration of Envoy, it says so: most changes of a rule
concern the workers alone (the provider's model, bounds, tools, names to list). After the others, Envoy answers 503 for
rules without a route, until it gets a new configuration (`extproc envoy-config`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec

from extproc.config import Config, key_file_warnings
from extproc.envoy_config.layout import RuntimeLayout
from extproc.gateway import console
from extproc.gateway.admin import AdminServer, shared_metrics
from extproc.gateway.background import cancel_tasks, start_background_tasks
from extproc.gateway.config_file import FileWatch, digest_of
from extproc.gateway.ratelimit_process import RateLimitProcess
from extproc.gateway.readiness import Readiness
from extproc.gateway.reload import Reloader
from extproc.gateway.signals import OperatorSignals, unless_stopped, wait_for_first
from extproc.gateway.workers import Command, Workers

WORKERS_ONLY = frozenset({"models", "events", "lossy", "workers", "admin", "one_hop", "backends", "listen"})
"""Top-level keys that do not concern Envoy, or are compared more closely (`models`, `backends`). Where an external
Envoy listens is its own matter."""
BACKENDS_ONLY = frozenset({"safety"})
"""Keys of a backend that do not concern Envoy."""


class Serving:
    """One run.

    `addresses`: `unix:/path` or `host:port` of one worker each. `limits_at`: the address of the rate limit process.
    `layout`: the runtime directory, which the caller makes and removes. `command` runs a worker. `stop` ends the run.
    """

    def __init__(self, config: Config, layout: RuntimeLayout, addresses: Sequence[str], limits_at: str,
                 env: Mapping[str, str], command: Command, stop: OperatorSignals) -> None:
        self._config = config
        self._layout = layout
        self._addresses = addresses
        self._stop = stop
        self._reloader = Reloader(config, layout.accepted)
        self._workers = Workers(addresses, command, env=env, metrics=layout.metrics, on_line=console.RequestLines(),
                                report=console.report)
        self._limits = RateLimitProcess.at(limits_at, layout, env=env, on_line=console.RequestLines(),
                                           report=console.report)

    async def run(self, admin: tuple[str, int], watch: FileWatch | None, load: Callable[[], Config]) -> int:
        """Serves and follows the file. `load` reads it. Returns the exit code."""
        self._reloader.metrics.in_force(digest_of(watch.path if watch else None))
        server = AdminServer(admin, lambda: shared_metrics(self._layout.metrics) + self._reloader.metrics.text())
        try:
            if not await unless_stopped(self._start(), self._stop):
                return 0
            server.start_serving(self._readiness().missing)
            self._announce()
            tasks = start_background_tasks(self._reloader, self._workers, self._stop, watch, load, self._applied)
            await self._stop.stop_requested.wait()
            server.start_stopping()
            await cancel_tasks(tasks)
            console.report("stopping; running responses are finished first, a second signal ends them")
            drain = self._reloader.current_config.timeouts.drain
            await wait_for_first(self._workers.stop(drain), self._stop.kill_requested.wait())
            await self._limits.stop(5)
            return 0
        finally:
            for processes in (self._workers, self._limits):
                processes.kill()
                await processes.stop(1)
            server.close()

    async def _start(self) -> None:
        self._reloader.prepare = self._limits.prepare
        await asyncio.gather(self._workers.start(), self._limits.prepare(self._config))
        self._reloader.connect(self._workers, None)

    def _announce(self) -> None:
        for path, reason in key_file_warnings(self._config):
            console.report(f"warning: {path}: {reason}; "
                        "if Envoy reads it elsewhere, texts of providers may quote the key")
        console.report_ready(f"processor ready on {', '.join(self._addresses)}", addresses=list(self._addresses))

    def _applied(self, now: Config) -> None:
        # Envoy's configuration was most likely made for the first one.
        if warning := envoy_needs(self._config, now):
            console.report(f"warning: {warning}")

    def _readiness(self) -> Readiness:
        return Readiness(asyncio.get_running_loop(), self._workers,
                         lambda: self._limits.active_process(self._reloader.current_config), None)


def envoy_needs(before: Config, now: Config) -> str | None:
    """A sentence for the operator if Envoy and the workers differ after this change, else None. In one-hop mode Envoy
    knows none of our rules and backends."""
    if now.one_hop is not None:
        return None
    known = {rule.route_key for rule in before.models}
    unknown = [rule.match for rule in now.models if rule.route_key not in known]
    changed = [field.name for field in msgspec.structs.fields(Config)
               if field.name not in WORKERS_ONLY and getattr(before, field.name) != getattr(now, field.name)]
    if _backends(before) != _backends(now):
        changed.append("backends")
    if not unknown and not changed:
        return None
    if unknown:
        changed.insert(0, f"models ({', '.join(unknown[:10])}{', ...' if len(unknown) > 10 else ''})")
    until = ", and answers 503 for what it has no route for" if unknown else ""
    return (f"Envoy knows nothing of the change of {', '.join(changed)}: it needs a new configuration (extproc "
            f"envoy-config); until then it goes on as before{until}")


def _backends(config: Config) -> dict[str, dict[str, object]]:
    return {name: {field.name: getattr(backend, field.name) for field in msgspec.structs.fields(type(backend))
                   if field.name not in BACKENDS_ONLY} for name, backend in config.backends.items()}
