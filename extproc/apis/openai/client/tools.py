"""Tools, legacy functions and the choice among them -> the conversation model.

Called by `request`. Functions are read nested, as in this API, and flat, as in others. A custom tool takes free text:
it becomes a tool with one string `input` and keeps its grammar for providers that know such tools. Types that the
provider runs itself become `ServerTool`s.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from extproc.apis.openai.client.parts import note_unknown
from extproc.apis.openai.wire_request import AllowedTools, ClientCustom, ClientToolChoice, Function, ToolHead, ToolName
from extproc.apis.shared.cache_marks import read_mark
from extproc.apis.shared.tool_definition_cache import ToolDefinitionCache
from extproc.apis.shared.wire import Shape, given, is_string, refused
from extproc.conversation.model import CacheMark, ServerTool, Tool, ToolChoice, longest_mark
from extproc.conversation.unsupported import Dropped
from extproc.schemas.faults import schema_place

_head = Shape(ToolHead)
_function = Shape(Function)
_custom = Shape(ClientCustom)
_choice = Shape(ClientToolChoice)
_allowed = Shape(AllowedTools[msgspec.Raw])
_named = Shape(ToolName)
_decode = msgspec.json.Decoder().decode
_string = msgspec.json.Decoder(str)

_members: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_HEAD = frozenset(ToolHead.__struct_fields__)

_MODES = {"auto": "auto", "required": "required", "any": "required", "none": "none"}
"""`any` is Mistral's and Anthropic's word for required."""


def decode_tools(tools: Sequence[msgspec.Raw], functions: Sequence[msgspec.Raw],
                 dropped: Dropped, depth: int) -> tuple[list[Tool], list[ServerTool]]:
    """The tools that the client runs, and those that the provider runs. `depth`: the deepest nesting of the request. A
    repeated tool counts once. Raises BadRequest for two different tools of one name."""
    own: list[Tool] = []
    server: list[ServerTool] = []
    seen: dict[str, Tool] = {}
    places = [*((raw, f"tools[{at}]", False) for at, raw in enumerate(tools)),
              *((raw, f"functions[{at}]", True) for at, raw in enumerate(functions))]
    for raw, path, legacy in places:
        tool = (_function_cache if legacy else _tool_cache).read(raw, path, dropped, depth)
        if isinstance(tool, ServerTool):
            server.append(tool)
            continue
        before = seen.get(tool.name)
        if before is None:
            seen[tool.name] = tool
            own.append(tool)
        elif before == tool:
            dropped.hint("tools.repeated")
        else:
            raise refused(path, f"tool names must be unique, {tool.name!r} was there before")
    return own, server


def _read_tool(raw: msgspec.Raw, path: str, dropped: Dropped) -> Tool | ServerTool:
    head, _ = _head.read(raw, path)
    cache = read_mark(head.cache_control)
    if head.type in ("function", None, ""):
        if given(head.function):
            note_unknown(dropped, "tools", [name for name in _members.decode(raw) if name not in _HEAD])
            return _read_function(head.function, f"{path}.function", "tools.function", dropped, cache=cache,
                        eager=head.eager_input_streaming)
        return _read_function(raw, path if head.name is not None else f"{path}.function", "tools", dropped, cache=cache)
    if head.type == "custom":
        if given(head.custom):
            return _read_custom(head.custom, f"{path}.custom", dropped, cache=cache)
        return _read_custom(raw, path, dropped, cache=cache)
    return ServerTool("openai", head.type, head.name or head.type, bytes(raw))


def _read_function(raw: msgspec.Raw, path: str, place: str, dropped: Dropped, *, cache: CacheMark = False,
         eager: bool | None = None) -> Tool:
    function, unknown = _function.read(raw, path)
    note_unknown(dropped, place, unknown)
    if not function.name:
        raise refused(f"{path}.name", "expected the name of the tool, got an empty string")
    schema = function.parameters if given(function.parameters) else function.input_schema
    eager = function.eager_input_streaming if eager is None else eager
    if eager is not None:
        dropped.hint("tools.eager_input_streaming")  # most providers do not know it
    return Tool(function.name, function.description, _schema(schema, function.name, dropped), strict=function.strict,
                cache=longest_mark(cache, read_mark(function.cache_control)), eager=eager)


_tool_cache = ToolDefinitionCache(_read_tool)
_function_cache = ToolDefinitionCache(lambda raw, path, dropped: _read_function(raw, path, "tools", dropped))


def _read_custom(raw: msgspec.Raw, path: str, dropped: Dropped, *, cache: CacheMark) -> Tool:
    custom, unknown = _custom.read(raw, path)
    note_unknown(dropped, "tools.custom", unknown)
    if not custom.name:
        raise refused(f"{path}.name", "expected the name of the tool, got an empty string")
    schema: dict[str, object] = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"],
                                 "additionalProperties": False}
    return Tool(custom.name, custom.description, schema, custom=True,
                format=msgspec.Raw(bytes(custom.format)) if given(custom.format) else None,
                cache=longest_mark(cache, read_mark(custom.cache_control)))


def _schema(raw: msgspec.Raw, tool: str, dropped: Dropped) -> dict[str, object]:
    """A tool without parameters has no schema or null and gets an object schema without fields. A value that is no
    schema at all is replaced in the same way and named."""
    schema = _decode(raw) if given(raw) else None
    if isinstance(schema, dict) and schema:
        return schema
    if schema not in (None, True, "", [], {}):
        dropped.loss(schema_place(tool))
    return {"type": "object", "properties": {}}


# -------------------------------------------------------------------------------------------------------------- choice


def decode_choice(raw: msgspec.Raw, function_call: msgspec.Raw, dropped: Dropped) -> ToolChoice | None:
    """Reads all forms of `tool_choice`, else the legacy `function_call`."""
    if given(raw):
        return _choice_of_word(_string.decode(raw), "tool_choice") if is_string(raw) else _choice_of_object(raw,
                                                                                                            dropped)
    if not given(function_call):
        return None
    if is_string(function_call):
        return _choice_of_word(_string.decode(function_call), "function_call")
    named, _ = _named.read(function_call, "function_call")
    return ToolChoice("tool", named.name)


def _choice_of_word(word: str, path: str) -> ToolChoice:
    mode = _MODES.get(word)
    if mode is None:
        raise refused(path, f"unknown value {word!r}: expected none, auto, required or an object that names a tool")
    return ToolChoice(mode)  # type: ignore[arg-type]


def _choice_of_object(raw: msgspec.Raw, dropped: Dropped) -> ToolChoice:
    choice, unknown = _choice.read(raw, "tool_choice")
    note_unknown(dropped, "tool_choice", unknown)
    if choice.type == "allowed_tools":
        return _allowed_choice(choice, dropped)
    if choice.type in _MODES:
        return _choice_of_word(str(choice.type), "tool_choice.type")
    if choice.type not in ("function", "custom", "tool", None):
        raise refused("tool_choice.type",
                      f"unknown type {choice.type!r}: expected function, custom or allowed_tools")
    member = "custom" if choice.type == "custom" or given(choice.custom) else "function"
    name = choice.name or _name_in(getattr(choice, member), f"tool_choice.{member}")
    if not name:
        raise refused(f"tool_choice.{member}.name", "this field is required")
    return ToolChoice("tool", name)


def _name_in(raw: msgspec.Raw, path: str) -> str:
    return _named.read(raw, path)[0].name if given(raw) else ""


def _allowed_choice(choice: ClientToolChoice, dropped: Dropped) -> ToolChoice:
    if given(choice.allowed_tools):
        allowed, unknown = _allowed.read(choice.allowed_tools, "tool_choice.allowed_tools")
        note_unknown(dropped, "tool_choice.allowed_tools", unknown)
        mode, tools, path = allowed.mode, allowed.tools, "tool_choice.allowed_tools"
    else:
        mode, tools, path = choice.mode or "auto", choice.tools or [], "tool_choice"
    if mode not in ("auto", "required"):
        raise refused(f"{path}.mode", f"unknown mode {mode!r}: expected auto or required")
    names = tuple(_allowed_name(raw, f"{path}.tools[{at}]") for at, raw in enumerate(tools))
    if not names:
        raise refused(f"{path}.tools", "expected at least one tool")
    return ToolChoice(mode, allowed=names)  # type: ignore[arg-type]


def _allowed_name(raw: msgspec.Raw, path: str) -> str:
    head, _ = _head.read(raw, path)
    name = head.name or _name_in(head.function, f"{path}.function") or _name_in(head.custom, f"{path}.custom")
    if not name:
        raise refused(f"{path}.function.name", "this field is required")
    return name
