"""What reads the wall clock, and that its jumps do no harm. What waits uses a clock that only goes forward."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

import extproc
from extproc.config.keyfile import KeyFile

WALL = re.compile(r"\btime\.(time|time_ns|localtime|gmtime)\b|\bdatetime\.(now|utcnow|today)\b")
READERS = {
    "config/keyfile.py": "whether a file was written just now; wrong, it is read more often",
    "ratelimit/server.py": "which minute or day it is; another one, earlier or later, begins at 0",
    "process/output.py": "the time of a line",
    "gateway/reload.py": "the time of a reload, for its metric",
}


def test_who_reads_the_wall_clock() -> None:
    """A new reader must say what a jump does to it, and be tested."""
    root = Path(extproc.__file__).parent
    assert {str(file.relative_to(root)) for file in root.rglob("*.py")
            if WALL.search(file.read_text(encoding="utf-8"))} == set(READERS)


@pytest.mark.parametrize("jump", [-400 * 86_400, -60, 0, 60, 400 * 86_400])
def test_a_new_key_is_seen_whatever_the_clock_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: int) -> None:
    """Also one of the same length, written at the moment of the old one by a clock that was set back."""
    file = tmp_path / "key"
    file.write_text("sk-first-key")
    keys = KeyFile(str(file))
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + jump * 10**9)
    assert keys.keys() == ("sk-first-key",)
    was = os.stat(file).st_mtime_ns
    file.write_text("sk-other-key")
    os.utime(file, ns=(was, was) if jump <= 0 else (was + 1, was + 1))  # a clock ahead: the first file looks old to it
    assert keys.keys()[0] == "sk-other-key"
