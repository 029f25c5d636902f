"""What the application events (`POST /v1/events`) tell web front ends of tools, as typed records.

Read by the loader as a part of the configuration; the encoder of the events gets it from the exchange.
"""

from __future__ import annotations

import msgspec

from extproc.conversation.notes import FINAL_NOTE
from extproc.globs import matches


class EventLabel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a front end shows the calls of a tool. The words are your own; the events carry them."""

    category: str = "tool"
    """What the tool is for, such as `search` or `write`."""
    visibility: str = "visible"
    """Whether users see its calls, such as `visible` or `hidden`."""


class EventSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What front ends are told of tools, and what asks for a final answer."""

    tools: dict[str, EventLabel] = {}
    """Names of tools, or globs, with what is told of their calls; the first that matches counts. The log does not name
    tools whose visibility is `hidden`."""
    final_note: str = FINAL_NOTE
    """The system note that a request for a final answer gets: one to `/v1/events` with `finalize: true`, one to
    `/v1/chat/completions` with the header `x-extproc-finalize: true`. An empty text for none."""

    def loggable_name(self, tool: str) -> str:
        """The tool's name as the log may hold it: "hidden" for one whose visibility is `hidden`."""
        label = next((label for pattern, label in self.tools.items() if matches(pattern, tool)), None)
        return "hidden" if label is not None and label.visibility == "hidden" else tool
