"""Chat Completions responses, streamed or whole: provider bytes -> conversation events.

`OpenAIProvider` makes a decoder for every 2xx response. The first byte of the body decides whether it is an event
stream or one JSON object, not the request or the content type. `chunks.py` reads the fields of real servers,
`extproc.conversation.sequencer` orders the blocks, `extproc.apis.shared.endings` decides how the response ends.

A stream is complete with `[DONE]`, or with the end of the body after a finish reason or right after whole tool calls
(some servers just stop there). Any other end is a Failure.
"""

from __future__ import annotations

from extproc.apis.base import DecodeContext
from extproc.apis.openai.provider.call_index import CallIndex
from extproc.apis.openai.provider.chunks import JsonChunk, content_parts, decode_chunk, read_reasoning, usage_of
from extproc.apis.openai.provider.citations import CitationCollector
from extproc.apis.openai.provider.failed_generation import failed_text, rescue_response
from extproc.apis.openai.provider.signatures import issuer_origin, pack_item
from extproc.apis.openai.wire_response import (
    FAILED_REASONS,
    FINISH_REASONS,
    CallDelta,
    OpenAIChoice,
    OpenAIChunk,
    OpenAIDelta,
    is_thought,
)
from extproc.apis.shared.endings import CLEAN, EndFacts
from extproc.apis.shared.json_text import HalfPair
from extproc.apis.shared.provider_errors import complaint_of, failure_from_chunk
from extproc.apis.shared.response_reader import ResponseReader
from extproc.conversation.model import FinishReason, Signature, TextDelta
from extproc.conversation.sequencer import BlockSequencer
from extproc.errors import Failure

_THOUGHT = ("<thought>", "</thought>")
"""The tags of thoughts at Google's endpoint."""


