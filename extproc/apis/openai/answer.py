"""Chat Completions answers, streamed or whole: provider bytes -> conversation events.

Created by `ProviderApi.answer_decoder` for every 2xx answer. Whether the body is an event stream or one JSON object is
decided by its first byte, not by what was asked or what the content type claims. The deviations of real servers are
handled where they occur (`chunks.py` reads fields, `extproc.blocks` sequences); this file decides what an answer means
as a whole: when it is complete, when it is broken, what it cost.

A stream is complete with `[DONE]` or with the end of the body after a finish reason; also with the end of the body
right after whole tool calls (some servers just stop there). Anything else is broken and ends in a Failure.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from extproc.apis.base import DecodeContext
from extproc.apis.openai.chunks import (
    Choice,
    Chunk,
    Delta,
    JsonChunk,
    content_parts,
    decode_chunk,
    reasoning_text,
    usage_of,
)
from extproc.apis.openai.errors import failure_from_chunk
from extproc.blocks import BlockSequencer
from extproc.calls import PendingCall
from extproc.conversation import Event, Failure, FinishReason, Usage
from extproc.sse import SseReader, SseTooLong

FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",  # Together
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "sensitive": "content_filter",  # Z.AI
    "safety": "content_filter",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_length",  # Z.AI
}
"""Finish reasons as they occur -> the conversation's. Unknown ones count as "stop"."""

FAILED_REASONS: dict[str, Failure] = {
    "error": Failure("server", "The provider ended the answer with an error."),  # OpenRouter, Mistral
    "network_error": Failure("server", "The provider lost the connection to its model."),  # Z.AI
    "abort": Failure("server", "The provider aborted the answer."),  # vLLM, SGLang
    "insufficient_system_resource": Failure("overloaded", "The provider ran out of capacity.", 503),  # DeepSeek
}
"""Finish reasons that mean that the answer is not whole."""

_BROKEN = Failure("server", "The provider's stream ended before the answer was complete.")
_EMPTY = Failure("server", "The provider closed the connection without an answer.")


