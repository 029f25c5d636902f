"""Every frame type as RFC 9113 requires, and what ends a stream or the connection."""

from __future__ import annotations

import struct

import hpack
import pytest
from h2.settings import SettingCodes

from extproc.transport.http2 import ConnectionLimits
from extproc.transport.http2.wire import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HAS_PRIORITY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Code,
    frame,
)
from tests.unit.transport.http2.peer import HEAD, Talk, echo, head, packed

BLOCK = hpack.Encoder().encode(HEAD)
"""Indexes fields: good for a connection's first request only."""


def literal(headers: list[tuple[str, str]]) -> bytes:
    """Without the table, so that it is valid at any time."""
    return b"".join(b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
                    for name, value in headers)


def setting(key: int, value: int) -> bytes:
    return frame(SETTINGS, 0, 0, struct.pack(">HI", key, value))


def word(value: int) -> bytes:
    return value.to_bytes(4)


P, F, S, C = Code.PROTOCOL_ERROR, Code.FRAME_SIZE_ERROR, Code.FLOW_CONTROL_ERROR, Code.COMPRESSION_ERROR

BREAKS_CONNECTION = {
    "DATA on stream 0": (P, frame(DATA, 0, 0, b"x")),
    "DATA on an idle stream": (P, frame(DATA, 0, 99, b"x")),
    "DATA on a stream of ours": (P, frame(DATA, 0, 2, b"x")),
    "DATA that is all padding length": (P, frame(DATA, PADDED, 1, b"\x05\0\0\0\0")),
    "padded DATA without a length": (P, frame(DATA, PADDED, 1)),
    "HEADERS on stream 0": (P, frame(HEADERS, END_HEADERS, 0, literal(HEAD))),
    "HEADERS on an even stream": (P, frame(HEADERS, END_HEADERS, 4, literal(HEAD))),
    "HEADERS with too much padding": (P, frame(HEADERS, END_HEADERS | PADDED, 3, b"\xff" + literal(HEAD)[:20])),
    "HEADERS without room for a priority": (P, frame(HEADERS, END_HEADERS | HAS_PRIORITY, 3, b"abc")),
    "padded HEADERS without a length": (F, frame(HEADERS, END_HEADERS | PADDED, 3)),
    "HEADERS that are no HPACK": (C, frame(HEADERS, END_HEADERS, 3, b"\xff\xff\xff\xff\xff\xff")),
    "HEADERS of an unknown index": (C, frame(HEADERS, END_HEADERS, 3, b"\xfe")),
    "a table larger than allowed": (C, frame(HEADERS, END_HEADERS, 3, b"\x3f\xe2\x1f" + literal(HEAD))),
    "headers cut off": (C, frame(HEADERS, END_HEADERS, 3, literal(HEAD)[:-1])),
    "a request on an old stream": (P, frame(RST_STREAM, 0, 1, word(8)) + frame(HEADERS, END_HEADERS, 1, literal(HEAD))),
    "DATA inside a header block": (P, frame(HEADERS, 0, 3, b"") + frame(DATA, 0, 1, packed(b"x"))),
    "PING inside a header block": (P, frame(HEADERS, 0, 3, b"") + frame(PING, 0, 0, bytes(8))),
    "an unknown frame inside a header block": (P, frame(HEADERS, 0, 3, b"") + frame(99, 0, 0, bytes(8))),
    "CONTINUATION of another stream": (P, frame(HEADERS, 0, 3, b"") + frame(CONTINUATION, END_HEADERS, 1, b"")),
    "CONTINUATION of nothing": (P, frame(CONTINUATION, END_HEADERS, 1, b"")),
    "PRIORITY on stream 0": (P, frame(PRIORITY, 0, 0, bytes(5))),
    "RST_STREAM on stream 0": (P, frame(RST_STREAM, 0, 0, word(8))),
    "RST_STREAM on an idle stream": (P, frame(RST_STREAM, 0, 99, word(8))),
    "RST_STREAM of an odd length": (F, frame(RST_STREAM, 0, 1, b"abc")),
    "SETTINGS on a stream": (P, frame(SETTINGS, 0, 1)),
    "SETTINGS of an odd length": (F, frame(SETTINGS, 0, 0, bytes(7))),
    "SETTINGS ACK with a payload": (F, frame(SETTINGS, ACK, 0, bytes(6))),
    "push that is no switch": (P, setting(SettingCodes.ENABLE_PUSH, 2)),
    "CONNECT that is no switch": (P, setting(SettingCodes.ENABLE_CONNECT_PROTOCOL, 2)),
    "an initial window over the limit": (S, setting(SettingCodes.INITIAL_WINDOW_SIZE, 2**31)),
    "frames smaller than allowed": (P, setting(SettingCodes.MAX_FRAME_SIZE, 16_383)),
    "frames larger than allowed": (P, setting(SettingCodes.MAX_FRAME_SIZE, 2**24)),
    "settings that make a window too large": (S, frame(WINDOW_UPDATE, 0, 1, word(2**31 - 1 - 65_535))
                                              + setting(SettingCodes.INITIAL_WINDOW_SIZE, 65_635)),
    "PUSH_PROMISE": (P, frame(PUSH_PROMISE, END_HEADERS, 1, word(2))),
    "PING on a stream": (P, frame(PING, 0, 1, bytes(8))),
    "PING of an odd length": (F, frame(PING, 0, 0, bytes(7))),
    "GOAWAY on a stream": (P, frame(GOAWAY, 0, 1, bytes(8))),
    "GOAWAY of an odd length": (F, frame(GOAWAY, 0, 0, bytes(7))),
    "WINDOW_UPDATE of an odd length": (F, frame(WINDOW_UPDATE, 0, 1, bytes(3))),
    "WINDOW_UPDATE of nothing": (P, frame(WINDOW_UPDATE, 0, 0, word(0))),
    "WINDOW_UPDATE on an idle stream": (P, frame(WINDOW_UPDATE, 0, 99, word(1))),
    "a window of the connection that is too large": (S, frame(WINDOW_UPDATE, 0, 0, word(2**31 - 1))),
    "a frame larger than allowed": (F, frame(DATA, 0, 1, bytes(16_385))),
    "an unknown frame larger than allowed": (F, frame(99, 0, 0, bytes(16_385))),
}


