"""Lines are written by a thread of their own: whole or not at all, lost ones are counted, and no caller waits."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from extproc.process.output import LineWriter


def notice(count: int, reason: str) -> bytes:
    return f"{count} missing: {reason}".encode()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for end in (reader, writer):
        os.close(end)


def test_no_caller_waits_for_a_stalled_reader(pipe: tuple[int, int]) -> None:
    """Lines that fit into the pipe and the queue are kept, the others are counted. When the reader continues, one line
    says how many are missing."""
    reader, writer = pipe
    lines = LineWriter(writer, notice, queue_bytes=100_000)
    for number in range(5000):
        lines.put(b"%0999d\n" % number)
    assert not lines.flush(0)
    assert 4700 < lines.dropped < 5000 - 90
    got = b""
    while b"missing" not in got:
        got += os.read(reader, 65536)
    assert lines.flush(5)
    *kept, last = got.splitlines()
    numbers = [int(line) for line in kept]
    assert numbers == sorted(set(numbers)), "whole, once, in order"
    assert len(numbers) == 5000 - lines.dropped
    assert last == notice(lines.dropped, "nobody reads it")
    lines.put(b"again\n")
    assert os.read(reader, 100) == b"again\n", "the notice is written once"


def test_a_line_longer_than_the_queue_is_written(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    lines = LineWriter(writer, notice, queue_bytes=100)
    lines.put(b"x" * 9999 + b"\n")
    assert lines.flush(5)
    assert len(os.read(reader, 65536)) == 10_000


def test_a_closed_pipe_is_no_error(pipe: tuple[int, int]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    lines = LineWriter(writer, notice)
    for _ in range(3):
        lines.put(b"x\n")
    assert lines.flush(5)
    assert lines.dropped == 3
    os.close(writer)


LIMITED = """
import resource, sys
from extproc.process.output import LineWriter
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
lines = LineWriter(1, lambda count, reason: b"%d missing: %s" % (count, reason.encode()))
for number in range(20):
    lines.put(b"%099d\\n" % number)
lines.put(b"x" * 150 + b"\\n")
lines.put(b"fits\\n")
assert lines.flush(5)
resource.setrlimit(resource.RLIMIT_FSIZE, (100000, hard))
lines.put(b"room again\\n")
assert lines.flush(5)
print(lines.dropped, file=sys.stderr)
"""


@pytest.mark.parametrize("flags", [os.O_APPEND, 0])
def test_a_partial_line_is_removed(tmp_path: Path, flags: int) -> None:
    """The kernel writes a part of the line if there is room for a part (here: a limit of the file size)."""
    path = tmp_path / "log"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | flags)
    os.write(file, b"a start of 50 bytes".ljust(49) + b"\n")
    done = subprocess.run([sys.executable, "-c", LIMITED], stdout=file, stderr=subprocess.PIPE, text=True, check=True)
    os.close(file)
    start, *written = path.read_bytes().splitlines()
    assert start.startswith(b"a start")
    assert [int(line) for line in written[:9]] == list(range(9))
    assert written[9] == b"fits"
    assert [line for line in written[10:] if not line.endswith(b"missing: File too large")] == [b"room again"]
    assert sum(int(line.split()[0]) for line in written[10:] if b"missing" in line) == int(done.stderr) == 12


def test_another_writer_of_the_file_loses_nothing(tmp_path: Path) -> None:
    """A partial line that cannot be removed, because more follows, does not become a part of the next line."""
    path = tmp_path / "log"
    own, other = (os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(2))
    os.write(other, b"o" * 1500 + b"\n")  # past the limit: the file does not end with the partial line
    subprocess.run([sys.executable, "-c", LIMITED], stdout=own, stderr=subprocess.PIPE, text=True, check=True)
    found = path.read_bytes()
    assert len(found) == 1501
    assert found.endswith(b"o\n")
    assert b"\nroom again\n" in found
    for end in (own, other):
        os.close(end)
