"""The tools of a request in Gemini's format, with `toolConfig`.

Function declarations carry the schema that the model takes: JSON Schema or the OpenAPI subset. Tools that the provider
runs itself (web search, fetching, running code) become Google's own, which models before Gemini 3 refuse beside
functions. Called by the request encoder.

Sources: ai.google.dev/gemini-api/docs/function-calling ("Function calling modes"), google-search, url-context,
code-execution, tool-combination.
"""

from __future__ import annotations

from typing import Literal, cast

import msgspec

from extproc.apis.gemini.provider.wire import Body, FunctionCallingConfig, FunctionDeclaration, Nothing, ToolConfig
from extproc.apis.gemini.provider.wire import Tool as WireTool
from extproc.conversation.model import Request, ServerTool, Tool, ToolChoice
from extproc.conversation.notes import NO_SERVER_TOOLS, ONE_CALL
from extproc.conversation.tool_names import NameMap
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.profiles.gemini import GeminiEndpoint, GeminiModel
from extproc.profiles.target import Target
from extproc.schemas.faults import name_faults
from extproc.schemas.gemini import parameters

NAME = r"[A-Za-z_][A-Za-z0-9_.:-]*"
"""What a whole function name must match. 128 characters since 2.5, 64 before: the shorter one serves all."""
NAME_MAX = 64
NAMESPACES = ("functions.", "default_api.", "default_api:")
"""What models write before a name: their prompt declares functions in the namespace `default_api`."""

USE_SERVER_TOOL = "Use your tool {name} to answer this request."

_SEARCH = WireTool(google_search=Nothing())
_FETCH = WireTool(url_context=Nothing())
_CODE = WireTool(code_execution=Nothing())
_GOOGLES_OWN = (("web_search", _SEARCH), ("web_fetch", _FETCH), ("code_execution", _CODE),
                ("code_interpreter", _CODE))
"""How the types of other APIs' server tools begin (dates follow) -> Google's tool that does it."""
_PLAIN_FIELDS = frozenset({"type", "name", "max_uses", "cache_control", "container"})
"""Fields of a server tool whose loss changes nothing that the model may do."""


def set_tools(body: Body, request: Request, target: Target, model: GeminiModel, door: GeminiEndpoint, names: NameMap,
              dropped: Dropped) -> list[str]:
    """Fills `tools` and `tool_config`. Returns what the model should be told in words instead. Raises `BadRequest`
    for too many tools and for a choice of a tool that is not offered."""
    if not request.tools:
        return _server_tools(body, request, target, model, dropped)
    if target.tool_style == "off":
        for tool in request.server_tools:
            dropped.loss(f"tools.{tool.type}")
        dropped.loss("tools")
        return []
    if len(request.tools) > target.max_tools:
        raise BadRequest(f"tools: {len(request.tools)} tools are offered, this model takes at most "
                         f"{target.max_tools}; offer fewer tools")
    offered, config = _choice(request, target, model, names, dropped)
    body.tools = [WireTool(function_declarations=[_declaration(tool, names, model, door, dropped)
                                                  for tool in offered])]
    if config is not None and config.mode == "NONE":
        body.tool_config = ToolConfig(config)
        return []
    beside = _known_server_tools(request, dropped, taken=model.server_tools and model.server_tools_beside_functions)
    if beside:
        body.tools += _distinct(beside)
        if config is not None and config.mode == "AUTO":
            config = None  # the default beside server tools is VALIDATED, which chooses as freely
    switch = bool(beside) and door.mixing_switch
    body.tool_config = ToolConfig(config, switch) if config is not None or switch else None
    return _one_call(request, target, dropped)


def _declaration(tool: Tool, names: NameMap, model: GeminiModel, door: GeminiEndpoint,
                 dropped: Dropped) -> FunctionDeclaration:
    if tool.strict and not model.validated:
        dropped.hint("tools.strict")
    if tool.cache:
        dropped.hint("cache_control")
    if tool.format is not None:
        dropped.loss("tools.format")
    name_faults(tool, dropped)
    schema = parameters(tool.schema, json_schema=model.json_schema, any_of_alone=door.any_of_alone)
    return FunctionDeclaration(
        name=names.to_provider[tool.name], description=tool.description or None,
        parameters=None if model.json_schema else schema,
        parameters_json_schema=schema if model.json_schema else None)


# ------------------------------------------------------------------------------------------------------------- choice


