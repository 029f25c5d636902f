"""Messages responses, streamed or whole: provider bytes -> conversation events.

`AnthropicProvider` makes a decoder for every 2xx response. A stream is complete with `message_stop`, or with the end of
the body after a stop reason: compatible endpoints omit the last event. Any other end is a Failure. A call is whole only
once its block has stopped.

The `type` in the data identifies an event: some endpoints omit the `event:` line. Content that no client API can carry
(blocks of server tools, citations) is named.
"""

from __future__ import annotations

import msgspec

from extproc.apis.anthropic.provider.chunks import (
    AnthropicBlock,
    AnthropicChunk,
    AnthropicDelta,
    AnthropicMessage,
    Damaged,
    UsageFigures,
    arguments_of,
    decode_chunk,
    decode_message,
    object_of,
    refusal_of,
)
from extproc.apis.anthropic.provider.messages import origin_at
from extproc.apis.base import DecodeContext
from extproc.apis.shared.endings import CLEAN, EndedBy, EndFacts
from extproc.apis.shared.json_text import HalfPair
from extproc.apis.shared.provider_errors import failure_from_chunk
from extproc.apis.shared.response_reader import ResponseReader
from extproc.conversation.model import FinishReason, Refusal, Signature
from extproc.conversation.pending_call import PendingCall
from extproc.conversation.signatures import embed_in_text
from extproc.errors import Failure
from extproc.profiles.anthropic import find_anthropic_endpoint

STOP_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop_sequence",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "pause_turn": "pause",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_length",
    # words of the OpenAI format from compatible endpoints
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
}
"""Stop reasons -> the conversation's. Unknown ones count as "stop"."""

ANOTHER_MESSAGE = Failure("server", "The provider began another message within its response.")
"""Two responses in one stream: their pieces cannot be told apart."""


class _OpenBlock(msgspec.Struct):
    """A block that has started. `given`: the arguments at the start of a call, used when no delta follows."""

    type: str
    call: PendingCall | None = None
    given: str = ""
    signature: str = ""
    shown: bool = False
    """Some of its reasoning was sent."""


