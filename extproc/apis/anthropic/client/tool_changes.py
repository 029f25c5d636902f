"""What a conversation says of its tools on the way: `tool_addition` and `tool_removal`, applied.

Anthropic's API offers a model the tools of `tools` as far as they are not deferred, and from each such block on one
more or one less. Other APIs know one list: what holds at the end of the conversation. Called by `request` once messages
and tools are read. The blocks stand in system messages, inside `mid_conv_system` blocks of user messages, and in
`tool_changes` of a compaction, which sums up what was cut off.

Source: the types of Anthropic's SDKs for the betas mid-conversation-tool-changes-2026-07-01 and
inline-tools-2026-09-15 (`BetaRequestToolAdditionBlock`, `BetaMidConversationSystemBlockParam`,
`BetaCompactionBlockParam`).
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


class _Reference(msgspec.Struct):
    type: str = ""
    name: str | None = None
    definition: msgspec.Raw = msgspec.Raw()


class _Block(msgspec.Struct):
    """A block that is or holds changes."""

    type: str
    tool: _Reference | None = None
    content: str | list[msgspec.Raw] | None = None
    tool_changes: list[msgspec.Raw] | None = None


_block = msgspec.json.Decoder(_Block)


def applied(messages: list[Message], tools: list[Tool], server_tools: list[ServerTool], read_tool: ReadTool,
            dropped: Dropped) -> tuple[list[Message], list[Tool], list[ServerTool]]:
    """The conversation without these blocks, and the tools that hold at its end, in the order in which they were
    declared. `read_tool` reads the definition of a tool at a place. Raises BadRequest with the place."""
    if not any(type(block) is Opaque and block.type in _HOLDERS for message in messages for block in message.content):
        return messages, tools, server_tools
    return _Changes(tools, server_tools, read_tool, dropped).applied(messages)


class _Changes:
    def __init__(self, tools: list[Tool], server_tools: list[ServerTool], read_tool: ReadTool,
                 dropped: Dropped) -> None:
        self._read_tool = read_tool
        self._dropped = dropped
        self._declared: dict[str, AnyTool] = {tool.name: tool for tool in tools}
        self._declared.update((tool.name, tool) for tool in server_tools)
        # Nobody else runs Anthropic's own search of tools: what it would find is offered.
        searched = any(tool.type.startswith("tool_search_tool") for tool in server_tools)
        self._offered = {name for name, tool in self._declared.items()
                         if searched or not (isinstance(tool, Tool) and tool.deferred)}
        self._changed = False

    def applied(self, messages: list[Message]) -> tuple[list[Message], list[Tool], list[ServerTool]]:
        out: list[Message] = []
        for at, message in enumerate(messages):
            out += self._message(message, at)
        if not self._changed:
            self._offered = set(self._declared)  # the client does not use them: all are offered, as ever
        held = [tool for name, tool in self._declared.items() if name in self._offered]
        return (out, [tool for tool in held if isinstance(tool, Tool)],
                [tool for tool in held if isinstance(tool, ServerTool)])

    def _message(self, message: Message, at: int) -> list[Message]:
        """The message without changes; in several where system text stands inside."""
        parts = [replace(message, content=[])]
        for number, block in enumerate(message.content):
            if type(block) is ToolResult:
                self._loaded(block)
            if type(block) is not Opaque or block.type not in _HOLDERS:
                parts[-1].content.append(block)
                continue
            place = f"messages[{at}].content[{number}]"
            found = _read(block.raw, place)
            if block.type in _CHANGES:
                self._change(found, place)
            elif block.type == "compaction":
                for change in found.tool_changes or ():
                    self._change(_read(change, f"{place}.tool_changes"), f"{place}.tool_changes")
                parts[-1].content.append(block)
            else:
                texts = self._system_text(found, place)
                parts += [Message("system", texts)] if texts else []
                parts.append(replace(message, content=[]))
        return [part for part in parts if part.content or (part is parts[0] and not message.content)]

    def _system_text(self, holder: _Block, place: str) -> list[Block]:
        texts: list[Block] = []
        for number, block in enumerate(read_content(holder.content, "system", f"{place}.content", self._dropped)):
            if isinstance(block, Opaque) and block.type in _CHANGES:
                inner = f"{place}.content[{number}]"
                self._change(_read(block.raw, inner), inner)
            else:
                texts.append(block)
        return texts

    def _loaded(self, result: ToolResult) -> None:
        """A search of tools that the client runs found deferred ones."""
        texts = {part.text for part in result.content if type(part) is Text}
        self._offered |= {name for name in self._declared if loaded_tool(name) in texts}

    def _change(self, block: _Block, place: str) -> None:
        tool = block.tool
        if tool is None:
            raise refused(f"{place}.tool", "this field is required")
        self._changed = True
        if tool.type.startswith("mcp_"):
            self._dropped.hint(f"messages.{block.type}")  # of servers that nobody here asks: `mcp_servers` is named
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


def _read(raw: bytes | msgspec.Raw, place: str) -> _Block:
    try:
        return _block.decode(raw)
    except msgspec.ValidationError as problem:
        raise refused(place, str(problem)) from None
