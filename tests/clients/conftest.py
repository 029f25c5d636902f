"""Starts the stage once, skips what cannot run here with the reason, and prints what ran as a table."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.clients.installed import (
    CLIENTS,
    ROOT,
    find,
    node_folder,
    on_any_network,
    own_network,
    version,
    why_missing,
    why_nothing_runs,
)
from tests.e2e.gateway import descendants

CASE_SECONDS = 45.0
"""How long one client may take; a cycle takes one to eight seconds."""
START_SECONDS = 60.0
FOLDER_SECONDS = float(os.environ.get("CLIENTS_SECONDS", "170"))
"""When this is used up the cases that are left are skipped: the folder never holds up a run for long."""


@dataclass
class _Run:
    began: float = field(default_factory=time.monotonic)
    rows: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By test: client, API, model, scenario, seconds, and the files or why nothing ran."""


_RUN = pytest.StashKey[_Run]()


class Scene:
    """The stage's process: cases in, answers out. It has a HOME of its own and nothing of the caller's environment
    but what finds programs."""

    def __init__(self, folder: Path) -> None:
        network = None if on_any_network() else own_network()
        words = [*(network or ()), sys.executable, "-m", "tests.clients.stage", *(["--own-network"] if network else [])]
        environment = {"HOME": str(folder), "TMPDIR": str(folder), "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT),
                       "PATH": os.environ.get("PATH", os.defpath), "CLIENTS_NODE22": str(node_folder())}
        self._log = (folder / "stage.log").open("w+", encoding="utf-8", errors="replace")
        self._process = subprocess.Popen(words, cwd=ROOT, env=environment, stdin=subprocess.PIPE, text=True,
                                         stdout=subprocess.PIPE, stderr=self._log, start_new_session=True)
        self._answers: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self._answer(START_SECONDS)
        except AssertionError:
            self._kill()
            raise

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def play(self, **case: Any) -> dict[str, Any]:
        """One case through `stage.Stage.play`. An AssertionError with the stage's log when it does not answer, as from
        the constructor when the gateway does not start."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({**case, "seconds": CASE_SECONDS}) + "\n")
        self._process.stdin.flush()
        return self._answer(2 * CASE_SECONDS)

    def _answer(self, seconds: float) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            line = ""
        assert line, f"the stage said nothing; its log:\n{self._tail()}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _kill(self) -> None:
        for pid in [*descendants(self._process.pid), self._process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def _tail(self) -> str:
        self._log.seek(0)
        return self._log.read()[-3000:]

    def end(self) -> int:
        """Ends input, and so gateway and stage; the exit code is the gateway's."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(CASE_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
            raise AssertionError(f"the stage did not end:\n{self._tail()}") from None
        finally:
            self._log.close()
        return code


@pytest.fixture(scope="session")
def scene() -> Iterator[Scene]:
    """Starts with the first case that can run. The gateway must survive all clients and end with exit code 0."""
    with tempfile.TemporaryDirectory(prefix="clients-", ignore_cleanup_errors=True) as folder:
        running = Scene(Path(folder))
        yield running
        assert running.end() == 0


@pytest.fixture
def play(request: pytest.FixtureRequest) -> Callable[[str, str, str, str], dict[str, Any]]:
    """`play(client, api, model, scenario)`: one client through one scenario, or a skip that says why not."""
    run = request.config.stash.setdefault(_RUN, _Run())

    def play_case(client: str, api: str, model: str, scenario: str) -> dict[str, Any]:
        left = FOLDER_SECONDS - (time.monotonic() - run.began)
        reason = why_nothing_runs() or why_missing(client)
        if reason is None and left < 0:
            reason = f"the {FOLDER_SECONDS:.0f} seconds of this folder are used up (CLIENTS_SECONDS sets more)"
        name = f"{CLIENTS[client].title} {version(client)}".strip()
        if reason is not None:
            run.rows[request.node.nodeid] = (name, api, model, scenario, "", reason)
            pytest.skip(reason)
        answer: dict[str, Any] = request.getfixturevalue("scene").play(
            client=client, program=find(client), api=api, model=model, scenario=scenario)
        run.rows[request.node.nodeid] = (name, api, model, scenario, f"{answer['seconds']:.1f} s",
                                         " ".join(answer["files"]) or "-")
        return answer

    return play_case


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    run = config.stash.get(_RUN, None)
    if run is None:
        return
    results = {report.nodeid: result for result in ("passed", "skipped", "failed", "error")
               for report in terminalreporter.getreports(result)}
    rows = [("result", "client", "api", "model", "scenario", "took", "files written, or why not"),
            *((results.get(test, "?"), *row) for test, row in run.rows.items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    terminalreporter.section("real clients")
    for row in rows:
        terminalreporter.write_line("  ".join(map(str.ljust, row, widths)).rstrip())
