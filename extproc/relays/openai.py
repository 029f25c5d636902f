"""OpenAI clients at OpenAI-format providers that need no mending: chunks pass, the model's name is the client's.

Most servers of this format deviate from it (ids, indexes, calls written as text, reasoning in many fields): for them
the conversation is translated like for any other pair. Bytes pass where the profile says that the endpoint is
`faithful`, and where the client asked for what only bytes can carry (several choices, log probabilities).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from extproc.apis.base import AnswerDecoder, AnswerEncoder, DecodeContext, Dropped, ProviderRequest, Target
from extproc.apis.body_reader import BROKEN, EMPTY
from extproc.apis.openai.answer import FAILED_REASONS, FINISH_REASONS
from extproc.apis.openai.chunks import usage_of
from extproc.apis.openai.parameters import legal_user
from extproc.apis.provider_errors import failure_from_chunk
from extproc.carrying import MARK
from extproc.conversation import Failure, Request
from extproc.names import fits_name
from extproc.relays.base import Fields, RelayEncoder, RelayReader, fields_of, joined, raw
from extproc.relays.openai_history import may_pass

KEEP_ALIVE = b": keepalive\n\n"
_DONE = b"data: [DONE]\n\n"

_FOREIGN = (b'"reasoning_content"', b'"reasoning"', b'"reasoning_details"', b'"thinking"', b'"cache_control"',
            b'"extra_content"', MARK.encode())
"""Bodies without these hold nothing in their messages that a strict server refuses."""
_NULL = msgspec.Raw(b"null")
_LIMITS = ("max_tokens", "max_completion_tokens")


class OpenAIRelay:
    """`Relay` for Chat Completions."""

    def patched(self, body: bytes, headers: Mapping[str, str], request: Request, target: Target,
                dropped: Dropped) -> ProviderRequest | None:
        if not target.profile.faithful or not self._native(target) or any(mark in body for mark in _FOREIGN):
            return None
        fields = fields_of(body)
        if fields is None or not _tools_fit(fields, request, target):
            return None
        if not may_pass(fields["messages"], target.profile.tool_call_id_max):
            return None
        _patch(fields, request, target, dropped)
        head = {"content-type": "application/json", "accept-encoding": "identity",
                "accept": "text/event-stream" if request.stream else "application/json"}
        return ProviderRequest(method="POST", path=f"{target.base_path}/chat/completions", headers=head,
                               body=joined(fields))

    def passes_answer(self, request: Request, target: Target) -> bool:
        return self._native(target) and (target.profile.faithful or request.logprobs or request.choices > 1)

    def _native(self, target: Target) -> bool:
        return target.tool_style in ("auto", "native")

    def reader(self, context: DecodeContext, decoder: AnswerDecoder) -> RelayReader:
        return _Reader(context, decoder)

    def encoder(self, encoder: AnswerEncoder, *, stream: bool) -> RelayEncoder:
        return RelayEncoder(encoder, KEEP_ALIVE if stream else b"")


# ------------------------------------------------------------------------------------------------------------ request


class _Parameters(msgspec.Struct):
    parameters: msgspec.Raw = msgspec.Raw()


class _Tool(msgspec.Struct):
    function: _Parameters | None = None


def _tools_fit(fields: Fields, request: Request, target: Target) -> bool:
    """Whether the tools can stay as the client wrote them: a function without parameters, which some servers refuse,
    gets them when the request is written anew."""
    most = min(target.max_tools, target.profile.max_tools or target.max_tools)
    if len(request.tools) > most or not all(fits_name(tool.name, target.profile.tool_name_max)
                                            for tool in request.tools):
        return False
    try:
        tools = msgspec.json.decode(fields.get("tools", _NULL), type=list[_Tool] | None)
    except msgspec.DecodeError:
        return False
    return all(tool.function is None or b'"properties"' in bytes(tool.function.parameters) for tool in tools or ())


def _patch(fields: Fields, request: Request, target: Target, dropped: Dropped) -> None:
    profile = target.profile
    fields["model"] = raw(target.model)
    _set_limit(fields, request, target)
    for name in sorted(profile.refuses):
        if fields.pop(name, None) not in (None, msgspec.Raw(b"null")):
            dropped.loss(name)
    if request.stream and profile.stream_usage:
        options = fields_of(bytes(fields["stream_options"])) if "stream_options" in fields else None
        fields["stream_options"] = raw({**(options or {}), "include_usage": True})
    if request.user and "user" in fields:
        if profile.user:
            fields["user"] = raw(legal_user(request.user))
        else:
            del fields["user"]
            dropped.hint("user")
    if request.tools and target.tool_choice is not None:
        fields["tool_choice"] = raw(target.tool_choice)
    if request.tools and target.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = raw(target.parallel_tool_calls)
    if "parallel_tool_calls" in fields and not profile.parallel_tool_calls:
        del fields["parallel_tool_calls"]
        dropped.loss("parallel_tool_calls")
    if "reasoning_effort" in fields and profile.reasoning == "none":
        del fields["reasoning_effort"]
        dropped.loss("thinking")


def _set_limit(fields: Fields, request: Request, target: Target) -> None:
    wanted = request.max_output_tokens
    if wanted is None:
        return
    for name in _LIMITS:
        fields.pop(name, None)
    most = target.max_output_tokens
    fields[target.profile.max_tokens_field] = raw(wanted if most is None else min(wanted, most))


# ------------------------------------------------------------------------------------------------------------- answer


class _Function(msgspec.Struct):
    name: str | None = None


class _Call(msgspec.Struct):
    function: _Function | None = None
    type: str | None = None


class _Delta(msgspec.Struct):
    content: msgspec.Raw = msgspec.Raw()
    refusal: msgspec.Raw = msgspec.Raw()
    tool_calls: list[_Call] | None = None
    audio: msgspec.Raw = msgspec.Raw()


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: Any = None
    error: msgspec.Raw = msgspec.Raw()


_chunk = msgspec.json.Decoder(_Chunk)
_NOTHING = (msgspec.Raw(), msgspec.Raw(b"null"), msgspec.Raw(b'""'))
_LOOK = (b'"finish_reason":"', b'"finish_reason": "', b'"error"', b'"usage":{', b'"usage": {', b'"tool_calls"')
"""Chunks without these hold a piece of text and nothing else."""


class _Reader(RelayReader):
    """One Chat Completions answer that passes."""

    def __init__(self, context: DecodeContext, decoder: AnswerDecoder) -> None:
        super().__init__(context, decoder)
        self._reason: str | None = None
        self._name: tuple[bytes, bytes] | None = None
        self._counted = False

    def _pass_event(self, name: bytes, payload: bytes) -> None:
        if self._content_seen and not any(mark in payload for mark in _LOOK):
            self._characters += len(payload) // 40
            self._forward(payload, content=True)
            return
        if payload.strip() == b"[DONE]":
            self._done()
            return
        if not payload or payload.isspace():
            return
        try:
            chunk = _chunk.decode(payload)
        except (msgspec.DecodeError, RecursionError) as problem:
            self._fail(Failure("server", f"The provider sent a damaged event: {problem}."))
            return
        self._chunk(chunk, payload, failed=name == b"error")

    def _chunk(self, chunk: _Chunk, payload: bytes, *, failed: bool) -> None:
        if failed or chunk.error not in _NOTHING:
            self._fail(failure_from_chunk(msgspec.json.decode(payload, type=dict[str, Any])))
            return
        self._learn(chunk.model)
        self._take_usage(chunk)
        reason = next((choice.finish_reason for choice in chunk.choices or () if choice.finish_reason), None)
        if reason is not None:
            if reason.lower() in FAILED_REASONS:
                self._fail(FAILED_REASONS[reason.lower()])
                return
            self._reason = self._reason or reason
        if not chunk.choices and not self._context.request.want_usage and chunk.usage is not None:
            return  # figures that only the gateway asked for
        calls = sum(1 for choice in chunk.choices or () for call in (choice.delta and choice.delta.tool_calls) or ()
                    if call.function is not None and call.function.name)
        self._forward(payload, content=calls > 0 or any(_holds(choice.delta) for choice in chunk.choices or ()),
                      calls=calls)

    def _learn(self, model: str | None) -> None:
        """The provider's name of the model, as it stands in every chunk."""
        if model is not None and self._name is None:
            encode = msgspec.json.encode
            self._name = encode(model), encode(self._context.request.model)

    def _forward(self, payload: bytes, *, content: bool, calls: int = 0) -> None:
        if self._name is not None:
            old, new = self._name
            # A quoted name behind an unescaped quote can only be the member: inside a text both are escaped.
            for between in (b":", b": "):
                payload = payload.replace(b'"model"' + between + old, b'"model"' + between + new, 1)
        lines = b"\n".join(b"data: " + line for line in payload.split(b"\n"))
        self._pass(lines + b"\n\n", content=content, calls=calls)

    def _take_usage(self, chunk: _Chunk) -> None:
        usage = usage_of(chunk.usage) if isinstance(chunk.usage, dict) else None
        if usage is not None:
            self._usage = usage
            self._counted = True

    def _done(self) -> None:
        if self._reason is None and not self._content_seen:
            self._fail(EMPTY)
            return
        if not self._counted:
            self._estimate_usage()
        self._pass(_DONE)
        self._end(FINISH_REASONS.get((self._reason or "stop").lower(), "stop"))

    def _no_more_events(self) -> None:
        if self._reason is None:
            self._fail(BROKEN)
        else:
            self._done()

    def _pass_body(self, body: bytes) -> None:
        fields = fields_of(body)
        try:
            chunk = _chunk.decode(body)
        except (msgspec.DecodeError, RecursionError) as problem:
            self._fail(Failure("server", f"The provider's answer cannot be read: {problem}."))
            return
        if fields is None or chunk.error not in _NOTHING or not chunk.choices:
            self._translated = True
            self._hand_over(self._other.feed(body))
            self._hand_over(self._other.finish())
            return
        self._take_usage(chunk)
        if not self._counted:
            self._characters = len(body)
            self._estimate_usage()
        fields["model"] = raw(self._context.request.model)
        calls = sum(len(choice.message.tool_calls or ()) for choice in chunk.choices if choice.message is not None)
        self._pass(joined(fields), content=True, calls=calls)
        reason = next((choice.finish_reason for choice in chunk.choices if choice.finish_reason), None) or "stop"
        self._end(FINISH_REASONS.get(reason.lower(), "stop"))


def _holds(delta: _Delta | None) -> bool:
    return delta is not None and any(value not in _NOTHING for value in (delta.content, delta.refusal, delta.audio))

