"""The command line: reads options, calls the part of the program that does the work, and reports problems in words.

What a command needs is imported inside it, because most of the program is not needed by most commands and starting
must be quick. Problems of the configuration are printed one a line as `path: reason`, never as a traceback.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

import typer

import extproc

if TYPE_CHECKING:
    from io import BufferedReader, TextIOWrapper

    from extproc.config import Config
    from extproc.translation import Translation

DEFAULT_PROCESSOR = "127.0.0.1:50051"
"""Where `serve` listens and `envoy-config` looks for it, when nothing else is said."""
DEFAULT_LIMITS = "127.0.0.1:50052"
"""Where the process that counts listens and `envoy-config` looks for it, when nothing else is said."""
DEFAULT_ADMIN = "127.0.0.1:9902"
"""Where `up` and `serve` have their admin port, when nothing else is said."""

app = typer.Typer(name="extproc", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
                  help="Lets any LLM client talk to any LLM provider, through Envoy.")
translate_app = typer.Typer(no_args_is_help=True,
                            help="The gateway's translation on standard input and output, without a gateway.")
app.add_typer(translate_app, name="translate")

ConfigOption = Annotated[Path, typer.Option("--config", help="The configuration file (YAML or JSON).",
                                            show_default=False)]
OptionalConfig = Annotated[Path | None, typer.Option(
    "--config", show_default=False,
    help="The configuration file (YAML or JSON). Without one: the model `demo`, which works offline, and "
         "`<provider>/*` for each provider whose usual environment key is set.")]
ClientOption = Annotated[str, typer.Option("--client", help="The API that the client speaks.", show_default=False)]
UpstreamOption = Annotated[str, typer.Option("--upstream", help="The API that the provider speaks.",
                                             show_default=False)]
ModelOption = Annotated[str | None, typer.Option(
    "--model", help="The provider's name of the model; the client's own when left out.", show_default=False)]


def main() -> None:
    """The entry point of the command `extproc`."""
    for stream in (sys.stdout, sys.stderr):
        # Names may hold any character; a terminal or a log that cannot show one is no reason to fail.
        cast("TextIOWrapper", stream).reconfigure(errors="backslashreplace")
    with _quietly():
        app()


@contextmanager
def _quietly() -> Iterator[None]:
    """Ctrl-C and a closed pipe end the program without a word."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The interpreter would complain once more when it flushes standard output at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


@contextmanager
def _problems_printed() -> Iterator[None]:
    """Prints what is wrong with a configuration, all of it, and exits 1. Ctrl-C exits at once."""
    from extproc.config import ConfigError

    try:
        yield
    except ConfigError as error:
        for path, reason in error.problems:
            typer.echo(f"{path}: {reason}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _load(path: Path | None) -> Config:
    from extproc.config import load_config

    with _problems_printed():
        return load_config(path, os.environ)
    raise AssertionError("unreachable")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"extproc {extproc.__version__}")
        raise typer.Exit


@app.callback()
def _options(version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version,
                                                   is_eager=True)] = False) -> None:
    """Options before any command."""


# ----------------------------------------------------------------------------------------------------------- gateway


@app.command()
def up(config: OptionalConfig = None,
       port: Annotated[int | None, typer.Option("--port", min=0, max=65535, show_default=False,
                                                help="Listen on this port instead of the configured one.")] = None,
       ) -> None:
    """Run Envoy and the workers in the foreground until Ctrl-C or SIGTERM."""
    from extproc.up import run_up

    _check_transport()
    with _problems_printed():
        code = run_up(config, port, env=os.environ)
    raise typer.Exit(code)


@app.command()
def serve(config: ConfigOption,
          listen: Annotated[list[str] | None, typer.Option(
              "--listen", show_default=False,
              help=f"HOST:PORT or unix:/path of one worker; repeat it for more. Default: {DEFAULT_PROCESSOR}")] = None,
          limits: Annotated[str, typer.Option(
              "--limits", help="HOST:PORT or unix:/path of the process that counts, where teams have limits and no "
                               "limits_service.address is configured.")] = DEFAULT_LIMITS,
          ) -> None:
    """Run the workers alone, for an Envoy that runs elsewhere."""
    from extproc.up import run_serve

    _check_transport()
    with _problems_printed():
        code = run_serve(config, listen or [DEFAULT_PROCESSOR], limits=limits)
    raise typer.Exit(code)


