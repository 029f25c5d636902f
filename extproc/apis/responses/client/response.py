"""Events of the conversation model -> the events of a Responses stream, and the response object that ends it.

The grammar (each name begins with `response.`):

    stream    := created in_progress item* (completed | incomplete | failed)
    item      := output_item.added body output_item.done
    message   := (content_part.added (output_text.delta* output_text.done | refusal.delta refusal.done)
                  content_part.done)+
    reasoning := [reasoning_summary_part.added reasoning_summary_text.delta* reasoning_summary_text.done
                  reasoning_summary_part.done]
    call      := (function_call_arguments | custom_tool_call_input).delta* .done, or nothing

Items never overlap, `sequence_number` has no gaps, and the last item lacks its end only where the response is
incomplete or failed in the middle of it: Codex runs a call as soon as its `output_item.done` is there. Neighbouring
blocks of text are one message, because clients take the last message for the answer. Reasoning is always sent with its
`encrypted_content` (`envelopes`), and shown only if the client asked for it.

`created_at` is always 0: the core has no clock, and the same response is the same bytes. The encoder runs for every
event of every response, so a delta costs one lookup, one JSON string and one concatenation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from extproc.apis.responses.client.calls import OpenCall, ToolIndex, open_call
from extproc.apis.responses.client.envelopes import pack_summary, pack_thinking
from extproc.apis.responses.client.errors import stream_error
from extproc.apis.responses.client.request import ResponsesRequest
from extproc.apis.responses.wire_response import write_usage
from extproc.apis.shared.client_responses import Estimate, WholeResponse
from extproc.conversation.model import (
    ArgumentsDelta,
    BlockStop,
    Citations,
    Event,
    Finish,
    FinishReason,
    RedactedThinking,
    Request,
    SignatureDelta,
    Start,
    TextDelta,
    TextStart,
    Thinking,
    ThinkingDelta,
    ThinkingStart,
    ToolCallStart,
    Usage,
)
from extproc.errors import Failure

CREATED = 0
REFUSED = "The model refused to answer."
"""The text of a refusal that the provider did not explain."""

_INCOMPLETE: dict[FinishReason, str] = {
    "length": "max_output_tokens", "context_length": "max_output_tokens", "content_filter": "content_filter"}
"""Why a response is incomplete. With all other finish reasons it is completed."""

_DEFAULTS: dict[str, object] = {
    "instructions": None, "metadata": {}, "tools": [], "tool_choice": "auto", "parallel_tool_calls": True,
    "temperature": None, "top_p": None, "max_output_tokens": None, "reasoning": {"effort": None, "summary": None},
    "text": {"format": {"type": "text"}}, "truncation": "disabled", "service_tier": "default", "user": None}
"""Members of the response object that repeat the request, where the request does not have them."""

_encode = msgspec.json.Encoder().encode

Fields = dict[str, object]


class EventEncoder:
    """Writes a stream of server-sent events."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, request: Request, message_id: str, prompt_estimate: Callable[[], int]) -> None:
        own = request if isinstance(request, ResponsesRequest) else None
        self._base = message_id.removeprefix("msg_")
        self._model = request.model
        self._echo: dict[str, msgspec.Raw] = own.echo if own is not None else {}
        self._shows_reasoning = own is not None and own.summary is not None
        self._compacts = own is not None and own.compaction
        self._tools = ToolIndex(request.tools)
        self._estimate = Estimate(prompt_estimate)
        self._number = 0    # of the next event
        self._started = False
        self._ended = False
        self._items: list[msgspec.Raw] = []     # the items that are done
        self._open: _OpenItem | None = None
        self._pieces: list[str] = []    # the texts of the open block
        self._delta: type | None = None     # the delta event with a fast path, and the bytes around its number and text
        self._before = self._between = self._after = b""

    # ---------------------------------------------------------------------------------------------------- the interface

    def encode_events(self, events: Iterable[Event]) -> bytes:
        """The bytes of these events; the same bytes however the events are grouped."""
        out: list[bytes] = []
        for event in events:
            kind = type(event)
            if kind is self._delta:
                text = event.json if kind is ArgumentsDelta else event.text  # type: ignore[union-attr]
                if text:
                    self._pieces.append(text)
                    out += (self._before, b"%d" % self._number, self._between, _encode(text), self._after)
                    self._number += 1
            elif not self._ended:
                out.append(self._other_event(event))
        return b"".join(out)

    def ping(self) -> bytes:
        """An event of data: Codex does not count comments as life."""
        if self._ended:
            return b""
        start = b"" if self._started else self._start()
        return start + self._event("keepalive", {})

    def response_object(self, status: str, *, usage: Usage | None = None, error: object = None,
                        incomplete: str | None = None) -> Fields:
        """The response with the items that are done."""
        echo = {name: self._echo.get(name, default) for name, default in _DEFAULTS.items()}
        return {
            "id": f"resp_{self._base}", "object": "response", "created_at": CREATED, "status": status,
            "background": False, "error": error,
            "incomplete_details": None if incomplete is None else {"reason": incomplete},
            "model": self._model, "output": self._items, "previous_response_id": None, "store": False, **echo,
            **{name: value for name, value in self._echo.items() if name not in _DEFAULTS},
            "usage": None if usage is None else self._usage(usage)}

    def _usage(self, usage: Usage) -> Fields:
        """A provider's prompt of 0 tokens counts as missing: the estimate is used."""
        prompt = usage.input if usage.input > 0 else self._estimate()
        return write_usage(Usage(prompt, max(0, usage.output), max(0, usage.cached), max(0, usage.cache_write),
                                 max(0, usage.reasoning)))

    # --------------------------------------------------------------------------------------------- conversation events

    def _other_event(self, event: Event) -> bytes:
        match event:
            case Start():
                return b"" if self._started else self._start()
            case Finish():
                return self._finish(event)
            case Failure():
                return self._fail(event)
            case TextDelta() | ThinkingDelta() | ArgumentsDelta():
                return self._first_delta(event)
            case _ if self._compacts:
                return b""
            case TextStart():
                return self._start_text()
            case ThinkingStart():
                return self._close() + self._begin(_OpenItem("reasoning", "rs"))
            case SignatureDelta():
                if self._open is not None:
                    self._open.signature = event.signature
                return b""
            case RedactedThinking():
                return self._close() + self._begin(_OpenItem("reasoning", "rs", redacted=event.data))
            case ToolCallStart():
                return self._start_call(event)
            case BlockStop():
                return self._stop_block()
            case Citations():
                return b""  # not asked for (`Request.cites`)
            case _:
                raise ValueError(f"{type(event).__name__} is not allowed here")

    def _start(self) -> bytes:
        self._started = True
        response = _encode(self.response_object("in_progress"))
        return self._raw_event("response.created", b',"response":%b' % response) + self._raw_event(
            "response.in_progress", b',"response":%b' % response)

    def _begin(self, item: _OpenItem) -> bytes:
        """A block that is announced with its first content: an empty one is none."""
        self._open = item
        self._pieces = []
        self._delta = None
        return b""

    def _start_text(self) -> bytes:
        if self._open is not None and self._open.kind == "message":
            if self._open.announced:
                self._delta = TextDelta
            return b""
        return self._close() + self._begin(_OpenItem("message", "msg"))

    def _start_call(self, event: ToolCallStart) -> bytes:
        closed = self._close()
        call = open_call(self._tools, event)
        item = _OpenItem(call.item_type, call.id_prefix, call=call)
        self._begin(item)
        added = self._announce(item, call.item(self._item_id(item), "in_progress", empty=True))
        if type(call) is OpenCall:
            self._take_fast_path(ArgumentsDelta, call.delta_event, b"", b"")
        elif call.delta_event:
            self._prepare_delta(call.delta_event, b"", b"")
        return closed + added

    def _first_delta(self, event: TextDelta | ThinkingDelta | ArgumentsDelta) -> bytes:
        """A delta without a fast path: the first one of a block, one that is not shown, a piece of a custom tool's
        call."""
        text = event.json if isinstance(event, ArgumentsDelta) else event.text
        if self._compacts:
            if isinstance(event, TextDelta):
                self._pieces.append(text)
            return b""
        item = self._open
        if not text or item is None:
            return b""
        if item.call is not None:
            delta = item.call.feed(text)
            return self._delta_event(delta) if delta else b""
        if item.kind == "message":
            out = self._announce_message(item) + self._event_of_part("response.content_part.added", part={
                "type": "output_text", "text": "", "annotations": [], "logprobs": []})
            self._take_fast_path(TextDelta, "response.output_text.delta", b',"content_index":0', b',"logprobs":[]')
            return out + self.encode_events([event])
        if not self._shows_reasoning:
            self._pieces.append(text)
            return b""
        out = self._announce_reasoning(item) + self._content_event("response.reasoning_summary_part.added", {
            "summary_index": 0, "part": {"type": "summary_text", "text": ""}})
        self._take_fast_path(ThinkingDelta, "response.reasoning_summary_text.delta", b',"summary_index":0', b"")
        return out + self.encode_events([event])

    def _stop_block(self) -> bytes:
        """Text may go on in the next block. A call with incomplete arguments waits for the finish reason: it may have
        been cut off."""
        item = self._open
        self._delta = None
        if item is None or item.kind == "message":
            return b""
        if item.call is not None:
            self._hand_over_pieces(item.call)
            if not item.call.is_complete:
                return b""
        return self._close()

    def _hand_over_pieces(self, call: OpenCall) -> None:
        """The pieces of the fast path."""
        pieces, self._pieces = self._pieces, []
        for piece in pieces:
            call.feed(piece)

    # ---------------------------------------------------------------------------------------------------- items

    def _item_id(self, item: _OpenItem) -> str:
        return f"{item.id_prefix}_{self._base}_{len(self._items)}"

    def _announce(self, item: _OpenItem, fields: Fields) -> bytes:
        item.announced = True
        return self._event("response.output_item.added", {"output_index": len(self._items), "item": fields})

    def _announce_message(self, item: _OpenItem) -> bytes:
        return self._announce(item, {"id": self._item_id(item), "type": "message", "status": "in_progress",
                                     "role": "assistant", "content": []})

    def _announce_reasoning(self, item: _OpenItem) -> bytes:
        return self._announce(item, {"id": self._item_id(item), "type": "reasoning", "status": "in_progress",
                                     "summary": []})

    def _close(self, *, status: str = "completed", refusal: str | None = None) -> bytes:
        """Ends the open item."""
        item, self._delta = self._open, None
        if item is None:
            return b""
        if item.call is not None:
            out, fields = self._end_call(item, item.call)
        elif item.kind == "message":
            out, fields = self._end_message(item, status, refusal)
        else:
            out, fields = self._end_reasoning(item)
        self._open = None
        return out + self._add_item(fields) if fields else b""

    def _add_item(self, fields: Fields) -> bytes:
        data = _encode(fields)
        out = self._raw_event("response.output_item.done", b',"output_index":%d,"item":%b' % (len(self._items), data))
        self._items.append(msgspec.Raw(data))
        return out

    def _end_call(self, item: _OpenItem, call: OpenCall) -> tuple[bytes, Fields]:
        self._hand_over_pieces(call)
        delta = call.finish()
        out = self._content_event(call.delta_event, {"delta": delta}) if delta else b""
        done = call.done_event()
        if done is not None:
            out += self._content_event(*done)
        return out, call.item(self._item_id(item), "completed")

    def _end_message(self, item: _OpenItem, status: str, refusal: str | None) -> tuple[bytes, Fields]:
        out, content = b"", []
        text = "".join(self._pieces)
        if text:
            part: Fields = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            content.append(part)
            out += self._content_event("response.output_text.done", {"content_index": 0, "text": text, "logprobs": []})
            out += self._event_of_part("response.content_part.done", part=part)
        if refusal:
            if not item.announced:
                out += self._announce_message(item)
            index, part = len(content), {"type": "refusal", "refusal": refusal}
            content.append(part)
            out += self._event_of_part("response.content_part.added", index, {"type": "refusal", "refusal": ""})
            out += self._content_event("response.refusal.delta", {"content_index": index, "delta": refusal})
            out += self._content_event("response.refusal.done", {"content_index": index, "refusal": refusal})
            out += self._event_of_part("response.content_part.done", index, part)
        if not content:
            return b"", {}
        return out, {"id": self._item_id(item), "type": "message", "status": status, "role": "assistant",
                     "content": content}

    def _end_reasoning(self, item: _OpenItem) -> tuple[bytes, Fields]:
        text = "".join(self._pieces)
        if not (text or item.signature or item.redacted):
            return b"", {}
        out = b"" if item.announced else self._announce_reasoning(item)
        summary: list[Fields] = []
        if text and self._shows_reasoning:
            part: Fields = {"type": "summary_text", "text": text}
            summary.append(part)
            out += self._content_event("response.reasoning_summary_text.done", {"summary_index": 0, "text": text})
            out += self._content_event("response.reasoning_summary_part.done", {"summary_index": 0, "part": part})
        block = Thinking(text, signature=item.signature, redacted=item.redacted)
        return out, {"id": self._item_id(item), "type": "reasoning", "status": "completed", "summary": summary,
                     "encrypted_content": pack_thinking(block)}

    # ---------------------------------------------------------------------------------------------------- the end

    def _finish(self, event: Finish) -> bytes:
        self._delta = None
        out = b"" if self._started else self._start()
        incomplete = _INCOMPLETE.get(event.reason)
        if self._compacts:
            out += self._end_compaction()
        elif incomplete is not None:
            out += self._end_cut_item()
        else:
            out += self._end_last_item(event)
        self._ended = True
        status = "completed" if incomplete is None else "incomplete"
        response = self.response_object(status, usage=event.usage, incomplete=incomplete)
        return out + self._event(f"response.{status}", {"response": response})

    def _end_last_item(self, event: Finish) -> bytes:
        refusal = None
        if event.reason == "refusal":
            refusal = (event.refusal.explanation if event.refusal is not None else "") or REFUSED
            if self._open is None or self._open.kind != "message":
                out = self._close()
                self._begin(_OpenItem("message", "msg"))
                return out + self._close(refusal=refusal)
        return self._close(refusal=refusal)

    def _end_cut_item(self) -> bytes:
        """A call that may have been cut off has no end."""
        call = self._open.call if self._open is not None else None
        if call is not None:
            self._hand_over_pieces(call)
            if not call.is_complete:
                self._open = None
                return b""
        return self._close(status="incomplete")

    def _end_compaction(self) -> bytes:
        text, self._pieces = "".join(self._pieces).strip(), []
        if not text:
            return b""
        item = _OpenItem("compaction", "cmp")
        fields: Fields = {"id": self._item_id(item), "type": "compaction", "encrypted_content": pack_summary(text)}
        return self._announce(item, fields) + self._add_item(fields)

    def _fail(self, failure: Failure) -> bytes:
        """What is open stays open: a half call must not run."""
        out = b"" if self._started else self._start()
        self._ended, self._delta = True, None
        response = self.response_object("failed", error=stream_error(failure))
        return out + self._event("response.failed", {"response": response})

    # ---------------------------------------------------------------------------------------------------- the bytes

    def _event(self, name: str, fields: Fields) -> bytes:
        rest = _encode(fields)
        return self._raw_event(name, b"," + rest[1:-1] if len(rest) > 2 else b"")

    def _raw_event(self, name: str, rest: bytes) -> bytes:
        number, self._number = self._number, self._number + 1
        return b'event: %b\ndata: {"type":"%b","sequence_number":%d%b}\n\n' % (name.encode(), name.encode(), number,
                                                                             rest)

    def _content_event(self, name: str, fields: Fields) -> bytes:
        """An event inside the open item."""
        assert self._open is not None
        return self._event(name, {"item_id": self._item_id(self._open), "output_index": len(self._items), **fields})

    def _delta_event(self, text: str) -> bytes:
        number, self._number = self._number, self._number + 1
        return b"%b%d%b%b%b" % (self._before, number, self._between, _encode(text), self._after)

    def _event_of_part(self, name: str, index: int = 0, part: Fields | None = None) -> bytes:
        return self._content_event(name, {"content_index": index, "part": part})

    def _take_fast_path(self, delta: type, name: str, index: bytes, tail: bytes) -> None:
        """The deltas that follow are this event. `index`, `tail`: members before and behind the text."""
        self._delta = delta
        self._prepare_delta(name, index, tail)

    def _prepare_delta(self, name: str, index: bytes, tail: bytes) -> None:
        """The bytes around the number and the text of a delta."""
        assert self._open is not None
        wire = name.encode()
        self._before = b'event: %b\ndata: {"type":"%b","sequence_number":' % (wire, wire)
        self._between = b',"item_id":%b,"output_index":%d%b,"delta":' % (
            _encode(self._item_id(self._open)), len(self._items), index)
        self._after = tail + b"}\n\n"


