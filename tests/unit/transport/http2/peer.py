"""A client of the `h2` library and our connection, with nothing but bytes between them.

`h2` checks every frame that it gets, so whatever comes out of the connection here is legal HTTP/2.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import h2.config
import h2.connection
import h2.events

from extproc.transport.http2 import Connection, ConnectionLimits
from extproc.transport.http2.wire import Code
from extproc.transport.rpc import Peer

PATH = "/test.Test/Talk"
HEAD = [(":method", "POST"), (":scheme", "http"), (":path", PATH), (":authority", "a"),
        ("content-type", "application/grpc"), ("te", "trailers")]


def packed(*messages: bytes) -> bytes:
    """In gRPC's wire format."""
    return b"".join(struct.pack(">BI", 0, len(message)) + message for message in messages)


def head(**changed: str) -> list[tuple[str, str]]:
    """The head of a request; `_` in a name stands for a pseudo-header's colon in front, or a hyphen."""
    new = {(":" + name[1:] if name[0] == "_" else name).replace("_", "-"): value for name, value in changed.items()}
    return [(name, new.pop(name, value)) for name, value in HEAD] + list(new.items())


class Call:
    """Records the events of a call in order. `react` handles a message; `takes` is the result of `message`."""

    def __init__(self, metadata: Mapping[str, str], peer: Peer, react: Callable[[Call, bytes], None]) -> None:
        self.metadata = metadata
        self.peer = peer
        self.heard: list[bytes | str] = []
        self.takes = True
        self._react = react

    def message(self, data: bytes) -> bool:
        assert type(data) is bytes
        assert self.heard[-1:] != ["closed"]
        self.heard.append(data)
        self._react(self, data)
        return self.takes

    def half_closed(self) -> None:
        self.heard.append("half closed")

    def closed(self) -> None:
        self.heard.append("closed")

    @property
    def messages(self) -> list[bytes]:
        return [one for one in self.heard if isinstance(one, bytes)]


def silent(_call: Call, _data: bytes) -> None:
    """Accepts a message and sends nothing."""


def echo(call: Call, data: bytes) -> None:
    """Sends the message back."""
    call.peer.send(data)


@dataclass
class Response:
    """What the client received on one stream."""

    heads: list[dict[str, str]] = field(default_factory=list)
    body: bytes = b""
    ended: bool = False
    reset: Code | None = None

    @property
    def messages(self) -> list[bytes]:
        found, at = [], 0
        while at < len(self.body):
            _, size = struct.unpack_from(">BI", self.body, at)
            found.append(self.body[at + 5:at + 5 + size])
            at += 5 + size
        return found

    @property
    def status(self) -> tuple[int, str]:
        return int(self.heads[-1]["grpc-status"]), self.heads[-1].get("grpc-message", "")


class Talk:
    """Client and connection. `piece`: bytes that the connection reads at once. `eager`: the client restores windows."""

    def __init__(self, react: Callable[[Call, bytes], None] = silent, *, limits: ConnectionLimits | None = None,
                 piece: int = 0, eager: bool = True, settings: Mapping[int, int] | None = None,
                 hello: bool = True) -> None:
        self.now = 100.0
        self.wakes = 0
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.calls: list[Call] = []
        self.responses: dict[int, Response] = {}
        self.goaways: list[tuple[Code, int]] = []
        self.settings_acked = 0
        self.pongs: list[bytes] = []
        self._react = react
        self._piece = piece
        self._eager = eager
        self.server = Connection({PATH: self._open}, limits or ConnectionLimits(), self.now, self._wake,
                                 lambda event, **details: self.lines.append((event, details)))
        self.client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        if hello:
            self.client.initiate_connection()
            if settings:
                self.client.update_settings(dict(settings))
            self.go()

    def _open(self, metadata: Mapping[str, str], peer: Peer) -> Call:
        self.calls.append(Call(metadata, peer, self._react))
        return self.calls[-1]

    def _wake(self) -> None:
        self.wakes += 1

    # --------------------------------------------------------------------------------------------------- what tests say

    def ask(self, *messages: bytes, end: bool = False, headers: Iterable[tuple[str, str]] = HEAD) -> int:
        """A new stream with these messages."""
        stream = self.client.get_next_available_stream_id()
        self.client.send_headers(stream, list(headers), end_stream=end and not messages)
        if messages:
            self.say(stream, *messages, end=end)
        else:
            self.go()
        return stream

    def say(self, stream: int, *messages: bytes, end: bool = False) -> None:
        """More messages on the stream."""
        self.push(stream, packed(*messages), end=end)

    def push(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """Bytes of the stream, as far as the windows allow, in frames of the largest size."""
        while True:
            size = min(len(data), self.client.local_flow_control_window(stream), 16_384)
            last = size == len(data)
            if not size and data:
                raise AssertionError(f"stuck with {len(data)} bytes")
            self.client.send_data(stream, data[:size], end_stream=end and last)
            data = data[size:]
            self.go()
            if last:
                return

    def raw(self, *frames: bytes) -> None:
        """Bytes that `h2` would not send."""
        self.go()
        self._to_server(b"".join(frames))
        self.go()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.server.on_timer(self.now)
        self.go()

    def go(self) -> None:
        """Exchanges bytes until both sides have no more output."""
        while True:
            asked = self.client.data_to_send()
            self._to_server(asked)
            answered = self._from_server()
            if not asked and not answered:
                return
            if answered:
                for event in self.client.receive_data(answered):
                    self.on_event(event)

    def _to_server(self, data: bytes) -> None:
        step = self._piece or len(data) or 1
        for at in range(0, len(data), step):
            self.server.receive(data[at:at + step], self.now)

    def _from_server(self) -> bytes:
        parts = []
        while part := self.server.take_output():
            parts.append(part)
        return b"".join(parts)

    # ------------------------------------------------------------------------------------------------ what they learn

    def on_event(self, event: h2.events.Event) -> None:
        response = self.responses.setdefault(getattr(event, "stream_id", None) or 0, Response())
        match event:
            case h2.events.ResponseReceived() | h2.events.TrailersReceived():
                response.heads.append(dict(event.headers))
            case h2.events.DataReceived():
                response.body += event.data
                if self._eager:
                    self.client.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.StreamEnded():
                response.ended = True
            case h2.events.StreamReset():
                response.reset = Code(event.error_code)
            case h2.events.ConnectionTerminated():
                self.goaways.append((Code(event.error_code), event.last_stream_id))
            case h2.events.SettingsAcknowledged():
                self.settings_acked += 1
            case h2.events.PingAckReceived():
                self.pongs.append(event.ping_data)

    @property
    def broken(self) -> Code | None:
        """The error of the GOAWAY that ended the connection."""
        return self.goaways[-1][0] if self.server.finished and self.goaways else None