@app.command("limits")
def limits_service(config: Annotated[Path | None, typer.Option(
                       "--config", help="The configuration file (YAML or JSON).", show_default=False)] = None,
                   listen: Annotated[str, typer.Option("--listen", help="HOST:PORT or unix:/path.")] = DEFAULT_LIMITS,
                   counters: Annotated[Path | None, typer.Option(
                       "--counters", show_default=False,
                       help="A file that keeps the counters over a restart; limits_service.counters comes first.",
                   )] = None,
                   metrics: Annotated[int | None, typer.Option(
                       "--metrics", min=1, max=65535, show_default=False,
                       help="Serve Prometheus metrics on this port of the loopback interface.")] = None,
                   accepted: Annotated[Path | None, typer.Option("--accepted", hidden=True)] = None,
                   after: Annotated[str, typer.Option("--after", hidden=True)] = "") -> None:
    """Count what teams use, for gateways that name this address as limits_service.address (others count themselves)."""
    from extproc.config import load_config
    from extproc.limiting.metrics import LimitMetrics
    from extproc.limiting.process import run_limits
    from extproc.server.generations import Accepted

    source = accepted or config
    if source is None:
        _fail("--config is missing")
    observer = LimitMetrics()
    if metrics is not None:
        from prometheus_client import start_http_server

        start_http_server(metrics, "127.0.0.1", observer.registry)
    with _problems_printed():
        code = run_limits((lambda: load_config(source, os.environ)) if accepted is None
                          else lambda: Accepted.read(source)[0].serving.config,
                          source, listen, counters=counters, observer=observer, after=after)
    raise typer.Exit(code)


@app.command()
def ready(admin: Annotated[str, typer.Option("--admin", help="HOST:PORT where /readyz is served.")] = DEFAULT_ADMIN,
          ) -> None:
    """Ask a running gateway or processor whether it serves: exit code 0 when it does (for health checks)."""
    import http.client

    host, _, port = admin.rpartition(":")
    try:
        connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=3)
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        said = answer.read(10_000)
    except (OSError, http.client.HTTPException, ValueError) as error:
        _fail(f"{admin}: {error}")
    if answer.status != 200:
        try:
            _fail("; ".join(json.loads(said)["missing"]))
        except (ValueError, KeyError, TypeError):
            _fail(f"{admin} answers {answer.status} to /readyz")
    typer.echo("ready")


@app.command()
def drain(admin: Annotated[str, typer.Option("--admin", help="HOST:PORT or unix:/path of Envoy's admin endpoint.")],
          patience: Annotated[float, typer.Option("--patience", min=0,
                                                  help="Seconds that running answers may take.")] = 600,
          settle: Annotated[float, typer.Option("--settle", min=0,
                                                help="Seconds for which it goes on taking requests first, until load "
                                                     "balancers have noticed that it goes.")] = 0) -> None:
    """Let an Envoy that runs elsewhere finish: it takes no further requests, and this returns when the last has
    ended."""
    import asyncio
    import time

    from extproc.up.envoy_admin import EnvoyAdmin

    time.sleep(settle)
    try:
        ended = asyncio.run(EnvoyAdmin(admin).drain(patience))
    except ValueError as error:
        _fail(f"--admin: {error}")
    if not ended:
        _fail(f"some answers were still running after {patience:g} s")


@app.command(hidden=True)
def worker(listen: Annotated[str, typer.Option("--listen")], config: OptionalConfig = None,
           accepted: Annotated[Path | None, typer.Option("--accepted")] = None) -> None:
    """Run one worker process (started by `up` and `serve`, which say in a file what they accepted)."""
    from extproc.server.generations import Accepted
    from extproc.server.worker import run_worker

    loaded = _load(config) if accepted is None else Accepted.read(accepted)[0].serving.config
    with _problems_printed():
        code = run_worker(loaded, listen, accepted=accepted)
    raise typer.Exit(code)


