"""Google's own types as a check of what is sent: the models of the `google-genai` package, which refuse unknown fields.

The types of the package take enum values that they do not know with a warning; here that is a failure as well.
"""

from __future__ import annotations

import warnings
from typing import Any

from google.genai import types
from pydantic import BaseModel

_FIELDS: dict[str, type[BaseModel]] = {
    "generationConfig": types.GenerationConfig,
    "safetySettings": types.SafetySetting,
    "toolConfig": types.ToolConfig,
    "tools": types.Tool,
    "systemInstruction": types.Content,
    "contents": types.Content,
}
"""The fields of a request's body; a list holds such objects."""


def validate_body(body: dict[str, Any]) -> None:
    """Raises an error that names the field for a body with a field, a type or an enum value that Google's types do not
    have. (`parametersJsonSchema` and `responseJsonSchema` may hold anything there.)"""
    unknown = set(body) - set(_FIELDS)
    assert not unknown, f"no fields of a generateContent request: {sorted(unknown)}"
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for name, value in body.items():
            for entry in value if isinstance(value, list) else [value]:
                check_names(_FIELDS[name].model_validate(entry, strict=False), entry, name)


def check_names(model: Any, entry: Any, path: str) -> None:
    """The models also take Python's spelling of a name; the wire has camelCase."""
    if isinstance(model, BaseModel) and isinstance(entry, dict):
        for name, field in type(model).model_fields.items():
            alias = field.alias or name
            assert alias == name or name not in entry, f"{path}.{name}: the wire name is {alias}"
            if alias in entry:
                check_names(getattr(model, name), entry[alias], f"{path}.{alias}")
    elif isinstance(model, list) and isinstance(entry, list):
        for at, (inner, raw) in enumerate(zip(model, entry, strict=True)):
            check_names(inner, raw, f"{path}[{at}]")
