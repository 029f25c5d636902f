"""Who may be called, in words: the parts of a request that other APIs carry as `tool_choice` and
`parallel_tool_calls`."""

from __future__ import annotations

from extproc.conversation.model import Request, ToolChoice
from extproc.conversation.tool_names import NameMap
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest


def check_count(count: int, most: int) -> None:
    """Raises `BadRequest` for more tools than a prompt may hold."""
    if count > most:
        raise BadRequest(f"tools: {count} tools are offered, but the tools of this model are written into the prompt, "
                         f"which takes at most {most}; offer fewer tools")


def effective_choice(request: Request, dropped: Dropped) -> ToolChoice | None:
    """The client's choice. One of a tool that the provider would have to run is lost, one of a tool that is not
    offered is refused."""
    wanted = request.tool_choice
    if wanted is None or wanted.mode != "tool":
        return wanted
    if any(tool.name == wanted.tool for tool in request.server_tools):
        dropped.loss("tool_choice")
        return None
    if not any(tool.name == wanted.tool for tool in request.tools):
        raise BadRequest(f"tool_choice: the tool {wanted.tool!r} is not among the tools of the request")
    return wanted


def rules(choice: ToolChoice | None, several: bool | None, names: NameMap) -> str:
    """The sentences behind the tools. `several`: whether one answer may hold several calls, None: as it likes."""
    said = ["Call at most one tool in one answer." if several is False
            else "You may call several tools in one answer, one after the other."]
    if choice is not None and choice.mode == "required":
        said.append("In this answer you must call a tool; do not answer without a call.")
    elif choice is not None and choice.mode == "tool" and choice.tool is not None:
        said.append(f'In this answer you must call the tool "{names.to_provider[choice.tool]}" and no other.')
    return " ".join(said)


NO_CALLS = "No tool can be called in this answer. Answer without a call."
"""Told where earlier turns show calls, but none may follow."""
