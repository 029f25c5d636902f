"""The seam between a transport and what runs on it: streams of messages in both directions, as bytes.

A transport (grpcio, or `extproc.transport.native`) creates a `Call` for every RPC with the requested method, and
delivers each message as it arrives and the end of the stream. The call sends through its `Peer`. Nothing here knows
protobuf, and nothing blocks: a busy call says so, and the transport holds back further messages by granting the sender
no window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Protocol


class Status(IntEnum):
    """The gRPC status codes that are used here."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class Peer(Protocol):
    """The client of one RPC, as its call sees it.

    All methods are called on the event loop's thread only. None of them blocks or raises. They do nothing if the stream
    is gone already.
    """

    def send(self, message: bytes) -> None:
        """Sends one message, in order.

        It leaves with everything else that is sent during the same wake-up of the event loop. What the client's windows
        do not accept yet is kept, and meanwhile no further messages are delivered to the call.
        """

    def end(self, status: Status = Status.OK, text: str = "") -> None:
        """Ends the RPC after everything that was sent. `text` becomes `grpc-message`."""

    def lower_priority(self) -> None:
        """The first response has been sent: from now on messages of this call may wait for their turn. Until then the
        transport may process them before those of other calls."""

    def resume(self) -> None:
        """The call accepts messages again, after `message` has returned False."""


class Call(Protocol):
    """One running RPC. The transport calls it on the event loop's thread, one method at a time. A call never raises."""

    def message(self, data: bytes) -> bool:
        """One whole message. Returns True if the call accepts the next one, False to hold back further ones until
        `Peer.resume`."""

    def half_closed(self) -> None:
        """The client sends no further message. Called after its last message was accepted."""

    def closed(self) -> None:
        """The stream is gone: both sides have ended it, it was reset, its deadline passed or its connection was lost.
        Called exactly once, as the last method."""


class _NoCall:
    """Accepts and ignores everything."""

    def message(self, data: bytes) -> bool:
        return True

    def half_closed(self) -> None:
        """Ignored."""

    def closed(self) -> None:
        """Ignored."""


NO_CALL: Call = _NoCall()
"""The call of a stream that has none yet, or no longer."""

Method = Callable[[Mapping[str, str], Peer], Call]
"""A new RPC: its metadata (lower-case names, no pseudo-headers, no binary fields) and its peer -> the call."""

Methods = Mapping[str, Method]
"""The path of a method (`/package.Service/Name`) -> its implementation. Other paths are UNIMPLEMENTED."""
