"""What types cannot say: whether the parts of a configuration fit together (problems) and are wise (warnings).

`problems_of` is called by the loader, also on a configuration that converted only in part: what did not is None there,
is reported already, and is passed over here. `warnings` is called on a whole configuration.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from extproc.config.builtin import DEMO_URL, SUPPORTED_APIS
from extproc.config.globs import covers, is_glob, matches
from extproc.config.keyfile import key_file
from extproc.config.records import (
    STAR,
    Attempt,
    Backend,
    Config,
    ModelRule,
    Problem,
    Problems,
    Team,
    ToolSettings,
    is_loopback,
    parse_address,
)
from extproc.config.safety import safety_problems
from extproc.profiles import PROVIDERS
from extproc.profiles.anthropic import KNOWN_NAMES
from extproc.profiles.gemini import VERTEX, gemini_door

T = TypeVar("T")

_PROVIDER_NAMES: dict[str, tuple[str, ...]] = {
    "openai": tuple(name for known in PROVIDERS for name in (known.name, *known.aliases)),
    "anthropic": KNOWN_NAMES,
    "gemini": ("gemini", "google", "aistudio", "vertex"),
}
_GENERIC = ("generic", "demo")

# Names become Envoy cluster names, header values and parts of file names.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]+")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s?#@]+")


def problems_of(config: Config, builtin: bool = False) -> Problems:
    """Everything that makes the configuration unusable, as (path, reason)."""
    found: Problems = []
    backends = config.backends or {}
    found += _listening(config)
    for name, backend in _whole(backends):
        found += _backend(f"backends.{name}", name, backend, builtin)
    if config.backends is not None and not backends:
        found.append(("backends", "is empty: name at least one"))
    if config.models is not None and not config.models:
        found.append(("models", "is empty: name at least one"))
    for index, rule in _enumerated(config.models):
        found += _rule(f"models[{index}]", rule, backends)
    found += _teams(config.teams)
    found += _numbers(config)
    found += [(f"cors[{index}]", f'"{origin}" is neither "*" nor an origin such as https://app.example')
              for index, origin in _enumerated(config.cors) if origin != "*" and not _ORIGIN.fullmatch(origin)]
    return found


def warnings(config: Config) -> Problems:
    """Everything that works but is unsafe or probably not meant, as (path, reason)."""
    found: Problems = [(path, "the key is written in the file; ${VARIABLE} keeps it out")
                       for path in config.literal_keys]
    for name, backend in config.backends.items():
        found += _backend_warnings(f"backends.{name}", backend)
    found += key_file_warnings(config)
    found += _unreachable(config.models)
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


def _header_value(path: str, value: str | None) -> Iterator[Problem]:
    if value is not None and not _HEADER_VALUE.fullmatch(value):
        yield path, "is empty" if not value else "holds a space, a line break or a character that a header cannot carry"


def _backend(path: str, name: str, backend: Backend, builtin: bool) -> Iterator[Problem]:
    yield from _name(path, name)
    if backend.url is not None and not (builtin and backend.url == DEMO_URL):
        reason = _url_problem(backend.url)
        if reason:
            yield f"{path}.url", reason
    yield from _header_value(f"{path}.key", backend.key)
    yield from _header_value(f"{path}.provider", backend.provider)
    if backend.key_file is not None:
        if backend.key is not None:
            yield f"{path}.key_file", "is there beside key: give one of them"
        if not backend.key_file.strip() or not backend.key_file.isprintable():
            yield f"{path}.key_file", "is not the path of a file"
    yield from safety_problems(f"{path}.safety", backend.safety, backend.api)


def _url_problem(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        return f"is not a URL: {error}"
    if parts.scheme not in ("http", "https"):
        return "must begin with http:// or https://"
    if not host:
        return "names no host"
    if port == 0:
        return "the port must be a number from 1 to 65535"
    if parts.username is not None or parts.password is not None:
        return "must not hold a user name or password: give the key as key"
    if "?" in url or "#" in url:
        return "must not hold a query or fragment"
    return None if re.fullmatch(r"[\x21-\x7e]+", url) else "holds a space or a character that a URL cannot carry"


def _rule(path: str, rule: ModelRule, backends: Mapping[str, Backend]) -> Iterator[Problem]:
    if rule.match is not None:
        yield from _model_name(f"{path}.match", rule.match)
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
        yield from _model_name(f"{path}.model", attempt.model)
        if "*" in attempt.model and attempt.model != "*":
            yield f"{path}.model", f'"*" stands alone; {STAR} stands for what the star of match matched'
        if STAR in attempt.model and rule.match is not None and "*" not in rule.match:
            yield f"{path}.model", f"{STAR} needs a match with a *"


def _model_name(path: str, name: str) -> Iterator[Problem]:
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
            yield from _header_value(place, key)
            if key in owners:
                yield place, f"is the same key as {owners[key]}"
            owners.setdefault(key, place)
        for index, pattern in _enumerated(team.models):
            yield from _model_name(f"{path}.models[{index}]", pattern)


def _numbers(config: Config) -> Iterator[Problem]:
    """Counts, sizes and times that must be above zero, wherever they stand."""
    if isinstance(config.workers, int) and config.workers < 1:
        yield "workers", 'must be at least 1, or "auto"'
    yield from _positive("limits", config.limits)
    yield from _positive("timeouts", config.timeouts)
    for name, team in _whole(config.teams):
        if team.limits is not None:
            yield from _positive(f"teams.{name}.limits", team.limits)
    for index, rule in _enumerated(config.models):
        for number, attempt in _enumerated(rule.attempts):
            path = f"models[{index}].attempts[{number}]"
            yield from _positive(path, attempt)
            yield from _positive(f"{path}.tools", attempt.tools)
            yield from _dialects(f"{path}.tools", attempt.tools)
    if config.timeouts.idle >= config.timeouts.per_try_idle:
        yield "timeouts.idle", "must be shorter than timeouts.per_try_idle, or Envoy cuts the answer off first"


def _dialects(path: str, tools: ToolSettings) -> Iterator[Problem]:
    """Names of dialects in `tools.style` and `tools.read`."""
    if tools.style == "auto" and not tools.read:
        return
    from extproc.dialects.registry import DIALECTS, STYLES  # only where it is asked for: it takes a while to load

    if tools.style not in STYLES and tools.style not in DIALECTS:
        yield f"{path}.style", f'no style "{tools.style}"; known: {", ".join((*STYLES, *sorted(DIALECTS)))}'
    for index, name in enumerate(tools.read):
        if name not in DIALECTS:
            yield f"{path}.read[{index}]", f'no dialect "{name}"; known: {", ".join(sorted(DIALECTS))}'


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
    return [(f"backends.{name}.key_file", f"{reason}; until it holds a key this backend's requests fail")
            for name, backend in config.backends.items()
            if backend.key_file and (reason := key_file(backend.key_file).problem())]


def _backend_warnings(path: str, backend: Backend) -> Iterator[Problem]:
    if backend.has_key and not backend.is_tls and not backend.is_local:
        yield f"{path}.url", "the key travels unencrypted: use https://"
    if backend.api not in SUPPORTED_APIS:
        yield f"{path}.api", f'"{backend.api}" is not spoken yet: its requests fail'
    if backend.provider is not None and not _is_known_provider(backend):
        near = difflib.get_close_matches(backend.provider.lower(), _PROVIDER_NAMES[backend.api], n=1)
        yield f"{path}.provider", (f'nobody knows "{backend.provider}": generic rules apply'
                                   + (f'; the nearest name is "{near[0]}"' if near else ""))
    if backend.auth is not None and not backend.has_key:
        yield f"{path}.auth", "has no effect without key or key_file"
    if backend.api == "gemini":
        yield from _gemini_url(f"{path}.url", backend)


def _is_known_provider(backend: Backend) -> bool:
    assert backend.provider is not None
    return backend.provider.lower() in (*_PROVIDER_NAMES[backend.api], *_GENERIC)


def _gemini_url(path: str, backend: Backend) -> Iterator[Problem]:
    """Base URLs that lead nowhere, because Google's own pages show whole ones or those of another API."""
    base = backend.base_path
    if base.endswith(("/openai", "/endpoints/openapi")):
        yield path, "is the endpoint in OpenAI's format: say api: openai, or leave out what follows the version"
    elif "/models" in base:
        yield path, "must end before /models"
    elif gemini_door(backend.authority, base, backend.provider) is VERTEX:
        if "/publishers/" not in base:
            yield path, "lacks the publisher: .../v1/projects/PROJECT/locations/LOCATION/publishers/google"
    elif not base:
        yield path, "lacks the version, such as /v1beta"


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
    for name, team in config.teams.items():
        if team.limits is not None:
            yield f"teams.{name}.limits", "not enforced yet: this team is not limited"
        for index, pattern in enumerate(team.models or ()):
            if not any(covers(pattern, rule.match) or covers(rule.match, pattern) for rule in config.models):
                yield f"teams.{name}.models[{index}]", f'"{pattern}" fits no model rule'