@pytest.mark.parametrize("name", BREAKS_CONNECTION)
def test_ends_the_connection(name: str) -> None:
    code, frames = BREAKS_CONNECTION[name]
    talk = Talk(echo)
    talk.ask(b"x")
    talk.raw(frames)
    assert talk.broken is code
    assert talk.goaways == [(code, 1)]
    assert talk.calls[0].heard == [b"x", "closed"]
    assert [line[0] for line in talk.lines] == ["http2_connection"]


BREAKS_STREAM = {
    "WINDOW_UPDATE of nothing": (P, lambda s: frame(WINDOW_UPDATE, 0, s, word(0))),
    "a window that is too large": (S, lambda s: frame(WINDOW_UPDATE, 0, s, word(2**31 - 1))),
    "PRIORITY of an odd length": (F, lambda s: frame(PRIORITY, 0, s, bytes(4))),
    "trailers that do not end the stream": (P, lambda s: frame(HEADERS, END_HEADERS, s, literal([("a", "b")]))),
    "trailers with a pseudo-header": (P, lambda s: frame(HEADERS, END_HEADERS | END_STREAM, s, literal(HEAD[:1]))),
    "trailers with capitals": (P, lambda s: frame(HEADERS, END_HEADERS | END_STREAM, s, literal([("A", "b")]))),
    "DATA after the end": (Code.STREAM_CLOSED, lambda s: frame(DATA, END_STREAM, s) + frame(DATA, 0, s, b"x")),
    "HEADERS after the end": (Code.STREAM_CLOSED, lambda s: frame(DATA, END_STREAM, s)
                              + frame(HEADERS, END_HEADERS | END_STREAM, s, literal([("a", "b")]))),
}


@pytest.mark.parametrize("name", BREAKS_STREAM)
def test_ends_the_stream_only(name: str) -> None:
    code, frames = BREAKS_STREAM[name]
    talk = Talk(echo)
    other, stream = talk.ask(b"x"), talk.ask(b"x")
    talk.raw(frames(stream))
    assert talk.responses[stream].reset is code
    assert talk.calls[1].heard[-1] == "closed"
    talk.say(other, b"y")
    assert talk.responses[other].messages == [b"x", b"y"]


