"""One run of `extproc serve`: the workers alone, for an Envoy that runs elsewhere, from the start to the last answer.

Called by `program` with a checked configuration, addresses that are free and an empty runtime directory. It starts no
Envoy and changes none: where a changed configuration needs another one of Envoy's, it says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from extproc.config import Config, key_file_warnings
from extproc.envoy_config.layout import RuntimeLayout
from extproc.gateway import console
from extproc.gateway.admin import AdminServer, shared_metrics
from extproc.gateway.background import cancel, followers
from extproc.gateway.external_envoy import envoy_needs
from extproc.gateway.ratelimit_process import Limits
from extproc.gateway.readiness import Readiness
from extproc.gateway.reload import Reloader, Watch, digest_of
from extproc.gateway.signals import Stop, race, unless_stopped
from extproc.gateway.workers import Command, Workers


class Serving:
    """One run. `addresses`: `unix:/path` or `host:port` of one worker each; `limits_at`: of the process that counts.
    `layout`: the runtime directory, of whoever makes it; `command` runs a worker; `stop` ends it."""

    def __init__(self, config: Config, layout: RuntimeLayout, addresses: Sequence[str], limits_at: str,
                 env: Mapping[str, str], command: Command, stop: Stop) -> None:
        self._config = config
        self._layout = layout
        self._addresses = addresses
        self._stop = stop
        self._reloader = Reloader(config, layout.accepted)
        self._workers = Workers(addresses, command, env=env, metrics=layout.metrics, on_line=console.RequestLines(),
                                say=console.say)
        self._limits = Limits(limits_at, layout, env=env, on_line=console.RequestLines(), say=console.say)

    async def run(self, admin: tuple[str, int], watch: Watch | None, load: Callable[[], Config]) -> int:
        """The file is followed while the workers run; `load` reads it."""
        self._reloader.metrics.in_force(digest_of(watch.path if watch else None))
        server = AdminServer(admin, lambda: shared_metrics(self._layout.metrics) + self._reloader.metrics.text())
        try:
            if not await unless_stopped(self._start(), self._stop):
                return 0
            server.serve(self._readiness().missing)
            self._announce()
            tasks = followers(self._reloader, self._workers, self._stop, watch, load, self._applied)
            await self._stop.asked.wait()
            server.stopping()
            await cancel(tasks)
            console.say("stopping; running answers are finished first, a second signal ends them")
            await race(self._workers.end(self._reloader.plain.timeouts.drain), self._stop.at_once.wait())
            await self._limits.end(5)
            return 0
        finally:
            for children in (self._workers, self._limits):
                children.kill()
                await children.end(1)
            server.close()

    async def _start(self) -> None:
        self._reloader.prepare = self._limits.prepare
        await asyncio.gather(self._workers.start(), self._limits.prepare(self._config))
        self._reloader.serve(self._workers, None)

    def _announce(self) -> None:
        for path, reason in key_file_warnings(self._config):
            console.say(f"warning: {path}: {reason}; "
                        "where Envoy reads it elsewhere, texts of providers may quote the key")
        console.ready(f"processor ready on {', '.join(self._addresses)}", addresses=list(self._addresses))

    def _applied(self, now: Config) -> None:
        # Envoy's configuration was made for the first one, most likely.
        if said := envoy_needs(self._config, now):
            console.say(f"warning: {said}")

    def _readiness(self) -> Readiness:
        return Readiness(asyncio.get_running_loop(), self._workers,
                         lambda: self._limits.running(self._reloader.plain), None)
