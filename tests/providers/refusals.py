"""Refusals in OpenAI's words, and checks of single values that raise them.

`openai_rules` and `openai_messages` are written with these; nothing here knows a parameter by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

Json = object
NAME = re.compile(r"[a-zA-Z0-9_-]+")


@dataclass
class Refusal(Exception):  # noqa: N818 - the field's word
    """A 400 in OpenAI's words."""

    message: str
    param: str | None = None
    code: str | None = None

    def body(self) -> dict[str, Json]:
        return {"error": {"message": self.message, "type": "invalid_request_error", "param": self.param,
                          "code": self.code}}


# ----------------------------------------------------------------------------------------------------- single values
def integer(low: int) -> Callable[[Json, str], None]:
    def check(value: Json, name: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise wrong_type(name, "an integer", value)
        if value < low:
            raise Refusal(f"Invalid '{name}': integer below minimum value. Expected a value >= {low}, but got {value} "
                          "instead.", name, "integer_below_min_value")
    return check


def number(low: float, high: float) -> Callable[[Json, str], None]:
    def check(value: Json, name: str) -> None:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise wrong_type(name, "a decimal", value)
        if value > high:
            raise Refusal(f"Invalid '{name}': decimal above maximum value. Expected a value <= {high:g}, but got "
                          f"{value} instead.", name, "decimal_above_max_value")
        if value < low:
            raise Refusal(f"Invalid '{name}': decimal below minimum value. Expected a value >= {low:g}, but got "
                          f"{value} instead.", name, "decimal_below_min_value")
    return check


def string(limit: int) -> Callable[[Json, str], None]:
    def check(value: Json, name: str) -> None:
        if not isinstance(value, str):
            raise wrong_type(name, "a string", value)
        if len(value) > limit:
            raise too_long(name, "string", limit, len(value))
    return check


def boolean(value: Json, name: str) -> None:
    if not isinstance(value, bool):
        raise wrong_type(name, "a boolean", value)


def one_of(*allowed: str) -> Callable[[Json, str], None]:
    def check(value: Json, name: str) -> None:
        if value not in allowed:
            raise unsupported(value, allowed, name)
    return check


# ------------------------------------------------------------------------------------------------------- the wording
def only(value: dict[str, Json], allowed: set[str] | frozenset[str], prefix: str) -> None:
    for key in value:
        if key not in allowed:
            raise Refusal(f"Unknown parameter: '{prefix}{key}'.", f"{prefix}{key}", "unknown_parameter")


def not_empty(value: list[Json], name: str) -> None:
    if not value:
        raise Refusal(f"Invalid '{name}': empty array. Expected an array with minimum length 1, but got an empty array "
                      "instead.", name, "empty_array")


def too_long(name: str, kind: str, limit: int, length: int) -> Refusal:
    article = "an array" if kind == "array" else "a string"
    return Refusal(f"Invalid '{name}': {kind} too long. Expected {article} with maximum length {limit}, but got "
                   f"{article} with length {length} instead.", name, f"{kind}_above_max_length")


def wrong_type(name: str, expected: str, got: Json) -> Refusal:
    return Refusal(f"Invalid type for '{name}': expected {expected}, but got {type(got).__name__} instead.", name,
                   "invalid_type")


def unsupported(value: Json, allowed: tuple[str, ...], name: str) -> Refusal:
    return Refusal(f"Invalid value: {value!r}. Supported values are: {', '.join(map(repr, allowed))}.", name,
                   "invalid_value")


def missing(name: str) -> Refusal:
    return Refusal(f"Missing required parameter: '{name}'.", name, "missing_required_parameter")


def check_name(name: Json, at: str) -> str:
    if not isinstance(name, str):
        raise missing(at)
    if not NAME.fullmatch(name):
        raise Refusal(f"Invalid '{at}': string does not match pattern. Expected a string that matches the pattern "
                      "'^[a-zA-Z0-9_-]+$'.", at, "invalid_value")
    string(64)(name, at)
    return name
