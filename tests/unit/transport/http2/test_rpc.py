"""One RPC as the client and the call see it: messages, ends, refusals, deadlines."""

from __future__ import annotations

import pytest

from extproc.transport.http2 import ConnectionLimits
from extproc.transport.http2.wire import Code
from extproc.transport.rpc import Status
from tests.unit.transport.http2.peer import PATH, Call, Talk, echo, head, packed

OK = {":status": "200", "content-type": "application/grpc"}


def test_messages_go_both_ways_until_both_sides_have_ended() -> None:
    talk = Talk(echo)
    stream = talk.ask(b"one")
    call = talk.calls[0]
    assert talk.responses[stream].heads == [OK]
    assert talk.responses[stream].messages == [b"one"]
    talk.say(stream, b"", b"three")
    assert talk.responses[stream].messages == [b"one", b"", b"three"]
    talk.say(stream, b"four", end=True)
    assert call.heard == [b"one", b"", b"three", b"four", "half closed"]
    call.peer.end()
    talk.go()
    response = talk.responses[stream]
    assert response.heads == [OK, {"grpc-status": "0"}]
    assert response.ended
    assert response.reset is None
    assert call.heard[-1] == "closed"
    assert not talk.server.streams


def test_nothing_is_sent_before_the_call_sends() -> None:
    talk = Talk()
    stream = talk.ask(b"one")
    assert stream not in talk.responses


def test_an_end_before_any_message_is_one_frame_of_trailers() -> None:
    talk = Talk(lambda call, _: call.peer.end(Status.NOT_FOUND, "no such thing"))
    stream = talk.ask(b"one", end=True)
    assert talk.responses[stream].heads == [{**OK, "grpc-status": "5", "grpc-message": "no such thing"}]
    assert talk.responses[stream].ended


def test_a_call_that_ends_early_frees_the_stream_of_a_sending_client() -> None:
    talk = Talk(lambda call, _: call.peer.end())
    stream = talk.ask(b"one", b"two")
    assert talk.responses[stream].ended
    assert talk.responses[stream].reset is Code.NO_ERROR
    assert talk.calls[0].heard == [b"one", "closed"]


def test_nothing_is_sent_after_the_end_and_closed_comes_once() -> None:
    talk = Talk(echo)
    stream = talk.ask(b"one", end=True)
    peer = talk.calls[0].peer
    for _ in range(2):
        peer.end(Status.INTERNAL, "x")
        peer.send(b"late")
        peer.resume()
        talk.go()
    assert talk.responses[stream].messages == [b"one"]
    assert talk.responses[stream].status == (13, "x")
    assert talk.calls[0].heard.count("closed") == 1


@pytest.mark.parametrize(("text", "wire"), [
    ("50% of ü\n", "50%25 of %C3%BC%0A"), ("a" * 2000, "a" * 1024), ("%" * 1000, "%25" * 341)])
def test_the_text_of_a_status_is_percent_encoded_and_bounded(text: str, wire: str) -> None:
    talk = Talk(lambda call, _: call.peer.end(Status.UNKNOWN, text))
    assert talk.responses[talk.ask(b"")].status == (2, wire)


def test_metadata_holds_no_fields_of_the_transport() -> None:
    talk = Talk()
    talk.ask(headers=[*head(grpc_timeout="9S", x_role="select", x_raw_bin="AAAA"), ("x-twice", "a"), ("x-twice", "b")])
    assert talk.calls[0].metadata == {"x-role": "select", "x-twice": "a,b"}


@pytest.mark.parametrize("content_type", ["application/grpc+proto", "application/grpc;v=1"])
def test_other_content_types_of_grpc_are_accepted(content_type: str) -> None:
    talk = Talk(echo)
    stream = talk.ask(b"x", headers=head(content_type=content_type))
    assert talk.responses[stream].messages == [b"x"]


@pytest.mark.parametrize(("headers", "status"), [
    (head(content_type="application/json"), "415"), (head(content_type="application/grpcweb"), "415"),
    (head()[:4], "415"), (head(_method="GET"), "405")])
def test_other_requests_get_an_http_status(headers: list[tuple[str, str]], status: str) -> None:
    talk = Talk()
    stream = talk.ask(headers=headers)
    assert talk.responses[stream].heads == [{":status": status}]
    assert talk.responses[stream].ended
    assert not talk.calls


def test_unknown_methods_are_unimplemented() -> None:
    talk = Talk()
    stream = talk.ask(b"x", headers=head(_path="/no/Such"))
    assert talk.responses[stream].status == (12, "no method /no/Such")
    assert not talk.calls


@pytest.mark.parametrize(("data", "status"), [
    (b"\x01" + packed(b"zipped")[1:], 12), (b"\x07" + packed(b"odd")[1:], 13), (packed(bytes(101)), 8),
    (b"\x00\xff\xff\xff\xff", 8)])
def test_invalid_messages_end_the_call(data: bytes, status: int) -> None:
    talk = Talk(limits=ConnectionLimits(message=100))
    stream = talk.ask(bytes(100))
    talk.push(stream, data)
    assert talk.responses[stream].status[0] == status
    assert talk.calls[0].heard == [bytes(100), "closed"]


def test_a_stream_that_ends_inside_a_message() -> None:
    talk = Talk()
    stream = talk.ask()
    talk.push(stream, packed(b"whole") + packed(b"half")[:-1], end=True)
    assert talk.responses[stream].status == (13, "the stream ended inside a message")
    assert talk.calls[0].heard == [b"whole", "closed"]


