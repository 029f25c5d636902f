"""A Messages request -> the conversation model, for any provider.

Called through `API.decode_request`, and for token counts. Losses are named in `dropped`: as a loss if they change what
the model sees or may do, else as a hint. Nothing is contacted. The provider side checks that every call has its result;
a result with an unknown id is matched with the call that it must belong to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Literal

import msgspec

from extproc.apis.anthropic.client.blocks import Role, read_content
from extproc.apis.anthropic.client.tool_changes import apply_tool_changes
from extproc.apis.anthropic.wire import (
    ClientBody,
    ClientFormat,
    ClientMessage,
    ClientOutputConfig,
    ClientThinking,
    ClientTool,
    ClientToolChoice,
    ClientToolUseBlock,
    KnownBlock,
    KnownMessage,
    Metadata,
    ToolHead,
)
from extproc.apis.shared.body import check_parts, checked, in_one_pass
from extproc.apis.shared.cache_marks import read_mark
from extproc.apis.shared.tool_definition_cache import ToolDefinitionCache
from extproc.apis.shared.tool_results import match_result_blocks
from extproc.apis.shared.wire import Shape, given, refused
from extproc.bounds import Limits
from extproc.conversation.model import (
    Message,
    Opaque,
    OutputFormat,
    Request,
    ServerTool,
    Text,
    ThinkingConfig,
    Tool,
    ToolChoice,
)
from extproc.conversation.unsupported import Dropped
from extproc.schemas.faults import schema_place

_known: msgspec.json.Decoder[ClientBody[KnownMessage]] = msgspec.json.Decoder(ClientBody[KnownMessage])
_known_turn = msgspec.json.Decoder(KnownMessage)
_body = Shape(ClientBody[msgspec.Raw])
_turn = Shape(ClientMessage)
_tool_head = Shape(ToolHead)
_tool = Shape(ClientTool)
_tool_choice = Shape(ClientToolChoice)
_thinking = Shape(ClientThinking)
_output_config = Shape(ClientOutputConfig)
_format = Shape(ClientFormat)
_metadata = Shape(Metadata)
_decode = msgspec.json.Decoder().decode

ATTRIBUTION = "x-anthropic-billing-header:"
"""The first line of Claude Code's system prompt begins with this. The line changes with version and request: it would
break every prompt cache, and it is not meant for a model."""

PLACEHOLDER_TOOL = "DeferredToolPlaceholder"
"""A dummy that Claude Code adds so that its tool list is never empty. A model that calls it gets an error."""

_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant"}
CHOICE_MODES: dict[str, Literal["auto", "required", "tool", "none"]] = {
    "auto": "auto", "any": "required", "tool": "tool", "none": "none"}
"""Types of `tool_choice` -> the conversation's modes."""
_EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")


def decode_request(body: bytes, headers: Mapping[str, str], dropped: Dropped, limits: Limits) -> Request:
    """Decodes POST /v1/messages. Raises BadRequest with the place."""
    request = _decode_any(body, headers, dropped, limits)
    if request.max_output_tokens is None:
        raise refused("max_tokens", "this field is required")
    if request.max_output_tokens < 1:
        raise refused("max_tokens", f"expected at least 1, got {request.max_output_tokens}")
    return request


def decode_count_request(body: bytes, limits: Limits) -> Request:
    """Decodes POST /v1/messages/count_tokens, which has no output limit. Raises BadRequest with the place."""
    return _decode_any(body, {}, Dropped(), limits)


def _decode_any(body: bytes, headers: Mapping[str, str], dropped: Dropped, limits: Limits) -> Request:
    record = _read_body(body, dropped, limits.json_depth)
    if "anthropic-beta" in headers:
        dropped.hint("anthropic-beta")
    # Fields that the request omits are empty here and cost no call: this code delays the first token.
    if record.context_management or record.service_tier or record.container or record.mcp_servers:
        _name_foreign(record, dropped)
    tools, server_tools = _tools(record.tools, dropped, limits.json_depth) if record.tools else ([], [])
    choice, parallel = _decode_choice(record.tool_choice, dropped) if record.tool_choice else (None, None)
    thinking, output_format = (_reasoning_and_format(record, dropped)
                               if record.thinking or record.output_config or record.output_format else (None, None))
    messages, tools, server_tools = apply_tool_changes(
        _messages(record.messages, dropped), tools, server_tools,
        lambda raw, place: _tool_cache.read(raw, place, dropped, limits.json_depth), dropped)
    # At most fifteen keywords: Python puts more of them into a dictionary first, which takes three times as long.
    request = Request(
        model=record.model, messages=messages,
        system=_system(record.system, dropped) if record.system else [],
        tools=tools, server_tools=server_tools, tool_choice=choice, parallel_tool_calls=parallel,
        max_output_tokens=record.max_tokens, temperature=record.temperature, top_p=record.top_p, top_k=record.top_k,
        stream=record.stream is True, thinking=thinking, output_format=output_format)
    if record.stop_sequences:
        request.stop = _stop_sequences(record.stop_sequences, dropped)
    if record.metadata:
        request.user = _decode_user(record.metadata, dropped)
    return request


