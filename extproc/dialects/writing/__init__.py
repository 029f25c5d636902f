"""Tools, calls and results as text, for servers and models without native tool calls.

`write` turns a neutral `Request` into one without tools, whose messages hold text, media and thinking, so that any
API's encoder can send it. The request encoders of the provider APIs call it first; the other modules of `dialects` read
the response. The same request gives the same text. The words that introduce the tools are this project's; calls and
results have the exact form of the model's own template.
"""

from __future__ import annotations

from typing import Literal, cast

import msgspec

from extproc.conversation.model import Request, Text, Tool, ToolCall, ToolChoice, longest_mark
from extproc.conversation.tool_names import NameMap, build_name_map
from extproc.conversation.tool_results import Turn, pair
from extproc.conversation.unsupported import Dropped
from extproc.dialects.writing.form import OfferedTool, PromptForm
from extproc.dialects.writing.json_forms import (
    Apertus,
    DeepSeekV3,
    DeepSeekV31,
    Hermes,
    KimiK2,
    LlamaJson,
    Mistral,
)
from extproc.dialects.writing.prompted import Prompted, format_call
from extproc.dialects.writing.tagged_forms import Dsml, Glm, MiniMaxM2, QwenCoder, RooTags
from extproc.dialects.writing.turns import TurnWriter
from extproc.errors import BadRequest
from extproc.profiles.target import Target
from extproc.schemas.faults import name_faults
from extproc.schemas.function_parameters import clean_parameters

__all__ = ["WRITABLE", "format_call", "write", "write_for_target"]

_FORMS: dict[str, PromptForm] = {
    "apertus": Apertus(),
    "deepseek-r1": DeepSeekV3(),
    "deepseek-v3": DeepSeekV3(),
    "deepseek-v3.1": DeepSeekV31(),
    "deepseek-v3.2": Dsml("function_calls"),
    "deepseek-v4": Dsml("tool_calls"),
    "deepseek-v4.1": Dsml("calls", " "),
    "glm-4.5": Glm("\n"),
    "glm-4.6": Glm("\n"),
    "glm-4.7": Glm(""),
    "hermes": Hermes(),
    "kimi-k2": KimiK2(),
    "llama3-json": LlamaJson(),
    "minimax-m2": MiniMaxM2(),
    "mistral": Mistral(),
    "prompted": Prompted(),
    "qwen3-coder": QwenCoder(),
    "qwen3-hermes": Hermes(),
    "roo-xml": RooTags(),
}

WRITABLE: frozenset[str] = frozenset(_FORMS)
"""The names of dialects that `write` accepts."""


def write_for_target(request: Request, target: Target, names: NameMap, dropped: Dropped) -> Request:
    """`write` with the settings of the attempt; returns the request itself for native tool calls."""
    if target.tool_style not in WRITABLE:
        return request
    if target.tool_choice is not None:
        mode = cast(Literal["auto", "required", "none"], target.tool_choice)
        request = msgspec.structs.replace(request, tool_choice=ToolChoice(mode))
    return write(request, target.tool_style, dropped=dropped, parallel=target.parallel_tool_calls,
                 max_tools=target.max_tools, names=names)


def write(request: Request, dialect: str, *, dropped: Dropped, parallel: bool | None, max_tools: int,
          names: NameMap | None = None) -> Request:
    """A copy of `request` with its tools, calls and results as text of `dialect`.

    `parallel` overrides the client's setting (False: one call per response). `names`: the names to write, by default
    names that every API accepts; the response must be read with the same ones. Raises `BadRequest` for more than
    `max_tools` tools, for results without a call and for a choice of a tool that is not offered; ValueError for a
    dialect that cannot be written.
    """
    form = _FORMS.get(dialect)
    if form is None:
        raise ValueError(f"the dialect {dialect!r} cannot be written; those that can: {', '.join(sorted(WRITABLE))}")
    names = names or build_name_map(request)
    choice = effective_choice(request, dropped)
    offered = [] if choice is not None and choice.mode == "none" else request.tools
    check_count(len(offered), max_tools)
    tools = [_offered(tool, names, dropped) for tool in offered]
    turns = pair(request.messages, dropped)
    head = _leading_system(turns)
    system = [*request.system, *head]
    if tools:
        several = request.parallel_tool_calls if parallel is None else parallel
        _add(system, Text(form.tools(tools), cache=longest_mark(*(tool.cache for tool in offered))))
        _add(system, Text(calling_rules(choice, several, names)))
    elif any(isinstance(block, ToolCall) for message in request.messages for block in message.content):
        _add(system, Text(NO_CALLS))
    schemas = {names.to_provider[tool.name]: tool.schema for tool in offered}
    messages = TurnWriter(form, names, schemas).write(turns)
    # If the request has only server tools, the encoder adds a note about them.
    server_tools = request.server_tools if not request.tools else []
    for tool in request.server_tools if request.tools else []:
        dropped.loss(f"tools.{tool.type}")
    return msgspec.structs.replace(request, system=system, messages=messages, tools=[], server_tools=server_tools,
                                   tool_choice=None, parallel_tool_calls=None)


def _offered(tool: Tool, names: NameMap, dropped: Dropped) -> OfferedTool:
    if tool.strict:
        dropped.hint("tools.strict")
    name_faults(tool, dropped)
    return OfferedTool(names.to_provider[tool.name], tool.description or "", clean_parameters(tool.schema))


def _leading_system(turns: list[Turn]) -> list[Text]:
    """Removes and returns the system turns at the head: the tools come after all system text of the client."""
    head: list[Text] = []
    while turns and turns[0].role == "system" and all(isinstance(block, Text) for block in turns[0].content):
        head += [block for block in turns.pop(0).content if isinstance(block, Text)]
    return head


def _add(system: list[Text], text: Text) -> None:
    """Adds the text unless it is there already, since another gateway may have added it."""
    if not any(text.text in known.text for known in system):
        system.append(text)


# ---------------------------------------------------------------------------------------------- who may be called


def check_count(count: int, most: int) -> None:
    """Raises `BadRequest` for too many tools."""
    if count > most:
        raise BadRequest(f"tools: {count} tools are offered, but the tools of this model are written into the prompt, "
                         f"which takes at most {most}; offer fewer tools")


def effective_choice(request: Request, dropped: Dropped) -> ToolChoice | None:
    """The client's choice. Drops the choice of a server tool. Raises `BadRequest` for a tool that is not offered."""
    wanted = request.tool_choice
    if wanted is None or wanted.mode != "tool":
        return wanted
    if any(tool.name == wanted.tool for tool in request.server_tools):
        dropped.loss("tool_choice")
        return None
    if not any(tool.name == wanted.tool for tool in request.tools):
        raise BadRequest(f"tool_choice: the tool {wanted.tool!r} is not among the tools of the request")
    return wanted


def calling_rules(choice: ToolChoice | None, several: bool | None, names: NameMap) -> str:
    """The sentences after the tools. `several`: True if a response may hold several calls; None: the model decides."""
    said = ["Call at most one tool in one answer." if several is False
            else "You may call several tools in one answer, one after the other."]
    if choice is not None and choice.mode == "required":
        said.append("In this answer you must call a tool; do not answer without a call.")
    elif choice is not None and choice.mode == "tool" and choice.tool is not None:
        said.append(f'In this answer you must call the tool "{names.to_provider[choice.tool]}" and no other.')
    return " ".join(said)


NO_CALLS = "No tool can be called in this answer. Answer without a call."
"""For a history with calls if no call may follow."""
