"""Which call a fragment of a Chat Completions answer belongs to: by index, by id, by name, or the last one, as
servers differ.

Created by the answer decoder, one per answer. What the fragments of one call amount to is the affair of
`extproc.calls`; this module only opens calls at the sequencer and hands their fragments on.

The same index with another id is a new call (Ollama sends index 0 for all); no index: a new id opens a new call,
without an id it continues the last, unless a name comes after arguments. The name of another offered tool always
begins another call, and so does every entry of one list. Indexes may be sparse or start anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from extproc.apis.openai.chunks import CallDelta
from extproc.blocks import BlockSequencer
from extproc.calls import PendingCall


class CallIndex:
    """`offered` are the provider-side names of the request's tools."""

    __slots__ = ("_by_id", "_by_index", "_last", "_legacy", "_offered", "_seq")

    def __init__(self, seq: BlockSequencer, offered: frozenset[str] | dict[str, str]) -> None:
        self._seq = seq
        self._offered = offered
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

    def _take(self, entry: CallDelta, touched: list[PendingCall] | None) -> PendingCall:
        """`touched` are the calls that earlier entries of the same list belong to; None: every entry is new."""
        key, given = _index(entry.index), _id(entry.id)
        name, arguments = entry.function_name, entry.arguments_text
        call = None if touched is None else self._find(key, given, name, arguments)
        if call is not None and name and touched and call in touched and (key is None or given is None):
            call = None
        if call is None:
            call = self._seq.new_call(given)
            if key is not None:
                self._by_index[key] = call
            if given is not None:
                self._by_id[given] = call
        self._last = call
        self._seq.call_delta(call, name, arguments)
        return call

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
