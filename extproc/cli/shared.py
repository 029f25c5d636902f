"""What several commands share: default addresses, the option for the configuration file, and error reports.

An error becomes words on standard error and an exit code, never a traceback. Problems of the configuration are printed
one a line as `path: reason`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

DEFAULT_PROCESSOR = "127.0.0.1:50051"
"""Where `serve` listens and `envoy-config` expects it."""
DEFAULT_ADMIN = "127.0.0.1:9902"
"""The admin port of `up` and `serve`."""

ConfigOption = Annotated[Path, typer.Option("--config", help="The configuration file (YAML or JSON).",
                                            show_default=False)]


def fail(reason: str) -> NoReturn:
    """Ends the command with one line on standard error and exit code 1."""
    typer.echo(reason, err=True)
    raise typer.Exit(1)


@contextmanager
def exit_on_problems() -> Iterator[None]:
    """Prints every problem of a configuration and exits with code 1. Ctrl-C exits at once."""
    from extproc.config import ConfigError

    try:
        yield
    except ConfigError as error:
        for path, reason in error.problems:
            typer.echo(f"{path}: {reason}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
