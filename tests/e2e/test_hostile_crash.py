"""A worker is killed while it serves requests in every phase: its clients see an error or a broken stream, never an
end; those of the other worker see nothing of it; a new one comes.

One kill for all rows: ten clients stand in each phase when it happens, some on each worker.
"""

from __future__ import annotations

import contextlib
import http.client
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.gateway import Gateway, configuration
from tests.e2e.odd_clients import LOST, Case, Raw, body, head, seen, sends
from tests.e2e.test_lifecycle import kill, wait_until
from tests.e2e.wire import ANTHROPIC, payload, post
from tests.providers.http import Gate, Reply
from tests.providers.openai import JSON, OpenAIProvider, Seen, completion, raw, stall, text
from tests.providers.openai import stream as deltas

CLIENTS = 10
OTHERS = "the other worker; a new one comes"


@pytest.fixture(scope="module")
def gateway(provider_server: OpenAIProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = configuration(provider_server.url)
    config["models"].append({"match": "failover", "attempts": [{"backend": "plain", "model": "first"},
                                                               {"backend": "plain", "model": "second"}]})
    running = Gateway(config, tmp_path_factory.mktemp("crash"))
    yield running
    assert running.terminate() == 0, running.output


# --------------------------------------------------------------------------------------------------------- the clients
class Client:
    """A request that is sent up to a point, and whose answer is read after the kill."""

    def __init__(self, gateway: Gateway, phase: str, *, first: int | None = None, **fields: Any) -> None:
        self._body = body(messages=[{"role": "user", "content": phase}], **fields)
        self._first = len(self._body) if first is None else first
        self.connection = Raw(gateway.port, timeout=20)
        self.connection.send(head(gateway.port, f"content-length: {len(self._body)}", "connection: close"),
                             self._body[:self._first])

    def begun(self) -> None:
        """Reads on until the first text has come."""
        found = b""
        while b"text_delta" not in found:
            found += self.connection.received.read1(1)  # type: ignore[attr-defined]
            assert len(found) < 10_000
        self._read = found

    def outcome(self) -> str:
        self.connection.pour(self._body[self._first:])
        with self.connection as connection:
            if hasattr(self, "_read"):
                return rest_of_a_stream(self._read, connection)
            try:
                return seen(connection.answer())
            except LOST:
                return "reset"


def rest_of_a_stream(begun: bytes, connection: Raw) -> str:
    try:
        whole = begun + connection.received.read()
    except ConnectionError:
        whole = begun
    if whole.endswith(b"0\r\n\r\n"):  # the framing says that this is all
        assert (b"message_stop" in whole) != (b"event: error" in whole)
        return "200" if b"message_stop" in whole else "error event"
    assert b"message_stop" not in whole
    return "reset"


def answers(gate: Gate) -> Callable[[Seen], Reply]:
    """By what the request says of its phase."""
    held = deltas([{"content": "a"}, gate, {"content": "b"}])
    half = b"".join(part for part in completion({"role": "assistant", "content": "a"}).body if isinstance(part, bytes))

    def answer(asked: Seen) -> Reply:
        phase = asked.messages[0]["content"]
        if phase.startswith(("waiting", "failing over")) and asked.body["model"] != "second":
            found = stall(gate, text("late"))
            return found(asked) if callable(found) else found
        if phase.startswith("streaming"):
            return held
        if phase.startswith("half"):
            return raw([half[:60], gate, half[60:]], headers=JSON)
        found = text("ok")
        return found(asked) if callable(found) else found
    return answer


@pytest.fixture(scope="module")
def outcomes(gateway: Gateway, provider_server: OpenAIProvider) -> dict[str, Counter[str]]:
    """What the clients of each phase saw."""
    provider = provider_server
    provider.clear()
    gate = Gate()
    provider.always(answers(gate))
    long = "upload " + "x" * 400_000
    phases: dict[str, list[Client]] = {}

    def stand(name: str, make: Callable[[], Client], *, asked: bool = True) -> None:
        before = len(provider.seen)
        phases[name] = [make() for _ in range(CLIENTS)]
        if asked:
            provider.wait_for(before + CLIENTS)

    stand("short", lambda: Client(gateway, "upload", first=20), asked=False)
    stand("long", lambda: Client(gateway, long, first=300_000), asked=False)
    stand("waiting", lambda: Client(gateway, "waiting"))
    stand("failover", lambda: Client(gateway, "failing over", model="failover"))
    stand("half", lambda: Client(gateway, "half"))
    stand("streaming", lambda: Client(gateway, "streaming", stream=True))
    for client in phases["streaming"]:
        client.begun()
    for _ in range(3):  # another client's answer shows that the gateway is through with what came before it
        assert post(gateway.base_url, payload()).status == 200
    workers = gateway.worker_pids()
    kill(workers[0])
    assert [post(gateway.base_url, payload()).status for _ in range(10)] == [200] * 10, "new requests are served"
    gate.open()
    found = {name: Counter(client.outcome() for client in clients) for name, clients in phases.items()}
    wait_until(lambda: len(gateway.worker_pids()) == len(workers), 15, "the killed worker is replaced")
    return found


@sends(
    Case("killed in the middle of a short request body", "200: another worker has all of it", "short", OTHERS),
    Case("killed in the middle of a body of 400 KB", "502 or 503 `api_error`", "long", OTHERS),
    Case("killed while the provider thinks", "502 `api_error`", "waiting", OTHERS),
    Case("killed while the provider thinks, with another attempt to come", "200: the other attempt's answer",
         "failover", OTHERS),
    Case("killed in the middle of an answer that is not streamed", "502 `api_error`", "half", OTHERS),
    Case("killed in the middle of a stream", "reset", "streaming", OTHERS),
)
def test_a_killed_worker(gateway: Gateway, provider: OpenAIProvider, case: Case,
                         outcomes: dict[str, Counter[str]]) -> str:
    found = outcomes[case.data]
    broken = set(found) - {"200"}
    assert found.total() == CLIENTS
    if case.sees.startswith("200"):
        assert not broken, found
        return case.sees
    assert found["200"], "those of the other worker go on"
    if case.data == "long":  # by which of the two filters misses its worker
        assert broken <= {"502 `api_error`", "503 `api_error`"}, found
        return case.sees
    assert len(broken) == 1, found
    return broken.pop()


class Upload:
    """A request that is sent in two parts; its text says at every place which place it is."""

    def __init__(self, gateway: Gateway, number: int, first: int, rest: int, *, chunked: bool) -> None:
        marks = (f"{number:03d}-{place:07d}," for place in range((first + rest) // 12))
        self.text = "".join(marks)
        self.first = first
        self._chunked = chunked
        self._body = json.dumps(payload(messages=[{"role": "user", "content": self.text}])).encode()
        self._connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
        self._connection.putrequest("POST", "/v1/messages")
        framing = ("transfer-encoding", "chunked") if chunked else ("content-length", str(len(self._body)))
        for name, value in (*ANTHROPIC.items(), framing):
            self._connection.putheader(name, value)
        self._connection.endheaders()
        self._send(self._body[:first])

    def finish(self) -> int:
        """Sends the rest; the status of the answer, which must be whole."""
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused already: the answer is there
                self._send(self._body[self.first:])
                if self._chunked:
                    self._connection.send(b"0\r\n\r\n")
            answer = self._connection.getresponse()
            found = json.loads(answer.read())
            assert found["type"] == ("message" if answer.status == 200 else "error"), found
            return answer.status
        finally:
            self._connection.close()

    def _send(self, data: bytes) -> None:
        for at in range(0, len(data), 16384):
            part = data[at:at + 16384]
            self._connection.send(b"%x\r\n%s\r\n" % (len(part), part) if self._chunked else part)


def test_no_provider_gets_a_damaged_upload(start_gateway: Callable[..., Gateway], provider: OpenAIProvider) -> None:
    """Envoy sends what a killed worker had received once more, to another one. It keeps 64 KB for that: an upload that
    is longer fails; it must never go on with a hole in it or with a part sent twice."""
    gateway = start_gateway()
    provider.always(text("fine"))
    sizes = [(2_000, 2_000), (30_000, 10_000), (30_000, 400_000), (70_000, 1_000), (300_000, 300_000)]
    uploads = [Upload(gateway, number, *size, chunked=bool(number % 2))
               for number, size in enumerate(sizes * 4)]
    # Another client's answer shows that the gateway is through with what came before it.
    assert post(gateway.base_url, payload()).status == 200
    before = len(provider.seen)
    kill(gateway.worker_pids()[0])
    statuses = [upload.finish() for upload in uploads]
    by_text = {upload.text: number for number, upload in enumerate(uploads)}
    arrived = sorted(by_text.get(seen.messages[0]["content"], -1) for seen in provider.seen[before:])
    assert arrived == [number for number, status in enumerate(statuses) if status == 200], "whole, once, and answered"
    assert set(statuses) <= {200, 502, 503}
    short = [status for upload, status in zip(uploads, statuses, strict=True) if len(upload.text) < 60_000]
    assert short == [200] * 8, "what fits into the memory of a retry is served"
    assert set(statuses) != {200}, "some were on the killed worker and too long to be sent again"
