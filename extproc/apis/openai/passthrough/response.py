"""A Chat Completions response that passes: every chunk of the provider becomes a chunk of the client.

Changed are the model's name, invalid ids and indexes of calls (an id that the conversation has already, an id repeated
in every chunk), and the usage chunk that the client did not ask for. Missing parts of the end are added: finish
reasons, usage, `[DONE]`. Usage, calls, the end and errors are read; unknown fields pass.
"""

from __future__ import annotations

from typing import Any

import msgspec

from extproc.apis.base import DecodeContext, ResponseDecoder
from extproc.apis.openai.client.response import usage_fields
from extproc.apis.openai.passthrough.calls import ChoiceCalls
from extproc.apis.openai.provider.chunks import JsonChunk, decode_chunk, usage_of
from extproc.apis.openai.wire_response import FAILED_REASONS, FINISH_REASONS, CallDelta, OpenAIChoice, OpenAIChunk
from extproc.apis.shared.endings import EndedBy, EndFacts, failure_at_end
from extproc.apis.shared.json_fields import (
    Fields,
    elements_of,
    encode_fields,
    encode_raw,
    fields_of,
    has_value,
    member_of,
)
from extproc.apis.shared.json_text import without_half_pairs
from extproc.apis.shared.passthrough import PassThroughDecoder, valid_utf8, without_line_ends
from extproc.apis.shared.provider_errors import complaint_of, failure_from_chunk
from extproc.apis.shared.sse import LF
from extproc.conversation.model import RawEvent
from extproc.errors import Failure

_DONE = b"data: [DONE]\n\n"
_HEAD = ("id", "object", "created", "model", "system_fingerprint")
"""The fields that all chunks of a response share."""


class _PeekedChoice(msgspec.Struct, gc=False):
    index: int = 0
    finish_reason: str | None = None
    error: Any = None


class _PeekedChunk(msgspec.Struct, gc=False):
    """The fields that show whether a chunk is one more piece of text and nothing else."""

    model: str | None = None
    choices: list[_PeekedChoice] = []
    usage: Any = None
    error: Any = None
    x_groq: Any = None


_peek = msgspec.json.Decoder(_PeekedChunk).decode

CallPosition = tuple[int, int]
"""The position of a call in a chunk: of its choice, and of the call in the choice."""


