"""What the configuration file says about tools: of all attempts, of a backend's, and of one attempt.

Part of the records in `extproc.config.records`, which import it; the reference page is generated from the docstrings.
A key that is unset is looked up at the next wider place (`merged`).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class ToolSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How tools go to the model and come back. Each key is looked up by itself: in the attempt, else in its backend,
    else at the top level of the file."""

    style: str | None = None
    """`auto` (by the model's profile), `native` (the API's own tool fields), `prompted` (written into the prompt),
    `off`, or the name of a dialect: tools, calls and results are then written in that dialect's own form. Unset
    everywhere: `auto`."""
    read: list[str] | None = None
    """Dialects whose calls are also recognised when the model writes them as text. Unset everywhere: by the model's
    profile."""
    only: list[str] | None = None
    """The only tools that the model is offered: names, or globs. All others that a client brings, those that the
    provider would run included, are left out and named in `x-extproc-dropped` (with `lossy: reject` such a request is
    refused). Does not hold for paths that pass untranslated. Unset everywhere: all tools."""
    choice: Literal["auto", "required", "none"] | None = None
    """Overrides what the client says about whether a tool must be called."""
    parallel: bool | Literal["enforce"] | None = None
    """Asks for (`true`) or forbids (`false`) several calls in one answer, whatever the client says. Not every model
    obeys: with `enforce` the model is asked for one call, and calls after the first are dropped and named."""
    duplicates: Literal["keep", "drop"] | None = None
    """`drop`: a call that repeats an earlier one of the same answer (the same tool and arguments) is dropped and named.
    A second call of a tool then goes out when it is whole. Unset everywhere: `keep`."""
    max: int | None = None
    """Most tools of a request; a request with more is refused."""
    arguments: Literal["as-is", "repair", "strict"] | None = None
    """What happens to the arguments of a call: passed on as they came, repaired, or refused when they do not fit the
    tool's schema. Unset everywhere: native calls pass, calls in text are repaired."""


def merged(*places: ToolSettings) -> ToolSettings:
    """Key by key the first value that is set; `places` are ordered from the narrowest to the widest."""
    values: dict[str, Any] = {}
    for place in places:
        for key in ToolSettings.__struct_fields__:
            if key not in values and (value := getattr(place, key)) is not None:
                values[key] = value
    return ToolSettings(**values)
