"""The timers of a connection: waiting for its preface, checking that the peer is alive, and its graceful end."""

from __future__ import annotations

from extproc.transport.http2.interfaces import ConnectionState
from extproc.transport.http2.wire import LARGEST_ID, PING, Code, ProtocolError, frame, goaway

_ALIVE, _LEAVING = b"alive  ?", b"leaving?"
"""The payloads of our PINGs."""


class ConnectionTimers:
    """`due`: when `on_timer` must be called."""

    def __init__(self, connection: ConnectionState) -> None:
        self._connection = connection
        self._limits = connection.limits
        self._settings_received = False
        self._ping_sent_at: float | None = None
        """When the peer was pinged; None if no reply is expected."""
        self._final_goaway_due: float | None = None
        """When the second GOAWAY follows the first one anyway."""
        self._ends_with_last_stream = False
        """No new stream is accepted; the connection ends with its last one."""
        self.due = connection.now + self._limits.preface

    def on_settings_received(self) -> None:
        """The peer's preface is complete."""
        self._settings_received = True
        self._update_due()

    def on_timer(self) -> None:
        """Raises ProtocolError if the peer is silent for too long."""
        connection, limits, now = self._connection, self._limits, self._connection.now
        if now < self.due:
            return
        if not self._settings_received:
            raise ProtocolError(Code.SETTINGS_TIMEOUT, "no HTTP/2 preface")
        if self._final_goaway_due is not None and now >= self._final_goaway_due:
            self._send_final_goaway()
        if now < connection.last_received + limits.keepalive:
            self._ping_sent_at = None
        elif self._ping_sent_at is None:
            self._ping_sent_at = now
            connection.out.send_control(frame(PING, 0, 0, _ALIVE))
        elif now - self._ping_sent_at >= limits.keepalive_timeout:
            raise ProtocolError(Code.NO_ERROR, "the peer is silent")
        self._update_due()

    def drain(self) -> None:
        """Announces the end with a first GOAWAY. When the peer has read it, a second one names the last stream."""
        if self._final_goaway_due is not None or self._ends_with_last_stream:
            return
        if not self._settings_received:
            self._connection.send_goaway()
            self._connection.finish()
            return
        self._final_goaway_due = self._connection.now + self._limits.drain_round_trip
        self._connection.out.send_control(goaway(LARGEST_ID, Code.NO_ERROR))
        self._connection.out.send_control(frame(PING, 0, 0, _LEAVING))
        self._update_due()

    def on_ping_answered(self, payload: bytes) -> None:
        """A PING with ACK, of ours or forged."""
        if payload == _LEAVING and self._final_goaway_due is not None:
            self._send_final_goaway()
            self._update_due()

    def on_peer_goaway(self) -> None:
        """The peer opens no further stream."""
        self._ends_with_last_stream = True
        self.on_last_stream()

    def on_last_stream(self) -> None:
        """No stream is open."""
        if self._ends_with_last_stream and not self._connection.streams:
            self._connection.finish()

    def _send_final_goaway(self) -> None:
        self._final_goaway_due, self._ends_with_last_stream = None, True
        self._connection.send_goaway()
        self.on_last_stream()

    def _update_due(self) -> None:
        limits = self._limits
        last_received, ping_sent_at = self._connection.last_received, self._ping_sent_at
        due = last_received + limits.keepalive if ping_sent_at is None else ping_sent_at + limits.keepalive_timeout
        self.due = due if self._final_goaway_due is None else min(due, self._final_goaway_due)
