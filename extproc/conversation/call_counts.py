"""Counts of the tool calls of one response, by the form in which the model wrote them, for log and metrics.

The sequencer counts what is wrong with native calls, the dialects count their own. The counts decide nothing, and they
hold no arguments.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

NATIVE = "native"
"""The form of calls in the fields of the provider's API. Every other form is the name of a dialect."""


class CallCounts(msgspec.Struct, omit_defaults=True, gc=False):
    """Calls of one response in one form."""

    total: int = 0
    """All calls of the model, including those counted below."""
    repaired: int = 0
    """Calls with damage that was repaired."""
    unreadable: int = 0
    """Calls whose arguments are not JSON or broke off. They were sent as they were, or left out if not even the tool
    could be read."""
    unoffered: int = 0
    """Calls of tools that the request did not offer. Native calls were sent, those in text left out."""
    refused: int = 0
    """With `tools.arguments: strict`: calls that do not match the tool's schema, or of tools that the request did not
    offer. The response failed."""

    unexpected: int = 0
    """Native calls although the tools were written into the prompt. They were sent."""
    dropped: int = 0
    """Calls that were not sent because of `tools.parallel: enforce` or `tools.duplicates: drop`."""

    @property
    def failed(self) -> int:
        """Calls that no client can run as they are."""
        return self.unreadable + self.unoffered + self.refused


MOST_BAD_CALLS = 20
_LONGEST_NAME = 64
_NAME = re.compile(r"[\w.:/-]+")
Badness = Literal["unreadable", "unoffered", "refused"]


class BadCall(msgspec.Struct, frozen=True):
    """A call that no client can run as it is: its tool ("" if unknown or not a name) and the reason, a field of
    `CallCounts`."""

    tool: str
    reason: Badness

    @classmethod
    def of(cls, tool: str | None, reason: Badness) -> BadCall:
        """The name of a tool that was not offered is text of the model: anything that is no name is left out."""
        known = tool is not None and len(tool) <= _LONGEST_NAME and _NAME.fullmatch(tool) is not None
        return cls(tool if known and tool is not None else "", reason)


class CallTally(msgspec.Struct):
    """The counts of one response while it is read."""

    native: CallCounts = msgspec.field(default_factory=CallCounts)
    """Without a total: `counts` computes it from the calls that were sent."""
    by_dialect: dict[str, CallCounts] = {}
    written: int = 0
    """Calls in the model's text that were sent."""
    native_duplicates: int = 0
    """Native calls that were not sent because the same call in the text was. Such a call counts in both forms."""
    prompted: bool = False
    """The tools were written into the prompt: no native call is expected."""
    bad_native: list[BadCall] = []
    """The first native calls that cannot be run."""

    def of(self, dialect: str) -> CallCounts:
        """The counts of calls in this dialect."""
        found = self.by_dialect.get(dialect)
        if found is None:
            found = self.by_dialect[dialect] = CallCounts()
        return found

    def note_bad(self, tool: str | None, reason: Badness) -> None:
        """Adds a native call that cannot be run. `tool`: the client's name."""
        if len(self.bad_native) < MOST_BAD_CALLS:
            self.bad_native.append(BadCall.of(tool, reason))

    def counts(self, sent: int, unoffered: int) -> dict[str, CallCounts]:
        """All counts by form. `sent`: calls that the client received; `unoffered`: native calls among them of tools
        that were not offered."""
        native = msgspec.structs.replace(self.native, unoffered=unoffered)
        native.total = max(sent - self.written, 0) + self.native_duplicates + native.refused + native.dropped
        if self.prompted:
            native.unexpected = native.total
        return {NATIVE: native, **self.by_dialect} if native.total else dict(self.by_dialect)