@app.command(hidden=True)
def demo(listen: Annotated[str, typer.Option("--listen")] = "127.0.0.1:0") -> None:
    """Run the scripted demo provider alone. It serves HOST:PORT/v1 in OpenAI's format."""
    from extproc.config import parse_address
    from extproc.demo import run_demo

    try:
        host, port = parse_address(listen)
    except ValueError as error:
        _fail(f"--listen: {error}")
    run_demo(host, port)


def _check_transport() -> None:
    """The workers would find it out one by one."""
    from extproc.server.transports import chosen_transport

    try:
        chosen_transport()
    except ValueError as error:
        _fail(str(error))


def _fail(reason: str) -> NoReturn:
    typer.echo(reason, err=True)
    raise typer.Exit(1)


# ----------------------------------------------------------------------------------------------------- configuration


@app.command("envoy-config")
def envoy_config(config: ConfigOption,
                 with_secrets: Annotated[bool, typer.Option(
                     "--with-secrets", help="Print the keys themselves instead of placeholders.")] = False,
                 processor: Annotated[list[str] | None, typer.Option(
                     "--processor", show_default=False,
                     help=f"HOST:PORT or unix:/path of a worker; repeat it for more. Default: {DEFAULT_PROCESSOR}",
                 )] = None,
                 admin: Annotated[str | None, typer.Option(
                     "--admin", show_default=False,
                     help="HOST:PORT or unix:/path of Envoy's own admin endpoint, which `drain` needs. Default: none",
                 )] = None,
                 limits: Annotated[str, typer.Option(
                     "--limits", help="HOST:PORT or unix:/path of the process that counts, where teams have limits and "
                                      "no limits_service.address is configured.")] = DEFAULT_LIMITS,
                 output: Annotated[Path | None, typer.Option(
                     "--output", show_default=False,
                     help="Write into this file, which only its owner can read, instead of standard output.",
                 )] = None) -> None:
    """Print Envoy's bootstrap (JSON, which Envoy reads as YAML too)."""
    loaded = _load(config)
    from extproc.bootstrap import static_bootstrap
    from extproc.private_files import write_private

    try:
        made = static_bootstrap(loaded, with_secrets=with_secrets, sockets=processor or [DEFAULT_PROCESSOR],
                                admin=admin, limits=limits)
    except ValueError as error:
        _fail(str(error))
    if output is None:
        typer.echo(json.dumps(made, indent=2))
        return
    try:
        write_private(output, json.dumps(made, indent=2))
    except OSError as error:
        _fail(f"{output}: cannot be written: {error.strerror}")


@app.command("limits-config")
def limits_config(config: ConfigOption) -> None:
    """Print the limits of teams as a configuration of envoyproxy/ratelimit, for gateways that share one service."""
    loaded = _load(config)
    from extproc.limiting.fleet import fleet_config, left_out

    for key in left_out(loaded):
        typer.echo(f"note: {key.kind} of team {key.team} is left out: that service cannot count it", err=True)
    typer.echo(fleet_config(loaded), nl=False)


@app.command()
def check(config: ConfigOption, against: Annotated[Path | None, typer.Option(
        "--against", show_default=False,
        help="An Envoy configuration made earlier (extproc envoy-config): does it still fit?")] = None) -> None:
    """Check a configuration: every error at its path (exit code 1), unsafe settings as warnings, then Envoy's word."""
    from extproc.config import ConfigError, load_config

    try:
        loaded = load_config(config, os.environ)
    except ConfigError as error:
        for path, reason in error.problems:
            typer.echo(f"{path}: {reason}")
        raise typer.Exit(1) from None
    for path, reason in loaded.warnings():
        typer.echo(f"warning: {path}: {reason}")
    if against is not None:
        _compare(loaded, against)
    asked = _ask_envoy(loaded)
    parts = ((len(loaded.models), "model rule"), (len(loaded.backends), "backend"), (len(loaded.teams), "team"))
    counts = ", ".join(f"{number} {name}{'' if number == 1 else 's'}" for number, name in parts)
    typer.echo(f"{config}: fine ({counts}; {'Envoy takes it' if asked else 'Envoy was not asked'})")


