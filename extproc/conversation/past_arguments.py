"""Arguments of past tool calls, as text that every server can parse.

Many servers decode the arguments in the history to render them into a prompt, and fail on anything but a JSON object.
Called by the request encoders of provider APIs and of dialects.
"""

from __future__ import annotations

import json

import msgspec

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ANY = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()


def arguments_text(arguments: str) -> str:
    """The text of a JSON object: the same text if it is one; "{}" for no arguments; the inner object if it was encoded
    twice; else an object with the value (`arguments`) or the raw text (`INVALID_JSON`)."""
    try:
        _OBJECT.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _repaired(arguments)
    return arguments


def free_text(arguments: str) -> str:
    """The input of a custom tool, from the object that represents it in the conversation (`Tool.custom`)."""
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    text = value.get("input") if isinstance(value, dict) else None
    return text if isinstance(text, str) else arguments


def _repaired(arguments: str) -> str:
    if not arguments.strip():
        return "{}"
    try:
        value = _ANY.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _text({"INVALID_JSON": arguments.encode("utf-8", "replace").decode()})
    if value is None:
        return "{}"
    if isinstance(value, str):
        try:
            _OBJECT.decode(value)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return _text({"arguments": value})
        return value
    return _text({"arguments": value})


def _text(value: object) -> str:
    return _ENCODER.encode(value).decode()
