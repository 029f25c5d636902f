"""A value and a JSON Schema -> what is wrong with the value, in words a client can act on. For `arguments: strict`.

Wraps the jsonschema library. Neither the model's values nor the client's schemas are trusted: nothing is fetched,
`format` is not checked, patterns that can take exponential time are skipped, and references are followed a bounded
number of times. A schema that cannot be evaluated reports no problems.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from extproc.bounds import bounded_cache
from extproc.schemas.openai import OpenAISchema
from extproc.schemas.portable_regex import LONGEST_COMPILED, compiles
from extproc.schemas.references import SchemaReferences
from extproc.schemas.visitor import Schema, writable

MAX_PROBLEMS = 5
"""Most problems that are reported."""
_MAX_LOOKED_AT = 5000
_MAX_REFERENCES = 10_000
_MAX_NESTED_REFERENCES = 64
"""Most nested references. More could reach Python's recursion limit; inside the Rust code of the library that is a
panic, which `except Exception` does not catch."""
_MAX_PATTERN_STEPS = 2**25
_MAX_UNIQUE = 1000
_MAX_REASON = 200
_MAX_CACHED_SCHEMA = 16 * 1024
"""Longest schema, in bytes of JSON, whose validator is cached. The validator takes 13 times as much memory."""

_references: ContextVar[_ReferenceBudget] = ContextVar("references")
_REPEATED_GROUP = re.compile(r"\)[*+{]|\\[1-9]|\(\?P=")
_CHOICE = re.compile(r"(?<!\\)(?:(?<!\()[?]|[*+|{])")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class _ReferenceBudget(msgspec.Struct):
    """The references that one validation may still follow."""

    left: int = _MAX_REFERENCES
    depth: int = 0


class _TooMuch(Exception):  # noqa: N818
    """The schema refers to itself endlessly, or fans out."""


def problems(schema: Schema, value: object) -> list[str]:
    """At most `MAX_PROBLEMS` lines `path: reason`, the most important first; empty if the value is valid. Paths look
    like `limits.min` and `tags[0]`; `$` is the value itself."""
    try:
        validator = _validator(msgspec.json.encode(schema))
    except Exception:
        # an invalid schema demands nothing
        return []
    found: list[ValidationError] = []
    token = _references.set(_ReferenceBudget())
    try:
        found.extend(itertools.islice(validator.iter_errors(value), _MAX_LOOKED_AT))
    except Exception:
        # the library raises all kinds of errors for unusable schemas, which says nothing about the value
        pass
    finally:
        _references.reset(token)
    found.sort(key=_rank)
    return list(dict.fromkeys(itertools.islice((line for error in found for line in _lines(error)), MAX_PROBLEMS)))


def _rank(error: ValidationError) -> tuple[int, int]:
    """Outer problems first, since they explain inner ones; then missing or unknown names and wrong types."""
    return len(error.absolute_path), 0 if error.validator in ("required", "type", "additionalProperties") else 1


@bounded_cache(entries=128, longest=_MAX_CACHED_SCHEMA)
def _validator(encoded: bytes) -> Any:
    schema = msgspec.json.decode(encoded)
    # Below `unevaluatedProperties` the library tries every pattern without asking whether it is cheap.
    checked = _Validator if b'"patternProperties"' not in encoded else _WithoutUnevaluated
    # an empty registry: the default one fetches remote references
    return checked(_LocalSchema(schema).visit(schema), registry=Registry())


class _LocalSchema(OpenAISchema):
    """Old and malformed keywords in current form, without unusable references."""

    def __init__(self, root: Schema) -> None:
        super().__init__(SchemaReferences(root))

    def portable_pattern(self, pattern: str) -> str | None:
        return pattern if len(pattern) > LONGEST_COMPILED or compiles(pattern) else None  # a longer one is not checked

    def rewrite(self, out: Schema, node: Schema) -> Schema:
        out = super().rewrite(out, node)
        for key in ("$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor", "$vocabulary"):
            if key in out:
                out = writable(out, node)
                del out[key]
        return out


# ------------------------------------------------------------------------------------------- keywords, made bounded


def _pattern(validator: Any, pattern: object, instance: object, schema: Schema) -> Iterator[ValidationError]:
    if isinstance(instance, str) and isinstance(pattern, str) and _cheap(pattern, len(instance)) \
            and re.search(pattern, instance) is None:
        yield ValidationError(f"does not match the pattern {pattern}")


def _cheap(pattern: str, length: int) -> bool:
    """True if matching a text of that length cannot take long, by a conservative estimate."""
    if len(pattern) > LONGEST_COMPILED:
        return False
    choices = _count_choices(pattern)
    return choices is not None and (length + 1) ** (choices + 1) <= _MAX_PATTERN_STEPS


@bounded_cache(entries=1024, longest=200)
def _count_choices(pattern: str) -> int | None:
    """The number of places where a match may backtrack; each multiplies the time by the text's length at worst. None
    for a repeated group or a back-reference, which can take exponential time."""
    if _REPEATED_GROUP.search(pattern) is not None:
        return None
    return len(_CHOICE.findall(pattern))


def _patterns_cheap(patterns: Iterable[str], instance: dict[str, object]) -> bool:
    longest = max(map(len, instance), default=0)
    return all(_cheap(pattern, longest) for pattern in patterns)


def _pattern_properties(validator: Any, patterns: Schema, instance: object,
                        schema: Schema) -> Iterator[ValidationError]:
    if isinstance(instance, dict) and _patterns_cheap(patterns, instance):
        yield from Draft202012Validator.VALIDATORS["patternProperties"](validator, patterns, instance, schema)


def _additional_properties(validator: Any, allowed: object, instance: object,
                           schema: Schema) -> Iterator[ValidationError]:
    patterns = schema.get("patternProperties")
    if isinstance(patterns, dict) and isinstance(instance, dict) and not _patterns_cheap(patterns, instance):
        return
    yield from Draft202012Validator.VALIDATORS["additionalProperties"](validator, allowed, instance, schema)


def _unique_items(validator: Any, unique: object, instance: object, schema: Schema) -> Iterator[ValidationError]:
    if isinstance(instance, list) and len(instance) <= _MAX_UNIQUE:
        yield from Draft202012Validator.VALIDATORS["uniqueItems"](validator, unique, instance, schema)


def _ref(validator: Any, reference: str, instance: object, schema: Schema) -> Iterator[ValidationError]:
    budget = _references.get()
    budget.left -= 1
    if budget.left < 0 or budget.depth >= _MAX_NESTED_REFERENCES:
        raise _TooMuch
    budget.depth += 1
    try:
        yield from Draft202012Validator.VALIDATORS["$ref"](validator, reference, instance, schema)
    finally:  # also where the library stops at the first problem
        budget.depth -= 1


_extend: Any = extend
_Validator: Any = _extend(Draft202012Validator, {
    "pattern": _pattern, "patternProperties": _pattern_properties, "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items, "$ref": _ref,
})
_WithoutUnevaluated: Any = _extend(_Validator, {"unevaluatedProperties": None})


# -------------------------------------------------------------------------------------------------------------- words


def _lines(error: ValidationError) -> Iterator[str]:
    """An error in words of this module: the library's message may contain the whole value, up to megabytes."""
    path = list(error.absolute_path)
    keyword = error.validator
    expected: Any = error.validator_value
    value = error.instance
    if keyword == "required" and isinstance(value, dict):
        # the library reports missing names one by one, and names them only in its message
        for name in expected:
            if name not in value and error.message.startswith(f"{name!r} is"):
                yield f"{_path([*path, name])}: required, but missing"
        return
    if keyword == "additionalProperties" and isinstance(value, dict) and expected is False:
        declared = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
        for name in value:
            if name not in declared:
                yield f"{_path([*path, name])}: not a parameter that the schema allows"
        return
    yield f"{_path(path)}: {_reason(error, keyword, expected, value)}"


