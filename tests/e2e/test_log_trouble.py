"""A log that cannot be written changes nothing for clients: on a full disk, behind a reader that stalls, and whatever
process writes it. Lines are written whole or dropped and counted; the gateway ends when it is told to.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from extproc.envoy_config import find_envoy
from tests.e2e.gateway import Process, configuration
from tests.e2e.wire import post, request
from tests.ports import free_port
from tests.small_disk import small_disk

DISK = 128 * 1024
DROPPED = re.compile(rb"^extproc_log_lines_dropped_total ([0-9.]+)$", re.M)
PATIENCE = 30.0


class Running:
    """A gateway in one of two ways, `up` or `serve` behind an Envoy of its own, whose logs go to `stdout`, and to
    `envoy_stdout` where Envoy has one of its own."""

    def __init__(self, way: str, directory: Path, transport: str, stdout: int, envoy_stdout: int, **env: str) -> None:
        port, admin = free_port(), free_port()
        self.url, self.admin = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{admin}"
        config = configuration("http://127.0.0.1:1/v1", admin=f"127.0.0.1:{admin}", listen=f"127.0.0.1:{port}")
        file = directory / "extproc.yaml"
        file.write_text(json.dumps(config))
        self._command = [sys.executable, "-m", "extproc"]
        more = [] if way == "up" else ["--listen", f"unix:{directory}/w0.sock"]
        self.processor = Process(way, [*self._command, way, "--config", str(file), *more],
                                 {"EXTPROC_TRANSPORT": transport, **env}, stdout)
        self.envoy = None if way == "up" else self._envoy(file, directory, envoy_stdout)
        self.until(self._serves, "the gateway serves")

    def _envoy(self, file: Path, directory: Path, stdout: int) -> Process:
        bootstrap = directory / "envoy.json"
        made = Process("envoy-config", [*self._command, "envoy-config", "--with-secrets", "--config", str(file),
                                        "--processor", f"unix:{directory}/w0.sock", "--output", str(bootstrap)])
        assert made.process.wait(60) == 0, made.output
        return Process("envoy", [find_envoy() or "envoy", "-c", str(bootstrap), "--disable-hot-restart",
                                 "--concurrency", "1", "--log-level", "warning", "--file-flush-interval-msec", "100"],
                       stdout=stdout)

    def _serves(self) -> bool:
        assert self.processor.process.poll() is None, self.processor.output
        try:
            return (request(self.admin, "GET", "/readyz", headers={}).status == 200
                    and request(self.url, "GET", "/v1/models").status == 200)
        except OSError:
            return False

    def until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, f"not true: {what}\n{self.processor.output}"
            threading.Event().wait(0.02)

    def ask(self, count: int) -> None:
        """Half of these have a line of the processor's, half one of Envoy's; all are answered as ever."""
        def one(number: int) -> int:
            headers = None if number % 2 else {"content-type": "application/json"}
            return request(self.url, "GET", "/v1/models", headers=headers, timeout=10).status

        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(one, range(count)))
        assert found == [401, 200] * (count // 2)

    @property
    def dropped(self) -> float:
        found = DROPPED.search(request(self.admin, "GET", "/metrics", headers={}).body)
        assert found is not None
        return float(found[1])

    def healthy(self) -> bool:
        return [request(self.admin, "GET", path, headers={}).status for path in ("/healthz", "/readyz")] == [200, 200]

    def stop(self) -> None:
        """SIGTERM is heeded whatever the log does."""
        began = time.monotonic()
        assert self.processor.terminate() == 0, self.processor.output
        assert time.monotonic() - began < 10

    def kill(self) -> None:
        for process in (self.processor, self.envoy):
            if process is not None and process.process.poll() is None:
                process.process.kill()
                process.process.wait()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", DISK) as place:
        yield place


@pytest.fixture
def started() -> Iterator[list[Running]]:
    made: list[Running] = []
    yield made
    for one in made:
        one.kill()


def lines_of(log: Path) -> list[dict[str, Any]]:
    """Every line of a log, each of which must be whole."""
    text = log.read_bytes()
    assert text == b"" or text.endswith(b"\n"), text[-200:]
    return [json.loads(line) for line in text.splitlines()]


def appending(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


both = pytest.mark.parametrize(("way", "transport"), [("up", "native"), ("serve", "grpcio")])
"""Both ways to run and both transports: neither depends on the other."""


@both
def test_a_full_disk_stops_no_request(way: str, transport: str, disk: Path, tmp_path: Path,
                                      started: list[Running]) -> None:
    """Envoy's own log is on that disk as well, in a file of its own where it runs elsewhere."""
    log, envoys = disk / "log", disk / "envoy-log"
    stdout, envoy_stdout = appending(log), appending(envoys)
    running = Running(way, tmp_path, transport, stdout, envoy_stdout)
    started.append(running)
    running.until(lambda: running.ask(50) is None and running.dropped > 0, "the disk is full")
    running.ask(100)
    assert running.healthy()
    assert lines_of(log)

    dropped = running.dropped
    log.write_bytes(b"")
    envoys.write_bytes(b"")
    running.ask(10)
    running.until(lambda: "log_lines_dropped" in log.read_text(), "the log says what is missing")
    running.until(lambda: len([line for line in lines_of(log) if line.get("path") == "/v1/models"]) >= 5, "it goes on")
    said = [line for line in lines_of(log) if line["event"] == "log_lines_dropped"]
    assert [(line["level"], line["reason"]) for line in said] == [("warning", "No space left on device")]
    assert said[0]["lines"] >= dropped
    running.stop()
    os.close(stdout)
    os.close(envoy_stdout)


@both
def test_a_reader_that_stalls_holds_up_no_request(way: str, transport: str, tmp_path: Path,
                                                  started: list[Running]) -> None:
    """Long lines, so that all queues between a worker and the reader are full soon. An Envoy elsewhere has a pipe of
    its own that nobody reads."""
    (reader, writer), (envoys_reader, envoys_writer) = os.pipe(), os.pipe()
    running = Running(way, tmp_path, transport, writer, envoys_writer, EXTPROC_DEBUG_BODIES="1")
    started.append(running)
    os.close(writer)
    os.close(envoys_writer)
    long = {"model": "unknown", "messages": [{"role": "user", "content": "x" * 60_000}]}
    for _ in range(60):
        assert post(running.url, long).status == 404
    running.until(lambda: running.dropped > 0, "lines are dropped")
    running.ask(300)
    assert running.healthy()

    read: list[bytes] = []
    awake = threading.Thread(target=lambda: read.extend(iter(lambda: os.read(reader, 1 << 16), b"")))
    awake.start()
    running.until(lambda: b"log_lines_dropped" in b"".join(read), "the log says what is missing")
    running.stop()
    awake.join(10)
    for line in b"".join(read).splitlines():
        assert json.loads(line)
    os.close(reader)
    os.close(envoys_reader)


def test_a_gateway_whose_log_nobody_reads_ends_when_it_is_told_to(tmp_path: Path, started: list[Running]) -> None:
    reader, writer = os.pipe()
    running = Running("up", tmp_path, "native", writer, writer)
    started.append(running)
    os.close(writer)
    running.ask(400)
    running.stop()
    os.close(reader)
