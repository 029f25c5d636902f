"""MiniMax M3: every tag follows the mark `]<]minimax[>[`; parameters are nested elements.

```
]<]minimax[>[<tool_call>
]<]minimax[>[<invoke name="N">]<]minimax[>[<key>text]<]minimax[>[</key>]<]minimax[>[</invoke>
]<]minimax[>[</tool_call>
```
Lists are `<item>` elements or repetitions of a name. The schema says whether an empty element is an empty list, object
or string. Nothing of a call is certain before it closes, so its arguments are sent at once.
"""

from __future__ import annotations

import msgspec

from extproc.dialects.buffer import Marks, Steps, TextBuffer, TooMuch
from extproc.dialects.call_writer import MAX_VALUE, CallWriter
from extproc.dialects.dialect import Dialect
from extproc.dialects.parse_context import NoMatch, ParseContext
from extproc.dialects.tags.headers import MAX_NAME, read_attribute

PREFIX = "]<]minimax[>["
_INVOKE = PREFIX + "<invoke name="
_REGION_END = PREFIX + "</tool_call>"
_MARKS = Marks([PREFIX])
_MAX_DEPTH = 64


class _Element(msgspec.Struct):
    name: str
    text: list[str] = []
    children: list[_Element] = []


class NestedElements:
    """Reads one or more invokes."""

    openers: tuple[str, ...] = (PREFIX + "<tool_call>", "<tool_call>", _INVOKE)
    blocks = ((PREFIX + "<tool_call>", _REGION_END),)

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        if opener != _INVOKE:
            yield from buffer.space()
            if not (yield from buffer.literal(_INVOKE)):
                raise NoMatch
        while True:
            name, raw = yield from read_attribute(buffer)
            if name is None or io.find_tool(name) is None:
                if buffer.marked:
                    raise NoMatch
                buffer.push_back(_INVOKE + raw)
                return
            writer = io.begin_call(name)
            root = _Element(name)
            whole = yield from _read_elements(buffer, root)
            if whole or (whole is False and buffer.finished):
                _write(writer, io, root)
                if whole:
                    writer.close()
            else:
                writer.break_off()
            yield from buffer.space()
            if (yield from buffer.literal(_REGION_END, _INVOKE)) != _INVOKE:
                return


def _read_elements(buffer: TextBuffer, root: _Element) -> Steps[bool | None]:
    """Reads everything up to the end of the invoke: True. False if the text ended after whole elements, None if it
    ended inside one or where one may have begun."""
    stack = [root]
    size = 0
    while True:
        pieces: list[str] = []
        found = yield from buffer.until(_MARKS, pieces.append)
        text = "".join(pieces)
        size += len(text) + len(PREFIX)
        if size > MAX_VALUE:
            raise TooMuch
        stack[-1].text.append(text)
        if not found:
            nothing = len(stack) == 1 and not "".join(root.text).strip() and not buffer.partial_mark(_MARKS)
            return False if nothing else None
        begin = yield from buffer.literal("</", "<")
        name = yield from buffer.take_while(lambda char: char not in "<>\r\n", MAX_NAME)
        end = yield from buffer.literal(">")
        if begin == "</" and name in ("invoke", "tool_call"):
            if name == "tool_call":
                buffer.push_back(PREFIX + begin + name + end)
            return True
        if begin == "<" and (name == "tool_call" or name.startswith("invoke name=")):
            buffer.push_back(PREFIX + begin + name + end)
            return True
        if begin == "<" and end and name and len(stack) < _MAX_DEPTH:
            stack[-1].children.append(element := _Element(name.strip()))
            stack.append(element)
        elif begin == "</" and end:
            _close(stack, name.strip())
        elif begin == "</" and buffer.ran_out:
            return False if len(stack) == 1 else None
        else:
            stack[-1].text.append(begin + name + end)


def _close(stack: list[_Element], name: str) -> None:
    """Closes the innermost element of this name and all that are open inside it. Ignores stray closing tags."""
    for index in range(len(stack) - 1, 0, -1):
        if stack[index].name == name:
            del stack[index:]
            return


def _write(writer: CallWriter, io: ParseContext, root: _Element) -> None:
    schema = io.tools[writer.name].schema
    for key, elements in _grouped(root.children).items():
        child = _part(schema, "properties", key)
        text = "".join(elements[0].text)
        if len(elements) == 1 and not elements[0].children and text.strip():
            writer.write_text(key, text)
        else:
            writer.write_value(key, _group_value(elements, child))


def _grouped(elements: list[_Element]) -> dict[str, list[_Element]]:
    out: dict[str, list[_Element]] = {}
    for element in elements:
        out.setdefault(element.name, []).append(element)
    return out


def _group_value(elements: list[_Element], schema: object) -> object:
    """The value of all elements of one name. Several elements are a list."""
    if len(elements) > 1:
        items = _part(schema, "items")
        return [_element_value(element, items) for element in elements]
    return _element_value(elements[0], schema)


def _element_value(element: _Element, schema: object) -> object:
    if element.children:
        groups = _grouped(element.children)
        if set(groups) == {"item"} and not _part(schema, "properties", "item"):
            return [_element_value(child, _part(schema, "items")) for child in element.children]
        return {key: _group_value(found, _part(schema, "properties", key)) for key, found in groups.items()}
    text = "".join(element.text)
    if not text.strip():
        declared = _part(schema, "type")
        if declared in ("array", "object"):
            return [] if declared == "array" else {}
    return text


def _part(schema: object, *path: str) -> object:
    for key in path:
        schema = schema.get(key) if isinstance(schema, dict) else None
    return schema


DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="minimax-m3", forms=(NestedElements(),), template_tokens=(PREFIX,), turn_ends=("[e~[",),
            think=(("<mm:think>", "</mm:think>"), ("<think>", "</think>"))),
)
