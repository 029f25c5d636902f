"""The tools of a request in Gemini's format, with `toolConfig`.

Function declarations carry the schema that the model takes: JSON Schema or the OpenAPI subset. Server tools (web
search, fetching, running code) become Google's own, which models before Gemini 3 refuse beside functions. Called by the
request encoder.

Sources: ai.google.dev/gemini-api/docs/function-calling ("Function calling modes"), google-search, url-context,
code-execution, tool-combination.
"""

from __future__ import annotations

from typing import Literal, cast

import msgspec

from extproc.apis.gemini.wire import (
    EmptyConfig,
    FunctionCallingConfig,
    FunctionDeclaration,
    RequestBody,
    ToolConfig,
    WireTool,
)
from extproc.apis.shared.grammars import description_with_grammar
from extproc.conversation.model import Request, ServerTool, Tool, ToolChoice
from extproc.conversation.notes import NO_SERVER_TOOLS, ONE_CALL
from extproc.conversation.tool_names import NameMap
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.profiles.gemini import GeminiEndpoint, GeminiModel
from extproc.profiles.target import Target
from extproc.schemas.faults import name_faults
from extproc.schemas.gemini import encode_parameters

NAME_PATTERN = r"[A-Za-z_][A-Za-z0-9_.:-]*"
"""The pattern of a function name."""
MAX_NAME_LENGTH = 64
"""Characters: 128 since 2.5, 64 before. The shorter limit serves all."""
NAMESPACES = ("functions.", "default_api.", "default_api:")
"""Prefixes that models write: their prompt declares functions in the namespace `default_api`."""

USE_SERVER_TOOL = "Use your tool {name} to answer this request."

_SEARCH = WireTool(google_search=EmptyConfig())
_FETCH = WireTool(url_context=EmptyConfig())
_CODE = WireTool(code_execution=EmptyConfig())
_GOOGLE_TOOLS = (("web_search", _SEARCH), ("web_fetch", _FETCH), ("code_execution", _CODE),
                ("code_interpreter", _CODE))
"""Prefixes of server tool types of other APIs (dates follow) -> the Google tool with the same function."""
_IGNORABLE_FIELDS = frozenset({"type", "name", "max_uses", "cache_control", "container"})
"""Fields of a server tool whose loss does not change what the model may do."""


def set_tools(body: RequestBody, request: Request, target: Target, model: GeminiModel, endpoint: GeminiEndpoint,
              names: NameMap, dropped: Dropped) -> list[str]:
    """Fills `tools` and `tool_config`. Returns instructions for the system text that replace what the fields cannot
    express. Raises `BadRequest` for too many tools and for the choice of a tool that is not offered."""
    if not request.tools:
        return _set_server_tools(body, request, target, model, dropped)
    if target.tool_style == "off":
        for tool in request.server_tools:
            dropped.loss(f"tools.{tool.type}")
        dropped.loss("tools")
        return []
    if len(request.tools) > target.max_tools:
        raise BadRequest(f"tools: {len(request.tools)} tools are offered, this model takes at most "
                         f"{target.max_tools}; offer fewer tools")
    offered, config = _choose_tools(request, target, model, names, dropped)
    body.tools = [WireTool(function_declarations=[_declaration(tool, names, model, endpoint, dropped)
                                                  for tool in offered])]
    if config is not None and config.mode == "NONE":
        body.tool_config = ToolConfig(config)
        return []
    beside = _google_tools(request, dropped, supported=model.server_tools and model.server_tools_beside_functions)
    if beside:
        body.tools += _distinct(beside)
        if config is not None and config.mode == "AUTO":
            config = None  # the default beside server tools is VALIDATED, which chooses as freely
    switch = bool(beside) and endpoint.mixing_switch
    body.tool_config = ToolConfig(config, switch) if config is not None or switch else None
    return _single_call_note(request, target, dropped)


def _declaration(tool: Tool, names: NameMap, model: GeminiModel, endpoint: GeminiEndpoint,
                 dropped: Dropped) -> FunctionDeclaration:
    if tool.strict and not model.validated:
        dropped.hint("tools.strict")
    if tool.cache:
        dropped.hint("cache_control")
    name_faults(tool, dropped)
    schema = encode_parameters(tool.schema, json_schema=model.json_schema, any_of_alone=endpoint.any_of_alone)
    return FunctionDeclaration(
        name=names.to_provider[tool.name], description=description_with_grammar(tool, dropped),
        parameters=None if model.json_schema else schema,
        parameters_json_schema=schema if model.json_schema else None)


# ------------------------------------------------------------------------------------------------------------- choice


