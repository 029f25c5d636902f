"""Frames that cost work and achieve nothing: an honest peer never reaches the bounds, a flood ends the connection."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import count, islice

import pytest
from h2.settings import SettingCodes

from extproc.transport.http2 import ConnectionLimits
from extproc.transport.http2.abuse_budget import (
    ALLOWANCE,
    ALLOWANCE_PER_SECOND,
    COST_PING,
    COST_RESET,
    SETTINGS_ENTRIES,
)
from extproc.transport.http2.stream import Stream
from extproc.transport.http2.wire import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Code,
    frame,
    goaway,
    settings,
)
from tests.unit.transport.http2.peer import Call, Talk, echo, head, packed
from tests.unit.transport.http2.test_frames import HEAD, literal, word

OPEN = literal(HEAD)


def opened(stream: int) -> bytes:
    return frame(HEADERS, END_HEADERS, stream, OPEN)


def rapid_reset() -> Iterator[bytes]:
    for stream in count(3, 2):
        yield opened(stream) + frame(RST_STREAM, 0, stream, word(8))


def busy_reset() -> Iterator[bytes]:
    for stream in count(3, 2):
        yield opened(stream) + frame(DATA, 0, stream, packed(b"busy")) + frame(RST_STREAM, 0, stream, word(8))


def broken_streams() -> Iterator[bytes]:
    """The peer makes us reset the streams (the "MadeYouReset" variant)."""
    for stream in count(3, 2):
        yield opened(stream) + frame(WINDOW_UPDATE, 0, stream, word(0))


def refused_streams() -> Iterator[bytes]:
    for stream in count(3, 2):
        yield frame(HEADERS, END_HEADERS | END_STREAM, stream, literal(head(_path="/no")))


def continuations() -> Iterator[bytes]:
    yield frame(HEADERS, 0, 3, OPEN)
    while True:
        yield frame(CONTINUATION, 0, 3, b"")


def large_headers() -> Iterator[bytes]:
    yield frame(HEADERS, 0, 3, OPEN)
    while True:
        yield frame(CONTINUATION, 0, 3, bytes(16_384))


def same(one: bytes) -> Iterator[bytes]:
    while True:
        yield one


FLOODS = {
    "rapid reset": (rapid_reset, 6000),
    "reset of busy calls": (busy_reset, 1500),
    "streams that break a rule": (broken_streams, 2500),
    "streams that are refused": (refused_streams, 2500),
    "CONTINUATION without end": (continuations, 20),
    "headers without end": (large_headers, 10),
    "SETTINGS": (lambda: same(frame(SETTINGS, 0, 0)), 300),
    "SETTINGS of many entries": (lambda: same(frame(SETTINGS, 0, 0, bytes(6 * (SETTINGS_ENTRIES + 1)))), 1),
    "SETTINGS ACK": (lambda: same(frame(SETTINGS, 1, 0)), 1500),
    "PING": (lambda: same(frame(PING, 0, 0, bytes(8))), 1500),
    "PING ACK": (lambda: same(frame(PING, 1, 0, bytes(8))), 1500),
    "empty DATA": (lambda: same(frame(DATA, 0, 1)), 1500),
    "DATA of padding": (lambda: same(frame(DATA, PADDED, 1, b"\x01\0")), 1500),
    "PRIORITY": (lambda: same(frame(PRIORITY, 0, 9, bytes(5))), 1500),
    "unknown frames": (lambda: same(frame(99, 0, 0)), 1500),
    "windows by the byte": (lambda: same(frame(WINDOW_UPDATE, 0, 0, word(1))), 12_000),
    "windows of a stream by the byte": (lambda: same(frame(WINDOW_UPDATE, 0, 1, word(1))), 12_000),
}


@pytest.mark.parametrize("name", FLOODS)
def test_floods_end_the_connection(name: str) -> None:
    flood, frames = FLOODS[name]
    def react(call: Call, data: bytes) -> None:
        call.takes = data != b"busy"

    talk = Talk(react)
    talk.ask(b"x")
    for at, one in enumerate(islice(flood(), frames)):
        talk.now += 1e-6
        talk.server.receive(one, talk.now)
        last = talk.server.take_output()
        if talk.server.finished:
            assert last.endswith(goaway(talk.server.last_id, Code.ENHANCE_YOUR_CALM, talk.lines[-1][1]["reason"]))
            assert all(call.heard[-1] == "closed" for call in talk.calls)
            assert at > 0 or frames == 1
            return
    raise AssertionError(f"{frames} frames were taken")


def test_a_window_that_is_granted_byte_by_byte() -> None:
    """Data dribble (CVE-2019-9511): every byte would cost a frame."""
    talk = Talk(lambda call, _: call.peer.send(bytes(100_000)), eager=False,
                settings={SettingCodes.INITIAL_WINDOW_SIZE: 1})
    stream = talk.ask(b"x")
    for _ in range(12_000):
        talk.server.receive(frame(WINDOW_UPDATE, 0, stream, word(1)), talk.now)
        talk.server.take_output()
    assert talk.server.finished


def _live_streams() -> int:
    gc.collect()
    return sum(isinstance(one, Stream) for one in gc.get_objects())


def test_streams_that_are_reset_with_queued_output_leave_nothing_behind() -> None:
    talk = Talk(echo, eager=False, settings={SettingCodes.INITIAL_WINDOW_SIZE: 100_000})
    talk.ask(bytes(65_000), bytes(526))
    before = _live_streams()
    for pause in (False, True):
        talk.server.set_write_paused(pause)
        for _ in range(100):
            stream = talk.ask(b"waits")
            talk.client.reset_stream(stream)
            talk.go()
    del talk.calls[1:]  # they hold their streams
    assert _live_streams() == before


def test_a_flood_of_late_frames() -> None:
    talk = Talk(lambda call, _: call.peer.end())
    stream = talk.ask(b"x")
    for _ in range(ALLOWANCE + 1):
        talk.server.receive(frame(RST_STREAM, 0, stream, word(8)), talk.now)
    assert talk.server.finished


def test_envoy_may_cancel_all_streams_at_once_and_streams_with_responses_always() -> None:
    talk = Talk(echo)
    streams = [talk.ask() for _ in range(500)]
    for stream in streams:
        talk.client.reset_stream(stream)
    talk.go()
    for _ in range(2 * ALLOWANCE // COST_RESET // 5):
        stream = talk.ask(b"x")
        talk.client.reset_stream(stream)
    talk.go()
    assert not talk.server.finished
    assert not talk.server.streams


def test_envoy_may_cancel_all_its_streams_at_once_while_their_calls_work() -> None:
    def react(call: Call, _: bytes) -> None:
        call.takes = False

    talk = Talk(react)
    streams = [talk.ask(b"x") for _ in range(1024)]
    for stream in streams:
        talk.client.reset_stream(stream)
    talk.go()
    assert not talk.server.finished
    assert not talk.server.streams


def test_regular_pings_are_always_answered() -> None:
    talk = Talk()
    for _ in range(3 * ALLOWANCE // COST_PING):
        talk.now += COST_PING / ALLOWANCE_PER_SECOND
        talk.server.receive(frame(PING, 0, 0, bytes(8)), talk.now)
        assert len(talk.server.take_output()) == 17


def test_a_client_that_acknowledges_every_small_message() -> None:
    """Window updates of stream and connection for every event, while no time passes."""
    talk = Talk(echo)
    stream = talk.ask()
    for _ in range(ALLOWANCE):
        talk.server.receive(frame(DATA, 0, stream, packed(b"x")), talk.now)
        talk.server.take_output()
        talk.server.receive(frame(WINDOW_UPDATE, 0, stream, word(6)) + frame(WINDOW_UPDATE, 0, 0, word(6)), talk.now)
    assert not talk.server.finished


def test_streams_over_the_announced_limit_are_refused_and_may_be_retried() -> None:
    talk = Talk(echo, limits=ConnectionLimits(streams=3))
    streams = [talk.ask(b"x") for _ in range(3)]
    talk.server.receive(frame(HEADERS, END_HEADERS, 99, OPEN), talk.now)
    assert talk.server.take_output() == frame(RST_STREAM, 0, 99, word(Code.REFUSED_STREAM))
    talk.client.reset_stream(streams[0])
    talk.go()
    talk.server.receive(opened(101), talk.now)
    assert len(talk.calls) == 4


def test_a_peer_that_sends_and_never_reads() -> None:
    talk = Talk(limits=ConnectionLimits(control=5000))
    talk.ask(b"x")
    talk.server.set_write_paused(True)
    for _ in range(400):
        talk.now += 1
        talk.server.receive(frame(PING, 0, 0, bytes(8)), talk.now)
    assert talk.server.finished
    assert talk.calls[0].heard[-1] == "closed"


def test_output_for_a_peer_that_does_not_read_is_bounded() -> None:
    talk = Talk(lambda call, _: call.peer.send(bytes(10_000)), limits=ConnectionLimits(unsent=100_000))
    stream = talk.ask()
    talk.server.set_write_paused(True)
    for _ in range(1000):
        talk.client.send_data(stream, packed(bytes(100)))
    talk.go()
    assert len(talk.calls[0].messages) <= 11


def test_repeated_window_settings_in_one_frame_visit_the_streams_once() -> None:
    """A frame of 64 entries costs no more than one of two."""
    talk = Talk(echo, hello=False)
    talk.server.receive(PREFACE + settings({}) + opened(1), talk.now)
    walks = 0

    class Counting(dict[int, object]):
        def values(self) -> object:  # type: ignore[override]
            nonlocal walks
            walks += 1
            return super().values()

    talk.server.streams = Counting(talk.server.streams)  # type: ignore[assignment]
    entry = settings({SettingCodes.INITIAL_WINDOW_SIZE: 5})[9:] + settings({SettingCodes.INITIAL_WINDOW_SIZE: 9})[9:]
    talk.server.receive(frame(SETTINGS, 0, 0, entry * (SETTINGS_ENTRIES // 2)), talk.now)
    assert walks == 1
    assert not talk.server.finished