class OpenAIAnswerDecoder:
    """One answer. See `AnswerDecoder` in apis/base.py for the contract."""

    def __init__(self, context: DecodeContext) -> None:
        self.usage = Usage()
        self._context = context
        self._seq = BlockSequencer(self._call_id, context.names.client, context.names.to_client,
                                   context.limits.held_back)
        self._sse = SseReader(context.limits.sse_line)
        self._calls = CallIndex(self._seq)
        self._body: list[bytes] | None = None  # pieces of a whole JSON answer, once it is known to be one
        self._body_size = 0
        self._undecided = b""
        self._streaming = False
        self._reason: str | None = None
        self._stop_sequence: str | None = None
        self._refused = False
        self._saw_delta = False
        self._got_usage = False

    # ------------------------------------------------------------------------------------------------ the contract

    def feed(self, data: bytes) -> list[Event]:
        seq = self._seq
        if seq.closed:
            return []
        if not self._streaming:
            if self._body is not None:
                self._collect(data)
                return seq.take()
            opening = self._decide(data)
            if opening is None:
                return seq.take()
            data = opening
        try:
            for _, payload in self._sse.feed(data):
                self._event(payload)
                if seq.closed:
                    break
        except SseTooLong:
            seq.fail(Failure("server", f"The provider sent a line of more than {self._context.limits.sse_line} "
                                       "bytes in its event stream."))
        return seq.take()

    def finish(self) -> list[Event]:
        seq = self._seq
        if seq.closed:
            return seq.take()
        if self._body is not None:
            self._whole(b"".join(self._body))
        elif not self._streaming:
            seq.fail(_EMPTY)
        else:
            for _, payload in self._sse.finish():
                if not seq.closed:
                    self._event(payload)
            if not seq.closed:
                self._end_of_stream()
        return seq.take()

    @property
    def tool_calls(self) -> int:
        return self._seq.calls

    @property
    def unoffered_calls(self) -> int:
        return self._seq.unoffered

    # ------------------------------------------------------------------------------------- stream or whole, by look

    def _decide(self, data: bytes) -> bytes | None:
        """The first byte that is not white space tells a JSON body from an event stream. Returns the bytes that
        the stream reader gets, None while undecided or when it is a whole body."""
        data = self._undecided + data
        stripped = data.removeprefix(b"\xef\xbb\xbf").lstrip()
        if not stripped or (len(stripped) < 3 and b"\xef\xbb\xbf".startswith(stripped)):
            self._undecided = data
            return None
        self._undecided = b""
        if stripped[:1] in (b"{", b"[") and not stripped.startswith(b"[DONE]"):
            self._body = []
            self._collect(stripped)
            return None
        self._streaming = True
        return data

    def _collect(self, data: bytes) -> None:
        assert self._body is not None
        self._body.append(data)
        self._body_size += len(data)
        if self._body_size > self._context.limits.body:
            self._seq.fail(Failure("server", f"The provider's answer is larger than {self._context.limits.body} "
                                             "bytes."))

    # ------------------------------------------------------------------------------------------------------- events

    def _event(self, payload: bytes) -> None:
        if payload == b"[DONE]" or payload.strip() == b"[DONE]":
            self._done()
            return
        try:
            chunk = decode_chunk(payload)
        except JsonChunk as problem:
            # two data lines that were meant as two events (no blank line between them)
            if b"\n" in payload:
                for line in payload.split(b"\n"):
                    if not self._seq.closed:
                        self._event(line)
                return
            self._seq.fail(Failure("server", f"The provider sent a damaged event: {problem}."))
            return
        if chunk is not None:
            self._chunk(chunk, payload)

    def _chunk(self, chunk: Chunk, payload: bytes) -> None:
        if chunk.error is not None or chunk.object == "error":
            self._seq.fail(failure_from_chunk(_object(payload)))
            return
        if not self._seq.started:
            self._seq.start(_text_or_none(chunk.id), _text_or_none(chunk.model))
        if chunk.usage is not None or chunk.x_groq is not None:
            self._take_usage(chunk)
        for choice in chunk.choices or ():
            if choice is not None and not choice.index:
                self._choice(choice)

    def _choice(self, choice: Choice) -> None:
        delta = choice.delta
        if delta is not None:
            self._saw_delta = True
            self._delta(delta)
        elif choice.message is not None and not self._saw_delta:
            self._delta(choice.message)  # a whole message instead of deltas (proxies); after deltas a repetition
        if choice.usage is not None:  # Moonshot
            self._set_usage(usage_of(choice.usage))
        if choice.finish_reason is not None and self._reason is None:
            self._finished(choice)

    def _delta(self, delta: Delta) -> None:
        """Reasoning first: providers that put both in one chunk mean it so."""
        if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            self._reasoning(delta)
        content = delta.content
        if content:
            if isinstance(content, str):
                self._seq.text(content)
            else:
                for kind, text in content_parts(content):
                    (self._seq.thinking if kind == "thinking" else self._seq.text)(text)
        if delta.refusal and isinstance(delta.refusal, str):
            self._seq.text(delta.refusal)
            self._refused = True
        if delta.tool_calls:
            for call in delta.tool_calls:
                if call is not None:
                    self._calls.delta(call.index, call.id, call.function_name, call.arguments_text)
        elif delta.function_call is not None:
            self._calls.legacy(delta.function_call.name_text, delta.function_call.arguments_text)

    def _reasoning(self, delta: Delta) -> None:
        for kind, text in reasoning_text(delta):
            if kind == "text":
                self._seq.thinking(text)
            elif kind == "signature":
                self._seq.signature(text)
            else:
                self._seq.redacted_thinking(text)

    # ---------------------------------------------------------------------------------------------------- the ending

    def _finished(self, choice: Choice) -> None:
        reason = choice.finish_reason
        assert reason is not None
        if reason == "":  # xAI with tools; elsewhere in the middle of a stream
            return
        failed = FAILED_REASONS.get(reason)
        if failed is not None:
            self._seq.fail(failed)
            return
        self._reason = reason
        self._stop_sequence = choice.stop_sequence(self._context.request.stop)

    def _done(self) -> None:
        if self._reason is None and not self._seq.has_calls and not self._seq.characters:
            self._seq.fail(_EMPTY)
        elif self._reason is None and self._seq.incomplete_call:
            self._seq.fail(_BROKEN)
        else:
            self._complete()

    def _end_of_stream(self) -> None:
        if self._reason is not None or self._seq.ends_with_whole_calls:
            self._complete()
        else:
            self._seq.fail(_BROKEN if self._seq.started else _EMPTY)

    def _complete(self) -> None:
        reason = FINISH_REASONS.get(self._reason or "stop", "stop")
        if self._refused and reason == "stop":
            reason = "refusal"
        self._seq.flush(clean=reason in ("stop", "tool_calls"))
        if not self._got_usage:
            self.usage = Usage(input=self._context.prompt_estimate(), output=self._seq.characters // 4,
                               estimated=True)
        if self._stop_sequence is not None and reason == "stop" and not self._seq.calls:
            reason = "stop_sequence"
        self._seq.finish(reason, self.usage, self._stop_sequence)

    def _take_usage(self, chunk: Chunk) -> None:
        if chunk.usage is not None:
            self._set_usage(usage_of(chunk.usage))
        elif isinstance(chunk.x_groq, dict) and chunk.x_groq.get("usage"):
            self._set_usage(usage_of(chunk.x_groq["usage"]))

    def _set_usage(self, usage: Usage | None) -> None:
        if usage is not None:  # figures are cumulative: the last ones win, they are never added
            self.usage = usage
            self._got_usage = True

    # ----------------------------------------------------------------------------------------------------- whole JSON

    def _whole(self, body: bytes) -> None:
        try:
            chunk = decode_chunk(body)
        except JsonChunk as problem:
            self._seq.fail(Failure("server", f"The provider's answer is not valid JSON: {problem}."))
            return
        if chunk is None:
            self._seq.fail(Failure("server", "The provider's answer is not a JSON object."))
            return
        if chunk.error is None and chunk.object != "error" and not chunk.choices:
            self._seq.fail(Failure("server", "The provider's answer holds no choices."))
            return
        self._chunk(chunk, body)
        if not self._seq.closed:
            if self._reason is None and self._seq.incomplete_call:
                self._seq.fail(_BROKEN)
            else:
                self._complete()

    def _call_id(self, ordinal: int, provider_id: str | None) -> str:
        if provider_id and self._context.accept_id(provider_id):
            return provider_id
        return self._context.mint(ordinal)


