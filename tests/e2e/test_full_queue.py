"""A provider that accepts connections more slowly than they come: its kernel drops what asks for one."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.gateway import Gateway, configuration
from tests.e2e.wire import Answer, payload, post

ANSWER = (b'{"id": "1", "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", '
          b'"message": {"role": "assistant", "content": "at last"}}]}')


class FullProvider:
    """It listens, and its queue is full until it begins to accept."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.port = self._listener.getsockname()[1]
        self._fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", self.port))
            self._fillers.append(filler)

    def accept(self) -> None:
        """Serves from now on."""
        for filler in self._fillers:
            filler.close()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            if connection.recv(65536):
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
                                   b"content-length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER))

    def close(self) -> None:
        self._listener.close()
        for filler in self._fillers:
            filler.close()


@pytest.fixture
def provider() -> Iterator[FullProvider]:
    made = FullProvider()
    yield made
    made.close()


@pytest.fixture
def gateway(provider: FullProvider, tmp_path: Path) -> Iterator[Gateway]:
    url = f"http://127.0.0.1:{provider.port}/v1"
    made = Gateway(configuration(url, timeouts={"connect": 0.5}, ejection={"failures": 1000}), tmp_path)
    yield made
    assert made.terminate() == 0


def not_made(gateway: Gateway) -> int:
    """Connections that were given up."""
    return gateway.envoy_stat("cluster.backend-plain.upstream_cx_connect_timeout")


def test_a_connection_is_asked_for_until_there_is_room(gateway: Gateway, provider: FullProvider) -> None:
    """Four times, then the words say that there was no connection, not that one broke. Nothing was sent on those that
    were not made, so nothing is done twice."""
    answer = post(gateway.base_url, payload())
    assert answer.status == 503
    assert answer.error() == ("overloaded_error",
                              "The provider did not accept a connection in time. Please try again.")
    assert not_made(gateway) == 4

    answers: list[Answer] = []
    asking = threading.Thread(target=lambda: answers.append(post(gateway.base_url, payload())))
    asking.start()
    end = time.monotonic() + 20
    while not_made(gateway) < 6:
        assert time.monotonic() < end
        threading.Event().wait(0.01)
    provider.accept()
    asking.join(20)
    [answer] = answers
    assert (answer.status, answer.json()["content"][0]["text"]) == (200, "at last")
