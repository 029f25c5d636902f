"""An Envoy that dies under `extproc up` is started again, with the reason on standard error, but not for ever."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.gateway import Gateway, configuration
from tests.e2e.wire import request


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    made = Gateway(configuration("http://127.0.0.1:1/v1"), tmp_path)
    yield made
    if made.process.poll() is None:
        made.terminate()


def serves(gateway: Gateway) -> bool:
    with contextlib.suppress(OSError):
        return request(gateway.base_url, "GET", "/v1/models").status == 200
    return False


def test_it_comes_back(gateway: Gateway) -> None:
    [envoy] = gateway.envoy_pids()
    os.kill(envoy, signal.SIGKILL)
    end = time.monotonic() + 20
    while not serves(gateway):
        assert time.monotonic() < end, gateway.output
        threading.Event().wait(0.02)
    assert gateway.envoy_pids() != [envoy]
    assert gateway.said("Envoy was ended by SIGKILL")
    assert gateway.said("starting it again in 0.2 s (time 1 of 5 within 60 s)")
    assert request(f"http://{gateway.admin}", "GET", "/readyz", headers={}).status == 200
    gateway.config_file.write_text(gateway.config_file.read_text().replace("glob/two", "glob/three"))
    gateway.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 20
    while b"glob/three" not in request(gateway.base_url, "GET", "/v1/models").body:
        assert time.monotonic() < end, gateway.output
        threading.Event().wait(0.02)
    [envoy] = gateway.envoy_pids()
    os.kill(envoy, signal.SIGKILL)
    assert gateway.terminate() == 0, "a signal to stop is heeded while Envoy is away"


def test_one_that_never_lives_long_is_given_up(gateway: Gateway) -> None:
    end = time.monotonic() + 60
    while gateway.process.poll() is None and time.monotonic() < end:
        for envoy in gateway.envoy_pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(envoy, signal.SIGKILL)
        threading.Event().wait(0.05)
    assert gateway.process.wait(10) == 1
    assert gateway.said("that was 6 times within 60 s: giving up")
