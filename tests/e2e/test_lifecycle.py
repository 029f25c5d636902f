"""Workers that are killed again and again, the admin endpoints, and a start without a configuration.

Drains are in test_terminal and tests/envoy/test_admin.py, the requests of a killed worker in test_hostile_crash.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import pytest

from tests.e2e.gateway import READY, START_SECONDS, Gateway, Process, ended
from tests.e2e.wire import payload, post, request, stream
from tests.ports import free_port
from tests.providers.openai import OpenAIProvider, text

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


@pytest.mark.fault
def test_workers_killed_again_and_again(start_gateway: StartGateway, provider: OpenAIProvider) -> None:
    """The other worker each time, as soon as there are two again: the one that is left was just started."""
    gateway = start_gateway()
    provider.always(text("fine"))
    for turn in range(12):
        wait_until(lambda: len(gateway.worker_pids()) == 2, 15, "two workers run")
        kill(gateway.worker_pids()[turn % 2])
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
