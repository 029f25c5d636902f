"""A Chat Completions request -> the conversation model.

Called through `API.decode_request`. Fields without a place in the model go to `Request.extra` unchanged: a provider of
the same API gets them, for others they are named (`apis.shared.extras`). Losses are named in `dropped`: as a loss if
they change what the model sees or may do, else as a hint. Nothing is contacted. The provider side checks that calls and
results pair up.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import msgspec

from extproc.apis.openai.client.messages import decode_messages
from extproc.apis.openai.client.parameters import (
    output_format,
    output_limit,
    stop_sequences,
    thinking_config,
    thinking_words,
    wants_usage,
)
from extproc.apis.openai.client.tools import decode_choice, decode_tools
from extproc.apis.openai.wire_messages import KnownMessage
from extproc.apis.openai.wire_request import ClientBody, WholeClientBody
from extproc.apis.shared.body import check_parts, checked, in_one_pass
from extproc.apis.shared.wire import given, misplaced, refused
from extproc.bounds import Limits
from extproc.conversation.model import Request
from extproc.conversation.unsupported import Dropped

AnyBody = ClientBody[KnownMessage] | ClientBody[msgspec.Raw]

_whole = msgspec.json.Decoder(WholeClientBody)
_known: msgspec.json.Decoder[ClientBody[KnownMessage]] = msgspec.json.Decoder(ClientBody[KnownMessage])
_body: msgspec.json.Decoder[ClientBody[msgspec.Raw]] = msgspec.json.Decoder(ClientBody[msgspec.Raw])
_lenient: msgspec.json.Decoder[ClientBody[msgspec.Raw]] = msgspec.json.Decoder(ClientBody[msgspec.Raw],
                                                                               strict=False)
"""Reads `"100"` and 100.0 as 100, as most servers of this format do."""
_fields: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])

FIELDS = frozenset(field.name for field in msgspec.structs.fields(ClientBody))
"""Top-level fields that have a place in the conversation model."""

_NULL = b"null"
_MOST_CHOICES = 128


class ChatRequest(Request, kw_only=True):
    """A request with the fields that only this API's response encoders read."""

    legacy_functions: bool = False
    """The client offered `functions`: it reads one `function_call`, not `tool_calls`."""
    show_reasoning: bool = True
    """False if the client excluded reasoning from the response. Reasoning may still take place."""
    dropped: Dropped | None = None
    """The losses of this exchange as they are found, for application events."""


def decode_request(body: bytes, headers: Mapping[str, str], dropped: Dropped, limits: Limits) -> ChatRequest:
    """Decodes POST /v1/chat/completions. Raises BadRequest with the place."""
    return request_of_record(*read_body(body, limits), dropped, limits)


def read_body(body: bytes, limits: Limits) -> tuple[AnyBody, dict[str, msgspec.Raw]]:
    """The known fields as a record, and all other non-null fields as raw JSON."""
    known: ClientBody[KnownMessage] | None = in_one_pass(body, _whole) or in_one_pass(body, _known)
    if known is None:
        body = checked(body, limits.json_depth)
        try:
            return _body.decode(body), _unlisted_fields(body)
        except msgspec.ValidationError as error:
            try:
                return _lenient.decode(body), _unlisted_fields(body)
            except msgspec.ValidationError:
                raise misplaced(error, "") from None
    extra = _further_fields(known, body) if isinstance(known, WholeClientBody) else _unlisted_fields(body)
    depth = limits.json_depth
    if extra:
        check_parts(extra.values(), 2, depth)
    parts = _parts(known)
    if any(parts):
        check_parts(filter(None, parts), 2, depth)
    check_parts([value for turn in known.messages for value in turn.raw_fields if value], 4, depth)
    return known, extra


def _unlisted_fields(body: bytes) -> dict[str, msgspec.Raw]:
    return {name: value.copy() for name, value in _fields.decode(body).items()
            if name not in FIELDS and memoryview(value) != _NULL}


def _further_fields(known: WholeClientBody, body: bytes) -> dict[str, msgspec.Raw]:
    """The fields that are not in the model. Nearly always this avoids a second pass over the body, which takes half as
    long as the first. Two or more fields need it, because only the body has their order, which is kept in the request
    sent."""
    values = _rest(known)
    if not any(values):
        return {}
    rest = {name: value.copy() for name, value in zip(_REST, values, strict=True) if given(value)}
    return rest if len(rest) < 2 else _unlisted_fields(body)


_REST = tuple(name for name in WholeClientBody.__struct_fields__ if name not in FIELDS)
_rest = attrgetter(*_REST)
_parts = attrgetter(*(field.name for field in msgspec.structs.fields(ClientBody) if field.type is msgspec.Raw))


def request_of_record(record: AnyBody, extra: dict[str, msgspec.Raw], dropped: Dropped, limits: Limits, *,
            strays: bool = False) -> ChatRequest:
    """The request. `strays`: the caller handles results without a call. Raises BadRequest with the place."""
    _check_choices(record.n)
    system, messages = decode_messages(record.messages, dropped, strays=strays)
    request = decode_parameters(record, extra, dropped, limits)
    request.system, request.messages = system, messages
    return request


def decode_parameters(record: ClientBody[Any], extra: dict[str, msgspec.Raw], dropped: Dropped,
                      limits: Limits) -> ChatRequest:
    """The request without its messages. Raises BadRequest with the place."""
    _check_choices(record.n)
    tools, server_tools = decode_tools(record.tools or (), record.functions or (), dropped, limits.json_depth)
    thinking, shown = thinking_config(record, extra, dropped)
    legacy = bool(record.functions) and not record.tools
    stream = bool(record.stream)
    return ChatRequest(
        model=record.model, messages=[], tools=tools, server_tools=server_tools,
        tool_choice=decode_choice(record.tool_choice, record.function_call, dropped),
        parallel_tool_calls=False if legacy else record.parallel_tool_calls,
        max_output_tokens=output_limit(record, dropped), temperature=record.temperature, top_p=record.top_p,
        top_k=record.top_k if record.top_k and record.top_k > 0 else None,  # 0 and -1 mean all (vLLM)
        stop=stop_sequences(record.stop, dropped), stream=stream, thinking=thinking,
        thinking_words=thinking_words(record, extra),
        output_format=output_format(record.response_format, dropped), user=record.user or None, seed=record.seed,
        presence_penalty=record.presence_penalty, frequency_penalty=record.frequency_penalty,
        logprobs=bool(record.logprobs), top_logprobs=record.top_logprobs, choices=record.n or 1,
        want_usage=not stream or wants_usage(record.stream_options, extra.get("usage", msgspec.Raw())),
        extra=extra, api="openai", cites=True,
        legacy_functions=legacy, show_reasoning=shown)


def _check_choices(choices: int | None) -> None:
    if choices is not None and not 1 <= choices <= _MOST_CHOICES:
        raise refused("n", f"expected 1 to {_MOST_CHOICES}, got {choices}")
