"""Tools and the choice among them -> the conversation model, with flat names that are unique in the request.

This API has tools in groups (namespaces) and of types that a client runs in its own way (custom, tool_search,
local_shell, shell, apply_patch). Each becomes a function with a schema; `Tool` remembers what the client called it, so
that `calls` can write the item that the client expects. Tools also arrive inside the input (`additional_tools`,
`tool_search_output`). Types that only OpenAI runs become `ServerTool`s. Called by `request`; `items` looks up names of
past calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from extproc.apis.responses.wire_request import ClientTool, ClientToolChoice
from extproc.apis.shared.tool_definition_cache import ToolDefinitionCache
from extproc.apis.shared.wire import Shape, given, is_string, refused, type_of
from extproc.conversation.model import ServerTool, Tool, ToolChoice, ToolKind
from extproc.conversation.tool_names import short_name
from extproc.conversation.unsupported import Dropped
from extproc.schemas.faults import schema_place

_tool = Shape(ClientTool)
_choice = Shape(ClientToolChoice)
_decode = msgspec.json.Decoder().decode
_string = msgspec.json.Decoder(str)

FREE_TEXT: dict[str, object] = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"],
                                "additionalProperties": False}
"""The schema of a custom tool: one string."""

_STRINGS: dict[str, object] = {"type": "array", "items": {"type": "string"}}
_INTEGER: dict[str, object] = {"type": "integer"}
_STRING: dict[str, object] = {"type": "string"}


def _object(required: Sequence[str], **properties: dict[str, object]) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": list(required)}


_TYPED: dict[str, tuple[ToolKind, str, dict[str, object]]] = {
    "local_shell": ("local_shell", "Runs a command on the user's machine.", _object(
        ["command"], command=_STRINGS, timeout_ms=_INTEGER, working_directory=_STRING,
        env={"type": "object", "additionalProperties": _STRING})),
    "shell": ("shell", "Runs shell commands, one after another.", _object(
        ["commands"], commands=_STRINGS, timeout_ms=_INTEGER, max_output_length=_INTEGER)),
    "apply_patch": ("apply_patch", "Creates, updates or deletes one file. `diff` is a V4A diff; it is not needed to "
                    "delete a file.", _object(["operation"], operation=_object(
                        ["type", "path"], type={"type": "string", "enum": ["create_file", "update_file",
                                                                           "delete_file"]},
                        path=_STRING, diff=_STRING))),
    "tool_search": ("tool_search", "Searches the tools that are available but not listed, and makes them available.",
                    _object(["query"], query=_STRING, limit=_INTEGER)),
}
"""Tools whose type is all that a request says: their kind, a description and the schema of their calls."""

_MODES = {"auto": "auto", "required": "required", "any": "required", "none": "none"}

Key = tuple[str | None, str]
"""A namespace, or None, and a name in it."""


class OfferedTools(msgspec.Struct):
    """The tools of one request."""

    tools: list[Tool] = []
    server_tools: list[ServerTool] = []
    names: dict[Key, str] = {}
    """The client's names -> the flat ones."""

    def flat_name(self, namespace: str | None, name: str) -> str:
        """The name of a tool in the conversation, also of one that is not offered any more. A call without a namespace
        finds the only tool of its name."""
        known = self.names.get((namespace or None, name))
        if known is not None:
            return known
        if namespace:
            return f"{namespace}__{name}"
        others = [flat for (_, member), flat in self.names.items() if member == name]
        return others[0] if len(others) == 1 else name

    def name_of_kind(self, kind: ToolKind) -> str:
        """The flat name of the tool of this kind."""
        return next((tool.name for tool in self.tools if tool.kind == kind), kind)


class ToolSource(msgspec.Struct, frozen=True):
    """A list of tools. `found`: the model asked for them in a search; they come after all others."""

    tools: Sequence[msgspec.Raw]
    path: str
    found: bool = False


def decode_tools(sources: Sequence[ToolSource], dropped: Dropped, depth: int) -> OfferedTools:
    """The tools of all sources. `depth`: the deepest nesting of the request. The same tool counts once; of two
    definitions of a tool the last one counts, but not within one list. Raises BadRequest with the place."""
    read: dict[Key, Tool] = {}
    server: list[ServerTool] = []
    for source in sources:
        here: set[Key] = set()
        for at, raw in enumerate(source.tools):
            for key, tool in _read_entry(raw, f"{source.path}[{at}]", dropped, depth):
                if isinstance(tool, ServerTool):
                    server.append(tool)
                    continue
                if key in here and read[key] != tool:
                    raise refused(f"{source.path}[{at}]", f"tool names must be unique, {key[1]!r} was there before")
                here.add(key)
                read[key] = replace(tool, deferred=False) if source.found and tool.deferred else tool
    names = _flat_names(read)
    tools = [tool if names[key] == tool.name and key[0] is None
             else replace(tool, name=names[key], namespace=key[0], member=key[1]) for key, tool in read.items()]
    return OfferedTools(tools, server, names)


def _flat_names(keys: Mapping[Key, Tool]) -> dict[Key, str]:
    """Tools outside of groups keep their names; others are called GROUP__NAME, unless another tool is."""
    names = {key: key[1] for key in keys if key[0] is None}
    taken = set(names.values())
    for key in keys:
        if key[0] is not None:
            flat = f"{key[0]}__{key[1]}"
            if flat in taken:
                flat = short_name(f"{key[0]}\0{key[1]}", 64, taken)
            taken.add(flat)
            names[key] = flat
    return {key: names[key] for key in keys}


