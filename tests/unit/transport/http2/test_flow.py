"""Flow control in both directions: a slow stream delays only itself."""

from __future__ import annotations

from h2.settings import SettingCodes

from extproc.transport.http2 import ConnectionLimits
from extproc.transport.http2.wire import DATA, Code, frame
from extproc.transport.rpc import Status
from tests.unit.transport.http2.peer import Call, Talk, echo, packed

KB = 1024


# ------------------------------------------------------------------------------------------------------------ incoming


def test_a_message_larger_than_every_window_arrives() -> None:
    talk = Talk(limits=ConnectionLimits(stream_window=20 * KB, connection_window=70 * KB))
    large = bytes(range(256)) * 4 * KB
    talk.ask(b"small", large, b"small")
    assert talk.calls[0].messages == [b"small", large, b"small"]


def test_windows_are_restored_by_halves_not_for_every_message() -> None:
    talk = Talk(limits=ConnectionLimits(stream_window=64 * KB, connection_window=140 * KB))
    stream = talk.ask()
    window = talk.client.local_flow_control_window(stream)
    talk.say(stream, bytes(30 * KB))
    assert talk.client.local_flow_control_window(stream) == window - 30 * KB - 5
    talk.say(stream, bytes(3 * KB))
    assert talk.client.local_flow_control_window(stream) == window
    for _ in range(6):
        talk.say(stream, bytes(8 * KB))
        assert talk.client.outbound_flow_control_window >= 70 * KB


def test_frames_of_a_large_body_are_the_same_in_one_read_as_one_by_one() -> None:
    def pause(call: Call, data: bytes) -> None:
        call.takes = data[:1] != b"3"

    sizes = (16 * KB + 10, 100 * KB, 16 * KB + 10, 9, 0, 16 * KB - 5, 90 * KB)
    messages = [b"%d" % number * size for number, size in enumerate(sizes)]
    data = packed(*messages)
    frames = [frame(DATA, 0, 1, data[at:at + 16 * KB]) for at in range(0, len(data), 16 * KB)]
    said = []
    for reads in (frames, [b"".join(frames)]):
        talk = Talk(pause)
        talk.ask()
        for read in reads:
            talk.server.receive(read, talk.now)
        assert talk.calls[0].messages == messages[:4]
        talk.calls[0].peer.resume()
        said.append(talk.server.take_output())
        assert talk.calls[0].messages == messages
    assert said[0] == said[1]


def test_a_busy_call_stops_its_sender_and_no_other() -> None:
    talk = Talk(limits=ConnectionLimits(stream_window=64 * KB, connection_window=128 * KB))
    busy, other = talk.ask(), talk.ask()
    talk.calls[0].takes = False
    for _ in range(7):
        talk.say(busy, bytes(9 * KB))
    assert talk.client.local_flow_control_window(busy) < KB + 40
    for _ in range(50):
        talk.say(other, bytes(9 * KB))
    assert len(talk.calls[1].messages) == 50
    assert len(talk.calls[0].messages) == 1
    talk.calls[0].takes = True
    talk.calls[0].peer.resume()
    talk.go()
    assert len(talk.calls[0].messages) == 7
    assert talk.client.local_flow_control_window(busy) == 64 * KB


def test_no_message_is_delivered_while_too_much_output_waits() -> None:
    """The peer sends messages but accepts no output."""
    talk = Talk(lambda call, _: call.peer.send(bytes(10 * KB)), limits=ConnectionLimits(unsent=100 * KB), eager=False,
                settings={SettingCodes.INITIAL_WINDOW_SIZE: 0})
    stream = talk.ask(*[b"more"] * 40)
    assert 10 <= len(talk.calls[0].messages) <= 12
    talk.client.increment_flow_control_window(50_000, stream)
    talk.client.increment_flow_control_window(1_000_000)
    talk.go()
    assert 10 <= len(talk.calls[0].messages) <= 12, "half of it must leave first"
    talk.client.increment_flow_control_window(1_000_000, stream)
    talk.go()
    assert len(talk.calls[0].messages) == 40
    assert len(talk.responses[stream].messages) == 40


def test_long_messages_past_the_bound_are_completed_one_after_the_other() -> None:
    talk = Talk(limits=ConnectionLimits(stream_window=64 * KB, buffered=200 * KB))
    streams = [talk.ask() for _ in range(6)]
    left = {stream: packed(bytes([stream]) * 150 * KB) for stream in streams}
    waited = 0
    while left:
        before = sum(map(len, left.values()))
        for stream in streams:
            size = min(16 * KB, len(left.get(stream, b"")), talk.client.local_flow_control_window(stream))
            if size:
                talk.client.send_data(stream, left[stream][:size])
                left[stream] = left[stream][size:]
                if not left[stream]:
                    del left[stream]
                talk.go()
        waited = max(waited, sum(not talk.client.local_flow_control_window(stream) for stream in left))
        assert sum(map(len, left.values())) < before, "somebody always goes on"
    assert waited >= 4
    assert [call.messages for call in talk.calls] == [[bytes([stream]) * 150 * KB] for stream in streams]


