"""Chat Completions answers, streamed or whole: provider bytes -> conversation events.

Created by `ProviderApi.response_decoder` for every 2xx answer. Whether the body is an event stream or one JSON object
is decided by its first byte, not by what was asked or what the content type claims. The deviations of real servers are
handled where they occur (`chunks.py` reads fields, `extproc.conversation.sequencer` sequences); this file decides what
an answer means as a whole: when it is complete, when it is broken, what it cost.

A stream is complete with `[DONE]` or with the end of the body after a finish reason; also with the end of the body
right after whole tool calls (some servers just stop there). Anything else is broken and ends in a Failure.
"""

from __future__ import annotations

from extproc.apis.base import DecodeContext
from extproc.apis.openai.provider.call_index import CallIndex
from extproc.apis.openai.provider.chunks import (
    CallDelta,
    Choice,
    Chunk,
    Delta,
    JsonChunk,
    content_parts,
    decode_chunk,
    is_thought,
    reasoning_of,
    usage_of,
)
from extproc.apis.openai.provider.citations import Cited
from extproc.apis.openai.provider.failed_generation import failed_text, rescued_response
from extproc.apis.openai.provider.finish import FAILED_REASONS, FINISH_REASONS
from extproc.apis.openai.provider.signatures import origin, packed
from extproc.apis.shared.endings import CLEAN, EndFacts
from extproc.apis.shared.json_text import HalfPair
from extproc.apis.shared.provider_errors import complaint_of, decode_error, failure_from_chunk
from extproc.apis.shared.response_reader import ResponseReader
from extproc.conversation.model import FinishReason, Signature, TextDelta
from extproc.conversation.sequencer import BlockSequencer
from extproc.errors import Failure

_THOUGHT = ("<thought>", "</thought>")
"""The tags of thoughts at Google's endpoint."""