def _choose_tools(request: Request, target: Target, model: GeminiModel, names: NameMap,
            dropped: Dropped) -> tuple[list[Tool], FunctionCallingConfig | None]:
    """The tools to declare, and the calling mode. None: the default, which is AUTO."""
    wanted = _tool_choice(request, target)
    if wanted is not None and wanted.mode == "tool":
        return request.tools, _force_tool(wanted.tool, request, names, dropped)
    if wanted is not None and wanted.mode == "none":
        return request.tools, FunctionCallingConfig("NONE")
    allowed = _allowed_names(wanted, request)
    if wanted is not None and wanted.mode == "required":
        return request.tools, FunctionCallingConfig("ANY", [names.to_provider[name] for name in allowed])
    strict = model.validated and any(tool.strict for tool in request.tools)
    if allowed and not model.validated:
        return [tool for tool in request.tools if tool.name in allowed], FunctionCallingConfig("AUTO")
    if allowed or strict:
        return request.tools, FunctionCallingConfig("VALIDATED", [names.to_provider[name] for name in allowed])
    return request.tools, None if wanted is None else FunctionCallingConfig("AUTO")


def _tool_choice(request: Request, target: Target) -> ToolChoice | None:
    """The choice of the attempt's settings, else the client's."""
    if target.tool_choice is None:
        return request.tool_choice
    return ToolChoice(cast(Literal["auto", "required", "none"], target.tool_choice))


def _force_tool(name: str | None, request: Request, names: NameMap, dropped: Dropped) -> FunctionCallingConfig | None:
    if any(tool.name == name for tool in request.tools) and name is not None:
        return FunctionCallingConfig("ANY", [names.to_provider[name]])
    if any(tool.name == name for tool in request.server_tools):
        dropped.loss("tool_choice")
        return None
    raise BadRequest(f"tool_choice: the tool {name!r} is not among the tools of the request")


def _allowed_names(wanted: ToolChoice | None, request: Request) -> list[str]:
    """The client's names of the tools that may be called, in the order of the offer; empty for all tools."""
    if wanted is None or not wanted.allowed:
        return []
    offered = {tool.name for tool in request.tools}
    unknown = [name for name in wanted.allowed if name not in offered]
    if unknown:
        raise BadRequest(f"tool_choice: the tool {unknown[0]!r} is not among the tools of the request")
    return [tool.name for tool in request.tools if tool.name in wanted.allowed]


def _single_call_note(request: Request, target: Target, dropped: Dropped) -> list[str]:
    """The instruction to make one call only: the API has no switch for parallel calls."""
    several = request.parallel_tool_calls if target.parallel_tool_calls is None else target.parallel_tool_calls
    if several is not False:
        return []
    dropped.loss("parallel_tool_calls")
    return [ONE_CALL]


# ------------------------------------------------------------------------------------------------------- server tools


def _set_server_tools(body: RequestBody, request: Request, target: Target, model: GeminiModel,
                      dropped: Dropped) -> list[str]:
    """Sets Google's tools for a request without functions. Returns instructions as `set_tools` does."""
    known = _google_tools(request, dropped, supported=model.server_tools and target.tool_style != "off")
    body.tools += _distinct(known)
    wanted = _tool_choice(request, target)
    if wanted is not None and wanted.mode == "tool" and all(tool.name != wanted.tool for tool in request.server_tools):
        raise BadRequest(f"tool_choice: the tool {wanted.tool!r} is not among the tools of the request")
    if request.server_tools and not known:
        return [NO_SERVER_TOOLS.format(names=", ".join(tool.name for tool in request.server_tools))]
    return _server_tool_note(body, wanted, known, dropped)


def _google_tools(request: Request, dropped: Dropped, *, supported: bool) -> dict[str, WireTool]:
    """The client's names of server tools -> Google's tools. Names the other tools and the lost fields as losses."""
    known: dict[str, WireTool] = {}
    for tool in request.server_tools:
        own = _google_tool(tool) if supported else None
        if own is None:
            dropped.loss(f"tools.{tool.type}")
            continue
        known[tool.name] = own
        for field in _lost_fields(tool):
            dropped.loss(f"tools.{tool.type}.{field}")
    return known


def _distinct(known: dict[str, WireTool]) -> list[WireTool]:
    found: list[WireTool] = []
    for own in known.values():
        if own not in found:
            found.append(own)
    return found


def _server_tool_note(body: RequestBody, wanted: ToolChoice | None, known: dict[str, WireTool],
                      dropped: Dropped) -> list[str]:
    """The instruction to use a server tool: no field can force Google's tools."""
    if wanted is None or wanted.mode == "auto":
        return []
    if wanted.mode == "none":
        body.tools = []
        return []
    if not known:
        dropped.loss("tool_choice")
        return []
    dropped.hint("tool_choice")
    return [USE_SERVER_TOOL.format(name=wanted.tool if wanted.tool in known else next(iter(known)))]


def _google_tool(tool: ServerTool) -> WireTool | None:
    return next((own for start, own in _GOOGLE_TOOLS if tool.type.startswith(start)), None)


def _lost_fields(tool: ServerTool) -> list[str]:
    """Fields of the client's tool that Google's tool does not have (domains, a location...)."""
    try:
        fields = msgspec.json.decode(tool.raw)
    except msgspec.DecodeError:
        return []
    if not isinstance(fields, dict):
        return []
    return [name for name, value in fields.items() if name not in _IGNORABLE_FIELDS and value not in (None, [], {})]
