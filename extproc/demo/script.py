"""A checked request -> the demo's output: a text, or a call of one of the offered tools.

There is no model here. The script calls a tool if the user's words fit its name or description, with arguments from the
tool's schema and the user's words. After tool results it quotes them. The same request always gets the same output.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

_REMINDER = re.compile(r"<(system-reminder|environment_context)>.*?</\1>", re.DOTALL)  # notes of clients to the model
_GREETING = re.compile(r"\W*(hi|hey|hello|good (morning|evening|day)|thanks?|thank you|how are you)\b", re.I)
_LISTING = re.compile(r"\b(list|show|what|which|see)\b.*\b(files?|director(y|ies)|folders?)\b|\bls\b", re.I | re.DOTALL)
_WORD = re.compile(r"[^\W\d_]+")
_FILE = re.compile(r"[\w./~-]*\w\.\w{1,8}\b")
_QUOTED = re.compile(r"[`\"“']([^`\"”']+)[`\"”']")
_PLACE = re.compile(r"\b(?:in|at|of|for|near)\s+([A-Z][\w-]*(?:\s[A-Z][\w-]*)*)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_URL = re.compile(r"https?://[^\s<>\"')]+")
_COMMON = frozenset("""the and for you are with this that what which have has can could would will please from into
    your our not but all any use used using how who when where why does did get got let make give tell some about
    here there then than them they its it's one two new now just only also very more most over under tool tools call
    """.split())  # noqa: SIM905 - readable as a table of words
_COMMANDS = frozenset({"command", "cmd"})
"""Names of parameters for a shell command."""
_MAX_DEPTH = 6
"""Nesting of arguments; a recursive schema ends there."""
_QUOTE_LENGTH = 600
"""Characters of a tool result that are quoted."""


class ScriptOutput(NamedTuple):
    """Either a text or a tool call: `tool` is its name, `arguments` JSON text."""

    text: str = ""
    tool: str | None = None
    arguments: str = ""


def run_script(request: dict[str, Any]) -> ScriptOutput:
    """The output for this request."""
    messages = request["messages"]
    results = _new_results(messages)
    said = _last_user_text(messages)
    if results:
        return ScriptOutput(_quote_results(results))
    tool = _choose_tool(request, said)
    if tool is not None:
        schema = tool.get("parameters") or {}
        arguments = json.dumps(_ArgumentMaker(said, schema).make(), ensure_ascii=False)
        return ScriptOutput(tool=tool["name"], arguments=arguments)
    output = (request.get("response_format") or {}).get("type")
    if output == "json_schema":
        schema = request["response_format"].get("json_schema", {}).get("schema") or {}
        return ScriptOutput(json.dumps(_ArgumentMaker(said, schema).make(), ensure_ascii=False))
    if output == "json_object":
        return ScriptOutput(json.dumps({"answer": _shorten(said)}, ensure_ascii=False))
    return ScriptOutput(_introduction(said, bool(request.get("tools"))))


# ------------------------------------------------------------------------------------------------------------- texts


def _introduction(said: str, tools_offered: bool) -> str:
    hint = ("Ask for something that one of your tools can do, and I will call it." if tools_offered
            else "Offer me a tool and ask for something that it can do, and I will call it.")
    words = f' You said: "{_shorten(said)}".' if said else ""
    return f"Hello from the demo of extproc: a small script, no language model.{words} {hint}"


def _quote_results(results: list[str]) -> str:
    quoted = [_shorten(result, _QUOTE_LENGTH) or "(nothing)" for result in results]
    if len(quoted) == 1:
        said = f"The tool answered:\n\n{quoted[0]}"
    else:
        lines = "\n".join(f"{number}. {result}" for number, result in enumerate(quoted, 1))
        said = f"The tools answered:\n\n{lines}"
    return f"{said}\n\nThat is all the demo can say to it."


def _shorten(text: str, most: int = 200) -> str:
    text = text.strip()
    return text if len(text) <= most else text[:most].rstrip() + " ..."


def text_of(content: Any) -> str:
    """The text of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or () if part["type"] == "text")


def _new_results(messages: list[dict[str, Any]]) -> list[str]:
    """The tool results after the last message of the assistant."""
    results = []
    for message in reversed(messages):
        if message["role"] == "assistant":
            break
        if message["role"] == "tool":
            results.append(text_of(message.get("content")))
    return results[::-1]


def _last_user_text(messages: list[dict[str, Any]]) -> str:
    for message in reversed(messages):
        if message["role"] == "user":
            text = _REMINDER.sub("", text_of(message.get("content"))).strip()
            if text:
                return text
    return ""


# ------------------------------------------------------------------------------------------------------ which tool


