"""Helpers of all builders of Envoy messages: packing into `Any`, durations, messages as JSON.

Field names in the JSON are the proto names (snake case), as in Envoy's documentation.
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from enum import Enum
from functools import cache
from typing import Any, cast

import betterproto2
import msgspec
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.google import protobuf
from envoy_data_plane.message_pool import default_message_pool


class _Packed(protobuf.Any):
    """An `Any` that keeps its message: it is only rendered as JSON, never as bytes."""

    message: betterproto2.Message


def pack(message: betterproto2.Message) -> protobuf.Any:
    """The message inside `google.protobuf.Any`."""
    packed = _Packed(type_url=default_message_pool.type_to_url[type(message)])
    packed.message = message
    return packed


def extension(name: str, message: betterproto2.Message) -> core.TypedExtensionConfig:
    """The message as a named Envoy extension."""
    return core.TypedExtensionConfig(name=name, typed_config=pack(message))


def seconds(value: float) -> timedelta:
    """A number of seconds as Envoy's Duration; 0 means "no limit" wherever this project uses it."""
    return timedelta(seconds=value)


def to_json(message: betterproto2.Message) -> dict[str, Any]:
    """The message as Envoy's JSON.

    The library's own `to_dict` resolves type hints and builds a validator for every message, 0.1 s for each backend.
    This function reads the dataclass fields, for the types that occur in Envoy's configuration."""
    if isinstance(message, protobuf.Struct):
        return message.to_dict()
    if isinstance(message, _Packed):
        return {"@type": message.type_url, **to_json(message.message)}
    members = {}
    for name, default in _fields(type(message)):
        value = getattr(message, name)
        if value != default:
            members[name] = _json_value(value)
    return members


@cache
def _fields(message: type[betterproto2.Message]) -> list[tuple[str, Any]]:
    """The names of the fields, each with its default, which proto JSON omits."""
    return [(field.name, field.default if field.default_factory is dataclasses.MISSING else field.default_factory())
            for field in dataclasses.fields(cast(Any, message))]


def _json_value(value: Any) -> Any:
    match value:
        case betterproto2.Message():
            return to_json(value)
        case list():
            return [_json_value(item) for item in value]
        case dict():
            return {key: _json_value(item) for key, item in value.items()}
        case Enum():
            return value.name
        case timedelta():
            return f"{value.total_seconds():.9f}".rstrip("0").rstrip(".") + "s"
        case str() | bool() | int() | float():
            return value
    raise TypeError(f"no JSON for {type(value).__name__}")


def json_text(content: dict[str, Any]) -> str:
    """Envoy's JSON as the text of a file."""
    return msgspec.json.format(msgspec.json.encode(content), indent=1).decode()


def request_header(name: str) -> str:
    """Envoy's format string for the value of a request header."""
    return f"%REQ({name.upper()})%"