class ChatPassThroughDecoder(PassThroughDecoder):
    """One response."""

    def __init__(self, context: DecodeContext, decoder: ResponseDecoder) -> None:
        super().__init__(context, decoder)
        self._faithful = context.target.profile.faithful
        self._name = encode_raw(context.request.model)
        self._model: str | None = context.request.model  # the provider's last spelling; `_old` has its two encodings
        self._old = (b"", b"")
        self._new = (b'"model":%b' % bytes(self._name), b'"model": %b' % bytes(self._name))
        self._head: Fields | None = None
        self._started_choices: set[int] = set()
        self._finished_choices: set[int] = set()
        self._reason: str | None = None
        self._calls_by_choice: dict[int, ChoiceCalls] = {}
        self._call_count = 0  # of all choices
        self._has_usage = False
        self._output_events = 0

    @property
    def unoffered_calls(self) -> int:
        return len(self._unoffered_names) + self._ordinary.unoffered_calls

    @property
    def _unoffered_names(self) -> list[str]:
        known = self._context.names.to_client
        return [name for calls in self._calls_by_choice.values() for name in calls.names if name not in known]

    # -------------------------------------------------------------------------------------------------------- events

    def _pass_event(self, name: bytes, payload: bytes) -> None:
        """The fast path for a further piece of text, as most events are: one small decode."""
        if self._content_seen and b'"tool_calls"' not in payload and not name:
            try:
                peeked = _peek(payload)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                peeked = None
            if peeked is not None and peeked.usage is None and peeked.error is None and peeked.x_groq is None \
                    and len(peeked.choices) == 1:
                part = peeked.choices[0]
                if part.finish_reason is None and part.error is None and part.index in self._started_choices:
                    self._output_events += 1
                    self._out.append(RawEvent(b"data: %b\n\n" % self._with_client_model(payload, peeked.model), True))
                    return
        self._full_event(name, payload)

    def _full_event(self, name: bytes, payload: bytes) -> None:
        if payload.strip() == b"[DONE]":
            self._done("end mark", nothing_came=not self._content_seen and self._reason is None)
            return
        if name == b"error":
            self._fail_with(payload)
            return
        if not payload or payload.isspace():
            return
        try:
            chunk = decode_chunk(payload, alone=True)
        except JsonChunk as problem:
            if b"\n" not in payload:
                self._fail(Failure("server", f"The provider sent a damaged event: {problem}."))
                return
            for line in payload.split(b"\n"):  # two data lines meant as two events
                if not self._ended:
                    self._full_event(name, line)
            return
        if chunk is not None:
            self._chunk(chunk, payload)

    def _chunk(self, chunk: OpenAIChunk, payload: bytes) -> None:
        choices = [choice for choice in chunk.choices or () if choice is not None]
        if chunk.is_error or (not choices and chunk.usage is None and complaint_of(payload) is not None):
            self._fail_with(payload)
            return
        self._take_usage(chunk, choices)
        calls = 0
        changes: dict[CallPosition, Fields] = {}
        for position, choice in enumerate(choices):
            calls += self._choice(position, choice, changes)
        if self._ended or (not choices and chunk.usage is not None and not self._context.request.want_usage):
            return  # usage that only the gateway asked for
        if self._head is None:
            fields = fields_of(payload) or {}
            self._head = {name: fields[name].copy() for name in _HEAD if name in fields}
        if changes:
            payload = _with_changes(payload, changes, "delta")
        holds_something = any(part is not None and part.holds_something
                              for choice in choices for part in (choice.delta, choice.message))
        self._output_events += holds_something
        model = chunk.model if isinstance(chunk.model, str) else None
        self._pass(b"data: %b\n\n" % self._with_client_model(payload, model), content=holds_something, calls=calls)

    def _choice(self, position: int, choice: OpenAIChoice, changes: dict[CallPosition, Fields]) -> int:
        """Reads one choice and returns the number of calls that begin in it. `changes` receives the changes to its
        calls."""
        index = choice.index if isinstance(choice.index, int) else 0
        self._started_choices.add(index)
        calls = 0
        delta = choice.delta or choice.message
        if delta is not None and delta.tool_calls:
            calls = self._calls(index, position, delta.tool_calls, changes)
        if choice.error:
            self._fail(failure_from_chunk({"error": choice.error}))
        elif word := choice.finish_word:
            self._take_finish(index, word, position, changes)
        return calls

    def _calls(self, index: int, position: int, entries: list[CallDelta | None],
               changes: dict[CallPosition, Fields]) -> int:
        """Reads the entries of one list and returns the number of calls that begin in it. `changes` receives the
        changes."""
        calls = self._calls_by_choice.get(index)
        if calls is None:
            calls = self._calls_by_choice[index] = ChoiceCalls(self._context.names.to_client,
                                                               self._context.limits.tool_arguments)
        begun = 0
        for at, (entry, found) in enumerate(zip(entries, calls.client_positions(entries, whole=not self._streaming),
                                                strict=True)):
            if entry is None or found is None:
                continue
            place, begins, name = found
            change: Fields = {}
            given = entry.id if isinstance(entry.id, str) else None
            if begins:
                begun += 1
                new = self._new_id(given, self._call_count)
                self._call_count += 1
                if new is not None:
                    change["id"] = encode_raw(new)
            else:  # SDKs join repetitions
                if given is not None:
                    change["id"] = encode_raw(None)
                if entry.function_name and name != entry.function_name:
                    change["name"] = encode_raw(name or None)
            if entry.index != place:
                change["index"] = encode_raw(place)
            if entry.custom is not None and not entry.is_custom:
                change["custom"] = encode_raw(None)
            if change:
                changes[position, at] = change
        if calls.failure is not None:
            self._fail(calls.failure)
        return begun

    def _take_finish(self, index: int, word: str, position: int, changes: dict[CallPosition, Fields]) -> None:
        if word in FAILED_REASONS:
            self._fail(FAILED_REASONS[word])
            return
        self._finished_choices.add(index)
        self._reason = self._reason or word
        if word == "stop" and not self._faithful and self._calls_by_choice.get(index):
            changes[position, -1] = {"finish_reason": encode_raw("tool_calls")}
            self._reason = "tool_calls"

    def _fail_with(self, payload: bytes) -> None:
        complaint = complaint_of(payload) or {"error": payload[:2000].decode("utf-8", "replace").strip()}
        self._fail(failure_from_chunk(complaint))

    # ------------------------------------------------------------------------------------------------------ the name

    def _with_client_model(self, payload: bytes, model: str | None) -> bytes:
        """The chunk on one line with the client's name of the model. A quoted name after an unescaped quote can only be
        the member: inside a string both are escaped."""
        if not payload.isascii() or LF in payload:
            payload = valid_utf8(without_line_ends(payload))
        if model is None or model == self._context.request.model:
            return payload
        if model != self._model:
            self._model = model
            name = bytes(encode_raw(model))
            self._old = (b'"model":%b' % name, b'"model": %b' % name)
        for old, new in zip(self._old, self._new, strict=True):
            renamed = payload.replace(old, new)
            if renamed is not payload:
                return renamed
        fields = fields_of(payload)  # another spelling of the member
        return payload if fields is None else encode_fields({**fields, "model": self._name})

    # ------------------------------------------------------------------------------------------------------- the end

    def _take_usage(self, chunk: OpenAIChunk, choices: list[OpenAIChoice]) -> None:
        groq = chunk.x_groq if isinstance(chunk.x_groq, dict) else {}
        if groq.get("error"):
            self._fail(failure_from_chunk({"error": groq["error"]}))
        for reported in (chunk.usage, groq.get("usage"), *(choice.usage for choice in choices)):
            outside = self._context.target.profile.reasoning_uncounted
            usage = usage_of(reported, reasoning_uncounted=outside) if reported is not None else None
            if usage is not None:
                self._usage = usage
                self._has_usage = True

    def _no_more_events(self) -> None:
        """Without `[DONE]` a response is complete once all its choices are."""
        self._done("end of stream", nothing_came=not self._started_choices)

    def _done(self, ended_by: EndedBy, *, nothing_came: bool) -> None:
        open_choices = sorted(self._started_choices - self._finished_choices)
        failure = failure_at_end(ended_by, EndFacts(
            finish_reason=bool(self._finished_choices) and not open_choices, nothing_came=nothing_came,
            open_call=any(index in self._calls_by_choice for index in open_choices)))
        if failure is not None:
            self._fail(failure)
            return
        for index in open_choices:
            self._own_chunk([{"index": index, "delta": {}, "finish_reason": "stop"}])
        if not self._has_usage:
            self._estimate_usage(self._output_events)
            if self._context.request.want_usage:
                self._own_chunk([], usage=usage_fields(self._usage, self._context.prompt_estimate))
        self._pass(_DONE)
        self._finish()

    def _own_chunk(self, choices: list[dict[str, Any]], **more: Any) -> None:
        head = {**(self._head or {}), "model": self._name}
        self._pass(b"data: %b\n\n" % msgspec.json.encode({**head, "choices": choices, **more}))

    def _fail(self, failure: Failure) -> None:
        self._note_unoffered()
        super()._fail(failure)

    def _note_unoffered(self) -> None:
        """The response ends: the names of its calls are whole."""
        if not self._ended:
            for name in self._unoffered_names:
                self._context.tally.note_bad(name, "unoffered")

    def _finish(self) -> None:
        self._note_unoffered()
        reason = FINISH_REASONS.get(self._reason or "stop", "stop")
        self._end(reason, calls=bool(self._calls_by_choice))

    # --------------------------------------------------------------------------------------------------------- whole

    def _pass_body(self, body: bytes) -> bool:
        fields = fields_of(body)
        try:
            chunk = decode_chunk(body, alone=True)
        except JsonChunk:
            return False
        choices = [choice for choice in chunk.choices or () if choice is not None] if chunk is not None else []
        if fields is None or chunk is None or not choices or chunk.is_error or any(
                choice.error or choice.finish_word in FAILED_REASONS or choice.message is None for choice in choices):
            return False
        self._take_usage(chunk, choices)
        changes: dict[CallPosition, Fields] = {}
        calls = 0
        for position, choice in enumerate(choices):
            calls += self._choice(position, choice, changes)
        if self._ended:
            return True
        if changes:
            fields = fields_of(_with_changes(body, changes, "message")) or fields
        fields["model"] = self._name
        if not self._has_usage:
            self._estimate_usage(len(body) // 4)
            fields["usage"] = encode_raw(usage_fields(self._usage, self._context.prompt_estimate))
        self._pass(valid_utf8(encode_fields(fields)), content=True, calls=calls)
        self._finish()
        return True


def _with_changes(payload: bytes, changes: dict[CallPosition, Fields], part: str) -> bytes:
    """The chunk with changed calls. The changes of a choice's own members have the position -1."""
    fields = fields_of(payload) or fields_of(without_half_pairs(payload)) or {}
    choices = elements_of(fields.get("choices", msgspec.Raw(b"[]"))) or []
    for position, choice in enumerate(choices):
        mine = {at: change for (where, at), change in changes.items() if where == position}
        members = fields_of(choice) if mine else None
        if members is None:
            continue
        members.update(mine.pop(-1, {}))
        delta = member_of(members, part)
        entries = elements_of(delta["tool_calls"]) if delta is not None and "tool_calls" in delta else None
        if delta is not None and entries is not None and mine:
            delta["tool_calls"] = encode_raw([_changed_call(entry, mine.get(at, {}), whole=part == "message")
                                       for at, entry in enumerate(entries)])
            members[part] = msgspec.Raw(encode_fields(delta))
        choices[position] = msgspec.Raw(encode_fields(members))
    fields["choices"] = encode_raw(choices)
    return encode_fields(fields)


def _changed_call(entry: msgspec.Raw, change: Fields, *, whole: bool) -> msgspec.Raw:
    members = fields_of(entry)
    if not change or members is None:
        return entry
    for name, value in change.items():
        if name == "name":
            function = member_of(members, "function")
            if function is not None and function.pop("name", None) is not None:
                members["function"] = msgspec.Raw(encode_fields({"name": value, **function} if has_value(value)
                                                                else function))
        elif not has_value(value):
            members.pop(name, None)
        elif name != "index" or not whole:  # a whole response has no indexes
            members[name] = value
    return msgspec.Raw(encode_fields(members))