class OpenAIResponseDecoder(ResponseReader):
    """One answer. See `ResponseDecoder` in apis/base.py for the contract."""

    def __init__(self, context: DecodeContext) -> None:
        super().__init__(context)
        self._calls = CallIndex(self._seq, context.names.to_client, self._sign)
        self._profile = context.target.profile
        self._cited = Cited()
        self._call_items: dict[str, str] = {}  # signatures that came as items: the call's id -> its signature
        self._reason: str | None = None
        self._stop_sequence: str | None = None
        self._refused = False
        self._saw_delta = False  # one that held more than a role
        self._said_text = False
        self._beside_reasoning: list[str] = []
        """Pieces of text that came in one delta with reasoning: see `_say`."""
        self._beside_size = 0
        self._seq.hand_on = self._say_kept
        self._choice_index: object = None  # of the answer's one choice: that which came first

    # ------------------------------------------------------------------------------------------------------- events

    def _event(self, name: bytes, payload: bytes) -> None:
        if name or not payload.startswith(b"{"):  # else it is the usual one
            if payload.strip() == b"[DONE]":
                self._done()
                return
            if name == b"error":
                self._broke_off(payload)
                return
            if not payload or payload.isspace():  # a keep-alive
                return
        try:
            chunk = decode_chunk(payload)
        except HalfPair:
            self._wait_for_half(name, payload)
            return
        except JsonChunk as problem:
            # two data lines that were meant as two events (no blank line between them)
            if b"\n" in payload:
                for line in payload.split(b"\n"):
                    if not self._seq.closed:
                        self._event(name, line)
                return
            self._seq.fail(Failure("server", f"The provider sent a damaged event: {problem}."))
            return
        if chunk is not None:
            self._chunk(chunk, payload)

    def _chunk(self, chunk: Chunk, payload: bytes) -> None:
        if (chunk.error is not None or chunk.object == "error") and chunk.is_error:
            # It asks for one of these two in any case: no call for a chunk without them, as nearly all are.
            self._broke_off(payload)
            return
        if not chunk.choices and chunk.usage is None and (complaint := complaint_of(payload)) is not None:
            self._seq.fail(failure_from_chunk(complaint))
            return
        if not self._seq.started:
            self._seq.start(_text_or_none(chunk.id), _text_or_none(chunk.model))
        if chunk.usage is not None or chunk.x_groq is not None:
            self._take_usage(chunk)
        if chunk.citations is not None or chunk.search_results is not None:
            self._cited.lists(chunk.citations, chunk.search_results)
        for choice in chunk.choices or ():
            if choice is None:
                continue
            index = choice.index or 0
            if self._choice_index is None:
                self._choice_index = index
            if index == self._choice_index:
                self._choice(choice)
            else:
                self._context.dropped.loss("answer.choices")

    def _choice(self, choice: Choice) -> None:
        delta = choice.delta
        if delta is not None and (self._saw_delta or delta.holds_something):
            self._saw_delta = True
            self._delta(delta)
        if choice.message is not None and not self._saw_delta:
            if not self._streaming and self._scanner is not None and isinstance(choice.message.content, str):
                self._scanner.all_at_hand(choice.message.content)
            self._delta(choice.message)  # a message instead of deltas (proxies); after deltas a repetition
        if choice.usage is not None:  # Moonshot
            self._count(choice.usage)
        if choice.error:  # OpenRouter
            self._seq.fail(failure_from_chunk({"error": choice.error}))
        elif choice.finish_reason is not None:
            self._finished(choice)

    def _delta(self, delta: Delta) -> None:
        """Reasoning first: providers that put both in one chunk mean it so."""
        content = delta.content
        parts = list(content_parts(content)) if content and not isinstance(content, str) else []
        reasons = delta.reasons or any(kind == "thinking" for kind, _ in parts)
        if self._beside_reasoning and not reasons and delta.holds_something:
            self._say_kept()
        if delta.reasons:
            self._reasoning(delta)
        if parts:
            self._parts(parts, beside=reasons)
        elif content and isinstance(content, str):
            if delta.extra_content is not None and is_thought(delta.extra_content):
                self._thought(content)
            else:
                self._say(content, beside=reasons)
        if delta.refusal and isinstance(delta.refusal, str):
            self._say_kept()
            self._content(delta.refusal)
            self._refused = True
        if delta.audio or delta.images or delta.annotations:
            self._beside(delta)
        if delta.tool_calls or delta.function_call is not None:
            self._say_kept()
            if self._scanner is not None:
                self._scanner.pause(for_call=True, between=True)
            if delta.tool_calls:
                self._calls.take(delta.tool_calls, whole=not self._streaming)
            elif delta.function_call is not None:
                self._calls.legacy(delta.function_call.name_text, delta.function_call.arguments_text)

    def _thought(self, content: str) -> None:
        """Content that Google's endpoint marks as a thought, with or without tags. In an answer that did not stream the
        text stands behind the closing one."""
        thought, closed, text = content.rpartition(_THOUGHT[1])
        self._reasoned((thought if closed else text).replace(_THOUGHT[0], ""))
        if closed and text:
            self._say(text)

    def _say(self, text: str, *, beside: bool = False) -> None:
        """A piece of the text. `beside`: it came in a stream together with reasoning. Some servers send a piece of both
        in every delta; so that this becomes one block of each, such text waits for the first delta without reasoning,
        up to the bound of held-back text."""
        if beside and self._streaming:
            self._beside_reasoning.append(text)
            self._beside_size += len(text)
            if self._beside_size <= self._context.limits.held_back:
                return
            self._say_kept()
        else:
            self._said_text = True
            self._content(text)

    def _say_kept(self) -> None:
        """The text that waited: no more reasoning comes beside it."""
        if self._beside_reasoning:
            text, self._beside_reasoning, self._beside_size = "".join(self._beside_reasoning), [], 0
            self._said_text = True
            self._content(text)

    def _parts(self, parts: list[tuple[str, str]], *, beside: bool) -> None:
        for kind, text in parts:
            if kind == "other":
                self._context.dropped.loss(f"answer.{text}")
            elif kind == "signature":
                self._seq.signature(text)
            elif kind == "thinking":
                self._reasoned(text)
            else:
                self._say(text, beside=beside)

    def _beside(self, delta: Delta) -> None:
        """Sound and pictures have no place in an answer; what was said in words is kept. Sources wait for the end."""
        if delta.annotations:
            self._cited.annotations(delta.annotations)
        for name, value in (("audio", delta.audio), ("images", delta.images)):
            if value:
                self._context.dropped.loss(f"answer.{name}")
        if not delta.content and delta.transcript:
            self._say_kept()
            self._content(delta.transcript)

    # ------------------------------------------------------------------------------------------------------ reasoning

    def _reasoning(self, delta: Delta) -> None:
        for thought in reasoning_of(delta):
            if thought[0] == "text":
                self._reasoned(thought[1])
            elif thought[0] == "signature":
                self._seq.signature(thought[1])
            elif thought[0] == "redacted":
                self._seq.redacted_thinking(thought[1])
            else:
                self._sealed(thought[1])

    def _sealed(self, item: dict[str, object]) -> None:
        """Reasoning that somebody else than Anthropic signed or encrypted: it belongs to a call, or it rides in the
        thinking block before it. A block of its own may not stand behind text: clients take that for the answer."""
        data = item.get("data")
        if self._profile.call_signatures == "details" and isinstance(data, str):
            call_id = item.get("id")
            self._call_items[call_id if isinstance(call_id, str) else ""] = data
            return
        seal = packed(item, self._context.target)
        if self._seq.signature(seal):
            return
        if not self._seq.has_calls and not self._said_text:
            self._seq.redacted_thinking(seal)
        else:
            self._context.dropped.hint("answer.reasoning_details")

    def _sign(self, entry: CallDelta, given: str | None) -> Signature | None:
        """What must come back with a call that begins."""
        told = entry.thought_signature
        if told is not None:
            return Signature(told[1], origin(self._context.target, told[0]))
        value = (self._call_items.pop(given, None) if given else None) or self._call_items.pop("", None)
        return None if value is None else Signature(value, origin(self._context.target))

    # ---------------------------------------------------------------------------------------------------- the ending

    def _finished(self, choice: Choice) -> None:
        """The first reason counts, but a failure counts whenever it is told."""
        self._say_kept()
        reason = choice.finish_word
        if reason == "":  # xAI with tools; elsewhere in the middle of a stream
            return
        failed = FAILED_REASONS.get(reason)
        if reason == "unexpected_tool_call" and self._seq.has_calls and not self._seq.incomplete_call:
            failed = None  # the call came whole all the same
        if failed is not None:
            self._seq.fail(failed)
            return
        if self._reason is not None:
            return
        self._reason = reason
        self._stop_sequence = choice.stop_sequence(self._context.request.stop)

    def _broke_off(self, payload: bytes) -> None:
        """An error instead of more. A host that refused the model's call may tell what the model wrote: that is read
        as if it had been the answer, if nothing was sent yet."""
        self._say_kept()
        text = None if self._said_text or self._seq.has_calls else failed_text(payload)
        answer = None if text is None else rescued_response(payload, self._context.names.to_client)
        chunk = None if answer is None else decode_chunk(answer, alone=True)
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
        """Whether the dialects find calls in this text and no other text; it is read once to see."""
        if self._scanner is None:
            return False
        trial = BlockSequencer(lambda ordinal, given: "", self._context.names.client, self._context.names.to_client)
        scanner = self._context.scanner(trial)
        if scanner is not None:
            scanner.content(text)
            scanner.finish(clean=True)
            trial.flush(clean=True)
        self._scanner = self._context.scanner(self._seq)
        if self._scanner is not None:
            self._content, self._reasoned = self._scanner.content, self._scanner.reasoning
        return trial.calls > 0 and not any(isinstance(event, TextDelta) for event in trial.take())

    def _done(self) -> None:
        self._say_kept()
        if self._scanner is not None and self._reason is None:
            self._scanner.finish(clean=True)
        if self._reason is None:
            self._calls.end(clean=True)
        self._end("end mark", EndFacts(finish_reason=self._reason is not None,
                                       nothing_came=not self._seq.has_calls and not self._seq.characters,
                                       open_call=self._seq.incomplete_call))

    def _end_of_stream(self) -> None:
        self._say_kept()
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
        self._say_kept()
        self._calls.end(clean)
        if self._scanner is not None:
            self._scanner.finish(clean)
            if self._seq.closed:
                return
        if self._cited and not self._context.request.cites:
            self._show_sources(reason)
        truncated = self._seq.flush(clean)
        if self._cited.lost:
            self._context.dropped.loss("answer.citations")
        if self._stop_sequence is not None and reason == "stop" and not self._seq.calls:
            reason = "stop_sequence"
        told = self._cited.event() if self._cited and self._context.request.cites else None
        self._finish(reason, truncated=truncated, stop_sequence=self._stop_sequence, citations=told)

    def _show_sources(self, reason: FinishReason) -> None:
        """At the end of a text, where a list fits and there is a page in it."""
        text = self._cited.text() if self._may_list_sources(reason, self._said_text) else ""
        if text:
            self._seq.text(f"\n\n{text}\n")
        else:
            self._cited.lost = True

    def _count(self, usage: object) -> None:
        self._set_usage(usage_of(usage, reasoning_outside=self._profile.reasoning_outside))

    def _take_usage(self, chunk: Chunk) -> None:
        if chunk.usage is not None:
            self._count(chunk.usage)
        elif isinstance(chunk.x_groq, dict) and chunk.x_groq.get("usage"):
            self._count(chunk.x_groq["usage"])
        if isinstance(chunk.x_groq, dict) and chunk.x_groq.get("error"):
            self._seq.fail(failure_from_chunk({"error": chunk.x_groq["error"]}))

    # ----------------------------------------------------------------------------------------------------- whole JSON

    def _whole(self, body: bytes) -> None:
        if body[:1] == b"<":
            self._seq.fail(decode_error(200, {}, body))
            return
        if body.endswith((b"[DONE]", b"[DONE]\n", b"[DONE]\n\n")):  # of a proxy that takes all answers for streams
            body = body.rstrip().removesuffix(b"[DONE]").rstrip().removesuffix(b"data:")
        try:
            chunk = decode_chunk(body, alone=True)
        except JsonChunk as problem:
            self._seq.fail(Failure("server", f"The provider's answer is not valid JSON: {problem}."))
            return
        if chunk is None:
            self._seq.fail(Failure("server", "The provider's answer is not a JSON object."))
            return
        if not chunk.is_error and not chunk.choices and complaint_of(body) is None:
            self._seq.fail(Failure("server", "The provider's answer holds no choices."))
            return
        self._chunk(chunk, body)
        if not self._seq.closed:
            self._end("whole body", EndFacts(finish_reason=self._reason is not None,
                                             open_call=self._seq.incomplete_call))


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _failure_of(payload: bytes) -> Failure:
    """The failure that an error event tells of, whatever stands in it."""
    complaint = complaint_of(payload)
    if complaint is None:
        complaint = {"error": payload[:2000].decode("utf-8", "replace").strip()}
    return failure_from_chunk(complaint)
