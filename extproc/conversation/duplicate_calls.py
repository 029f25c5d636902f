"""One call that came twice, natively and as text: which of the calls of an answer repeat one that went out.

Some servers tell a call by their API and leave the same call as text beside it (older parsers of vLLM and SGLang). A
client would run it twice. The sequencer asks here; two native calls alike are two, and so are two written ones, as a
model may well mean that, unless the model wrote one of them into its reasoning and closed it. What went out is never
taken back, so a call that may be a repetition waits until it is whole.
A written call whose text ran out may be the beginning of a native one: then both are that one.

Where the configuration wants it (`tools.duplicates: drop`), a call that repeats any earlier one is one as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Literal

from extproc.conversation.deferred_text import DeferredText
from extproc.conversation.pending_call import PendingCall
from extproc.errors import Failure

Repetition = Literal["twin", "repeated"]


class DuplicateCallDetector:
    """The calls of one answer that went out and have not been repeated. `limit`: most characters of arguments that are
    compared; longer ones need not wait, and are never taken for a repetition. `typed` gives the arguments of a tool
    their schema's types: those of a written call have them, a server that reads the text itself may leave `"1"`.
    `drop_repeated`: two calls alike of one way are one, too."""

    __slots__ = ("_in_reasoning", "_limit", "_seen", "_seen_names", "_sent", "_typed", "drop_repeated")

    def __init__(self, limit: int, typed: Callable[[str, dict[str, object]], dict[str, object]], *,
                 drop_repeated: bool = False) -> None:
        self._limit = limit
        self.drop_repeated = drop_repeated
        self._seen: set[tuple[str, bytes]] = set()
        self._seen_names: set[str] = set()
        """Every call that went out, where repeated ones are dropped."""
        self._typed = typed
        self._sent: dict[tuple[str, bool], list[tuple[bytes, str]]] = {}
        """By the tool's name and whether they were written."""
        self._in_reasoning: dict[str, list[bytes]] = {}
        """Written calls from the reasoning that went out and have not been written again behind it."""

    def awaits(self, name: str, call: PendingCall) -> bool:
        """Whether `call`, of which nothing went out yet, may turn out to be a repetition."""
        return call.size <= self._limit and (
            (name, call.written is None) in self._sent or name in self._seen_names
            or (call.written == "behind reasoning" and name in self._in_reasoning))

    def repeats(self, name: str, call: PendingCall, healed: str | None = None) -> Repetition | None:
        """Whether `call`, which is whole, repeats one that went out the other way ("twin"); that one is used up by it.
        Or any other that went out ("repeated"), where such calls are dropped. Else it goes out itself, and is
        remembered. `healed`: its arguments, where they are not sent as they came."""
        if call.size > self._limit:
            return None
        text = self._with_types(name, call.arguments if healed is None else healed)
        if (value := _value(text)) is None:
            return None
        written = call.written is not None
        others = self._sent.get((name, not written), [])
        twin = None if call.opened else next((other for other in others if other[0] == value), None)
        if twin is not None:
            self._use_up(name, not written, twin)
            return "twin"
        drafts = self._in_reasoning.get(name, [])
        if call.written == "behind reasoning" and not call.opened and value in drafts:
            drafts.remove(value)
            return "twin"
        if self.drop_repeated:
            if not call.opened and (name, value) in self._seen:
                return "repeated"
            self._seen.add((name, value))
            self._seen_names.add(name)
        if call.written == "reasoning":
            self._in_reasoning.setdefault(name, []).append(value)
        self._sent.setdefault((name, written), []).append((value, text))
        return None

    def begun(self, name: str, call: PendingCall, waiting: Iterable[PendingCall | DeferredText],
              heal: Callable[[str, str], str | Failure] | None) -> tuple[PendingCall | None, str] | None:
        """`call` is written, and its text ran out: the native call that it is the beginning of, one of `waiting` or
        (None) one that went out, and what is missing of its arguments. None: it is no such beginning."""
        if call.size > self._limit:
            return None
        for sent in () if call.opened else self._sent.get((name, False), ()):
            if rest_of(call.arguments, call.in_string, sent[1]) is not None:
                self._use_up(name, False, sent)
                return None, ""
        for native in waiting:
            if isinstance(native,
                          DeferredText) or native.written is not None or native.name != call.name or not native.whole \
                    or native.size > self._limit:
                continue
            whole = native.arguments if heal is None else heal(name, native.arguments)
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

    def _use_up(self, name: str, written: bool, sent: tuple[bytes, str]) -> None:
        left = self._sent[name, written]
        left.remove(sent)
        if not left:
            del self._sent[name, written]


def rest_of(sent: str, in_string: bool, whole: str) -> str | None:
    """What is missing of the arguments `whole` behind `sent`, the JSON text of an object so far, which ends behind a
    value or inside the string of its last parameter. None: `sent` is not how they begin, in any order."""
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
    """The same for two JSON texts of one value, whatever their order and white space; None when it is not JSON."""
    try:
        value = json.loads(arguments.strip() or "{}", parse_float=_number)
        return blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=16).digest()
    except (ValueError, RecursionError):
        return None


def _number(text: str) -> float | int:
    """`2.0` and `2` are one value."""
    number = float(text)
    return int(number) if number.is_integer() else number
