"""What every writer of answers for clients needs: the events of an answer that does not stream, the prompt's estimate,
asked for once, and the arguments of a call as an object.

Called by the answer encoders of the client APIs. Knows no wire format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import msgspec

from extproc.conversation.model import Event

_decode_object: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])


class WholeResponse:
    """Base of the encoders of answers that do not stream: nothing comes out until the Finish, then all of it."""

    _ended = False

    def encode_events(self, events: Iterable[Event]) -> bytes:
        """b"" until the Finish, then the answer."""
        out = b""
        for event in events:
            if self._ended:
                break
            out += self._event(event)
        return out

    def ping(self) -> bytes:
        """A JSON body has no room for one."""
        return b""

    def _event(self, event: Event) -> bytes:
        """One event; the Finish, or a Failure, sets `_ended`."""
        raise NotImplementedError


class Estimate:
    """The prompt estimate, asked for at most once: it costs a run of the tokenizer."""

    def __init__(self, ask: Callable[[], int]) -> None:
        self._ask = ask
        self._tokens: int | None = None

    def __call__(self) -> int:
        if self._tokens is None:
            self._tokens = max(0, self._ask())
        return self._tokens


def call_input(arguments: str, at_limit: bool, *, last: bool) -> msgspec.Raw | dict[str, str] | None:
    """The `input` of a call: the provider's own JSON, {} for none. `at_limit`: a limit or a filter ended the answer;
    then arguments that are not a complete object are a truncated call, and so is a `last` call that has none yet: None,
    never a shorter call. Otherwise arguments that are no JSON object are wrapped, so that the client sees them and can
    complain."""
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
    """Half of a surrogate pair, written as an escape, is JSON that only the standard library's parser reads."""
    try:
        return isinstance(json.loads(text, parse_constant=_refuse), dict)
    except (ValueError, RecursionError):
        return False


def _refuse(constant: str) -> None:
    raise ValueError(constant)
