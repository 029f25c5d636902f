"""The native transport on real sockets, with the official gRPC client on the other side."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc
import pytest
import uvloop
from grpc_health.v1 import health_pb2, health_pb2_grpc

from extproc.transport.health import Health
from extproc.transport.http2 import ConnectionLimits
from extproc.transport.http2.wire import PREFACE, PREFIX, frame, settings
from extproc.transport.native import NativeServer
from extproc.transport.rpc import Methods, Peer, Status

TALK = "/test.Test/Talk"
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
MB = 1024 * 1024
BLOCK = b"".join(b"\0" + bytes([len(k)]) + k + bytes([len(v)]) + v for k, v in (
    (b":method", b"POST"), (b":scheme", b"http"), (b":path", TALK.encode()), (b"content-type", b"application/grpc")))
"""The head of a request."""


class Call:
    """Echoes messages. `size N` requests N bytes, `end` the end, `wait` a pause of 10 ms."""

    def __init__(self, metadata: Mapping[str, str], peer: Peer, served: Served) -> None:
        self.metadata = metadata
        self.peer = peer
        self.over = asyncio.Event()
        self.got = 0
        served.calls.append(self)

    def message(self, data: bytes) -> bool:
        self.got += 1
        word, _, rest = data[:100].partition(b" ")
        if word == b"size":
            self.peer.send(bytes(int(rest)))
        elif word == b"end":
            self.peer.end(Status.INTERNAL, "as you wish: ü")
        elif word == b"wait":
            asyncio.get_running_loop().call_later(0.01, self._go_on)
            return False
        else:
            self.peer.send(data)
        return True

    def _go_on(self) -> None:
        self.peer.send(b"waited")
        self.peer.resume()

    def half_closed(self) -> None:
        self.peer.end()

    def closed(self) -> None:
        assert not self.over.is_set()
        self.over.set()


class Served:
    """A running server, a channel to it and its calls."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.serving: dict[str, bool] = {"": True}
        self.health = Health(self.serving.get)
        self.server: NativeServer
        self.channel: grpc.aio.Channel
        self.address = ""

    @property
    def methods(self) -> Methods:
        return {TALK: lambda metadata, peer: Call(metadata, peer, self), **self.health.methods}

    def talk(self, **options: object) -> grpc.aio.StreamStreamCall:
        return self.channel.stream_stream(TALK)(**options)


@asynccontextmanager
async def serving(address: str, limits: ConnectionLimits | None = None, options: list[tuple[str, int]] | None = None
                  ) -> AsyncIterator[Served]:
    served = Served()
    served.server = NativeServer(served.methods, limits=limits)
    await served.server.start(address)
    served.address = address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{served.server.port}"
    async with grpc.aio.insecure_channel(served.address, options=OPTIONS + (options or [])) as served.channel:
        try:
            async with asyncio.timeout(60):
                yield served
        finally:
            await served.server.stop(0)


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix:{tmp_path}/s"


def run(test: Callable[[], Coroutine[None, None, None]]) -> None:
    """Runs on the event loop of the workers."""
    uvloop.run(test())


@pytest.mark.parametrize("loop", [uvloop.run, asyncio.run])
def test_many_streams_at_once(address: str, loop: Callable[..., None]) -> None:
    async def one(served: Served, name: int) -> None:
        call = served.talk()
        for i in range(100):
            said = b"%d of %d" % (i, name)
            await call.write(said)
            assert await call.read() == said
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK

    async def test() -> None:
        async with serving(address) as served:
            await asyncio.gather(*(one(served, name) for name in range(50)))
            await asyncio.gather(*(call.over.wait() for call in served.calls))
            assert len(served.calls) == 50
    loop(test())


def test_a_bug_while_processing_postponed_frames_ends_the_connection(address: str) -> None:
    """Frames that are processed after the first write (`http2.frame_scheduler`) are guarded like others. The bug here:
    a log that raises when it receives a crashed call."""
    over: list[bytes] = []
    told: list[str] = []

    class Calm:
        def __init__(self, _metadata: Mapping[str, str], peer: Peer) -> None:
            self.peer = peer

        def message(self, data: bytes) -> bool:
            assert data != b"mistake"
            self.peer.send(data)
            self.peer.lower_priority()
            return True

        def half_closed(self) -> None:
            """Ignored."""

        def closed(self) -> None:
            over.append(b"closed")

    def log(event: str, **_details: object) -> None:
        told.append(event)
        assert event != "call_crashed"

    def said(stream: int, data: bytes) -> bytes:
        return frame(0, 0, stream, PREFIX.pack(0, len(data)) + data)

    async def test() -> None:
        server = NativeServer({TALK: Calm}, log=log)
        await server.start(address)
        reader, writer = await asyncio.open_unix_connection(address.removeprefix("unix:"))
        async with asyncio.timeout(10):
            writer.write(PREFACE + settings({}) + frame(1, 4, 1, BLOCK) + said(1, b"in no hurry now"))
            await reader.readuntil(b"in no hurry now")
            writer.write(said(1, b"mistake") + frame(1, 4, 3, BLOCK) + said(3, b"who is goes first"))
            assert b"who is goes first" in await reader.read()
        await server.stop(0)
        assert told == ["call_crashed", "connection_crashed"]
        assert len(over) == 2
        writer.close()
    run(test)


