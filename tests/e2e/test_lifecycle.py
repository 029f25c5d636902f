"""Starting, stopping and losing workers: only what runs on a killed worker may fail, a drain fails nothing."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from tests.e2e.gateway import READY, START_SECONDS, Gateway, Process, ended
from tests.e2e.wire import ANTHROPIC, payload, post, request, stream
from tests.ports import free_port
from tests.providers.http import Gate
from tests.providers.openai import OpenAIProvider, completion, text
from tests.providers.openai import stream as deltas

StartGateway = Callable[..., Gateway]


def wait_until(holds: Callable[[], bool], seconds: float, what: str) -> None:
    """Polls a state that has no event to wait on (a process of somebody else)."""
    deadline = time.monotonic() + seconds
    ticker = threading.Event()
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        ticker.wait(0.05)


def kill(pid: int) -> None:
    """SIGKILL, until the kernel has closed the process's sockets: what is sent afterwards is not in flight on it."""
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: ended(pid), 5, "the killed worker is dead")


def test_drain_finishes_the_running_stream(start_gateway: StartGateway, provider: OpenAIProvider) -> None:
    """SIGTERM while a stream runs: the stream ends properly, then the gateway exits with 0 and leaves nobody behind."""
    gateway = start_gateway()
    children = [*gateway.worker_pids(), *gateway.envoy_pids()]
    assert len(gateway.worker_pids()) == 2
    gate = Gate()
    provider.script(deltas([{"content": "before "}, gate, {"content": "after"}]))
    with stream(gateway.base_url) as answer:
        answer.until("content_block_delta")
        gateway.process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            gateway.process.wait(1.5)
        gate.open()
        answer.read()
        assert answer.text == "before after"
    assert gateway.process.wait(15) == 0, gateway.output
    wait_until(lambda: all(ended(pid) for pid in children), 2, "all children are gone")


def test_a_second_signal_ends_at_once(start_gateway: StartGateway, provider: OpenAIProvider) -> None:
    gateway = start_gateway(workers=1)
    gate = Gate()
    provider.script(deltas([{"content": "before "}, gate]))
    with stream(gateway.base_url) as answer:
        answer.until("content_block_delta")
        gateway.process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            gateway.process.wait(0.5)
        gateway.process.send_signal(signal.SIGTERM)
        gateway.process.wait(5)
    gate.open()


def test_a_worker_killed_under_load(start_gateway: StartGateway, provider: OpenAIProvider) -> None:
    gateway = start_gateway()
    workers = gateway.worker_pids()
    assert len(workers) == 2
    gate = Gate()
    held = deltas([{"content": "a"}, gate, {"content": "b"}])
    provider.always(lambda seen: held if seen.body.get("stream") else completion({"content": "later"}))
    clean: list[str] = []
    broken: list[str] = []
    started = threading.Barrier(9, timeout=20)

    def client() -> None:
        with stream(gateway.base_url) as answer:
            answer.until("content_block_delta")
            started.wait()
            try:
                answer.read()
            except Exception:
                broken.append(answer.text)
            else:
                (clean if answer.seen[-1]["type"] == "message_stop" else broken).append(answer.text)

    clients = [threading.Thread(target=client) for _ in range(8)]
    for one in clients:
        one.start()
    started.wait()
    kill(workers[0])
    later = [post(gateway.base_url, payload()).status for _ in range(20)]
    gate.open()
    for one in clients:
        one.join(20)
    assert later == [200] * 20, "only streams that ran on the killed worker may fail"
    assert len(clean) + len(broken) == 8
    assert 1 <= len(clean) < 8, "the streams of the other worker go on, those of the killed one cannot"
    assert set(clean) == {"ab"}
    wait_until(lambda: len(gateway.worker_pids()) == 2, 15, "the killed worker is replaced")
    assert [post(gateway.base_url, payload()).status for _ in range(10)] == [200] * 10


@pytest.mark.fault
def test_workers_killed_again_and_again(start_gateway: StartGateway, provider: OpenAIProvider) -> None:
    """The other worker each time, as soon as there are two again: the one that is left was just started."""
    gateway = start_gateway()
    provider.always(text("fine"))
    for turn in range(12):
        wait_until(lambda: len(gateway.worker_pids()) == 2, 15, "two workers run")
        kill(gateway.worker_pids()[turn % 2])
        assert [post(gateway.base_url, payload()).status for _ in range(30)] == [200] * 30


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


def test_no_provider_gets_a_damaged_upload(start_gateway: StartGateway, provider: OpenAIProvider) -> None:
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


def test_admin_endpoints(gateway: Gateway) -> None:
    base = f"http://{gateway.admin}"
    assert request(base, "GET", "/healthz").status == 200
    assert request(base, "GET", "/readyz").status == 200
    assert b"# TYPE" in request(base, "GET", "/metrics").body


def test_up_without_a_configuration() -> None:
    """The built-in demo works offline and without any key."""
    port = free_port()
    running = Process("extproc up", [sys.executable, "-m", "extproc", "up", "--port", str(port)])
    try:
        url = running.wait_for_line(READY, START_SECONDS)[1]
        assert url == f"http://127.0.0.1:{port}"
        with stream(url, {"model": "demo"}, headers={"content-type": "application/json"}) as answer:
            answer.read()
        assert answer.text.strip()
    finally:
        code = running.terminate()
    assert code == 0
