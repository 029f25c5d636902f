"""generateContent responses, streamed or whole: provider bytes -> conversation events.

Created by `ProviderApi.make_response_decoder` for every 2xx response. It takes the event stream of `alt=sse`, one JSON
object, and the JSON array of a stream without `alt=sse` (any event or element may be an error). `chunks.py` reads
fields, `streamed_call.py` assembles streamed arguments, `extproc.conversation.sequencer` orders blocks; this file
decides when a response is complete, when it is broken, and what it cost.

A stream has no end mark: it is complete if a finish reason (or the block of the prompt) was received and the body ends.
Usage may follow the reason, so nothing is finished earlier. Without a reason the stream is broken, even after whole
calls: Google always sends one. A response with a reason and no content is complete, too: Gemini ends a turn that way if
it has nothing more to say, mostly after tool results, and a failure would make clients retry forever.
"""

from __future__ import annotations

import json

from extproc.apis.base import DecodeContext
from extproc.apis.gemini.provider import signatures
from extproc.apis.gemini.provider.chunks import InvalidChunk, decode_chunks, unknown_part_fields, usage_of
from extproc.apis.gemini.provider.finish import (
    BLOCKED_PROMPT,
    CALL_REASONS,
    UNEXPECTED,
    bracketed_note,
    decode_finish,
    reason_name,
)
from extproc.apis.gemini.provider.malformed_call import CodeCall, parse_calls
from extproc.apis.gemini.provider.response_text import GroundingSources, code_text, file_note, result_text
from extproc.apis.gemini.provider.streamed_call import StreamedCall
from extproc.apis.gemini.wire import Candidate, PromptFeedback, ResponseCall, ResponseChunk, ResponsePart
from extproc.apis.shared.endings import BROKEN, CLEAN, EndFacts
from extproc.apis.shared.json_text import HalfPair
from extproc.apis.shared.provider_errors import complaint_of, failure_from_chunk
from extproc.apis.shared.response_reader import ResponseReader
from extproc.conversation.model import FinishReason, Signature
from extproc.conversation.signatures import embed_in_text
from extproc.errors import Failure
from extproc.profiles.gemini import find_gemini_endpoint


