"""What the interpreter does on the way to a first token and for an event, counted: bytecodes and calls.

    python -m tests.bench.steps [--functions N]

No clock is read, so the counts are the same on a busy machine, and from one machine to the next: what a change saves
shows at once. A request is replayed as Envoy sends it, through the transport's protocol, both exchanges and the
translation, without sockets. After a warm-up each read is traced once; a bytecode costs some tenths of a nanosecond to
some hundred, mostly for the cache lines that it and its data stand in when they are cold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import CodeType, FrameType
from typing import Any

import hpack

from extproc.config import Attempt, Backend, Config, ModelRule, Team
from extproc.ext_proc.pb import external_processor_pb2 as pb
from extproc.headers import BACKEND_METADATA, ROLE_METADATA
from extproc.process.log import Log
from extproc.transport.http2.abuse_budget import ConnectionLimits
from extproc.transport.http2.connection import Connection
from extproc.transport.http2.wire import DATA, END_HEADERS, HEADERS, PREFIX, RST_STREAM, frame
from extproc.worker.metrics import PrometheusMetrics
from extproc.worker.stream import SERVICE, Streams
from tests.bench.core import event
from tests.bench.transport import hello

WARM_UP = 60
"""Requests before the one that is counted: the interpreter has specialised its bytecodes by then."""
BODY = json.dumps({"model": "bench", "max_tokens": 100, "stream": True,
                   "messages": [{"role": "user", "content": "hi"}]}).encode()
CLIENT = {":authority": "127.0.0.1:10000", ":path": "/v1/messages", ":method": "POST", ":scheme": "http",
          "content-type": "application/json", "anthropic-version": "2023-06-01", "x-forwarded-for": "192.0.2.2",
          "x-forwarded-proto": "http", "x-envoy-external-address": "127.0.0.1",
          "x-request-id": "7cce82a1-5316-4e8a-a704-e1e96a5c2abb", "x-extproc-team": "bench"}
FULL_DUPLEX = pb.ProcessingMode.FULL_DUPLEX_STREAMED


class Count:
    """Of one read."""

    def __init__(self) -> None:
        self.bytecodes: Counter[CodeType] = Counter()
        self.calls: Counter[CodeType] = Counter()
        self.in_c = 0
        """Calls of functions that are not written in Python."""

    def profile(self, _frame: FrameType, what: str, _argument: Any) -> None:
        self.in_c += what == "c_call"

    def trace(self, frame: FrameType, what: str, _argument: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if what == "opcode":
            self.bytecodes[frame.f_code] += 1
        elif what == "call":
            self.calls[frame.f_code] += 1
        return self.trace


class Envoy:
    """Its side of one connection to a worker."""

    def __init__(self) -> None:
        rule = ModelRule(match="*", attempts=[Attempt(backend="bench", model="*")])
        config = Config(backends={"bench": Backend(api="openai", url="http://127.0.0.1:1/v1", key="none")},
                        models=[rule], teams={"bench": Team(key="sk-bench")})
        self._rule = rule.id
        streams = Streams(config, Log("error", list), PrometheusMetrics(), ThreadPoolExecutor(1))
        self._connection = Connection(streams.methods, ConnectionLimits(), 0.0, lambda: None)
        self._encoder = hpack.Encoder()
        self._stream = -1
        self.read(hello(0))

    def read(self, data: bytes) -> bytes:
        """What the worker writes when it reads this."""
        self._connection.receive(data, 0.0)
        return self._connection.take_output()

    def request(self) -> Iterator[tuple[str, bytes]]:
        """One request, read by read."""
        edge = self._open({ROLE_METADATA: "select"})
        yield "edge hop", edge + self._messages(self._head(CLIENT), self._body(BODY), self._body(b"", end=True))
        yield "", self._reset()
        routed = {**CLIENT, "x-extproc-route": self._rule, "x-extproc-api": "anthropic",
                  "x-envoy-attempt-count": "1"}
        hop = self._open({ROLE_METADATA: "translate", BACKEND_METADATA: "bench"})
        yield "backend hop", hop + self._messages(self._head(routed), self._body(BODY, end=True))
        first = event({"role": "assistant", "content": ""}) + event({"content": "Hello"})
        yield "first token", self._messages(
            pb.ProcessingRequest(response_headers=pb.HttpHeaders(headers=_map(
                {":status": "200", "content-type": "text/event-stream", "transfer-encoding": "chunked"}))),
            pb.ProcessingRequest(response_body=pb.HttpBody(body=first)))
        for word in (" world", ", all", " of you"):
            data = event({"content": word})
            yield "event", self._messages(pb.ProcessingRequest(response_body=pb.HttpBody(body=data)))
        yield "end", self._messages(pb.ProcessingRequest(response_body=pb.HttpBody(
            body=event({}, "stop") + b"data: [DONE]\n\n", end_of_stream=True)))
        yield "", self._reset()

    def _open(self, metadata: dict[str, str]) -> bytes:
        self._stream += 2
        head = {":method": "POST", ":scheme": "http", ":path": f"/{SERVICE}/Process", ":authority": "w",
                "content-type": "application/grpc", "te": "trailers", **metadata}
        return frame(HEADERS, END_HEADERS, self._stream, self._encoder.encode(list(head.items())))

    def _messages(self, *messages: pb.ProcessingRequest) -> bytes:
        out = []
        for message in messages:
            message.metadata_context.SetInParent()  # as Envoy writes it behind every part
            data = message.SerializeToString()
            out.append(frame(DATA, 0, self._stream, PREFIX.pack(0, len(data)) + data))
        return b"".join(out)

    def _reset(self) -> bytes:
        return frame(RST_STREAM, 0, self._stream, bytes(4))

    def _head(self, headers: dict[str, str]) -> pb.ProcessingRequest:
        return pb.ProcessingRequest(
            request_headers=pb.HttpHeaders(headers=_map(headers)),
            protocol_config=pb.ProtocolConfiguration(request_body_mode=FULL_DUPLEX, response_body_mode=FULL_DUPLEX))

    def _body(self, data: bytes, *, end: bool = False) -> pb.ProcessingRequest:
        return pb.ProcessingRequest(request_body=pb.HttpBody(body=data, end_of_stream=end))


def _map(headers: dict[str, str]) -> pb.HeaderMap:
    return pb.HeaderMap(headers=[pb.HeaderValue(key=name, raw_value=value.encode())
                                 for name, value in headers.items()])


async def counted() -> dict[str, Count]:
    """By what was read; of several reads of a kind the last."""
    found: dict[str, Count] = {}
    envoy = Envoy()
    for number in range(WARM_UP + 2):
        for name, data in envoy.request():
            if name and number == WARM_UP:
                count = found[name] = Count()
                sys.settrace(count.trace)
            elif name and number > WARM_UP:
                found[name].in_c = 0
                sys.setprofile(found[name].profile)
            written = envoy.read(data)
            sys.settrace(None)
            sys.setprofile(None)
            if name and not written:
                raise RuntimeError(f"{name}: nothing was written")
            await asyncio.sleep(0)  # what nobody waits for is done here
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--functions", type=int, default=0, help="so many functions of each, the largest first")
    shown = options.parse_args().functions
    print(f"{'read':12} {'bytecodes':>9} {'calls':>5} {'functions':>9} {'calls in C':>10}")
    for name, count in asyncio.run(counted()).items():
        print(f"{name:12} {count.bytecodes.total():9} {count.calls.total():5} {len(count.calls):9} {count.in_c:10}")
        for code, bytecodes in count.bytecodes.most_common(shown):
            print(f"{bytecodes:22}  {code.co_qualname} ({os.path.basename(code.co_filename)}:{code.co_firstlineno}, "
                  f"{count.calls[code]} calls)")


if __name__ == "__main__":
    main()
