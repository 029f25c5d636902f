"""Tool calls that Gemini itself could not read: the model's text in `finishMessage` or in the content -> whole calls.

Gemini models sometimes write a call as Python code. The response then ends with MALFORMED_FUNCTION_CALL, no
`functionCall` part, and a message such as `Malformed function call: print(default_api.get_weather(city="Paris"))`.
Such a text is accepted only if it is unambiguous: nothing but whole calls of offered tools, in which every argument has
a name and is a literal. Nothing is completed, repaired or evaluated. Called by the response decoder; any other text
stays a failure, so that another attempt may take over.

Sources: googleapis/python-genai 1836, langchain-ai/langchain-google 725 (the message with `print(default_api...)`);
google/adk-go 492, firebase/genkit 2628 (the `tool_code` fence).
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping

from extproc.dialects.json.lenient import decode_json
from extproc.dialects.json.literals import literal_of

CodeCall = tuple[str, str]
"""The provider's name of a tool, and its arguments as JSON text."""

_MAX_LENGTH = 64 * 1024
"""Characters of a text that is given to Python's parser."""
_LABEL = re.compile(r"\s*(?:malformed function|unexpected (?:tool|function)|invalid (?:tool|function)) call:\s*",
                    re.IGNORECASE)
_FENCE = re.compile(r"```(?:tool_code|tool_call|python|py)?[ \t]*\r?\n(.*?)\n?[ \t]*```\s*", re.DOTALL)
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_CALL_MARK = re.compile(r"call:(?:\w+:)?([\w.-]+)\s*(\{.*\})\s*", re.DOTALL)
"""`call:default_api:NAME{...}`, the form of later models. The braces must hold JSON."""
_NAMESPACES = ("default_api.", "functions.")


def parse_calls(text: object, to_client: Mapping[str, str], to_provider: Mapping[str, str]) -> list[CodeCall]:
    """The calls in a message or content; empty if it is ambiguous. `to_client` and `to_provider`: the names of the
    offered tools."""
    if not isinstance(text, str) or len(text) > _MAX_LENGTH:
        return []
    code = text[found.end():] if (found := _LABEL.match(text)) else text
    code = code.strip()
    fenced = _FENCE.fullmatch(code)
    if fenced is not None:
        code = fenced.group(1).strip()
    marked = _CALL_MARK.fullmatch(code)
    try:
        pairs = [(marked.group(1), _json_object(marked.group(2)))] if marked is not None else _parse_python(code)
    except (ValueError, RecursionError, MemoryError):
        return []
    calls = []
    for written, arguments in pairs:
        name = _offered_name(written, to_client, to_provider)
        if name is None:
            return []
        calls.append((name, json.dumps(arguments, ensure_ascii=False)))
    return calls


def _offered_name(written: str, to_client: Mapping[str, str], to_provider: Mapping[str, str]) -> str | None:
    plain = next((written.removeprefix(space) for space in _NAMESPACES if written.startswith(space)), written)
    return next((name for given in (written, plain)
                 for name in ((given,) if given in to_client else (to_provider.get(given),)) if name is not None), None)


def _json_object(text: str) -> dict[str, object]:
    value = decode_json(text)
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


# ------------------------------------------------------------------------------------------------------------- Python


def _parse_python(code: str) -> list[tuple[str, dict[str, object]]]:
    """The calls in Python code. Raises ValueError if there is anything else in it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(code)
        except SyntaxError:  # raw line ends in strings, which Python refuses
            try:
                tree = ast.parse(_STRING.sub(lambda quoted: quoted.group().replace("\n", "\\n"), code))
            except SyntaxError as problem:
                raise ValueError(str(problem)) from None
    calls = [call for statement in tree.body for call in _calls_in(statement)]
    if not calls:
        raise ValueError("no call")
    return [(_dotted_name(call.func), _arguments(call)) for call in calls]


def _calls_in(node: ast.AST) -> list[ast.Call]:
    """The calls in a statement: a single one, a list, or printed ones."""
    match node:
        case ast.Expr(value=inner):
            return _calls_in(inner)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [call for item in items for call in _calls_in(item)]
        case ast.Call(func=ast.Name(id="print"), args=items, keywords=[]):
            return [call for item in items for call in _calls_in(item)]
        case ast.Call():
            return [node]
    raise ValueError("no call")


def _dotted_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=inner, attr=name):
            return f"{_dotted_name(inner)}.{name}"
    raise ValueError("no name")


def _arguments(call: ast.Call) -> dict[str, object]:
    """The arguments by name. A positional argument could mean any parameter."""
    found: dict[str, object] = {}
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in found:
            raise ValueError("no single value")
        found[keyword.arg] = literal_of(keyword.value)
    if call.args:
        raise ValueError("an argument without a name")
    return found
