"""Keywords that Gemini has no place for, as short sentences for the description.

A note has no full stop; `description_of` adds it. Each note is bounded, so that the notes never outgrow the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from extproc.schemas.gemini.values import is_number, json_text, listed
from extproc.schemas.visitor import Schema

ANNOTATIONS = ("title", "description", "default", "examples", "example", "deprecated", "input_examples")
"""Keywords that allow and refuse nothing."""
_NOTES_LIMIT = 1500
"""Characters of all notes of one schema together."""


def notes_of(schema: Schema) -> list[str]:
    """Notes for the keywords that neither form of Gemini's schemas has."""
    notes = [text for key, describe in _NOTES.items() if key in schema and (text := describe(schema[key]))]
    if "if" in schema and ("then" in schema or "else" in schema):
        notes.append(_condition_note(schema))
    return notes


def description_of(texts: Sequence[str], notes: Sequence[str]) -> str:
    """A description: the client's own texts in full, then as many notes as fit."""
    room = _NOTES_LIMIT
    sentences: list[str] = []
    for note in notes:
        room -= len(note)
        if room < 0:
            break
        sentences.append(note + ".")
    return "\n".join([*texts, *([" ".join(sentences)] if sentences else [])])


def _condition_note(schema: Schema) -> str:
    text = f"If it matches {json_text(schema['if'], 200)}"
    if "then" in schema:
        text += f", then it must match {json_text(schema['then'], 200)}"
    if "else" in schema:
        text += f", else it must match {json_text(schema['else'], 200)}"
    return text


def _property_names_note(value: object) -> str:
    if isinstance(value, dict):
        if isinstance(pattern := value.get("pattern"), str) and set(value) <= {"pattern", "type"}:
            return f"Property names match the regular expression {pattern[:200]}"
        if isinstance(names := value.get("enum"), list) and set(value) <= {"enum", "type"}:
            return f"Property names are among {listed(names)}"
        if set(value) <= {"type"}:
            return ""  # every name is a string
    return "" if value in (True, {}) else f"Property names must match {json_text(value)}"


def _dependencies_note(value: object) -> str:
    if not isinstance(value, dict):
        return ""
    texts = []
    for name, demand in list(value.items())[:8]:
        if isinstance(demand, list):
            texts.append(f"with {name} also {listed(demand, 120)} must be given")
        else:
            texts.append(f"with {name} it must match {json_text(demand, 120)}")
    return "; ".join(texts).replace("with ", "With ", 1)


def _examples_note(value: object) -> str:
    return f"Examples: {listed(value)}" if isinstance(value, list) and value else ""


_NOTES: dict[str, Callable[[object], str]] = {
    "default": lambda value: f"Default: {json_text(value)}" if value is not None else "",
    "examples": _examples_note,
    "input_examples": _examples_note,
    "example": lambda value: f"Example: {json_text(value)}",
    "deprecated": lambda value: "Deprecated" if value is True else "",
    "multipleOf": lambda value: f"Must be a multiple of {json_text(value)}" if is_number(value) else "",
    "uniqueItems": lambda value: "All items must differ" if value is True else "",
    "contains": lambda value: f"Must contain an item that matches {json_text(value, 200)}",
    "minContains": lambda value: f"At least {value} such items" if is_number(value) else "",
    "maxContains": lambda value: f"At most {value} such items" if is_number(value) else "",
    "propertyNames": _property_names_note,
    "dependentRequired": _dependencies_note,
    "dependentSchemas": _dependencies_note,
    "dependencies": _dependencies_note,
    "unevaluatedProperties": lambda value: "No other properties are allowed" if value is False else "",
    "unevaluatedItems": lambda value: "No other items are allowed" if value is False else "",
    "contentEncoding": lambda value: f"Encoded as {value[:80]}" if isinstance(value, str) else "",
    "contentMediaType": lambda value: f"Holds {value[:80]}" if isinstance(value, str) else "",
    "not": lambda value: f"Must not match {json_text(value)}",
    "$dynamicRef": lambda value: f"Follows the schema {json_text(value)}",
    "$recursiveRef": lambda value: f"Follows the schema {json_text(value)}",
}
