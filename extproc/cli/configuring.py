"""Commands that read a configuration and run nothing: `check` reports its problems, `envoy-config` and `limits-config`
print what other programs need of it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extproc.cli.shared import DEFAULT_PROCESSOR, ConfigOption, exit_on_problems, fail
from extproc.envoy_config.layout import DEFAULT_LIMITS_ADDRESS

if TYPE_CHECKING:
    from extproc.config import Config


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
                                      "no limits_service.address is configured.")] = DEFAULT_LIMITS_ADDRESS,
                 output: Annotated[Path | None, typer.Option(
                     "--output", show_default=False,
                     help="Write into this file, which only its owner can read, instead of standard output.",
                 )] = None) -> None:
    """Print Envoy's bootstrap (JSON, which Envoy reads as YAML too)."""
    loaded = _load(config)
    from extproc.envoy_config import static_bootstrap
    from extproc.process.private_files import write_private

    try:
        bootstrap = static_bootstrap(loaded, with_secrets=with_secrets, sockets=processor or [DEFAULT_PROCESSOR],
                                     admin=admin, limits=limits)
    except ValueError as error:
        fail(str(error))
    if output is None:
        typer.echo(json.dumps(bootstrap, indent=2))
        return
    try:
        write_private(output, json.dumps(bootstrap, indent=2))
    except OSError as error:
        fail(f"{output}: cannot be written: {error.strerror}")


def limits_config(config: ConfigOption) -> None:
    """Print the limits of teams as a configuration of envoyproxy/ratelimit, for gateways that share one service."""
    loaded = _load(config)
    from extproc.ratelimit.fleet import fleet_config, unsupported_limits

    for key in unsupported_limits(loaded):
        typer.echo(f"note: {key.kind} of team {key.team} is left out: that service cannot count it", err=True)
    typer.echo(fleet_config(loaded), nl=False)


def _load(path: Path) -> Config:
    """The configuration. Exits if it has problems."""
    from extproc.config import load_config

    with exit_on_problems():
        return load_config(path, os.environ)
    raise AssertionError("unreachable")


def check(config: ConfigOption, against: Annotated[Path | None, typer.Option(
        "--against", show_default=False,
        help="An Envoy configuration made earlier (extproc envoy-config): does it still fit?")] = None) -> None:
    """Check a configuration: every error at its path (exit code 1), unsafe settings as warnings, then Envoy's word."""
    from extproc.config import ConfigError, load_config, warnings_of

    try:
        loaded = load_config(config, os.environ)
    except ConfigError as error:
        for path, reason in error.problems:
            typer.echo(f"{path}: {reason}")
        raise typer.Exit(1) from None
    for path, reason in warnings_of(loaded):
        typer.echo(f"warning: {path}: {reason}")
    if against is not None:
        _compare(loaded, against)
    validated = _validate(loaded)
    parts = ((len(loaded.models), "model rule"), (len(loaded.backends), "backend"), (len(loaded.teams), "team"))
    counts = ", ".join(f"{number} {name}{'' if number == 1 else 's'}" for number, name in parts)
    typer.echo(f"{config}: fine ({counts}; {'Envoy takes it' if validated else 'Envoy was not asked'})")


def _compare(config: Config, against: Path) -> None:
    """Prints how an Envoy configuration differs from this one. Exits with code 1 if it does."""
    from extproc.envoy_config.config_diff import find_differences

    try:
        found = find_differences(config, against.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        fail(f"{against}: {error}")
    for path, reason in found:
        typer.echo(f"{path}: {reason}")
    if found:
        typer.echo(f"{against}: does not fit; make it anew with extproc envoy-config")
        raise typer.Exit(1)


def _validate(config: Config) -> bool:
    """True if there was an Envoy to ask. Prints its complaints; exits with code 1 if there are any."""
    from extproc.envoy_config import find_envoy, static_bootstrap, validate_with_envoy

    if find_envoy() is None:
        return False
    complaints = validate_with_envoy(static_bootstrap(config, with_secrets=False, sockets=[DEFAULT_PROCESSOR]))
    for complaint in complaints:
        typer.echo(f"envoy: {complaint}")
    if complaints:
        raise typer.Exit(1)
    return True