def test_a_sender_that_pauses_does_not_block_the_stopped_ones() -> None:
    talk = Talk(limits=ConnectionLimits(stream_window=64 * KB, buffered=60 * KB))
    one, two = talk.ask(), talk.ask()
    talk.push(one, packed(bytes(150 * KB))[:100 * KB])
    talk.push(two, packed(bytes(150 * KB))[:64 * KB])
    assert not talk.client.local_flow_control_window(two)
    talk.client.reset_stream(one)
    talk.go()
    assert talk.client.local_flow_control_window(two)


def test_no_budget_is_held_by_completed_messages() -> None:
    talk = Talk(limits=ConnectionLimits(stream_window=64 * KB, buffered=100 * KB))
    for _ in range(5):
        talk.say(talk.ask(), bytes(90 * KB))
    one, two, three = talk.ask(), talk.ask(), talk.ask()
    for stream in (one, two):
        talk.push(stream, packed(bytes(90 * KB))[:40 * KB])
        assert talk.client.local_flow_control_window(stream) == 64 * KB
    talk.push(three, packed(bytes(90 * KB))[:40 * KB])
    assert talk.client.local_flow_control_window(three) == 64 * KB, "past the bound, and the one that goes on"
    talk.push(two, bytes(40 * KB))
    assert talk.client.local_flow_control_window(two) == 24 * KB
    assert set(talk.server.receive_budget.stopped) == {two}
    for stream in (one, three):
        talk.push(stream, bytes(15 * KB))
    talk.client.reset_stream(two)
    talk.go()
    assert not talk.server.receive_budget.stopped


def test_more_than_the_window_of_a_stream() -> None:
    talk = Talk(limits=ConnectionLimits(stream_window=64 * KB))
    stream = talk.ask(b"x")
    talk.calls[0].takes = False
    talk.say(stream, b"busy")
    for _ in range(5):
        talk.raw(_data(stream, bytes(16_000)))
    assert talk.responses[stream].reset is Code.FLOW_CONTROL_ERROR
    assert not talk.server.finished
    assert talk.calls[0].heard[-1] == "closed"


def test_a_whole_message_over_the_window_of_its_stream() -> None:
    talk = Talk(limits=ConnectionLimits(stream_window=10 * KB))
    stream = talk.ask(b"x")
    talk.raw(_data(stream, bytes(11 * KB)))
    assert talk.responses[stream].reset is Code.FLOW_CONTROL_ERROR
    assert talk.calls[0].heard == [b"x", "closed"]


def test_the_connection_window_is_restored_as_data_arrives() -> None:
    talk = Talk(limits=ConnectionLimits(stream_window=200 * KB, connection_window=100 * KB))
    stream = talk.ask(b"x")
    frames = b"".join(_data(stream, bytes(16_000)) for _ in range(12))
    talk.server.receive(frames, talk.now)
    assert not talk.server.finished
    assert [len(one) for one in talk.calls[0].messages] == [1] + [16_000] * 12


def _data(stream: int, data: bytes) -> bytes:
    return (5 + len(data)).to_bytes(3) + b"\0\0" + stream.to_bytes(4) + packed(data)


def test_padding_counts_for_both_windows() -> None:
    talk = Talk(limits=ConnectionLimits(stream_window=64 * KB, connection_window=70_000))
    stream = talk.ask()
    for _ in range(600):
        talk.client.send_data(stream, packed(b"x"), pad_length=255)
        talk.go()
    assert talk.calls[0].messages == [b"x"] * 600


# ------------------------------------------------------------------------------------------------------------ outgoing


def test_tiny_windows_that_grow_byte_by_byte() -> None:
    talk = Talk(echo, eager=False, settings={SettingCodes.INITIAL_WINDOW_SIZE: 1})
    stream = talk.ask(b"hello", b"world", end=True)
    talk.calls[0].peer.end()
    talk.go()
    assert talk.responses[stream].body == b"\0"
    for _ in range(19):
        assert not talk.responses[stream].ended
        talk.client.increment_flow_control_window(1, stream)
        talk.go()
    assert talk.responses[stream].messages == [b"hello", b"world"]
    assert talk.responses[stream].status == (0, "")