class CallIndex:
    """Which call a fragment belongs to: by index, by id, or the last one, as servers differ.

    The same index with another id is a new call (Ollama sends index 0 for all); no index: a new id opens a new call,
    without an id it continues the last, unless a name comes after arguments. Indexes may be sparse or start anywhere.
    """

    __slots__ = ("_by_id", "_by_index", "_last", "_legacy", "_new", "_seq")

    def __init__(self, seq: BlockSequencer) -> None:
        self._seq = seq
        self._new: Callable[[str | None], PendingCall] = seq.new_call
        self._by_index: dict[int, PendingCall] = {}
        self._by_id: dict[str, PendingCall] = {}
        self._last: PendingCall | None = None
        self._legacy: PendingCall | None = None

    def delta(self, index: object, id: object, name: str | None, arguments: str | None) -> None:
        key = index if isinstance(index, int) and not isinstance(index, bool) else None
        given = id if isinstance(id, str) and id and id != "null" else None
        call = self._find(key, given, name, arguments)
        self._last = call
        self._seq.call_delta(call, name, arguments)

    def legacy(self, name: str | None, arguments: str | None) -> None:
        if self._legacy is None:
            self._legacy = self._new(None)
        self._seq.call_delta(self._legacy, name, arguments)

    def _find(self, key: int | None, given: str | None, name: str | None, arguments: str | None) -> PendingCall:
        if key is not None:
            call = self._by_index.get(key)
            if call is not None:
                if given is None or call.id == given:
                    if not (given is None and self._begins_anew(call, name, arguments)):
                        return call
                elif call.id is None and not self._begins_anew(call, name, arguments):
                    call.id = given  # the id came late
                    self._by_id[given] = call
                    return call
                elif given in self._by_id:
                    return self._by_id[given]
        elif given is not None:
            if given in self._by_id and not self._begins_anew(self._by_id[given], name, arguments):
                return self._by_id[given]
        elif self._last is not None and not self._begins_anew(self._last, name, arguments):
            return self._last
        call = self._new(given)
        if key is not None:
            self._by_index[key] = call
        if given is not None:
            self._by_id[given] = call
        return call

    @staticmethod
    def _begins_anew(call: PendingCall, name: str | None, arguments: str | None) -> bool:
        """A name after whole arguments, with arguments of its own, begins another call (no index, no or the same
        id)."""
        return bool(name) and call.complete and bool(arguments) and arguments is not None \
            and arguments.lstrip()[:1] == "{" and not (name == call.name and call.repeats(arguments))


def _object(payload: bytes) -> dict[str, object]:
    """The error object of a chunk whose text the lenient reader took."""
    value = json.loads(payload.decode("utf-8", "replace"))
    if isinstance(value, list):
        value = value[0]
    return value if isinstance(value, dict) else {}


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
