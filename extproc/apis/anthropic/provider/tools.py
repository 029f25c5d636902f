"""The tools of a request in the Messages API, with `tool_choice`.

Tools that Anthropic runs (web search) are sent to Anthropic only, in the client's bytes; nobody would run them
elsewhere. A history with calls requires declared tools, so calls of tools that are no longer offered get stubs. Called
by the request encoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import msgspec

from extproc.apis.anthropic.wire import ProviderBody, ToolChoiceField, ToolDefinition
from extproc.apis.shared.cache_marks import sent_mark
from extproc.apis.shared.grammars import description_with_grammar
from extproc.conversation.model import Request, ServerTool, Tool, ToolChoice
from extproc.conversation.notes import NO_SERVER_TOOLS, ONE_CALL
from extproc.conversation.tool_names import NameMap
from extproc.conversation.tool_results import Turn
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.profiles.anthropic import AnthropicEndpoint, AnthropicModel
from extproc.profiles.target import Target
from extproc.schemas.anthropic import tool_schema
from extproc.schemas.faults import name_faults

NAME_MAX = 128
ANY_TOOL = "Your next answer must call at least one of the tools."
THE_TOOL = "Your next answer must call the tool {name}."
STUB = "This tool is no longer available. Do not call it."
_NO_INPUT = msgspec.Raw(b'{"type":"object","properties":{}}')
_MOST_STRICT = 20
"""The most strict tools of one request: the API's limit."""


class WantedChoice(msgspec.Struct, frozen=True):
    """The choice to send, and the tools to send with it."""

    choice: ToolChoice | None
    tools: Sequence[Tool]

    @property
    def forced(self) -> bool:
        return self.choice is not None and self.choice.mode in ("required", "tool")


def wanted_choice(request: Request, target: Target, dropped: Dropped) -> WantedChoice:
    """The choice with the attempt's setting and an `allowed` list applied. Raises BadRequest for too many tools and for
    a choice of a tool that is not offered."""
    tools: Sequence[Tool] = request.tools
    if tools and target.tool_style == "off":
        dropped.loss("tools")
        return WantedChoice(None, ())
    if len(tools) > target.max_tools:
        raise BadRequest(f"tools: {len(tools)} tools are offered, this model takes at most {target.max_tools}; offer "
                         "fewer tools")
    wanted = request.tool_choice
    if target.tool_choice is not None and tools:
        mode = cast(Literal["auto", "required", "none"], target.tool_choice)
        wanted = ToolChoice(mode, allowed=wanted.allowed if wanted is not None else ())
    if wanted is None:
        return WantedChoice(None, tools)
    if wanted.mode == "tool" and all(tool.name != wanted.tool for tool in tools):
        if all(tool.name != wanted.tool for tool in request.server_tools):
            raise BadRequest(f"tool_choice: the tool {wanted.tool!r} is not among the tools of the request")
        dropped.loss("tool_choice")
        return WantedChoice(None, tools)
    if not tools:
        if wanted.mode == "required":
            dropped.loss("tool_choice")
        return WantedChoice(None, tools)
    return _allowed(wanted, tools)


def _allowed(wanted: ToolChoice, tools: Sequence[Tool]) -> WantedChoice:
    """Sends only the allowed tools. A single allowed tool that must be called is named instead, so that the tools, and
    their cached prefix, stay the same."""
    if not wanted.allowed or wanted.mode not in ("auto", "required"):
        return WantedChoice(wanted, tools)
    kept = [tool for tool in tools if tool.name in wanted.allowed]
    missing = [name for name in wanted.allowed if all(tool.name != name for tool in kept)]
    if missing:
        raise BadRequest(f"tool_choice: the tool {missing[0]!r} is not among the tools of the request")
    if len(kept) == 1 and wanted.mode == "required":
        return WantedChoice(ToolChoice("tool", kept[0].name), tools)
    return WantedChoice(ToolChoice(wanted.mode), kept)


