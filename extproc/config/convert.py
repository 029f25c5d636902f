"""A plain tree -> typed records, with every error at its path.

msgspec stops at the first error, so this module walks the tree by msgspec's description of the record types. A part
that does not convert becomes None, and the walk continues. After a problem the caller may check the other parts of the
result, and must then discard it.
"""

from __future__ import annotations

import difflib
import math
from typing import Any

import msgspec
from msgspec import inspect

from extproc.config.source import FromEnvironment
from extproc.config.values import Problems, join

_BOOLEANS = {"true": True, "false": False}


def convert(tree: Any, record: type[msgspec.Struct], problems: Problems) -> Any:
    """The record of this type that the tree describes. Appends to `problems`."""
    return _convert(tree, inspect.type_info(record), "", problems)


def _convert(value: Any, kind: inspect.Type, path: str, problems: Problems) -> Any:
    if isinstance(kind, inspect.StructType):
        return _struct(value, kind, path, problems)
    if isinstance(kind, inspect.ListType) and isinstance(value, list):
        return [_convert(item, kind.item_type, join(path, index), problems) for index, item in enumerate(value)]
    if isinstance(kind, inspect.DictType) and isinstance(value, dict):
        return _dict(value, kind, path, problems)
    if isinstance(kind, inspect.UnionType):
        return _union(value, kind, path, problems)
    if isinstance(kind, inspect.AnyType):
        return _json_value(value, path, problems)
    fits, converted = _scalar(value, kind)
    if not fits:
        problems.append((path, f"expected {_describe(kind)}, got {_show(value)}"))
    return converted


def is_set_by_loader(field: inspect.Field) -> bool:
    """True for a field of a record that is no key of the file (`configuration.SET_BY_LOADER`)."""
    return isinstance(field.type, inspect.Metadata) and bool((field.type.extra or {}).get("set_by_loader"))


def _struct(value: Any, kind: inspect.StructType, path: str, problems: Problems) -> Any:
    if not isinstance(value, dict):
        problems.append((path, f"expected a mapping, got {_show(value)}"))
        return None
    fields = {field.encode_name: field for field in kind.fields if not is_set_by_loader(field)}
    for key in value:
        if key not in fields:
            problems.append((join(path, str(key)), _unknown_key(str(key), list(fields))))
    arguments: dict[str, Any] = {}
    for name, field in fields.items():
        place = join(path, name)
        if name in value:
            before = len(problems)
            converted = _convert(value[name], field.type, place, problems)
            # A wrong optional key gets its default, so that later checks do not report it again.
            if len(problems) == before or converted is not None or field.required:
                arguments[name] = converted
        elif field.required:
            problems.append((place, "is missing"))
            arguments[name] = None
    return kind.cls(**arguments)


def _dict(value: dict[Any, Any], kind: inspect.DictType, path: str, problems: Problems) -> dict[str, Any]:
    converted = {}
    for key, item in value.items():
        if not isinstance(key, str):
            problems.append((join(path, str(key)), "the name must be text: put it in quotes"))
        converted[str(key)] = _convert(item, kind.value_type, join(path, str(key)), problems)
    return converted


def _json_value(value: Any, path: str, problems: Problems) -> Any:
    """The value for a JSON document; a variable of the environment is a text."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list):
        return [_json_value(item, join(path, index), problems) for index, item in enumerate(value)]
    if isinstance(value, dict):
        return {str(key): _json_value(item, join(path, str(key)), problems) for key, item in value.items()}
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    problems.append((path, f"expected a value that JSON has, got {_show(value)}"))
    return None


def _union(value: Any, kind: inspect.UnionType, path: str, problems: Problems) -> Any:
    if value is None and any(isinstance(choice, inspect.NoneType) for choice in kind.types):
        return None
    choices = [choice for choice in kind.types if not isinstance(choice, inspect.NoneType)]
    for choice in choices:
        container = (inspect.StructType, inspect.ListType, inspect.DictType)
        if isinstance(choice, container) and (len(choices) == 1 or isinstance(value, list | dict)):
            return _convert(value, choice, path, problems)
        fits, converted = _scalar(value, choice)
        if fits:
            return converted
    problems.append((path, f"expected {' or '.join(_describe(choice) for choice in choices)}, got {_show(value)}"))
    return None


def _scalar(value: Any, kind: inspect.Type) -> tuple[bool, Any]:
    """(True if the value is of this kind, the converted value)."""
    if isinstance(kind, inspect.StrType):
        return (True, str(value)) if isinstance(value, str) else (False, None)
    if isinstance(kind, inspect.LiteralType):
        if isinstance(value, bool) or value not in kind.values:
            return False, None
        return True, str(value) if isinstance(value, str) else value
    if isinstance(value, FromEnvironment):
        value = _from_environment(value, kind)
    if isinstance(kind, inspect.BoolType):
        return (True, value) if isinstance(value, bool) else (False, None)
    if isinstance(value, bool):
        return False, None
    if isinstance(kind, inspect.IntType):
        return (True, value) if isinstance(value, int) else (False, None)
    if isinstance(kind, inspect.FloatType):
        return (True, float(value)) if isinstance(value, int | float) else (False, None)
    return False, None


def _from_environment(text: str, kind: inspect.Type) -> Any:
    """A variable is always text. For a number or a boolean the text is parsed as one."""
    try:
        if isinstance(kind, inspect.BoolType):
            return _BOOLEANS.get(text.lower(), text)
        if isinstance(kind, inspect.IntType):
            return int(text)
        if isinstance(kind, inspect.FloatType):
            return float(text)
    except ValueError:
        pass
    return text


def _unknown_key(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key.lower(), known, n=1, cutoff=0.6)
    return f'unknown key, did you mean "{near[0]}"?' if near else f"unknown key; known: {', '.join(sorted(known))}"


def _describe(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.LiteralType):
        return " or ".join(f'"{value}"' for value in kind.values)
    if isinstance(kind, inspect.ListType):
        return f"a list of {_describe(kind.item_type).removeprefix('a ')}s"
    names: dict[type[inspect.Type], str] = {
        inspect.StrType: "a text", inspect.IntType: "a whole number", inspect.FloatType: "a number",
        inspect.BoolType: "true or false", inspect.StructType: "a mapping", inspect.DictType: "a mapping",
    }
    return names.get(type(kind), "another type")


def _show(value: Any) -> str:
    """The value for an error message; of a text, which may be a secret, at most the beginning."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "a text from the environment" if isinstance(value, FromEnvironment) else f'"{value[:40]}"'
    if isinstance(value, int | float):
        return f"the number {value}"
    return "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else type(value).__name__
