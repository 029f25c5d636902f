"""What types cannot say: whether the parts of a configuration fit together (problems) and are wise (warnings).

`problems_of` is called by the loader, also on a configuration that converted only in part: what did not is None there,
is reported already, and is passed over here. `warnings` is called on a whole configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from extproc.config.addresses import is_loopback, parse_address
from extproc.config.backend_checks import backend_problems, backend_warnings, header_value, key_file_problems
from extproc.config.backend_records import Backend
from extproc.config.limits_checks import limit_problems, limit_warnings
from extproc.config.observing_checks import tracing_problems, tracing_warnings
from extproc.config.records import STAR, Attempt, Config, ModelRule, Problem, Problems, Team
from extproc.config.routing_checks import routing_problems, routing_warnings
from extproc.config.safety import safety_problems
from extproc.config.tool_records import ToolSettings
from extproc.globs import covers, is_glob, matches

T = TypeVar("T")

# Names become Envoy cluster names, header values and parts of file names.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s?#@]+")


def problems_of(config: Config, builtin: bool = False) -> Problems:
    """Everything that makes the configuration unusable, as (path, reason)."""
    found: Problems = []
    backends = config.backends or {}
    found += _listening(config)
    for name, backend in _whole(backends):
        found += [*_name(f"backends.{name}", name), *backend_problems(f"backends.{name}", backend, builtin)]
    if config.backends is not None and not backends:
        found.append(("backends", "is empty: name at least one"))
    if config.models is not None and not config.models:
        found.append(("models", "is empty: name at least one"))
    for index, rule in _enumerated(config.models):
        found += _rule(f"models[{index}]", rule, backends)
    if config.one_hop is not None and config.backends is not None and config.one_hop not in backends:
        found.append(("one_hop", f'no backend "{config.one_hop}"; known: {", ".join(sorted(backends)) or "none"}'))
    found += _teams(config.teams)
    found += _numbers(config)
    found += routing_problems(config)
    if config.tracing is not None:
        found += tracing_problems("tracing", config.tracing)
    found += [(f"cors[{index}]", f'"{origin}" is neither "*" nor an origin such as https://app.example')
              for index, origin in _enumerated(config.cors) if origin != "*" and not _ORIGIN.fullmatch(origin)]
    return found


def warnings(config: Config) -> Problems:
    """Everything that works but is unsafe or probably not meant, as (path, reason)."""
    found: Problems = [(path, ("the password" if path.endswith(".proxy") else "the value" if path.startswith("tracing.")
                        else "the key") + " is written in the file; ${VARIABLE} keeps it out")
                       for path in config.literal_keys]
    for name, backend in config.backends.items():
        found += backend_warnings(f"backends.{name}", backend)
    found += key_file_warnings(config)
    found += _unreachable(config.models)
    found += routing_warnings(config)
    found += _tool_warnings(config)
    if config.tracing is not None:
        found += tracing_warnings("tracing", config.tracing)
    found += _team_warnings(config)
    if not config.teams and not is_loopback(parse_address(config.listen)[0]):
        found.append(("open", "anybody who can reach the listen address can use every model and key"))
    if not is_loopback(parse_address(config.admin)[0]):
        found.append(("admin", "metrics and health are open to anybody who can reach this address"))
    used = {attempt.backend for rule in config.models for attempt in rule.attempts}
    found += [(f"backends.{name}", "no model uses it") for name in config.backends if name not in used]
    return found


# --------------------------------------------------------------------------------------------------------- problems


def _whole(items: Mapping[str, T] | None) -> Iterator[tuple[str, T]]:
    return ((key, item) for key, item in (items or {}).items() if item is not None)


def _enumerated(items: Sequence[T] | None) -> Iterator[tuple[int, T]]:
    return ((index, item) for index, item in enumerate(items or ()) if item is not None)


def _listening(config: Config) -> Iterator[Problem]:
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


def _name(path: str, name: str) -> Iterator[Problem]:
    if not _NAME.fullmatch(name):
        yield path, "the name may hold letters, digits, - _ and . only, begins with a letter or digit, at most 64"


def _rule(path: str, rule: ModelRule, backends: Mapping[str, Backend]) -> Iterator[Problem]:
    if rule.match is not None:
        yield from _pattern(f"{path}.match", rule.match)
        for index, name in _enumerated(rule.list):
            if is_glob(name):
                yield f"{path}.list[{index}]", f'"{name}" is a glob: list exact names'
            elif not matches(rule.match, name):
                yield f"{path}.list[{index}]", f'"{name}" does not match "{rule.match}"'
    if rule.attempts is not None and not rule.attempts:
        yield f"{path}.attempts", "is empty: name at least one"
    for index, attempt in _enumerated(rule.attempts):
        yield from _attempt(f"{path}.attempts[{index}]", attempt, rule, backends)


def _attempt(path: str, attempt: Attempt, rule: ModelRule, backends: Mapping[str, Backend]) -> Iterator[Problem]:
    if attempt.backend is not None and attempt.backend not in backends:
        known = ", ".join(sorted(backends)) or "none"
        yield f"{path}.backend", f'no backend "{attempt.backend}"; known: {known}'
    elif (backend := backends.get(attempt.backend)) is not None:
        yield from safety_problems(f"{path}.safety", attempt.safety, backend.api)
    if attempt.model is not None:
        yield from _pattern(f"{path}.model", attempt.model)
        if "*" in attempt.model and attempt.model != "*":
            yield f"{path}.model", f'"*" stands alone; {STAR} stands for what the star of match matched'
        if STAR in attempt.model and rule.match is not None and "*" not in rule.match:
            yield f"{path}.model", f"{STAR} needs a match with a *"


def _pattern(path: str, name: str) -> Iterator[Problem]:
    if not name.strip():
        yield path, "is empty"
    elif any(ord(char) < 32 or ord(char) == 127 for char in name):
        yield path, "holds a control character"


def _teams(teams: Mapping[str, Team]) -> Iterator[Problem]:
    owners: dict[str, str] = {}
    for name, team in _whole(teams):
        path = f"teams.{name}"
        yield from _name(path, name)
        if team.key == []:
            yield f"{path}.key", "is empty: a team needs a key"
        single = isinstance(team.key, str)
        for index, key in _enumerated(team.keys if team.key is not None else None):
            place = f"{path}.key" if single else f"{path}.key[{index}]"
            yield from header_value(place, key)
            if key in owners:
                yield place, f"is the same key as {owners[key]}"
            owners.setdefault(key, place)
        for index, pattern in _enumerated(team.models):
            yield from _pattern(f"{path}.models[{index}]", pattern)


def _numbers(config: Config) -> Iterator[Problem]:
    """Counts, sizes and times that must be above zero, wherever they stand."""
    if isinstance(config.workers, int) and config.workers < 1:
        yield "workers", 'must be at least 1, or "auto"'
    yield from _positive("limits", config.limits)
    yield from _positive("timeouts", config.timeouts)
    yield from _positive("ejection", config.ejection)
    yield from limit_problems(config)
    for index, rule in _enumerated(config.models):
        for number, attempt in _enumerated(rule.attempts):
            yield from _positive(f"models[{index}].attempts[{number}]", attempt)
    for path, tools in _tool_settings(config):
        yield from _positive(path, tools)
        yield from _dialects(path, tools)
        for index, name in _enumerated(tools.only):
            yield from _pattern(f"{path}.only[{index}]", name)
    if config.timeouts.idle >= config.timeouts.per_try_idle:
        yield "timeouts.idle", "must be shorter than timeouts.per_try_idle, or Envoy cuts the answer off first"


def _tool_settings(config: Config) -> Iterator[tuple[str, ToolSettings]]:
    """Every place of the file where settings of tools may stand, with its path."""
    yield "tools", config.tools
    for name, backend in _whole(config.backends):
        yield f"backends.{name}.tools", backend.tools
    for index, rule in _enumerated(config.models):
        for number, attempt in _enumerated(rule.attempts):
            yield f"models[{index}].attempts[{number}].tools", attempt.tools


def _dialects(path: str, tools: ToolSettings) -> Iterator[Problem]:
    """Names of dialects in `tools.style` and `tools.read`."""
    if tools.style in (None, "auto") and not tools.read:
        return
    from extproc.dialects.registry import DIALECTS, STYLES  # only where it is asked for: it takes a while to load

    if tools.style is not None and tools.style not in STYLES and tools.style not in DIALECTS:
        yield f"{path}.style", f'no style "{tools.style}"; known: {", ".join((*STYLES, *sorted(DIALECTS)))}'
    for index, name in _enumerated(tools.read):
        if name not in DIALECTS:
            yield f"{path}.read[{index}]", f'no dialect "{name}"; known: {", ".join(sorted(DIALECTS))}'


def _tool_warnings(config: Config) -> Iterator[Problem]:
    """Styles that are read and cannot be written, and a list that permits nothing."""
    for path, tools in _tool_settings(config):
        if tools.only == []:
            yield f"{path}.only", "permits no tool at all; style: off says the same"
        if tools.style in (None, "auto"):
            continue
        from extproc.dialects.registry import DIALECTS
        from extproc.dialects.writing import WRITABLE

        if tools.style in DIALECTS and tools.style not in WRITABLE:
            yield f"{path}.style", (
                f"calls are read in {tools.style}, but tools are told natively, since nothing writes it; "
                f"say read: [{tools.style}], or one of the styles that can be written: {', '.join(sorted(WRITABLE))}")


def _positive(path: str, record: msgspec.Struct) -> Iterator[Problem]:
    for field in record.__struct_fields__:
        value = getattr(record, field)
        # `not value > 0` is true for NaN too.
        if isinstance(value, int | float) and not isinstance(value, bool) and not 0 < value < float("inf"):
            yield f"{path}.{field}", "must be above 0"


# --------------------------------------------------------------------------------------------------------- warnings


def key_file_warnings(config: Config) -> Problems:
    """The key files that give no key now. Not an error: a token may come later, and Envoy may read the file on another
    machine."""
    return [problem for name, backend in config.backends.items()
            for problem in key_file_problems(f"backends.{name}", backend)]


def _unreachable(rules: Sequence[ModelRule]) -> Iterator[Problem]:
    for index, rule in enumerate(rules):
        path = f"models[{index}]"
        by = next((earlier for earlier in range(index) if covers(rules[earlier].match, rule.match)), None)
        if by is not None:
            yield f"{path}.match", f'never reached: models[{by}] ("{rules[by].match}") matches first'
            continue
        for number, name in enumerate(rule.list):
            taken = next((earlier for earlier in range(index) if rules[earlier].matches(name)), None)
            if taken is not None:
                yield f"{path}.list[{number}]", f'"{name}" is served by models[{taken}] ("{rules[taken].match}")'


def _team_warnings(config: Config) -> Iterator[Problem]:
    yield from limit_warnings(config)
    for name, team in config.teams.items():
        for index, pattern in enumerate(team.models or ()):
            if not any(covers(pattern, rule.match) or covers(rule.match, pattern) for rule in config.models):
                yield f"teams.{name}.models[{index}]", f'"{pattern}" fits no model rule'
