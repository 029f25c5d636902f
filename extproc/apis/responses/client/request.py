"""A Responses API request -> the conversation model.

Called through `API.decode_request`. Fields without a place in the model go to `Request.extra` unchanged: a provider of
the same API gets them, for others they are named (`apis.shared.extras`). What the response object repeats is kept as
the client's own JSON. Nothing is stored here, so a request that refers to something stored is refused, with the remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import msgspec

from extproc.apis.responses.client.items import decode_items, tool_sources
from extproc.apis.responses.client.parts import read_content, read_parts
from extproc.apis.responses.client.tools import ToolSource, decode_choice, decode_tools
from extproc.apis.responses.wire_request import (
    ClientBody,
    ClientFormat,
    ClientItem,
    ClientReasoning,
    ClientText,
)
from extproc.apis.shared.body import check_parts, checked, in_one_pass
from extproc.apis.shared.wire import Shape, first_byte, given, is_string, refused
from extproc.bounds import Limits
from extproc.conversation.model import (
    Message,
    OutputFormat,
    Request,
    Text,
    ThinkingConfig,
)
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest

_body: msgspec.json.Decoder[ClientBody[ClientItem]] = msgspec.json.Decoder(ClientBody[ClientItem])
_raw_body = Shape(ClientBody[msgspec.Raw])
_item = Shape(ClientItem)
_reasoning = Shape(ClientReasoning)
_text = Shape(ClientText)
_format = Shape(ClientFormat)
_fields: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])
_string = msgspec.json.Decoder(str)
_raw_fields = attrgetter(*(field.name for field in msgspec.structs.fields(ClientBody) if field.type is msgspec.Raw))

_EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")
_EXTRA = ("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "service_tier", "metadata",
          "moderation", "max_tool_calls", "top_logprobs")
"""Listed fields that only a provider of the same API understands."""
_ECHOED = ("instructions", "metadata", "tools", "tool_choice", "text", "reasoning", "parallel_tool_calls",
           "max_output_tokens", "temperature", "top_p", "top_logprobs", "max_tool_calls", "service_tier", "user",
           "safety_identifier", "prompt_cache_key", "truncation")
"""Fields that the response object repeats."""

COMPACTION_PROMPT = (
    "Summarise the conversation so far for an assistant who will continue it without seeing it. State the user's task "
    "and constraints, what was done and found out (files, commands, results, decisions, with exact names and values), "
    "what remains to be done, and the next step. Write the summary only.")


class ResponsesRequest(Request, kw_only=True):
    """A request with the fields that only this API's response encoders read."""

    echo: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    """What the response object repeats, as the client sent it."""
    summary: str | None = None
    """How the client wants to read the reasoning (auto, concise, detailed); None: not at all."""
    compaction: bool = False
    """The client wants a summary that replaces the conversation, as one compaction item."""


def decode_request(body: bytes, dropped: Dropped, limits: Limits) -> ResponsesRequest:
    """Decodes POST /v1/responses. Raises BadRequest with the place."""
    record, items, extra = _read_body(body, dropped, limits)
    _refuse_stored(record)
    request = _request(record, items, extra, dropped, limits)
    if items and items[-1].type == "compaction_trigger":
        return compacting(request)
    return request


def decode_compact_request(body: bytes, dropped: Dropped, limits: Limits) -> ResponsesRequest:
    """Decodes POST /v1/responses/compact: the same, for a summary only."""
    record, items, extra = _read_body(body, dropped, limits)
    _refuse_stored(record)
    request = compacting(_request(record, items, extra, dropped, limits))
    request.stream = False
    return request


def decode_count_request(body: bytes, dropped: Dropped, limits: Limits) -> ResponsesRequest:
    """Decodes POST /v1/responses/input_tokens."""
    record, items, extra = _read_body(body, dropped, limits)
    _refuse_stored(record)
    return _request(record, items, extra, dropped, limits)


def compacting(request: ResponsesRequest) -> ResponsesRequest:
    """The request for a summary of its conversation: no tools, and the prompt as the last message."""
    return msgspec.structs.replace(
        request, messages=[*request.messages, Message("user", [Text(COMPACTION_PROMPT)])], tools=[], server_tools=[],
        tool_choice=None, parallel_tool_calls=None, output_format=None, compaction=True, summary=None,
        requires="text")


# ------------------------------------------------------------------------------------------------------------ the body


def _read_body(body: bytes, dropped: Dropped,
               limits: Limits) -> tuple[ClientBody[ClientItem], list[ClientItem], dict[str, msgspec.Raw]]:
    """The record, the items of its input, and the fields that it does not list."""
    known = in_one_pass(body, _body)
    if known is not None:
        try:
            _check_depths(known, limits.json_depth)
        except BadRequest:  # half a surrogate pair, or a fault; the closer look finds out
            known = None
    if known is not None:
        record, items = known, known.input if isinstance(known.input, list) else []
        extra: dict[str, msgspec.Raw] = {}
    else:
        record, items, extra = _read_piece_by_piece(checked(body, limits.json_depth), dropped)
    if isinstance(record.input, str):
        items = [ClientItem(role="user", content=record.input)]
    return record, items, extra


