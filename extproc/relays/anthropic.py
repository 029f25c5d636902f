"""Anthropic clients at Anthropic-format providers: betas, cache marks, thinking and signatures stay as they are.

The request keeps the client's bytes except for the model's name, the output limit, the settings of the attempt, the
client's billing line (it varies and breaks prompt caches) and what another provider left in the history: ids that carry
a signature, thinking that no Anthropic model signed. The stream is handed on event by event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from extproc.apis.anthropic.answer import PING
from extproc.apis.anthropic.request import ATTRIBUTION
from extproc.apis.anthropic_provider.messages import origin_at
from extproc.apis.base import AnswerDecoder, AnswerEncoder, DecodeContext, Dropped, ProviderRequest, Target
from extproc.apis.body_reader import BROKEN
from extproc.apis.provider_errors import failure_from_chunk
from extproc.carrying import loaded_text
from extproc.conversation import Failure, FinishReason, Request, Signature, Usage
from extproc.profiles.anthropic import VERSION, anthropic_endpoint, messages_path
from extproc.relays.anthropic_history import FOREIGN, clean_history
from extproc.relays.base import Fields, RelayEncoder, RelayReader, fields_of, joined, raw

_HEADERS = ("anthropic-version", "anthropic-beta")
_STOPS: dict[str, FinishReason] = {
    "end_turn": "stop", "stop_sequence": "stop_sequence", "max_tokens": "length", "tool_use": "tool_calls",
    "refusal": "refusal", "pause_turn": "pause", "model_context_window_exceeded": "context_length"}
_CHOICES = {"auto": "auto", "required": "any", "none": "none"}


class AnthropicRelay:
    """`Relay` for the Messages API."""

    def patched(self, body: bytes, headers: Mapping[str, str], request: Request, target: Target,
                dropped: Dropped) -> ProviderRequest | None:
        if target.tool_style not in ("auto", "native"):
            return None
        fields = fields_of(body)
        if fields is None:
            return None
        fields["model"] = raw(target.model)
        if target.max_output_tokens is not None and (request.max_output_tokens or 0) > target.max_output_tokens:
            fields["max_tokens"] = raw(target.max_output_tokens)
        if ATTRIBUTION.encode() in body and "system" in fields:
            _without_billing(fields)
        if request.tools:
            _set_choice(fields, target)
        if any(mark in body for mark in FOREIGN):
            clean_history(fields, target, dropped)
        head = {"content-type": "application/json", "accept-encoding": "identity",
                "accept": "text/event-stream" if request.stream else "application/json",
                "anthropic-version": VERSION}
        head.update({name: headers[name] for name in _HEADERS if headers.get(name)})
        return ProviderRequest(method="POST", path=messages_path(target.base_path), headers=head, body=joined(fields))

    def passes_answer(self, request: Request, target: Target) -> bool:
        return target.tool_style in ("auto", "native")

    def reader(self, context: DecodeContext, decoder: AnswerDecoder) -> RelayReader:
        return _Reader(context, decoder)

    def encoder(self, encoder: AnswerEncoder, *, stream: bool) -> RelayEncoder:
        return RelayEncoder(encoder, PING if stream else b"")


# ------------------------------------------------------------------------------------------------------------ request


def _without_billing(fields: Fields) -> None:
    system = msgspec.json.decode(fields["system"])
    if isinstance(system, str):
        kept: Any = _plain(system)
    elif isinstance(system, list):
        kept = []
        for block in system:
            text = block.get("text") if isinstance(block, dict) else None
            if isinstance(text, str) and text.startswith(ATTRIBUTION):
                rest = _plain(text)
                if not rest:
                    continue
                block = {**block, "text": rest}
            kept.append(block)
    else:
        return
    if kept:
        fields["system"] = raw(kept)
    else:
        del fields["system"]


def _plain(text: str) -> str:
    rest = text.partition("\n")[2] if text.startswith(ATTRIBUTION) else text
    return rest if rest.strip() else ""


def _set_choice(fields: Fields, target: Target) -> None:
    """The settings of the attempt, over the client's."""
    if target.tool_choice is None and target.parallel_tool_calls is None:
        return
    choice = msgspec.json.decode(fields["tool_choice"]) if "tool_choice" in fields else None
    choice = dict(choice) if isinstance(choice, dict) else {"type": "auto"}
    if target.tool_choice is not None:
        choice = {**choice, "type": _CHOICES[target.tool_choice]}
        choice.pop("name", None)
    if target.parallel_tool_calls is not None:
        choice["disable_parallel_tool_use"] = not target.parallel_tool_calls
    if choice["type"] == "none":
        choice = {"type": "none"}
    fields["tool_choice"] = raw(choice)


# ------------------------------------------------------------------------------------------------------------- answer


class _Head(msgspec.Struct):
    type: str = ""


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Stop(msgspec.Struct, frozen=True):
    stop_reason: str | None = None


class _MessageDelta(msgspec.Struct):
    delta: _Stop = _Stop()
    usage: _Usage | None = None


class _Message(msgspec.Struct):
    usage: _Usage | None = None
    stop_reason: str | None = None


_head = msgspec.json.Decoder(_Head)
_message_delta = msgspec.json.Decoder(_MessageDelta)
_message = msgspec.json.Decoder(_Message)
_DELTA = b'{"type":"content_block_delta"'


