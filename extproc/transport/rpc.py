"""The seam between the transport and what runs on it: a stream of messages in, a stream of messages out, as bytes.

A transport (grpcio, or the one of `extproc.transport.native`) makes a `Call` for every RPC with the method it was asked
for, hands it each message as it arrives and the end of the stream; the call answers through its `Peer`. Nothing here
knows protobuf, and nothing waits: a call that is busy says so, and the transport holds back what follows, by not
granting the sender more bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Protocol


class Status(IntEnum):
    """The codes of gRPC that are used here."""

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
    """The other end of one RPC, as its call sees it. All methods are called on the event loop's thread only; none of
    them blocks or raises, also not when the stream is gone already (then they do nothing)."""

    def send(self, message: bytes) -> None:
        """One message, in order. It leaves with everything else that is sent during the same wake-up of the loop;
        what the other side's windows do not take yet is kept, and no further messages are read from it meanwhile."""

    def end(self, status: Status = Status.OK, text: str = "") -> None:
        """Ends the RPC after what was sent. `text` goes into `grpc-message`."""

    def calm(self) -> None:
        """What is waited for has been sent: from now on the call's messages and answers may wait for their turn. Until
        then the transport may work on them before those of others."""

    def resume(self) -> None:
        """The call takes messages again (after `message` returned False)."""


class Call(Protocol):
    """One running RPC. The transport calls it on the event loop's thread, one method at a time; a call never raises."""

    def message(self, data: bytes) -> bool:
        """One whole message. True: ready for the next; False: hold back what follows until `Peer.resume`."""

    def half_closed(self) -> None:
        """The other side sends no further message. Comes after its last message was taken."""

    def closed(self) -> None:
        """The stream is gone: both sides have ended it, it was reset, its deadline passed or its connection was
        lost. Comes exactly once, whatever happened before, and nothing comes after it."""


Method = Callable[[Mapping[str, str], Peer], Call]
"""A new RPC: its metadata (lower-case names, no pseudo-headers, no binary ones) and its peer -> the call."""

Methods = Mapping[str, Method]
"""The path of a method (`/package.Service/Name`) -> what serves it. Other paths are UNIMPLEMENTED."""
