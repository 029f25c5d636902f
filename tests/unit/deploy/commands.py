"""What a container would run, put to the program's own command line without running it; its configuration, loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from extproc.cli import app
from extproc.config import Config, load_config, warnings_of

EXPECTED_WARNINGS = ("metrics and health are open", "until it holds a key", "does not exist", "cannot be read",
                     "no such file")
"""What `check` says of every configuration that runs in a container: its admin port is for the probes, and its key
files are there only in the cluster."""


def options(arguments: Sequence[str]) -> dict[str, Any]:
    """The options of a command line `[command, option, ...]`, as the command line reads them. Raises for what it would
    refuse."""
    name, *rest = arguments
    group: Any = typer.main.get_command(app)
    command = group.get_command(None, name)
    assert command is not None, f"there is no command {name}"
    context = command.make_context(name, list(rest))
    return dict(context.params)


def loaded(path: Path, env: Mapping[str, str]) -> Config:
    """The configuration, with no warning that could be avoided."""
    config = load_config(path, dict(env))
    said = [f"{where}: {reason}" for where, reason in warnings_of(config)
            if not any(known in reason for known in EXPECTED_WARNINGS)]
    assert said == []
    return config