def _choice(request: Request, target: Target, model: GeminiModel, names: NameMap,
            dropped: Dropped) -> tuple[list[Tool], FunctionCallingConfig | None]:
    """The tools to declare, and the mode; None leaves it to the model, as AUTO does."""
    wanted = _wanted(request, target)
    if wanted is not None and wanted.mode == "tool":
        return request.tools, _one_tool(wanted.tool, request, names, dropped)
    if wanted is not None and wanted.mode == "none":
        return request.tools, FunctionCallingConfig("NONE")
    allowed = _allowed(wanted, request)
    if wanted is not None and wanted.mode == "required":
        return request.tools, FunctionCallingConfig("ANY", [names.to_provider[name] for name in allowed])
    strict = model.validated and any(tool.strict for tool in request.tools)
    if allowed and not model.validated:
        return [tool for tool in request.tools if tool.name in allowed], FunctionCallingConfig("AUTO")
    if allowed or strict:
        return request.tools, FunctionCallingConfig("VALIDATED", [names.to_provider[name] for name in allowed])
    return request.tools, None if wanted is None else FunctionCallingConfig("AUTO")


def _wanted(request: Request, target: Target) -> ToolChoice | None:
    """The client's choice, overruled by the attempt's."""
    if target.tool_choice is None:
        return request.tool_choice
    return ToolChoice(cast(Literal["auto", "required", "none"], target.tool_choice))


def _one_tool(name: str | None, request: Request, names: NameMap, dropped: Dropped) -> FunctionCallingConfig | None:
    if any(tool.name == name for tool in request.tools) and name is not None:
        return FunctionCallingConfig("ANY", [names.to_provider[name]])
    if any(tool.name == name for tool in request.server_tools):
        dropped.loss("tool_choice")
        return None
    raise BadRequest(f"tool_choice: the tool {name!r} is not among the tools of the request")


def _allowed(wanted: ToolChoice | None, request: Request) -> list[str]:
    """The client's names of the tools that may be called, in the order they were offered; empty for all."""
    if wanted is None or not wanted.allowed:
        return []
    offered = {tool.name for tool in request.tools}
    unknown = [name for name in wanted.allowed if name not in offered]
    if unknown:
        raise BadRequest(f"tool_choice: the tool {unknown[0]!r} is not among the tools of the request")
    return [tool.name for tool in request.tools if tool.name in wanted.allowed]


def _one_call(request: Request, target: Target, dropped: Dropped) -> list[str]:
    """There is no switch for parallel calls."""
    several = request.parallel_tool_calls if target.parallel_tool_calls is None else target.parallel_tool_calls
    if several is not False:
        return []
    dropped.loss("parallel_tool_calls")
    return [ONE_CALL]


# ------------------------------------------------------------------------------------------------------- server tools


def _server_tools(body: Body, request: Request, target: Target, model: GeminiModel, dropped: Dropped) -> list[str]:
    """The tools that Google runs, for a request without tools of the client."""
    known = _known_server_tools(request, dropped, taken=model.server_tools and target.tool_style != "off")
    body.tools += _distinct(known)
    wanted = _wanted(request, target)
    if wanted is not None and wanted.mode == "tool" and all(tool.name != wanted.tool for tool in request.server_tools):
        raise BadRequest(f"tool_choice: the tool {wanted.tool!r} is not among the tools of the request")
    if request.server_tools and not known:
        return [NO_SERVER_TOOLS.format(names=", ".join(tool.name for tool in request.server_tools))]
    return _server_choice(body, wanted, known, dropped)


def _known_server_tools(request: Request, dropped: Dropped, *, taken: bool) -> dict[str, WireTool]:
    """The client's names of those that Google has, with its own; the others are named, as is what is lost of these."""
    known: dict[str, WireTool] = {}
    for tool in request.server_tools:
        own = _google_tool(tool) if taken else None
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


def _server_choice(body: Body, wanted: ToolChoice | None, known: dict[str, WireTool], dropped: Dropped) -> list[str]:
    """Google's tools cannot be forced by a field, so the model is told."""
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
    return next((own for start, own in _GOOGLES_OWN if tool.type.startswith(start)), None)


def _lost_fields(tool: ServerTool) -> list[str]:
    """What the client says of its tool that Google's has no place for (domains, a location...)."""
    try:
        fields = msgspec.json.decode(tool.raw)
    except msgspec.DecodeError:
        return []
    if not isinstance(fields, dict):
        return []
    return [name for name, value in fields.items() if name not in _PLAIN_FIELDS and value not in (None, [], {})]