def test_rule_7_connections_are_bounded_which_is_logged_once(tmp_path: Path) -> None:
    told: list[str] = []

    async def knock() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        return reader, writer

    async def test() -> None:
        server = NativeServer({}, log=lambda event, **_: told.append(event), connections=2)
        await server.start(f"unix:{tmp_path}/s")
        kept = [await knock() for _ in range(2)]
        for reader, _ in kept:
            assert await reader.readexactly(9)  # the head of our SETTINGS
        for _ in range(3):
            reader, writer = await knock()
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
        assert told == ["too_many_connections"]
        kept[0][1].close()
        while True:  # the server hears of it a moment later
            reader, writer = await knock()
            with suppress(ConnectionResetError):
                if await reader.read(9):
                    break
            writer.close()
        writer.close()
        await server.stop(0)

    run(test)


@pytest.mark.parametrize("where", ["127.0.0.1:0", "[::1]:0", "localhost:0"])
def test_ports(where: str) -> None:
    async def test() -> None:
        async with serving(where) as served:
            call = served.talk()
            await call.write(b"x")
            assert await call.read() == b"x"
            assert served.server.port
    run(test)


def test_messages_of_64_megabytes_both_ways(address: str) -> None:
    async def test() -> None:
        async with serving(address) as served:
            call = served.talk()
            large = bytes(range(256)) * (64 * MB // 256)
            await call.write(large)
            assert await call.read() == large
            await call.write(b"size %d" % MB)
            assert await call.read() == bytes(MB)
            await call.done_writing()
            assert await call.code() is grpc.StatusCode.OK
    run(test)


def test_a_message_that_is_too_large(address: str) -> None:
    async def test() -> None:
        async with serving(address, ConnectionLimits(message=MB)) as served:
            call = served.talk()
            await call.write(bytes(MB + 1))
            assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "at most 1048576" in await call.details()
            await served.calls[0].over.wait()
    run(test)


def test_messages_wait_for_a_busy_call_and_keep_their_order(address: str) -> None:
    async def test() -> None:
        async with serving(address) as served:
            call = served.talk()
            for said in (b"1", b"wait", b"2", b"wait", b"3"):
                await call.write(said)
            await call.done_writing()
            assert [one async for one in call] == [b"1", b"waited", b"2", b"waited", b"3"]
    run(test)


def test_a_stalled_reader_stops_its_own_stream_only(address: str) -> None:
    async def test() -> None:
        # Without this the client's window grows with the speed of the machine.
        async with serving(address, options=[("grpc.http2.bdp_probe", 0)]) as served:
            slow = served.talk()
            await slow.write(b"size 1")
            await slow.read()
            quick = served.talk()

            async def ask() -> None:
                for _ in range(200):
                    await slow.write(b"size 1000000")
                await slow.done_writing()

            asking = asyncio.create_task(ask())
            for _ in range(100):
                await quick.write(b"x")
                assert await quick.read() == b"x"
            assert served.calls[0].got < 10
            for _ in range(200):
                assert len(await slow.read()) == 1_000_000
            assert await slow.read() is grpc.aio.EOF
            await asking
    run(test)


def test_a_cancelled_call_is_closed(address: str) -> None:
    async def test() -> None:
        async with serving(address) as served:
            call = served.talk()
            await call.write(b"x")
            await call.read()
            call.cancel()
            await served.calls[0].over.wait()
    run(test)


def test_a_channel_that_closes_closes_its_calls(address: str) -> None:
    async def test() -> None:
        async with serving(address) as served:
            call = served.talk()
            await call.write(b"x")
            await call.read()
            await served.channel.close()
            await served.calls[0].over.wait()
    run(test)


def test_deadlines(address: str) -> None:
    async def test() -> None:
        async with serving(address) as served:
            call = served.talk(timeout=0.2)
            await call.write(b"x")
            assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            await served.calls[0].over.wait()
    run(test)


def test_statuses_and_metadata(address: str) -> None:
    async def test() -> None:
        async with serving(address) as served:
            call = served.talk(metadata=(("x-role", "select"), ("x-raw-bin", b"\xff")))
            await call.write(b"end")
            assert await call.code() is grpc.StatusCode.INTERNAL
            assert await call.details() == "as you wish: ü"
            metadata = served.calls[0].metadata
            assert metadata["x-role"] == "select"
            assert metadata["user-agent"].startswith("grpc-python")
            assert not {"x-raw-bin", "te", "content-type", "grpc-accept-encoding"} & set(metadata)
            assert not [name for name in metadata if name.startswith(":")]
            unknown = served.channel.stream_stream("/test.Test/Other")()
            assert await unknown.code() is grpc.StatusCode.UNIMPLEMENTED
    run(test)


def test_compressed_messages_are_unimplemented(address: str) -> None:
    async def test() -> None:
        async with serving(address) as served:
            call = served.talk(compression=grpc.Compression.Gzip)
            await call.write(bytes(10_000))
            assert await call.code() is grpc.StatusCode.UNIMPLEMENTED
    run(test)


def test_health(address: str) -> None:
    async def test() -> None:
        async with serving(address) as served:
            health = health_pb2_grpc.HealthStub(served.channel)
            ask = health_pb2.HealthCheckRequest
            assert (await health.Check(ask())).status == health_pb2.HealthCheckResponse.SERVING
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await health.Check(ask(service="other"))
            assert error.value.code() is grpc.StatusCode.NOT_FOUND
            watch = health.Watch(ask())
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
            served.serving[""] = False
            served.health.notify_watchers()
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
            watch.cancel()
    run(test)


def test_keepalive_on_a_silent_stream(address: str) -> None:
    """grpcio's own server ends such a connection by default."""
    async def test() -> None:
        ping = [("grpc.keepalive_time_ms", 50), ("grpc.keepalive_timeout_ms", 1000),
                ("grpc.http2.max_pings_without_data", 0), ("grpc.keepalive_permit_without_calls", 1)]
        async with serving(address, options=ping) as served:
            call = served.talk()
            await call.write(b"x")
            assert await call.read() == b"x"
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.7):
                    await served.calls[0].over.wait()
            await call.write(b"y")
            assert await call.read() == b"y"
    run(test)


