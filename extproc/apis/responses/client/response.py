"""Events of the conversation model -> the events of a Responses stream, and the response object that ends it.

The grammar (each name begins with `response.`):

    stream    := created in_progress item* (completed | incomplete | failed)
    item      := output_item.added body output_item.done
    message   := (content_part.added (output_text.delta* annotation* output_text.done | refusal.delta refusal.done)
                  content_part.done)+
    reasoning := [reasoning_summary_part.added reasoning_summary_text.delta* reasoning_summary_text.done
                  reasoning_summary_part.done]
    call      := (function_call_arguments | custom_tool_call_input).delta* .done, or nothing

Items never overlap, `sequence_number` has no gaps, and the last item lacks its end only where the response is
incomplete or failed in the middle of it: Codex runs a call as soon as its `output_item.done` is there. Neighbouring
blocks of text are one message, because clients take the last message for the answer. Reasoning is always sent with its
`encrypted_content` (`envelopes`), and shown only if the client asked for it.

This module decides which event comes when; `event_writer` has the form of each. The encoder runs for every event of
every response, so a delta costs one lookup, one JSON string and one concatenation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from extproc.apis.responses.client.calls import OpenCall, ToolIndex, open_call
from extproc.apis.responses.client.envelopes import pack_summary, pack_thinking
from extproc.apis.responses.client.errors import stream_error
from extproc.apis.responses.client.event_writer import CREATED, EventWriter, Fields, OpenItem
from extproc.apis.responses.client.request import ResponsesRequest
from extproc.apis.responses.client.sources import url_citations
from extproc.apis.shared.client_responses import WholeResponse
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
)
from extproc.errors import Failure

REFUSED = "The model refused to answer."
"""The text of a refusal that the provider did not explain."""

_INCOMPLETE: dict[FinishReason, str] = {
    "length": "max_output_tokens", "context_length": "max_output_tokens", "content_filter": "content_filter"}
"""Why a response is incomplete. With all other finish reasons it is completed."""

_encode = msgspec.json.Encoder().encode

class EventEncoder(EventWriter):
    """Writes a stream of server-sent events."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, request: Request, message_id: str, prompt_estimate: Callable[[], int]) -> None:
        super().__init__(request, message_id, prompt_estimate)
        own = request if isinstance(request, ResponsesRequest) else None
        self._shows_reasoning = own is not None and own.summary is not None
        self._compacts = own is not None and own.compaction
        self._tools = ToolIndex(request.tools)
        self._started = False
        self._ended = False
        self._pieces: list[str] = []    # the texts of the open block

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
                return self._close() + self._begin(OpenItem("reasoning", "rs"))
            case SignatureDelta():
                if self._open is not None:
                    self._open.signature = event.signature
                return b""
            case RedactedThinking():
                return self._close() + self._begin(OpenItem("reasoning", "rs", redacted=event.data))
            case ToolCallStart():
                return self._start_call(event)
            case BlockStop():
                return self._stop_block()
            case Citations():
                return self._cite(event)
            case _:
                raise ValueError(f"{type(event).__name__} is not allowed here")

    def _start(self) -> bytes:
        self._started = True
        response = _encode(self._response_object("in_progress"))
        return self._raw_event("response.created", b',"response":%b' % response) + self._raw_event(
            "response.in_progress", b',"response":%b' % response)

    def _begin(self, item: OpenItem) -> bytes:
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
        return self._close() + self._begin(OpenItem("message", "msg"))

    def _start_call(self, event: ToolCallStart) -> bytes:
        closed = self._close()
        call = open_call(self._tools, event)
        item = OpenItem(call.item_type, call.id_prefix, call=call)
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

    def _cite(self, event: Citations) -> bytes:
        """Annotations of the open text. Behind any other item there is no place for them."""
        item = self._open
        if item is None or item.kind != "message" or not item.announced:
            return b""
        item.annotations = url_citations(event, "".join(self._pieces))
        return b"".join(
            self._content_event("response.output_text.annotation.added", {
                "content_index": 0, "annotation_index": at, "annotation": annotation})
            for at, annotation in enumerate(item.annotations))

    def _hand_over_pieces(self, call: OpenCall) -> None:
        """The pieces of the fast path."""
        pieces, self._pieces = self._pieces, []
        for piece in pieces:
            call.feed(piece)

    # ---------------------------------------------------------------------------------------------------- items

    def _announce(self, item: OpenItem, fields: Fields) -> bytes:
        item.announced = True
        return self._event("response.output_item.added", {"output_index": len(self._items), "item": fields})

    def _announce_message(self, item: OpenItem) -> bytes:
        return self._announce(item, {"id": self._item_id(item), "type": "message", "status": "in_progress",
                                     "role": "assistant", "content": []})

    def _announce_reasoning(self, item: OpenItem) -> bytes:
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

    def _end_call(self, item: OpenItem, call: OpenCall) -> tuple[bytes, Fields]:
        self._hand_over_pieces(call)
        delta = call.finish()
        out = self._content_event(call.delta_event, {"delta": delta}) if delta else b""
        done = call.done_event()
        if done is not None:
            out += self._content_event(*done)
        return out, call.item(self._item_id(item), "completed")

    def _end_message(self, item: OpenItem, status: str, refusal: str | None) -> tuple[bytes, Fields]:
        out, content = b"", []
        text = "".join(self._pieces)
        if text:
            part: Fields = {"type": "output_text", "text": text, "annotations": item.annotations, "logprobs": []}
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

    def _end_reasoning(self, item: OpenItem) -> tuple[bytes, Fields]:
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
        response = self._response_object(status, usage=event.usage, incomplete=incomplete)
        return out + self._event(f"response.{status}", {"response": response})

    def _end_last_item(self, event: Finish) -> bytes:
        refusal = None
        if event.reason == "refusal":
            refusal = (event.refusal.explanation if event.refusal is not None else "") or REFUSED
            if self._open is None or self._open.kind != "message":
                out = self._close()
                self._begin(OpenItem("message", "msg"))
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
        item = OpenItem("compaction", "cmp")
        fields: Fields = {"id": self._item_id(item), "type": "compaction", "encrypted_content": pack_summary(text)}
        return self._announce(item, fields) + self._add_item(fields)

    def _fail(self, failure: Failure) -> bytes:
        """What is open stays open: a half call must not run."""
        out = b"" if self._started else self._start()
        self._ended, self._delta = True, None
        response = self._response_object("failed", error=stream_error(failure))
        return out + self._event("response.failed", {"response": response})

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
