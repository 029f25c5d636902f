"""Messages answers, streamed or whole: provider bytes -> conversation events.

Created by `ProviderApi.response_decoder` for every 2xx answer. A stream is complete with `message_stop`; also with the
end of the body after a stop reason, because then the model has said that it finished and compatible endpoints leave the
last event out. Anything else is broken and ends in a Failure. A call is whole only once its block has stopped.

Events are told apart by the `type` in their data: some endpoints leave the `event:` line out. What no client API can
carry (blocks of server tools, citations) is named.
"""

from __future__ import annotations

import msgspec

from extproc.apis.anthropic.provider.chunks import (
    Block,
    Chunk,
    Damaged,
    Delta,
    Figures,
    Message,
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
from extproc.apis.shared.provider_errors import decode_error, failure_from_chunk
from extproc.apis.shared.response_reader import ResponseReader
from extproc.conversation.model import FinishReason, Refusal, Signature
from extproc.conversation.pending_call import PendingCall
from extproc.conversation.signatures import embed_in_text
from extproc.errors import Failure
from extproc.profiles.anthropic import anthropic_endpoint

STOP_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop_sequence",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "pause_turn": "pause",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_length",
    # words of the OpenAI format that compatible endpoints let through
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
}
"""Stop reasons -> the conversation's. Unknown ones count as "stop"."""

ANOTHER_MESSAGE = Failure("server", "The provider began another message within its answer.")
"""Two answers in one stream: nothing says which of their pieces belong together."""


class _Open(msgspec.Struct):
    """A block that has started. `given` are the arguments that came with the start of a call: they count when no
    delta follows."""

    type: str
    call: PendingCall | None = None
    given: str = ""
    signature: str = ""
    shown: bool = False
    """Some of its reasoning went out."""


