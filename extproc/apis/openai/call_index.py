"""Which call a fragment of a Chat Completions answer belongs to: by index, by id, by name, or the last one, as
servers differ.

Created by the answer decoder, one per answer. What the fragments of one call amount to is the affair of
`extproc.calls`; this module only opens calls at the sequencer and hands their fragments on.

The same index with another id is a new call (Ollama sends index 0 for all); no index: a new id opens a new call,
without an id it continues the last, unless a name comes after arguments. The name of another offered tool always
begins another call, and so does every entry of one list. Indexes may be sparse or start anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from extproc.apis.openai.chunks import CallDelta
from extproc.blocks import BlockSequencer
from extproc.calls import PendingCall
from extproc.conversation import Failure, Signature
from extproc.limits import Limits

_MOST_FREE_TEXT = Limits().body


class CallIndex:
    """`offered` are the provider-side names of the request's tools; `sign` gives what must come back with a call, by
    its first fragment and the provider's id."""

    __slots__ = ("_by_id", "_by_index", "_free_texts", "_held", "_last", "_legacy", "_offered", "_seq", "_sign")

    def __init__(self, seq: BlockSequencer, offered: frozenset[str] | dict[str, str],
                 sign: Callable[[CallDelta, str | None], Signature | None] = lambda entry, given: None) -> None:
        self._seq = seq
        self._offered = offered
        self._sign = sign
        self._free_texts: list[tuple[PendingCall, list[str]]] = []
        self._held = 0
        self._by_index: dict[int, PendingCall] = {}
        self._by_id: dict[str, PendingCall] = {}
        self._last: PendingCall | None = None
        self._legacy: PendingCall | None = None

    def take(self, entries: Sequence[CallDelta | None], *, whole: bool) -> None:
        """The `tool_calls` of one delta or message. `whole`: each entry is a call of its own."""
        if len(entries) == 1 and not whole:
            if entries[0] is not None:
                self._take(entries[0], [])
            return
        touched: list[PendingCall] = []
        for entry in entries:
            if entry is not None:
                touched.append(self._take(entry, None if whole else touched))

    def legacy(self, name: str | None, arguments: str | None) -> None:
        """The `function_call` of older servers: one call, without an id."""
        if self._legacy is None:
            self._legacy = self._seq.new_call()
        self._seq.call_delta(self._legacy, name, arguments)

    def end(self, clean: bool) -> None:
        """Nothing more comes: the inputs of tools that take free text become the arguments that stand for them. They
        wait for this, as nobody else says where a text ends. `clean`: the last one is whole."""
        waiting, self._free_texts = self._free_texts, []
        for number, (call, pieces) in enumerate(waiting, 1):
            text = msgspec.json.encode({"input": "".join(pieces)}).decode()
            self._seq.call_delta(call, None, text if clean or number < len(waiting) else text.removesuffix('"}'))

    def _take(self, entry: CallDelta, touched: list[PendingCall] | None) -> PendingCall:
        """`touched` are the calls that earlier entries of the same list belong to; None: every entry is new."""
        key, given = _index(entry.index), _id(entry.id)
        name, arguments = entry.function_name, entry.arguments_text
        call = None if touched is None else self._find(key, given, name, arguments)
        if call is not None and name and touched and call in touched and (key is None or given is None):
            call = None
        if call is None:
            call = self._seq.new_call(given, signature=self._sign(entry, given))
            if key is not None:
                self._by_index[key] = call
            if given is not None:
                self._by_id[given] = call
        self._last = call
        self._seq.call_delta(call, name, arguments)
        if entry.custom is not None:
            self._hold(call, entry.free_text or "")
        return call

    def _hold(self, call: PendingCall, text: str) -> None:
        held = next((pieces for known, pieces in self._free_texts if known is call), None)
        if held is None:
            held = []
            self._free_texts.append((call, held))
        held.append(text)
        self._held += len(text)
        if self._held > _MOST_FREE_TEXT:
            self._seq.fail(Failure("server", "The provider sent a tool call with an input of more than "
                                             f"{_MOST_FREE_TEXT} characters."))

    def _find(self, key: int | None, given: str | None, name: str | None,
              arguments: str | None) -> PendingCall | None:
        """The call that goes on; None: another one begins."""
        if key is not None:
            return self._by_position(key, given, name, arguments)
        call = self._last if given is None else self._by_id.get(given)
        if call is None or self._begins_anew(call, name, arguments, anonymous=given is None):
            return None
        return call

    def _by_position(self, key: int, given: str | None, name: str | None,
                     arguments: str | None) -> PendingCall | None:
        call = self._by_index.get(key)
        if call is None or (given is not None and call.id == given):
            return call
        if given is None:
            return None if self._begins_anew(call, name, arguments) else call
        if call.id is None and not self._begins_anew(call, name, arguments):
            call.id = given  # the id came late
            self._by_id[given] = call
            return call
        return self._by_id.get(given)

    def _begins_anew(self, call: PendingCall, name: str | None, arguments: str | None, *,
                     anonymous: bool = False) -> bool:
        """A name after whole arguments, with arguments of its own, begins another call. `anonymous`: nothing but the
        name tells calls apart (neither index nor id); then `{}` is whole and not a stray beginning."""
        if not name:
            return False
        if call.is_other_tool(name, self._offered):
            return True
        if not arguments or arguments.lstrip()[:1] != "{":
            return False
        return (call.whole if anonymous else call.complete) and not (name == call.name and call.repeats(arguments))


def _index(value: object) -> int | None:
    """Some servers write the index as text or as a float."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) else None


def _id(value: object) -> str | None:
    """None for what stands for no id: "", "null", anything but a string or a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value and value != "null" else None