def set_tools(body: ProviderBody, request: Request, target: Target, wanted: WantedChoice, turns: list[Turn],
              names: NameMap,
              model: AnthropicModel, endpoint: AnthropicEndpoint, dropped: Dropped) -> list[str]:
    """Sets `tools` and `tool_choice`. Returns notes for the system text."""
    strict = 0
    for tool in wanted.tools:
        definition = _definition(tool, names, model, endpoint, dropped, strict=strict < _MOST_STRICT)
        strict += definition.strict
        body.tools.append(definition)
    notes = _server_tools(body, request, endpoint, dropped)
    if not body.tools:
        stubs = _stubs(turns, names)
        if stubs:
            body.tools += stubs
            body.tool_choice = ToolChoiceField("none")
        return notes
    if wanted.tools:
        notes += _set_choice(body, request, target, wanted, names, model, endpoint, dropped)
    return notes


def _definition(tool: Tool, names: NameMap, model: AnthropicModel, endpoint: AnthropicEndpoint, dropped: Dropped, *,
                strict: bool) -> ToolDefinition:
    name_faults(tool, dropped)
    schema = tool_schema(tool.schema)
    definition = ToolDefinition(names.to_provider[tool.name], schema.text or _NO_INPUT,
                                description_with_grammar(tool, dropped))
    if tool.strict:
        if strict and model.output_format and schema.strict:
            definition.strict = True
        else:
            dropped.hint("tools.strict")
    if tool.cache:
        if endpoint.cache_control:
            definition.cache_control = sent_mark(tool.cache)
        else:
            dropped.hint("cache_control")
    return definition


def _server_tools(body: ProviderBody, request: Request, endpoint: AnthropicEndpoint, dropped: Dropped) -> list[str]:
    lost: list[ServerTool] = []
    for tool in request.server_tools:
        if tool.api == "anthropic" and endpoint.server_blocks:
            body.tools.append(msgspec.Raw(tool.raw))
        else:
            lost.append(tool)
            dropped.loss(f"tools.{tool.type}")
    if lost and not body.tools:
        return [NO_SERVER_TOOLS.format(names=", ".join(tool.name for tool in lost))]
    return []


def _stubs(turns: list[Turn], names: NameMap) -> list[ToolDefinition]:
    """Stubs for the tools of the history, where none are offered: the API refuses calls without any `tools`."""
    used = dict.fromkeys(names.to_provider.get(exchange.call.name, exchange.call.name)
                         for turn in turns for exchange in turn.exchanges)
    return [ToolDefinition(name, _NO_INPUT, STUB) for name in used]


def _set_choice(body: ProviderBody, request: Request, target: Target, wanted: WantedChoice, names: NameMap,
                model: AnthropicModel, endpoint: AnthropicEndpoint, dropped: Dropped) -> list[str]:
    notes: list[str] = []
    choice = wanted.choice
    if wanted.forced and not model.forced_choice:
        assert choice is not None
        dropped.loss("tool_choice")
        name = names.to_provider[choice.tool] if choice.mode == "tool" and choice.tool is not None else None
        notes.append(ANY_TOOL if name is None else THE_TOOL.format(name=name))
        choice = None
    parallel = request.parallel_tool_calls if target.parallel_tool_calls is None else target.parallel_tool_calls
    single = parallel is False and (choice is None or choice.mode != "none")
    if single and not endpoint.parallel_flag:
        dropped.loss("parallel_tool_calls")
        notes.append(ONE_CALL)
        single = False
    if choice is None:
        body.tool_choice = ToolChoiceField("auto", disable_parallel_tool_use=True) if single else None
    elif choice.mode == "tool":
        assert choice.tool is not None
        body.tool_choice = ToolChoiceField("tool", names.to_provider[choice.tool], single or None)
    elif choice.mode == "required":
        body.tool_choice = ToolChoiceField("any", disable_parallel_tool_use=single or None)
    else:
        body.tool_choice = ToolChoiceField(choice.mode, disable_parallel_tool_use=single or None)
    return notes
