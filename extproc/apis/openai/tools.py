"""The tools of a request in the OpenAI format, with `tool_choice` and `parallel_tool_calls`.

These three go together: without tools none of them is sent. Tools that the provider would have to run (web search) are
never sent as functions, because nobody would run them. Called by the request encoder.
"""

from __future__ import annotations

from typing import Literal, cast

from extproc.apis.base import Dropped, NameMap, Target
from extproc.apis.openai.wire import Body, Function, FunctionName, FunctionTool, NamedChoice
from extproc.conversation import Request, Tool, ToolChoice
from extproc.errors import BadRequest
from extproc.profiles.profile import Profile
from extproc.schema import clean_parameters, fits_strict

NO_SERVER_TOOLS = ("The tools of this request ({names}) are not available. Answer from what you know and say that "
                   "you could not use them.")
"""Told to the model when a request offers nothing but server tools; a client's web search is such a request."""


def set_tools(body: Body, request: Request, target: Target, names: NameMap, dropped: Dropped) -> str | None:
    """Fills the three fields. Returns what the model should be told instead, None for nothing. Raises `BadRequest`
    for too many tools and for a choice of a tool that is not offered."""
    for tool in request.server_tools:
        dropped.loss(f"tools.{tool.type}")
    if not request.tools:
        _choice_without_tools(request, dropped)
        if not request.server_tools:
            return None
        return NO_SERVER_TOOLS.format(names=", ".join(tool.name for tool in request.server_tools))
    if target.tool_style == "off":
        dropped.loss("tools")
        return None
    _check_count(len(request.tools), target)
    mode, chosen = _choice(request, target, names, dropped)
    if mode == "none" and "none" not in target.profile.tool_choices:
        return None
    body.tools = [_function(tool, names, target.profile, dropped) for tool in request.tools]
    if mode == "tool":
        body.tool_choice = NamedChoice(FunctionName(chosen))
    elif mode is not None:
        body.tool_choice = cast(Literal["auto", "required", "none"], mode)
    body.parallel_tool_calls = _parallel(request, target, dropped)
    return None


def _choice_without_tools(request: Request, dropped: Dropped) -> None:
    """Nothing can be chosen: an endpoint would refuse the field without tools."""
    wanted = request.tool_choice
    if wanted is None or wanted.mode in ("auto", "none"):
        return
    if wanted.mode == "tool" and all(tool.name != wanted.tool for tool in request.server_tools):
        raise BadRequest(f"tool_choice: the tool {wanted.tool!r} is not among the tools of the request")
    dropped.loss("tool_choice")


def _check_count(count: int, target: Target) -> None:
    limits = [target.max_tools] + ([target.profile.max_tools] if target.profile.max_tools is not None else [])
    most = min(limits)
    if count > most:
        raise BadRequest(f"tools: {count} tools are offered, this model takes at most {most}; offer fewer tools")


def _function(tool: Tool, names: NameMap, profile: Profile, dropped: Dropped) -> FunctionTool:
    parameters = clean_parameters(tool.schema)
    strict = None
    if tool.strict:
        if profile.strict_tools and fits_strict(parameters):
            strict = True
        else:
            dropped.hint("tools.strict")
    if tool.cache:
        dropped.hint("cache_control")
    return FunctionTool(Function(name=names.to_provider[tool.name], parameters=parameters,
                                 description=tool.description or None, strict=strict))


def _choice(request: Request, target: Target, names: NameMap, dropped: Dropped) -> tuple[str | None, str]:
    """The mode to send, and the provider's name of the tool for "tool"."""
    wanted = request.tool_choice
    if target.tool_choice is not None:
        wanted = ToolChoice(cast(Literal["auto", "required", "none"], target.tool_choice))
    if wanted is None:
        return None, ""
    if wanted.mode == "tool":
        if any(tool.name == wanted.tool for tool in request.server_tools):
            dropped.loss("tool_choice")
            return None, ""
        if not any(tool.name == wanted.tool for tool in request.tools):
            raise BadRequest(f"tool_choice: the tool {wanted.tool!r} is not among the tools of the request")
    mode: str | None = wanted.mode
    taken = target.profile.tool_choices
    if mode == "tool" and "tool" not in taken:
        dropped.loss("tool_choice")
        mode = "required"
    if mode == "required" and "required" not in taken:
        dropped.loss("tool_choice")
        mode = "auto"
    if mode == "auto" and "auto" not in taken:
        mode = None
    return mode, names.to_provider[wanted.tool] if mode == "tool" and wanted.tool is not None else ""


def _parallel(request: Request, target: Target, dropped: Dropped) -> bool | None:
    """Sent only when asked: parallel calls are the default of the format, and some servers refuse the field."""
    wanted = target.parallel_tool_calls
    if wanted is None:
        wanted = False if request.parallel_tool_calls is False else None
    if wanted is not None and not target.profile.parallel_tool_calls:
        dropped.loss("parallel_tool_calls")
        return None
    return wanted
