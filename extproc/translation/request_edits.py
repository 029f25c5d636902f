"""The operator's changes of a provider request: fields of its JSON body and headers.

Applied to the encoded request as the last step, whether it was translated or forwarded. Equal requests give equal
bytes: members that do not change keep their bytes and their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from extproc.apis.base import ProviderRequest
from extproc.apis.shared.json_fields import Fields, encode_fields, encode_raw, fields_of, has_value
from extproc.profiles.apis import API_FACTS


class RequestEdits(msgspec.Struct, frozen=True, kw_only=True):
    """Paths are names with dots between them. Values are JSON values."""

    set: Mapping[str, Any] = {}
    """Added where the request has no such field, or null."""
    override: Mapping[str, Any] = {}
    """Added, or written over the request's own value."""
    remove: Iterable[str] = ()
    headers: Mapping[str, str] = {}

    def over(self, base: RequestEdits) -> RequestEdits:
        """These edits and those of `base` for all other paths and headers."""
        mine = {*self.set, *self.override, *self.remove}
        return RequestEdits(
            set={**{path: value for path, value in base.set.items() if path not in mine}, **self.set},
            override={**{path: value for path, value in base.override.items() if path not in mine}, **self.override},
            remove=[*(path for path in base.remove if path not in mine), *self.remove],
            headers={**_in_lower_case(base.headers), **_in_lower_case(self.headers)})

    def edit_body(self, body: bytes) -> bytes:
        """The JSON object with all changes: fields are removed first, then overridden, then set."""
        if not (self.set or self.override or self.remove) or (fields := fields_of(body)) is None:
            return body
        for path in self.remove:
            _remove(fields, path.split("."))
        for path, value in self.override.items():
            _write(fields, path.split("."), value, replace=True)
        for path, value in self.set.items():
            _write(fields, path.split("."), value, replace=False)
        return encode_fields(fields)

    def edit_headers(self, request: ProviderRequest, api: str) -> ProviderRequest:
        """The request with these headers. `api`: the provider's. A header that holds a list in this API keeps the
        request's own entries."""
        if not self.headers:
            return request
        headers = dict(request.headers)
        for name, value in _in_lower_case(self.headers).items():
            own = headers.get(name) if name in API_FACTS[api].list_headers else None
            headers[name] = value if own is None else _joined(own, value)
        return msgspec.structs.replace(request, headers=headers)


def _in_lower_case(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _joined(own: str, added: str) -> str:
    return ",".join(dict.fromkeys(entry.strip() for entry in (*own.split(","), *added.split(","))))


def _remove(fields: Fields, path: list[str]) -> None:
    name, *rest = path
    if not rest:
        fields.pop(name, None)
    elif name in fields and (inner := fields_of(fields[name])) is not None:
        _remove(inner, rest)
        fields[name] = msgspec.Raw(encode_fields(inner))


def _write(fields: Fields, path: list[str], value: object, *, replace: bool) -> None:
    """Objects on the way to the field are made where they are missing. Another value in the place of such an object
    stays, unless `replace`."""
    name, *rest = path
    present = has_value(fields.get(name))
    if not rest:
        if replace or not present:
            fields[name] = encode_raw(value)
        return
    inner = fields_of(fields[name]) if present else {}
    if inner is None:
        if not replace:
            return
        inner = {}
    _write(inner, rest, value, replace=replace)
    fields[name] = msgspec.Raw(encode_fields(inner))
