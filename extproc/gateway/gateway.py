"""One run of `extproc up`: the demo provider, the workers and Envoy, from the start to the end of the drain.

Called by `program` with a checked configuration and an empty runtime directory. Order of a start: the demo provider
(when it is configured) and the workers come up; Envoy starts when all workers are healthy; "ready" is printed when the
first request would succeed. Order of an end: Envoy drains, then the workers. It reads no options and handles no signal;
an Envoy that dies is started again, within bounds. Whatever happens, nothing it started outlives `run`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from extproc.config import Config, key_file_warnings, load_config, parse_address
from extproc.envoy_config.layout import RuntimeLayout
from extproc.gateway import console
from extproc.gateway.addresses import listening, reachable_host
from extproc.gateway.addresses import show as show_address
from extproc.gateway.admin import AdminServer, shared_metrics
from extproc.gateway.background import cancel, followers
from extproc.gateway.certificates import Certificates
from extproc.gateway.child_processes import StartError
from extproc.gateway.demo_provider import DemoProvider
from extproc.gateway.envoy import Envoy
from extproc.gateway.envoy_admin import EnvoyAdmin
from extproc.gateway.envoy_files import EnvoyFiles
from extproc.gateway.ratelimit_process import Limits, unanswered
from extproc.gateway.readiness import Readiness
from extproc.gateway.reload import Reloader, Watch, digest_of
from extproc.gateway.signals import Stop, race, unless_stopped
from extproc.gateway.workers import FIRST_PAUSE, Command, Workers

ENVOY_TRIES, ENVOY_WINDOW = 5, 60.0
"""How often an Envoy that dies is started again within so many seconds, each time after a longer pause. One that dies
more often will not live longer the next time."""


class Gateway:
    """One run. `layout`: its runtime directory, of whoever makes it; `command` runs a worker; `stop` ends it. Raises
    StartError where the environment asks for what there is not."""

    def __init__(self, config: Config, layout: RuntimeLayout, env: Mapping[str, str], command: Command,
                 stop: Stop) -> None:
        self._config = config
        self._layout = layout
        self._env = dict(env)
        self._command = command
        self._stop = stop
        self._lines = console.RequestLines()
        self._demo = DemoProvider()
        self._workers: Workers | None = None
        self._envoy: Envoy | None = None
        self._delivery: EnvoyFiles | None = None
        self._reloader: Reloader | None = None
        self._limits: Limits | None = None
        self._certificates = Certificates(lambda: self._config.tls, layout.bell, console.say)

    async def run(self, admin: tuple[str, int], watch: Watch | None = None, port: int | None = None) -> int:
        """The file is followed while the gateway runs; `port` stays whatever it says."""
        server = AdminServer(admin, self._metrics)
        try:
            if not await unless_stopped(self._start(), self._stop):
                return 0
            assert self._reloader is not None
            self._reloader.metrics.in_force(digest_of(watch.path if watch else None))
            server.serve(self._readiness().missing)  # before the line: whoever reads it may ask /readyz at once
            self._announce(server.port)
            tasks = self._follow(watch, port)
            code = await self._until_stopped()
            server.stopping()
            await cancel(tasks)
            if code == 0:
                console.say("stopping; running answers are finished first, a second signal ends them")
                await race(self._drain(), self._stop.at_once.wait())
            return code
        finally:
            await self._kill()
            server.close()

    async def _start(self) -> None:
        self._config = await self._demo.start(self._config, self._env)
        self._reloader = Reloader(self._config, self._layout.accepted)
        self._workers = Workers(self._layout.sockets, self._command, env=self._env, metrics=self._layout.metrics,
                                on_line=self._lines, say=console.say)
        self._limits = Limits(f"unix:{self._layout.limits_socket}", self._layout, env=self._env, on_line=self._lines,
                              say=console.say)
        self._delivery = delivery = EnvoyFiles(self._layout, EnvoyAdmin(f"unix:{self._layout.envoy_admin}"))
        # Envoy's files take as long as the workers: both at once.
        await asyncio.gather(self._workers.start(), self._limits.prepare(self._config),
                             asyncio.to_thread(delivery.first, self._config))
        self._reloader.prepare = self._limits.prepare
        self._reloader.serve(self._workers, delivery)
        self._envoy = await self._start_envoy()
        host, port = parse_address(self._config.listen)
        await self._envoy.serve(reachable_host(host), port, len(self._layout.sockets), tls=self._config.tls is not None)

    def _announce(self, admin_port: int) -> None:
        host, port = parse_address(self._config.listen)
        scheme = "http" if self._config.tls is None else "https"
        url = f"{scheme}://{show_address(reachable_host(host), port)}"
        console.served(self._config, url, self._env)
        admin = show_address(parse_address(self._config.admin)[0], admin_port)
        console.note(f"metrics and health: http://{admin}/metrics /healthz /readyz")
        for problem in self._envoy.unresolved(self._config) if self._envoy else ():
            console.say(f"warning: {problem}")
        for path, reason in key_file_warnings(self._config):
            console.say(f"warning: {path}: {reason}")
        console.ready(f"ready on {url}", url=url)
        self._lines.heading()

    def _metrics(self) -> bytes:
        told = b"" if self._reloader is None else self._reloader.metrics.text()
        if self._envoy is not None:
            told += unanswered(EnvoyAdmin(f"unix:{self._layout.envoy_admin}"))
        return shared_metrics(self._layout.metrics) + told

    def _follow(self, watch: Watch | None, port: int | None) -> list[asyncio.Task[None]]:
        """What goes on beside the requests."""
        assert self._reloader is not None
        assert self._workers is not None
        assert self._limits is not None

        def load() -> Config:
            return listening(load_config(watch.path if watch else None, self._env), port, self._config)

        def applied(config: Config) -> None:
            if config.listen != self._config.listen:
                console.say(f"listens on {config.listen} now; answers that run on {self._config.listen} are finished")
            self._config = config
            for reason in self._envoy.unresolved(config) if self._envoy else ():
                console.say(f"warning: {reason}")

        return [*followers(self._reloader, self._workers, self._stop, watch, load, applied),
                asyncio.create_task(self._certificates.follow())]

    def _readiness(self) -> Readiness:
        assert self._workers is not None
        assert self._limits is not None
        limits = self._limits
        return Readiness(asyncio.get_running_loop(), self._workers, lambda: limits.running(self._config),
                         EnvoyAdmin(f"unix:{self._layout.envoy_admin}"))

    async def _start_envoy(self) -> Envoy:
        assert self._delivery is not None
        return await Envoy.start(self._layout, self._env, self._lines, self._delivery.heard)

    async def _until_stopped(self) -> int:
        """0 when a signal came, 1 when Envoy died too often. One that dies is started again on the files as they are
        now; what ran through it is lost."""
        assert self._envoy is not None
        deaths: list[float] = []
        while True:
            await race(self._stop.asked.wait(), self._envoy.wait())
            if self._stop.asked.is_set():
                return 0
            now = time.monotonic()
            deaths = [*(at for at in deaths if now - at < ENVOY_WINDOW), now]
            if len(deaths) > ENVOY_TRIES:
                console.say(f"{self._envoy.last_words()}\n"
                         f"that was {len(deaths)} times within {ENVOY_WINDOW:g} s: giving up")
                return 1
            pause = FIRST_PAUSE * 2 ** (len(deaths) - 1)
            console.say(f"{self._envoy.last_words()}\nstarting it again in {pause:g} s "
                     f"(time {len(deaths)} of {ENVOY_TRIES} within {ENVOY_WINDOW:g} s)")
            await race(self._stop.asked.wait(), asyncio.sleep(pause))
            try:
                if not self._stop.asked.is_set():
                    self._envoy = await self._start_envoy()
            except (StartError, OSError) as error:  # counted at the top of the loop
                console.say(f"Envoy cannot be started: {error}")

    async def _drain(self) -> None:
        assert self._envoy is not None
        assert self._workers is not None
        patience = self._config.timeouts.drain
        if not await self._envoy.drain(patience):
            console.say(f"some answers were still running after {patience:g} s (timeouts.drain) and are cut off")
        # Envoy first: without it nobody asks the workers any more.
        await self._envoy.end()
        await self._workers.end(5)
        if self._limits is not None:
            await self._limits.end(5)

    async def _kill(self) -> None:
        """Whatever still runs, in any state of a start or an end."""
        if self._envoy is not None:
            self._envoy.kill()
        for children in (self._workers, self._limits):
            if children is not None:
                children.kill()
                await children.end(1)
        await self._demo.kill()
        if self._envoy is not None:
            await self._envoy.wait()
