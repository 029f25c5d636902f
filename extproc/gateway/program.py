"""`extproc up` and `extproc serve`: options -> a checked configuration, a runtime directory -> one run -> an exit code.

Ports, sockets and the Envoy binary are checked before anything runs; then `gateway` (Envoy and the workers) or
`serving` (the workers alone) runs until a signal ends it. Whatever was wrong is told here, in words, never as a
traceback. It starts no process itself and leaves no file behind.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from extproc import envoy_config
from extproc.config import Config, ConfigError, load_config, parse_address
from extproc.envoy_config.layout import LIMITS_ADDRESS, RuntimeLayout
from extproc.gateway import console
from extproc.gateway.addresses import listening, usable_port, usable_socket
from extproc.gateway.admin import admin_address
from extproc.gateway.child_processes import StartError
from extproc.gateway.envoy import Envoy
from extproc.gateway.gateway import Gateway
from extproc.gateway.ratelimit_process import Limits
from extproc.gateway.reload import Watch
from extproc.gateway.serving import Serving
from extproc.gateway.signals import Stop
from extproc.gateway.workers import Command, processors, worker_command
from extproc.process.output import flush


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


def _run(main: Callable[[Stop], Coroutine[Any, Any, int]]) -> int:
    async def guarded() -> int:
        stop = Stop()
        stop.heed()
        return await main(stop)

    lines = console.LibraryLines()
    logging.getLogger().addHandler(lines)  # else Python writes them itself, and waits where standard error stalls
    try:
        return asyncio.run(guarded())
    except ConfigError as error:
        for path, reason in error.problems:
            console.complain(f"{path}: {reason}")
    except StartError as error:
        console.say(str(error))
    except OSError as error:
        console.say(f"cannot run: {error}")
    finally:
        logging.getLogger().removeHandler(lines)
        flush()
    return 1


async def _up(config_path: Path | None, port: int | None, env: Mapping[str, str], command: Command | None,
              stop: Stop) -> int:
    watch = None if config_path is None else Watch(config_path)  # first: nothing is missed while the gateway starts
    config = listening(load_config(config_path, env), port, None)
    Envoy.binary()
    _check_certificates(config)
    admin = admin_address(config)
    layout = _runtime_directory(processors() if config.workers == "auto" else config.workers)
    try:
        gateway = Gateway(config, layout, env, command or worker_command(layout.accepted), stop)
        return await gateway.run(admin, watch, port)
    finally:
        layout.remove()


async def _serve(config_path: Path | None, listen: Sequence[str], limits_at: str, env: Mapping[str, str],
                 command: Command | None, stop: Stop) -> int:
    watch = None if config_path is None else Watch(config_path)
    config = load_config(config_path, env)
    if any(backend.is_demo for backend in config.backends.values()):
        raise StartError("serve needs a configuration file: the built-in demo runs only under extproc up")
    addresses, limits_at = [_address(given) for given in listen], _address(limits_at)
    for address in [*addresses, *([limits_at] if Limits.needed(config) else [])]:
        _check_usable(address)
    admin = admin_address(config)
    layout = _runtime_directory(0)
    try:
        serving = Serving(config, layout, addresses, limits_at, env, command or worker_command(layout.accepted), stop)
        return await serving.run(admin, watch, lambda: load_config(config_path, env))
    finally:
        layout.remove()


def _address(given: str) -> str:
    """A path alone is a Unix socket's."""
    return f"unix:{given}" if given.startswith("/") else given


def _check_usable(address: str) -> None:
    """Raises StartError for an address that nobody could listen on."""
    if address.startswith("unix:"):
        usable_socket(address.removeprefix("unix:"))
    else:
        usable_port(*parse_address(address))


def _check_certificates(config: Config) -> None:
    """Raises StartError with Envoy's words for a file of certificates that it will not take: it would start and answer
    nobody."""
    if config.tls is None and not any(backend.ca for backend in config.backends.values()):
        return
    if said := envoy_config.validate_with_envoy(
            envoy_config.static_bootstrap(config, with_secrets=False, sockets=["127.0.0.1:1"])):
        raise StartError("Envoy refuses the configuration: " + "; ".join(said))


def _runtime_directory(workers: int) -> RuntimeLayout:
    try:
        return RuntimeLayout.create(workers)
    except OSError as error:
        raise StartError(f"no place for sockets and other short-lived files (TMPDIR says where): {error}") from None