class GeminiResponseDecoder(ResponseReader):
    """One response. The contract: `ResponseDecoder` in apis/base.py."""

    def __init__(self, context: DecodeContext) -> None:
        super().__init__(context)
        self._origin = signatures.origin(context.target)
        self._thought_origin = signatures.origin(context.target, thought=True)
        target = context.target
        self._endpoint = find_gemini_endpoint(target.endpoint, target.base_path, target.provider)
        self._reason: FinishReason | None = None
        self._stop_note: str | None = None
        """Why the provider stopped the response, for a response without any other content."""
        self._candidate_index: object = None  # of the first candidate: the only one that is used
        self._sources = GroundingSources()
        self._streamed: StreamedCall | None = None  # the open call whose arguments come in pieces
        self._last_text = ""  # the last piece of visible text
        self._last_note = ""
        self._has_unknown_parts = False
        """A part of the current chunks has only unknown fields."""

    # ------------------------------------------------------------------------------------------------------- events

    def _event(self, name: bytes, payload: bytes) -> None:
        if not payload.startswith(b"{"):  # the usual case
            if not payload or payload.isspace():  # a keep-alive
                return
            if payload.strip() == b"[DONE]":  # some proxies and some Google endpoints send it
                self._end_of_stream()
                return
        try:
            chunks = decode_chunks(payload)
        except HalfPair:
            self._wait_for_half(name, payload)
            return
        except InvalidChunk as problem:
            first = _first_value(payload)
            if first is None:
                self._seq.fail(Failure("server", f"The provider sent a damaged event: {problem}."))
                return
            # Two values in one event: Google sometimes writes an error behind an event, or writes it twice.
            for piece in (payload[:first], payload[first:]):
                if not self._seq.closed:
                    self._event(name, piece)
            return
        if name == b"error" and not any(chunk.error for chunk in chunks):
            self._seq.fail(failure_from_chunk(complaint_of(payload) or {}))
            return
        self._read_chunks(chunks, payload)

    def _read_chunks(self, chunks: list[ResponseChunk], payload: bytes) -> None:
        for number, chunk in enumerate(chunks):
            if self._seq.closed:
                break
            self._read_chunk(chunk, b"" if number else payload)  # in a list only the first one may be an error
        if self._has_unknown_parts:  # once for all such parts: there may be thousands
            self._has_unknown_parts = False
            for name in unknown_part_fields(payload):
                self._context.dropped.loss(f"response.{name}")

    def _read_chunk(self, chunk: ResponseChunk, payload: bytes) -> None:
        if chunk.error:
            self._seq.fail(failure_from_chunk({"error": chunk.error}))
            return
        if chunk.candidates is None and chunk.usage_metadata is None and chunk.prompt_feedback is None \
                and (complaint := complaint_of(payload)) is not None:
            self._seq.fail(failure_from_chunk(complaint))
            return
        if not self._seq.started:
            self._seq.start(_text_or_none(chunk.response_id), _text_or_none(chunk.model_version))
        if chunk.usage_metadata is not None:
            self._set_usage(usage_of(chunk.usage_metadata))
        for candidate in chunk.candidates or ():
            if candidate is None:
                continue
            index = candidate.index or 0
            if self._candidate_index is None:
                self._candidate_index = index
            if index == self._candidate_index:
                self._read_candidate(candidate)
            else:
                self._context.dropped.loss("response.candidates")
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            self._set_blocked(chunk.prompt_feedback)

    def _read_candidate(self, candidate: Candidate) -> None:
        word = reason_name(candidate.finish_reason, self._endpoint) if candidate.finish_reason else ""
        calls: list[CodeCall] = []
        in_text = False
        if word in CALL_REASONS and not self._seq.has_calls:
            calls, in_text = self._calls_in_text(candidate)
        if candidate.content is not None:
            for part in candidate.content.parts or ():
                if part is not None and not (in_text and isinstance(part.text, str) and part.thought is not True):
                    self._read_part(part)
                    if self._seq.closed:
                        return
        if candidate.grounding_metadata:
            self._sources.add_grounding(candidate.grounding_metadata)
        if candidate.url_context_metadata:
            self._sources.add_url_context(candidate.url_context_metadata)
        if candidate.citation_metadata and bytes(candidate.citation_metadata) not in (b"null", b"{}"):
            self._context.dropped.hint("response.citationMetadata")
        if word:
            self._set_finish(word, candidate.finish_message, calls)

    def _calls_in_text(self, candidate: Candidate) -> tuple[list[CodeCall], bool]:
        """The calls that the model wrote as code, from the finish message or from the text of this candidate; and True
        if that text consists of calls."""
        names = self._context.names
        text = "".join(part.text for part in (candidate.content.parts if candidate.content is not None else None) or ()
                       if part is not None and isinstance(part.text, str) and part.thought is not True)
        in_text = [] if self._last_text else parse_calls(text, names.to_client, names.to_provider)
        return parse_calls(candidate.finish_message, names.to_client, names.to_provider) or in_text, bool(in_text)

    # -------------------------------------------------------------------------------------------------------- parts

    def _read_part(self, part: ResponsePart) -> None:
        text = part.text
        if part.function_call is not None:
            self._read_call(part.function_call, part.signature)
        elif isinstance(text, str) and (text or part.thought_signature is not None):
            if part.thought is True:
                if text:
                    self._reasoning_text(text)
                self._embed_signature(part.signature, self._thought_origin)
            else:
                self._embed_signature(part.signature, self._origin)
                if text:
                    if not text.isspace():
                        self._last_text = text
                    self._content(text)
        else:
            self._read_rare_part(part)

    def _read_rare_part(self, part: ResponsePart) -> None:
        """Everything but text and calls: the provider's own tools, media, unknown parts."""
        dropped = self._context.dropped
        self._embed_signature(part.signature, self._origin)
        if part.executable_code is not None:
            self._insert_paragraph(code_text(part.executable_code))
        elif part.code_execution_result is not None:
            self._insert_paragraph(result_text(part.code_execution_result))
        elif part.inline_data is not None or part.file_data is not None:
            kind, note = file_note(part.inline_data if part.inline_data is not None else part.file_data)
            dropped.loss(f"response.{kind}")
            if part.thought is not True and (kind == "image" or note != self._last_note):
                self._insert_paragraph(note)  # audio comes in hundreds of pieces
                self._last_note = note
        elif part.tool_call is not None:
            dropped.loss("response.toolCall")
        elif part.tool_response is not None:
            dropped.loss("response.toolResponse")
        elif part.function_response is not None:
            dropped.loss("response.functionResponse")
        elif part.text is None and part.thought_signature is None:
            self._has_unknown_parts = True

    def _embed_signature(self, signature: str | None, origin: str) -> None:
        """Embeds the signature of a text or a thought in the open reasoning block. Without one it is dropped, because a
        block made for it after the text would confuse clients (pain point 8). Google recommends returning it."""
        if signature is None:
            return
        if self._scanner is not None:
            self._scanner.pause()
        if not self._seq.signature(embed_in_text(Signature(signature, origin))):
            self._context.dropped.hint("response.thoughtSignature")

    def _insert_paragraph(self, text: str) -> None:
        """Inserts a paragraph that the model did not write."""
        if not text:
            return
        if self._scanner is not None:
            self._scanner.pause()
        before = "" if not self._last_text else "\n" if self._last_text.endswith("\n") else "\n\n"
        self._last_text = text + "\n"
        self._seq.text(before + self._last_text)

    # -------------------------------------------------------------------------------------------------------- calls

    def _read_call(self, call: ResponseCall, signature: str | None) -> None:
        """A whole call, or a piece of a streamed one. A streamed call ends with a piece without `willContinue`, often
        an empty one. The next call or the end of the response also ends it, unless a string is open."""
        streamed = self._streamed
        if streamed is not None and not streamed.continues_with(call):
            if not streamed.is_whole:
                self._seq.fail(BROKEN)
                return
            self._end_streamed_call()
            streamed = None
        if streamed is None:
            name = call.name_text
            if not (call.partial_args or call.will_continue):
                arguments = call.arguments
                if name or arguments:  # without either it is the end mark of a call that has ended already
                    self._emit_call(call.id_text, name, arguments or "{}", signature)
                return
            streamed = self._streamed = StreamedCall(self._context.limits.body)
        failure = streamed.add_part(call, signature)
        if failure is not None:
            self._seq.fail(failure)
        elif not call.will_continue:
            self._end_streamed_call()

    def _end_streamed_call(self, *, whole: bool = True) -> None:
        streamed, self._streamed = self._streamed, None
        assert streamed is not None
        arguments = streamed.arguments if whole else streamed.truncated_arguments
        self._emit_call(streamed.id, streamed.name, arguments, streamed.signature, whole=whole)

    def _emit_call(self, id: str | None, name: str, arguments: str, signature: str | None, *,
                   whole: bool = True) -> None:
        if self._scanner is not None:
            self._scanner.pause(for_call=True)
        seq = self._seq
        call = seq.new_call(id, explicit_end=not whole,
                            signature=None if signature is None else Signature(signature, self._origin))
        seq.call_delta(call, name, arguments)
        if whole and not seq.closed:
            seq.end_call(call)

    # ---------------------------------------------------------------------------------------------------- the ending

    def _set_finish(self, word: str, message: object, calls: list[CodeCall]) -> None:
        """The last reason counts, because old models send one with every chunk; a failure counts at once. A call that
        Gemini refused is passed to the client if it is whole. `calls`: those found in text."""
        if word in CALL_REASONS:
            if calls and not self._seq.has_calls:
                for name, arguments in calls:
                    self._context.tally.native.repaired += 1
                    self._emit_call(None, name, arguments, None)
                self._reason = "stop"
                return
            if word == UNEXPECTED and self._has_whole_calls:
                self._reason = "stop"
                return
        reason, stop_note = decode_finish(word, message)
        if isinstance(reason, Failure):
            self._seq.fail(reason)
        elif reason is not None:
            self._reason, self._stop_note = reason, stop_note

    @property
    def _has_whole_calls(self) -> bool:
        return self._streamed.is_whole if self._streamed is not None else self._seq.has_calls

    def _set_blocked(self, feedback: PromptFeedback) -> None:
        self._reason = "content_filter"
        self._stop_note = bracketed_note(BLOCKED_PROMPT, feedback.block_reason, feedback.block_reason_message)

    def _end_of_stream(self) -> None:
        self._end("end of stream", EndFacts(finish_reason=self._reason is not None,
                                            nothing_came=not self._seq.started))

    def _complete(self) -> None:
        seq = self._seq
        reason = self._reason or "stop"
        clean = reason in CLEAN
        if self._scanner is not None:
            self._scanner.finish(clean)
        if self._streamed is not None:
            self._end_streamed_call(whole=clean and self._streamed.is_whole)
        if self._stop_note is not None and not self._last_text and not seq.has_calls:
            seq.text(self._stop_note)
        if self._sources:
            if self._may_list_sources(reason, bool(self._last_text)):
                self._insert_paragraph(self._sources.text())
            else:
                self._context.dropped.hint("response.groundingMetadata")
        if seq.closed:
            return
        self._finish(reason, truncated=seq.flush(clean))

    # ----------------------------------------------------------------------------------------------------- whole JSON

    def _whole_json(self, body: bytes) -> None:
        try:
            chunks = decode_chunks(body, alone=True)
        except InvalidChunk as problem:
            self._seq.fail(Failure("server", f"The provider's response is not valid JSON: {problem}."))
            return
        self._read_chunks(chunks, body)
        if self._seq.closed:
            return
        if body[:1] != b"{":
            self._end_of_stream()
        elif self._reason is None and (self._candidate_index is None or not (
                self._last_text or self._seq.has_calls or self._seq.has_reasoned)):
            self._seq.fail(Failure("server", "The provider's response holds no content and no finish reason."))
        else:  # a JSON object is complete by itself; some proxies omit the finish reason
            self._end("whole body", EndFacts(finish_reason=self._reason is not None))


def _first_value(payload: bytes) -> int | None:
    """The end of the first of several JSON values, in bytes; None if it is the only one or damaged."""
    text = payload.decode("utf-8", "surrogateescape")
    start = len(text) - len(text.lstrip())
    try:
        _, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return len(text[:end].encode("utf-8", "surrogateescape")) if text[end:].strip() else None


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
