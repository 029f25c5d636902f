"""Reads the events and the whole responses of the Responses API: JSON bytes -> records.

Lenient: a field of the wrong shape is left out, and never costs the rest of the response. Called by the response
decoder.
"""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

from extproc.apis.responses.wire_response import ResponseEvent, ResponseObject
from extproc.apis.shared.json_text import HalfPair, ends_in_half, without_surrogates


class InvalidEvent(Exception):  # noqa: N818
    """The bytes are not an event: not JSON, or not an object. The text says what and where."""


T = TypeVar("T", ResponseEvent, ResponseObject)

_event = msgspec.json.Decoder(ResponseEvent)
_response = msgspec.json.Decoder(ResponseObject)


def decode_event(payload: bytes) -> ResponseEvent:
    """Raises InvalidEvent, and HalfPair where the next event may continue this one."""
    try:
        return _event.decode(payload)
    except RecursionError:
        raise InvalidEvent("nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:  # also raised for a wrong shape
        if ends_in_half(payload):
            raise HalfPair from None
        return _decode_oddity(payload, ResponseEvent, problem)


def decode_response(body: bytes) -> ResponseObject:
    """A whole response. Raises InvalidEvent."""
    try:
        return _response.decode(body)
    except RecursionError:
        raise InvalidEvent("nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        return _decode_oddity(body, ResponseObject, problem)


def _decode_oddity(payload: bytes, record: type[T], problem: Exception) -> T:
    """Reads JSON that only the standard library's parser takes: NaN, lone surrogates and broken UTF-8."""
    try:
        value = without_surrogates(json.loads(payload.decode("utf-8", "replace")))
        if not isinstance(value, dict):
            raise InvalidEvent("it is not a JSON object")
        return msgspec.convert(_shaped(value), record)
    except (ValueError, RecursionError):
        raise InvalidEvent(str(problem)) from None


def _shaped(value: dict[str, object]) -> dict[str, object]:
    """The object with its records and lists in the expected places."""
    shaped = dict(value)
    for name in ("item", "incomplete_details"):
        if name in shaped and not isinstance(shaped[name], dict):
            shaped[name] = None
    response, output = shaped.get("response"), shaped.get("output")
    if "response" in shaped:
        shaped["response"] = _shaped(response) if isinstance(response, dict) else None
    if "output" in shaped:
        shaped["output"] = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else None
    return shaped
