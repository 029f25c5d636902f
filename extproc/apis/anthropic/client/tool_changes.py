"""Applies changes of the tools in the middle of a conversation: `tool_addition` and `tool_removal`.

Anthropic's API offers the model all tools of `tools` that are not deferred; each such block adds or removes one from
then on. Other APIs have one list: the tools at the end of the conversation. Called by `request` once messages and tools
are read. The blocks are in system messages, inside `mid_conv_system` blocks of user messages, and in `tool_changes` of
a compaction, which sums up the removed part.

Source: the types of Anthropic's SDKs for the betas mid-conversation-tool-changes-2026-07-01 and inline-tools-2026-09-15
(`BetaRequestToolAdditionBlock`, `BetaMidConversationSystemBlockParam`, `BetaCompactionBlockParam`).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from extproc.apis.anthropic.client.blocks import loaded_tool, read_content
from extproc.apis.shared.wire import refused
from extproc.conversation.model import Block, Message, Opaque, ServerTool, Text, Tool, ToolResult
from extproc.conversation.unsupported import Dropped

_CHANGES = ("tool_addition", "tool_removal")
_HOLDERS = (*_CHANGES, "mid_conv_system", "compaction")
AnyTool = Tool | ServerTool
ReadTool = Callable[[msgspec.Raw, str], AnyTool]


class _ToolReference(msgspec.Struct):
    type: str = ""
    name: str | None = None
    definition: msgspec.Raw = msgspec.Raw()


class _ChangeBlock(msgspec.Struct):
    """A block that is or contains changes."""

    type: str
    tool: _ToolReference | None = None
    content: str | list[msgspec.Raw] | None = None
    tool_changes: list[msgspec.Raw] | None = None


_block = msgspec.json.Decoder(_ChangeBlock)


def apply_tool_changes(messages: list[Message], tools: list[Tool], server_tools: list[ServerTool], read_tool: ReadTool,
            dropped: Dropped) -> tuple[list[Message], list[Tool], list[ServerTool]]:
    """The conversation without these blocks, and the tools at its end in the order of their declaration. `read_tool`
    reads the definition of a tool at a place. Raises BadRequest with the place."""
    if not any(type(block) is Opaque and block.type in _HOLDERS for message in messages for block in message.content):
        return messages, tools, server_tools
    return _ToolChanges(tools, server_tools, read_tool, dropped).applied(messages)


class _ToolChanges:
    def __init__(self, tools: list[Tool], server_tools: list[ServerTool], read_tool: ReadTool,
                 dropped: Dropped) -> None:
        self._read_tool = read_tool
        self._dropped = dropped
        self._declared: dict[str, AnyTool] = {tool.name: tool for tool in tools}
        self._declared.update((tool.name, tool) for tool in server_tools)
        # Nobody else runs Anthropic's tool search: the tools that it would find are offered.
        searched = any(tool.type.startswith("tool_search_tool") for tool in server_tools)
        self._offered = {name for name, tool in self._declared.items()
                         if searched or not (isinstance(tool, Tool) and tool.deferred)}
        self._changed = False

    def applied(self, messages: list[Message]) -> tuple[list[Message], list[Tool], list[ServerTool]]:
        out: list[Message] = []
        for at, message in enumerate(messages):
            out += self._without_changes(message, at)
        if not self._changed:
            self._offered = set(self._declared)  # no changes: all tools are offered
        held = [tool for name, tool in self._declared.items() if name in self._offered]
        return (out, [tool for tool in held if isinstance(tool, Tool)],
                [tool for tool in held if isinstance(tool, ServerTool)])

    def _without_changes(self, message: Message, at: int) -> list[Message]:
        """The message without changes; several messages where it contains system text."""
        parts = [replace(message, content=[])]
        for number, block in enumerate(message.content):
            if type(block) is ToolResult:
                self._offer_found_tools(block)
            if type(block) is not Opaque or block.type not in _HOLDERS:
                parts[-1].content.append(block)
                continue
            place = f"messages[{at}].content[{number}]"
            found = _read_block(block.raw, place)
            if block.type in _CHANGES:
                self._apply_change(found, place)
            elif block.type == "compaction":
                for change in found.tool_changes or ():
                    self._apply_change(_read_block(change, f"{place}.tool_changes"), f"{place}.tool_changes")
                parts[-1].content.append(block)
            else:
                texts = self._system_text(found, place)
                parts += [Message("system", texts)] if texts else []
                parts.append(replace(message, content=[]))
        return [part for part in parts if part.content or (part is parts[0] and not message.content)]

    def _system_text(self, holder: _ChangeBlock, place: str) -> list[Block]:
        texts: list[Block] = []
        for number, block in enumerate(read_content(holder.content, "system", f"{place}.content", self._dropped)):
            if isinstance(block, Opaque) and block.type in _CHANGES:
                inner = f"{place}.content[{number}]"
                self._apply_change(_read_block(block.raw, inner), inner)
            else:
                texts.append(block)
        return texts

    def _offer_found_tools(self, result: ToolResult) -> None:
        """A tool search of the client found deferred tools."""
        texts = {part.text for part in result.content if type(part) is Text}
        self._offered |= {name for name in self._declared if loaded_tool(name) in texts}

    def _apply_change(self, block: _ChangeBlock, place: str) -> None:
        tool = block.tool
        if tool is None:
            raise refused(f"{place}.tool", "this field is required")
        self._changed = True
        if tool.type.startswith("mcp_"):
            self._dropped.hint(f"messages.{block.type}")  # the gateway calls no MCP servers; `mcp_servers` is named
            return
        name = tool.name
        if block.type == "tool_addition" and tool.type == "tool_definition":
            read = self._read_tool(tool.definition, f"{place}.tool.definition")
            self._declared[read.name] = read
            name = read.name
        if not name:
            raise refused(f"{place}.tool.name", "this field is required")
        if block.type == "tool_removal":
            self._offered.discard(name)
        elif name in self._declared:
            self._offered.add(name)
        else:
            self._dropped.loss("messages.tool_addition")


def _read_block(raw: bytes | msgspec.Raw, place: str) -> _ChangeBlock:
    try:
        return _block.decode(raw)
    except msgspec.ValidationError as problem:
        raise refused(place, str(problem)) from None
