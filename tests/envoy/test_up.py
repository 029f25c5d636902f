"""`extproc up` as a process: ready, served, gone. The workers are stand-ins.

Stops and crashes under requests are in tests/e2e (test_lifecycle, test_terminal, test_envoy_dies, test_hostile_crash),
starts that fail in test_start_errors.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.envoy.running import Provider
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]


class Up:
    """One run. `lines` holds standard output and standard error."""

    def __init__(self, folder: Path, provider: int, *worker: str, port: int | None = None, admin: str | None = None,
                 **changes: Any) -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        config = folder / "extproc.yaml"
        config.write_text(json.dumps({
            "admin": admin or f"127.0.0.1:{free_port()}", "workers": 1,
            "backends": {"b": {"api": "openai", "url": f"http://127.0.0.1:{provider}/v1", "key": "secret-of-b"}},
            "models": [{"match": "m", "attempts": [{"backend": "b", "model": "x"}]}], **changes}))
        self.port = port or free_port()
        self.lines: list[str] = []
        self._news = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.envoy.up_with_stand_in", str(config), str(self.port),
             *worker], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "TMPDIR": str(self.temporary), "PYTHONWARNINGS": "ignore"}, start_new_session=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or []:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def line(self, start: str, after: int = 0) -> str:
        """The first line that begins so, waited for."""
        def found() -> str | None:
            return next((line for line in self.lines[after:] if line.startswith(start)), None)

        with self._news:
            self._news.wait_for(lambda: found() is not None or not self._reader.is_alive(), 40)
        line = found()
        assert line is not None, f"no line {start!r} in:\n" + "\n".join(self.lines)
        return line

    def ready(self) -> Up:
        assert self.line("extproc: ready on") == f"extproc: ready on http://127.0.0.1:{self.port}"
        return self

    def ask(self) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("POST", "/v1/messages", b'{"model": "m"}', {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def children(self) -> list[int]:
        task = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in task.read_text().split()]

    def child(self, program: str) -> int:
        """The child whose command line holds `program`."""
        return next(pid for pid in self.children()
                    if program in Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "))

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def exit_code(self) -> int:
        code = self.process.wait(30)
        self._reader.join(10)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider().start()
    yield made
    made.stop()


@pytest.fixture
def ups() -> Iterator[list[Up]]:
    made: list[Up] = []
    yield made
    for up in made:
        up.close()


def wait_gone(pids: list[int]) -> None:
    """Until none of these processes runs any more (a zombie does not run)."""
    end = time.monotonic() + 10
    while alive := [pid for pid in pids if _state(pid) not in ("Z", "")]:
        assert time.monotonic() < end, f"still running: {alive}"
        time.sleep(0.02)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_ready_means_that_the_first_request_succeeds_and_an_idle_gateway_ends_at_once(
        tmp_path: Path, provider: Provider, ups: list[Up]) -> None:
    ups.append(up := Up(tmp_path, provider.port).ready())
    assert up.ask() == (200, provider.body)
    text = "\n".join(up.lines)
    assert f"export ANTHROPIC_BASE_URL=http://127.0.0.1:{up.port}" in text
    assert "b: x" in text
    assert "secret-of-b" not in text
    children = up.children()
    assert len(children) == 2  # one worker, one Envoy
    own = os.getsid(up.process.pid)
    assert all(os.getsid(pid) == pid != own for pid in children)  # the terminal's signals do not reach them
    began = time.monotonic()
    up.send(signal.SIGTERM)
    assert up.exit_code() == 0
    assert time.monotonic() - began < 5
    wait_gone(children)
    assert list(up.temporary.iterdir()) == []


def test_children_die_with_a_killed_parent_and_the_next_start_removes_what_it_left(
        tmp_path: Path, provider: Provider, ups: list[Up]) -> None:
    """The directory holds keys. That of a gateway which runs beside it stays."""
    ups.append(killed := Up(tmp_path, provider.port).ready())
    ups.append(beside := Up(tmp_path, provider.port).ready())
    both = set(killed.temporary.iterdir())
    assert len(both) == 2
    children = killed.children()
    killed.send(signal.SIGKILL)
    killed.exit_code()
    wait_gone(children)
    ups.append(third := Up(tmp_path, provider.port).ready())
    now = set(third.temporary.iterdir())
    assert len(now) == 2
    assert len(now & both) == 1
    assert beside.ask()[0] == 200