class AnthropicResponseDecoder(ResponseReader):
    """One answer. See `ResponseDecoder` in apis/base.py for the contract."""

    def __init__(self, context: DecodeContext) -> None:
        super().__init__(context)
        target = context.target
        self._signed = anthropic_endpoint(target.endpoint, target.provider, target.model).signed
        self._figures = Figures()
        self._message_id: str | None = None
        self._blocks: dict[int, _Open] = {}
        self._last = 0
        self._reason: str | None = None
        self._stop_sequence: str | None = None
        self._refusal: Refusal | None = None

    # ------------------------------------------------------------------------------------------------------- events

    def _event(self, name: bytes, payload: bytes) -> None:
        if not payload.startswith(b"{"):  # else it is the usual one
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
            elif b"\n" in payload:  # two data lines that were meant as two events
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
            self._other(kind, chunk)

    def _other(self, kind: str, chunk: Chunk) -> None:
        """Unknown events, `ping` among them, mean nothing."""
        if kind == "message_start":
            message = chunk.message
            if message is not None:
                if self._is_another(message.id):
                    self._seq.fail(ANOTHER_MESSAGE)
                    return
                self._begin(message.id, message.model)
                self._set_usage(self._figures.take(message.usage))
        elif kind == "content_block_start":
            self._start(self._last + 1 if chunk.index is None else chunk.index, chunk.content_block or Block())
        elif kind == "content_block_stop":
            index = self._last if chunk.index is None else chunk.index
            block = self._blocks.pop(index, None)
            if block is not None:
                self._stop(block)
        elif kind == "message_delta":
            self._set_usage(self._figures.take(chunk.usage))
            if chunk.delta is not None:
                self._told_stop(chunk.delta)
        elif kind == "message_stop":
            self._set_usage(self._figures.take(chunk.usage))
            self._stopped("end mark")

    def _is_another(self, id: str | None) -> bool:
        """Whether a message begins that is not the one at hand. Some relays tell the start of one twice."""
        former, self._message_id = self._message_id, self._message_id or id
        return bool(former and id and id != former)

    def _begin(self, id: str | None, model: str | None) -> None:
        if not self._seq.started:
            self._seq.start(id or None, model or None)

    def _told_stop(self, told: Delta | Message) -> None:
        self._reason = told.stop_reason or self._reason
        self._stop_sequence = told.stop_sequence or self._stop_sequence
        self._refusal = refusal_of(told.stop_details) or self._refusal

    # ------------------------------------------------------------------------------------------------------- blocks

    def _block_at(self, index: int | None) -> _Open:
        """The block of a delta; one that was never started is a text, whatever comes in it."""
        at = self._last if index is None else index
        block = self._blocks.get(at)
        if block is None:
            block = self._blocks[at] = _Open("")
            self._begin(None, None)
        return block

    def _start(self, index: int, given: Block) -> None:
        self._begin(None, None)
        former = self._blocks.pop(index, None)
        if former is not None:
            self._stop(former)
        self._last = index
        block = self._blocks[index] = _Open(given.type or "")
        kind = block.type
        if kind == "tool_use":
            if self._scanner is not None:
                self._scanner.pause(for_call=True)
            # Arguments that are to be repaired wait for their end anyway.
            block.call = self._seq.new_call(given.id or None, told_end=self._context.heal is None)
            self._seq.call_delta(block.call, given.name, None)
            block.given = arguments_of(given.input)
        elif kind == "redacted_thinking":
            if given.data:
                self._pause()
                self._seq.redacted_thinking(given.data)
        elif kind not in ("text", "thinking", ""):
            self._context.dropped.loss(f"answer.{kind}")
        else:
            if given.text:
                self._content(given.text)
            if given.thinking:
                self._think(block, given.thinking)
            block.signature = given.signature or ""
            if len(memoryview(given.citations)) > 0 and bytes(given.citations) not in (b"null", b"[]"):
                self._context.dropped.loss("answer.citations")

    def _delta(self, block: _Open, delta: Delta) -> None:
        kind = delta.type
        if kind == "text_delta":
            if delta.text and block.type in ("text", "thinking", ""):
                self._content(delta.text)
        elif kind == "input_json_delta":
            if block.call is not None:
                self._seq.call_delta(block.call, None, delta.partial_json)
        elif kind == "thinking_delta":
            if delta.thinking:
                self._think(block, delta.thinking)
        elif kind == "signature_delta":
            block.signature = delta.signature or block.signature
        elif kind == "citations_delta":
            self._context.dropped.loss("answer.citations")
        elif kind is not None:
            self._context.dropped.loss(f"answer.{kind}")

    def _think(self, block: _Open, text: str) -> None:
        block.shown = block.shown or not text.isspace()
        self._reasoned(text)

    def _stop(self, block: _Open) -> None:
        call = block.call
        if call is not None:
            if call.size == 0 and block.given:
                self._seq.call_delta(call, None, block.given)
            # A call that stops inside its JSON was cut by a limit; it is not whole, and says so at the end.
            if call.size == 0 or call.whole:
                self._seq.end_call(call)
        elif block.signature:
            self._sign(block)

    def _sign(self, block: _Open) -> None:
        """The signature closes the reasoning, which may be empty: then its text was omitted, and the signature alone
        goes back. One that only this endpoint knows is marked as its own."""
        self._pause()
        if not block.shown:
            self._seq.thinking("")
        signature = block.signature
        if not self._signed:
            signature = embed_in_text(Signature(signature, origin_at(self._context.target.endpoint)))
        self._seq.signature(signature)

    def _pause(self) -> None:
        """What the scanner holds back of the text before goes out first."""
        if self._scanner is not None:
            self._scanner.pause()

    # --------------------------------------------------------------------------------------------------- the ending

    def _stopped(self, ended_by: EndedBy) -> None:
        self._end(ended_by, EndFacts(finish_reason=self._reason is not None, nothing_came=not self._seq.started,
                                     open_call=self._seq.incomplete_call))

    def _end_of_stream(self) -> None:
        if self._reason is None and self._scanner is not None:
            self._scanner.finish(clean=False)
        self._stopped("end of stream")

    def _complete(self) -> None:
        reason = STOP_REASONS.get(self._reason or "end_turn", "stop")
        clean = reason in CLEAN
        for block in self._blocks.values():  # started, never stopped
            if block.call is None:
                self._stop(block)
        if self._scanner is not None:
            self._scanner.finish(clean)
            if self._seq.closed:
                return
        self._finish(reason, truncated=self._seq.flush(clean), stop_sequence=self._stop_sequence,
                     refusal=self._refusal)

    # ----------------------------------------------------------------------------------------------------- whole JSON

    def _whole(self, body: bytes) -> None:
        if body[:1] == b"<":
            self._seq.fail(decode_error(200, {}, body))
            return
        try:
            message = decode_message(body)
            if message.content is None:
                value = object_of(body)
                says = any(value.get(name) for name in ("error", "message", "detail", "errors"))
                self._seq.fail(failure_from_chunk(value) if says or value.get("type") == "error" else
                               Failure("server", "The provider's answer holds no content."))
                return
        except Damaged as problem:
            self._seq.fail(Failure("server", f"The provider's answer is not valid JSON: {problem}."))
            return
        self._begin(message.id, message.model)
        for index, block in enumerate(message.content):
            self._start(index, block)
            if self._seq.closed:
                return
            self._stop(self._blocks.pop(index))
        self._set_usage(self._figures.take(message.usage))
        self._told_stop(message)
        if not self._seq.closed:
            self._stopped("whole body")