def _name_foreign(record: ClientBody[Any], dropped: Dropped) -> None:
    """Names the fields that only Anthropic can handle."""
    for field in ("context_management", "service_tier", "container"):
        if given(getattr(record, field)):
            dropped.hint(field)
    if given(record.mcp_servers) and bytes(record.mcp_servers).strip() != b"[]":
        dropped.loss("mcp_servers")


def _read_body(body: bytes, dropped: Dropped,
          depth: int) -> ClientBody[KnownMessage] | ClientBody[msgspec.Raw]:
    """The body in one pass, or, where it has an unknown or invalid part, with raw messages."""
    known = in_one_pass(body, _known)
    if known is None:
        record, unknown = _body.read(checked(body, depth), "")
        for field in unknown:
            dropped.hint(field)
        return record
    blocks: list[KnownBlock] = []
    for turn in known.messages:
        if isinstance(turn.content, list):
            blocks += turn.content
    if blocks:
        check_parts([block.input for block in blocks if type(block) is ClientToolUseBlock and block.input], _INPUT,
                    depth)
        check_parts([block.cache_control for block in blocks if block.cache_control], _INPUT, depth)
    parts = _parts(known)
    if any(parts):
        check_parts(filter(None, parts), 2, depth)
    if isinstance(known.system, list):
        check_parts(known.system, 3, depth)
    return known


_INPUT = 6
"""The depth of a block's members: below the body, its messages, one message, its content, the block."""
_parts = attrgetter(*(field.name for field in msgspec.structs.fields(ClientBody) if field.type is msgspec.Raw))


# ------------------------------------------------------------------------------------------------ system and messages


def _system(system: str | list[msgspec.Raw], dropped: Dropped) -> list[Text]:
    texts: list[Text] = []
    for block in read_content(system, "system", "system", dropped):
        if isinstance(block, Text):
            text, cache = without_attribution(block.text), block.cache
        elif isinstance(block, Opaque):
            text, cache = block.text or "", False
            if not text:
                dropped.loss(f"system.{block.type}")
        else:
            raise refused("system", "expected text blocks only")
        if text:
            texts.append(Text(text, cache=cache))
    return texts


def without_attribution(text: str) -> str:
    """The text of a system block without the attribution line, "" if nothing is left of it."""
    if not text.startswith(ATTRIBUTION):
        return text
    rest = text.partition("\n")[2]
    return rest if rest.strip() else ""


def _stop_sequences(sequences: list[str], dropped: Dropped) -> list[str]:
    """Without empty sequences, which providers refuse or which would end every response at once."""
    stop = [sequence for sequence in sequences if sequence]
    if len(stop) < len(sequences):
        dropped.hint("stop_sequences")
    return stop


def _messages(messages: Sequence[KnownMessage | msgspec.Raw], dropped: Dropped) -> list[Message]:
    if not messages:
        raise refused("messages", "expected at least one message")
    decoded = []
    for position, message in enumerate(messages):
        turn = (_read_message(message, f"messages[{position}]", dropped) if isinstance(message, msgspec.Raw)
                else message)
        role = _ROLES.get(turn.role)
        if role is None:
            raise refused(f"messages[{position}].role",
                          f"unknown role {turn.role!r}: expected user, assistant or system")
        decoded.append(Message(role, read_content(turn.content, role, position, dropped)))
    return match_result_blocks(decoded, dropped)


def _read_message(raw: msgspec.Raw, path: str, dropped: Dropped) -> KnownMessage | ClientMessage:
    """One message of a checked body. Only a message with an unusual part is read block by block."""
    try:
        return _known_turn.decode(raw)
    except msgspec.ValidationError:
        turn, unknown = _turn.read(raw, path)
    for field in unknown:
        dropped.hint(f"messages.{field}")
    return turn


# -------------------------------------------------------------------------------------------------------------- tools


def _tools(tools: list[msgspec.Raw], dropped: Dropped, depth: int) -> tuple[list[Tool], list[ServerTool]]:
    own: list[Tool] = []
    server: list[ServerTool] = []
    seen: set[str] = set()
    for position, raw in enumerate(tools):
        tool = _tool_cache.read(raw, f"tools[{position}]", dropped, depth)
        if isinstance(tool, ServerTool):
            server.append(tool)
            continue
        if tool.name in seen:
            raise refused(f"tools[{position}].name", f"tool names must be unique, {tool.name!r} was there before")
        seen.add(tool.name)
        if tool.name != PLACEHOLDER_TOOL:
            own.append(tool)
    return own, server


