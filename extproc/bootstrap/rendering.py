"""Small pieces that every builder of Envoy messages needs: packing into Any, durations, messages as JSON.

The names of Envoy's JSON are the proto names (snake case), as in its documentation.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache, lru_cache
from typing import Any, cast

import betterproto2
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.google import protobuf

from extproc.bootstrap import messages

__all__ = ["extension", "pack", "packed_json", "seconds", "to_json"]

# The library's own snake case would turn `consecutive_5xx` into `consecutive_5_xx`; the fields have the right names as
# they are.
_AS_DECLARED = cast(betterproto2.Casing, str)

# The library looks up all type hints of a class once for each of its fields, a third of the time that the first
# configuration takes. They never change.
_TYPE_HINTS = getattr(betterproto2.Message, "_type_hints", None)
if _TYPE_HINTS is not None:
    betterproto2.Message._type_hints = classmethod(cache(_TYPE_HINTS.__func__))  # type: ignore[arg-type,assignment]

# Importing them registers their type URLs, without which `Any` cannot be shown as JSON.
_ = messages


def pack(message: betterproto2.Message) -> protobuf.Any:
    """The message inside `google.protobuf.Any`."""
    return protobuf.Any.pack(message)


def extension(name: str, message: betterproto2.Message) -> core.TypedExtensionConfig:
    """The message as a named Envoy extension."""
    return core.TypedExtensionConfig(name=name, typed_config=pack(message))


def seconds(value: float) -> timedelta:
    """A number of seconds as Envoy's Duration; 0 means "no limit" wherever this project uses it."""
    return timedelta(seconds=value)


def to_json(message: betterproto2.Message) -> dict[str, Any]:
    """The message as Envoy's JSON."""
    return message.to_dict(casing=_AS_DECLARED)


def packed_json(packed: protobuf.Any) -> dict[str, Any]:
    """A packed message as Envoy's JSON, which is shared: never change it. The library takes milliseconds for each, and
    a changed configuration is mostly the one before."""
    return _packed_json(packed.type_url, packed.value)


@lru_cache(maxsize=1024)
def _packed_json(type_url: str, value: bytes) -> dict[str, Any]:
    return to_json(protobuf.Any(type_url=type_url, value=value))