def _compare(config: Config, against: Path) -> None:
    """Prints what an Envoy configuration does not share with this one, with exit code 1."""
    from extproc.bootstrap.against import differences

    try:
        found = differences(config, against.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        _fail(f"{against}: {error}")
    for path, reason in found:
        typer.echo(f"{path}: {reason}")
    if found:
        typer.echo(f"{against}: does not fit; make it anew with extproc envoy-config")
        raise typer.Exit(1)


def _ask_envoy(config: Config) -> bool:
    """Whether there was an Envoy to ask. What it says against the configuration is printed, with exit code 1."""
    from extproc.bootstrap import find_envoy, static_bootstrap, validate_with_envoy

    if find_envoy() is None:
        return False
    complaints = validate_with_envoy(static_bootstrap(config, with_secrets=False, sockets=[DEFAULT_PROCESSOR]))
    for complaint in complaints:
        typer.echo(f"envoy: {complaint}")
    if complaints:
        raise typer.Exit(1)
    return True


# ------------------------------------------------------------------------------------------------------- translation


@translate_app.command("request")
def translate_request(client: ClientOption, upstream: UpstreamOption, model: ModelOption = None,
                      request: Annotated[Path | None, typer.Option(
                          "--request", help="Read the client's request from this file.", show_default=False)] = None,
                      ) -> None:
    """The client's request on standard input -> the provider's on standard output.

    A request that cannot be served gives the client's error body instead, and exit code 1."""
    body = _read(request) if request is not None else sys.stdin.buffer.read()
    translation, provider_body = _translation(client, upstream, model, body)
    dropped = [*translation.dropped.losses, *translation.dropped.hints]
    if dropped:
        typer.echo(f"dropped: {', '.join(dropped)}", err=True)
    _write(provider_body)


@translate_app.command("response")
def translate_response(client: ClientOption, upstream: UpstreamOption, model: ModelOption = None,
                       request: Annotated[Path | None, typer.Option(
                           "--request", help="The client's request that this answers.", show_default=False)] = None,
                       ) -> None:
    """The provider's answer on standard input (a stream or JSON) -> the client's on standard output.

    Needs the client's request, because an answer depends on it: its tools, its ids, whether it streams."""
    if request is None:
        _fail("--request: name the file with the client's request that this answers")
    translation, _ = _translation(client, upstream, model, _read(request))
    answer = cast("BufferedReader", sys.stdin.buffer)
    first = answer.read1(65536)
    translation.start(200, {"content-type": _content_type(first)})
    while first:
        _write(translation.feed(first))
        first = answer.read1(65536)
    _write(translation.finish())
    if translation.failure is not None:
        _fail(translation.failure.message)


def _translation(client: str, upstream: str, model: str | None, body: bytes) -> tuple[Translation, bytes]:
    """(the translation, the provider's request body); exits with the client's error body when there is none."""
    from extproc import RequestError, Translation

    try:
        translation = Translation(client, upstream, model or _model_of(body))
    except ValueError as error:
        _fail(str(error))
    try:
        return translation, translation.request(body, {"content-type": "application/json"}).body
    except RequestError as error:
        _write(error.body + b"\n")
        _fail(str(error))


def _model_of(body: bytes) -> str:
    """The model that the request names; "" where it cannot be read, which the translation then reports."""
    try:
        request: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    name = request.get("model") if isinstance(request, dict) else None
    return name if isinstance(name, str) else ""


def _content_type(first: bytes) -> str:
    return "application/json" if first.lstrip()[:1] in (b"{", b"[") else "text/event-stream"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        _fail(f"{path}: cannot be read: {error.strerror}")


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
