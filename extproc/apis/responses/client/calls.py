"""Calls of the conversation model -> the items that the client expects: by the type, the group and the name that the
client gave the tool.

A function call streams its arguments, a custom tool call its text; the other types arrive whole. Used by `response`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from extproc.apis.responses.client.custom_input import CustomInput
from extproc.apis.shared.client_responses import call_input
from extproc.conversation.model import Tool, ToolCallStart
from extproc.conversation.signatures import embed_in_id

Fields = dict[str, object]

_object: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])


class ToolIndex:
    """The tools of a request by their flat names."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        members: dict[str, list[Tool]] = {}
        for tool in tools:
            if tool.namespace is not None and tool.member is not None:
                for name in (tool.member, f"{tool.namespace}.{tool.member}"):
                    members.setdefault(name, []).append(tool)
        self._members = {name: found[0] for name, found in members.items() if len(found) == 1}
        """Models leave the group out, or write it before a dot."""

    def find(self, name: str) -> Tool | None:
        """The tool that the model called; None for one that was not offered."""
        return self._tools.get(name) or self._members.get(name)


class OpenCall:
    """A call while it streams. `delta_event`: the event of its pieces, "" for a type without."""

    item_type = "function_call"
    id_prefix = "fc"
    delta_event = "response.function_call_arguments.delta"

    def __init__(self, tool: Tool | None, event: ToolCallStart) -> None:
        self._pieces: list[str] = []
        self._call_id = embed_in_id(event.id, event.signature)
        self._name = event.name if tool is None else tool.member or tool.name
        self._namespace = None if tool is None else tool.namespace

    @property
    def arguments(self) -> str:
        """The arguments so far, as the model wrote them."""
        return "".join(self._pieces)

    @property
    def is_complete(self) -> bool:
        """True if the arguments are a whole object: nothing that follows can make the call another one."""
        return call_input(self.arguments, True, last=True) is not None

    def feed(self, piece: str) -> str:
        """Takes a piece of the arguments; returns the next delta, "" for none."""
        self._pieces.append(piece)
        return piece

    def finish(self) -> str:
        """The last delta. Clients parse the arguments, so none are `{}`."""
        return self.feed("{}") if not self.arguments.strip() else ""

    def done_event(self) -> tuple[str, Fields] | None:
        """The event behind the last delta; None for a type without."""
        return "response.function_call_arguments.done", {"name": self._name, "arguments": self.arguments}

    def item(self, item_id: str, status: str, *, empty: bool = False) -> Fields:
        """The item. `empty`: as it is when it begins."""
        named: Fields = {"name": self._name}
        if self._namespace is not None:
            named["namespace"] = self._namespace
        return {"id": item_id, "type": self.item_type, "status": status, "call_id": self._call_id, **named,
                **self._body(empty=empty)}

    def _body(self, *, empty: bool) -> Fields:
        return {"arguments": "" if empty else self.arguments}


class CustomCall(OpenCall):
    """A call with free text."""

    item_type = "custom_tool_call"
    id_prefix = "ctc"
    delta_event = "response.custom_tool_call_input.delta"

    def __init__(self, tool: Tool | None, event: ToolCallStart) -> None:
        super().__init__(tool, event)
        self._input = CustomInput()

    @property
    def arguments(self) -> str:
        return self._input.arguments

    def feed(self, piece: str) -> str:
        return self._input.feed(piece)

    def finish(self) -> str:
        return self._input.finish()

    def done_event(self) -> tuple[str, Fields] | None:
        return "response.custom_tool_call_input.done", {"input": self._input.text}

    def _body(self, *, empty: bool) -> Fields:
        return {"input": "" if empty else self._input.text}


class WholeCall(OpenCall):
    """A call of a type without events between its beginning and its end. `build`: its fields from the arguments."""

    delta_event = ""

    def __init__(self, tool: Tool | None, event: ToolCallStart, item_type: str, id_prefix: str,
                 build: Callable[[Mapping[str, object]], Fields]) -> None:
        super().__init__(tool, event)
        self.item_type = item_type
        self.id_prefix = id_prefix
        self._build = build

    def feed(self, piece: str) -> str:
        super().feed(piece)
        return ""

    def finish(self) -> str:
        return ""

    def done_event(self) -> tuple[str, Fields] | None:
        return None

    def item(self, item_id: str, status: str, *, empty: bool = False) -> Fields:
        arguments: Mapping[str, object] = {}
        if not empty:
            found = call_input(self.arguments, False, last=False)
            arguments = _object.decode(found) if isinstance(found, msgspec.Raw) else found or {}
        return {"id": item_id, "type": self.item_type, "status": status, "call_id": self._call_id,
                **self._build(arguments)}


def _search(arguments: Mapping[str, object]) -> Fields:
    return {"execution": "client", "arguments": arguments}


def _local_shell(arguments: Mapping[str, object]) -> Fields:
    action = {name: arguments[name] for name in ("timeout_ms", "working_directory", "user") if name in arguments}
    environment = arguments.get("env")
    return {"action": {"type": "exec", "command": _command(arguments.get("command")),
                       "env": environment if isinstance(environment, dict) else {}, **action}}


def _command(value: object) -> list[str]:
    """A command as words; a model that wrote one line means a shell's."""
    if isinstance(value, str):
        return ["bash", "-lc", value]
    return [str(word) for word in value] if isinstance(value, list) else []


def _shell(arguments: Mapping[str, object]) -> Fields:
    commands = arguments.get("commands", arguments.get("command"))
    listed = [commands] if isinstance(commands, str) else commands if isinstance(commands, list) else []
    return {"action": {"commands": listed, "timeout_ms": arguments.get("timeout_ms"),
                       "max_output_length": arguments.get("max_output_length")}}


def _patch(arguments: Mapping[str, object]) -> Fields:
    operation = arguments.get("operation", arguments)
    return {"operation": operation}


_WHOLE: dict[str, tuple[str, str, Callable[[Mapping[str, object]], Fields]]] = {
    "tool_search": ("tool_search_call", "tsc", _search),
    "local_shell": ("local_shell_call", "lsh", _local_shell),
    "shell": ("shell_call", "sh", _shell),
    "apply_patch": ("apply_patch_call", "apc", _patch),
}
"""For each kind of tool: the type of its call, the prefix of the item's id, and the fields of the call."""


def open_call(tools: ToolIndex, event: ToolCallStart) -> OpenCall:
    """The call that begins with this event."""
    tool = tools.find(event.name)
    if tool is not None and tool.custom:
        return CustomCall(tool, event)
    if tool is not None and tool.kind in _WHOLE:
        return WholeCall(tool, event, *_WHOLE[tool.kind])
    return OpenCall(tool, event)
