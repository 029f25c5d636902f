"""Preface, keepalive and end of a connection."""

from __future__ import annotations

from extproc.transport.http2 import ConnectionLimits
from extproc.transport.http2.wire import LARGEST_ID, PING, PREFACE, Code, frame, goaway, settings
from tests.unit.transport.http2.peer import Talk, echo, packed
from tests.unit.transport.http2.test_frames import HEAD, literal, word

LIMITS = ConnectionLimits()


def test_a_connection_without_preface_is_closed() -> None:
    for first in (b"", PREFACE[:5], PREFACE):
        talk = Talk(hello=False)
        talk.server.receive(first, talk.now)
        due = talk.server.next_deadline
        assert due == talk.now + LIMITS.preface
        talk.server.on_timer(due - 0.1)
        assert not talk.server.finished
        talk.server.on_timer(due)
        assert talk.server.finished


def test_a_silent_peer_is_pinged_and_kept_while_it_replies() -> None:
    talk = Talk(echo)
    talk.ask(b"x")
    began = talk.now
    for _ in range(20):
        talk.now = max(talk.now, talk.server.next_deadline)
        talk.pass_time(0)
        assert not talk.server.finished, "h2 answers our PING by itself"
    assert talk.now > began + 9 * LIMITS.keepalive


def test_a_vanished_peer_is_disconnected() -> None:
    talk = Talk(echo)
    talk.ask(b"x")
    asked = False
    for _ in range(5):
        talk.now = max(talk.now, talk.server.next_deadline)
        talk.server.on_timer(talk.now)
        asked |= talk.server.take_output()[3:4] == bytes([PING])
    assert asked
    assert talk.server.finished
    assert talk.calls[0].heard[-1] == "closed"


def test_an_idle_peer_that_sends_frames_is_never_pinged() -> None:
    talk = Talk(echo)
    for _ in range(50):
        talk.now += LIMITS.keepalive / 3
        talk.server.receive(frame(PING, 0, 0, bytes(8)), talk.now)
        talk.server.on_timer(talk.now)
        assert len(talk.server.take_output()) == 17
    assert not talk.server.finished


def test_a_drain_accepts_streams_in_flight_and_finishes_running_ones() -> None:
    talk = Talk(echo, hello=False)
    talk.server.take_output()
    open_ = [frame(1, 4, stream, literal(HEAD)) for stream in (1, 3, 5)]
    talk.server.receive(PREFACE + settings({}) + open_[0], talk.now)
    talk.server.take_output()
    talk.server.drain(talk.now)
    said = talk.server.take_output()
    assert said.startswith(goaway(LARGEST_ID, Code.NO_ERROR))
    ping = said[len(goaway(LARGEST_ID, Code.NO_ERROR)):]
    assert ping[3] == PING
    # A stream that was on its way is served; with the response to PING the peer has read our GOAWAY.
    talk.server.receive(open_[1], talk.now)
    talk.server.receive(ping[:4] + b"\x01" + ping[5:], talk.now)
    assert talk.server.take_output() == goaway(3, Code.NO_ERROR)
    talk.server.receive(open_[2], talk.now)
    assert len(talk.calls) == 2
    talk.server.receive(frame(0, 1, 1, packed(b"one")) + frame(0, 1, 3, packed(b"two")), talk.now)
    for call in talk.calls:
        assert not talk.server.finished
        call.peer.end()
        talk.server.take_output()
    assert [call.heard for call in talk.calls] == [[b"one", "half closed", "closed"], [b"two", "half closed", "closed"]]
    assert talk.server.finished


def test_an_idle_connection_ends_after_one_round_trip() -> None:
    talk = Talk(echo)
    talk.server.drain(talk.now)
    said = talk.server.take_output()
    assert not talk.server.finished
    talk.server.receive(said[-17:-13] + b"\x01" + said[-12:], talk.now)
    assert talk.server.take_output() == goaway(0, Code.NO_ERROR)
    assert talk.server.finished


def test_a_peer_that_does_not_reply_gets_the_final_goaway_anyway() -> None:
    talk = Talk(echo)
    talk.ask(b"x")
    talk.server.drain(talk.now)
    talk.server.drain(talk.now)
    talk.server.take_output()
    assert talk.server.next_deadline == talk.now + LIMITS.drain_round_trip
    talk.now += LIMITS.drain_round_trip
    talk.server.on_timer(talk.now)
    assert talk.server.take_output() == goaway(1, Code.NO_ERROR)
    # A stream that it opens meanwhile, with all that belongs to it, costs the running one nothing.
    talk.server.receive(frame(1, 4, 3, literal(HEAD)) + frame(0, 1, 3, packed(b"late")) + frame(3, 0, 3, word(8)),
                        talk.now)
    talk.server.receive(frame(0, 0, 1, packed(b"y")), talk.now)
    assert [call.messages for call in talk.calls] == [[b"x", b"y"]]
    assert not talk.server.finished


def test_a_connection_without_a_preface_is_closed_at_once_by_a_drain() -> None:
    talk = Talk(hello=False)
    talk.server.drain(talk.now)
    assert talk.server.finished


def test_a_shutdown_ends_every_stream_with_a_status() -> None:
    talk = Talk(echo)
    streams = [talk.ask(b"x"), talk.ask(b"y", end=True)]
    talk.server.shut_down()
    talk.go()
    assert [talk.responses[stream].status for stream in streams] == [(14, "the server is stopping")] * 2
    assert talk.goaways == [(Code.NO_ERROR, 3)]
    assert talk.server.finished
    assert [call.heard[-1] for call in talk.calls] == ["closed"] * 2


def test_running_streams_end_normally_after_a_goaway_of_the_peer() -> None:
    talk = Talk(echo)
    stream = talk.ask(b"x")
    talk.raw(goaway(0, Code.NO_ERROR))
    talk.say(stream, b"y", end=True)
    assert talk.responses[stream].messages == [b"x", b"y"]
    assert not talk.server.finished
    talk.calls[0].peer.end()
    talk.go()
    assert talk.responses[stream].ended
    assert talk.server.finished


def test_no_stream_is_opened_after_a_goaway_of_an_idle_peer() -> None:
    talk = Talk(echo)
    talk.server.receive(goaway(0, Code.NO_ERROR) + frame(1, 4, 1, literal(HEAD)), talk.now)
    assert talk.server.finished
    assert not talk.calls


def test_nothing_is_read_after_the_end() -> None:
    talk = Talk(echo)
    stream = talk.ask(b"x")
    data = frame(99, 0, 1, bytes(20_000)) + frame(0, 0, stream, packed(b"y"))
    talk.server.receive(data, talk.now)
    talk.server.receive(data, talk.now)
    talk.server.on_timer(talk.now + 1000)
    talk.server.shut_down()
    talk.server.on_connection_lost()
    assert talk.calls[0].heard == [b"x", "closed"]
