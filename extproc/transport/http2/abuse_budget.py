"""What a peer may ask for: sizes, times, and an allowance for frames that cost us work and bring nothing.

Every number has its reason beside it. The socket may be TCP, so the other side need not be Envoy.
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one connection. Sizes are bytes, times seconds."""

    streams: int = 2048
    """At the same time. Envoy opens 1024 on a connection and then another connection; a smaller bound would refuse
    streams that it sends before it has read our SETTINGS."""

    message: int = 65 * MIB
    """One gRPC message: the largest body (64 MB) in one piece, and what surrounds it."""

    stream_window: int = MIB // 4
    """What a stream whose call takes nothing can hold. A message larger than this gets more as it arrives."""

    connection_window: int = 16 * MIB
    """Granted again as it is used, whatever single streams do: a stalled one never blocks the others."""

    buffered: int = 256 * MIB
    """Unfinished messages of all streams. Past it they are finished one after the other, none is refused."""

    unsent: int = MIB // 4
    """Answers of a stream that wait for the peer's windows. Past it no message of that stream is handed over."""

    header_list: int = 16 * 1024
    """Announced, counted as RFC 7541 counts; gRPC's own servers allow 8 to 16 KB. Past it the stream is refused."""

    header_block: int = 64 * 1024
    """What is decoded at all, before and after HPACK, in as many frames as 16 KB ones need and some: past it the state
    of the compression would be lost, or a flood of CONTINUATION would cost more than it may."""

    control: int = 256 * 1024
    """Acknowledgements and resets that wait because the peer does not read: many times what an honest one causes."""

    preface: float = 10.0
    """From the connection to the first SETTINGS."""

    keepalive: float = 60.0
    """Silence after which we ask whether the peer is there: without it a host that vanished keeps its streams."""

    keepalive_timeout: float = 20.0
    """Until the answer to that, and silence meanwhile."""

    drain_round_trip: float = 1.0
    """How long the first GOAWAY waits for its PING before the second one follows anyway."""


CONTINUATIONS = 16
"""Frames of one header block: four would do for 64 KB (CVE-2024-27316 and its relatives sent them without end)."""

SETTINGS_ENTRIES = 64
"""In one frame. There are nine settings."""

# ------------------------------------------------------------------------------------------------------ the allowance

ALLOWANCE = 10_000
"""Points that a connection may spend at once: 2,048 streams cancelled before they were answered, twice."""

ALLOWANCE_PER_SECOND = 1_000
"""Points that come back. What costs a point takes us some 2 to 5 us, so a flood at this rate takes under 1 % of a CPU
for each microsecond, and an honest peer never gets there."""

EARNED_BY_FRAME, BYTES_OF_A_POINT = 3, 64
"""Whoever is sent much may acknowledge much: points for a frame of DATA, and bytes of DATA for one more. grpcio answers
a message of one byte with two WINDOW_UPDATEs."""

COST_RESET = 2
"""RST_STREAM of a stream that had no answer yet (rapid reset, CVE-2023-44487). Envoy resets answered streams all the
time, those cost nothing; and all of its streams may be cancelled at once."""

COST_RESET_BUSY = 8
"""... whose call was at work that goes on: the bound on streams says nothing about that work. All 1024 of Envoy's may
be cancelled at once even so."""

COST_REFUSED = 5
"""A stream that was refused, broken or answered without reaching a call: its headers were decoded for nothing."""

COST_SETTINGS = 50
"""Walks over all streams. Honest peers send one or two, odd ones some in a test (CVE-2019-9515)."""

COST_PING = 10
"""100 a second are always answered; Envoy sends one every few seconds, grpc some while data flows (CVE-2019-9512)."""

COST_EMPTY = 10
"""DATA that carries nothing and ends nothing (CVE-2019-9518), and frames of unknown types, PRIORITY included."""

COST_LATE = 1
"""A frame on a stream that is gone: in flight while we reset it, or a flood."""

COST_TINY = 1
"""WINDOW_UPDATE of less than `TINY` bytes, which an honest peer sends in answer to what it got."""

TINY = 4096


class AbuseBudget:
    """Points of one connection: spent by what brings nothing, earned by time and by bytes sent to the peer."""

    __slots__ = ("_earned", "_points", "_then")

    def __init__(self, now: float) -> None:
        self._points = float(ALLOWANCE)
        self._then = now
        self._earned = 0

    def spend(self, cost: int, now: float, frames: int, size: int) -> bool:
        """Whether that is still bearable. `frames` of DATA, of `size` bytes, are what the peer has been sent so far."""
        self._points -= cost
        if self._points >= 0:
            return True
        earned = frames * EARNED_BY_FRAME + size // BYTES_OF_A_POINT
        self._points += (now - self._then) * ALLOWANCE_PER_SECOND + earned - self._earned
        self._points = min(self._points, float(ALLOWANCE))
        self._then, self._earned = now, earned
        return self._points >= 0
