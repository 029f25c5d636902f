"""A plain HTTP/1.1 client for what an SDK hides: exact bytes, statuses, headers; a strict reader of Messages streams.

Tests use it where they look at the wire; `Stream.events` holds every answer to Anthropic's event grammar.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.gateway import CLIENT_KEY

TIMEOUT = 20.0
ANTHROPIC = {"x-api-key": CLIENT_KEY, "anthropic-version": "2023-06-01", "content-type": "application/json"}
HELLO: list[Any] = [{"role": "user", "content": "hello"}]


@dataclass
class Answer:
    """A whole response; header names are lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def error(self) -> tuple[str, str]:
        """(type, message) of an error in Anthropic's shape; anything else fails the test."""
        found = self.json()
        assert found["type"] == "error", found
        assert set(found["error"]) >= {"type", "message"}, found
        assert self.headers["content-type"].startswith("application/json"), self.headers
        assert found["error"]["message"].strip(), "an error without a message"
        return found["error"]["type"], found["error"]["message"]


def payload(model: str = "claude-test", **fields: Any) -> dict[str, Any]:
    """A Messages request body."""
    return {"model": model, "max_tokens": 256, "messages": HELLO, **fields}


def request(base_url: str, method: str, path: str, body: bytes | Any = None, headers: dict[str, str] | None = None,
            timeout: float = TIMEOUT) -> Answer:
    """One request on a connection of its own. `body` that is not bytes goes out as JSON."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    connection = http.client.HTTPConnection(str(urlsplit(base_url).netloc), timeout=timeout)
    with contextlib.closing(connection):
        connection.request(method, path, data, ANTHROPIC if headers is None else headers)
        response = connection.getresponse()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())


def post(base_url: str, body: bytes | Any, path: str = "/v1/messages", **extra: Any) -> Answer:
    return request(base_url, "POST", path, body, **extra)


@dataclass
class Stream:
    """A streamed answer being read. Leave it with `leave()` (FIN) or `reset()` (RST)."""

    status: int
    headers: dict[str, str]
    connection: http.client.HTTPConnection
    response: http.client.HTTPResponse
    seen: list[dict[str, Any]] = field(default_factory=list)
    buffer: bytearray = field(default_factory=bytearray)

    def raw_events(self) -> Iterator[tuple[str, str]]:
        """(event name, data) until the server ends the body. Truncated framing raises http.client.IncompleteRead."""
        name, data = "", ""
        for line in self.lines():
            if not line:
                yield name, data
                name, data = "", ""
                continue
            key, _, value = line.partition(": ")
            assert key in {"event", "data"}, f"a line that is neither event nor data: {line!r}"
            if key == "event":
                name = value
            else:
                data += value
        assert not name, "the stream ends inside an event"
        assert not data, "the stream ends inside an event"

    def lines(self) -> Iterator[str]:
        """Complete lines. (`read1`, unlike `readline`, tells a lost connection from the end of the body.)"""
        while True:
            while (at := self.buffer.find(b"\n")) >= 0:
                line = self.buffer[:at].decode()
                del self.buffer[:at + 1]
                yield line
            data = self.response.read1(65536)
            if not data:
                assert not self.buffer, f"the stream ends inside a line: {bytes(self.buffer)!r}"
                return
            self.buffer += data

    def events(self) -> Iterator[dict[str, Any]]:
        """Decoded events, each named like its type."""
        for name, data in self.raw_events():
            event = json.loads(data)
            assert event["type"] == name, (name, event)
            self.seen.append(event)
            yield event

    def read(self) -> list[dict[str, Any]]:
        """All events of an answer that obeys the grammar."""
        for _ in self.events():
            pass
        check_grammar(self.seen)
        return self.seen

    def until(self, kind: str) -> dict[str, Any]:
        """Reads on to the next event of this type."""
        for event in self.events():
            if event["type"] == kind:
                return event
        raise AssertionError(f"the stream ended before {kind}: {[e['type'] for e in self.seen]}")

    def leave(self) -> None:
        self.response.close()
        self.connection.close()

    def reset(self) -> None:
        assert self.connection.sock is not None
        self.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.leave()

    @property
    def text(self) -> str:
        return "".join(event["delta"]["text"] for event in self.seen
                       if event["type"] == "content_block_delta" and event["delta"]["type"] == "text_delta")


@contextlib.contextmanager
def stream(base_url: str, body: dict[str, Any] | None = None, *, path: str = "/v1/messages",
           headers: dict[str, str] | None = None, timeout: float = TIMEOUT) -> Iterator[Stream]:
    connection = http.client.HTTPConnection(str(urlsplit(base_url).netloc), timeout=timeout)
    connection.request("POST", path, json.dumps({**payload(), **(body or {}), "stream": True}), headers or ANTHROPIC)
    response = connection.getresponse()
    found = Stream(response.status, {k.lower(): v for k, v in response.getheaders()}, connection, response)
    try:
        yield found
    finally:
        found.leave()


DELTAS = {"text": {"text_delta", "citations_delta"}, "thinking": {"thinking_delta", "signature_delta"},
          "tool_use": {"input_json_delta"}, "redacted_thinking": set()}


def check_grammar(events: list[dict[str, Any]]) -> None:
    """Anthropic's event grammar: one message_start first, blocks 0, 1, 2... one at a time, then message_delta and
    message_stop; or an error at the end, after which nothing comes."""
    kinds = [event["type"] for event in events if event["type"] != "ping"]
    assert kinds, "an empty stream"
    failed = kinds[-1] == "error"
    assert kinds[0] == "message_start" or kinds == ["error"], kinds
    assert kinds.count("message_start") <= 1, kinds
    assert kinds.count("error") == failed, kinds
    assert kinds.count("message_stop") == (not failed), kinds
    if not failed:
        assert kinds[-2:] == ["message_delta", "message_stop"], kinds
    index, block = -1, None
    for event in events:
        if event["type"] == "content_block_start":
            assert block is None, f"a block starts inside another one: {event}"
            index += 1
            assert event["index"] == index, event
            block = event["content_block"]["type"]
        elif event["type"] == "content_block_delta":
            assert block is not None, f"a delta outside of a block: {event}"
            assert event["index"] == index, event
            assert event["delta"]["type"] in DELTAS[block], (block, event)
        elif event["type"] == "content_block_stop":
            assert block is not None, f"a stop without a start: {event}"
            assert event["index"] == index, event
            block = None
        elif event["type"] == "message_delta":
            assert block is None, "message_delta inside a block"
    assert block is None or failed, "a block is never closed"


def blocks_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The content blocks that the events build up, tool input decoded."""
    blocks: list[dict[str, Any]] = []
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            key = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "json",
                   "signature_delta": "signature"}[delta["type"]]
            value = delta["partial_json" if key == "json" else key]
            blocks[-1][key] = value if key == "signature" else blocks[-1][key] + value
    for block in blocks:
        text = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(text) if text else {}
    return blocks
