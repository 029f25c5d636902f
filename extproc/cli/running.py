"""Commands that run until they are stopped (`up`, `serve`, `limits`, and the hidden `demo`, which `up` starts), and
commands for something that runs elsewhere (`ready`, `drain`).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from extproc.cli.shared import DEFAULT_ADMIN, DEFAULT_PROCESSOR, ConfigOption, exit_on_problems, fail
from extproc.envoy_config.layout import DEFAULT_LIMITS_ADDRESS

OptionalConfig = Annotated[Path | None, typer.Option(
    "--config", show_default=False,
    help="The configuration file (YAML or JSON). Without one: the model `demo`, which works offline, and "
         "`<provider>/*` for each provider whose usual environment key is set.")]


def up(config: OptionalConfig = None,
       port: Annotated[int | None, typer.Option("--port", min=0, max=65535, show_default=False,
                                                help="Listen on this port instead of the configured one.")] = None,
       ) -> None:
    """Run Envoy and the workers in the foreground until Ctrl-C or SIGTERM."""
    from extproc.gateway import run_up

    _check_transport()
    with exit_on_problems():
        code = run_up(config, port, env=os.environ)
    raise typer.Exit(code)


def serve(config: ConfigOption,
          listen: Annotated[list[str] | None, typer.Option(
              "--listen", show_default=False,
              help=f"HOST:PORT or unix:/path of one worker; repeat it for more. Default: {DEFAULT_PROCESSOR}")] = None,
          limits: Annotated[str, typer.Option(
              "--limits", help="HOST:PORT or unix:/path of the process that counts, where teams have limits and no "
                               "limits_service.address is configured.")] = DEFAULT_LIMITS_ADDRESS,
          ) -> None:
    """Run the workers alone, for an Envoy that runs elsewhere."""
    from extproc.gateway import run_serve

    _check_transport()
    with exit_on_problems():
        code = run_serve(config, listen or [DEFAULT_PROCESSOR], limits=limits)
    raise typer.Exit(code)


def limits_service(config: Annotated[Path | None, typer.Option(
                       "--config", help="The configuration file (YAML or JSON).", show_default=False)] = None,
                   listen: Annotated[str, typer.Option(
                       "--listen", help="HOST:PORT or unix:/path.")] = DEFAULT_LIMITS_ADDRESS,
                   counters: Annotated[Path | None, typer.Option(
                       "--counters", show_default=False,
                       help="A file that keeps the counters over a restart; limits_service.counters comes first.",
                   )] = None,
                   metrics: Annotated[int | None, typer.Option(
                       "--metrics", min=1, max=65535, show_default=False,
                       help="Serve Prometheus metrics on this port of the loopback interface.")] = None,
                   accepted: Annotated[Path | None, typer.Option("--accepted", hidden=True)] = None) -> None:
    """Count what teams use, for gateways that name this address as limits_service.address (others count themselves)."""
    from extproc.config import load_config
    from extproc.process.reserved_files import reserve_files
    from extproc.ratelimit.metrics import LimitMetrics
    from extproc.ratelimit.server import run_rate_limit_server
    from extproc.worker.generations import Accepted

    source = accepted or config
    if source is None:
        fail("--config is missing")
    reserve_files()
    observer = LimitMetrics()
    if metrics is not None:
        from prometheus_client import start_http_server

        start_http_server(metrics, "127.0.0.1", observer.registry)
    with exit_on_problems():
        code = run_rate_limit_server((lambda: load_config(source, os.environ)) if accepted is None
                                     else lambda: Accepted.read(source)[0].serving.config,
                                     source, listen, counters=counters, observer=observer)
    raise typer.Exit(code)


_LONGEST_READINESS = 10_000
"""Bytes of a readiness report that are read."""


def ready(admin: Annotated[str, typer.Option("--admin", help="HOST:PORT where /readyz is served.")] = DEFAULT_ADMIN,
          ) -> None:
    """Ask a running gateway or processor whether it serves: exit code 0 when it does (for health checks)."""
    import http.client

    from extproc.endpoints import READY_PATH

    host, _, port = admin.rpartition(":")
    try:
        connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=3)
        connection.request("GET", READY_PATH)
        response = connection.getresponse()
        body = response.read(_LONGEST_READINESS)
    except (OSError, http.client.HTTPException, ValueError) as error:
        fail(f"{admin}: {error}")
    if response.status != 200:
        try:
            fail("; ".join(json.loads(body)["missing"]))
        except (ValueError, KeyError, TypeError):
            fail(f"{admin} answers {response.status} to {READY_PATH}")
    typer.echo("ready")


def drain(admin: Annotated[str, typer.Option("--admin", help="HOST:PORT or unix:/path of Envoy's admin endpoint.")],
          patience: Annotated[float, typer.Option("--patience", min=0,
                                                  help="Seconds that running responses may take.")] = 600,
          settle: Annotated[float, typer.Option("--settle", min=0,
                                                help="Seconds in which it still takes requests, until load balancers "
                                                     "have noticed that it stops.")] = 0) -> None:
    """Let an Envoy that runs elsewhere finish: it takes no further requests, and this returns when the last has
    ended."""
    import asyncio
    import time

    from extproc.gateway.envoy_admin import EnvoyAdmin

    time.sleep(settle)
    try:
        ended = asyncio.run(EnvoyAdmin(admin).drain(patience))
    except ValueError as error:
        fail(f"--admin: {error}")
    if not ended:
        fail(f"some responses were still running after {patience:g} s")


def demo(listen: Annotated[str, typer.Option("--listen")] = "127.0.0.1:0") -> None:
    """Run the scripted demo provider alone. It serves HOST:PORT/v1 in OpenAI's format."""
    from extproc.config import parse_address
    from extproc.demo import run_demo

    try:
        host, port = parse_address(listen)
    except ValueError as error:
        fail(f"--listen: {error}")
    run_demo(host, port)


def _check_transport() -> None:
    """Exits if EXTPROC_TRANSPORT is wrong. Otherwise each worker would fail on it."""
    from extproc.transport.servers import chosen_transport

    try:
        chosen_transport()
    except ValueError as error:
        fail(str(error))
