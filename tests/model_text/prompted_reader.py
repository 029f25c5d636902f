"""A strict parser of the prompted form (`extproc.dialects.writing.prompted`), for undamaged text.

It proves that the written text can be read back exactly. Responses of models are read by the dialects.
"""

from __future__ import annotations

import html
import json
import re
from typing import Any

from extproc.dialects.coercion import coerce_text
from extproc.dialects.shapes import parameter, tool_shape

_OPEN = re.compile(r'<(tool_call|tool_result) name="([^"]*)"((?: [a-z_]+="[^"]*")*)>')
_PARAMETER = re.compile(r'\s*<parameter name="([^"]*)"((?: [a-z_]+="[^"]*")*)(/?)>')
_ATTRIBUTE = re.compile(r' ([a-z_]+)="([^"]*)"')


def parse_prompted_calls(text: str, schemas: dict[str, dict[str, Any]]) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    """The visible text (calls cut out), and each call as (name, arguments)."""
    calls: list[tuple[str, dict[str, Any]]] = []
    shown, at = "", 0
    while found := _OPEN.search(text, at):
        shown += text[at:found.start()]
        name = unescaped(found[2])
        arguments, at = _arguments(text, found.end(), schemas.get(name, {}))
        calls.append((name, arguments))
    return shown + text[at:], calls


def parse_prompted_results(text: str) -> list[tuple[str, str, bool, str]]:
    """(name, id, is_error, text) of each result."""
    out, at = [], 0
    while found := _OPEN.search(text, at):
        marks = dict(_ATTRIBUTE.findall(found[3]))
        value, at = _value(text, found.end(), "</tool_result>")
        out.append((unescaped(found[2]), marks["id"], marks.get("is_error") == "true", value))
    return out


def unescaped(text: str) -> str:
    return re.sub(r"&(amp|lt|gt|quot|#\d+);",
                  lambda found: chr(int(found[1][1:])) if found[1][0] == "#" else html.unescape(found[0]), text)


def _arguments(text: str, at: int, schema: dict[str, Any]) -> tuple[dict[str, Any], int]:
    shape = tool_shape(schema)
    out: dict[str, Any] = {}
    while found := _PARAMETER.match(text, at):
        key, kind = unescaped(found[1]), dict(_ATTRIBUTE.findall(found[2])).get("type")
        value, at = ("", found.end()) if found[3] else _value(text, found.end(), "</parameter>")
        out[key] = (value if kind == "string" else json.loads(value) if kind == "json"
                    else coerce_text(value, parameter(shape, key)))
    end = re.compile(r"\s*</tool_call>").match(text, at)
    assert end, f"no end of the call at {text[at:at + 60]!r}"
    return out, end.end()


def _value(text: str, at: int, closer: str) -> tuple[str, int]:
    begin = len(text) - len(text[at:].lstrip())
    if not text.startswith("<![CDATA[", begin):
        end = text.index(closer, at)
        return text[at:end].removeprefix("\n").removesuffix("\n"), end + len(closer)
    parts = []
    while text.startswith("<![CDATA[", begin):
        end = text.index("]]>", begin)
        parts.append(text[begin + 9:end])
        begin = len(text) - len(text[end + 3:].lstrip())
    assert text.startswith(closer, begin)
    return "".join(parts), begin + len(closer)
