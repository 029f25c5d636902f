"""The tools of a Responses request, with `tool_choice` and `parallel_tool_calls`.

Tools are sent flat, without namespaces: third parties know no others, and the name map restores the client's names.
`strict` is always written, since the API takes a missing one for true. Called by the request encoder.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec

from extproc.apis.responses.wire_request import (
    AllowedTools,
    CustomTool,
    FunctionTool,
    NamedCustom,
    NamedFunction,
    ProviderBody,
    ToolChoiceField,
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

_any = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode


def set_tools(body: ProviderBody, request: Request, chosen: ChosenTools, target: Target, names: NameMap,
              dropped: Dropped) -> list[str]:
    """Sets the three fields. Returns notes for the system text."""
    profile = target.profile
    served = own_server_tools(request, target)
    body.tools = [msgspec.Raw(tool.raw) for tool in served]
    if not chosen.offered:
        if request.tools or served:
            return []
        return [NO_SERVER_TOOLS.format(names=", ".join(tool.name for tool in request.server_tools))]
    chosen, notes = choice_in_words(chosen, names, profile, dropped, may_force=True)
    body.tools = [*(_tool(tool, names, profile, dropped) for tool in chosen.offered), *body.tools]
    body.tool_choice = _choice(chosen, names, profile)
    body.parallel_tool_calls, parallel_notes = parallel_field(request, target, dropped)
    return notes + parallel_notes


def own_server_tools(request: Request, target: Target) -> list[ServerTool]:
    """The tools that the endpoint runs itself, in the client's own bytes."""
    types = target.profile.server_tools
    if types is None or target.tool_style == "off":
        return []
    return [tool for tool in request.server_tools if tool.api == "responses" and fnmatchcase(tool.type, types)]


def _tool(tool: Tool, names: NameMap, profile: Profile, dropped: Dropped) -> FunctionTool | CustomTool:
    name = names.to_provider[tool.name]
    if tool.cache:
        dropped.hint("cache_control")
    if tool.custom and profile.custom_tools:
        return CustomTool(name, tool.description or None, None if tool.format is None else _flat_format(tool.format))
    parameters = encode_parameters(tool, profile, dropped)
    return FunctionTool(name, parameters.text or msgspec.Raw(b"{}"),
                        strict_allowed(tool, parameters, profile, dropped), description_with_grammar(tool, dropped))


def _flat_format(written: msgspec.Raw) -> msgspec.Raw:
    """The grammar of a custom tool: Chat Completions nests syntax and definition in `grammar`."""
    value = _any.decode(written)
    nested = value.get("grammar") if isinstance(value, dict) else None
    return msgspec.Raw(_encode({"type": "grammar", **nested})) if isinstance(nested, dict) else written


def _choice(chosen: ChosenTools, names: NameMap, profile: Profile) -> ToolChoiceField | None:
    mode = chosen.mode
    if chosen.allowed and mode in ("auto", "required"):
        return AllowedTools(mode, [_named(tool, names, profile) for tool in chosen.allowed])
    if mode == "tool":
        return None if chosen.tool is None else _named(chosen.tool, names, profile)
    return mode if mode in profile.tool_choices else None


def _named(tool: Tool, names: NameMap, profile: Profile) -> NamedFunction | NamedCustom:
    name = names.to_provider[tool.name]
    return NamedCustom(name) if tool.custom and profile.custom_tools else NamedFunction(name)
