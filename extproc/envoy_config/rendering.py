"""Small pieces that every builder of Envoy messages needs: packing into Any, durations, messages as JSON.

The names of Envoy's JSON are the proto names (snake case), as in its documentation.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any, TypeVar, cast

import betterproto2
import msgspec
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.google import protobuf
from envoy_data_plane.message_pool import default_message_pool

from extproc.envoy_config import messages

__all__ = ["extension", "json_text", "pack", "request_header", "seconds", "shown_once", "to_json"]

M = TypeVar("M", bound=betterproto2.Message)

# The library's own snake case would turn `consecutive_5xx` into `consecutive_5_xx`; the fields have the right names as
# they are.
_AS_DECLARED = cast(betterproto2.Casing, str)

# The library looks up all type hints of a class once for each of its fields, a third of the time that the first
# configuration takes. They never change.
_TYPE_HINTS = getattr(betterproto2.Message, "_type_hints", None)
if _TYPE_HINTS is not None:
    betterproto2.Message._type_hints = classmethod(cache(_TYPE_HINTS.__func__))  # type: ignore[arg-type,assignment]

# Importing them registers their type URLs.
_ = messages


class _Packed(protobuf.Any):
    """A packed message that is still at hand, so that showing it as JSON need not serialise and parse it first, which
    is most of the work. What was packed is not changed any more, so one that stands in many places is shown once."""

    _message: betterproto2.Message
    _shown: dict[str, Any] | None = None

    def to_dict(self, **how: Any) -> dict[str, Any]:
        if self._shown is None:
            shown = self._message.to_dict(**how)
            ordinary = type(self._message).to_dict is betterproto2.Message.to_dict
            self._shown = {"@type": self.type_url, **(shown if ordinary else {"value": shown})}
        return self._shown

    def __bytes__(self) -> bytes:
        self.value = bytes(self._message)
        return super().__bytes__()


def pack(message: betterproto2.Message) -> protobuf.Any:
    """The message inside `google.protobuf.Any`."""
    packed = _Packed(type_url=default_message_pool.type_to_url[type(message)])
    packed._message = message
    return packed


def shown_once(message: M) -> M:
    """The message, whose JSON is made now and never again: for a large part that many others hold."""
    shown = to_json(message)
    message.to_dict = lambda **_: shown  # type: ignore[method-assign]
    return message


def extension(name: str, message: betterproto2.Message) -> core.TypedExtensionConfig:
    """The message as a named Envoy extension."""
    return core.TypedExtensionConfig(name=name, typed_config=pack(message))


def request_header(name: str) -> str:
    """Envoy's format for the value of a request header."""
    return f"%REQ({name.upper()})%"


def seconds(value: float) -> timedelta:
    """A number of seconds as Envoy's Duration; 0 means "no limit" wherever this project uses it."""
    return timedelta(seconds=value)


def to_json(message: betterproto2.Message) -> dict[str, Any]:
    """The message as Envoy's JSON. Parts of it may be shared: never change it."""
    return message.to_dict(casing=_AS_DECLARED)


def json_text(content: dict[str, Any]) -> str:
    """Envoy's JSON as the text of a file."""
    return msgspec.json.format(msgspec.json.encode(content), indent=1).decode()