def _check_depths(record: ClientBody[ClientItem], depth: int) -> None:
    check_parts([value for value in _raw_fields(record) if value], 2, depth)
    if isinstance(record.input, list):
        check_parts([value for item in record.input for value in item.raw_fields], 4, depth)
        check_parts([value for item in record.input if isinstance(item.content, list)
                     for part in item.content for value in (part.image_url, part.input_audio) if value], 6, depth)


def _read_piece_by_piece(body: bytes,
                         dropped: Dropped) -> tuple[ClientBody[ClientItem], list[ClientItem], dict[str, msgspec.Raw]]:
    raw, unknown = _raw_body.read(body, "")
    extra = {}
    if unknown:
        fields = _fields.decode(body)
        extra = {name: fields[name].copy() for name in unknown if given(fields[name])}
    items = [_read_item(item, f"input[{at}]", dropped) for at, item in enumerate(raw.input)] \
        if isinstance(raw.input, list) else []
    return raw, items, extra  # type: ignore[return-value]


def _read_item(raw: msgspec.Raw, path: str, dropped: Dropped) -> ClientItem:
    """One item. Its unknown fields are named; those of its parts as well."""
    try:
        item, unknown = _item.read(raw, path)
    except BadRequest:
        fields = _fields.decode(raw) if first_byte(raw) == b"{" else {}
        kind = fields.get("type", msgspec.Raw())
        content = fields.pop("content", msgspec.Raw())
        if is_string(kind) and _string.decode(kind) not in _KNOWN_TYPES:
            return ClientItem(type=_string.decode(kind))
        if first_byte(content) != b"[":
            raise
        item, unknown = _item.read(msgspec.json.encode(fields), path)
        if (item.type or "message") == "message":
            item.content = read_parts(_list.decode(content), f"{path}.content", dropped)
    for field in unknown:
        dropped.hint(f"input.{item.type or 'message'}.{field}")
    return item


_KNOWN_TYPES = frozenset({
    "message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
    "tool_search_call", "tool_search_output", "local_shell_call", "local_shell_call_output", "shell_call",
    "shell_call_output", "apply_patch_call", "apply_patch_call_output", "additional_tools", "compaction",
    "compaction_summary", "context_compaction", "compaction_trigger", "configuration_update", "item_reference"})
"""Types whose fields must have the right types. Items of all others are named whatever they hold."""


def _refuse_stored(record: ClientBody[ClientItem]) -> None:
    """This gateway stores nothing. `store: true` is accepted, since SDKs send it and most clients never look back."""
    if record.previous_response_id:
        raise BadRequest(f"previous_response_id: the response {record.previous_response_id!r} is not stored here: send "
                         "the whole conversation as input (store: false)", code="previous_response_not_found")
    for field, remedy in (("conversation", "send the whole conversation as input"),
                          ("prompt", "send its text as instructions and input")):
        if given(getattr(record, field)):
            raise BadRequest(f"{field}: not supported, because nothing is stored here: {remedy}",
                             code="unsupported_parameter")
    if record.background:
        raise BadRequest("background: not supported, because nothing is stored here: leave it out and read the "
                         "response, or its stream", code="unsupported_parameter")


# --------------------------------------------------------------------------------------------------------- the request


def _request(record: ClientBody[ClientItem], items: Sequence[ClientItem], extra: dict[str, msgspec.Raw],
             dropped: Dropped, limits: Limits) -> ResponsesRequest:
    if not items:
        raise refused("input", "expected a text or at least one item")
    record = _configured(record, items)
    sources = [ToolSource(record.tools or (), "tools"), *tool_sources(items)]
    offered = decode_tools(sources, dropped, limits.json_depth)
    conversation = decode_items(items, offered, dropped)
    choice = decode_choice(record.tool_choice, offered, dropped)
    if not (offered.tools or offered.server_tools):
        choice = None  # Codex sends "auto" without tools, too
    thinking, summary = _thinking(record.reasoning, dropped)
    output_format, verbosity = _text_settings(record.text, dropped)
    if record.max_output_tokens is not None and record.max_output_tokens < 1:
        raise refused("max_output_tokens", f"expected at least 1, got {record.max_output_tokens}")
    _name_ignored(record, dropped)
    extra = {**{name: value for name in _EXTRA if given(value := getattr(record, name))}, **extra}
    if given(verbosity):
        extra["verbosity"] = verbosity
    system = [*_instructions(record.instructions, dropped), *conversation.system]
    return ResponsesRequest(
        model=record.model, messages=conversation.messages, system=system, tools=offered.tools,
        server_tools=offered.server_tools, tool_choice=choice, parallel_tool_calls=record.parallel_tool_calls,
        max_output_tokens=record.max_output_tokens, temperature=record.temperature, top_p=record.top_p,
        stream=bool(record.stream), thinking=thinking, output_format=output_format,
        user=record.safety_identifier or record.user or None, extra=extra, api="responses", echo=_echo(record),
        summary=summary, reads_reasoning=summary is not None, requires="block", cites=True,
        cites_after_calls=False)