class AnthropicResponseDecoder(ResponseReader):
    """One response. `ResponseDecoder` in apis/base.py has the contract."""

    def __init__(self, context: DecodeContext) -> None:
        super().__init__(context)
        target = context.target
        self._signed = find_anthropic_endpoint(target.endpoint, target.provider, target.model).signed
        self._figures = UsageFigures()
        self._message_id: str | None = None
        self._blocks: dict[int, _OpenBlock] = {}
        self._last = 0
        self._reason: str | None = None
        self._stop_sequence: str | None = None
        self._refusal: Refusal | None = None

    # ------------------------------------------------------------------------------------------------------- events

    def _event(self, name: bytes, payload: bytes) -> None:
        if not payload.startswith(b"{"):  # the usual event skips these checks
            if not payload or payload.isspace():  # a keep-alive
                return
            if payload.strip() == b"[DONE]":  # of the OpenAI format
                if self._reason is not None:
                    self._complete()
                return
        try:
            chunk = decode_chunk(payload)
        except HalfPair:
            self._wait_for_half(name, payload)
            return
        except Damaged as problem:
            if name == b"error":
                text = payload[:2000].decode("utf-8", "replace").strip()
                self._seq.fail(failure_from_chunk({"error": text}))
            elif b"\n" in payload:  # two data lines meant as two events
                for line in payload.split(b"\n"):
                    if not self._seq.closed:
                        self._event(name, line)
            else:
                self._seq.fail(Failure("server", f"The provider sent a damaged event: {problem}."))
            return
        kind = chunk.type or name.decode("ascii", "replace")
        if kind == "content_block_delta":
            if chunk.delta is not None:
                self._delta(self._block_at(chunk.index), chunk.delta)
        elif kind == "error" or name == b"error" or (not chunk.type and len(memoryview(chunk.error)) > 0):
            self._seq.fail(failure_from_chunk(object_of(payload)))
        else:
            self._other_event(kind, chunk)

    def _other_event(self, kind: str, chunk: AnthropicChunk) -> None:
        """Unknown events, and `ping`, are ignored."""
        if kind == "message_start":
            message = chunk.message
            if message is not None:
                if self._is_another(message.id):
                    self._seq.fail(ANOTHER_MESSAGE)
                    return
                self._start_message(message.id, message.model)
                self._set_usage(self._figures.update(message.usage))
        elif kind == "content_block_start":
            self._start_block(self._last + 1 if chunk.index is None else chunk.index, chunk.content_block
                              or AnthropicBlock())
        elif kind == "content_block_stop":
            index = self._last if chunk.index is None else chunk.index
            block = self._blocks.pop(index, None)
            if block is not None:
                self._stop_block(block)
        elif kind == "message_delta":
            self._set_usage(self._figures.update(chunk.usage))
            if chunk.delta is not None:
                self._take_stop(chunk.delta)
        elif kind == "message_stop":
            self._set_usage(self._figures.update(chunk.usage))
            self._message_stopped("end mark")

    def _is_another(self, id: str | None) -> bool:
        """True if another message begins. Some proxies repeat the start of the same message."""
        former, self._message_id = self._message_id, self._message_id or id
        return bool(former and id and id != former)

    def _start_message(self, id: str | None, model: str | None) -> None:
        if not self._seq.started:
            self._seq.start(id or None, model or None)

    def _take_stop(self, stop: AnthropicDelta | AnthropicMessage) -> None:
        self._reason = stop.stop_reason or self._reason
        self._stop_sequence = stop.stop_sequence or self._stop_sequence
        self._refusal = refusal_of(stop.stop_details) or self._refusal

    # ------------------------------------------------------------------------------------------------------- blocks

    def _block_at(self, index: int | None) -> _OpenBlock:
        """The block of a delta. A block that was never started is a text, whatever its deltas."""
        at = self._last if index is None else index
        block = self._blocks.get(at)
        if block is None:
            block = self._blocks[at] = _OpenBlock("")
            self._start_message(None, None)
        return block

    def _start_block(self, index: int, given: AnthropicBlock) -> None:
        self._start_message(None, None)
        former = self._blocks.pop(index, None)
        if former is not None:
            self._stop_block(former)
        self._last = index
        block = self._blocks[index] = _OpenBlock(given.type or "")
        kind = block.type
        if kind == "tool_use":
            if self._scanner is not None:
                self._scanner.pause(for_call=True)
            # Arguments that are to be repaired wait for their end anyway.
            block.call = self._seq.new_call(given.id or None, explicit_end=self._context.repair_arguments is None)
            self._seq.call_delta(block.call, given.name, None)
            block.given = arguments_of(given.input)
        elif kind == "redacted_thinking":
            if given.data:
                self._flush_scanner()
                self._seq.redacted_thinking(given.data)
        elif kind not in ("text", "thinking", ""):
            self._context.dropped.loss(f"response.{kind}")
        else:
            if given.text:
                self._content(given.text)
            if given.thinking:
                self._add_thinking(block, given.thinking)
            block.signature = given.signature or ""
            if len(memoryview(given.citations)) > 0 and bytes(given.citations) not in (b"null", b"[]"):
                self._context.dropped.loss("response.citations")

    def _delta(self, block: _OpenBlock, delta: AnthropicDelta) -> None:
        kind = delta.type
        if kind == "text_delta":
            if delta.text and block.type in ("text", "thinking", ""):
                self._content(delta.text)
        elif kind == "input_json_delta":
            if block.call is not None:
                self._seq.call_delta(block.call, None, delta.partial_json)
        elif kind == "thinking_delta":
            if delta.thinking:
                self._add_thinking(block, delta.thinking)
        elif kind == "signature_delta":
            block.signature = delta.signature or block.signature
        elif kind == "citations_delta":
            self._context.dropped.loss("response.citations")
        elif kind is not None:
            self._context.dropped.loss(f"response.{kind}")

    def _add_thinking(self, block: _OpenBlock, text: str) -> None:
        block.shown = block.shown or not text.isspace()
        self._reasoning_text(text)

    def _stop_block(self, block: _OpenBlock) -> None:
        call = block.call
        if call is not None:
            if call.size == 0 and block.given:
                self._seq.call_delta(call, None, block.given)
            # A call that stops inside its JSON was truncated by a limit. It is not whole, which the finish reason says.
            if call.size == 0 or call.whole:
                self._seq.end_call(call)
        elif block.signature:
            self._close_with_signature(block)

    def _close_with_signature(self, block: _OpenBlock) -> None:
        """The signature closes the reasoning. Reasoning without text was omitted by the provider, and only the
        signature goes back. A signature of a compatible endpoint is marked with its issuer."""
        self._flush_scanner()
        if not block.shown:
            self._seq.thinking("")
        signature = block.signature
        if not self._signed:
            signature = embed_in_text(Signature(signature, origin_at(self._context.target.endpoint)))
        self._seq.signature(signature)

    def _flush_scanner(self) -> None:
        """Sends the text that the scanner holds back."""
        if self._scanner is not None:
            self._scanner.pause()

    # --------------------------------------------------------------------------------------------------- the ending

    def _message_stopped(self, ended_by: EndedBy) -> None:
        self._end(ended_by, EndFacts(finish_reason=self._reason is not None, nothing_came=not self._seq.started,
                                     open_call=self._seq.incomplete_call))

    def _end_of_stream(self) -> None:
        if self._reason is None and self._scanner is not None:
            self._scanner.finish(clean=False)
        self._message_stopped("end of stream")

    def _complete(self) -> None:
        reason = STOP_REASONS.get(self._reason or "end_turn", "stop")
        clean = reason in CLEAN
        for block in self._blocks.values():  # started, never stopped
            if block.call is None:
                self._stop_block(block)
        if self._scanner is not None:
            self._scanner.finish(clean)
            if self._seq.closed:
                return
        self._finish(reason, truncated=self._seq.flush(clean), stop_sequence=self._stop_sequence,
                     refusal=self._refusal)

    # ----------------------------------------------------------------------------------------------------- whole JSON

    def _whole_json(self, body: bytes) -> None:
        try:
            message = decode_message(body)
            if message.content is None:
                value = object_of(body)
                says = any(value.get(name) for name in ("error", "message", "detail", "errors"))
                self._seq.fail(failure_from_chunk(value) if says or value.get("type") == "error" else
                               Failure("server", "The provider's response holds no content."))
                return
        except Damaged as problem:
            self._seq.fail(Failure("server", f"The provider's response is not valid JSON: {problem}."))
            return
        self._start_message(message.id, message.model)
        for index, block in enumerate(message.content):
            self._start_block(index, block)
            if self._seq.closed:
                return
            self._stop_block(self._blocks.pop(index))
        self._set_usage(self._figures.update(message.usage))
        self._take_stop(message)
        if not self._seq.closed:
            self._message_stopped("whole body")
