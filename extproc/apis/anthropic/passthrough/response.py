"""A Messages response that passes: every event of the provider becomes an event of the client.

Changed are the model's name in `message_start`, ids of calls that the conversation has already, and at compatible
endpoints the mark of their signatures. Their missing parts are added (usage, stop reasons, the last event). Usage,
calls, the end and errors are read. Unknown events, blocks and fields pass. The ordinary decoder reads a stream that
does not begin as the API says.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from extproc.apis.anthropic.client.response import stop_reason, usage_fields
from extproc.apis.anthropic.provider.chunks import Damaged, UsageFigures, decode_chunk, object_of
from extproc.apis.anthropic.provider.messages import origin_at
from extproc.apis.anthropic.provider.response import ANOTHER_MESSAGE, STOP_REASONS
from extproc.apis.base import DecodeContext, ResponseDecoder
from extproc.apis.shared.endings import BROKEN, EndedBy, EndFacts, failure_at_end
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
from extproc.apis.shared.provider_errors import failure_from_chunk
from extproc.apis.shared.sse import LF
from extproc.conversation.model import FinishReason, RawEvent, Signature, Usage
from extproc.conversation.signatures import embed_in_text
from extproc.errors import Failure
from extproc.profiles.anthropic import find_anthropic_endpoint

_SSE = b"event: %b\ndata: %b\n\n"
_DELTA = b"event: content_block_delta\ndata: %b\n\n"
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""A legal event name."""
_FRAME = 72
"""Bytes of a delta's JSON around its text."""
_NO_ID = {b"", b'""', b"null"}
_QUIET_BLOCKS = ("text", "thinking")
"""Blocks without content at their start."""


class _ArgumentsPiece(msgspec.Struct, gc=False):
    partial_json: str = ""


class _ArgumentsDelta(msgspec.Struct, gc=False):
    delta: _ArgumentsPiece


class _EventHead(msgspec.Struct, gc=False):
    type: str = ""


class _PassedBlock(msgspec.Struct):
    type: str = ""
    id: Any = None
    name: Any = None
    input: msgspec.Raw = msgspec.Raw()
    signature: Any = None


class _BlockStart(msgspec.Struct):
    content_block: _PassedBlock
    index: int = 0


class _PassedMessage(msgspec.Struct):
    content: list[_PassedBlock]
    usage: msgspec.Raw = msgspec.Raw()
    stop_reason: str | None = None
    error: msgspec.Raw = msgspec.Raw()


_head = msgspec.json.Decoder(_EventHead).decode
_start = msgspec.json.Decoder(_BlockStart)
_message = msgspec.json.Decoder(_PassedMessage)
_arguments = msgspec.json.Decoder(_ArgumentsDelta)


