"""A JSON object as its raw members, so that one can be changed and the others keep their bytes.

Used wherever bodies and events pass. Nothing here depends on the fields of an API.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

Fields = dict[str, msgspec.Raw]
"""The members of a JSON object, in their order."""

_encode = msgspec.json.Encoder().encode
_fields: msgspec.json.Decoder[Fields] = msgspec.json.Decoder(Fields)
_elements: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])


def fields_of(body: bytes | msgspec.Raw) -> Fields | None:
    """The members of a JSON object, None for anything else."""
    try:
        return _fields.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def member_of(fields: Fields, name: str) -> Fields | None:
    """The members of the object in this member; None for anything else."""
    value = fields.get(name)
    return None if value is None else fields_of(value)


def elements_of(value: msgspec.Raw) -> list[msgspec.Raw] | None:
    """The elements of a JSON array, None for anything else."""
    try:
        return _elements.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def keep_elements(fields: Fields, name: str, kept: Sequence[bool]) -> None:
    """Keeps only some elements of the array in this member. `kept`: one flag per element."""
    elements = elements_of(fields[name]) or []
    fields[name] = encode_raw([element for element, keep in zip(elements, kept, strict=True) if keep])


def encode_fields(fields: Fields) -> bytes:
    """The object as JSON."""
    return _encode(fields)


def encode_raw(value: object) -> msgspec.Raw:
    """A value as JSON, for `Fields`."""
    return msgspec.Raw(_encode(value))


def has_value(value: msgspec.Raw | None) -> bool:
    """True if a member is present and not null."""
    return value is not None and bytes(memoryview(value)[:4]) not in (b"", b"null")