class OpenAIResponseDecoder(ResponseReader):
    """One response. `ResponseDecoder` in apis/base.py has the contract."""

    def __init__(self, context: DecodeContext) -> None:
        super().__init__(context)
        self._calls = CallIndex(self._seq, context.names.to_client, self._signature_of_call)
        self._profile = context.target.profile
        self._citations = CitationCollector()
        self._call_items: dict[str, str] = {}  # signatures sent as items: call id -> signature
        self._reason: str | None = None
        self._stop_sequence: str | None = None
        self._refused = False
        self._saw_delta = False  # a delta with more than a role
        self._has_text = False
        self._deferred_text: list[str] = []
        """Pieces of text that came in one delta with reasoning: see `_add_text`."""
        self._deferred_size = 0
        self._seq.flush_decoder = self._flush_deferred_text
        self._choice_index: object = None  # the index of the first choice, the only one that is read

    # ------------------------------------------------------------------------------------------------------- events

    def _event(self, name: bytes, payload: bytes) -> None:
        if name or not payload.startswith(b"{"):  # the usual event skips these checks
            if payload.strip() == b"[DONE]":
                self._done()
                return
            if name == b"error":
                self._take_error(payload)
                return
            if not payload or payload.isspace():  # a keep-alive
                return
        try:
            chunk = decode_chunk(payload)
        except HalfPair:
            self._wait_for_half(name, payload)
            return
        except JsonChunk as problem:
            # two data lines meant as two events (no blank line between them)
            if b"\n" in payload:
                for line in payload.split(b"\n"):
                    if not self._seq.closed:
                        self._event(name, line)
                return
            self._seq.fail(Failure("server", f"The provider sent a damaged event: {problem}."))
            return
        if chunk is not None:
            self._chunk(chunk, payload)

    def _chunk(self, chunk: OpenAIChunk, payload: bytes) -> None:
        if (chunk.error is not None or chunk.object == "error") and chunk.is_error:
            # `is_error` needs one of these two; nearly all chunks have neither and save the call.
            self._take_error(payload)
            return
        if not chunk.choices and chunk.usage is None and (complaint := complaint_of(payload)) is not None:
            self._seq.fail(failure_from_chunk(complaint))
            return
        if not self._seq.started:
            self._seq.start(_text_or_none(chunk.id), _text_or_none(chunk.model))
        if chunk.usage is not None or chunk.x_groq is not None:
            self._take_usage(chunk)
        if chunk.citations is not None or chunk.search_results is not None:
            self._citations.lists(chunk.citations, chunk.search_results)
        for choice in chunk.choices or ():
            if choice is None:
                continue
            index = choice.index or 0
            if self._choice_index is None:
                self._choice_index = index
            if index == self._choice_index:
                self._choice(choice)
            else:
                self._context.dropped.loss("response.choices")

    def _choice(self, choice: OpenAIChoice) -> None:
        delta = choice.delta
        if delta is not None and (self._saw_delta or delta.holds_something):
            self._saw_delta = True
            self._delta(delta)
        if choice.message is not None and not self._saw_delta:
            if not self._streaming and self._scanner is not None and isinstance(choice.message.content, str):
                self._scanner.expect_whole_text(choice.message.content)
            self._delta(choice.message)  # a message instead of deltas (proxies); after deltas it is a repetition
        if choice.usage is not None:  # Moonshot
            self._count(choice.usage)
        if choice.error:  # OpenRouter
            self._seq.fail(failure_from_chunk({"error": choice.error}))
        elif choice.finish_reason is not None:
            self._take_finish(choice)

    def _delta(self, delta: OpenAIDelta) -> None:
        """Reasoning comes first: providers with both in one chunk mean it so."""
        content = delta.content
        parts = list(content_parts(content)) if content and not isinstance(content, str) else []
        reasons = delta.reasons or any(kind == "thinking" for kind, _ in parts)
        if self._deferred_text and not reasons and delta.holds_something:
            self._flush_deferred_text()
        if delta.reasons:
            self._read_reasoning(delta)
        if parts:
            self._read_parts(parts, beside=reasons)
        elif content and isinstance(content, str):
            if delta.extra_content is not None and is_thought(delta.extra_content):
                self._read_thought(content)
            else:
                self._add_text(content, beside=reasons)
        if delta.refusal and isinstance(delta.refusal, str):
            self._flush_deferred_text()
            self._content(delta.refusal)
            self._refused = True
        if delta.audio or delta.images or delta.annotations:
            self._read_extras(delta)
        if delta.tool_calls or delta.function_call is not None:
            self._flush_deferred_text()
            if self._scanner is not None:
                self._scanner.pause(for_call=True, between=True)
            if delta.tool_calls:
                self._calls.read_entries(delta.tool_calls, whole=not self._streaming)
            elif delta.function_call is not None:
                self._calls.read_function_call(delta.function_call.name_text, delta.function_call.arguments_text)

    def _read_thought(self, content: str) -> None:
        """Content that Google's endpoint marks as a thought, with or without tags. In a whole response the text follows
        the closing tag."""
        thought, closed, text = content.rpartition(_THOUGHT[1])
        self._reasoning_text((thought if closed else text).replace(_THOUGHT[0], ""))
        if closed and text:
            self._add_text(text)

    def _add_text(self, text: str, *, beside: bool = False) -> None:
        """A piece of the text. `beside`: it came in a stream together with reasoning. Some servers send a piece of both
        in every delta. To get one block of each, such text waits for the first delta without reasoning, up to the limit
        of held-back text."""
        if beside and self._streaming:
            self._deferred_text.append(text)
            self._deferred_size += len(text)
            if self._deferred_size <= self._context.limits.held_back:
                return
            self._flush_deferred_text()
        else:
            self._has_text = True
            self._content(text)

    def _flush_deferred_text(self) -> None:
        """Sends the deferred text: no more reasoning comes beside it."""
        if self._deferred_text:
            text, self._deferred_text, self._deferred_size = "".join(self._deferred_text), [], 0
            self._has_text = True
            self._content(text)

    def _read_parts(self, parts: list[tuple[str, str]], *, beside: bool) -> None:
        for kind, text in parts:
            if kind == "other":
                self._context.dropped.loss(f"response.{text}")
            elif kind == "signature":
                self._seq.signature(text)
            elif kind == "thinking":
                self._reasoning_text(text)
            else:
                self._add_text(text, beside=beside)

    def _read_extras(self, delta: OpenAIDelta) -> None:
        """Audio and images have no place in a response; a transcript is kept as text. Citations wait for the end."""
        if delta.annotations:
            self._citations.annotations(delta.annotations)
        for name, value in (("audio", delta.audio), ("images", delta.images)):
            if value:
                self._context.dropped.loss(f"response.{name}")
        if not delta.content and delta.transcript:
            self._flush_deferred_text()
            self._content(delta.transcript)

    # ------------------------------------------------------------------------------------------------------ reasoning

    def _read_reasoning(self, delta: OpenAIDelta) -> None:
        for thought in read_reasoning(delta):
            if thought[0] == "text":
                self._reasoning_text(thought[1])
            elif thought[0] == "signature":
                self._seq.signature(thought[1])
            elif thought[0] == "redacted":
                self._seq.redacted_thinking(thought[1])
            else:
                self._read_sealed_item(thought[1])

    def _read_sealed_item(self, item: dict[str, object]) -> None:
        """Reasoning that a provider other than Anthropic signed or encrypted: it belongs to a call, or is embedded in
        the thinking block before it. A block of its own may not follow text: clients take it for the answer."""
        data = item.get("data")
        if self._profile.call_signatures == "details" and isinstance(data, str):
            call_id = item.get("id")
            self._call_items[call_id if isinstance(call_id, str) else ""] = data
            return
        seal = pack_item(item, self._context.target)
        if self._seq.signature(seal):
            return
        if not self._seq.has_calls and not self._has_text:
            self._seq.redacted_thinking(seal)
        else:
            self._context.dropped.hint("response.reasoning_details")

    def _signature_of_call(self, entry: CallDelta, given: str | None) -> Signature | None:
        """The signature that must come back with a call that begins."""
        sealed = entry.thought_signature
        if sealed is not None:
            return Signature(sealed[1], issuer_origin(self._context.target, sealed[0]))
        value = (self._call_items.pop(given, None) if given else None) or self._call_items.pop("", None)
        return None if value is None else Signature(value, issuer_origin(self._context.target))

    # ---------------------------------------------------------------------------------------------------- the ending

    def _take_finish(self, choice: OpenAIChoice) -> None:
        """The first finish reason counts; a failure counts at any time."""
        self._flush_deferred_text()
        reason = choice.finish_word
        if reason == "":  # xAI with tools; elsewhere in the middle of a stream
            return
        failed = FAILED_REASONS.get(reason)
        if reason == "unexpected_tool_call" and self._seq.has_calls and not self._seq.incomplete_call:
            failed = None  # the call is whole nevertheless
        if failed is not None:
            self._seq.fail(failed)
            return
        if self._reason is not None:
            return
        self._reason = reason
        self._stop_sequence = choice.stop_sequence(self._context.request.stop)

    def _take_error(self, payload: bytes) -> None:
        """An error event. A host that refused the model's call may quote what the model wrote: if nothing was sent yet,
        that text is read as the response."""
        self._flush_deferred_text()
        text = None if self._has_text or self._seq.has_calls else failed_text(payload)
        response = None if text is None else rescue_response(payload, self._context.names.to_client)
        chunk = None if response is None else decode_chunk(response, alone=True)
        if chunk is not None:
            for choice in chunk.choices or ():
                if choice is not None and choice.message is not None:
                    self._delta(choice.message)
        elif text is not None and self._holds_calls(text):
            self._content(text)
        else:
            self._seq.fail(_failure_of(payload))
            return
        self._reason = "tool_calls"
        self._complete()

    def _holds_calls(self, text: str) -> bool:
        """True if the dialects find calls in this text and no other text. The text is read on trial."""
        if self._scanner is None:
            return False
        names = self._context.names
        trial = BlockSequencer(lambda ordinal, given: "", names.client_name, names.to_client)
        scanner = self._context.scanner(trial)
        if scanner is not None:
            scanner.feed_content(text)
            scanner.finish(clean=True)
            trial.flush(clean=True)
        self._scanner = self._context.scanner(self._seq)
        if self._scanner is not None:
            self._content, self._reasoning_text = self._scanner.feed_content, self._scanner.feed_reasoning
        return trial.calls > 0 and not any(isinstance(event, TextDelta) for event in trial.take_events())

    def _done(self) -> None:
        self._flush_deferred_text()
        if self._scanner is not None and self._reason is None:
            self._scanner.finish(clean=True)
        if self._reason is None:
            self._calls.end(clean=True)
        self._end("end mark", EndFacts(finish_reason=self._reason is not None,
                                       nothing_came=not self._seq.has_calls and not self._seq.characters,
                                       open_call=self._seq.incomplete_call))

    def _end_of_stream(self) -> None:
        self._flush_deferred_text()
        if self._scanner is not None and self._reason is None:
            self._scanner.finish(clean=False)
        cut_off = self._sse.cut_off or (self._scanner is not None and self._scanner.cut_off)
        self._end("end of stream", EndFacts(finish_reason=self._reason is not None,
                                            nothing_came=not self._seq.started,
                                            whole_calls_last=self._seq.ends_with_whole_calls and not cut_off))

    def _complete(self) -> None:
        reason = FINISH_REASONS.get(self._reason or "stop", "stop")
        if self._refused and reason == "stop":
            reason = "refusal"
        clean = reason in CLEAN
        self._flush_deferred_text()
        self._calls.end(clean)
        if self._scanner is not None:
            self._scanner.finish(clean)
            if self._seq.closed:
                return
        request = self._context.request
        cites = request.cites and (request.cites_after_calls or not self._seq.has_calls)
        if self._citations and not cites:
            self._show_sources(reason)
        truncated = self._seq.flush(clean)
        if self._citations.lost:
            self._context.dropped.loss("response.citations")
        if self._stop_sequence is not None and reason == "stop" and not self._seq.calls:
            reason = "stop_sequence"
        citations = self._citations.event() if self._citations and cites else None
        self._finish(reason, truncated=truncated, stop_sequence=self._stop_sequence, citations=citations)

    def _show_sources(self, reason: FinishReason) -> None:
        """At the end of a text, where a list fits and there is a page in it."""
        text = self._citations.text() if self._may_list_sources(reason, self._has_text) else ""
        if text:
            self._seq.text(f"\n\n{text}\n")
        else:
            self._citations.lost = True

    def _count(self, usage: object) -> None:
        self._set_usage(usage_of(usage, reasoning_uncounted=self._profile.reasoning_uncounted))

    def _take_usage(self, chunk: OpenAIChunk) -> None:
        if chunk.usage is not None:
            self._count(chunk.usage)
        elif isinstance(chunk.x_groq, dict) and chunk.x_groq.get("usage"):
            self._count(chunk.x_groq["usage"])
        if isinstance(chunk.x_groq, dict) and chunk.x_groq.get("error"):
            self._seq.fail(failure_from_chunk({"error": chunk.x_groq["error"]}))

    # ----------------------------------------------------------------------------------------------------- whole JSON

    def _whole_json(self, body: bytes) -> None:
        if body.endswith((b"[DONE]", b"[DONE]\n", b"[DONE]\n\n")):  # a proxy that always streams
            body = body.rstrip().removesuffix(b"[DONE]").rstrip().removesuffix(b"data:")
        try:
            chunk = decode_chunk(body, alone=True)
        except JsonChunk as problem:
            self._seq.fail(Failure("server", f"The provider's response is not valid JSON: {problem}."))
            return
        if chunk is None:
            self._seq.fail(Failure("server", "The provider's response is not a JSON object."))
            return
        if not chunk.is_error and not chunk.choices and complaint_of(body) is None:
            self._seq.fail(Failure("server", "The provider's response holds no choices."))
            return
        self._chunk(chunk, body)
        if not self._seq.closed:
            self._end("whole body", EndFacts(finish_reason=self._reason is not None,
                                             open_call=self._seq.incomplete_call))


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _failure_of(payload: bytes) -> Failure:
    """The failure of an error event, whatever its form."""
    complaint = complaint_of(payload)
    if complaint is None:
        complaint = {"error": payload[:2000].decode("utf-8", "replace").strip()}
    return failure_from_chunk(complaint)
