"""`extproc up` and `extproc serve`: the parent process that starts, watches and ends everything else.

Order of a start: ports and the Envoy binary are checked before anything runs; the demo provider (when it is
configured) and the workers come up; Envoy starts when all workers are healthy; "ready" is printed when the first
request would succeed. Order of an end: Envoy drains, then the workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from extproc import bootstrap
from extproc.bootstrap.layout import LIMITS_ADDRESS, RuntimeLayout
from extproc.config import Config, ConfigError, load_config, parse_address
from extproc.config.checks import key_file_warnings
from extproc.up import show
from extproc.up.addresses import show as show_address
from extproc.up.addresses import usable_port, usable_socket
from extproc.up.admin import AdminServer, admin_address, shared_metrics
from extproc.up.certificates import Certificates
from extproc.up.children import Child, StartError
from extproc.up.delivery import Delivery
from extproc.up.elsewhere import envoy_needs
from extproc.up.envoy import Envoy
from extproc.up.envoy_admin import EnvoyAdmin
from extproc.up.limits import Limits, unanswered
from extproc.up.readiness import Readiness
from extproc.up.reload import ConfigFile, Reloader, Watch, digest_of
from extproc.up.workers import Command, Workers, processors, worker_command

DEMO_URL_VARIABLE = "EXTPROC_DEMO_URL"
"""Tells the workers' `load_config` where the demo provider listens."""
DEMO_PATIENCE = 20.0
_DEMO_LISTENS = re.compile(r"listening on (?:\S*:)?(\d+)\s*$")


def run_up(config_path: Path | None, port: int | None, *, env: Mapping[str, str] | None = None,
           command: Command | None = None) -> int:
    """Runs the whole gateway in the foreground. Returns the exit code: 0 after a drain, 1 when something failed.

    `port` overrides the configuration's (0: any free one). `command` runs a worker; tests bring their own."""
    env = os.environ if env is None else env
    return _run(lambda stop: _up(config_path, port, env, command, stop))


def run_serve(config_path: Path | None, listen: Sequence[str], *, env: Mapping[str, str] | None = None,
              command: Command | None = None, limits: str = LIMITS_ADDRESS) -> int:
    """Runs the workers alone, one on each address of `listen` (`unix:/path` or `host:port`), for an Envoy that runs
    elsewhere; at `limits` the process that counts, where teams have limits. Returns the exit code."""
    env = os.environ if env is None else env
    return _run(lambda stop: _serve(config_path, listen, limits, env, command, stop))