def _configured(record: ClientBody[ClientItem], items: Sequence[ClientItem]) -> ClientBody[ClientItem]:
    """The last configuration_update of the input replaces the settings of the request."""
    for item in items:
        if item.type == "configuration_update":
            if given(item.reasoning):
                record = msgspec.structs.replace(record, reasoning=item.reasoning)
            if given(item.text):
                record = msgspec.structs.replace(record, text=item.text)
    return record


def _instructions(raw: msgspec.Raw, dropped: Dropped) -> list[Text]:
    """A text; some clients send a list of messages."""
    if not given(raw):
        return []
    if is_string(raw):
        text = _string.decode(raw)
        return [Text(text)] if text else []
    if first_byte(raw) != b"[":
        raise refused("instructions", "expected a string")
    texts: list[Text] = []
    for at, entry in enumerate(_list.decode(raw)):
        item = _read_item(entry, f"instructions[{at}]", dropped)
        texts += [block for block in read_content(item.content, f"instructions[{at}].content", dropped)
                  if isinstance(block, Text)]
    return texts


def _thinking(raw: msgspec.Raw, dropped: Dropped) -> tuple[ThinkingConfig | None, str | None]:
    """The settings of reasoning, and how it is to be shown."""
    if not given(raw):
        return None, None
    reasoning, unknown = _reasoning.read(raw, "reasoning")
    for field in unknown:
        dropped.hint(f"reasoning.{field}")
    effort = reasoning.effort
    config = None
    if effort == "none":
        config = ThinkingConfig("disabled")
    elif effort in _EFFORTS:
        config = ThinkingConfig(effort=effort)
    elif effort:
        dropped.hint("reasoning.effort")
    summary = reasoning.summary or reasoning.generate_summary
    return config, None if summary in (None, "none", "") else summary


def _text_settings(raw: msgspec.Raw, dropped: Dropped) -> tuple[OutputFormat | None, msgspec.Raw]:
    """Structured output, and the verbosity as the client sent it."""
    if not given(raw):
        return None, msgspec.Raw()
    text, unknown = _text.read(raw, "text")
    for field in unknown:
        dropped.hint(f"text.{field}")
    if not given(text.format):
        return None, text.verbosity
    wanted, unknown = _format.read(text.format, "text.format")
    for field in unknown:
        dropped.hint(f"text.format.{field}")
    if given(wanted.json_schema):
        wanted = _format.read(b'{"type":"json_schema",' + bytes(wanted.json_schema).lstrip()[1:], "text.format")[0]
    if wanted.type == "json_object":
        return OutputFormat(None), text.verbosity
    if wanted.type == "json_schema":
        if wanted.schema is None:
            raise refused("text.format.schema", "this field is required")
        return OutputFormat(wanted.schema, name=wanted.name or "output", strict=wanted.strict), text.verbosity
    if wanted.type != "text":
        dropped.loss(f"text.format.{wanted.type}")
    return None, text.verbosity


def _name_ignored(record: ClientBody[ClientItem], dropped: Dropped) -> None:
    """Wishes that no provider behind this gateway can be asked for. Reasoning is always included."""
    if record.truncation == "auto":
        dropped.hint("truncation")
    if given(record.include) and first_byte(record.include) == b"[":
        for raw in _list.decode(record.include):
            name = _string.decode(raw) if is_string(raw) else ""
            if name not in ("reasoning.encrypted_content", ""):
                dropped.hint(f"include.{name}")


def _echo(record: ClientBody[ClientItem]) -> dict[str, msgspec.Raw]:
    """The fields that were sent, as JSON. (Their bytes are copied: slices would keep the whole body in memory.)"""
    echo: dict[str, msgspec.Raw] = {}
    for name in _ECHOED:
        value = getattr(record, name)
        if isinstance(value, msgspec.Raw):
            if given(value):
                echo[name] = _on_one_line(value)
        elif value is not None:
            echo[name] = _on_one_line(msgspec.Raw(msgspec.json.encode(value)))
    return echo




def _on_one_line(raw: msgspec.Raw) -> msgspec.Raw:
    """A copy without line ends: events of a stream are single lines."""
    text = bytes(raw)
    return msgspec.Raw(msgspec.json.format(text, indent=-1) if b"\n" in text or b"\r" in text else text)
