"""The checks of a whole configuration: problems make it unusable, warnings name unsafe or pointless settings.

The loader calls `problems_of`, also for a configuration of which only a part could be converted. The other parts are
None and are skipped, because their problems are reported already. `warnings_of` gets a complete configuration. Each
topic's own checks are in its module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from extproc.config.backends import backend_problems, backend_warnings
from extproc.config.backends import key_file_warnings as backend_key_file_warnings
from extproc.config.configuration import Config
from extproc.config.models import rule_problems, rule_warnings, unreachable_warnings
from extproc.config.observability import tracing_problems, tracing_warnings
from extproc.config.prices import AnyPrice, price_problems, prices_problems
from extproc.config.teams import limit_problems, limit_warnings, team_problems, team_warnings
from extproc.config.tools import ToolSettings, tool_problems, tool_warnings
from extproc.config.values import (
    Problem,
    Problems,
    converted_entries,
    converted_members,
    file_path_problems,
    is_loopback,
    number_problems,
    parse_address,
    unreadable_reason,
)

# Names become Envoy cluster names, header values and parts of file names.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s?#@]+")


def problems_of(config: Config, builtin: bool = False) -> Problems:
    """Everything that makes the configuration unusable, as (path, reason)."""
    problems: Problems = []
    backends = config.backends or {}
    problems += _listening_problems(config)
    for name, backend in converted_members(backends):
        problems += [*_name_problems(f"backends.{name}", name),
                     *backend_problems(f"backends.{name}", backend, builtin)]
    if config.backends is not None and not backends:
        problems.append(("backends", "is empty: name at least one"))
    if config.models is not None and not config.models:
        problems.append(("models", "is empty: name at least one"))
    for index, rule in converted_entries(config.models):
        problems += rule_problems(f"models[{index}]", rule, backends)
    if config.one_hop is not None and config.backends is not None and config.one_hop not in backends:
        problems.append(("one_hop", f'no backend "{config.one_hop}"; known: {", ".join(sorted(backends)) or "none"}'))
    key_owners: dict[str, str] = {}
    for name, team in converted_members(config.teams):
        problems += [*_name_problems(f"teams.{name}", name), *team_problems(f"teams.{name}", team, key_owners)]
    problems += limit_problems(config.teams, config.team_limits, config.limits_service, config.models)
    problems += _number_problems(config)
    for path, tools in _tool_settings(config):
        problems += tool_problems(path, tools)
    problems += prices_problems("prices", config.prices)
    for path, price in _prices(config):
        problems += price_problems(path, price, config.prices.currency)
    if config.tls is not None:
        problems += file_path_problems("tls.certificate", config.tls.certificate)
        problems += file_path_problems("tls.key", config.tls.key)
    if config.tracing is not None:
        problems += tracing_problems("tracing", config.tracing)
    problems += [(f"cors[{index}]", f'"{origin}" is neither "*" nor an origin such as https://app.example')
                 for index, origin in converted_entries(config.cors) if origin != "*" and not _ORIGIN.fullmatch(origin)]
    return problems


def _listening_problems(config: Config) -> Iterator[Problem]:
    addresses = {}
    for key, value in (("listen", config.listen), ("admin", config.admin)):
        try:
            addresses[key] = parse_address(value)
        except ValueError as error:
            yield key, str(error)
    if "listen" in addresses and not config.teams and not config.open and not is_loopback(addresses["listen"][0]):
        yield "listen", (f'"{config.listen}" is open to other machines, and there are no teams to tell callers apart: '
                         "listen on 127.0.0.1, name teams, or say open: true")
    if addresses.get("listen") == addresses.get("admin", ()) and addresses["listen"][1] != 0:
        yield "admin", "is the same address as listen"


def _name_problems(path: str, name: str) -> Iterator[Problem]:
    if not _NAME.fullmatch(name):
        yield path, "the name may hold letters, digits, - _ and . only, begins with a letter or digit, at most 64"


def _number_problems(config: Config) -> Iterator[Problem]:
    if isinstance(config.workers, int) and config.workers < 1:
        yield "workers", 'must be at least 1, or "auto"'
    yield from number_problems("limits", config.limits)
    yield from number_problems("timeouts", config.timeouts)
    yield from number_problems("ejection", config.ejection)
    if config.timeouts.idle >= config.timeouts.per_try_idle:
        yield "timeouts.idle", "must be shorter than timeouts.per_try_idle, or Envoy cuts the response off first"
    if config.ejection.longest < config.ejection.time:
        yield "ejection.longest", "must not be shorter than ejection.time"


def _tool_settings(config: Config) -> Iterator[tuple[str, ToolSettings]]:
    """The tool settings at every place of the file, with their paths."""
    yield "tools", config.tools
    for name, backend in converted_members(config.backends):
        yield f"backends.{name}.tools", backend.tools
    for index, rule in converted_entries(config.models):
        for number, attempt in converted_entries(rule.attempts):
            yield f"models[{index}].attempts[{number}].tools", attempt.tools


def _prices(config: Config) -> Iterator[tuple[str, AnyPrice]]:
    """The prices at every place of the file, with their paths."""
    for name, backend in converted_members(config.backends):
        yield f"backends.{name}.price", backend.price
    for index, rule in converted_entries(config.models):
        yield f"models[{index}].price", rule.price
        for number, attempt in converted_entries(rule.attempts):
            yield f"models[{index}].attempts[{number}].price", attempt.price


def unpriced_attempts(config: Config) -> Problems:
    """The attempts whose cost cannot be known, as (path, reason)."""
    return [(f"models[{index}].attempts[{number}]", "has no price")
            for index, rule in enumerate(config.models) for number, attempt in enumerate(rule.attempts)
            if config.configured_price(rule, attempt) is None]


def warnings_of(config: Config) -> Problems:
    """All valid settings that are unsafe or probably a mistake, as (path, reason)."""
    warnings: Problems = [(path, f"{_secret_at(path)} is written in the file; ${{VARIABLE}} keeps it out")
                          for path in config.literal_key_paths]
    for name, backend in config.backends.items():
        warnings += backend_warnings(f"backends.{name}", backend)
    warnings += key_file_warnings(config)
    warnings += unreachable_warnings(config.models)
    for index, rule in enumerate(config.models):
        warnings += rule_warnings(f"models[{index}]", rule, config.timeouts.idle)
    warnings += _edge_warnings(config)
    for path, tools in _tool_settings(config):
        warnings += tool_warnings(path, tools)
    if config.tracing is not None:
        warnings += tracing_warnings("tracing", config.tracing)
    warnings += limit_warnings(config.teams, config.team_limits, config.limits_service)
    warnings += team_warnings(config.teams, config.models)
    if not config.teams and not is_loopback(parse_address(config.listen)[0]):
        warnings.append(("open", "anybody who can reach the listen address can use every model and key"))
    if not is_loopback(parse_address(config.admin)[0]):
        warnings.append(("admin", "metrics and health are open to anybody who can reach this address"))
    used = {attempt.backend for rule in config.models for attempt in rule.attempts}
    warnings += [(f"backends.{name}", "no model uses it") for name in config.backends if name not in used]
    return warnings


def key_file_warnings(config: Config) -> Problems:
    """The key files without a key, as (path, reason)."""
    return [warning for name, backend in config.backends.items()
            for warning in backend_key_file_warnings(f"backends.{name}", backend)]


def _secret_at(path: str) -> str:
    return "the password" if path.endswith(".proxy") else "the value" if path.startswith("tracing.") else "the key"


def _edge_warnings(config: Config) -> Iterator[Problem]:
    if config.tls is not None:
        for key, file in (("certificate", config.tls.certificate), ("key", config.tls.key)):
            if reason := unreadable_reason(file):
                yield f"tls.{key}", f"{reason}; until then no client can connect"
    if config.timeouts.first_token is not None and config.timeouts.first_token >= config.timeouts.idle:
        yield "timeouts.first_token", "has no effect: timeouts.idle ends the attempt first"