class _Stop:
    """What signals ask for: the first to end a drain, the second an end at once; others a look at the configuration
    (`changed`) or new workers (`replaced`)."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.at_once = asyncio.Event()
        self.changed = asyncio.Event()
        self.replaced = asyncio.Event()
        self._on_terminal = _has_terminal()

    def on_signal(self) -> None:
        (self.at_once if self.asked.is_set() else self.asked).set()

    def on_hangup(self) -> None:
        """SIGHUP asks to read the configuration again, unless it tells that the terminal was closed."""
        if self._on_terminal and not _has_terminal():
            self.on_signal()
        else:
            self.changed.set()


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _run(main: Callable[[_Stop], Coroutine[Any, Any, int]]) -> int:
    async def guarded() -> int:
        stop = _Stop()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.on_signal)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, stop.on_hangup)
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, stop.replaced.set)
        return await main(stop)

    try:
        return asyncio.run(guarded())
    except ConfigError as error:
        for path, reason in error.problems:
            print(f"{path}: {reason}", file=sys.stderr, flush=True)
    except StartError as error:
        _say(str(error))
    except OSError as error:
        _say(f"cannot run: {error}")
    return 1


async def _up(config_path: Path | None, port: int | None, env: Mapping[str, str], command: Command | None,
              stop: _Stop) -> int:
    watch = None if config_path is None else Watch(config_path)  # first: nothing is missed while the gateway starts
    config = _listening(load_config(config_path, env), port, None)
    Envoy.binary()
    _check_certificates(config)
    admin = admin_address(config)
    layout = _layout(_worker_count(config))
    try:
        gateway = _Gateway(config, layout, env, command or worker_command(layout.accepted), stop)
        return await gateway.run(admin, watch, port)
    finally:
        layout.remove()


def _check_certificates(config: Config) -> None:
    """Raises StartError with Envoy's words for a file of certificates that it will not take: it would start and answer
    nobody."""
    if config.tls is None and not any(backend.ca for backend in config.backends.values()):
        return
    if said := bootstrap.validate_with_envoy(
            bootstrap.static_bootstrap(config, with_secrets=False, sockets=["127.0.0.1:1"])):
        raise StartError("Envoy refuses the configuration: " + "; ".join(said))


def _listening(config: Config, port: int | None, now: Config | None) -> Config:
    """`config` with the address that it shall listen on: a given port comes before the configured one, port 0 is any
    free one. `now`: what a running gateway listens on. Raises StartError where that cannot be."""
    host, chosen = parse_address(config.listen)
    chosen = chosen if port is None else port
    if now is not None:
        host_now, port_now = parse_address(now.listen)
        if host == host_now and chosen in (0, port_now):
            return msgspec.structs.replace(config, listen=now.listen).with_literal_keys(config.literal_keys)
        if chosen == port_now:
            raise StartError(f"{host}:{chosen} and {host_now}:{port_now} cannot follow one another without a pause: "
                             "take another port, or restart")
    chosen = usable_port(host, chosen)
    changed = msgspec.structs.replace(config, listen=show_address(host, chosen))
    return changed.with_literal_keys(config.literal_keys)


def _layout(workers: int) -> RuntimeLayout:
    try:
        return RuntimeLayout.create(workers)
    except OSError as error:
        raise StartError(f"no place for sockets and other short-lived files (TMPDIR says where): {error}") from None


class _Gateway:
    """One run of `extproc up`."""

    def __init__(self, config: Config, layout: RuntimeLayout, env: Mapping[str, str], command: Command,
                 stop: _Stop) -> None:
        self._config = config
        self._layout = layout
        self._env = dict(env)
        self._command = command
        self._stop = stop
        self._lines = show.RequestLines()
        self._demo: Child | None = None
        self._workers: Workers | None = None
        self._envoy: Envoy | None = None
        self._reloader: Reloader | None = None
        self._limits: Limits | None = None
        self._certificates = Certificates(lambda: self._config.tls, layout.bell, _say)

    async def run(self, admin: tuple[str, int], watch: Watch | None = None, port: int | None = None) -> int:
        """The file is followed while the gateway runs; `port` stays whatever it says."""
        server = AdminServer(admin, self._metrics)
        try:
            if not await _unless_stopped(self._start(), self._stop):
                return 0
            assert self._reloader is not None
            self._reloader.metrics.in_force(digest_of(watch.path if watch else None))
            self._announce(server.port)
            server.serve(self._readiness().missing)
            followers = self._follow(watch, port)
            code = await self._until_stopped()
            server.stopping()
            await _cancel(followers)
            if code == 0:
                _say("stopping; running answers are finished first, a second signal ends them")
                await _race(self._drain(), self._stop.at_once.wait())
            return code
        finally:
            await self._kill()
            server.close()

    async def _start(self) -> None:
        await self._start_demo()
        self._reloader = Reloader(self._config, self._layout.accepted)
        self._workers = Workers(self._layout.sockets, self._command, env=self._env, metrics=self._layout.metrics,
                                on_line=self._lines, say=_say)
        self._limits = _limits(f"unix:{self._layout.limits_socket}", self._layout, self._env, self._lines)
        delivery = Delivery(self._layout, EnvoyAdmin(f"unix:{self._layout.envoy_admin}"))
        # Envoy's files take as long as the workers: both at once.
        await asyncio.gather(self._workers.start(), self._limits.prepare(self._config),
                             asyncio.to_thread(delivery.first, self._config))
        self._reloader.prepare = self._limits.prepare
        self._reloader.serve(self._workers, delivery)
        self._envoy = await Envoy.start(self._layout, self._env, self._lines, delivery.heard)
        host, port = parse_address(self._config.listen)
        await self._envoy.serve(_reachable(host), port, len(self._layout.sockets), tls=self._config.tls is not None)

    async def _start_demo(self) -> None:
        """The demo provider, where a backend asks for it; its port is known only once it listens."""
        names = [name for name, backend in self._config.backends.items() if backend.is_demo]
        if not names:
            return
        said: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def on_line(line: str) -> None:
            if (found := _DEMO_LISTENS.search(line)) and not said.done():
                said.set_result(int(found[1]))

        self._demo = await Child.start(
            "demo provider", [sys.executable, "-m", "extproc", "demo", "--listen", "127.0.0.1:0"], env=self._env,
            on_line=on_line, on_error=lambda _: None)
        ended = asyncio.create_task(self._demo.wait())
        await asyncio.wait([said, ended], timeout=DEMO_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not said.done():
            raise StartError(f"the demo provider does not listen; the {self._demo.last_words()}")
        url = f"http://127.0.0.1:{said.result()}/v1"
        self._env[DEMO_URL_VARIABLE] = url
        for name in names:
            self._config = self._config.with_backend_url(name, url)

    def _announce(self, admin_port: int) -> None:
        host, port = parse_address(self._config.listen)
        scheme = "http" if self._config.tls is None else "https"
        url = f"{scheme}://{show_address(_reachable(host), port)}"
        show.served(self._config, url, self._env)
        admin = show_address(parse_address(self._config.admin)[0], admin_port)
        show.note(f"metrics and health: http://{admin}/metrics /healthz /readyz")
        for problem in self._envoy.unresolved(self._config) if self._envoy else ():
            _say(f"warning: {problem}")
        for path, reason in key_file_warnings(self._config):
            _say(f"warning: {path}: {reason}")
        print(f"extproc: ready on {url}", flush=True)
        self._lines.heading()

    def _metrics(self) -> bytes:
        told = b"" if self._reloader is None else self._reloader.metrics.text()
        if self._envoy is not None and self._config.limit_numbers:
            told += unanswered(EnvoyAdmin(f"unix:{self._layout.envoy_admin}"))
        return shared_metrics(self._layout.metrics) + told

    def _follow(self, watch: Watch | None, port: int | None) -> list[asyncio.Task[None]]:
        """What goes on beside the requests."""
        assert self._reloader is not None
        assert self._workers is not None
        assert self._limits is not None

        def load() -> Config:
            return _listening(load_config(watch.path if watch else None, self._env), port, self._config)

        def applied(config: Config) -> None:
            if config.listen != self._config.listen:
                _say(f"listens on {config.listen} now; answers that run on {self._config.listen} are finished")
            self._config = config
            for reason in self._envoy.unresolved(config) if self._envoy else ():
                _say(f"warning: {reason}")

        return [*_followers(self._reloader, self._workers, self._limits, self._stop, watch, load, applied),
                asyncio.create_task(self._certificates.follow())]

    def _readiness(self) -> Readiness:
        assert self._workers is not None
        assert self._limits is not None
        limits = self._limits
        return Readiness(asyncio.get_running_loop(), self._workers, lambda: limits.running(self._config),
                         EnvoyAdmin(f"unix:{self._layout.envoy_admin}"))

    async def _until_stopped(self) -> int:
        """0 when a signal came, 1 when Envoy died."""
        assert self._envoy is not None
        await _race(self._stop.asked.wait(), self._envoy.wait())
        if self._stop.asked.is_set():
            return 0
        _say(self._envoy.last_words())
        return 1

    async def _drain(self) -> None:
        assert self._envoy is not None
        assert self._workers is not None
        patience = self._config.timeouts.drain
        if not await self._envoy.drain(patience):
            _say(f"some answers were still running after {patience:g} s (timeouts.drain) and are cut off")
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
        if self._demo is not None:
            self._demo.send(signal.SIGKILL)
            await self._demo.wait()
        if self._envoy is not None:
            await self._envoy.wait()


def _followers(reloader: Reloader, workers: Workers, limits: Limits, stop: _Stop, watch: Watch | None,
               load: Callable[[], Config],
               applied: Callable[[Config], None] = lambda config: None) -> list[asyncio.Task[None]]:
    """Tasks that run for ever: changes of the file (none without one), old generations that go away, new
    workers when SIGUSR1 asks for them."""
    async def replace() -> None:
        while True:
            await stop.replaced.wait()
            stop.replaced.clear()
            async with reloader.lock:  # a worker is configured or replaced, never both at once
                _say("replacing the workers one by one")
                if await workers.replace() and await limits.replace():
                    _say("the workers are replaced; the old ones finish what they run")

    def ignored() -> None:
        _say("SIGHUP: there is no configuration file to read again")

    tasks = [reloader.retire(), replace()]
    if watch is not None:
        tasks.append(ConfigFile(watch, load, reloader, _say, stop.changed, applied).follow())
    else:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, ignored)
    return [asyncio.create_task(task) for task in tasks]


def _limits(address: str, layout: RuntimeLayout, env: Mapping[str, str], lines: show.RequestLines) -> Limits:
    return Limits(address, layout.accepted, layout.counters, env=env, metrics=layout.metrics, on_line=lines, say=_say)


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for error in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(error, Exception):
            raise error


async def _serve(config_path: Path | None, listen: Sequence[str], limits_at: str, env: Mapping[str, str],
                 command: Command | None, stop: _Stop) -> int:
    watch = None if config_path is None else Watch(config_path)
    config = load_config(config_path, env)
    if any(backend.is_demo for backend in config.backends.values()):
        raise StartError("serve needs a configuration file: the built-in demo runs only under extproc up")
    for address in [*listen, *([limits_at] if Limits.needed(config) else [])]:
        if address.startswith(("unix:", "/")):
            usable_socket(address.removeprefix("unix:"))
        else:
            usable_port(*parse_address(address))
    where = admin_address(config)
    layout = _layout(0)
    reloader = Reloader(config, layout.accepted)
    reloader.metrics.in_force(digest_of(config_path))
    admin = AdminServer(where, lambda: shared_metrics(layout.metrics) + reloader.metrics.text())
    addresses = [f"unix:{address}" if address.startswith("/") else address for address in listen]
    workers = Workers(addresses, command or worker_command(layout.accepted), env=env, metrics=layout.metrics,
                      on_line=show.RequestLines(), say=_say)
    limits = _limits(f"unix:{limits_at}" if limits_at.startswith("/") else limits_at, layout, env, show.RequestLines())
    reloader.prepare = limits.prepare

    async def start() -> None:
        await asyncio.gather(workers.start(), limits.prepare(config))

    try:
        if not await _unless_stopped(start(), stop):
            return 0
        loop = asyncio.get_running_loop()
        admin.serve(Readiness(loop, workers, lambda: limits.running(reloader.plain), None).missing)
        for path, reason in key_file_warnings(config):
            _say(f"warning: {path}: {reason}; where Envoy reads it elsewhere, texts of providers may quote the key")
        print(f"extproc: processor ready on {', '.join(addresses)}", flush=True)
        reloader.serve(workers, None)
        made_for = config  # Envoy's configuration, most likely

        def applied(now: Config) -> None:
            if said := envoy_needs(made_for, now):
                _say(f"warning: {said}")

        followers = _followers(reloader, workers, limits, stop, watch, lambda: load_config(config_path, env), applied)
        await stop.asked.wait()
        admin.stopping()
        await _cancel(followers)
        _say("stopping; running answers are finished first, a second signal ends them")
        await _race(workers.end(reloader.plain.timeouts.drain), stop.at_once.wait())
        await limits.end(5)
        return 0
    finally:
        for children in (workers, limits):
            children.kill()
            await children.end(1)
        admin.close()
        layout.remove()


async def _unless_stopped(start: Coroutine[Any, Any, None], stop: _Stop) -> bool:
    """Runs `start` unless a signal comes first. Returns whether it was completed; its errors pass through."""
    starting = asyncio.ensure_future(start)
    asked = asyncio.ensure_future(stop.asked.wait())
    await asyncio.wait([starting, asked], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if not starting.done():
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        return False
    starting.result()
    return True


async def _race(*contestants: Coroutine[Any, Any, Any]) -> None:
    """Until the first has ended; the others are cancelled. An error of the first passes through."""
    tasks = [asyncio.ensure_future(one) for one in contestants]
    done, late = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    for task in done:
        task.result()


def _worker_count(config: Config) -> int:
    return processors() if config.workers == "auto" else config.workers


def _reachable(host: str) -> str:
    """How this machine reaches a listener on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def _say(text: str) -> None:
    print(f"extproc: {text}", file=sys.stderr, flush=True)
