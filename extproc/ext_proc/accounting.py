"""The tokens of one attempt: the provider's figures and the bytes that passed -> figures for the log and the limits.

The backend hop reports sizes and asks for figures: an estimate while the response streams, final figures at its end.
This module reads no bytes and sends nothing.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.conversation.model import Usage
from extproc.errors import Failure
from extproc.ext_proc.record import Record, usage_figures

Figures = dict[str, str | float | None]
"""Dynamic metadata: tokens by kind, and whether they are an estimate. `cost`: millionths of the gateway's currency, 0
if no price is known."""

ESTIMATE_EVERY = 2.0
"""Seconds between two estimates while the response streams."""

ESTIMATE_BYTES = 4096
"""Bytes of the provider's stream after which another estimate is due, whatever the time: tokens that a broken response
used after the last estimate are counted nowhere."""

_BREAKS = frozenset({"server", "timeout"})
"""Kinds of failure of a response that is not streamed and breaks off or stalls."""

_BYTES_PER_TOKEN = 4
_BYTES_PER_EVENT = 200
"""An event of a provider's stream with its frame: about one token."""

_NO_USAGE = Usage()


class TokenAccounting:
    """Counts for one attempt. `record`: the status and the end of the response as the client sees them."""

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
        """A request of `size` bytes goes to the provider. `only_counts`: it asks for a token count."""
        self._prompt = size // _BYTES_PER_TOKEN
        self._counts_tokens_only = only_counts

    def note_response(self, status: str, now: float) -> None:
        """The provider's response head arrived."""
        self._status = status
        self._next_time = now + ESTIMATE_EVERY

    def is_estimate_due(self, now: float) -> bool:
        """True if another estimate is due. It is then due again after the next interval."""
        if now < self._next_time and self.received_bytes < self._next_size:
            return False
        self._next_time, self._next_size = now + ESTIMATE_EVERY, self.received_bytes + ESTIMATE_BYTES
        return True

    def estimated_figures(self, reported: Usage = _NO_USAGE) -> Figures:
        """The tokens used so far. `reported`: the provider's figures. A token count uses none."""
        if self._counts_tokens_only:
            return {"input": 0, "output": 0, "total": 0, "cost": 0, "estimated": False}
        prompt, output = self._estimate_counts(reported)
        return {"input": prompt, "output": output, "total": prompt + output, "cost": 0, "estimated": True}

    def final_usage(self, reported: Usage, failure: Failure | None) -> Usage:
        """The tokens used at the end: the provider's figures. If it sent none and the response had begun, the
        estimate."""
        known = (reported.input + reported.output > 0 and not reported.estimated) or self._counts_tokens_only
        if not known and self._consumed_tokens(failure):
            prompt, output = self._estimate_counts(reported)
            return replace(reported, input=prompt, output=output, estimated=True)
        return replace(reported, estimated=False) if reported.estimated else reported

    def final_figures(self, reported: Usage, failure: Failure | None) -> Figures:
        """`final_usage` as metadata, with the finish reason or the failure."""
        usage, record = self.final_usage(reported, failure), self._record
        return {**usage_figures(usage), "estimated": usage.estimated, "finish": record.finish,
                "failure": record.failure}

    def _consumed_tokens(self, failure: Failure | None) -> bool:
        """True if the provider began a response, even if it broke off or the client left before it got any of it. An
        error of the provider uses no tokens."""
        if self._record.status == 200:
            return True
        if failure is None:
            return self._status is None or self._status == "200"
        return (self._status == "200" and not self._record.stream and self.received_bytes > 0
                and failure.kind in _BREAKS)

    def _estimate_counts(self, reported: Usage) -> tuple[int, int]:
        """Tokens of prompt and output: the provider's figures if it sent some, else by size."""
        size = _BYTES_PER_EVENT if self._record.stream else _BYTES_PER_TOKEN
        return reported.input or self._prompt, max(reported.output, self.received_bytes // size)