def test_a_graceful_stop_finishes_running_streams_and_accepts_no_new_ones(address: str) -> None:
    async def test() -> None:
        async with serving(address) as served:
            call = served.talk()
            await call.write(b"x")
            await call.read()
            stopping = asyncio.create_task(served.server.stop(30))
            await asyncio.sleep(0)
            for _ in range(5):
                await call.write(b"still")
                assert await call.read() == b"still"
            assert not stopping.done()
            await call.done_writing()
            assert await call.code() is grpc.StatusCode.OK
            await stopping
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await served.talk().read()
            assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    run(test)


@pytest.mark.parametrize("grace", [0, 0.1])
def test_a_hard_stop_ends_streams_with_a_status(address: str, grace: float) -> None:
    async def test() -> None:
        async with serving(address) as served:
            call = served.talk()
            await call.write(b"x")
            await call.read()
            await served.server.stop(grace)
            assert served.calls[0].over.is_set()
            assert await call.code() is grpc.StatusCode.UNAVAILABLE
    run(test)


def test_a_second_stop_with_less_patience(address: str) -> None:
    async def test() -> None:
        async with serving(address) as served:
            call = served.talk()
            await call.write(b"x")
            await call.read()
            patient = asyncio.create_task(served.server.stop(1000))
            await asyncio.sleep(0)
            await served.server.stop(0)
            await patient
    run(test)


def test_addresses_that_cannot_be_used(tmp_path: Path) -> None:
    async def test() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            for address in (f"127.0.0.1:{taken.getsockname()[1]}", "nonsense", f"unix:{tmp_path}/no/such", "host:99999",
                            f"unix:{tmp_path}"):
                with pytest.raises(RuntimeError, match="cannot listen on"):
                    await NativeServer({}).start(address)
    run(test)


def test_a_stale_socket_file_is_replaced_and_that_of_a_successor_is_kept(tmp_path: Path) -> None:
    async def test() -> None:
        path = tmp_path / "s"
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
        old, new = NativeServer({}), NativeServer({})
        await old.start(f"unix:{path}")
        await new.start(f"unix:{path}")
        await old.stop(0)
        assert path.is_socket()
        await new.stop(0)
        assert not path.exists()
        path.write_text("a file of somebody")
        with pytest.raises(RuntimeError):
            await old.start(f"unix:{path}")
        assert path.read_text()
    run(test)


def test_a_peer_that_never_reads_costs_bounded_memory_and_delays_no_other(address: str) -> None:
    async def test() -> None:
        async with serving(address) as served:
            with socket.socket(socket.AF_UNIX) as deaf:
                deaf.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(deaf, address.removeprefix("unix:"))
                ask = b"size 200000"
                message = frame(0, 0, 1, PREFIX.pack(0, len(ask)) + ask)
                await loop.sock_sendall(deaf, PREFACE + settings({4: 2**31 - 1}) + frame(8, 0, 0, b"\x7f\0\0\0")
                                        + frame(1, 4, 1, BLOCK) + message * 300)
                call = served.talk()
                for _ in range(50):
                    await call.write(b"x")
                    assert await call.read() == b"x"
                assert served.calls[0].got < 20
    run(test)


def test_other_protocols_are_disconnected(address: str) -> None:
    async def test() -> None:
        async with serving(address):
            reader, writer = await asyncio.open_unix_connection(address.removeprefix("unix:"))
            writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            assert b"no HTTP/2" in await reader.read()
            writer.close()
    run(test)