def _read_entry(raw: msgspec.Raw, path: str, dropped: Dropped,
                depth: int) -> list[tuple[Key, Tool | ServerTool]]:
    """One tool, or all of a namespace."""
    if type_of(raw, path) != "namespace":
        tool = _cache.read(raw, path, dropped, depth)
        return [((None, tool.name), tool)]
    group, _ = _tool.read(raw, path)
    if not group.name:
        raise refused(f"{path}.name", "expected the name of the namespace")
    entries: list[tuple[Key, Tool | ServerTool]] = []
    for at, member in enumerate(group.tools or ()):
        tool = _cache.read(member, f"{path}.tools[{at}]", dropped, depth)
        entries.append(((group.name, tool.name), tool))
    return entries


def _read_tool(raw: msgspec.Raw, path: str, dropped: Dropped) -> Tool | ServerTool:
    kind = type_of(raw, path)
    if kind not in ("function", "custom", *_TYPED):
        return ServerTool("responses", kind, kind, bytes(raw))
    tool, unknown = _tool.read(raw, path)
    if given(tool.function):  # Chat Completions' form
        tool, unknown = _tool.read(tool.function, f"{path}.function")
    for field in unknown:
        dropped.hint(f"tools.{field}")
    if kind in _TYPED:
        return _typed_tool(kind, tool, dropped)
    if not tool.name:
        raise refused(f"{path}.name", "expected the name of the tool")
    if kind == "custom":
        return Tool(tool.name, tool.description, FREE_TEXT, custom=True, format=_nested_format(tool.format),
                    deferred=bool(tool.defer_loading))
    schema = _schema(tool.parameters, tool.name, dropped)
    return Tool(tool.name, tool.description, schema, strict=tool.strict, deferred=bool(tool.defer_loading))


_cache = ToolDefinitionCache(_read_tool)


def _typed_tool(name: str, tool: ClientTool, dropped: Dropped) -> Tool | ServerTool:
    kind, description, schema = _TYPED[name]
    if kind == "tool_search" and given(tool.parameters):
        schema = _schema(tool.parameters, name, dropped)
    return Tool(name, tool.description or description, schema, kind=kind)


def _nested_format(raw: msgspec.Raw) -> msgspec.Raw | None:
    """The grammar of a custom tool in the form of the conversation model, which is that of Chat Completions."""
    if not given(raw):
        return None
    value = _decode(raw)
    if isinstance(value, dict) and value.get("type") == "grammar" and "grammar" not in value:
        value = {"type": "grammar", "grammar": {name: part for name, part in value.items() if name != "type"}}
    return msgspec.Raw(msgspec.json.encode(value))


def _schema(raw: msgspec.Raw, tool: str, dropped: Dropped) -> dict[str, object]:
    """A tool without parameters gets an object schema without fields; a value that is no schema is named."""
    schema = _decode(raw) if given(raw) else None
    if isinstance(schema, dict) and schema:
        return schema
    if schema not in (None, True, "", [], {}):
        dropped.loss(schema_place(tool))
    return {"type": "object", "properties": {}}


# -------------------------------------------------------------------------------------------------------------- choice


def decode_choice(raw: msgspec.Raw, offered: OfferedTools, dropped: Dropped) -> ToolChoice | None:
    """`tool_choice`. A tool that is not offered is refused; one that only OpenAI runs leaves the choice to the
    model."""
    if not given(raw):
        return None
    if is_string(raw):
        word = _string.decode(raw)
        mode = _MODES.get(word)
        if mode is None:
            raise refused("tool_choice", f"unknown value {word!r}: expected none, auto, required or an object")
        return ToolChoice(mode)  # type: ignore[arg-type]
    choice, unknown = _choice.read(raw, "tool_choice")
    for field in unknown:
        dropped.hint(f"tool_choice.{field}")
    if choice.type == "allowed_tools":
        return _allowed(choice, offered, dropped)
    if choice.type in _MODES and choice.name is None:
        return ToolChoice(_MODES[choice.type])  # type: ignore[arg-type]
    name = _chosen_name(choice, offered, "tool_choice")
    if name is None:
        dropped.loss("tool_choice")
        return None
    return ToolChoice("tool", name)


def _chosen_name(choice: ClientToolChoice, offered: OfferedTools, path: str) -> str | None:
    """The flat name of the chosen tool; None for a tool that only OpenAI runs."""
    kind = choice.type or "function"
    if kind in ("function", "custom"):
        name = choice.name
        if name is None and given(choice.function):
            name = _choice.read(choice.function, f"{path}.function")[0].name
        if not name:
            raise refused(f"{path}.name", "this field is required")
    elif kind in _TYPED:
        name = offered.name_of_kind(_TYPED[kind][0])
    elif any(tool.type == kind for tool in offered.server_tools):
        return None
    else:
        raise refused(path, f"the tool {kind!r} is not in tools")
    flat = offered.flat_name(choice.namespace, name)
    if not any(tool.name == flat for tool in offered.tools):
        raise refused(path, f"the tool {name!r} is not in tools")
    return flat


def _allowed(choice: ClientToolChoice, offered: OfferedTools, dropped: Dropped) -> ToolChoice | None:
    mode = choice.mode or "auto"
    if mode not in ("auto", "required"):
        raise refused("tool_choice.mode", f"unknown mode {mode!r}: expected auto or required")
    names: list[str] = []
    for at, raw in enumerate(choice.tools or ()):
        path = f"tool_choice.tools[{at}]"
        name = _chosen_name(_choice.read(raw, path)[0], offered, path)
        if name is None:
            dropped.loss("tool_choice")
        else:
            names.append(name)
    if not names:
        return ToolChoice("none") if choice.tools else None
    return ToolChoice(mode, allowed=tuple(dict.fromkeys(names)))  # type: ignore[arg-type]
