"""HTTP/2 protection: bounds of sizes and times, and a budget for frames that cost work and achieve nothing.

Every number has its reason beside it. The socket may be TCP, so the peer need not be Envoy.
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Bounds of one connection. Sizes are bytes, times seconds."""

    streams: int = 2048
    """Concurrent streams. Envoy opens 1024 on a connection and then another connection. A smaller bound would refuse
    streams that it sends before it has read our SETTINGS."""

    message: int = 65 * MIB
    """One gRPC message: the largest body (64 MB) in one piece, and what surrounds it."""

    stream_window: int = MIB // 4
    """What a stream can hold while its call accepts nothing. A larger message gets more window as it arrives."""

    connection_window: int = 16 * MIB
    """Restored as it is used, whatever single streams do: a stalled stream never blocks the others."""

    buffered: int = 256 * MIB
    """Incomplete messages of all streams. Past the bound they are completed one after the other; none is refused."""

    unsent: int = MIB // 4
    """Output of a stream that waits for the peer's windows. Past the bound no message is delivered to its call."""

    header_list: int = 16 * 1024
    """Announced to the peer, counted as RFC 7541 counts. gRPC's own servers allow 8 to 16 KB. Past it the stream is
    refused."""

    header_block: int = 64 * 1024
    """A header block, before and after HPACK decoding. Past it the connection ends: without decoding, the HPACK state
    would be lost, and a flood of CONTINUATION frames must stay cheap."""

    control: int = 256 * 1024
    """Acknowledgements and resets that wait because the peer does not read: many times what an honest peer causes."""

    preface: float = 10.0
    """From the connection to the first SETTINGS."""

    keepalive: float = 60.0
    """Silence after which we ping the peer. Otherwise a vanished host would keep its streams."""

    keepalive_timeout: float = 20.0
    """Silence after such a ping that ends the connection."""

    drain_round_trip: float = 1.0
    """The first GOAWAY waits this long for its PING before the second one follows anyway."""


CONTINUATIONS = 16
"""Frames of one header block. Four suffice for 64 KB (CVE-2024-27316 and similar attacks send them without end)."""

SETTINGS_ENTRIES = 64
"""Entries in one SETTINGS frame. There are nine settings."""

# --------------------------------------------------------------------------------------------------- the abuse budget

ALLOWANCE = 10_000
"""Points that a connection may spend at once: 2,048 streams, cancelled twice before their first response."""

ALLOWANCE_PER_SECOND = 1_000
"""Points that are restored. What costs a point takes 2 to 5 us of CPU, so a flood at this rate takes under 1 % of a
core for each microsecond. An honest peer never reaches it."""

EARNED_BY_FRAME, BYTES_OF_A_POINT = 3, 64
"""A peer that receives much may acknowledge much: points for each DATA frame sent, and bytes of DATA for one more
point. grpcio replies to a message of one byte with two WINDOW_UPDATE frames."""

COST_RESET = 2
"""RST_STREAM of a stream without a response (rapid reset, CVE-2023-44487). Envoy resets streams with responses all the
time, which costs nothing; and it may cancel all of its streams at once."""

COST_RESET_BUSY = 8
"""RST_STREAM of a stream whose call continues to work: the bound on streams does not bound that work. Even so, Envoy
may cancel all of its 1024 streams at once."""

COST_REFUSED = 5
"""A stream that was refused, broken or ended without reaching a call: its headers were decoded in vain."""

COST_SETTINGS = 50
"""SETTINGS visit all streams. Honest peers send one or two frames, some test tools a few more (CVE-2019-9515)."""

COST_PING = 10
"""100 PINGs a second are always answered. Envoy sends one every few seconds, grpc some while data flows
(CVE-2019-9512)."""

COST_EMPTY = 10
"""DATA without content and end (CVE-2019-9518), and frames of unknown types, PRIORITY included."""

COST_LATE = 1
"""A frame of a closed stream: in flight while we reset it, or a flood."""

COST_TINY = 1
"""WINDOW_UPDATE of less than `TINY` bytes, which an honest peer sends in reply to what it received."""

TINY = 4096


class AbuseBudget:
    """Points of one connection: spent by frames that achieve nothing, earned by time and by bytes sent to the peer."""

    __slots__ = ("_earned", "_points", "_updated_at")

    def __init__(self, now: float) -> None:
        self._points = float(ALLOWANCE)
        self._updated_at = now
        self._earned = 0

    def spend(self, cost: int, now: float, frames: int, size: int) -> bool:
        """Spends points. Returns False when none are left. `frames` and `size`: DATA frames and bytes sent to the peer
        so far."""
        self._points -= cost
        if self._points >= 0:
            return True
        earned = frames * EARNED_BY_FRAME + size // BYTES_OF_A_POINT
        self._points += (now - self._updated_at) * ALLOWANCE_PER_SECOND + earned - self._earned
        self._points = min(self._points, float(ALLOWANCE))
        self._updated_at, self._earned = now, earned
        return self._points >= 0
