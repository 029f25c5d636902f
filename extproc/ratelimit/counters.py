"""What teams have used: hits in, decisions out, without I/O and without a clock of its own.

One object counts for all workers and all connections; its callers run in one thread. All hits of a request are decided
together: when one limit refuses, none of the request's takes is counted. What is counted afterwards (tokens) is never
refused, it has happened.

A clock that jumps never blocks anybody: a counter belongs to one window, and any other window, earlier or later, starts
at 0. The number of counters is bounded by the configuration, since nothing is counted that nothing limits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from extproc.bounds import LONGEST_STREAM
from extproc.config import LimitKey
from extproc.ratelimit.kinds import KINDS

STREAM_WAIT = 5
"""Seconds after which to try again where requests at the same time are limited; nobody knows when one will end."""


class Hit(NamedTuple):
    """A request's part in one counter. `back` takes it back; `stream` names the request where it is one that runs."""

    key: LimitKey
    hits: int = 1
    back: bool = False
    stream: str = ""


class State(NamedTuple):
    """Where a limit stands after a hit. `reset`: whole seconds until it is worth trying again. `counted`: the hit was
    not only a question."""

    key: LimitKey
    number: int
    remaining: int
    reset: int
    over: bool
    counted: bool = False


class Decision(NamedTuple):
    """`states`: one for each hit, None where nothing is limited. `refused`: the limit that refuses the request."""

    states: list[State | None]
    refused: State | None


class Kept(msgspec.Struct, array_like=True):
    """One counter, as it is written to a file."""

    key: LimitKey
    window: int
    used: int


class Running(msgspec.Struct, array_like=True):
    """The requests of one limit that run: their ids, with the seconds since 1970 at which they began."""

    key: LimitKey
    streams: dict[str, float]


class Counters:
    """`numbers` are the limits in force; `use` changes them and keeps what was counted."""

    def __init__(self, numbers: Mapping[LimitKey, int]) -> None:
        self._numbers = dict(numbers)
        self._used: dict[LimitKey, tuple[int, int]] = {}
        self._running: dict[LimitKey, dict[str, float]] = {}
        self.changes = 0
        """Goes up with every change of a counter that `kept` tells of."""

    def use(self, numbers: Mapping[LimitKey, int]) -> None:
        """Other limits from now on."""
        self._numbers = dict(numbers)
        self._used = {key: used for key, used in self._used.items() if key in self._numbers}
        self._running = {key: streams for key, streams in self._running.items() if key in self._numbers}
        self.changes += 1

    def decide(self, hits: Sequence[Hit], now: float) -> Decision:
        """`now`: seconds since 1970 (UTC)."""
        looks = [(hit, self._look(hit, now)) for hit in hits]
        over = [state for hit, state in looks if state is not None and state.over and not _is_afterwards(hit)]
        # Of several the one to wait for longest: trying again after a shorter time would be in vain.
        refused = max(over, key=lambda state: state.reset) if over else None
        return Decision([state if state is None or (over and not _is_afterwards(hit)) else self._count(hit, state, now)
                         for hit, state in looks], refused)

    # ------------------------------------------------------------------------------------------------------- one hit

    def _look(self, hit: Hit, now: float) -> State | None:
        """Whether the hit fits, before anything is counted."""
        number = self._numbers.get(hit.key)
        kind = KINDS.get(hit.key.kind)
        if number is None or kind is None:
            return None
        if not kind.seconds:
            streams = self._streams(hit.key, now)
            over = not hit.back and hit.stream not in streams and len(streams) >= number
            return State(hit.key, number, max(0, number - len(streams)), STREAM_WAIT, over)
        left = number - self._in_window(hit.key, now)
        reset = max(1, math.ceil(kind.seconds - now % kind.seconds))
        # Asking about what is counted afterwards needs room for at least one.
        return State(hit.key, number, max(0, left), reset, left < max(hit.hits, 1))

    def _count(self, hit: Hit, state: State, now: float) -> State:
        kind = KINDS[hit.key.kind]
        if not kind.seconds:
            streams = self._streams(hit.key, now)
            if hit.back:
                streams.pop(hit.stream, None)
            elif hit.hits:
                streams[hit.stream] = now
            return state._replace(remaining=max(0, state.number - len(streams)), counted=hit.hits > 0)
        if not hit.hits:
            return state
        used = max(0, self._in_window(hit.key, now) + (-hit.hits if hit.back else hit.hits))
        self._used[hit.key] = (int(now // kind.seconds), used)
        self.changes += 1
        return state._replace(remaining=max(0, state.number - used), over=used > state.number, counted=True)

    def _in_window(self, key: LimitKey, now: float) -> int:
        window, used = self._used.get(key, (0, 0))
        return used if window == int(now // KINDS[key.kind].seconds) else 0

    def _streams(self, key: LimitKey, now: float) -> dict[str, float]:
        """The requests that run, without those whose end must have been lost. In order of their start, so only the
        oldest need a look; one from the future was counted before the clock was set back."""
        streams = self._running.setdefault(key, {})
        while streams:
            oldest, began = next(iter(streams.items()))
            if abs(now - began) <= LONGEST_STREAM:
                break
            del streams[oldest]
        return streams

    # -------------------------------------------------------------------------------------------------------- keeping

    def running(self, key: LimitKey) -> int:
        """How many requests of this limit run."""
        return len(self._running.get(key, ()))

    def kept(self) -> list[Kept]:
        """All counters of windows. Running requests are not among them: who counts them anew after a restart would
        never hear of their ends."""
        return [Kept(key, window, used) for key, (window, used) in self._used.items()]

    def restore(self, kept: Sequence[Kept]) -> None:
        """Goes on from what `kept` told earlier. Windows that are over count as nothing anyway."""
        self._used.update({one.key: (one.window, one.used) for one in kept if one.key in self._numbers})

    def still_running(self) -> list[Running]:
        """The requests that run, for who will hear of their ends from now on."""
        return [Running(key, dict(streams)) for key, streams in self._running.items() if streams]

    def resume(self, running: Sequence[Running]) -> None:
        """Goes on from what `still_running` told."""
        for one in running:
            if one.key in self._numbers:
                self._running[one.key] = {**one.streams, **self._running.get(one.key, {})}


def _is_afterwards(hit: Hit) -> bool:
    """Whether this hit tells what has happened; there is nothing left to refuse."""
    return hit.back or (hit.hits > 0 and hit.key.kind in KINDS and KINDS[hit.key.kind].afterwards)