class _Reader(RelayReader):
    """One Messages answer that passes."""

    def __init__(self, context: DecodeContext, decoder: AnswerDecoder) -> None:
        super().__init__(context, decoder)
        target = context.target
        self._signed = anthropic_endpoint(target.endpoint, target.provider, target.model).signed
        self._origin = origin_at(target.endpoint)
        self._figures: dict[str, int] = {}
        self._reason: str | None = None
        self._calls = 0

    def _pass_event(self, name: bytes, payload: bytes) -> None:
        if payload.startswith(_DELTA) and (self._signed or b'"signature_delta"' not in payload):
            self._characters += len(payload)
            self._pass(b"event: content_block_delta\ndata: %b\n\n" % payload, content=True)
            return
        if not payload or payload.isspace():
            return
        try:
            kind = _head.decode(payload).type or name.decode("utf-8", "replace")
            self._other_event(kind, payload)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
            self._fail(Failure("server", f"The provider sent a damaged event: {problem}."))

    def _other_event(self, kind: str, payload: bytes) -> None:
        if kind == "error" or (kind == "" and b'"error"' in payload):
            self._fail(failure_from_chunk(msgspec.json.decode(payload, type=dict[str, Any])))
            return
        calls = 0
        if kind == "message_start":
            payload = self._started(payload)
        elif kind == "content_block_start":
            payload, calls = self._block(payload)
        elif kind == "message_delta":
            payload = self._delta(payload)
        elif kind == "content_block_delta" and not self._signed:
            payload = self._marked(payload)
        data = b"event: %b\ndata: %b\n\n" % (kind.encode(), payload)
        # A block's start is content too: an answer may be a single call without arguments.
        self._pass(data, content=kind.startswith("content_block_"), calls=calls)
        if kind == "message_stop":
            self._end(_STOPS.get(self._reason or "", "stop"))

    def _started(self, payload: bytes) -> bytes:
        """The client reads the name that it asked for."""
        fields = fields_of(payload)
        message = fields_of(bytes(fields["message"])) if fields and "message" in fields else None
        if fields is None or message is None:
            raise msgspec.ValidationError("message_start without a message")
        self._count(_message.decode(fields["message"]).usage)
        message["model"] = raw(self._context.request.model)
        fields["message"] = msgspec.Raw(joined(message))
        return joined(fields)

    def _block(self, payload: bytes) -> tuple[bytes, int]:
        """A call's id must be new in the conversation: some compatible endpoints count from 0 in every answer."""
        fields = fields_of(payload)
        block = fields_of(bytes(fields["content_block"])) if fields and "content_block" in fields else None
        if fields is None or block is None:
            raise msgspec.ValidationError("content_block_start without a block")
        if block.get("type") != msgspec.Raw(b'"tool_use"'):
            return payload, 0
        self._calls += 1
        given = msgspec.json.decode(block["id"]) if "id" in block else None
        if isinstance(given, str) and self._context.accept_id(given):
            return payload, 1
        block["id"] = raw(self._context.mint(self._calls - 1))
        fields["content_block"] = msgspec.Raw(joined(block))
        return joined(fields), 1

    def _marked(self, payload: bytes) -> bytes:
        """A signature that is not Anthropic's says whose it is, so that it never reaches Anthropic after a failover."""
        fields = fields_of(payload)
        delta = fields_of(bytes(fields["delta"])) if fields and "delta" in fields else None
        if fields is None or delta is None or "signature" not in delta:
            return payload
        value = msgspec.json.decode(delta["signature"])
        if not isinstance(value, str) or not value:
            return payload
        delta["signature"] = raw(loaded_text(Signature(value, self._origin)))
        fields["delta"] = msgspec.Raw(joined(delta))
        return joined(fields)

    def _delta(self, payload: bytes) -> bytes:
        told = _message_delta.decode(payload)
        self._count(told.usage)
        self._reason = told.delta.stop_reason or self._reason
        if self._calls and told.delta.stop_reason == "end_turn":
            self._reason = "tool_use"
            payload = payload.replace(b'"end_turn"', b'"tool_use"', 1)
        return payload

    def _count(self, usage: _Usage | None) -> None:
        """Cumulative; a later figure overwrites."""
        if usage is None:
            return
        for name in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"):
            value = getattr(usage, name)
            if value is not None:
                self._figures[name] = max(0, value)
        read, written = (self._figures.get(f"cache_{what}_input_tokens", 0) for what in ("read", "creation"))
        self._usage = Usage(input=self._figures.get("input_tokens", 0) + read + written, cached=read,
                            cache_write=written, output=self._figures.get("output_tokens", 0))

    def _pass_body(self, body: bytes) -> None:
        fields = fields_of(body)
        if fields is None:
            self._fail(Failure("server", "The provider's answer is not valid JSON."))
            return
        if "content" not in fields:
            told = msgspec.json.decode(body, type=dict[str, Any])
            self._fail(failure_from_chunk(told) if "error" in told else BROKEN)
            return
        try:
            answer = _message.decode(body)
        except msgspec.DecodeError as problem:
            self._fail(Failure("server", f"The provider's answer cannot be read: {problem}."))
            return
        self._count(answer.usage)
        fields["model"] = raw(self._context.request.model)
        calls = self._fresh_ids(fields)
        self._pass(joined(fields), content=True, calls=calls)
        self._end(_STOPS.get(answer.stop_reason or "", "stop"))

    def _fresh_ids(self, fields: Fields) -> int:
        """As `_block`, for all calls of a whole message."""
        blocks = msgspec.json.decode(fields["content"], type=list[Fields])
        calls = 0
        changed = False
        for block in blocks:
            if block.get("type") != msgspec.Raw(b'"tool_use"'):
                continue
            given = msgspec.json.decode(block["id"]) if "id" in block else None
            if not (isinstance(given, str) and self._context.accept_id(given)):
                block["id"] = raw(self._context.mint(calls))
                changed = True
            calls += 1
        if changed:
            fields["content"] = raw(blocks)
        return calls
