"""`extproc up` and `extproc serve`: options -> a checked configuration, a runtime directory -> one run -> an exit code.

Ports, sockets and the Envoy binary are checked before anything runs. Then `gateway` (Envoy and the workers) or
`serving` (the workers alone) runs until a signal ends it. Errors are reported in words, never as a traceback. This
module starts no process itself and leaves no file behind.
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
from extproc.envoy_config.layout import DEFAULT_LIMITS_ADDRESS, RuntimeLayout
from extproc.gateway import console
from extproc.gateway.addresses import check_socket_path, resolve_port, with_listen_address
from extproc.gateway.admin import admin_address
from extproc.gateway.child_processes import StartError
from extproc.gateway.config_file import FileWatch
from extproc.gateway.envoy import Envoy
from extproc.gateway.gateway import Gateway
from extproc.gateway.ratelimit_process import RateLimitProcess
from extproc.gateway.serving import Serving
from extproc.gateway.signals import OperatorSignals
from extproc.gateway.workers import Command, processors, worker_command
from extproc.process.output import flush


def run_up(config_path: Path | None, port: int | None, *, env: Mapping[str, str] | None = None,
           command: Command | None = None) -> int:
    """Runs the whole gateway in the foreground. Returns the exit code: 0 after a drain, 1 after a failure.

    `port` overrides the configuration's (0: any free one). `command` runs a worker; tests supply their own.
    """
    env = os.environ if env is None else env
    return _run(lambda stop: _up(config_path, port, env, command, stop))


def run_serve(config_path: Path | None, listen: Sequence[str], *, env: Mapping[str, str] | None = None,
              command: Command | None = None, limits: str = DEFAULT_LIMITS_ADDRESS) -> int:
    """Runs the workers alone, one on each address of `listen` (`unix:/path` or `host:port`), for an Envoy that runs
    elsewhere. The rate limit process listens on `limits` if teams have limits. Returns the exit code."""
    env = os.environ if env is None else env
    return _run(lambda stop: _serve(config_path, listen, limits, env, command, stop))


def _run(main: Callable[[OperatorSignals], Coroutine[Any, Any, int]]) -> int:
    async def guarded() -> int:
        stop = OperatorSignals()
        stop.install()
        return await main(stop)

    lines = console.LibraryLines()
    logging.getLogger().addHandler(lines)  # else Python writes them itself and blocks while standard error stalls
    try:
        return asyncio.run(guarded())
    except ConfigError as error:
        for path, reason in error.problems:
            console.print_error(f"{path}: {reason}")
    except StartError as error:
        console.report(str(error))
    except OSError as error:
        console.report(f"cannot run: {error}")
    finally:
        logging.getLogger().removeHandler(lines)
        flush()
    return 1


async def _up(config_path: Path | None, port: int | None, env: Mapping[str, str], command: Command | None,
              stop: OperatorSignals) -> int:
    # First, so that no change is missed while the gateway starts.
    watch = None if config_path is None else FileWatch(config_path)
    config = with_listen_address(load_config(config_path, env), port, None)
    Envoy.find_binary()
    _check_certificates(config)
    admin = admin_address(config)
    layout = _runtime_directory(processors() if config.workers == "auto" else config.workers)
    try:
        gateway = Gateway(config, layout, env, command or worker_command(layout.accepted), stop)
        return await gateway.run(admin, watch, port)
    finally:
        layout.remove()


async def _serve(config_path: Path | None, listen: Sequence[str], limits_at: str, env: Mapping[str, str],
                 command: Command | None, stop: OperatorSignals) -> int:
    watch = None if config_path is None else FileWatch(config_path)
    config = load_config(config_path, env)
    if any(backend.is_demo for backend in config.backends.values()):
        raise StartError("serve needs a configuration file: the built-in demo runs only under extproc up")
    addresses, limits_at = [_address(given) for given in listen], _address(limits_at)
    for address in [*addresses, *([limits_at] if RateLimitProcess.is_needed(config) else [])]:
        _check_usable(address)
    admin = admin_address(config)
    layout = _runtime_directory(0)
    try:
        serving = Serving(config, layout, addresses, limits_at, env, command or worker_command(layout.accepted), stop)
        return await serving.run(admin, watch, lambda: load_config(config_path, env))
    finally:
        layout.remove()


def _address(given: str) -> str:
    """A bare path is a Unix socket's."""
    return f"unix:{given}" if given.startswith("/") else given


def _check_usable(address: str) -> None:
    """Raises StartError for an address on which no process could listen."""
    if address.startswith("unix:"):
        check_socket_path(address.removeprefix("unix:"))
    else:
        resolve_port(*parse_address(address))


def _check_certificates(config: Config) -> None:
    """Raises StartError with Envoy's words for certificate files that it will refuse: it would start and serve nobody.
    """
    if config.tls is None and not any(backend.ca for backend in config.backends.values()):
        return
    if complaints := envoy_config.validate_with_envoy(
            envoy_config.static_bootstrap(config, with_secrets=False, sockets=["127.0.0.1:1"])):
        raise StartError("Envoy refuses the configuration: " + "; ".join(complaints))


def _runtime_directory(workers: int) -> RuntimeLayout:
    try:
        return RuntimeLayout.create(workers)
    except OSError as error:
        raise StartError("cannot make a directory for sockets and other short-lived files (see TMPDIR): "
                         f"{error}") from None
