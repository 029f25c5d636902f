"""Parts that the response encoders of all client APIs share: responses that are not streamed, the estimate of prompt
tokens, and the arguments of a call as an object. Knows no wire format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import msgspec

from extproc.conversation.model import Event

_decode_object: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])


class WholeResponse:
    """The base of the encoders of responses that are not streamed: all bytes come with the Finish."""

    _ended = False

    def encode_events(self, events: Iterable[Event]) -> bytes:
        """b"" until the Finish, then the response."""
        out = b""
        for event in events:
            if self._ended:
                break
            out += self._event(event)
        return out

    def ping(self) -> bytes:
        """b"": a JSON body has no place for a keep-alive."""
        return b""

    def _event(self, event: Event) -> bytes:
        """Handles one event. A Finish or a Failure sets `_ended`."""
        raise NotImplementedError


class Estimate:
    """The estimate of prompt tokens, computed at most once, by `compute`."""

    def __init__(self, compute: Callable[[], int]) -> None:
        self._compute = compute
        self._tokens: int | None = None

    def __call__(self) -> int:
        if self._tokens is None:
            self._tokens = max(0, self._compute())
        return self._tokens


def call_input(arguments: str, at_limit: bool, *, last: bool) -> msgspec.Raw | dict[str, str] | None:
    """The `input` of a call: the provider's own JSON, {} for none.

    `at_limit`: a limit or a filter ended the response. Incomplete arguments are then a truncated call, and so is a
    `last` call without arguments: None, never a shorter call. Otherwise arguments that are not a JSON object are
    wrapped, so that the client sees them and can report the error."""
    if not arguments.strip():
        return None if at_limit and last else {}
    if _is_object(arguments):
        return msgspec.Raw(arguments.encode())
    return None if at_limit else {"INVALID_JSON": arguments}


def _is_object(text: str) -> bool:
    try:
        _decode_object.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return "\\u" in text and _is_object_of_halves(text)
    return True


def _is_object_of_halves(text: str) -> bool:
    """Half of a surrogate pair as an escape is JSON that only the standard library's parser accepts."""
    try:
        return isinstance(json.loads(text, parse_constant=_refuse), dict)
    except (ValueError, RecursionError):
        return False


def _refuse(constant: str) -> None:
    raise ValueError(constant)
