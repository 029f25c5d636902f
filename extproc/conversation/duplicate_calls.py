"""Recognises calls of a response that came twice, natively and as text.

Some servers report a call by their API and leave the same call as text beside it (older parsers of vLLM and SGLang); a
client would run it twice. Two native calls alike are two calls, and so are two written ones, as a model may mean that.
The exception: a call that the model wrote into its reasoning and again after it. What was sent is never taken back, so
a call that may be a duplicate waits until it is complete. A written call that the text ended inside of may be the
beginning of a native one; then both are one call.

With `tools.duplicates: drop`, a call that repeats any earlier one is dropped as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Literal

from extproc.conversation.pending_call import DeferredText, PendingCall
from extproc.errors import Failure

Repetition = Literal["duplicate", "repeated"]
"""duplicate: the same call in another form. repeated: the same call again, dropped because of the configuration."""


class DuplicateCallDetector:
    """The calls of one response that were sent.

    `limit`: most characters of arguments that are compared; longer calls neither wait nor count as duplicates. `typed`
    converts the arguments of a tool to the types of its schema: those of a written call have them, but a server that
    reads the text itself may leave `"1"`. `drop_repeated`: also recognise calls that repeat one of the same form.
    """

    __slots__ = ("_drop_repeated", "_in_reasoning", "_limit", "_seen", "_seen_names", "_sent", "_typed")

    def __init__(self, limit: int, typed: Callable[[str, dict[str, object]], dict[str, object]], *,
                 drop_repeated: bool = False) -> None:
        self._limit = limit
        self._drop_repeated = drop_repeated
        self._seen: set[tuple[str, bytes]] = set()
        """(tool, value of the arguments) of every sent call, for `drop_repeated`."""
        self._seen_names: set[str] = set()
        self._typed = typed
        self._sent: dict[tuple[str, bool], list[tuple[bytes, str]]] = {}
        """(tool, call in text?) -> (value, text) of the arguments of each sent call without a duplicate so far."""
        self._in_reasoning: dict[str, list[bytes]] = {}
        """Tool -> values of the calls in reasoning that were sent and not written again after it."""

    def may_be_duplicate(self, name: str, call: PendingCall) -> bool:
        """True if `call`, of which nothing was sent yet, may repeat a sent one."""
        return call.size <= self._limit and (
            (name, call.text_place is None) in self._sent or name in self._seen_names
            or (call.text_place == "after reasoning" and name in self._in_reasoning))

    def check_and_remember(self, name: str, call: PendingCall, repaired: str | None = None) -> Repetition | None:
        """How `call`, which is complete, repeats a sent call; a duplicate uses that call up. None: it is a call of its
        own, and is remembered as sent. `repaired`: its arguments where they differ from those that came."""
        if call.size > self._limit:
            return None
        text = self._with_types(name, call.arguments if repaired is None else repaired)
        if (value := _value(text)) is None:
            return None
        in_text = call.text_place is not None
        others = self._sent.get((name, not in_text), [])
        duplicate = None if call.opened else next((other for other in others if other[0] == value), None)
        if duplicate is not None:
            self._use_up(name, not in_text, duplicate)
            return "duplicate"
        drafts = self._in_reasoning.get(name, [])
        if call.text_place == "after reasoning" and not call.opened and value in drafts:
            drafts.remove(value)
            return "duplicate"
        if self._drop_repeated:
            if not call.opened and (name, value) in self._seen:
                return "repeated"
            self._seen.add((name, value))
            self._seen_names.add(name)
        if call.text_place == "reasoning":
            self._in_reasoning.setdefault(name, []).append(value)
        self._sent.setdefault((name, in_text), []).append((value, text))
        return None

    def find_native(self, name: str, call: PendingCall, deferred: Iterable[PendingCall | DeferredText],
                    repair: Callable[[str, str], str | Failure] | None) -> tuple[PendingCall | None, str] | None:
        """The native call that `call` is the beginning of, and what is missing of its arguments. `call` was read from
        text that ended inside it. The native call is one of `deferred`, or None for one that was sent. None as a
        whole: it is no such beginning."""
        if call.size > self._limit:
            return None
        for sent in () if call.opened else self._sent.get((name, False), ()):
            if rest_of(call.arguments, call.in_string, sent[1]) is not None:
                self._use_up(name, False, sent)
                return None, ""
        for native in deferred:
            if isinstance(native, DeferredText) or native.text_place is not None or native.name != call.name \
                    or not native.whole or native.size > self._limit:
                continue
            whole = native.arguments if repair is None else repair(name, native.arguments)
            rest = None if isinstance(whole, Failure) else rest_of(call.arguments, call.in_string,
                                                                   self._with_types(name, whole))
            if rest is not None:
                return native, rest
        return None

    def _with_types(self, name: str, arguments: str) -> str:
        try:
            value = json.loads(arguments.strip() or "{}")
        except (ValueError, RecursionError):
            return arguments
        typed = self._typed(name, value) if isinstance(value, dict) else value
        return arguments if typed == value else json.dumps(typed, ensure_ascii=False)

    def _use_up(self, name: str, in_text: bool, sent: tuple[bytes, str]) -> None:
        left = self._sent[name, in_text]
        left.remove(sent)
        if not left:
            del self._sent[name, in_text]


def rest_of(sent: str, in_string: bool, whole: str) -> str | None:
    """What is missing of the arguments `whole` after `sent`, the beginning of an object's JSON text that ends after a
    value or inside the string of its last parameter. None: `sent` does not begin `whole`, whatever the order of its
    parameters."""
    try:
        part = json.loads((sent or "{") + ('"' if in_string else "") + "}")
        value = json.loads(whole.strip() or "{}")
    except (ValueError, RecursionError):
        return None
    if not isinstance(part, dict) or not isinstance(value, dict) or not part.keys() <= value.keys():
        return None
    rest = ""
    last = next(reversed(part), None)
    for key, had in part.items():
        wanted = value.pop(key)
        if in_string and key == last and isinstance(had, str) and isinstance(wanted, str) and wanted.startswith(had):
            rest = json.dumps(wanted[len(had):], ensure_ascii=False)[1:]
        elif _value(json.dumps(had)) != _value(json.dumps(wanted)):
            return None
    more = ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(had, ensure_ascii=False)}"
                     for key, had in value.items())
    opening = ("{" if not sent else ", " if part else "") if more or not sent else ""
    return rest + opening + more + "}"


def _value(arguments: str) -> bytes | None:
    """A hash of the value of a JSON text, whatever its order and white space; None if it is not JSON."""
    try:
        value = json.loads(arguments.strip() or "{}", parse_float=_number)
        return blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=16).digest()
    except (ValueError, RecursionError):
        return None


def _number(text: str) -> float | int:
    """`2.0` and `2` are one value."""
    number = float(text)
    return int(number) if number.is_integer() else number
