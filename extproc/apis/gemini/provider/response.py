"""generateContent answers, streamed or whole: provider bytes -> conversation events.

Created by `ProviderApi.response_decoder` for every 2xx answer. It takes the event stream of `alt=sse`, one JSON object,
and the JSON array of a stream without `alt=sse` (an error may be any event or element). `chunks.py` reads fields,
`partial_args.py` puts streamed arguments together, `extproc.conversation.sequencer` sequences; this file decides what
an answer means as a whole: when it is complete, when it is broken, what it cost.

There is no mark for the end of a stream: it is complete when a finish reason (or the block of the prompt) came and the
body ends. Usage may follow the reason, so nothing is finished before that. Without a reason the stream is broken, also
behind whole calls: Google always sends one. An answer with a reason and no content is complete as well: Gemini ends a
turn with nothing more to say in that way, mostly after tool results, and a failure would make clients ask again for
ever.
"""

from __future__ import annotations

import json

from extproc.apis.base import DecodeContext
from extproc.apis.gemini.provider import signatures
from extproc.apis.gemini.provider.chunks import (
    Candidate,
    Chunk,
    FunctionCall,
    JsonChunk,
    Part,
    PromptFeedback,
    decode_chunks,
    strange_parts,
    usage_of,
)
from extproc.apis.gemini.provider.finish import BLOCKED_PROMPT, CALL_REASONS, UNEXPECTED, finish_of, note, reason_name
from extproc.apis.gemini.provider.grounding import Sources
from extproc.apis.gemini.provider.malformed_call import Call, read_calls
from extproc.apis.gemini.provider.parts import code_text, file_note, result_text
from extproc.apis.gemini.provider.streamed_call import StreamedCall
from extproc.apis.shared.endings import BROKEN, CLEAN, EndFacts
from extproc.apis.shared.json_text import HalfPair
from extproc.apis.shared.provider_errors import complaint_of, decode_error, failure_from_chunk
from extproc.apis.shared.response_reader import ResponseReader
from extproc.conversation.model import FinishReason, Signature
from extproc.conversation.signatures import embed_in_text
from extproc.errors import Failure
from extproc.profiles.gemini import gemini_endpoint


