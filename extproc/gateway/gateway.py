"""One run of `extproc up`: Envoy, the workers and the processes beside them, from start to drain.

Called by `program` with a checked configuration and an empty runtime directory. It starts the parts in order, restarts
Envoy when it dies, and ends everything. The other modules of this package know the details of each part.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from extproc.config import Config, key_file_warnings, load_config, parse_address
from extproc.envoy_config.layout import RuntimeLayout
from extproc.gateway import console
from extproc.gateway.addresses import format_address, reachable_host, with_listen_address
from extproc.gateway.admin import AdminServer, shared_metrics
from extproc.gateway.background import cancel_tasks, start_background_tasks
from extproc.gateway.certificates import CertificateWatcher
from extproc.gateway.child_processes import StartError
from extproc.gateway.config_file import FileWatch, digest_of
from extproc.gateway.demo_provider import DemoProvider
from extproc.gateway.envoy import Envoy
from extproc.gateway.envoy_admin import EnvoyAdmin
from extproc.gateway.envoy_files import EnvoyFiles
from extproc.gateway.ratelimit_process import RateLimitProcess, unanswered_metric
from extproc.gateway.readiness import Readiness
from extproc.gateway.reload import Reloader
from extproc.gateway.signals import OperatorSignals, unless_stopped, wait_for_first
from extproc.gateway.workers import FIRST_PAUSE, Command, Workers

ENVOY_TRIES, ENVOY_WINDOW = 5, 60.0
"""An Envoy that dies is restarted so many times within so many seconds, each time after a longer pause. One that dies
more often will not recover."""


class Gateway:
    """One run.

    `layout`: its runtime directory, which the caller makes and removes. `command` runs a worker. `stop` ends the run.
    Raises StartError if a required part cannot be started.
    """

    def __init__(self, config: Config, layout: RuntimeLayout, env: Mapping[str, str], command: Command,
                 stop: OperatorSignals) -> None:
        self._config = config
        self._layout = layout
        self._env = dict(env)
        self._command = command
        self._stop = stop
        self._lines = console.RequestLines()
        self._demo = DemoProvider()
        self._workers: Workers | None = None
        self._envoy: Envoy | None = None
        self._envoy_files: EnvoyFiles | None = None
        self._reloader: Reloader | None = None
        self._limits: RateLimitProcess | None = None
        self._certificates = CertificateWatcher(lambda: self._config.tls, layout.reload_trigger, console.report)

    async def run(self, admin: tuple[str, int], watch: FileWatch | None = None, port: int | None = None) -> int:
        """Serves and follows the file. `port` overrides the file's. Returns the exit code."""
        server = AdminServer(admin, self._metrics)
        try:
            if not await unless_stopped(self._start(), self._stop):
                return 0
            assert self._reloader is not None
            self._reloader.metrics.in_force(digest_of(watch.path if watch else None))
            server.start_serving(self._readiness().missing)  # before the line: its reader may ask /readyz at once
            self._announce(server.port)
            tasks = self._start_background_tasks(watch, port)
            code = await self._until_stopped()
            server.start_stopping()
            await cancel_tasks(tasks)
            if code == 0:
                console.report("stopping; running responses are finished first, a second signal ends them")
                await wait_for_first(self._drain(), self._stop.kill_requested.wait())
            return code
        finally:
            await self._kill()
            server.close()

    async def _start(self) -> None:
        self._config = await self._demo.start(self._config, self._env)
        self._reloader = Reloader(self._config, self._layout.accepted)
        self._workers = Workers(self._layout.sockets, self._command, env=self._env, metrics=self._layout.metrics,
                                on_line=self._lines, report=console.report)
        self._limits = RateLimitProcess.at(f"unix:{self._layout.limits_socket}", self._layout, env=self._env,
                                           on_line=self._lines, report=console.report)
        self._envoy_files = envoy_files = EnvoyFiles(self._layout, EnvoyAdmin(f"unix:{self._layout.envoy_admin}"))
        # Writing Envoy's files takes as long as starting the workers.
        await asyncio.gather(self._workers.start(), self._limits.prepare(self._config),
                             asyncio.to_thread(envoy_files.write_all, self._config))
        self._reloader.prepare = self._limits.prepare
        self._reloader.connect(self._workers, envoy_files)
        self._envoy = await self._start_envoy()
        host, port = parse_address(self._config.listen)
        await self._envoy.wait_until_serving(
            reachable_host(host), port, len(self._layout.sockets), tls=self._config.tls is not None)

    def _announce(self, admin_port: int) -> None:
        host, port = parse_address(self._config.listen)
        scheme = "http" if self._config.tls is None else "https"
        url = f"{scheme}://{format_address(reachable_host(host), port)}"
        console.print_overview(self._config, url, self._env)
        admin = format_address(parse_address(self._config.admin)[0], admin_port)
        console.print_note(f"metrics and health: http://{admin}/metrics /healthz /readyz")
        for problem in self._envoy.unresolved_backends(self._config) if self._envoy else ():
            console.report(f"warning: {problem}")
        for path, reason in key_file_warnings(self._config):
            console.report(f"warning: {path}: {reason}")
        console.report_ready(f"ready on {url}", url=url)
        self._lines.print_heading()

    def _metrics(self) -> bytes:
        text = b"" if self._reloader is None else self._reloader.metrics.text()
        if self._envoy is not None:
            text += unanswered_metric(EnvoyAdmin(f"unix:{self._layout.envoy_admin}"))
        return shared_metrics(self._layout.metrics) + text

    def _start_background_tasks(self, watch: FileWatch | None, port: int | None) -> list[asyncio.Task[None]]:
        """Starts the tasks that run beside the requests."""
        assert self._reloader is not None
        assert self._workers is not None
        assert self._limits is not None

        def load() -> Config:
            return with_listen_address(load_config(watch.path if watch else None, self._env), port, self._config)

        def applied(config: Config) -> None:
            if config.listen != self._config.listen:
                console.report(f"listens on {config.listen} now; running responses on {self._config.listen} are "
                               "finished")
            self._config = config
            for reason in self._envoy.unresolved_backends(config) if self._envoy else ():
                console.report(f"warning: {reason}")

        return [*start_background_tasks(self._reloader, self._workers, self._stop, watch, load, applied),
                asyncio.create_task(self._certificates.run())]

    def _readiness(self) -> Readiness:
        assert self._workers is not None
        assert self._limits is not None
        limits = self._limits
        return Readiness(asyncio.get_running_loop(), self._workers, lambda: limits.active_process(self._config),
                         EnvoyAdmin(f"unix:{self._layout.envoy_admin}"))

    async def _start_envoy(self) -> Envoy:
        assert self._envoy_files is not None
        return await Envoy.start(self._layout, self._env, self._lines, self._envoy_files.on_log_line)

    async def _until_stopped(self) -> int:
        """Returns 0 on a signal, 1 if Envoy died too often. An Envoy that dies is restarted on its present files; its
        requests are lost."""
        assert self._envoy is not None
        deaths: list[float] = []
        while True:
            await wait_for_first(self._stop.stop_requested.wait(), self._envoy.wait_for_exit())
            if self._stop.stop_requested.is_set():
                return 0
            now = time.monotonic()
            deaths = [*(at for at in deaths if now - at < ENVOY_WINDOW), now]
            if len(deaths) > ENVOY_TRIES:
                console.report(f"{self._envoy.describe_end()}\n"
                         f"that was {len(deaths)} times within {ENVOY_WINDOW:g} s: giving up")
                return 1
            pause = FIRST_PAUSE * 2 ** (len(deaths) - 1)
            console.report(f"{self._envoy.describe_end()}\nstarting it again in {pause:g} s "
                     f"(time {len(deaths)} of {ENVOY_TRIES} within {ENVOY_WINDOW:g} s)")
            await wait_for_first(self._stop.stop_requested.wait(), asyncio.sleep(pause))
            try:
                if not self._stop.stop_requested.is_set():
                    self._envoy = await self._start_envoy()
            except (StartError, OSError) as error:  # counted at the top of the loop
                console.report(f"Envoy cannot be started: {error}")

    async def _drain(self) -> None:
        assert self._envoy is not None
        assert self._workers is not None
        patience = self._config.timeouts.drain
        if not await self._envoy.drain(patience):
            console.report(f"some responses were still running after {patience:g} s (timeouts.drain) and are cut off")
        # Envoy first: without it the workers get no more requests.
        await self._envoy.stop()
        await self._workers.stop(5)
        if self._limits is not None:
            await self._limits.stop(5)

    async def _kill(self) -> None:
        """Kills whatever still runs, in any state of a start or an end."""
        if self._envoy is not None:
            self._envoy.kill()
        for processes in (self._workers, self._limits):
            if processes is not None:
                processes.kill()
                await processes.stop(1)
        await self._demo.kill()
        if self._envoy is not None:
            await self._envoy.wait_for_exit()