class _OpenItem(msgspec.Struct):
    """The item that is being written. `announced`: its first event was sent."""

    kind: str
    id_prefix: str
    call: OpenCall | None = None
    redacted: str | None = None
    signature: str | None = None
    announced: bool = False


class ResponseEncoder(WholeResponse):
    """Writes one response object at the end: the one that ends the stream."""

    content_type = "application/json"

    def __init__(self, request: Request, message_id: str, prompt_estimate: Callable[[], int]) -> None:
        self._stream = EventEncoder(request, message_id, prompt_estimate)

    def _event(self, event: Event) -> bytes:
        last = self._stream.encode_events([event])
        if not isinstance(event, Finish | Failure):
            return b""
        self._ended = True
        return b"" if isinstance(event, Failure) else self._body(last)

    def _body(self, last: bytes) -> bytes:
        """The response in the last event."""
        payload = last[last.rindex(b"\ndata: ") + 7:]
        return bytes(_terminal.decode(payload).response)


class CompactionEncoder(ResponseEncoder):
    """Writes the object of `/v1/responses/compact`."""

    def _body(self, last: bytes) -> bytes:
        response = _compacted.decode(super()._body(last))
        return _encode({"id": response.id, "object": "response.compaction", "created_at": CREATED,
                        "output": response.output, "usage": response.usage})


class _Terminal(msgspec.Struct):
    response: msgspec.Raw


class _Compacted(msgspec.Struct):
    id: str
    output: msgspec.Raw
    usage: msgspec.Raw


_terminal = msgspec.json.Decoder(_Terminal)
_compacted = msgspec.json.Decoder(_Compacted)