class GeminiResponseDecoder(ResponseReader):
    """One answer. See `ResponseDecoder` in apis/base.py for the contract."""

    def __init__(self, context: DecodeContext) -> None:
        super().__init__(context)
        self._origin = signatures.origin(context.target)
        self._thought_origin = signatures.origin(context.target, thought=True)
        target = context.target
        self._door = gemini_endpoint(target.endpoint, target.base_path, target.provider)
        self._reason: FinishReason | None = None
        self._said: str | None = None
        """Why the provider stopped the answer, for an answer that shows nothing else."""
        self._candidate_index: object = None  # of the answer's one candidate: that which came first
        self._sources = Sources()
        self._streamed: StreamedCall | None = None  # a call whose arguments come in pieces
        self._shown = ""  # the last piece of visible text
        self._last_note = ""
        self._strange = False
        """A part of the chunks at hand holds something that nobody knows."""

    # ------------------------------------------------------------------------------------------------------- events

    def _event(self, name: bytes, payload: bytes) -> None:
        if not payload.startswith(b"{"):  # else it is the usual one
            if not payload or payload.isspace():  # a keep-alive
                return
            if payload.strip() == b"[DONE]":  # of proxies, and of some endpoints of Google's
                self._end_of_stream()
                return
        try:
            chunks = decode_chunks(payload)
        except HalfPair:
            self._wait_for_half(name, payload)
            return
        except JsonChunk as problem:
            first = _first_value(payload)
            if first is None:
                self._seq.fail(Failure("server", f"The provider sent a damaged event: {problem}."))
                return
            # Two values in one event: Google writes an error behind an event, and sometimes writes it twice.
            for piece in (payload[:first], payload[first:]):
                if not self._seq.closed:
                    self._event(name, piece)
            return
        if name == b"error" and not any(chunk.error for chunk in chunks):
            self._seq.fail(failure_from_chunk(complaint_of(payload) or {}))
            return
        self._chunks(chunks, payload)

    def _chunks(self, chunks: list[Chunk], payload: bytes) -> None:
        for number, chunk in enumerate(chunks):
            if self._seq.closed:
                break
            self._chunk(chunk, b"" if number else payload)  # of a list the first one may be a complaint
        if self._strange:  # the names of all such parts at once: there may be thousands
            self._strange = False
            for name in strange_parts(payload):
                self._context.dropped.loss(f"answer.{name}")

    def _chunk(self, chunk: Chunk, payload: bytes) -> None:
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
                self._candidate(candidate)
            else:
                self._context.dropped.loss("answer.candidates")
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            self._blocked(chunk.prompt_feedback)

    def _candidate(self, candidate: Candidate) -> None:
        word = reason_name(candidate.finish_reason, self._door) if candidate.finish_reason else ""
        calls: list[Call] = []
        in_text = False
        if word in CALL_REASONS and not self._seq.has_calls:
            calls, in_text = self._call_in_words(candidate)
        if candidate.content is not None:
            for part in candidate.content.parts or ():
                if part is not None and not (in_text and isinstance(part.text, str) and part.thought is not True):
                    self._part(part)
                    if self._seq.closed:
                        return
        if candidate.grounding_metadata:
            self._sources.grounding(candidate.grounding_metadata)
        if candidate.url_context_metadata:
            self._sources.url_context(candidate.url_context_metadata)
        if candidate.citation_metadata and bytes(candidate.citation_metadata) not in (b"null", b"{}"):
            self._context.dropped.hint("answer.citationMetadata")
        if word:
            self._finished(word, candidate.finish_message, calls)

    def _call_in_words(self, candidate: Candidate) -> tuple[list[Call], bool]:
        """The calls that the model wrote as code, from the message or from the text of this candidate, and whether
        that text holds nothing else."""
        names = self._context.names
        text = "".join(part.text for part in (candidate.content.parts if candidate.content is not None else None) or ()
                       if part is not None and isinstance(part.text, str) and part.thought is not True)
        in_text = [] if self._shown else read_calls(text, names.to_client, names.to_provider)
        return read_calls(candidate.finish_message, names.to_client, names.to_provider) or in_text, bool(in_text)

    # -------------------------------------------------------------------------------------------------------- parts

    def _part(self, part: Part) -> None:
        text = part.text
        if part.function_call is not None:
            self._function_call(part.function_call, part.signature)
        elif isinstance(text, str) and (text or part.thought_signature is not None):
            if part.thought is True:
                if text:
                    self._reasoned(text)
                self._block_signature(part.signature, self._thought_origin)
            else:
                self._block_signature(part.signature, self._origin)
                if text:
                    if not text.isspace():
                        self._shown = text
                    self._content(text)
        else:
            self._rare_part(part)

    def _rare_part(self, part: Part) -> None:
        """What the provider's own tools did, media, and whatever else is no text and no call."""
        dropped = self._context.dropped
        self._block_signature(part.signature, self._origin)
        if part.executable_code is not None:
            self._insert(code_text(part.executable_code))
        elif part.code_execution_result is not None:
            self._insert(result_text(part.code_execution_result))
        elif part.inline_data is not None or part.file_data is not None:
            kind, words = file_note(part.inline_data if part.inline_data is not None else part.file_data)
            dropped.loss(f"answer.{kind}")
            if part.thought is not True and (kind == "image" or words != self._last_note):
                self._insert(words)  # sound comes in hundreds of pieces
                self._last_note = words
        elif part.tool_call is not None:
            dropped.loss("answer.toolCall")
        elif part.tool_response is not None:
            dropped.loss("answer.toolResponse")
        elif part.function_response is not None:
            dropped.loss("answer.functionResponse")
        elif part.text is None and part.thought_signature is None:
            self._strange = True

    def _block_signature(self, signature: str | None, origin: str) -> None:
        """The signature of a text or a thought. It can only ride in a reasoning block that is still open: a block made
        for it behind the text would confuse clients (pain point 8). It is recommended to come back, not required."""
        if signature is None:
            return
        if self._scanner is not None:
            self._scanner.pause()
        if not self._seq.signature(embed_in_text(Signature(signature, origin))):
            self._context.dropped.hint("answer.thoughtSignature")

    def _insert(self, text: str) -> None:
        """A paragraph that the model did not write, between its own."""
        if not text:
            return
        if self._scanner is not None:
            self._scanner.pause()
        before = "" if not self._shown else "\n" if self._shown.endswith("\n") else "\n\n"
        self._shown = text + "\n"
        self._seq.text(before + self._shown)

    # -------------------------------------------------------------------------------------------------------- calls

    def _function_call(self, call: FunctionCall, signature: str | None) -> None:
        """A whole call, or a piece of a streamed one. A streamed call ends with a piece that does not say that more
        comes, often an empty one; the next call or the model's stop ends it, too, unless it is within a string."""
        streamed = self._streamed
        if streamed is not None and not streamed.goes_on_with(call):
            if not streamed.whole:
                self._seq.fail(BROKEN)
                return
            self._end_streamed()
            streamed = None
        if streamed is None:
            name = call.name_text
            if not (call.partial_args or call.will_continue):
                arguments = call.arguments
                if name or arguments:  # one without either is the end mark of a call that has ended already
                    self._call(call.id_text, name, arguments or "{}", signature)
                return
            streamed = self._streamed = StreamedCall(self._context.limits.body)
        failure = streamed.take(call, signature)
        if failure is not None:
            self._seq.fail(failure)
        elif not call.will_continue:
            self._end_streamed()

    def _end_streamed(self, *, whole: bool = True) -> None:
        streamed, self._streamed = self._streamed, None
        assert streamed is not None
        arguments = streamed.arguments if whole else streamed.truncated_arguments
        self._call(streamed.id, streamed.name, arguments, streamed.signature, whole=whole)

    def _call(self, id: str | None, name: str, arguments: str, signature: str | None, *, whole: bool = True) -> None:
        if self._scanner is not None:
            self._scanner.pause(for_call=True)
        seq = self._seq
        call = seq.new_call(id, told_end=not whole,
                            signature=None if signature is None else Signature(signature, self._origin))
        seq.call_delta(call, name, arguments)
        if whole and not seq.closed:
            seq.end_call(call)

    # ---------------------------------------------------------------------------------------------------- the ending

    def _finished(self, word: str, message: object, calls: list[Call]) -> None:
        """The last reason counts (old models told one with every chunk); a failure counts whenever it is told. A call
        that Gemini did not take is one for the client if it came whole; `calls` are those that came in words."""
        if word in CALL_REASONS:
            if calls and not self._seq.has_calls:
                for name, arguments in calls:
                    self._context.tally.native.repaired += 1
                    self._call(None, name, arguments, None)
                self._reason = "stop"
                return
            if word == UNEXPECTED and self._has_whole_calls:
                self._reason = "stop"
                return
        reason, said = finish_of(word, message)
        if isinstance(reason, Failure):
            self._seq.fail(reason)
        elif reason is not None:
            self._reason, self._said = reason, said

    @property
    def _has_whole_calls(self) -> bool:
        return self._streamed.whole if self._streamed is not None else self._seq.has_calls

    def _blocked(self, feedback: PromptFeedback) -> None:
        self._reason = "content_filter"
        self._said = note(BLOCKED_PROMPT, feedback.block_reason, feedback.block_reason_message)

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
            self._end_streamed(whole=clean and self._streamed.whole)
        if self._said is not None and not self._shown and not seq.has_calls:
            seq.text(self._said)
        if self._sources:
            if self._may_list_sources(reason, bool(self._shown)):
                self._insert(self._sources.text())
            else:
                self._context.dropped.hint("answer.groundingMetadata")
        if seq.closed:
            return
        self._finish(reason, truncated=seq.flush(clean))

    # ----------------------------------------------------------------------------------------------------- whole JSON

    def _whole(self, body: bytes) -> None:
        if body[:1] == b"<":
            self._seq.fail(decode_error(200, {}, body))
            return
        try:
            chunks = decode_chunks(body, alone=True)
        except JsonChunk as problem:
            self._seq.fail(Failure("server", f"The provider's answer is not valid JSON: {problem}."))
            return
        self._chunks(chunks, body)
        if self._seq.closed:
            return
        if body[:1] != b"{":
            self._end_of_stream()
        elif self._reason is None and (self._candidate_index is None or not (
                self._shown or self._seq.has_calls or self._seq.has_reasoned)):
            self._seq.fail(Failure("server", "The provider's answer holds no content and no finish reason."))
        else:  # one object cannot have lost its end; some proxies leave the finish reason out
            self._end("whole body", EndFacts(finish_reason=self._reason is not None))


def _first_value(payload: bytes) -> int | None:
    """Where the first of several JSON values in these bytes ends, None when it is the only one or is damaged."""
    text = payload.decode("utf-8", "surrogateescape")
    start = len(text) - len(text.lstrip())
    try:
        _, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return len(text[:end].encode("utf-8", "surrogateescape")) if text[end:].strip() else None


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