MALFORMED = {
    "no path": [one for one in HEAD if one[0] != ":path"],
    "no scheme": [one for one in HEAD if one[0] != ":scheme"],
    "no method": [one for one in HEAD if one[0] != ":method"],
    "an empty path": head(_path=""),
    "twice": [*HEAD[:1], *HEAD],
    "unknown": [(":protocol", "x"), *HEAD],
    "a status": [(":status", "200"), *HEAD],
    "late": [*HEAD[1:], HEAD[0]],
    "capitals": [*HEAD, ("X-Big", "1")],
    "a colon": [*HEAD, ("x:y", "1")],
    "a space": [*HEAD, ("x y", "1")],
    "no name": [*HEAD, ("", "1")],
    "a line break": [*HEAD, ("x", "1\r\nb: 2")],
    "a null": [*HEAD, ("x", "1\0")],
    "a value that begins with a space": [*HEAD, ("x", " 1")],
    "a value that ends with a tab": [*HEAD, ("x", "1\t")],
    "connection": [*HEAD, ("connection", "close")],
    "transfer-encoding": [*HEAD, ("transfer-encoding", "chunked")],
    "te": head(te="gzip"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_requests_are_reset_and_the_next_one_is_served(name: str) -> None:
    talk = Talk(echo)
    talk.server.receive(frame(HEADERS, END_HEADERS, 1, literal(MALFORMED[name])), talk.now)
    assert talk.server.take_output() == frame(RST_STREAM, 0, 1, word(Code.PROTOCOL_ERROR))
    assert not talk.calls
    data = frame(HEADERS, END_HEADERS, 3, literal(HEAD)) + frame(DATA, 0, 3, packed(b"x"))
    talk.server.receive(data, talk.now)
    assert talk.calls[0].messages == [b"x"]


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01", PREFACE[:-1] + b"x"])
def test_other_protocols_are_refused_at_the_first_wrong_byte(first: bytes) -> None:
    talk = Talk(hello=False)
    talk.server.take_output()
    talk.server.receive(first, talk.now)
    assert talk.server.finished
    assert talk.server.take_output()[3] == GOAWAY


@pytest.mark.parametrize("first", [frame(PING, 0, 0, bytes(8)), frame(SETTINGS, ACK, 0), frame(99, 0, 0),
                                   frame(HEADERS, END_HEADERS, 1, BLOCK)])
def test_settings_come_first(first: bytes) -> None:
    talk = Talk(hello=False)
    talk.server.receive(PREFACE + first, talk.now)
    assert talk.server.finished
    assert not talk.calls


def test_settings_are_acknowledged_and_our_announcements_are_true() -> None:
    talk = Talk(limits=ConnectionLimits(streams=7, stream_window=70_000, header_list=5000, connection_window=90_000))
    assert talk.settings_acked == 1
    theirs = talk.client.remote_settings
    assert theirs.max_concurrent_streams == 7
    assert theirs.initial_window_size == 70_000
    assert theirs.max_header_list_size == 5000
    assert theirs.max_frame_size == 16_384
    assert talk.client.outbound_flow_control_window == 90_000
    talk.client.update_settings({SettingCodes.HEADER_TABLE_SIZE: 0})
    talk.go()
    assert talk.settings_acked == 2


def test_a_peer_without_a_table_can_read_our_headers_before_and_after_announcing_it() -> None:
    talk = Talk(echo)
    for table in (4096, 0, 65_536, 100):
        talk.client.update_settings({SettingCodes.HEADER_TABLE_SIZE: table})
        stream = talk.ask(b"x", end=True)
        talk.calls[-1].peer.end()
        talk.go()
        assert talk.responses[stream].status == (0, "")


def test_pings_are_answered_on_a_silent_connection_and_while_calls_are_busy() -> None:
    talk = Talk()
    talk.client.ping(b"12345678")
    talk.go()
    talk.server.set_write_paused(True)
    talk.client.ping(b"abcdefgh")
    talk.go()
    talk.server.set_write_paused(False)
    talk.go()
    assert talk.pongs == [b"12345678", b"abcdefgh"]


def test_headers_in_pieces_with_padding_and_priority() -> None:
    talk = Talk(echo)
    talk.server.receive(
        frame(HEADERS, PADDED | HAS_PRIORITY, 1, b"\x03" + word(0) + b"\x10" + BLOCK[:3] + bytes(3))
        + frame(CONTINUATION, 0, 1, BLOCK[3:9]) + frame(CONTINUATION, 0, 1, b"")
        + frame(CONTINUATION, END_HEADERS, 1, BLOCK[9:]) + frame(DATA, 0, 1, packed(b"x")), talk.now)
    assert talk.calls[0].heard == [b"x"]


def test_meaningless_frames_are_ignored() -> None:
    talk = Talk(echo)
    stream = talk.ask(b"x")
    talk.raw(frame(PRIORITY, 0, 55, bytes(5)), frame(PRIORITY, 0, stream, bytes(5)), frame(99, 0xFF, stream, b"what"),
             frame(77, 0, 0), setting(999, 1), frame(DATA, 0xF6 & ~PADDED, stream, packed(b"odd flags")))
    talk.say(stream, b"y")
    assert talk.responses[stream].messages == [b"x", b"odd flags", b"y"]


def test_the_reserved_bit_is_ignored() -> None:
    talk = Talk()
    stream = talk.ask(b"x")
    talk.raw(frame(DATA, 0, stream | 2**31, packed(b"y")), frame(WINDOW_UPDATE, 0, stream, word(2**31 | 1)))
    assert talk.calls[0].messages == [b"x", b"y"]


def test_frames_in_flight_at_our_end_are_tolerated_and_counted() -> None:
    talk = Talk(lambda call, _: call.peer.end())
    stream = talk.ask(b"x")
    window = talk.client.outbound_flow_control_window
    frames = [frame(DATA, 0, stream, packed(b"late")), frame(WINDOW_UPDATE, 0, stream, word(5)),
              frame(HEADERS, END_HEADERS | END_STREAM, stream, literal([("x", "y")])),
              frame(RST_STREAM, 0, stream, word(8))]
    for one in frames:
        talk.server.receive(one, talk.now)
    assert not talk.server.finished
    talk.server.take_output()
    assert talk.ask(b"next")
    assert len(talk.calls) == 2
    assert window > 0


def test_late_data_is_restored_to_the_connection_window() -> None:
    talk = Talk(lambda call, _: call.peer.end(), limits=ConnectionLimits(connection_window=70_000))
    stream = talk.ask(b"x")
    for _ in range(20):
        talk.server.receive(frame(DATA, 0, stream, bytes(16_000)), talk.now)
    assert not talk.server.finished


def test_the_header_table_survives_refused_streams() -> None:
    talk = Talk(echo, limits=ConnectionLimits(streams=1))
    one = talk.ask(b"x")
    assert talk.client.remote_settings.max_concurrent_streams == 1
    encoder = hpack.Encoder()
    encoder.encode(HEAD)
    refused = encoder.encode([*HEAD, ("x-new", "indexed")])
    talk.server.receive(frame(HEADERS, END_HEADERS, 3, refused), talk.now)
    assert frame(RST_STREAM, 0, 3, word(Code.REFUSED_STREAM)) in talk.server.take_output()
    talk.client.end_stream(one)
    talk.go()
    talk.calls[0].peer.end()
    talk.go()
    talk.server.receive(frame(HEADERS, END_HEADERS, 5, encoder.encode([*HEAD, ("x-new", "indexed")])), talk.now)
    assert talk.calls[1].metadata == {"x-new": "indexed"}


def test_too_much_metadata_is_refused_and_far_too_much_ends_the_connection() -> None:
    talk = Talk(echo, limits=ConnectionLimits(header_list=1000, header_block=3000))
    stream = talk.ask(b"x", headers=head(x_large="a" * 1500))
    assert talk.responses[stream].status == (8, "metadata of more than 1000 bytes")
    assert talk.responses[talk.ask(b"x")].messages == [b"x"]
    talk.ask(headers=head(x_large="a" * 2900))
    assert talk.broken is Code.ENHANCE_YOUR_CALM
