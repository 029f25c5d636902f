"""The counters of all limits: charges in, decisions out. No I/O and no clock.

One object counts for all workers and all connections. All callers run in one thread. The charges of one request are
decided together: if one limit refuses the request, nothing is counted towards the others. Usage that is reported
afterwards (tokens) is never refused.

A clock that jumps blocks nobody: a counter belongs to one window, and every other window, earlier or later, starts
at 0. The configuration bounds the number of counters, because only configured limits are counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from extproc.bounds import LONGEST_STREAM
from extproc.config import LimitKey
from extproc.ratelimit.kinds import LIMIT_KINDS

STREAM_RETRY_SECONDS = 5
"""`retry-after` of a limit on concurrent requests. Nobody knows when one of them will end."""


class Charge(NamedTuple):
    """What one request adds to one counter.

    `amount` 0 only asks whether the limit is used up. `refund` subtracts. `stream_id` names a request in progress.
    """

    key: LimitKey
    amount: int = 1
    refund: bool = False
    stream_id: str = ""


class LimitStatus(NamedTuple):
    """A limit after a charge.

    `reset_seconds`: whole seconds until a retry is worthwhile. `counted`: the charge has changed the counter.
    """

    key: LimitKey
    limit: int
    remaining: int
    reset_seconds: int
    exceeded: bool
    counted: bool = False


class Decision(NamedTuple):
    """`statuses`: one for each charge, None for a key without a limit. `refused_by`: the limit that refuses the
    request, or None."""

    statuses: list[LimitStatus | None]
    refused_by: LimitStatus | None


class SavedCounter(msgspec.Struct, array_like=True):
    """One counter in the counters file. `window`: seconds since 1970 divided by the length of the window."""

    key: LimitKey
    window: int
    used: int


class Counters:
    """The counters of `limits`, the limits in force."""

    def __init__(self, limits: Mapping[LimitKey, int]) -> None:
        self._limits = dict(limits)
        self._windows: dict[LimitKey, tuple[int, int]] = {}
        """The current window of each limit and what was used in it."""
        self._streams: dict[LimitKey, dict[str, float]] = {}
        """The requests in progress of each limit: ids and start times (seconds since 1970)."""
        self.changes = 0
        """Increases with every change of a counter that `snapshot` contains."""

    def set_limits(self, limits: Mapping[LimitKey, int]) -> None:
        """Replaces the limits. Counters of limits that remain keep their values."""
        self._limits = dict(limits)
        self._windows = {key: used for key, used in self._windows.items() if key in self._limits}
        self._streams = {key: streams for key, streams in self._streams.items() if key in self._limits}
        self.changes += 1

    def decide(self, charges: Sequence[Charge], now: float) -> Decision:
        """Decides about the charges of one request and counts them unless it is refused.

        `now`: seconds since 1970 (UTC).
        """
        checked = [(charge, self._check(charge, now)) for charge in charges]
        exceeded = [status for charge, status in checked
                    if status is not None and status.exceeded and not _is_report(charge)]
        # Of several limits, the one with the longest wait: an earlier retry would be refused by it.
        refused_by = max(exceeded, key=lambda status: status.reset_seconds) if exceeded else None
        return Decision([status if status is None or (exceeded and not _is_report(charge))
                         else self._count(charge, status, now) for charge, status in checked], refused_by)

    # ---------------------------------------------------------------------------------------------------- one charge

    def _check(self, charge: Charge, now: float) -> LimitStatus | None:
        """The status before the charge is counted. `exceeded`: the charge does not fit."""
        limit = self._limits.get(charge.key)
        kind = LIMIT_KINDS.get(charge.key.kind)
        if limit is None or kind is None:
            return None
        if not kind.window_seconds:
            streams = self._live_streams(charge.key, now)
            exceeded = not charge.refund and charge.stream_id not in streams and len(streams) >= limit
            return LimitStatus(charge.key, limit, max(0, limit - len(streams)), STREAM_RETRY_SECONDS, exceeded)
        remaining = limit - self._used_in_window(charge.key, now)
        reset = max(1, math.ceil(kind.window_seconds - now % kind.window_seconds))
        # A question about usage that is counted afterwards needs room for at least one.
        return LimitStatus(charge.key, limit, max(0, remaining), reset, remaining < max(charge.amount, 1))

    def _count(self, charge: Charge, status: LimitStatus, now: float) -> LimitStatus:
        kind = LIMIT_KINDS[charge.key.kind]
        if not kind.window_seconds:
            streams = self._live_streams(charge.key, now)
            if charge.refund:
                streams.pop(charge.stream_id, None)
            elif charge.amount:
                streams[charge.stream_id] = now
            return status._replace(remaining=max(0, status.limit - len(streams)), counted=charge.amount > 0)
        if not charge.amount:
            return status
        used = max(0, self._used_in_window(charge.key, now) + (-charge.amount if charge.refund else charge.amount))
        self._windows[charge.key] = (int(now // kind.window_seconds), used)
        self.changes += 1
        return status._replace(remaining=max(0, status.limit - used), exceeded=used > status.limit, counted=True)

    def _used_in_window(self, key: LimitKey, now: float) -> int:
        window, used = self._windows.get(key, (0, 0))
        return used if window == int(now // LIMIT_KINDS[key.kind].window_seconds) else 0

    def _live_streams(self, key: LimitKey, now: float) -> dict[str, float]:
        """The requests in progress, without those whose end must have been lost.

        They are in order of their start, so only the oldest are checked. A start in the future was counted before the
        clock was set back.
        """
        streams = self._streams.setdefault(key, {})
        while streams:
            oldest, began = next(iter(streams.items()))
            if abs(now - began) <= LONGEST_STREAM:
                break
            del streams[oldest]
        return streams

    # -------------------------------------------------------------------------------------------------------- the file

    def count_streams(self, key: LimitKey) -> int:
        """How many requests of this limit are in progress."""
        return len(self._streams.get(key, ()))

    def snapshot(self) -> list[SavedCounter]:
        """All counters of windows. Requests in progress are not saved: a restarted process would count them without
        ever learning of those that ended meanwhile."""
        return [SavedCounter(key, window, used) for key, (window, used) in self._windows.items()]

    def restore(self, saved: Sequence[SavedCounter]) -> None:
        """Continues from a snapshot. Windows that are over count as 0."""
        self._windows.update({one.key: (one.window, one.used) for one in saved if one.key in self._limits})


def _is_report(charge: Charge) -> bool:
    """True if the charge reports usage that has happened, which cannot be refused."""
    return charge.refund or (charge.amount > 0 and charge.key.kind in LIMIT_KINDS
                             and LIMIT_KINDS[charge.key.kind].counted_afterwards)
