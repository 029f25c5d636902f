"""Records of a client's request: raw JSON in, typed records out, every error with its place.

Called by the request decoders of the client APIs. Lenient, because APIs grow: the names of unknown fields are returned,
never refused. Strict if a wrong type would cause an obscure error later. Nothing here knows an API or the conversation
model. Values that are only forwarded stay the client's own bytes, as `msgspec.Raw`.
"""

from __future__ import annotations

import re
from typing import Generic, TypeVar, get_origin

import msgspec

from extproc.errors import BadRequest

Raw = msgspec.Raw

T = TypeVar("T", bound=msgspec.Struct)

_fields: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.Encoder().encode


class Head(msgspec.Struct):
    """The member that every typed object has."""

    type: str


class Shape(Generic[T]):
    """Decodes one record. `read` returns it with the names of unknown fields. A record with `forbid_unknown_fields`
    makes the common case one pass: only an object with an unknown field is decoded twice."""

    def __init__(self, record: type[T]) -> None:
        self.record: type = get_origin(record) or record
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(record)
        self._known = {field.encode_name for field in msgspec.structs.fields(record)}
        if (tag := self.record.__struct_config__.tag_field) is not None:
            self._known.add(tag)

    def read(self, raw: Raw | bytes, path: str) -> tuple[T, list[str]]:
        """Raises BadRequest with the place below `path` ("" is the body itself)."""
        try:
            return self._decoder.decode(raw), []
        except msgspec.ValidationError as error:
            unknown = self._unknown(raw) if "unknown field" in str(error) else []
            if not unknown:
                raise misplaced(error, path) from None
        known = {name: value for name, value in _fields.decode(raw).items() if name in self._known}
        try:
            return self._decoder.decode(_encode(known)), unknown
        except msgspec.ValidationError as error:
            raise misplaced(error, path) from None

    def _unknown(self, raw: Raw | bytes) -> list[str]:
        return [name for name in _fields.decode(raw) if name not in self._known]


_head: msgspec.json.Decoder[Head] = msgspec.json.Decoder(Head)


def type_of(raw: Raw, path: str) -> str:
    """The `type` of a typed object."""
    try:
        return _head.decode(raw).type
    except msgspec.ValidationError as error:
        raise misplaced(error, path) from None


_ABSENT, _NULL = Raw(), Raw(b"null")


def given(raw: Raw) -> bool:
    """True if an optional raw field has a value. Absent and null are the same here."""
    return raw != _ABSENT and raw != _NULL


def is_string(raw: Raw) -> bool:
    """True if a raw value is a JSON string."""
    return first_byte(raw) == b'"'


def first_byte(raw: Raw) -> bytes:
    """The first byte of a JSON value, which identifies its type."""
    return bytes(memoryview(raw)[:1])


# ----------------------------------------------------------------------------------------------- places of errors

_MISSING = re.compile(r"Object missing required field `([^`]*)`")
_PLACE = re.compile(r"^(.*?)(?: - at `(.*)`)?$", re.DOTALL)
_EXPECTED = re.compile(r"`([a-z |0-9]+)`")
_WORDS = {"str": "a string", "int": "an integer", "float": "a number", "bool": "true or false", "array": "a list",
          "object": "an object", "null": "null"}


def misplaced(error: msgspec.ValidationError, path: str) -> BadRequest:
    """A type error in the client's terms, e.g. `messages[0].content[1].text: expected a string, got an integer`."""
    match = _PLACE.match(str(error))
    text, below = (match.group(1), match.group(2) or "") if match else (str(error), "")
    place = path + below.removeprefix("$")
    if missing := _MISSING.match(text):
        place, text = f"{place}.{missing.group(1)}", "this field is required"
    else:
        text = _EXPECTED.sub(lambda m: " or ".join(_WORDS.get(w, w) for w in m.group(1).split(" | ")), text)
        text = text[:1].lower() + text[1:]
    return refused(place.lstrip(".") or "the body", text)


def refused(place: str, text: str) -> BadRequest:
    """A 400 that names the place."""
    return BadRequest(f"{place}: {text}")