def _choose_tool(request: dict[str, Any], said: str) -> dict[str, Any] | None:
    """The function to call; None for a text."""
    tools: list[dict[str, Any]] = [tool["function"] for tool in request.get("tools") or ()]
    choice = request.get("tool_choice") or "auto"
    if not tools or choice == "none":
        return None
    if isinstance(choice, dict):
        wanted = (choice.get("function") or {}).get("name")
        return next((tool for tool in tools if tool["name"] == wanted), tools[0])
    best = max(tools, key=lambda tool: _fit_score(tool, said))  # the first of several
    if choice == "required":
        return best if _fit_score(best, said) else _simplest_tool(tools)
    if _GREETING.match(said) and len(said) < 80:
        return None
    if _fit_score(best, said):
        return best
    return _simplest_tool(tools) if re.search(r"\btools?\b", said, re.I) else None


def _simplest_tool(tools: list[dict[str, Any]]) -> dict[str, Any]:
    return min(tools, key=lambda tool: len((tool.get("parameters") or {}).get("required") or ()))


def _fit_score(tool: dict[str, Any], said: str) -> int:
    """How well a tool fits the user's words; 0 for not at all."""
    properties = (tool.get("parameters") or {}).get("properties") or {}
    if properties.keys() & _COMMANDS and _LISTING.search(said):
        return 100
    if tool["name"] in said:
        return 50
    words = _words(said)
    name = _words(re.sub(r"(?<=[a-z])(?=[A-Z])|_|-", " ", tool["name"]))
    # Only the first sentence: it says what a tool does, while a long description mentions almost any word.
    about = _words(re.split(r"[.\n]", tool.get("description") or "", maxsplit=1)[0][:200])
    return 10 * len(words & name) + len(words & about)


def _words(text: str) -> set[str]:
    """The words without common ones, in lower case, without a plural's s."""
    found = {word.lower() for word in _WORD.findall(text[:2000])}
    return {word.removesuffix("s") for word in found if len(word) > 2 and word not in _COMMON}


# --------------------------------------------------------------------------------------------------------- arguments


class _ArgumentMaker:
    """Values that fit a schema, taken from the user's words where possible."""

    def __init__(self, said: str, schema: dict[str, Any]) -> None:
        self._said = said
        self._root = schema
        self._numbers = iter(_NUMBER.findall(said))

    def make(self) -> Any:
        """The value for the whole schema."""
        return self._object(self._root, 0)

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        return {name: self._value(name, properties.get(name) or {}, depth + 1) for name in schema.get("required") or ()}

    def _value(self, name: str, schema: Any, depth: int) -> Any:
        schema = self._resolve(schema)
        if depth > _MAX_DEPTH:
            return None
        for fixed in ("const", "default"):
            if fixed in schema:
                return schema[fixed]
        if schema.get("enum"):
            return next((one for one in schema["enum"] if str(one).lower() in self._said.lower()), schema["enum"][0])
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next((one for one in kind if one != "null"), "null")
        if kind == "object" or "properties" in schema:
            return self._object(schema, depth)
        if kind == "array":
            return [self._value(name, schema.get("items") or {}, depth + 1) for _ in range(schema.get("minItems") or 1)]
        if kind in ("integer", "number"):
            return self._number(schema, kind)
        if kind == "boolean":
            return False
        return None if kind == "null" else self._string(name.lower(), schema)

    def _resolve(self, schema: Any) -> dict[str, Any]:
        """Follows local references, and takes the first alternative that is not null."""
        for _ in range(_MAX_DEPTH):
            if not isinstance(schema, dict):
                return {}
            if isinstance(schema.get("$ref"), str):
                target: Any = self._root
                for step in schema["$ref"].removeprefix("#").strip("/").split("/"):
                    target = target.get(step) if isinstance(target, dict) else None
                schema = target
            elif choices := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
                schema = next((one for one in choices if isinstance(one, dict) and one.get("type") != "null"), {})
            else:
                return schema
        return {}

    def _number(self, schema: dict[str, Any], kind: str) -> float | int:
        number = float(next(self._numbers, schema.get("minimum", 1)))
        number = max(number, schema.get("minimum", number))
        number = min(number, schema.get("maximum", number))
        return int(number) if kind == "integer" or number.is_integer() else number

    def _string(self, name: str, schema: dict[str, Any]) -> str:
        text = self._text_for(name)
        if schema.get("format") in ("uri", "url"):
            text = self._find_match(_URL) or "https://example.com"
        text = text[:schema.get("maxLength", 2000)]
        return text.ljust(schema.get("minLength", 0), "x")

    def _text_for(self, name: str) -> str:
        if name in _COMMANDS:
            return self._find_quoted() or ("ls" if _LISTING.search(self._said) else "pwd")
        if "url" in name or "uri" in name:
            return self._find_match(_URL) or "https://example.com"
        if "file" in name or "path" in name or name in ("dir", "directory", "folder"):
            return self._find_match(_FILE) or "."
        if name in ("location", "city", "place", "town", "country", "region", "address"):
            return self._find_group(_PLACE) or self._find_quoted() or "Paris"
        return self._find_quoted() or self._said[:200] or "demo"

    def _find_quoted(self) -> str | None:
        return self._find_group(_QUOTED)

    def _find_group(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.search(self._said)
        return found.group(1) if found else None

    def _find_match(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.search(self._said)
        return found.group(0) if found else None
