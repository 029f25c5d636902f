"""The tools of a request in the OpenAI format, with `tool_choice` and `parallel_tool_calls`.

Without tools none of the three is sent. Tools that the provider would have to run (web search) are never sent as
functions, because nobody would run them. A choice that the endpoint does not take is requested in the system text.
Called by the request encoder; the pass-through asks `choose_tools` as well.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal, cast

import msgspec

from extproc.apis.openai.provider.messages import allowed_mark
from extproc.apis.openai.wire_request import (
    AllowedChoice,
    AllowedTools,
    Custom,
    CustomTool,
    Function,
    FunctionTool,
    NamedChoice,
    NamedCustomChoice,
    ProviderBody,
    ToolChoiceField,
    ToolName,
)
from extproc.conversation.model import Request, ServerTool, Tool, ToolChoice
from extproc.conversation.notes import NO_SERVER_TOOLS, ONE_CALL
from extproc.conversation.tool_names import NameMap
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.profiles.profile import Profile
from extproc.profiles.target import Target
from extproc.schemas.cache import SHARED_CACHE, Rewritten
from extproc.schemas.faults import name_faults
from extproc.schemas.function_parameters import clean_parameters
from extproc.schemas.gemini import encode_parameters_for_openai
from extproc.schemas.openai import fits_strict
from extproc.schemas.visitor import Schema

_ENCODER = msgspec.json.Encoder()

CALL_ANY = "Answer this request by calling at least one of the tools, not with text."
"""Said to the model where a forced choice cannot be sent."""
CALL_ONE = "Answer this request by calling the tool {name}, not with text."


class ChosenTools(msgspec.Struct):
    """The decisions on tools, before the fields are written."""

    offered: list[Tool]
    mode: Literal["auto", "required", "tool", "none"] | None = None
    tool: Tool | None = None
    """The chosen tool, if the mode is "tool"."""
    allowed: list[Tool] = []
    """The only tools that may be called, where the endpoint has a field for them."""

    @property
    def forced(self) -> bool:
        """True if the model must call a tool."""
        return self.mode in ("required", "tool")


def choose_tools(request: Request, target: Target, dropped: Dropped) -> ChosenTools:
    """The tools to offer and the choice to send, as far as the endpoint takes it. Raises BadRequest for too many tools,
    for tools where the model takes none, and for a choice of a tool that is not offered."""
    served = [] if target.tool_style == "off" else own_server_tools(request, target.profile)
    for tool in request.server_tools:
        if tool not in served:
            dropped.loss(f"tools.{tool.type}")
    if not request.tools:
        if request.tool_choice is not None:
            _choice_without_tools(request, request.tool_choice, dropped)
        return ChosenTools([])
    if target.tool_style == "off":
        dropped.loss("tools")
        return ChosenTools([])
    _check_count(len(request.tools), target)
    chosen = _wanted(request, target, dropped)
    taken = target.profile.tool_choices
    if chosen.mode == "none" and "none" not in taken:
        return ChosenTools([])
    if target.profile.functions == "refused":
        raise BadRequest(f"tools: {target.model} takes no tools on Chat Completions, which its backend speaks: "
                         f"{target.profile.functions_advice}. Or have the tools written into the prompt "
                         "(`tools: {style: prompted}`)")
    if chosen.mode == "tool" and "tool" not in taken and "required" in taken and chosen.tool is not None:
        return ChosenTools([chosen.tool], "required")
    if chosen.mode == "required" and "required" not in taken and "tool" in taken and len(chosen.offered) == 1:
        return ChosenTools(chosen.offered, "tool", chosen.offered[0])
    return chosen


def set_tools(body: ProviderBody, request: Request, chosen: ChosenTools, target: Target, names: NameMap,
              dropped: Dropped, *, may_force: bool = True) -> list[str]:
    """Sets the three fields. `may_force`: the model takes a forced choice now. Returns notes for the system text."""
    profile = target.profile
    served = [] if target.tool_style == "off" else own_server_tools(request, profile)
    body.tools = [msgspec.Raw(tool.raw) for tool in served]
    if not chosen.offered:
        if request.tools or served:
            return []
        return [NO_SERVER_TOOLS.format(names=", ".join(tool.name for tool in request.server_tools))]
    notes: list[str] = []
    if chosen.forced and (not may_force or chosen.mode not in profile.tool_choices):
        dropped.loss("tool_choice")
        notes.append(CALL_ONE.format(name=names.to_provider[chosen.tool.name]) if chosen.tool is not None else CALL_ANY)
        chosen = ChosenTools(chosen.offered, "auto", allowed=chosen.allowed)
    body.tools = [*(_tool(tool, names, profile, dropped) for tool in chosen.offered), *body.tools]
    body.tool_choice = _choice(chosen, names, profile)
    parallel = _parallel(request, target, dropped)
    if parallel is not None and not profile.parallel_tool_calls:
        if not parallel and not profile.never_parallel:
            dropped.loss("parallel_tool_calls")
            notes.append(ONE_CALL)
    else:
        body.parallel_tool_calls = parallel
    return notes


def own_server_tools(request: Request, profile: Profile) -> list[ServerTool]:
    """The tools that the endpoint runs itself, in the client's own bytes, which are those of the endpoint's API."""
    types = profile.server_tools
    return [] if types is None else [tool for tool in request.server_tools
                                     if tool.api == "openai" and fnmatchcase(tool.type, types)]


# ------------------------------------------------------------------------------------------------------------- choice


def _wanted(request: Request, target: Target, dropped: Dropped) -> ChosenTools:
    """The choice of the client or the attempt among the tools of the request."""
    wanted = request.tool_choice
    if target.tool_choice is not None:
        wanted = ToolChoice(cast(Literal["auto", "required", "none"], target.tool_choice))
    if wanted is None:
        return ChosenTools(request.tools)
    if wanted.mode == "tool":
        if any(tool.name == wanted.tool for tool in request.server_tools):
            dropped.loss("tool_choice")
            return ChosenTools(request.tools)
        found = next((tool for tool in request.tools if tool.name == wanted.tool), None)
        if found is None:
            raise BadRequest(f"tool_choice: the tool {wanted.tool!r} is not among the tools of the request")
        return ChosenTools(request.tools, "tool", found)
    if not wanted.allowed:
        return ChosenTools(request.tools, wanted.mode)
    allowed = [tool for tool in request.tools if tool.name in wanted.allowed]
    if not allowed:
        raise BadRequest("tool_choice: none of the allowed tools is among the tools of the request")
    if target.profile.allowed_tools:
        return ChosenTools(request.tools, wanted.mode, allowed=allowed)
    return ChosenTools(allowed, wanted.mode)


def _choice_without_tools(request: Request, wanted: ToolChoice, dropped: Dropped) -> None:
    """Handles a choice without tools: an endpoint would refuse the field."""
    if wanted.mode in ("auto", "none"):
        return
    if wanted.mode == "tool" and all(tool.name != wanted.tool for tool in request.server_tools):
        raise BadRequest(f"tool_choice: the tool {wanted.tool!r} is not among the tools of the request")
    dropped.loss("tool_choice")


def _check_count(count: int, target: Target) -> None:
    limits = [target.max_tools] + ([target.profile.max_tools] if target.profile.max_tools is not None else [])
    most = min(limits)
    if count > most:
        raise BadRequest(f"tools: {count} tools are offered, this model takes at most {most}; offer fewer tools")


def _choice(chosen: ChosenTools, names: NameMap, profile: Profile) -> ToolChoiceField | None:
    mode = chosen.mode
    if chosen.allowed and mode in ("auto", "required"):
        return AllowedChoice(AllowedTools(mode, [_named(tool, names, profile) for tool in chosen.allowed]))
    if mode == "tool" and chosen.tool is not None:
        return _named(chosen.tool, names, profile)
    if mode is None or mode == "tool" or mode not in profile.tool_choices:
        return None
    return profile.required_word if mode == "required" else mode


def _named(tool: Tool, names: NameMap, profile: Profile) -> NamedChoice | NamedCustomChoice:
    name = ToolName(names.to_provider[tool.name])
    return NamedCustomChoice(name) if tool.custom and profile.custom_tools else NamedChoice(name)


def _parallel(request: Request, target: Target, dropped: Dropped) -> bool | None:
    """Sent only when requested, or where several calls are impossible: parallel calls are the default of the format,
    and some servers refuse the field."""
    wanted = target.parallel_tool_calls
    if target.profile.never_parallel:
        if wanted or (wanted is None and request.parallel_tool_calls):
            dropped.hint("parallel_tool_calls")
        return False
    if wanted is None:
        wanted = False if request.parallel_tool_calls is False else None
    return wanted


# -------------------------------------------------------------------------------------------------------- definitions


def _tool(tool: Tool, names: NameMap, profile: Profile, dropped: Dropped) -> FunctionTool | CustomTool:
    if tool.cache and (tool.custom or not profile.tool_cache_marks):
        dropped.hint("cache_control")
    if not tool.custom:
        function = _function(tool, names, profile, dropped)
        if tool.cache and profile.tool_cache_marks:
            function.cache_control = allowed_mark(tool.cache, profile, dropped)
        if tool.eager is not None and profile.eager_tools:
            function.eager_input_streaming = tool.eager
            dropped.remove("tools.eager_input_streaming")
        return function
    if profile.custom_tools:
        return CustomTool(Custom(names.to_provider[tool.name], tool.description or None, tool.format))
    if tool.format is not None:
        dropped.loss("tools.format")
    return _function(tool, names, profile, dropped)


def _function(tool: Tool, names: NameMap, profile: Profile, dropped: Dropped) -> FunctionTool:
    name_faults(tool, dropped)
    if profile.schemas == "gemini":
        parameters = encode_parameters_for_openai(tool.schema)
    else:
        parameters = SHARED_CACHE.get("openai.parameters", tool.schema, lambda size: _cleaned(tool.schema))
    strict = None
    if tool.strict:
        if profile.strict_tools and parameters.strict:
            strict = True
        else:
            dropped.hint("tools.strict")
    return FunctionTool(Function(name=names.to_provider[tool.name], parameters=parameters.text or msgspec.Raw(b"{}"),
                                 description=tool.description or None, strict=strict))


def _cleaned(schema: Schema) -> Rewritten:
    parameters = clean_parameters(schema)
    return Rewritten(msgspec.Raw(_ENCODER.encode(parameters)), fits_strict(parameters))
