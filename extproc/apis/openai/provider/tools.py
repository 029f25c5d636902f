"""The tools of a request in the OpenAI format, with `tool_choice` and `parallel_tool_calls`.

Without tools none of the three is sent. Tools that the provider would have to run (web search) are never sent as
functions, because nobody would run them. A choice that the endpoint does not take is requested in the system text.
Called by the request encoder.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

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
from extproc.apis.shared.grammars import description_with_grammar
from extproc.apis.shared.offered_tools import (
    ChosenTools,
    choice_in_words,
    encode_parameters,
    parallel_field,
    strict_allowed,
)
from extproc.conversation.model import Request, ServerTool, Tool
from extproc.conversation.notes import NO_SERVER_TOOLS
from extproc.conversation.tool_names import NameMap
from extproc.conversation.unsupported import Dropped
from extproc.profiles.profile import Profile
from extproc.profiles.target import Target


def set_tools(body: ProviderBody, request: Request, chosen: ChosenTools, target: Target, names: NameMap,
              dropped: Dropped, *, may_force: bool = True) -> list[str]:
    """Sets the three fields. `may_force`: the model takes a forced choice now. Returns notes for the system text."""
    profile = target.profile
    served = own_server_tools(request, target)
    body.tools = [msgspec.Raw(tool.raw) for tool in served]
    if not chosen.offered:
        if request.tools or served:
            return []
        return [NO_SERVER_TOOLS.format(names=", ".join(tool.name for tool in request.server_tools))]
    chosen, notes = choice_in_words(chosen, names, profile, dropped, may_force=may_force)
    body.tools = [*(_tool(tool, names, profile, dropped) for tool in chosen.offered), *body.tools]
    body.tool_choice = _choice(chosen, names, profile)
    body.parallel_tool_calls, parallel_notes = parallel_field(request, target, dropped)
    return notes + parallel_notes


def own_server_tools(request: Request, target: Target) -> list[ServerTool]:
    """The tools that the endpoint runs itself, in the client's own bytes, which are those of the endpoint's API."""
    types = target.profile.server_tools
    if types is None or target.tool_style == "off":
        return []
    return [tool for tool in request.server_tools if tool.api == "openai" and fnmatchcase(tool.type, types)]


# ------------------------------------------------------------------------------------------------------------- choice


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
    return _function(tool, names, profile, dropped)


def _function(tool: Tool, names: NameMap, profile: Profile, dropped: Dropped) -> FunctionTool:
    parameters = encode_parameters(tool, profile, dropped)
    strict = True if strict_allowed(tool, parameters, profile, dropped) else None
    return FunctionTool(Function(name=names.to_provider[tool.name], parameters=parameters.text or msgspec.Raw(b"{}"),
                                 description=description_with_grammar(tool, dropped), strict=strict))
