"""The command line: reads options, calls the part of the program that does the work, and reports problems in words.

Commands stand in modules by what they do: `running`, `configuring`, `translating`. What a command needs is imported
inside it, because most of the program is not needed by most commands and starting must be quick.
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
from extproc.cli.options import DEFAULT_ADMIN, DEFAULT_LIMITS, DEFAULT_PROCESSOR

if TYPE_CHECKING:
    from io import TextIOWrapper

__all__ = ["DEFAULT_ADMIN", "DEFAULT_LIMITS", "DEFAULT_PROCESSOR", "app", "main"]

app = typer.Typer(name="extproc", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
                  help="Lets any LLM client talk to any LLM provider, through Envoy.")
translate_app = typer.Typer(no_args_is_help=True,
                            help="The gateway's translation on standard input and output, without a gateway.")
app.add_typer(translate_app, name="translate")


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


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"extproc {extproc.__version__}")
        raise typer.Exit


@app.callback()
def _options(version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version,
                                                   is_eager=True)] = False) -> None:
    """Options before any command."""


# In the order in which the help lists them; hidden ones it leaves out.
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
