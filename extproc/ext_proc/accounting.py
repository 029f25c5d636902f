"""The tokens of one attempt: what the provider says and what went by -> figures for the log and for the teams' limits.

The backend hop tells it what passes and asks it for figures: a running estimate while the answer streams, what holds at
its end. It reads no bytes and sends nothing.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.conversation.model import Usage
from extproc.errors import Failure
from extproc.ext_proc.record import Record, usage_figures

Figures = dict[str, str | float | None]
"""Dynamic metadata: tokens by kind, whether they are an estimate."""

ESTIMATE_EVERY = 2.0
"""Seconds between two estimates of the tokens used, while the answer streams."""

ESTIMATE_BYTES = 4096
"""Bytes of the provider's stream after which there is another estimate at the latest: what an answer that is cut off
used since the last one is counted nowhere."""

_BREAKS = frozenset({"server", "timeout"})
"""How whole answers fail that break off or fall silent."""

_BYTES_PER_TOKEN = 4
_BYTES_PER_EVENT = 200
"""An event of a provider's stream with its frame: about one token."""

_NO_USAGE = Usage()


class TokenAccounting:
    """One attempt's. `record` says how the answer went as far as the client is concerned."""

    __slots__ = ("_counts_tokens_only", "_next_size", "_next_time", "_prompt", "_record", "_status", "received_bytes")

    def __init__(self, record: Record) -> None:
        self._record = record
        self._prompt = 0
        self._counts_tokens_only = False
        self._status: str | None = None
        self._next_time = 0.0
        self._next_size = ESTIMATE_BYTES
        self.received_bytes = 0
        """Bytes of the provider's response."""

    def note_request(self, size: int, *, only_counts: bool) -> None:
        """A request of `size` bytes goes to the provider. `only_counts`: it wants its prompt counted, not answered."""
        self._prompt = size // _BYTES_PER_TOKEN
        self._counts_tokens_only = only_counts

    def note_response(self, status: str, now: float) -> None:
        """The provider's head is there."""
        self._status = status
        self._next_time = now + ESTIMATE_EVERY

    def is_estimate_due(self, now: float) -> bool:
        """Whether it is time for another estimate; the answer is yes once."""
        if now < self._next_time and self.received_bytes < self._next_size:
            return False
        self._next_time, self._next_size = now + ESTIMATE_EVERY, self.received_bytes + ESTIMATE_BYTES
        return True

    def estimated_figures(self, reported: Usage = _NO_USAGE) -> Figures:
        """The tokens used so far. `reported`: the provider's figures. A prompt that was only counted uses none."""
        if self._counts_tokens_only:
            return {"input": 0, "output": 0, "total": 0, "estimated": False}
        prompt, output = self._estimate_counts(reported)
        return {"input": prompt, "output": output, "total": prompt + output, "estimated": True}

    def final_usage(self, reported: Usage, failure: Failure | None) -> Usage:
        """What was used when all is over: the provider's figures; where it gave none for an answer that had begun, the
        estimate."""
        known = (reported.input + reported.output > 0 and not reported.estimated) or self._counts_tokens_only
        if not known and self._consumed_tokens(failure):
            prompt, output = self._estimate_counts(reported)
            return replace(reported, input=prompt, output=output, estimated=True)
        return replace(reported, estimated=False) if reported.estimated else reported

    def final_figures(self, reported: Usage, failure: Failure | None) -> Figures:
        """The same with how it ended."""
        usage, record = self.final_usage(reported, failure), self._record
        return {**usage_figures(usage), "estimated": usage.estimated, "finish": record.finish,
                "failure": record.failure}

    def _consumed_tokens(self, failure: Failure | None) -> bool:
        """Whether there was an answer, also where it broke or the client left before any of it went on: its tokens are
        used. What a provider says instead of an answer costs nothing."""
        if self._record.status == 200:
            return True
        if failure is None:
            return self._status is None or self._status == "200"
        return (self._status == "200" and not self._record.stream and self.received_bytes > 0
                and failure.kind in _BREAKS)

    def _estimate_counts(self, reported: Usage) -> tuple[int, int]:
        """Tokens of prompt and output: the provider's own figures as far as they go, else by size."""
        size = _BYTES_PER_EVENT if self._record.stream else _BYTES_PER_TOKEN
        return reported.input or self._prompt, max(reported.output, self.received_bytes // size)
