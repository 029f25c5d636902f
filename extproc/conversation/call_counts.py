"""How the tool calls of one answer fared, by the way in which the model wrote them: figures for log and metrics.

The sequencer counts what is wrong with native calls, the readers of dialects count their own. Nothing is decided by
these figures, and they hold no argument.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

NATIVE = "native"
"""The provider's API told the call apart itself; every other way is the name of a dialect."""


class CallCounts(msgspec.Struct, omit_defaults=True, gc=False):
    """Calls of one answer that were written in one way."""

    total: int = 0
    """All that the model made, those that are told below among them."""
    repaired: int = 0
    """Calls of which something was wrong and was put right."""
    unreadable: int = 0
    """Calls that are no call: arguments that are not JSON or broke off; they went out as they were, or were left out
    where not even the tool was to be read."""
    unoffered: int = 0
    """Calls of tools that the request did not offer. Native ones went out, those in text were left out."""
    refused: int = 0
    """Calls that did not match the tool's schema, or of tools that the request did not offer, where `tools.arguments`
    is `strict`: the answer failed."""

    unexpected: int = 0
    """Native calls though the tools were written into the prompt. They went out like any other."""
    dropped: int = 0
    """Calls that did not go out as `tools.parallel: enforce` or `tools.duplicates: drop` says."""

    @property
    def failed(self) -> int:
        """Calls that no client can run as they are."""
        return self.unreadable + self.unoffered + self.refused


MOST_BAD_CALLS = 20
_LONGEST_NAME = 64
_NAME = re.compile(r"[\w.:/-]+")
Badness = Literal["unreadable", "unoffered", "refused"]


class BadCall(msgspec.Struct, frozen=True):
    """A call that no client can run as it is: the tool that it names ("" where that is not known or no name), and
    what is wrong, in the words of `CallCounts`."""

    tool: str
    reason: Badness

    @classmethod
    def of(cls, tool: str | None, reason: Badness) -> BadCall:
        """Names of tools that nobody offered are the model's own words: only what looks like a name is kept."""
        known = tool is not None and len(tool) <= _LONGEST_NAME and _NAME.fullmatch(tool) is not None
        return cls(tool if known and tool is not None else "", reason)


class CallTally(msgspec.Struct):
    """The counts of one answer while it is read."""

    native: CallCounts = msgspec.field(default_factory=CallCounts)
    """Without a total: what reads native calls does not see which of them go out."""
    by_dialect: dict[str, CallCounts] = {}
    written: int = 0
    """Calls from the model's text that went out."""
    native_twins: int = 0
    """Native calls that did not go out, as the same call in the text did: such a call counts both ways."""
    prompted: bool = False
    """The tools were written into the prompt: no native call is expected."""
    bad_native: list[BadCall] = []
    """The first native ones of which something is wrong."""

    def of(self, dialect: str) -> CallCounts:
        """The counts of calls that were read as this dialect."""
        found = self.by_dialect.get(dialect)
        if found is None:
            found = self.by_dialect[dialect] = CallCounts()
        return found

    def note_bad(self, tool: str | None, reason: Badness) -> None:
        """A native call of this tool (as the client knows it) cannot be run."""
        if len(self.bad_native) < MOST_BAD_CALLS:
            self.bad_native.append(BadCall.of(tool, reason))

    def counts(self, sent: int, unoffered: int) -> dict[str, CallCounts]:
        """All counts by dialect. `sent`: calls that went to the client; `unoffered`: native ones among them that name
        no offered tool."""
        native = msgspec.structs.replace(self.native, unoffered=unoffered)
        native.total = max(sent - self.written, 0) + self.native_twins + native.refused + native.dropped
        if self.prompted:
            native.unexpected = native.total
        return {NATIVE: native, **self.by_dialect} if native.total else dict(self.by_dialect)
