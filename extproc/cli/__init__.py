"""The command line: reads options, calls the part of the program that does the work, and reports problems in words.

Commands that run something are in `running`, those that check or print a configuration in `configuring`, those that
translate without a gateway in `translating`. A command imports what it needs inside its function, because most commands
need little of the program and must start quickly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, cast

import typer

import extproc
from extproc.cli import configuring, running, translating
from extproc.cli.shared import DEFAULT_ADMIN, DEFAULT_PROCESSOR

if TYPE_CHECKING:
    from io import TextIOWrapper

__all__ = ["DEFAULT_ADMIN", "DEFAULT_PROCESSOR", "app", "main"]

app = typer.Typer(name="extproc", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
                  help="Lets any LLM client talk to any LLM provider, through Envoy.")
translate_app = typer.Typer(no_args_is_help=True,
                            help="The gateway's translation on standard input and output, without a gateway.")
app.add_typer(translate_app, name="translate")


def main() -> None:
    """The entry point of the command `extproc`."""
    for stream in (sys.stdout, sys.stderr):
        # A name may contain characters that the terminal or the log cannot show.
        cast("TextIOWrapper", stream).reconfigure(errors="backslashreplace")
    with _quiet_end():
        app()


@contextmanager
def _quiet_end() -> Iterator[None]:
    """Ctrl-C and a closed pipe end the program without a message."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The interpreter would report the same error again when it flushes standard output at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"extproc {extproc.__version__}")
        raise typer.Exit


@app.callback()
def _options(version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_print_version,
                                                   is_eager=True)] = False) -> None:
    """Options before any command."""


# In the order of the help, which omits hidden ones.
app.command()(running.up)
app.command()(running.serve)
app.command("limits")(running.limits_service)
app.command()(running.ready)
app.command()(running.drain)
app.command(hidden=True)(running.demo)
app.command("envoy-config")(configuring.envoy_config)
app.command("limits-config")(configuring.limits_config)
app.command()(configuring.check)
translate_app.command("request")(translating.translate_request)
translate_app.command("response")(translating.translate_response)
