"""What the frame handlers know of a connection: the interface that `Connection` implements.

`control`, `opening` and `connection_timers` use it, and `connection` calls them. This keeps their imports one-way.
"""

from __future__ import annotations

from typing import Protocol

from extproc.transport.http2.abuse_budget import ConnectionLimits
from extproc.transport.http2.headers import HeaderReader
from extproc.transport.http2.send_scheduler import SendScheduler
from extproc.transport.http2.stream import Stream, StreamOwner
from extproc.transport.rpc import Methods


class HeaderBlock:
    """A header block whose end has not arrived. `flags` are those of its HEADERS frame."""

    def __init__(self, stream_id: int, flags: int, first: bytes) -> None:
        self.stream_id = stream_id
        self.flags = flags
        self.parts = [first]
        self.size = len(first)


class PeerEvents(Protocol):
    """Events of the peer that the connection's timers need."""

    def on_ping_answered(self, payload: bytes) -> None: ...
    def on_peer_goaway(self) -> None: ...


class ConnectionState(StreamOwner, Protocol):
    """One connection. `Connection` documents the members."""

    now: float
    last_received: float
    last_id: int
    last_served: int
    next_deadline: float
    accepts_any_frame: bool
    header_block: HeaderBlock | None
    deadlines: dict[int, float]
    streams: dict[int, Stream]
    methods: Methods
    limits: ConnectionLimits
    out: SendScheduler
    reader: HeaderReader

    @property
    def timers(self) -> PeerEvents: ...
    def spend(self, cost: int) -> None: ...
    def spend_on_closed_stream(self, stream_id: int) -> None: ...
    def send_goaway(self) -> None: ...
    def finish(self) -> None: ...
