"""A JSON object as its members: each stays as it stands there, so that one can be changed and the others keep their
bytes.

Used by everything that passes bodies and events on. Knows the fields of no API.
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
    """The members of the object that is this member; None for anything else."""
    value = fields.get(name)
    return None if value is None else fields_of(value)


def elements_of(value: msgspec.Raw) -> list[msgspec.Raw] | None:
    """The elements of a JSON array, None for anything else."""
    try:
        return _elements.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def keep_elements(fields: Fields, name: str, kept: Sequence[bool]) -> None:
    """Leaves only those elements of the array that is this member, by their places."""
    elements = elements_of(fields[name]) or []
    fields[name] = raw([element for element, keep in zip(elements, kept, strict=True) if keep])


def joined(fields: Fields) -> bytes:
    """The object again."""
    return _encode(fields)


def raw(value: object) -> msgspec.Raw:
    """A value as it goes into `Fields`."""
    return msgspec.Raw(_encode(value))


def holds(value: msgspec.Raw | None) -> bool:
    """Whether a member is there and not null."""
    return value is not None and bytes(memoryview(value)[:4]) not in (b"", b"null")
