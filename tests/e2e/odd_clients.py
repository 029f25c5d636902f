"""Clients that no library offers: bytes on a socket, HTTP/2 frame by frame.

A hostile test states with `sent` (or with `sends`, for several cases) what it sends and what the client sees, and
returns what the client saw; it fails if the two differ. Around every test runs the same check: the gateway has the
processes that it had before, and its next request is served.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import io
import json
import os
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import pytest

from tests.e2e.gateway import CLIENT_KEY, Gateway
from tests.e2e.wire import Answer, Stream, payload, post
from tests.providers.openai import OpenAIProvider, text

LOST = (http.client.IncompleteRead, http.client.RemoteDisconnected, ConnectionError)
ALL = "all"
"""What stays alive: every process, and the next request is served."""

T = TypeVar("T", bound=Callable[..., str])


# ----------------------------------------------------------------------------------------------------------- the rows
@dataclass(frozen=True)
class Case:
    """One row: what is sent, what the client sees, what a test needs to send it."""

    sent: str
    sees: str
    data: Any = None
    alive: str = ALL

    @property
    def value(self) -> Any:
        """`data`, which is a function where it is large: test modules are loaded by many who never run them."""
        return self.data() if callable(self.data) else self.data


def sends(*cases: Case) -> Callable[[T], Any]:
    """The test runs for each case, which it takes as `case`, and returns what the client saw."""
    def decorate(test: T) -> Any:
        @functools.wraps(test)
        def checked(*, case: Case, **fixtures: Any) -> None:
            _checked(lambda: test(case=case, **fixtures), case, fixtures)

        return pytest.mark.parametrize("case", cases, ids=[case.sent for case in cases])(checked)
    return decorate


def sent(what: str, *, sees: str, alive: str = ALL) -> Callable[[T], Any]:
    """The test returns what the client saw, which must be `sees`."""
    case = Case(what, sees, alive=alive)

    def decorate(test: T) -> Any:
        @functools.wraps(test)
        def checked(**fixtures: Any) -> None:
            _checked(lambda: test(**fixtures), case, fixtures)

        return checked
    return decorate


def _checked(run: Callable[[], str], case: Case, fixtures: dict[str, Any]) -> None:
    gateway, provider = fixtures["gateway"], fixtures["provider"]
    before = processes(gateway)
    found = run()
    assert found == case.sees, f"the client saw: {found}"
    if case.alive == ALL:
        assert processes(gateway) == before, "a process died"
    serves(gateway, provider)


def processes(gateway: Gateway) -> list[int]:
    """The workers and Envoy."""
    return sorted([*gateway.worker_pids(), *gateway.envoy_pids()])


def serves(gateway: Gateway, provider: OpenAIProvider) -> None:
    """An ordinary request gets its answer."""
    provider.clear()
    provider.script(text("as ever"))
    answer = post(gateway.base_url, payload())
    assert (answer.status, answer.json()["content"][0]["text"]) == (200, "as ever"), answer


def memory(pids: list[int]) -> int:
    """The processes' own resident memory in bytes (what they share is counted once for each)."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return total


class Peak:
    """The most memory that the gateway takes beyond what it had, while the block runs."""

    def __init__(self, gateway: Gateway) -> None:
        self._pids = processes(gateway)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.grown = 0

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self.grown = max(self.grown, memory(self._pids) - self._before)

    def __enter__(self) -> Peak:
        self._before = memory(self._pids)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.grown = max(self.grown, memory(self._pids) - self._before)


# ------------------------------------------------------------------------------------------------- what a client saw
def seen(answer: Answer | None) -> str:
    """In words: the status and, of an error in the client's shape, its type. None: closed without an answer."""
    if answer is None:
        return "connection closed"
    found = answer.json()
    if answer.status == 200:
        assert found.get("type") == "message" or "choices" in found or "input_tokens" in found, found
        return "200"
    if found.get("type") == "error":
        # Envoy names no request that it could not read.
        assert answer.headers.get("request-id") == found["request_id"], answer
        return f"{answer.status} `{answer.error()[0]}`"
    assert set(found["error"]) == {"message", "type", "param", "code"}, found
    assert found["error"]["message"].strip()
    return f"{answer.status} `{found['error']['type']}`"


def ending(answer: Stream) -> str:
    """How a stream ended, which must obey the grammar as far as it went."""
    if answer.status != 200:
        return seen(Answer(answer.status, answer.headers, answer.response.read()))
    try:
        events = answer.read()
    except LOST:
        assert "message_stop" not in [event["type"] for event in answer.seen]
        return "reset"
    return f"error event `{events[-1]['error']['type']}`" if events[-1]["type"] == "error" else "200"


# ------------------------------------------------------------------------------------------------------------ HTTP/1
def head(port: int, *lines: str, method: str = "POST", path: str = "/v1/messages", version: str = "HTTP/1.1") -> bytes:
    """A request head with the client's key; `lines` are further headers as they go out."""
    first = [f"{method} {path} {version}", f"host: 127.0.0.1:{port}", f"x-api-key: {CLIENT_KEY}",
             "anthropic-version: 2023-06-01", "content-type: application/json"]
    return "\r\n".join([*first, *lines, "", ""]).encode("utf-8", "surrogateescape")


def body(**fields: Any) -> bytes:
    return json.dumps(payload(**fields)).encode()


