"""Starting, stopping and losing workers: only what runs on a killed worker may fail, a drain fails nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from tests.e2e.gateway import READY, START_SECONDS, Gateway, Process, ended, free_port
from tests.e2e.wire import payload, post, request, stream
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
    gateway = start_gateway()
    provider.always(text("fine"))
    for _ in range(6):
        wait_until(lambda: len(gateway.worker_pids()) == 2, 15, "two workers run")
        kill(gateway.worker_pids()[0])
        assert [post(gateway.base_url, payload()).status for _ in range(30)] == [200] * 30


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