class MessagesPassThroughDecoder(PassThroughDecoder):
    """One response."""

    def __init__(self, context: DecodeContext, decoder: ResponseDecoder) -> None:
        super().__init__(context, decoder)
        target = context.target
        self._signed = find_anthropic_endpoint(target.endpoint, target.provider, target.model).signed
        self._origin = origin_at(target.endpoint)
        self._figures = UsageFigures()
        self._started = False
        self._message_id = b""  # as JSON
        self._open: str | None = None  # the type of the open block
        self._index = 0
        self._name: object = None
        self._size = 0
        """Characters of the open call's arguments."""
        self._has_usage = False
        self._reason: str | None = None
        self._calls = 0
        self._characters = 0

    @property
    def _tokens(self) -> int:
        """The estimated output so far."""
        return max(0, self._characters // 4)

    # -------------------------------------------------------------------------------------------------------- events

    def _pass_event(self, name: bytes, payload: bytes) -> None:
        try:
            kind = _head(payload).type
        except UnicodeDecodeError:
            self._pass_event(name, valid_utf8(payload))
            return
        except (msgspec.DecodeError, RecursionError) as problem:
            self._damaged_event(name, payload, problem)
            return
        if not payload.isascii() or LF in payload:
            payload = valid_utf8(without_line_ends(payload))
        if kind == "content_block_delta" and self._open is not None and name != b"error":
            self._delta(payload)
        else:
            self._other_event(kind, name, payload)

    def _delta(self, payload: bytes) -> None:
        if self._open == "tool_use":
            self._count_arguments(payload)
            if self._ended:
                return
        if not self._signed and b'"signature_delta"' in payload:
            payload = self._with_marked_signature(payload)
        self._characters += len(payload) - _FRAME
        self._content_seen = True
        self._out.append(RawEvent(_DELTA % payload, True))

    def _count_arguments(self, payload: bytes) -> None:
        try:
            self._size += len(_arguments.decode(payload).delta.partial_json)
        except (msgspec.DecodeError, UnicodeDecodeError):  # half a surrogate pair, or a delta of another kind
            self._size += len(payload) - _FRAME
        self._check_length(self._name, self._size)

    def _damaged_event(self, name: bytes, payload: bytes, problem: Exception) -> None:
        """Handles data that is no JSON object with a type: keep-alives, halves of surrogate pairs, errors as plain
        text, two events in one, and damage."""
        payload = valid_utf8(payload)
        if not payload or payload.isspace():
            return
        if payload.strip() == b"[DONE]":  # of the OpenAI format
            if self._reason is not None:
                self._message_stopped(None, "end mark")
            return
        whole = without_half_pairs(payload)
        if whole is not payload:
            try:
                kind = _head(whole).type
            except (msgspec.DecodeError, RecursionError):
                kind = None
            if kind == "content_block_delta" and self._open is not None:
                self._delta(valid_utf8(without_line_ends(payload)))  # JavaScript joins the two halves
                return
            if kind is not None:
                self._other_event(kind, name, valid_utf8(without_line_ends(whole)))
                return
        if name == b"error":
            self._fail(failure_from_chunk({"error": payload[:2000].decode("utf-8", "replace").strip()}))
        elif b"\n" in payload:
            for line in payload.split(b"\n"):
                if not self._ended:
                    self._pass_event(b"", line)
        else:
            self._fail(Failure("server", f"The provider sent a damaged event: {problem}."))

    def _other_event(self, kind: str, name: bytes, payload: bytes) -> None:
        if kind == "error" or name == b"error" or (not kind and b'"error"' in payload):
            self._fail(failure_from_chunk(_object(payload)))
            return
        if not kind:
            kind = name.decode("ascii", "replace")
            payload = _with_type(payload, kind)
        if not self._started and kind != "message_start":
            if kind != "ping":  # a ping before the message is dropped: it is not allowed there
                self._translate(name, payload)
            return
        try:
            self._known_event(kind, payload)
        except (msgspec.DecodeError, RecursionError) as problem:
            self._fail(Failure("server", f"The provider sent a damaged event: {problem}."))

    def _known_event(self, kind: str, payload: bytes) -> None:
        if kind == "message_start":
            self._start_message(payload)
        elif kind == "content_block_start":
            self._start_block(payload)
        elif kind == "content_block_delta":
            self._fail(Failure("server", "The provider sent a piece of a block that it had not begun."))
        elif kind == "content_block_stop":
            self._open = None
            self._pass(_SSE % (b"content_block_stop", payload))
        elif kind == "message_delta":
            self._take_stop(payload)
        elif kind == "message_stop":
            self._message_stopped(payload, "end mark")
        elif _WORD.fullmatch(kind):
            self._pass(_SSE % (kind.encode(), payload))

    def _start_message(self, payload: bytes) -> None:
        """Passes `message_start` with the client's name of the model."""
        fields = fields_of(payload)
        message = member_of(fields, "message") if fields is not None else None
        id = bytes(message.get("id", b"")) if message is not None else b""
        if self._started:
            if id != self._message_id and not {id, self._message_id} & _NO_ID:
                self._fail(ANOTHER_MESSAGE)
            return  # a repeated start
        self._message_id = id
        if fields is None or message is None:
            self._fail(Failure("server", "The provider began its response without a message."))
            return
        self._started = True
        self._take_usage(message.get("usage"))
        message["model"] = encode_raw(self._context.request.model)
        if not has_value(message.get("usage")):  # the SDKs require it
            message["usage"] = encode_raw(usage_fields(Usage(output=1), self._context.prompt_estimate))
        fields["message"] = msgspec.Raw(encode_fields(message))
        self._pass(_SSE % (b"message_start", encode_fields(fields)))

    def _start_block(self, payload: bytes) -> None:
        start = _start.decode(payload)
        block = start.content_block
        self._open, self._index = block.type, start.index
        self._name, self._size = block.name, 0
        call = block.type == "tool_use"
        changes = self._changes(block)
        if self._ended:
            return
        if changes:
            fields = fields_of(payload) or {}
            members = member_of(fields, "content_block") or {}
            fields["content_block"] = msgspec.Raw(encode_fields({**members, **changes}))
            payload = encode_fields(fields)
        self._pass(_SSE % (b"content_block_start", payload), content=block.type not in _QUIET_BLOCKS, calls=int(call))

    def _changes(self, block: _PassedBlock) -> Fields:
        """The changed members of a block at its start or of a whole block: a new id (some compatible endpoints count
        from 0 in every response), a marked signature."""
        if block.type == "tool_use":
            self._calls += 1
            self._count_unoffered(block.name)
            self._check_length(block.name, len(bytes(block.input).decode("utf-8", "replace")))
            new = self._new_id(block.id if isinstance(block.id, str) else None, self._calls - 1)
            return {} if new is None else {"id": encode_raw(new)}
        if block.type == "thinking" and not self._signed and isinstance(block.signature, str) and block.signature:
            return {"signature": encode_raw(embed_in_text(Signature(block.signature, self._origin)))}
        return {}

    def _with_marked_signature(self, payload: bytes) -> bytes:
        """Marks a signature of a compatible endpoint with its issuer, so that it never reaches Anthropic after a
        failover."""
        fields = fields_of(payload) or {}
        delta = member_of(fields, "delta") or {}
        value = msgspec.json.decode(delta["signature"]) if "signature" in delta else None
        if not isinstance(value, str) or not value:
            return payload
        delta["signature"] = encode_raw(embed_in_text(Signature(value, self._origin)))
        fields["delta"] = msgspec.Raw(encode_fields(delta))
        return encode_fields(fields)

    # ------------------------------------------------------------------------------------------------------- the end

    def _take_stop(self, payload: bytes) -> None:
        chunk = decode_chunk(payload, alone=True)
        self._take_usage(chunk.usage)
        reason = chunk.delta.stop_reason if chunk.delta is not None else None
        self._reason = reason or self._reason
        if self._open == "tool_use":
            self._fail(BROKEN)  # an open call may be incomplete
            return
        if self._open is not None:
            self._open = None
            stop = b'{"type":"content_block_stop","index":%d}' % self._index
            self._pass(_SSE % (b"content_block_stop", stop))
        if self._signed:
            self._pass(_SSE % (b"message_delta", payload))
            return
        fields = fields_of(payload) or {}
        delta = member_of(fields, "delta") or {}
        if reason is not None:
            delta["stop_reason"] = encode_raw(self._stop_word(reason))
        fields["delta"] = msgspec.Raw(encode_fields(delta))
        if not has_value(fields.get("usage")):
            fields["usage"] = encode_raw({"output_tokens": self._usage.output or self._tokens})
        self._pass(_SSE % (b"message_delta", encode_fields(fields)))

    def _stop_word(self, reason: str) -> str:
        """The stop reason for the client. Compatible endpoints are careless about calls, and some use OpenAI's
        words."""
        known = STOP_REASONS.get(reason)
        return reason if known is None else stop_reason(known, self._calls > 0)

    def _message_stopped(self, payload: bytes | None, ended_by: EndedBy) -> None:
        """`payload`: that of `message_stop`; None if the provider omitted it."""
        failure = failure_at_end(ended_by, EndFacts(
            finish_reason=self._reason is not None and self._open is None, nothing_came=not self._started,
            open_call=self._open is not None))
        if failure is not None:
            self._fail(failure)
            return
        if self._reason is None:  # still an end; the client needs a reason
            self._reason = stop_reason("stop", self._calls > 0)
            final_delta = {"type": "message_delta", "delta": {"stop_reason": self._reason, "stop_sequence": None},
                    "usage": {"output_tokens": self._usage.output or self._tokens}}
            self._pass(_SSE % (b"message_delta", msgspec.json.encode(final_delta)))
        self._pass(_SSE % (b"message_stop", b'{"type":"message_stop"}' if payload is None else payload))
        self._finish(self._reason)

    def _no_more_events(self) -> None:
        """A provider that sent its stop reason has finished, even without the last event."""
        self._message_stopped(None, "end of stream")

    def _finish(self, word: str | None) -> None:
        if not self._has_usage:
            self._estimate_usage(self._tokens)
        reason: FinishReason = STOP_REASONS.get(word or "", "stop")
        self._end(reason, calls=self._calls > 0)

    def _take_usage(self, usage: msgspec.Raw | None) -> None:
        """Usage is cumulative: a later figure replaces an earlier one."""
        figures = self._figures.update(usage) if usage is not None else None
        if figures is not None:
            self._usage = figures
            self._has_usage = True

    # --------------------------------------------------------------------------------------------------------- whole

    def _pass_body(self, body: bytes) -> bool:
        fields = fields_of(body)
        try:
            message = _message.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        if fields is None:
            return False
        if has_value(message.error):
            self._fail(failure_from_chunk(_object(body)))
            return True
        self._take_usage(message.usage)
        self._change_blocks(fields, message)
        if self._ended:
            return True
        fields["model"] = encode_raw(self._context.request.model)
        if not self._signed:
            if message.stop_reason is not None:
                fields["stop_reason"] = encode_raw(self._stop_word(message.stop_reason))
            if not has_value(fields.get("usage")):
                self._estimate_usage(len(body) // 4)
                fields["usage"] = encode_raw(usage_fields(self._usage, self._context.prompt_estimate))
        self._characters = len(body)
        self._pass(valid_utf8(encode_fields(fields)), content=True, calls=self._calls)
        self._finish(message.stop_reason)
        return True

    def _change_blocks(self, fields: Fields, message: _PassedMessage) -> None:
        changes = [self._changes(block) for block in message.content]
        if any(changes):
            blocks = elements_of(fields["content"]) or []
            fields["content"] = encode_raw([
                msgspec.Raw(encode_fields({**(fields_of(block) or {}), **change})) if change else block
                for block, change in zip(blocks, changes, strict=True)])


def _with_type(payload: bytes, kind: str) -> bytes:
    """Adds the type to an event that has only a name: clients read the type from the data."""
    fields = fields_of(payload)
    if fields is None:
        return payload
    fields.pop("type", None)
    return encode_fields({"type": encode_raw(kind), **fields})


def _object(payload: bytes) -> dict[str, Any]:
    try:
        return object_of(payload)
    except Damaged:
        return {"error": payload[:2000].decode("utf-8", "replace")}
