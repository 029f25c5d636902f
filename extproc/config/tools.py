"""Tools in the configuration: how they go to models (`tools`), their labels for front ends (`events`), and checks.

`tools` is a key of the file, of a backend and of an attempt. Each key of it comes from the narrowest of these places
that sets it (`merge_tool_settings`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from extproc.config.values import Problem, converted_entries, number_problems, pattern_problems
from extproc.conversation.notes import FINAL_NOTE
from extproc.globs import matches


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
    """The only tools that the model is offered: names, or globs. All other tools of a client, including those that the
    provider would run, are left out and named in `x-extproc-dropped` (with `lossy: reject` such a request is refused).
    Has no effect on paths without translation. Unset everywhere: all tools."""
    choice: Literal["auto", "required", "none"] | None = None
    """Overrides the client's choice of whether a tool must be called."""
    parallel: bool | Literal["enforce"] | None = None
    """Asks for (`true`) or forbids (`false`) several calls in one response, whatever the client says. Not every model
    obeys: with `enforce` the model is asked for one call, and calls after the first are dropped and named."""
    duplicates: Literal["keep", "drop"] | None = None
    """`drop`: a call that repeats an earlier one of the same response (the same tool and arguments) is dropped and
    named. A second call of a tool is then sent only when it is complete. Unset everywhere: `keep`."""
    max: int | None = None
    """Most tools of a request; a request with more is refused."""
    arguments: Literal["as-is", "repair", "strict"] | None = None
    """The arguments of a call: passed on as they came, repaired, or refused when they do not fit the tool's schema.
    Unset everywhere: native calls pass, calls in text are repaired."""


class EventLabel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a front end shows the calls of a tool. You choose the words; the events contain them."""

    category: str = "tool"
    """The purpose of the tool, such as `search` or `write`."""
    visibility: str = "visible"
    """Whether users see its calls, such as `visible` or `hidden`."""


class EventSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Labels of tools for front ends, and the request for a final answer."""

    tools: dict[str, EventLabel] = {}
    """Names of tools, or globs, and the label of their calls. The first match counts. The log does not name tools whose
    visibility is `hidden`."""
    final_note: str = FINAL_NOTE
    """The system note of a request for a final answer, which is one to `/v1/events` with `finalize: true` or one to
    `/v1/chat/completions` with the header `x-extproc-finalize: true`. An empty text for none."""

    def loggable_name(self, tool: str) -> str:
        """The tool's name as the log may hold it: "hidden" for a tool whose visibility is `hidden`."""
        label = next((label for pattern, label in self.tools.items() if matches(pattern, tool)), None)
        return "hidden" if label is not None and label.visibility == "hidden" else tool


def merge_tool_settings(*places: ToolSettings) -> ToolSettings:
    """For each key the first value that is set; `places` are ordered from the narrowest to the widest."""
    values: dict[str, Any] = {}
    for place in places:
        for key in ToolSettings.__struct_fields__:
            if key not in values and (value := getattr(place, key)) is not None:
                values[key] = value
    return ToolSettings(**values)


def tool_problems(path: str, tools: ToolSettings) -> Iterator[Problem]:
    """What makes the settings unusable, as (path, reason)."""
    yield from number_problems(path, tools)
    yield from _dialect_problems(path, tools)
    for index, name in converted_entries(tools.only):
        yield from pattern_problems(f"{path}.only[{index}]", name)


def _dialect_problems(path: str, tools: ToolSettings) -> Iterator[Problem]:
    if tools.style in (None, "auto") and not tools.read:
        return
    from extproc.dialects.registry import DIALECTS, STYLES  # loaded only where it is needed: that takes a while

    if tools.style is not None and tools.style not in STYLES and tools.style not in DIALECTS:
        yield f"{path}.style", f'no style "{tools.style}"; known: {", ".join((*STYLES, *sorted(DIALECTS)))}'
    for index, name in converted_entries(tools.read):
        if name not in DIALECTS:
            yield f"{path}.read[{index}]", f'no dialect "{name}"; known: {", ".join(sorted(DIALECTS))}'


def tool_warnings(path: str, tools: ToolSettings) -> Iterator[Problem]:
    """Styles that can be read but not written, and a list that permits nothing."""
    if tools.only == []:
        yield f"{path}.only", "permits no tool at all; style: off says the same"
    if tools.style in (None, "auto"):
        return
    from extproc.dialects.registry import DIALECTS
    from extproc.dialects.writing import WRITABLE

    if tools.style in DIALECTS and tools.style not in WRITABLE:
        yield f"{path}.style", (
            f"calls are read in {tools.style}, but tools are offered natively, since nothing writes this style; "
            f"say read: [{tools.style}], or one of the styles that can be written: {', '.join(sorted(WRITABLE))}")
