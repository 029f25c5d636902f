"""The tools that a request offers to a model, and the choice among them, in the two formats of OpenAI.

Pure decisions on the request, the attempt and the profile; each API writes its own fields for them. Called by the
request encoders of Chat Completions and Responses, and by the pass-through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import msgspec

from extproc.conversation.model import Request, ServerTool, Tool, ToolChoice
from extproc.conversation.notes import ONE_CALL
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


def choose_tools(request: Request, target: Target, served: Sequence[ServerTool], dropped: Dropped) -> ChosenTools:
    """The tools to offer and the choice to send, as far as the endpoint takes it. `served`: the tools that the endpoint
    runs itself. Raises BadRequest for too many tools, for tools where the model takes none, and for a choice of a tool
    that is not offered."""
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


def choice_in_words(chosen: ChosenTools, names: NameMap, profile: Profile, dropped: Dropped, *,
                    may_force: bool) -> tuple[ChosenTools, list[str]]:
    """The choice as it can be sent, and notes for the system text in place of a forced one that cannot. `may_force`:
    the model takes a forced choice now."""
    if not chosen.forced or (may_force and chosen.mode in profile.tool_choices):
        return chosen, []
    dropped.loss("tool_choice")
    note = CALL_ONE.format(name=names.to_provider[chosen.tool.name]) if chosen.tool is not None else CALL_ANY
    return ChosenTools(chosen.offered, "auto", allowed=chosen.allowed), [note]


def parallel_field(request: Request, target: Target, dropped: Dropped) -> tuple[bool | None, list[str]]:
    """The value of `parallel_tool_calls`, and notes for the system text in its place. It is sent only when requested,
    or where several calls are impossible: parallel calls are the default, and some servers refuse the field."""
    profile = target.profile
    wanted = target.parallel_tool_calls
    if profile.never_parallel:
        if wanted or (wanted is None and request.parallel_tool_calls):
            dropped.hint("parallel_tool_calls")
        wanted = False
    elif wanted is None:
        wanted = False if request.parallel_tool_calls is False else None
    if wanted is None or profile.parallel_tool_calls:
        return wanted, []
    if wanted or profile.never_parallel:
        return None, []
    dropped.loss("parallel_tool_calls")
    return None, [ONE_CALL]


def encode_parameters(tool: Tool, profile: Profile, dropped: Dropped) -> Rewritten:
    """The parameters of a function in the form of the endpoint."""
    name_faults(tool, dropped)
    if profile.schemas == "gemini":
        return encode_parameters_for_openai(tool.schema)
    return SHARED_CACHE.get("openai.parameters", tool.schema, lambda size: _cleaned(tool.schema))


def strict_allowed(tool: Tool, parameters: Rewritten, profile: Profile, dropped: Dropped) -> bool:
    """True if the client wants a strict function and the endpoint takes this one as such."""
    if not tool.strict:
        return False
    if profile.strict_tools and parameters.strict:
        return True
    dropped.hint("tools.strict")
    return False


def _cleaned(schema: Schema) -> Rewritten:
    parameters = clean_parameters(schema)
    return Rewritten(msgspec.Raw(_ENCODER.encode(parameters)), fits_strict(parameters))


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
