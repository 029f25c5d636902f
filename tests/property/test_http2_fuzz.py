"""Random and damaged frames: no exception, no hang, every call is closed once, bounds hold, and the output is valid
HTTP/2."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from extproc.transport.http2 import ConnectionLimits
from extproc.transport.http2.wire import END_HEADERS, GOAWAY, HEADERS, LARGEST_MAX_FRAME, PREFACE, frame, settings
from tests.unit.transport.http2.peer import HEAD, Call, Talk, packed
from tests.unit.transport.http2.test_frames import literal

LIMITS = ConnectionLimits(streams=5, stream_window=2000, connection_window=70_000, unsent=3000, message=5000,
                          buffered=3000, control=5000, header_list=400, header_block=1000)
START = PREFACE + settings({}) + b"".join(frame(HEADERS, END_HEADERS, stream, literal(HEAD)) for stream in (1, 3))


def react(call: Call, data: bytes) -> None:
    call.peer.send(data)
    if b"\x03" in data:
        call.peer.end()
    call.takes = b"\x02" not in data
    if b"\x04" in data:
        call.peer.resume()


def check(data: bytes, cuts: list[int]) -> None:
    """Feeds the bytes, lets time pass, and checks the output and the remaining state."""
    talk = Talk(react, limits=LIMITS, hello=False)
    written, last = b"", 0
    for number, cut in enumerate([*sorted({cut % len(data) for cut in cuts}), len(data)]):
        talk.server.receive(data[last:cut], talk.now)
        last = cut
        talk.server.set_write_paused(number % 3 == 2)
        for _ in range(1000):
            part = talk.server.take_output()
            written += part
            if not part and not talk.server.has_output:
                break
        else:
            raise AssertionError("it never ends")
        for call in talk.calls:
            if not call.takes:
                call.peer.resume()
        assert len(talk.server.streams) <= LIMITS.streams
    talk.server.set_write_paused(False)
    written += talk.server.take_output()
    talk.server.on_timer(talk.now + 1000)
    talk.server.shut_down()
    written += talk.server.take_output()
    talk.server.on_connection_lost()
    assert all(call.heard.count("closed") == 1 and call.heard[-1] == "closed" for call in talk.calls)
    assert not talk.server.streams
    assert not any(event == "call_crashed" for event, _ in talk.lines)
    assert is_http2(written)


def is_http2(written: bytes) -> bool:
    """Whole frames of known types, a header block never interrupted, nothing on a stream after its end."""
    at, kinds = 0, []
    while at < len(written):
        word, flags, stream = struct.unpack_from(">IBI", written, at)
        size, kind = word >> 8, word & 0xFF
        assert size <= 16_384 < LARGEST_MAX_FRAME
        assert kind in (0, 1, 3, 4, 6, 7, 8)
        assert (stream == 0) == (kind in (4, 6, 7)) or kind == 8
        assert kind != HEADERS or flags & END_HEADERS
        kinds.append(kind)
        at += 9 + size
    return at == len(written) and kinds[:1] == [4] and kinds[-1] == GOAWAY


kinds = st.one_of(st.integers(0, 10), st.integers(0, 255))
flags = st.one_of(st.sampled_from([0, 1, 4, 5, 8, 9, 0x20, 0x25, 0x2D]), st.integers(0, 255))
numbers = st.one_of(st.sampled_from([0, 1, 3, 5, 7, 9]), st.integers(0, 2**32 - 1))
payloads = st.one_of(
    st.binary(max_size=60), st.sampled_from([b"", bytes(4), b"\0\0\0\x01", bytes(5), bytes(8), b"\x7f\xff\xff\xff"]),
    st.binary(max_size=40).map(packed), st.just(literal(HEAD)), st.just(b"\x05" + packed(b"padded") + bytes(5)),
    st.tuples(st.integers(0, 9), st.integers(0, 2**32 - 1)).map(lambda one: struct.pack(">HI", *one)),
    st.integers(0, 3000).map(lambda size: packed(bytes(size))))
frames = st.builds(frame, kinds, flags, numbers, payloads)
cuts = st.lists(st.integers(0, 5000), max_size=6)
damages = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=5)


@given(st.lists(frames, max_size=30), cuts)
def test_random_frames(some: list[bytes], cuts: list[int]) -> None:
    check(START + b"".join(some), cuts)


@given(st.lists(frames, max_size=12), damages, cuts)
def test_damaged_bytes(some: list[bytes], damage: list[tuple[int, int]], cuts: list[int]) -> None:
    data = bytearray(START + packed(b"x") + b"".join(some))
    for at, value in damage:
        data[at % len(data)] = value
    check(bytes(data), cuts)


@given(st.binary(max_size=300), cuts)
def test_random_bytes_after_the_preface(some: bytes, cuts: list[int]) -> None:
    check(START + some, cuts)


@given(st.binary(max_size=200), cuts)
def test_random_header_blocks(block: bytes, cuts: list[int]) -> None:
    check(START + frame(HEADERS, END_HEADERS, 5, block) + frame(0, 1, 5, packed(b"x")), cuts)