def test_the_initial_window_changes_in_mid_stream_also_below_zero() -> None:
    talk = Talk(echo, eager=False, settings={SettingCodes.INITIAL_WINDOW_SIZE: 100})
    stream = talk.ask(bytes(200))
    assert len(talk.responses[stream].body) == 100
    talk.client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 10})
    talk.go()
    talk.client.increment_flow_control_window(90, stream)
    talk.go()
    assert len(talk.responses[stream].body) == 100
    talk.client.increment_flow_control_window(5, stream)
    talk.go()
    assert len(talk.responses[stream].body) == 105
    talk.client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1000})
    talk.go()
    assert talk.responses[stream].messages == [bytes(200)]
    assert talk.ask(b"x") in talk.responses


def test_the_connection_window_is_shared_fairly() -> None:
    talk = Talk(lambda call, _: call.peer.send(bytes(60_000)), eager=False)
    streams = [talk.ask(b"x") for _ in range(4)]
    talk.client.increment_flow_control_window(64_000)
    talk.go()
    sizes = [len(talk.responses[stream].body) for stream in streams]
    assert sum(sizes) == 65_535 + 64_000
    assert sizes[0] == 60_005
    assert max(sizes[1:]) - min(sizes[1:]) < 2 * 16_384
    talk.client.increment_flow_control_window(1_000_000)
    talk.go()
    assert [talk.responses[stream].messages for stream in streams] == [[bytes(60_000)]] * 4


def test_small_messages_do_not_overtake_a_queued_one() -> None:
    talk = Talk(lambda call, data: call.peer.send(bytes(int(data))), eager=False,
                settings={SettingCodes.INITIAL_WINDOW_SIZE: 1_000_000})
    large, small = talk.ask(b"200000"), talk.ask()
    assert len(talk.responses[large].body) == 65_535
    talk.client.increment_flow_control_window(40_000)
    for _ in range(350):
        talk.client.send_data(small, packed(b"100"))
    talk.go()
    assert len(talk.responses[large].body) + len(talk.responses[small].body) == 105_535
    assert len(talk.responses[large].body) > 65_535 + 10_000
    assert len(talk.responses[small].body) > 10_000


def test_a_stream_without_window_delays_neither_others_nor_trailers() -> None:
    talk = Talk(lambda call, data: call.peer.send(bytes(int(data))), eager=False)
    stuck, other = talk.ask(b"65530"), talk.ask()
    assert talk.client.remote_flow_control_window(stuck) == 0
    talk.say(stuck, b"10")
    talk.client.increment_flow_control_window(1000)
    talk.go()
    talk.say(other, b"100")
    assert talk.responses[other].messages == [bytes(100)]
    talk.calls[1].peer.end(Status.OK)
    talk.go()
    assert talk.responses[other].ended
    assert not talk.responses[stuck].ended


def test_output_is_cut_to_the_frame_size_of_the_peer() -> None:
    for size in (16_384, 100_000):
        talk = Talk(echo, settings={SettingCodes.MAX_FRAME_SIZE: size, SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20})
        talk.client.increment_flow_control_window(1 << 20)
        stream = talk.ask(bytes(300_000))
        assert talk.responses[stream].messages == [bytes(300_000)]


def test_output_waits_with_its_stream_while_the_socket_is_full() -> None:
    talk = Talk(echo)
    stream = talk.ask()
    talk.server.set_write_paused(True)
    talk.say(stream, b"one", b"two")
    assert stream not in talk.responses
    talk.calls[0].peer.end()
    talk.go()
    assert talk.calls[0].heard == [b"one", b"two"]
    talk.server.set_write_paused(False)
    talk.go()
    assert talk.responses[stream].messages == [b"one", b"two"]
    assert talk.responses[stream].ended
    assert talk.calls[0].heard[-1] == "closed"


def test_a_large_message_is_written_in_bounded_pieces_with_others_between() -> None:
    def react(call: Call, data: bytes) -> None:
        call.peer.send(bytes(int(data)))

    talk = Talk(react, settings={SettingCodes.INITIAL_WINDOW_SIZE: 1 << 24})
    talk.client.increment_flow_control_window(1 << 24)
    large, small = talk.ask(), talk.ask()
    talk.client.send_data(large, packed(b"2000000"))
    talk.server.receive(talk.client.data_to_send(), talk.now)
    first = talk.server.take_output()
    assert len(first) < 300_000
    assert talk.server.has_output
    talk.client.send_data(small, packed(b"10"))
    talk.server.receive(talk.client.data_to_send(), talk.now)
    for event in talk.client.receive_data(first + talk.server.take_output()):
        talk.on_event(event)
    assert talk.responses[small].messages == [bytes(10)]
    assert len(talk.responses[large].body) < 600_000
    talk.go()
    assert talk.responses[large].messages == [bytes(2_000_000)]
