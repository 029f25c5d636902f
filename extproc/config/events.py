"""What the application events (`POST /v1/events`) tell web front ends of tools, as typed records.

Read by the loader as a part of the configuration; the encoder of the events gets it from the exchange.
"""

from __future__ import annotations

import msgspec

from extproc.apis.openai.client import EventsApi, ToolLabel
from extproc.apis.openai.client.finalizing import FINAL_NOTE


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

    def api(self) -> EventsApi:
        """The client API with these settings."""
        labels = {name: ToolLabel(label.category, label.visibility) for name, label in self.tools.items()}
        return EventsApi(labels, self.final_note)