def _read_tool(raw: msgspec.Raw, path: str, dropped: Dropped) -> Tool | ServerTool:
    head, _ = _tool_head.read(raw, path)
    if head.type is not None and head.type != "custom":
        return ServerTool("anthropic", head.type, head.name or head.type, bytes(raw))
    tool, unknown = _tool.read(raw, path)
    for field in unknown:
        dropped.hint(f"tools.{field}")
    if given(tool.input_examples) and bytes(tool.input_examples).strip() != b"[]":
        dropped.loss("tools.input_examples")
    return Tool(tool.name, tool.description, _schema(tool.input_schema, tool.name, dropped), strict=tool.strict,
                deferred=bool(tool.defer_loading), cache=read_mark(tool.cache_control))


_tool_cache = ToolDefinitionCache(_read_tool)


def _schema(raw: msgspec.Raw, tool: str, dropped: Dropped) -> dict[str, object]:
    """A tool without parameters has no schema or null and gets an object schema without fields. A value that is no
    schema at all is replaced in the same way and named."""
    schema = _decode(raw) if given(raw) else None
    if isinstance(schema, dict):
        return schema
    if schema not in (None, True, "", []):
        dropped.loss(schema_place(tool))
    return {"type": "object", "properties": {}}


def _decode_choice(raw: msgspec.Raw, dropped: Dropped) -> tuple[ToolChoice | None, bool | None]:
    if not given(raw):
        return None, None
    choice, unknown = _tool_choice.read(raw, "tool_choice")
    for field in unknown:
        dropped.hint(f"tool_choice.{field}")
    parallel = False if choice.disable_parallel_tool_use else None
    mode = CHOICE_MODES.get(choice.type)
    if mode is None:
        raise refused("tool_choice.type", f"unknown type {choice.type!r}: expected auto, any, tool or none")
    if mode == "tool" and not choice.name:
        raise refused("tool_choice.name", "this field is required for the type tool")
    return ToolChoice(mode, choice.name if mode == "tool" else None), parallel


# --------------------------------------------------------------------------------------- thinking, output, metadata


def _reasoning_and_format(record: ClientBody[Any],
                          dropped: Dropped) -> tuple[ThinkingConfig | None, OutputFormat | None]:
    effort, output_format = None, None
    if given(record.output_format):
        output_format = _decode_format(record.output_format, "output_format", dropped)
    if given(record.output_config):
        config, unknown = _output_config.read(record.output_config, "output_config")
        for field in unknown:
            dropped.hint(f"output_config.{field}")
        effort = config.effort
        if effort is not None and effort not in _EFFORTS:
            dropped.hint("output_config.effort")
            effort = None
        if given(config.format):
            output_format = _decode_format(config.format, "output_config.format", dropped)
    return _thinking_config(record.thinking, effort, dropped), output_format


def _decode_format(raw: msgspec.Raw, path: str, dropped: Dropped) -> OutputFormat | None:
    output, unknown = _format.read(raw, path)
    for field in unknown:
        dropped.hint(f"{path}.{field}")
    if output.type == "json_schema":
        if output.schema is None:
            raise refused(f"{path}.schema", "this field is required")
        return OutputFormat(output.schema, name=output.name or "output")
    if output.type != "text":
        dropped.loss(path)
    return None


def _thinking_config(raw: msgspec.Raw, effort: str | None, dropped: Dropped) -> ThinkingConfig | None:
    """`between_tools` and unknown types leave it to the model when to think, which is adaptive thinking."""
    if not given(raw):
        return ThinkingConfig(effort=effort) if effort else None
    thinking, unknown = _thinking.read(raw, "thinking")
    for field in unknown:
        dropped.hint(f"thinking.{field}")
    if given(thinking.display):
        dropped.hint("thinking.display")
    if thinking.type == "disabled" or thinking.budget_tokens == 0:
        return ThinkingConfig("disabled", effort=effort)
    if thinking.type == "enabled":
        return ThinkingConfig("enabled", budget=thinking.budget_tokens, effort=effort)
    if thinking.type != "adaptive":
        dropped.hint(f"thinking.type.{thinking.type}")
    return ThinkingConfig("adaptive", budget=thinking.budget_tokens, effort=effort)


def _decode_user(raw: msgspec.Raw, dropped: Dropped) -> str | None:
    if not given(raw):
        return None
    metadata, unknown = _metadata.read(raw, "metadata")
    for field in unknown:
        dropped.hint(f"metadata.{field}")
    return metadata.user_id or None
