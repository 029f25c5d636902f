"""What the frame handlers know of a connection: the interface that `Connection` fulfils.

`control`, `opening` and `life` work on it; `connection` calls them. So the arrows between these modules point one way.
"""

from __future__ import annotations

from typing import Protocol

from extproc.transport.http2.abuse_budget import Limits
from extproc.transport.http2.headers import HeaderReader
from extproc.transport.http2.send_scheduler import SendScheduler
from extproc.transport.http2.stream import Stream, StreamOwner
from extproc.transport.rpc import Methods


class HeaderBlock:
    """A header block of which the end has not come yet. `flags`: those of its HEADERS frame."""

    def __init__(self, stream_id: int, flags: int, first: bytes) -> None:
        self.stream_id = stream_id
        self.flags = flags
        self.parts = [first]
        self.size = len(first)


class PeerEvents(Protocol):
    """What the timers of a connection are told of its peer."""

    def on_ping_answered(self, payload: bytes) -> None: ...
    def on_peer_leaves(self) -> None: ...


class ConnectionState(StreamOwner, Protocol):
    """One connection. `Connection` says what each member means."""

    now: float
    heard: float
    last_id: int
    last_served: int
    next_deadline: float
    plain: bool
    block: HeaderBlock | None
    deadlines: dict[int, float]
    streams: dict[int, Stream]
    methods: Methods
    limits: Limits
    out: SendScheduler
    reader: HeaderReader

    @property
    def life(self) -> PeerEvents: ...
    def spend(self, cost: int) -> None: ...
    def late(self, stream_id: int) -> None: ...
    def bid_farewell(self) -> None: ...
    def finish(self) -> None: ...
