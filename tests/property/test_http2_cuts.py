"""A conversation that is cut at any bytes has the same events for the calls and the same output for the client."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from extproc.transport.http2 import ConnectionLimits
from extproc.transport.http2.wire import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HAS_PRIORITY,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    RST_STREAM,
    WINDOW_UPDATE,
    frame,
    settings,
)
from tests.unit.transport.http2.peer import HEAD, Call, Talk, packed
from tests.unit.transport.http2.test_frames import literal, word

LIMITS = ConnectionLimits(stream_window=200_000, connection_window=70_000, unsent=3000, message=5000)


def react(call: Call, data: bytes) -> None:
    """Sends each message back twice; is busy at times, lowers its priority at some time, ends on request."""
    if data[:1] == b"c":
        call.peer.lower_priority()
    call.peer.send(data)
    call.peer.send(data)
    if data[:1] == b"b":
        call.peer.resume()
    if data[:1] == b"e":
        call.peer.end()
    call.takes = data[:1] != b"b"


def spoken(script: list[tuple[int, int, bytes]]) -> bytes:
    """A client that opens four streams and then follows the script: action, stream, data."""
    block = literal(HEAD)
    parts = [PREFACE, settings({INITIAL_WINDOW_SIZE: 300})]
    for stream in (1, 3, 5, 7):
        parts += [frame(HEADERS, HAS_PRIORITY, stream, bytes(5) + block[:20]),
                  frame(CONTINUATION, END_HEADERS, stream, block[20:])]
    loose = {}
    for what, number, data in script:
        stream = 2 * (number % 4) + 1
        match what:
            case 0 | 1:
                whole = loose.pop(stream, b"") + packed(data)
                parts.append(frame(DATA, 0, stream, whole))
            case 2:
                whole = loose.pop(stream, b"") + packed(data)
                parts.append(frame(DATA, 0, stream, whole[:-3]))
                loose[stream] = whole[-3:]
            case 3:
                parts.append(frame(DATA, PADDED, stream, bytes([number]) + loose.pop(stream, b"") + bytes(number)))
            case 4:
                parts.append(frame(DATA, END_STREAM, stream, loose.pop(stream, b"") + packed(data)))
            case 5:
                parts.append(frame(WINDOW_UPDATE, 0, stream, word(1 + len(data) * 10)))
                parts.append(frame(WINDOW_UPDATE, 0, 0, word(1 + len(data) * 10)))
            case 6:
                parts.append(settings({INITIAL_WINDOW_SIZE: len(data) * 5}))
            case 7:
                parts += [frame(PING, 0, 0, bytes(8)), frame(PRIORITY, 0, stream, bytes(5)), frame(99, 3, 0, data)]
            case 8:
                parts.append(frame(RST_STREAM, 0, stream, word(8)))
    return b"".join(parts)


def heard(data: bytes, cuts: list[int]) -> tuple[list[list[bytes | str]], bytes, bool]:
    """Events of the calls, DATA and trailers by stream, and whether the connection ended with an error."""
    talk = Talk(react, limits=LIMITS, hello=False)
    out: dict[int, bytes] = {}
    last = 0
    for cut in [*sorted(set(cuts)), len(data)]:
        talk.server.receive(data[last:cut], talk.now)
        last = cut
        while written := talk.server.take_output():
            at = 0
            while at < len(written):
                size, kind = int.from_bytes(written[at:at + 3]), written[at + 3]
                stream = int.from_bytes(written[at + 5:at + 9])
                payload = written[at + 9:at + 9 + size]
                if kind in (DATA, HEADERS, RST_STREAM):
                    # Frames may be cut differently, the bytes of a stream are the same.
                    out[stream] = out.get(stream, b"") + (payload if kind == DATA else bytes([kind]) + payload)
                at += 9 + size
    result = "".join(f"{stream}:{out[stream].hex()} " for stream in sorted(out))
    return [call.heard for call in talk.calls], result.replace("0120", "01", 1).encode(), talk.server.finished


steps = st.tuples(st.integers(0, 8), st.integers(0, 11),
                  st.sampled_from([b"", b"a" * 30, b"busy", b"end", b"c" * 700, b"b" * 100, b"d" * 6000]))


@given(st.lists(steps, max_size=25), st.lists(st.integers(0, 10_000), max_size=12))
def test_any_cut_is_the_same_conversation(script: list[tuple[int, int, bytes]], cuts: list[int]) -> None:
    data = spoken(script)
    whole = heard(data, [])
    part = heard(data, [cut % len(data) for cut in cuts])
    assert len(part[0]) == 4
    if any(what == 8 for what, _, _ in script) or crossed(script):
        # A reset overtakes what waits; up to there it is the same.
        assert part[2] == whole[2]
        for one, other in zip(part[0], whole[0], strict=True):
            assert all(a == b or "closed" in (a, b) for a, b in zip(one, other, strict=False))
    else:
        assert part == whole


def crossed(script: list[tuple[int, int, bytes]]) -> bool:
    """True if a frame follows the end of a stream, which causes a reset."""
    ended = set()
    for what, number, _ in script:
        if what <= 4 and number % 4 in ended:
            return True
        if what == 4:
            ended.add(number % 4)
    return False


def test_every_single_byte_of_a_conversation() -> None:
    script = [(0, 0, b"a" * 30), (2, 1, b"c" * 700), (3, 1, b""), (5, 1, b"c" * 700), (0, 2, b"busy"), (0, 2, b"x"),
              (6, 0, b"a" * 100), (7, 0, b"zz"), (4, 3, b"last"), (4, 2, b"end"), (1, 0, b"d" * 700)]
    data = spoken(script)
    assert heard(data, list(range(1, len(data)))) == heard(data, [])
