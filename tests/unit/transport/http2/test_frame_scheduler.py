"""Frames that were read together: urgent streams go first, and nothing else changes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.transport.http2 import ConnectionLimits
from extproc.transport.http2.frame_scheduler import urgent_first
from extproc.transport.http2.stream import Stream
from extproc.transport.http2.wire import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    HEADER,
    HEADER_SIZE,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    PING,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    settings,
)
from tests.unit.transport.http2.peer import HEAD, Call, Talk, packed
from tests.unit.transport.http2.test_frames import literal, word

CALM, URGENT, LATE, NEW = (1, 5), (3, 7), 9, 13
LAST = 11


def message(stream: int, data: bytes) -> bytes:
    return frame(DATA, 0, stream, packed(data))


def opened(stream: int) -> bytes:
    return frame(HEADERS, END_HEADERS, stream, literal(HEAD))


def answering(call: Call, data: bytes) -> None:
    """Lowers its priority after the first message."""
    call.peer.send(data)
    call.peer.lower_priority()


class Reading:
    """A talk whose writes are inspected one by one. Stream 1 has low priority; only 3 is urgent."""

    def __init__(self, **limits: Any) -> None:
        self.talk = Talk(answering, limits=ConnectionLimits(**limits))
        self.talk.ask(b"first")
        self.talk.ask()

    def read(self, *frames: bytes) -> None:
        self.talk.server.receive(b"".join(frames), self.talk.now)

    def write(self) -> list[tuple[int, bytes]]:
        """The messages in the next write, by their streams."""
        data, at, found = self.talk.server.take_output(), 0, []
        while at < len(data):
            head, _, stream = HEADER.unpack_from(data, at)
            at += HEADER_SIZE + (head >> 8)
            if head & 0xFF == DATA:
                found.append((stream, data[at - (head >> 8) + 5:at]))
        return found

    def heard(self, call: int) -> list[bytes]:
        return self.talk.calls[call].messages


def test_urgent_streams_are_answered_before_others_are_processed() -> None:
    reading = Reading()
    reading.read(message(1, b"token"), message(3, b"ask"), message(1, b"token 2"))
    assert reading.heard(0) == [b"first"]
    assert reading.heard(1) == [b"ask"]
    assert reading.talk.server.has_output
    assert reading.write() == [(3, b"ask")]
    assert reading.talk.server.has_output
    assert reading.write() == [(1, b"token"), (1, b"token 2")]
    assert not reading.talk.server.has_output


def test_a_new_stream_is_urgent() -> None:
    reading = Reading()
    reading.read(message(1, b"token"), opened(5), message(1, b"token 2"), message(5, b"ask"))
    assert reading.write() == [(5, b"ask")]
    assert reading.write() == [(1, b"token"), (1, b"token 2")]


def test_no_stream_stays_urgent_forever() -> None:
    reading = Reading()
    reading.read(message(3, b"ask"))
    assert reading.write() == [(3, b"ask")]
    reading.read(message(1, b"token"), message(3, b"token"))
    assert reading.write() == [(1, b"token"), (3, b"token")]


def test_low_priority_streams_are_counted_while_they_exist() -> None:
    """Without any, no frame is inspected twice; and every end of a stream is counted."""
    reading = Reading()
    server = reading.talk.server
    assert server.low_priority_streams == 1
    reading.read(message(3, b"a"), message(1, b"b"))
    assert reading.write() == [(3, b"a")], "3 goes first"
    assert reading.write() == [(1, b"b")]
    assert server.low_priority_streams == 2, "3 has been answered"
    reading.talk.calls[0].peer.lower_priority()
    assert server.low_priority_streams == 2, "said twice, counted once"
    reading.read(frame(RST_STREAM, 0, 1, bytes(4)))
    reading.write()
    assert server.low_priority_streams == 1
    reading.talk.calls[0].peer.lower_priority()
    reading.talk.calls[1].peer.end()
    reading.write()
    assert server.low_priority_streams == 0


def test_no_frame_is_overtaken_twice() -> None:
    reading = Reading()
    reading.read(message(1, b"token"), message(3, b"ask"))
    reading.read(message(1, b"token 2"), opened(5), message(5, b"ask"))
    assert reading.write() == [(3, b"ask"), (1, b"token"), (1, b"token 2"), (5, b"ask")]
    assert not reading.talk.server.has_output


def test_a_partial_frame_waits_for_its_rest() -> None:
    reading = Reading()
    half = message(3, b"more of it")
    reading.read(message(1, b"token"), opened(5), message(5, b"ask"), half[:12])
    assert reading.write() == [(5, b"ask")]
    reading.read(half[12:])
    assert reading.write() == [(1, b"token"), (3, b"more of it")]


def test_postponed_frames_do_not_wait_without_output() -> None:
    reading = Reading()
    reading.read(message(1, b"token"), frame(DATA, 0, 3, packed(b"ask")[:3]))
    assert reading.write() == [(1, b"token")]
    assert not reading.talk.server.has_output


def test_output_without_window_delays_no_other_stream() -> None:
    reading = Reading()
    reading.talk.raw(settings({INITIAL_WINDOW_SIZE: 0}), frame(WINDOW_UPDATE, 0, 1, word(100)))
    reading.read(message(1, b"token"), message(3, b"ask"))
    assert reading.write() == [(1, b"token")]
    assert not reading.talk.server.has_output
    reading.read(frame(WINDOW_UPDATE, 0, 3, word(100)))
    assert reading.write() == [(3, b"ask")]


def test_a_full_socket_does_not_stop_postponed_frames() -> None:
    reading = Reading()
    reading.talk.server.set_write_paused(True)
    reading.read(message(1, b"token"), message(3, b"ask"))
    while reading.talk.server.has_output:
        assert not reading.write()
    assert reading.heard(0) == [b"first", b"token"]
    reading.talk.server.set_write_paused(False)
    assert sorted(reading.write()) == [(1, b"token"), (3, b"ask")]


def test_a_violation_in_postponed_frames_ends_the_connection() -> None:
    reading = Reading()
    reading.read(message(1, b"token"), message(3, b"ask"), bytes([0xFF] * 9))
    assert reading.write() == [(3, b"ask")]
    assert not reading.talk.server.finished
    reading.write()
    assert reading.talk.server.finished
    assert not reading.talk.server.has_output
    assert [call.heard for call in reading.talk.calls] == [[b"first", b"token", "closed"], [b"ask", "closed"]]


def test_a_stream_that_needs_the_room_of_a_reset_comes_after_it() -> None:
    reading = Reading(streams=2)
    reading.read(frame(RST_STREAM, 0, 1, word(8)), opened(5), message(5, b"ask"))
    assert reading.write() == [(5, b"ask")]
    assert reading.talk.calls[0].heard == [b"first", "closed"]


# ---------------------------------------------------------------------------------------------------- the choice alone
STREAMS = cast(dict[int, Stream], {**{number: SimpleNamespace(urgent=False) for number in CALM},
                                   **{number: SimpleNamespace(urgent=True) for number in URGENT}})


@pytest.mark.parametrize("odd", [
    frame(PING, 0, 0, bytes(8)), frame(SETTINGS, 0, 0), frame(HEADERS, 0, NEW, b"half a block"),
    frame(CONTINUATION, END_HEADERS, NEW, b"the other"), frame(99, 0, 3), frame(DATA, 0, NEW, b"before its head"),
    frame(HEADERS, END_HEADERS, CALM[0], b"trailers"), frame(RST_STREAM, 0, NEW, word(8)),
    frame(HEADERS, END_HEADERS, NEW | 1 << 31, b"the highest bit means nothing")])
def test_unusual_frames_keep_all_in_order(odd: bytes) -> None:
    usual = message(1, b"token") + message(3, b"ask")
    assert urgent_first(usual, STREAMS, LAST, 5) == (message(3, b"ask"), message(1, b"token"))
    assert urgent_first(odd + usual, STREAMS, LAST, 5) is None
    assert urgent_first(usual + odd, STREAMS, LAST, 5) is None


def test_a_stream_over_the_limit_keeps_its_place() -> None:
    data = message(1, b"token") + opened(NEW)
    assert urgent_first(data, STREAMS, LAST, 1) is not None
    assert urgent_first(data, STREAMS, LAST, 0) is None


STREAM_IDS = (*CALM, *URGENT, LATE, NEW, NEW + 2)

frames = st.one_of(
    st.tuples(st.sampled_from((DATA, RST_STREAM, WINDOW_UPDATE)), st.sampled_from(STREAM_IDS)),
    st.tuples(st.just(WINDOW_UPDATE), st.just(0)),
    st.tuples(st.just(HEADERS), st.sampled_from((NEW, NEW + 2))))


@given(st.lists(frames, max_size=20), st.integers(0, 8))
def test_every_stream_keeps_its_order(asked: list[tuple[int, int]], tail: int) -> None:
    came = [frame(kind, END_HEADERS if kind == HEADERS else 0, stream, b"%d" % at)
            for at, (kind, stream) in enumerate(asked)]
    rest = message(1, b"half of one")[:tail]
    found = urgent_first(b"".join(came) + rest, STREAMS, LAST, 5)
    if found is None:
        return
    first, later = split(found[0]), split(found[1].removesuffix(rest) if rest else found[1])
    assert found[1].endswith(rest)
    assert sorted(first + later) == sorted(came), "nothing is lost and nothing is there twice"
    for number in STREAM_IDS:
        assert [one for one in first + later if stream_of(one) == number] == [
            one for one in came if stream_of(one) == number]
    assert [one for one in first if one[3] == HEADERS] == [one for one in came if one[3] == HEADERS]
    assert {stream_of(one) for one in first} <= {0, *URGENT, NEW, NEW + 2}
    assert {stream_of(one) for one in later} <= {*CALM, LATE, NEW}, "NEW is skipped where the next one was opened first"


def stream_of(one: bytes) -> int:
    return int.from_bytes(one[5:9])


def split(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        after = at + HEADER_SIZE + int.from_bytes(data[at:at + 3])
        found.append(data[at:after])
        at = after
    return found
