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
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from extproc.bootstrap import RuntimeLayout, build
from extproc.config import Config, ConfigError, load_config, parse_address
from extproc.config.checks import key_file_warnings
from extproc.up import show
from extproc.up.addresses import show as show_address
from extproc.up.addresses import usable_port, usable_socket
from extproc.up.admin import AdminServer, admin_address, shared_metrics
from extproc.up.children import Child, StartError
from extproc.up.envoy import Envoy
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
    return _run(lambda stop: _up(config_path, port, env, command or worker_command(config_path), stop))


def run_serve(config_path: Path | None, listen: Sequence[str], *, env: Mapping[str, str] | None = None,
              command: Command | None = None) -> int:
    """Runs the workers alone, one on each address of `listen` (`unix:/path` or `host:port`), for an Envoy that runs
    elsewhere. Returns the exit code."""
    env = os.environ if env is None else env
    return _run(lambda stop: _serve(config_path, listen, env, command or worker_command(config_path), stop))


class _Stop:
    """What signals ask for: the first a drain, the second an end at once."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.at_once = asyncio.Event()

    def on_signal(self) -> None:
        (self.at_once if self.asked.is_set() else self.asked).set()


def _run(main: Callable[[_Stop], Coroutine[Any, Any, int]]) -> int:
    async def guarded() -> int:
        stop = _Stop()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.on_signal)
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


async def _up(config_path: Path | None, port: int | None, env: Mapping[str, str], command: Command,
              stop: _Stop) -> int:
    config = load_config(config_path, env)
    host, chosen = parse_address(config.listen)
    chosen = usable_port(host, chosen if port is None else port)
    config = msgspec.structs.replace(config, listen=show_address(host, chosen))
    Envoy.binary()
    admin = admin_address(config)
    layout = _layout(_worker_count(config))
    try:
        return await _Gateway(config, layout, env, command, stop).run(admin)
    finally:
        layout.remove()


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

    async def run(self, admin: tuple[str, int]) -> int:
        server = AdminServer(admin, partial(shared_metrics, self._layout.metrics))
        try:
            if not await _unless_stopped(self._start(), self._stop):
                return 0
            self._announce(server.port)
            server.ready = True
            code = await self._until_stopped()
            server.ready = False
            if code == 0:
                _say("stopping; running answers are finished first, a second signal ends them")
                await _race(self._drain(), self._stop.at_once.wait())
            return code
        finally:
            await self._kill()
            server.close()

    async def _start(self) -> None:
        await self._start_demo()
        self._workers = Workers(self._layout.sockets, self._command, env=self._env, metrics=self._layout.metrics,
                                on_line=self._lines, say=_say)
        await self._workers.start()
        build(self._config, self._layout).write()
        self._envoy = await Envoy.start(self._layout, self._env)
        host, port = parse_address(self._config.listen)
        await self._envoy.serve(_reachable(host), port, len(self._layout.sockets))

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
        url = f"http://{show_address(_reachable(host), port)}"
        show.served(self._config, url, self._env)
        admin = show_address(parse_address(self._config.admin)[0], admin_port)
        show.note(f"metrics and health: http://{admin}/metrics /healthz /readyz")
        for problem in self._envoy.unresolved(self._config) if self._envoy else ():
            _say(f"warning: {problem}")
        for path, reason in key_file_warnings(self._config):
            _say(f"warning: {path}: {reason}")
        print(f"extproc: ready on {url}", flush=True)
        self._lines.heading()

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

    async def _kill(self) -> None:
        """Whatever still runs, in any state of a start or an end."""
        if self._envoy is not None:
            self._envoy.kill()
        if self._workers is not None:
            self._workers.kill()
            await self._workers.end(1)
        if self._demo is not None:
            self._demo.send(signal.SIGKILL)
            await self._demo.wait()
        if self._envoy is not None:
            await self._envoy.wait()


async def _serve(config_path: Path | None, listen: Sequence[str], env: Mapping[str, str], command: Command,
                 stop: _Stop) -> int:
    config = load_config(config_path, env)
    if any(backend.is_demo for backend in config.backends.values()):
        raise StartError("serve needs a configuration file: the built-in demo runs only under extproc up")
    for address in listen:
        if address.startswith(("unix:", "/")):
            usable_socket(address.removeprefix("unix:"))
        else:
            usable_port(*parse_address(address))
    where = admin_address(config)
    layout = _layout(0)
    admin = AdminServer(where, partial(shared_metrics, layout.metrics))
    addresses = [f"unix:{address}" if address.startswith("/") else address for address in listen]
    workers = Workers(addresses, command, env=env, metrics=layout.metrics, on_line=show.RequestLines(), say=_say)
    try:
        if not await _unless_stopped(workers.start(), stop):
            return 0
        admin.ready = True
        for path, reason in key_file_warnings(config):
            _say(f"warning: {path}: {reason}; where Envoy reads it elsewhere, texts of providers may quote the key")
        print(f"extproc: processor ready on {', '.join(addresses)}", flush=True)
        await stop.asked.wait()
        admin.ready = False
        _say("stopping; running answers are finished first, a second signal ends them")
        await _race(workers.end(config.timeouts.drain), stop.at_once.wait())
        return 0
    finally:
        workers.kill()
        await workers.end(1)
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
