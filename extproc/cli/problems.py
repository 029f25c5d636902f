"""What is wrong -> words on standard error and an exit code, never a traceback.

Problems of the configuration are printed one a line as `path: reason`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from extproc.config import Config


def fail(reason: str) -> NoReturn:
    """Ends the command with one line on standard error and exit code 1."""
    typer.echo(reason, err=True)
    raise typer.Exit(1)


@contextmanager
def problems_printed() -> Iterator[None]:
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


def load(path: Path | None) -> Config:
    """The configuration; what is wrong with it ends the command."""
    from extproc.config import load_config

    with problems_printed():
        return load_config(path, os.environ)
    raise AssertionError("unreachable")
