"""Native tool calls whose arguments shall be repaired or checked (`tools.arguments: repair | strict`).

By default a native call goes out as it came. With these settings the sequencer holds each call until it is whole and
asks `NativeArguments` what to send. Calls read from text have their own way (`reading.CallWriter`). A truncated call is
never brought here.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from extproc.conversation.call_counts import CallCounts
from extproc.conversation.model import Tool
from extproc.dialects.json.repair import problems, read_object
from extproc.dialects.parse_context import ArgumentsMode, Repair, refusal
from extproc.errors import Failure

_encode = msgspec.json.Encoder().encode


class NativeArguments:
    """`tools` by the names the client knows. `repairs` collects what was repaired, `counts` how many calls."""

    def __init__(self, tools: Mapping[str, Tool], mode: ArgumentsMode, counts: CallCounts | None = None) -> None:
        self._counts = counts or CallCounts()
        self._tools = tools
        self._mode = mode
        self.repairs: list[Repair] = []

    def __call__(self, name: str, text: str) -> str | Failure:
        """The arguments to send, or why the call is refused (strict). Calls of tools that were not offered pass."""
        tool = self._tools.get(name)
        if tool is None or (not text.strip() and self._mode != "strict"):
            return text
        found = read_object(text.strip() or "{}")
        if self._mode == "strict":
            reason = "$: not a JSON object" if found is None else next(iter(problems(tool.schema, found.value)), None)
            if reason is not None:
                self._counts.refused += 1
                return refusal(name, reason)
        if found is None or not found.repairs:
            return text
        self._counts.repaired += 1
        self.repairs.extend(Repair(name, "$", what) for what in found.repairs)
        return _encode(found.value).decode()