def test_the_middle_of_a_message_that_looks_like_a_message() -> None:
    talk = Talk()
    stream = talk.ask()
    trap = packed(b"trap")
    talk.push(stream, packed(b"start" + trap)[:10])
    talk.push(stream, trap)
    talk.say(stream, b"next")
    assert talk.calls[0].messages == [b"start" + trap, b"next"]


def test_trailers_of_the_client_end_its_side() -> None:
    talk = Talk()
    stream = talk.ask(b"one")
    talk.client.send_headers(stream, [("x-sum", "1")], end_stream=True)
    talk.go()
    assert talk.calls[0].heard == [b"one", "half closed"]


def test_a_cancelled_stream_is_closed() -> None:
    talk = Talk()
    stream = talk.ask(b"one")
    talk.client.reset_stream(stream, Code.CANCEL)
    talk.go()
    assert talk.calls[0].heard == [b"one", "closed"]
    talk.calls[0].peer.send(b"late")
    talk.go()
    assert stream not in talk.responses


def test_a_lost_connection_closes_every_call() -> None:
    talk = Talk()
    talk.ask(b"one")
    talk.ask(b"two")
    talk.server.on_connection_lost()
    assert [call.heard[-1] for call in talk.calls] == ["closed", "closed"]


def test_a_deadline_ends_the_call() -> None:
    talk = Talk()
    stream = talk.ask(b"one", headers=head(grpc_timeout="250m"))
    assert talk.server.next_deadline == talk.now + 0.25
    talk.pass_time(0.2)
    assert stream not in talk.responses
    talk.pass_time(0.06)
    assert talk.responses[stream].status[0] == 4
    assert talk.calls[0].heard == [b"one", "closed"]
    assert talk.server.next_deadline > talk.now + 1


@pytest.mark.parametrize(("timeout", "status"), [("0n", 4), ("1", 13), ("123456789S", 13), ("-1S", 13)])
def test_expired_and_malformed_timeouts(timeout: str, status: int) -> None:
    talk = Talk()
    stream = talk.ask(headers=head(grpc_timeout=timeout))
    assert talk.responses[stream].status[0] == status
    assert not talk.calls


def test_a_deadline_expires_while_the_socket_is_full() -> None:
    talk = Talk()
    stream = talk.ask(b"one", headers=head(grpc_timeout="1S"))
    talk.server.set_write_paused(True)
    talk.pass_time(1.1)
    assert talk.calls[0].heard == [b"one", "closed"]
    talk.server.set_write_paused(False)
    talk.go()
    assert talk.responses[stream].reset is Code.CANCEL


def test_a_deadline_in_the_middle_of_a_message_is_a_reset() -> None:
    """Trailers after half a message would look like a broken server."""
    talk = Talk(lambda call, _: call.peer.send(bytes(100_000)), eager=False)
    stream = talk.ask(b"one", headers=head(grpc_timeout="1S"))
    talk.pass_time(1.1)
    assert talk.responses[stream].reset is Code.CANCEL
    assert talk.calls[0].heard == [b"one", "closed"]


def test_a_busy_call_gets_nothing_until_it_resumes() -> None:
    talk = Talk()
    stream = talk.ask()
    call = talk.calls[0]
    call.takes = False
    talk.say(stream, b"one", b"two")
    talk.say(stream, b"three", end=True)
    assert call.heard == [b"one"]
    for heard in (b"two", b"three"):
        wakes = talk.wakes
        call.peer.resume()
        assert talk.wakes == wakes + 1
        assert call.heard[-1] != heard, "not from inside the call"
        talk.go()
        assert call.heard[-1] == heard
    call.peer.resume()
    talk.go()
    assert call.heard == [b"one", b"two", b"three", "half closed"]


def test_a_call_that_resumes_before_it_returns() -> None:
    def react(call: Call, _: bytes) -> None:
        call.takes = False
        call.peer.resume()

    talk = Talk(react)
    stream = talk.ask(b"one", b"two", end=True)
    assert talk.calls[0].heard == [b"one", b"two", "half closed"]
    assert not talk.responses.get(stream)


def test_messages_of_a_wake_up_leave_together() -> None:
    talk = Talk()
    streams = [talk.ask() for _ in range(20)]
    talk.wakes = 0
    for call in talk.calls:
        call.peer.send(b"hello")
        call.peer.send(b"world")
    assert talk.wakes == 1
    data = talk.server.take_output()
    assert not talk.server.take_output()
    for event in talk.client.receive_data(data):
        talk.on_event(event)
    assert [talk.responses[stream].messages for stream in streams] == [[b"hello", b"world"]] * 20


def test_a_call_that_raises_harms_no_other_stream() -> None:
    def react(call: Call, data: bytes) -> None:
        if data == b"bad":
            raise KeyError("x")
        call.peer.send(data)

    talk = Talk(react)
    good, bad = talk.ask(b"one"), talk.ask(b"two")
    talk.say(bad, b"bad")
    talk.say(good, b"three")
    assert talk.responses[good].messages == [b"one", b"three"]
    assert talk.responses[bad].status == (2, "the call failed")
    assert talk.calls[1].heard[-1] == "closed"
    assert talk.lines == [("call_crashed", {"reason": "KeyError: 'x'"})]


def test_a_request_in_one_frame_of_headers() -> None:
    talk = Talk()
    talk.ask(end=True)
    assert talk.calls[0].heard == ["half closed"]
    assert PATH in talk.server.methods
