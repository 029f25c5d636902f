"""Assigns the fragments of a Chat Completions response to tool calls: by index, by id, by name, or to the last call.
Servers differ in all of these.

The response decoder and the pass-through create one per response. `extproc.conversation.pending_call` assembles the
fragments of a call; this module only opens calls at the sequencer and passes their fragments on.

- A known id belongs to its call. A fragment without a name continues the open call at its index whatever its id: some
  servers write a new id into every fragment. After a complete call it is a call without a name, never more arguments of
  the complete one.
- A new id with a name is a new call, even at an index in use (Ollama sends index 0 for all). Two exceptions: the name
  only continues a truncated one (then the ids are joined, too), or the open call has the same name, is in the middle of
  its arguments, and the fragment continues them.
- Without an index, a new id with a name opens a new call. Without an id, the last call continues, unless a name follows
  whole arguments. The name of another offered tool always begins another call, and so does every entry of one list.
- Indexes may have gaps and start anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from extproc.apis.openai.wire_response import CallDelta
from extproc.bounds import Limits
from extproc.conversation.model import Signature
from extproc.conversation.pending_call import PendingCall
from extproc.errors import Failure

_MOST_FREE_TEXT = Limits().body


class CallSink(Protocol):
    """Receives the calls and their fragments: a `BlockSequencer`, or the pass-through's observer."""

    def new_call(self, id: str | None = None, *, signature: Signature | None = None) -> PendingCall: ...

    def call_delta(self, call: PendingCall, name: str | None, arguments: str | None) -> None: ...

    def fail(self, failure: Failure) -> None: ...


class CallIndex:
    """`offered`: the provider-side names of the request's tools. `sign`: gives the signature of a call by its first
    fragment and the provider's id. `free_text`: collect the inputs of custom tools, which take free text."""

    __slots__ = (
        "_by_id",
        "_by_index",
        "_free_text",
        "_free_text_size",
        "_free_texts",
        "_function_call",
        "_last",
        "_offered",
        "_seq",
        "_sign",
    )

    def __init__(self, seq: CallSink, offered: frozenset[str] | dict[str, str],
                 sign: Callable[[CallDelta, str | None], Signature | None] = lambda entry, given: None, *,
                 free_text: bool = True) -> None:
        self._seq = seq
        self._offered = offered
        self._sign = sign
        self._free_text = free_text
        self._free_texts: list[tuple[PendingCall, list[str]]] = []
        self._free_text_size = 0
        self._by_index: dict[int, PendingCall] = {}
        self._by_id: dict[str, PendingCall] = {}
        self._last: PendingCall | None = None
        self._function_call: PendingCall | None = None

    def read_entries(self, entries: Sequence[CallDelta | None], *, whole: bool) -> list[PendingCall | None]:
        """Reads the `tool_calls` of one delta or message. `whole`: each entry is a call of its own. Returns the call of
        each entry, None for an empty entry."""
        if len(entries) == 1 and not whole:
            return [None if entries[0] is None else self._read_entry(entries[0], [])]
        touched: list[PendingCall] = []
        found: list[PendingCall | None] = []
        for entry in entries:
            call = None if entry is None else self._read_entry(entry, None if whole else touched)
            found.append(call)
            if call is not None:
                touched.append(call)
        return found

    def read_function_call(self, name: str | None, arguments: str | None) -> None:
        """Reads the `function_call` of older servers: one call, without an id."""
        if self._function_call is None:
            if not name and not arguments:
                return  # some servers send an empty object with everything
            self._function_call = self._seq.new_call()
        self._seq.call_delta(self._function_call, name, arguments)

    def end(self, clean: bool) -> None:
        """The response ends: the inputs of custom tools become their arguments. Only here is the end of a free text
        known. `clean`: the last input is whole."""
        waiting, self._free_texts = self._free_texts, []
        for number, (call, pieces) in enumerate(waiting, 1):
            text = msgspec.json.encode({"input": "".join(pieces)}).decode()
            self._seq.call_delta(call, None, text if clean or number < len(waiting) else text.removesuffix('"}'))

    def _read_entry(self, entry: CallDelta, touched: list[PendingCall] | None) -> PendingCall | None:
        """`touched`: the calls of earlier entries of the same list; None: every entry is a new call. Returns None for
        an empty entry."""
        key, given = _index(entry.index), _id(entry.id)
        name, arguments = entry.function_name, entry.arguments_text
        if given is None and not name and not arguments and entry.holds_nothing_else:
            return None
        call = None if touched is None else self._find_continued_call(key, given, name, arguments)
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
        if entry.is_custom and self._free_text:
            self._collect_free_text(call, entry.free_text or "")
        return call

    def _collect_free_text(self, call: PendingCall, text: str) -> None:
        held = next((pieces for known, pieces in self._free_texts if known is call), None)
        if held is None:
            held = []
            self._free_texts.append((call, held))
        held.append(text)
        self._free_text_size += len(text)
        if self._free_text_size > _MOST_FREE_TEXT:
            self._seq.fail(Failure("server", "The provider sent a tool call with an input of more than "
                                             f"{_MOST_FREE_TEXT} characters."))

    def _find_continued_call(self, key: int | None, given: str | None, name: str | None,
              arguments: str | None) -> PendingCall | None:
        """The call that the fragment continues; None if another one begins."""
        here = self._last if key is None else self._by_index.get(key)
        if given is None:
            begins = here is None or self._begins_another(here, name, arguments, anonymous=key is None)
            return None if begins else here
        known = here if here is not None and here.id == given else self._by_id.get(given)
        if known is not None and (here is not None or key is None or not name):
            return None if self._begins_another(known, name, arguments) else known
        if here is None:
            return None
        if here.id is None and key is not None:
            if self._begins_another(here, name, arguments):
                return None
            here.id = given  # the id came late
            self._by_id[given] = here
            return here
        return here if self._continues_under(given, here, name, arguments) else None

    def _continues_under(self, given: str, call: PendingCall, name: str | None, arguments: str | None) -> bool:
        """True if a fragment with an unknown id still continues the open call."""
        opens = bool(arguments) and arguments is not None and arguments.lstrip()[:1] == "{"
        if not name:
            return not (opens and call.complete) or call.equals_arguments(arguments or "")
        if call.name_goes_on(name, self._offered):
            if call.complete and opens:
                return False
            if call.id is not None:  # the id was truncated with the name, or grows
                call.id = given if given.startswith(call.id) else call.id + given
                self._by_id[call.id] = call
            return True
        return name == call.name and bool(arguments) and not opens and call.size > 0 and not call.whole

    def _begins_another(self, call: PendingCall, name: str | None, arguments: str | None, *,
                     anonymous: bool = False) -> bool:
        """True if a name after whole arguments, with arguments of its own, begins another call. `anonymous`: only the
        name distinguishes calls (neither index nor id); then `{}` is whole and not a stray beginning."""
        if not name:
            return False
        if call.is_other_tool(name, self._offered):
            return True
        if not arguments or arguments.lstrip()[:1] != "{":
            return False
        repeated = name == call.name and call.equals_arguments(arguments)
        return (call.whole if anonymous else call.complete) and not repeated


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
    """None for values that mean no id: "", "null", anything but a string or a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value and value != "null" else None
