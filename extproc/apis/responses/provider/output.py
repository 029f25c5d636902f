"""The output items of one response, put in order and written to the block sequencer.

A stream may interleave items by `output_index`. The first open item is written as its deltas come; what comes for the
others waits until it is done. `response.output_item.done` holds the whole item and ends it: whatever its deltas left
out is written then, so a stream without deltas works as well. The terminal event repeats all items; those that came
already are skipped. Created by the response decoder, one per response.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Literal, Protocol

import msgspec

from extproc.apis.responses.wire_response import (
    CUSTOM_TOOL_CALL,
    FUNCTION_CALL,
    MESSAGE,
    REASONING,
    OutputItem,
    ResponseEvent,
)
from extproc.bounds import Limits
from extproc.conversation.pending_call import PendingCall, is_json_object
from extproc.conversation.sequencer import BlockSequencer
from extproc.errors import Failure

_MOST_WAITING = Limits().sse_line
"""Characters of items that wait for an earlier one."""
_PARAGRAPH = "\n\n"

DeltaKind = Literal["text", "refusal", "summary", "content", "arguments", "input"]
"""Which field of an item a delta continues."""

_ITEM_OF: dict[DeltaKind, str] = {"text": MESSAGE, "refusal": MESSAGE, "summary": REASONING, "content": REASONING,
                                  "arguments": FUNCTION_CALL, "input": CUSTOM_TOOL_CALL}


class Sink(Protocol):
    """What the response decoder offers to the items."""

    seq: BlockSequencer

    def write_text(self, text: str) -> None: ...

    def write_reasoning(self, text: str) -> None: ...

    def begin_call(self) -> None:
        """Called before a call begins: text that waits for a marker is written."""

    def sign(self, encrypted: str) -> None:
        """Called with the encrypted content of a reasoning item at its end."""

    def flat_name(self, namespace: str, name: str) -> str:
        """The name under which a member of a namespace was offered."""

    def lose(self, kind: str) -> None:
        """Called with the type of an item that has no place in a response."""


class _Delta(msgspec.Struct, frozen=True):
    kind: DeltaKind
    text: str
    part: int


class _Item:
    """One item: what is known of it, and how much of it was written."""

    __slots__ = ("call", "done", "head", "held", "kind", "last_part", "last_written", "source", "waiting", "written")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.head: OutputItem | None = None
        """The item as it began: id and name of a call."""
        self.done: OutputItem | None = None
        """The whole item."""
        self.waiting: list[_Delta] = []
        self.held = 0
        """Characters of it that wait."""
        self.written = 0
        """Characters of the item's text, arguments or input that were written."""
        self.last_written = ""
        """The last piece of them. A response may be long: it is not kept."""
        self.last_part = 0
        self.source: DeltaKind | None = None
        """Where the text of reasoning comes from: its summary or its content."""
        self.call: PendingCall | None = None

    def rest_of(self, whole: str) -> str:
        """What was not written yet. "" if `whole` is another text: then the deltas count."""
        start = self.written - len(self.last_written)
        return whole[self.written:] if whole.startswith(self.last_written, start) else ""


