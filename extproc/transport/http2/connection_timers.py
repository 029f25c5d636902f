"""The times of a connection: the wait for its preface, whether the peer is still there, and its graceful end."""

from __future__ import annotations

from extproc.transport.http2.interfaces import ConnectionState
from extproc.transport.http2.wire import LARGEST_ID, PING, Code, ProtocolError, frame, goaway

_ALIVE, _LEAVING = b"alive  ?", b"leaving?"
"""What our PINGs carry."""


class ConnectionTimers:
    """`due`: when `on_time` wants to be called."""

    def __init__(self, connection: ConnectionState) -> None:
        self._connection = connection
        self._limits = connection.limits
        self._begun = False
        self._asked: float | None = None
        """When we asked whether the peer is there."""
        self._goodbye: float | None = None
        """When the second GOAWAY follows the first one anyway."""
        self._last = False
        """No new stream is taken, the connection ends with its last one."""
        self.due = connection.now + self._limits.preface

    def begin(self) -> None:
        """The peer has said hello."""
        self._begun = True
        self._plan()

    def on_time(self) -> None:
        """Raises ProtocolError."""
        connection, limits, now = self._connection, self._limits, self._connection.now
        if now < self.due:
            return
        if not self._begun:
            raise ProtocolError(Code.SETTINGS_TIMEOUT, "no HTTP/2 preface")
        if self._goodbye is not None and now >= self._goodbye:
            self._say_last()
        if now < connection.heard + limits.keepalive:
            self._asked = None
        elif self._asked is None:
            self._asked = now
            connection.out.control(frame(PING, 0, 0, _ALIVE))
        elif now - self._asked >= limits.keepalive_timeout:
            raise ProtocolError(Code.NO_ERROR, "the peer is silent")
        self._plan()

    def drain(self) -> None:
        """First says that no new streams are wanted, then, when the peer has read that, which one was the last."""
        if self._goodbye is not None or self._last:
            return
        if not self._begun:
            self._connection.bid_farewell()
            self._connection.finish()
            return
        self._goodbye = self._connection.now + self._limits.drain_round_trip
        self._connection.out.control(goaway(LARGEST_ID, Code.NO_ERROR))
        self._connection.out.control(frame(PING, 0, 0, _LEAVING))
        self._plan()

    def on_ping_answered(self, payload: bytes) -> None:
        """Any PING of ours, or what pretends to be one."""
        if payload == _LEAVING and self._goodbye is not None:
            self._say_last()
            self._plan()

    def on_peer_leaves(self) -> None:
        """The peer opens no further stream."""
        self._last = True
        self.on_last_stream()

    def on_last_stream(self) -> None:
        """No stream is open."""
        if self._last and not self._connection.streams:
            self._connection.finish()

    def _say_last(self) -> None:
        self._goodbye, self._last = None, True
        self._connection.bid_farewell()
        self.on_last_stream()

    def _plan(self) -> None:
        limits = self._limits
        heard, asked = self._connection.heard, self._asked
        due = heard + limits.keepalive if asked is None else asked + limits.keepalive_timeout
        self.due = due if self._goodbye is None else min(due, self._goodbye)