def _reason(error: ValidationError, keyword: object, expected: Any, value: object) -> str:
    if keyword == "type":
        wanted = " or ".join(expected) if isinstance(expected, list) else str(expected)
        return f"expected {wanted}, got {_type(value)}"
    if keyword in ("enum", "const"):
        listed = msgspec.json.encode(expected).decode()
        return _short(f"must be {'one of ' if keyword == 'enum' else ''}{listed}")
    if keyword in ("anyOf", "oneOf"):
        kinds = [str(branch.validator_value) for branch in error.context or ()
                 if branch.validator == "type" and not branch.path]
        if kinds and len(kinds) == len(error.context or ()):
            return _short(f"expected {' or '.join(kinds)}, got {_type(value)}")
        return "fits none of the forms that the schema allows" if error.context else "fits several forms at once"
    if keyword == "pattern":
        return _short(error.message)
    if keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
                   "minItems", "maxItems", "minProperties", "maxProperties"):
        return _short(f"does not keep to {keyword} {expected}")
    return _short(f"does not fit {keyword!r}") if keyword else _short(error.message)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_REASON else text[:_MAX_REASON] + "..."


def _type(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = {type(None): "null", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "an unknown type")


def _path(path: list[Any]) -> str:
    out = ""
    for step in path:
        if isinstance(step, int):
            out += f"[{step}]"
        elif _PLAIN_NAME.fullmatch(step):
            out += f".{step}" if out else step
        else:
            out += f"[{_short(msgspec.json.encode(step).decode())}]"
    return out or "$"