class Raw:
    """One connection on which bytes go out as they are."""

    def __init__(self, port: int, timeout: float = 10) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.received = io.BufferedReader(socket.SocketIO(self.socket, "r"))

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.received.close()
        self.socket.close()

    def send(self, *data: bytes) -> None:
        for piece in data:
            self.socket.sendall(piece)

    def pour(self, data: bytes) -> None:
        """Sends to a server that may close meanwhile."""
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(data)

    def answer(self, method: str = "POST") -> Answer | None:
        """The next answer; None when the server closed (or reset) before one began."""
        response = http.client.HTTPResponse(_Again(self.received), method=method)  # type: ignore[arg-type]
        try:
            response.begin()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        except ConnectionError:
            return None

    def closed(self) -> bool:
        """The server closes, and sends nothing before it does."""
        try:
            return self.received.read(1) == b""
        except ConnectionError:
            return True

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class _Again:
    """Lets an HTTPResponse read from a reader that the next answer goes on with."""

    def __init__(self, reader: io.BufferedReader) -> None:
        self._reader = reader

    def makefile(self, _mode: str) -> _Again:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def close(self) -> None:
        pass

    def flush(self) -> None:
        pass


def asked(port: int, data: bytes) -> Answer | None:
    """One answer to these bytes."""
    with Raw(port) as connection:
        connection.pour(data)
        return connection.answer()


# ------------------------------------------------------------------------------------------------------------ HTTP/2
@dataclass
class Part:
    """What came of one HTTP/2 stream: its head, its data, how it ended."""

    headers: dict[str, str] = field(default_factory=dict)
    data: bytearray = field(default_factory=bytearray)
    ended: bool = False
    reset: int | None = None

    @property
    def answer(self) -> Answer:
        return Answer(int(self.headers[":status"]), self.headers, bytes(self.data))

    @property
    def seen(self) -> str:
        """In words, as `seen` says it."""
        if self.ended:  # a reset behind a whole answer says only that no more of the request is wanted
            return seen(self.answer)
        if self.reset is not None:
            return f"stream reset ({h2.errors.ErrorCodes(self.reset).name})"
        return "connection closed"


class H2:
    """One HTTP/2 connection in clear text, whose windows open only when told (`acknowledge`)."""

    def __init__(self, port: int, timeout: float = 10, *, acknowledge: bool = True) -> None:
        self.port = port
        self.parts: dict[int, Part] = {}
        self.away: int | None = None
        """The error code of the GOAWAY that came."""
        self.is_closed = False
        self._acknowledge = acknowledge
        self.state = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=True, header_encoding="utf-8", validate_outbound_headers=False,
            normalize_outbound_headers=False))
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.state.initiate_connection()
        self.flush()

    def __enter__(self) -> H2:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def flush(self) -> None:
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(self.state.data_to_send())

    def raw(self, data: bytes) -> None:
        """Bytes that the library would not write."""
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(data)

    def open(self, *headers: tuple[str, str], path: str = "/v1/messages", method: str = "POST",
             end: bool = False) -> int:
        """Sends a request's head; the number of its stream."""
        number = self.state.get_next_available_stream_id()
        self.parts[number] = Part()
        first = [(":method", method), (":scheme", "http"), (":authority", f"127.0.0.1:{self.port}"), (":path", path),
                 ("x-api-key", CLIENT_KEY), ("anthropic-version", "2023-06-01"), ("content-type", "application/json")]
        self.state.send_headers(number, [*first, *headers], end_stream=end)
        self.flush()
        return number

    def ask(self, data: bytes | None = None, *headers: tuple[str, str]) -> int:
        """A whole request."""
        number = self.open(*headers)
        self.data(number, body() if data is None else data, end=True)
        return number

    def data(self, number: int, data: bytes, *, end: bool = False) -> None:
        """Sends as the server's windows allow; stops when the server has ended the stream."""
        at = 0
        while at < len(data) or (end and not data):
            part = self.parts[number]
            if part.reset is not None or part.ended or self.is_closed:
                return
            room = min(self.state.local_flow_control_window(number), self.state.max_outbound_frame_size)
            if room <= 0 and data:
                self.receive()
                continue
            piece = data[at:at + room]
            at += len(piece)
            self.state.send_data(number, piece, end_stream=end and at >= len(data))
            self.flush()
            if not data:
                return

    def reset(self, number: int, code: int = h2.errors.ErrorCodes.CANCEL) -> None:
        with contextlib.suppress(h2.exceptions.StreamClosedError):
            self.state.reset_stream(number, code)
        self.flush()

    def receive(self) -> list[Any]:
        """What the server sent next; `is_closed` when it closed."""
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            self.is_closed = True
            return []
        events = self.state.receive_data(data)
        for event in events:
            self._take(event)
        self.flush()
        return list(events)

    def _take(self, event: Any) -> None:
        part = self.parts.get(getattr(event, "stream_id", None) or 0, Part())
        if isinstance(event, h2.events.ResponseReceived):
            part.headers = {_plain(name): _plain(value) for name, value in event.headers}
        elif isinstance(event, h2.events.DataReceived):
            part.data += event.data
            if self._acknowledge:
                self.state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            part.ended = True
        elif isinstance(event, h2.events.StreamReset):
            part.reset = int(event.error_code)
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.away = int(event.error_code)

    def until(self, holds: Callable[[], bool]) -> None:
        """Receives until it holds or the server has closed."""
        while not holds() and not self.is_closed:
            self.receive()

    def part(self, number: int) -> Part:
        """The stream once it has ended, whichever way."""
        found = self.parts[number]
        self.until(lambda: found.ended or found.reset is not None)
        return found

    def raw_end(self) -> None:
        """Reads whatever still comes, until the server has closed."""
        with contextlib.suppress(ConnectionError):
            while self.socket.recv(65536):
                pass


def _plain(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
