"""The native transport alone: CPU microseconds per message in and out, without sockets and with a real one.

    python -m tests.bench.transport [--profile]

Without sockets, frames are built beforehand and fed to `extproc.transport.http2.Connection`, one read for each or
several in one. With one, a blocking client in a thread of its own sends bursts to a server on uvloop; only the server's
thread counts.
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import hpack
import uvloop

from extproc.transport.http2.abuse_budget import ConnectionLimits
from extproc.transport.http2.connection import Connection
from extproc.transport.http2.wire import (
    DATA,
    END_HEADERS,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    LARGEST_WINDOW,
    PREFACE,
    PREFIX,
    RST_STREAM,
    frame,
    settings,
    window_update,
)
from extproc.transport.native import NativeServer
from extproc.transport.rpc import Peer

PATH = "/bench.Bench/Echo"
HEAD = [(":method", "POST"), (":scheme", "http"), (":path", PATH), (":authority", "a"),
        ("content-type", "application/grpc"), ("te", "trailers")]
SIZE = 200
"""Bytes of a message: about one event."""
ROUNDS = 50_000


class Echo:
    """Sends back what it gets."""

    def __init__(self, _metadata: Mapping[str, str], peer: Peer) -> None:
        self._send = peer.send

    def message(self, data: bytes) -> bool:
        self._send(data)
        return True

    def half_closed(self) -> None:
        """The client has heard everything."""

    def closed(self) -> None:
        """Nothing to clear away."""


def hello(streams: int) -> bytes:
    """A client that opens so many streams and takes all that comes."""
    encoder = hpack.Encoder()
    opened = [frame(HEADERS, END_HEADERS, 2 * i + 1, encoder.encode(HEAD)) for i in range(streams)]
    return b"".join((PREFACE, settings({INITIAL_WINDOW_SIZE: LARGEST_WINDOW}),
                     window_update(0, LARGEST_WINDOW - 65_535), *opened))


def message(stream: int, size: int = SIZE) -> bytes:
    """One whole message in one frame."""
    return frame(DATA, 0, stream, PREFIX.pack(0, size) + bytes(size))


def core(streams: int, together: int) -> float:
    """Seconds of CPU per message, in and out, when so many arrive in one read."""
    connection = Connection({PATH: Echo}, ConnectionLimits(streams=10_000), 0.0, lambda: None)
    connection.receive(hello(streams), 0.0)
    connection.take_output()
    reads = [b"".join(message(2 * ((first + i) % streams) + 1) for i in range(together))
             for first in range(0, streams, together)]
    reads *= max(1, ROUNDS // (len(reads) * together))
    began = time.process_time()
    for read in reads:
        connection.receive(read, 0.0)
        connection.take_output()
    return (time.process_time() - began) / (len(reads) * together)


def opened(count: int = 5000) -> float:
    """Seconds of CPU for a stream with one message each way, as Envoy opens and resets it."""
    connection = Connection({PATH: Echo}, ConnectionLimits(), 0.0, lambda: None)
    connection.receive(hello(0), 0.0)
    encoder = hpack.Encoder()
    reads = [frame(HEADERS, END_HEADERS, stream, encoder.encode([*HEAD, ("x-request-id", f"{stream:040}")]))
             + message(stream) for stream in range(1, 2 * count, 2)]
    began = time.process_time()
    for number, read in enumerate(reads):
        connection.receive(read, 0.0)
        connection.take_output()
        connection.receive(frame(RST_STREAM, 0, 2 * number + 1, bytes(4)), 0.0)
        connection.take_output()
    assert not connection.finished
    return (time.process_time() - began) / count


def body(size: int) -> float:
    """Seconds of CPU for one message of this size in frames of 16 KB, in and out."""
    connection = Connection({PATH: Echo}, ConnectionLimits(), 0.0, lambda: None)
    connection.receive(hello(1), 0.0)
    connection.take_output()
    data = PREFIX.pack(0, size) + bytes(size)
    frames = b"".join(frame(DATA, 0, 1, data[at:at + 16384]) for at in range(0, len(data), 16384))
    reads = [frames[at:at + 65536] for at in range(0, len(frames), 65536)]
    began = time.process_time()
    for read in reads:
        connection.receive(read, 0.0)
        while connection.take_output():
            pass
    return time.process_time() - began


def wire(streams: int, together: int) -> float:
    """Seconds of the server's CPU per message, in and out, on a Unix socket: system calls and the loop included."""
    reads = max(1, ROUNDS // together // 2)
    path = Path(tempfile.mkdtemp()) / "bench.sock"
    spent = 0.0

    def client() -> None:
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(str(path))
            one.sendall(hello(streams))
            burst = b"".join(message(2 * (i % streams) + 1) for i in range(together))
            answer = len(burst)
            for _ in range(reads):
                one.sendall(burst)
                seen = 0
                while seen < answer:
                    seen += len(one.recv(1 << 20))

    async def serve() -> None:
        nonlocal spent
        server = NativeServer({PATH: Echo}, limits=ConnectionLimits(streams=10_000))
        await server.start(f"unix:{path}")
        began = time.thread_time()
        await asyncio.to_thread(client)
        spent = time.thread_time() - began
        await server.stop(0)

    uvloop.run(serve())
    return spent / (reads * together)


def main() -> None:
    """Prints the figures; with `--profile` where the time of the core goes."""
    if "--profile" in sys.argv:
        profile = cProfile.Profile()
        profile.runcall(core, 100, 10)
        pstats.Stats(profile).sort_stats("tottime").print_stats(14)
        return
    print(f"messages of {SIZE} bytes, in and out; us of CPU per message")
    for streams, together in ((1, 1), (100, 1), (100, 10), (1000, 100)):
        inside, outside = (min(measure(streams, together) for _ in range(3)) * 1e6 for measure in (core, wire))
        print(f"{streams:5} streams, {together:3} in one read: core {inside:6.2f}   with a socket {outside:6.2f}")
    print(f"a stream with one message each way: core {min(opened() for _ in range(3)) * 1e6:6.2f} us")
    for size in (400_000, 10_000_000):
        print(f"a message of {size:10,} bytes: core {min(body(size) for _ in range(3)) * 1e3:6.2f} ms")


if __name__ == "__main__":
    main()