class OutputItems:
    """All items of a response."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._seq = sink.seq
        self._items: dict[int, _Item] = {}
        """Those that are not written yet, by `output_index` or by order of arrival."""
        self._order: list[int] = []
        """A heap of their indexes, without that of the active one."""
        self._active: int | None = None
        """The item that is being written."""
        self._written: set[int] = set()
        self._by_id: dict[str, int] = {}
        self._named: set[int] = set()
        """The indexes of items with a known id."""
        self._next = 0
        """The index of a further item that names none."""
        self._waiting_size = 0
        """Characters that wait for an earlier item."""
        self._last_kind = ""
        self.refused = False
        """A refusal came."""

    # --------------------------------------------------------------------------------------------------- what arrives

    def add(self, event: ResponseEvent) -> None:
        """`response.output_item.added`."""
        if event.item is None:
            return
        item = self._item(self._index_of(event, event.item.id, new=True), event.item.kind)
        if item is not None and item.head is None:
            item.head = event.item
            self._write_active()

    def delta(self, kind: DeltaKind, event: ResponseEvent, part: object) -> None:
        """A piece of an item. `part`: the index of the part within the item."""
        if not isinstance(event.delta, str) or not event.delta:
            return
        index = self._index_of(event, event.item_id, kind=_ITEM_OF[kind])
        item = self._item(index, _ITEM_OF[kind])
        if item is None or item.done is not None:
            return
        delta = _Delta(kind, event.delta, part if isinstance(part, int) else 0)
        if index == self._active and not item.waiting and self._is_writable(item):
            self._write_delta(item, delta)
            return
        item.waiting.append(delta)
        if self._hold(item, len(delta.text)):
            self._write_active()

    def finish(self, event: ResponseEvent) -> None:
        """`response.output_item.done`."""
        if event.item is not None:
            kind = event.item.kind
            self._finish_item(self._index_of(event, event.item.id, kind=kind), kind, event.item)

    def finish_all(self, output: list[OutputItem | None] | None) -> None:
        """The response is complete. `output`: all of its items, as far as the terminal event has them. Items that are
        not done by then are written as far as they came."""
        for index, whole in enumerate(output or ()):
            if whole is not None and not self._seq.closed:
                self._finish_item(self._by_id.get(_text(whole.id), index), whole.kind, whole)
        while self._active is not None and not self._seq.closed:
            item = self._items[self._active]
            for delta in item.waiting:
                self._write_delta(item, delta)
            self._write_next()
            self._write_active()

    def _finish_item(self, index: int, kind: str, whole: OutputItem) -> None:
        item = self._item(index, kind)
        if item is None or item.done is not None:
            return
        item.done = whole
        if index == self._active or self._hold(item, whole.size):
            self._write_active()

    def _hold(self, item: _Item, characters: int) -> bool:
        """So many characters of the item wait. False: too many wait, and the response has failed."""
        item.held += characters
        self._waiting_size += characters
        if self._waiting_size > _MOST_WAITING:
            self._seq.fail(Failure("server", "The provider interleaved more output items than can be held back."))
        return not self._seq.closed

    def _release(self, item: _Item) -> None:
        self._waiting_size -= item.held
        item.held = 0

    # ------------------------------------------------------------------------------------------------------- the order

    def _index_of(self, event: ResponseEvent, item_id: object, *, kind: str = "", new: bool = False) -> int:
        """The index of the item that an event belongs to. Some servers leave the index out, or the id, or both: then
        the open item of the same kind is meant."""
        name = _text(item_id)
        index = event.output_index if isinstance(event.output_index, int) else self._by_id.get(name)
        if index is None and not new:
            index = next((at for at, item in sorted(self._items.items()) if item.kind == kind and item.done is None
                          and not (name and at in self._named)), None)
        if index is None:
            index = self._next
        if name:
            self._by_id[name] = index
            self._named.add(index)
        return index

    def _item(self, index: int, kind: str) -> _Item | None:
        """The item; None if it was written already."""
        item = self._items.get(index)
        if item is not None or index in self._written:
            return item
        self._next = max(self._next, index + 1)
        item = self._items[index] = _Item(kind)
        if self._active is None:
            self._activate(index)
        else:
            heappush(self._order, index)
        return item

    def _activate(self, index: int) -> None:
        self._active = index
        if self._items[index].kind == MESSAGE and self._last_kind == MESSAGE:
            self._sink.write_text(_PARAGRAPH)  # commentary, then the answer

    def _write_active(self) -> None:
        """Writes what waits, as far as the order allows."""
        while self._active is not None and not self._seq.closed:
            item = self._items[self._active]
            if item.waiting and self._is_writable(item):
                for delta in item.waiting:
                    self._write_delta(item, delta)
                item.waiting = []
                self._release(item)
            if item.done is None:
                return
            self._write_rest(item, item.done)
            self._write_next()

    def _write_next(self) -> None:
        """The active item is written: the next one becomes active. Nothing of it is kept but its index."""
        assert self._active is not None
        item = self._items.pop(self._active)
        self._release(item)
        self._written.add(self._active)
        self._last_kind = item.kind
        self._active = None
        if self._order:
            self._activate(heappop(self._order))

    # ------------------------------------------------------------------------------------------------------- one item

    def _is_writable(self, item: _Item) -> bool:
        """True unless it is a call whose name is not known yet."""
        return item.kind not in (FUNCTION_CALL, CUSTOM_TOOL_CALL) or item.head is not None or item.done is not None

    def _write_delta(self, item: _Item, delta: _Delta) -> None:
        text = delta.text
        if delta.kind == "text":
            self._sink.write_text(text)
        elif delta.kind == "refusal":
            self.refused = True
            self._sink.write_text(text)
        elif item.kind == REASONING:
            item.source = item.source or delta.kind
            if item.source != delta.kind or not text:
                return  # the same reasoning in the other form, or an empty part, which is no paragraph
            if delta.part > item.last_part and item.written:
                text = _PARAGRAPH + text
            item.last_part = delta.part
            self._sink.write_reasoning(text)
        else:
            self._write_call(item, text)
        item.written += len(text)
        item.last_written = text

    def _write_rest(self, item: _Item, whole: OutputItem) -> None:
        """Writes what the deltas left out, and ends the item."""
        if item.kind == MESSAGE:
            self.refused = self.refused or whole.refuses
            rest = item.rest_of("".join(whole.texts("content", "output_text", "refusal", "text")))
            if rest:
                self._sink.write_text(rest)
        elif item.kind == REASONING:
            self._write_rest_of_reasoning(item, whole)
        elif item.kind in (FUNCTION_CALL, CUSTOM_TOOL_CALL):
            self._end_call(item, whole)
        elif item.kind:
            self._sink.lose(item.kind)

    def _write_rest_of_reasoning(self, item: _Item, whole: OutputItem) -> None:
        summary, content = whole.texts("summary", "summary_text"), whole.texts("content", "reasoning_text", "text")
        texts = content if item.source == "content" or not summary else summary
        rest = item.rest_of(_PARAGRAPH.join(filter(None, texts)))
        if rest:
            self._sink.write_reasoning(rest)
        if isinstance(whole.encrypted_content, str) and whole.encrypted_content:
            self._sink.sign(whole.encrypted_content)

    # ---------------------------------------------------------------------------------------------------------- calls

    def _open_call(self, item: _Item) -> PendingCall:
        """Begins the call. Its id and name come with the item's first event, else with its last one."""
        if item.call is None:
            self._sink.begin_call()
            said = item.head or item.done or OutputItem()
            whole = item.done or said
            item.call = self._seq.new_call(_text(said.call_id) or _text(whole.call_id) or None)
            name = said.tool_name or whole.tool_name
            namespace = _text(said.namespace) or _text(whole.namespace)
            self._seq.call_delta(item.call, self._sink.flat_name(namespace, name) if namespace else name, None)
            if item.kind == CUSTOM_TOOL_CALL:
                self._seq.call_delta(item.call, None, '{"input":"')
        return item.call

    def _write_call(self, item: _Item, text: str) -> None:
        """A piece of the arguments, or of a custom tool's free text, which is a string in the conversation's
        arguments."""
        call = self._open_call(item)
        self._seq.call_delta(call, None, _escaped(text) if item.kind == CUSTOM_TOOL_CALL else text)

    def _end_call(self, item: _Item, whole: OutputItem) -> None:
        """A call of status `incomplete` whose arguments are no whole JSON stays truncated: no client may run it."""
        text = _text(whole.input) if item.kind == CUSTOM_TOOL_CALL else _arguments(whole.arguments)
        call = self._open_call(item)
        rest = item.rest_of(text)
        if rest:
            self._write_call(item, rest)
        if self._seq.closed:
            return
        if item.kind == CUSTOM_TOOL_CALL:
            if whole.status == "incomplete":
                return
            self._seq.call_delta(call, None, '"}')
        if whole.status == "incomplete" and not is_json_object(call.arguments):
            return
        self._seq.end_call(call)


def _escaped(text: str) -> str:
    """The text inside of a JSON string."""
    return msgspec.json.encode(text).decode()[1:-1]


def _arguments(value: object) -> str:
    """Arguments are JSON text; some servers send the object itself."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
