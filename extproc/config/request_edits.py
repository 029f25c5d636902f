"""The operator's changes of provider requests (`set`, `override`, `remove`, `headers`), and their checks.

Backends and attempts have the same four keys. `extproc.translation.request_edits` applies them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from extproc.config.values import HEADER_NAME, HEADER_TEXT, Problem, converted_entries
from extproc.headers import CLIENT_OPTIONS, ENVOY_PREFIX, INTERNAL_PREFIX, REMOVED_IN_HOP, SET_BY_TRANSPORT
from extproc.profiles.apis import API_FACTS

_CREDENTIALS = re.compile(r"(?:.*-)?(?:authorization|api-key|cookie)")
_FIXED_HEADERS = frozenset({
    *(name for name in SET_BY_TRANSPORT if name != "user-agent"), *REMOVED_IN_HOP, *CLIENT_OPTIONS, "accept",
    "accept-encoding", "content-encoding", "expect", "keep-alive", "proxy-connection", "trailer", "upgrade"})
"""Headers that the gateway needs as they are, removes, or that concern one connection only (RFC 9110, 7.6.1)."""


class RequestEditKeys(Protocol):
    """The keys of a backend or an attempt."""

    @property
    def set(self) -> Mapping[str, Any]: ...
    @property
    def override(self) -> Mapping[str, Any]: ...
    @property
    def remove(self) -> Sequence[str]: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


def request_edit_problems(path: str, keys: RequestEditKeys, api: str | None) -> Iterator[Problem]:
    """What makes the four keys unusable, as (path, reason). `api`: of the backend; None: not known."""
    seen: dict[str, str] = {}
    for key, fields in (("set", keys.set), ("override", keys.override)):
        for field, value in (fields or {}).items():
            yield from _field_problems(f"{path}.{key}", field, value, api)
            yield from _repeated(f"{path}.{key}.{field}", field, key, seen)
    for index, field in converted_entries(keys.remove):
        yield from _field_problems(f"{path}.remove[{index}]", field, None, api, in_list=True)
        yield from _repeated(f"{path}.remove[{index}]", field, "remove", seen)
    names: set[str] = set()
    for name, text in (keys.headers or {}).items():
        yield from _header_problems(f"{path}.headers.{name[:40]}", name.lower(), text)
        if name.lower() in names:
            yield f"{path}.headers.{name[:40]}", "is there twice: case does not matter"
        names.add(name.lower())


def _field_problems(path: str, field: str, value: object, api: str | None, *, in_list: bool = False,
                    ) -> Iterator[Problem]:
    place = path if in_list else f"{path}.{field[:80]}"
    if not all(part and part.isprintable() for part in field.split(".")):
        yield place, f'"{field[:80]}" is not the path of a field: write names with dots between them'
        return
    fixed = API_FACTS[api].fixed_fields if api in API_FACTS else {}
    for leaf in _leaves(field, value):
        for name, reason in fixed.items():
            if leaf == name or leaf.startswith(f"{name}."):
                yield place, f'"{name}" cannot be changed: {reason}'
                return


def _leaves(path: str, value: object) -> Iterator[str]:
    """The paths of all values in a mapping. Of an empty mapping and any other value, `path`."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(f"{path}.{name}", inner)
    else:
        yield path


def _repeated(place: str, field: str, key: str, seen: dict[str, str]) -> Iterator[Problem]:
    if field in seen:
        yield place, f"is also in {seen[field]}: give it once"
    seen[field] = key


def _header_problems(path: str, name: str, text: str | None) -> Iterator[Problem]:
    if not HEADER_NAME.fullmatch(name):
        yield path, "is no name of a header"
    elif _CREDENTIALS.fullmatch(name):
        yield path, "is a credential: give the provider's key as key"
    elif name in _FIXED_HEADERS or name.startswith((INTERNAL_PREFIX, ENVOY_PREFIX)):
        yield path, "is a header that the gateway sets or removes itself"
    elif text is not None and not HEADER_TEXT.fullmatch(text):
        yield path, "is empty, or holds a character that a header cannot carry"
