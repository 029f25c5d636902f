"""/healthz, /readyz and /metrics of a running gateway, while its parts go away and come back."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.gateway import Gateway, configuration, descendants
from tests.e2e.wire import request, stream
from tests.providers.http import Gate
from tests.providers.openai import OpenAIProvider
from tests.providers.openai import stream as deltas

READY = (200, {"ready": True, "missing": []})


@pytest.fixture(scope="module")
def provider() -> Iterator[OpenAIProvider]:
    made = OpenAIProvider(strict=False)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def gateway(provider: OpenAIProvider, tmp_path: Path) -> Iterator[Gateway]:
    config = configuration(provider.url)
    config["teams"]["test"]["limits"] = {"requests_per_minute": 1000}
    running = Gateway(config, tmp_path)
    yield running
    if running.process.poll() is None:
        assert running.terminate() == 0, running.output


def readyz(gateway: Gateway) -> tuple[int, Any]:
    answer = request(f"http://{gateway.admin}", "GET", "/readyz", headers={})
    assert answer.headers["content-type"] == "application/json"
    return answer.status, answer.json()


def metric(gateway: Gateway) -> str:
    text = request(f"http://{gateway.admin}", "GET", "/metrics", headers={}).body.decode()
    return next(line for line in text.splitlines() if line.startswith("extproc_ready "))


def until(gateway: Gateway, wanted: tuple[int, Any], *, without: str = "") -> None:
    """`without`: processes that are killed as often as they come; else a successor might be there before the look."""
    end = time.monotonic() + 15
    while True:
        for pid in children(gateway, without) if without else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if (found := readyz(gateway)) == wanted:
            return
        assert time.monotonic() < end, found
        threading.Event().wait(0.02)


def missing(*what: str) -> tuple[int, Any]:
    return 503, {"ready": False, "missing": list(what)}


def children(gateway: Gateway, command: str) -> list[int]:
    """The gateway's own processes with this word in their command line."""
    found = []
    for pid in descendants(gateway.process.pid):
        with contextlib.suppress(OSError):  # it has just ended
            if f"\0{command}\0" in Path(f"/proc/{pid}/cmdline").read_text(errors="replace"):
                found.append(pid)
    return found


WORKER, COUNTING = "extproc.worker.worker_process", "limits"
NO_WORKER = "workers: none answers its health check"
NO_COUNTING = "limits: the process that counts does not answer its health check"


def test_what_is_missing_is_named(gateway: Gateway, provider: OpenAIProvider) -> None:
    """The process itself is alive all the while. At last it stops: it is not ready while responses still run."""
    assert readyz(gateway) == READY
    assert metric(gateway) == "extproc_ready 1"
    one, _ = children(gateway, WORKER)
    os.kill(one, signal.SIGKILL)
    assert readyz(gateway) == READY  # the other serves
    until(gateway, missing(NO_WORKER), without=WORKER)
    assert metric(gateway) == "extproc_ready 0" or readyz(gateway) == READY  # its successor may be there already
    assert request(f"http://{gateway.admin}", "GET", "/healthz", headers={}).body == b"ok\n"
    assert request(f"http://{gateway.admin}", "GET", "/elsewhere", headers={}).status == 404
    until(gateway, READY)

    assert len(children(gateway, COUNTING)) == 1
    until(gateway, missing(NO_COUNTING), without=COUNTING)
    until(gateway, READY)

    [envoy] = gateway.envoy_pids()
    os.kill(envoy, signal.SIGSTOP)
    assert readyz(gateway) == missing("Envoy: does not answer")
    os.kill(envoy, signal.SIGCONT)
    until(gateway, READY)

    gate = Gate()
    provider.script(deltas([{"content": "before "}, gate, {"content": "after"}]))
    with stream(gateway.base_url) as answer:
        answer.until("content_block_delta")
        gateway.process.send_signal(signal.SIGTERM)
        until(gateway, missing("the gateway is stopping"))
        assert request(f"http://{gateway.admin}", "GET", "/healthz", headers={}).status == 200
        gate.open()
        answer.read()
        assert answer.text == "before after"
    assert gateway.process.wait(15) == 0
