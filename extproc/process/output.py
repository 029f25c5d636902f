"""Lines on standard output and standard error, written by a thread of their own: whoever has a line never waits for
the disk, the terminal or the reader of a pipe, and never fails because of them.

A line is written whole or dropped. What cannot be written (a full disk, a reader that is gone) and what does not fit
into the queue behind a reader that stalls is dropped and counted; when writing works again, one line says how much is
missing. Every process of the gateway writes through here: workers and the process that counts limits to pipes that
their parent reads, the parent to whatever it was given.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TextIO

import msgspec

QUEUE_BYTES: Final = 1024 * 1024
"""What may wait for a slow reader: some seconds of lines under full load."""
DROPPED: Final = "log_lines_dropped"
"""The event of the line that tells how many are missing."""
LAST_PATIENCE: Final = 1.0
"""Seconds that the lines which still wait have when the process ends."""
_ROOM: Final = 16 * 1024
"""Bytes that must be free on a disk that was full before it is tried again: else the last bytes would take a short
line now and then, and each time the log would say that it works again."""


class LineWriter:
    """Writes to one file descriptor. `notice` makes the line (without its end) that tells how many lines are missing,
    and why."""

    def __init__(self, descriptor: int, notice: Callable[[int, str], bytes], queue_bytes: int = QUEUE_BYTES) -> None:
        self._descriptor = descriptor
        self._notice = notice
        self._queue_bytes = queue_bytes
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._size = 0
        """Bytes that wait, the line that is being written among them."""
        self._thread: threading.Thread | None = None
        self._untold = 0
        """Lines that were dropped since the last notice."""
        self._reason = ""
        self._disk_was_full = False
        self._torn = False
        """The file ends with a part of a line that could not be taken back."""
        self.dropped = 0
        """Lines that were dropped in all."""

    def put(self, line: bytes) -> None:
        """One line or several, with their ends. Returns at once. For any thread."""
        with self._changed:
            if self._size and self._size + len(line) > self._queue_bytes:
                self._drop("nobody reads it")
                return
            self._lines.append(line)
            self._size += len(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Waits until everything has been written or dropped. False when that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._size, seconds)

    def _drop(self, reason: str) -> None:
        self.dropped += 1
        self._untold += 1
        self._reason = reason

    # ------------------------------------------------------------------------------------------------------ the thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                line = self._lines.popleft()
            problem = self._write(line)
            with self._changed:
                if problem is not None:
                    self._drop(problem)
                untold = 0 if problem is not None or self._lines else self._untold
                reason = self._reason
            if untold and self._write(self._notice(untold, reason) + b"\n") is None:
                with self._changed:
                    self._untold -= untold
            with self._changed:
                self._size -= len(line)
                self._changed.notify_all()

    def _write(self, line: bytes) -> str | None:
        """Writes all of it and returns None, or nothing and returns why."""
        if self._disk_was_full and self._is_full():
            return self._reason
        if self._torn:
            line = b"\n" + line
        done = 0
        while done < len(line):
            try:
                done += os.write(self._descriptor, line[done:] if done else line)
            except BlockingIOError:
                # Another program that has the same terminal or pipe asked for this; here is time to wait.
                poll = select.poll()
                poll.register(self._descriptor, select.POLLOUT)
                poll.poll(1000)
            except OSError as error:
                self._disk_was_full = error.errno == errno.ENOSPC
                if done:
                    self._take_back(done)
                return error.strerror or type(error).__name__
        self._disk_was_full = self._torn = False
        return None

    def _is_full(self) -> bool:
        try:
            found = os.fstatvfs(self._descriptor)
        except OSError:
            return False
        free, size = found.f_bfree * found.f_frsize, found.f_blocks * found.f_frsize
        return free < min(_ROOM, size // 8)

    def _take_back(self, count: int) -> None:
        """Removes the part of a line that was written last, where it is still the end of a file; else the next line
        begins on a line of its own."""
        self._torn = True
        try:
            found = os.fstat(self._descriptor)
            if stat.S_ISREG(found.st_mode) and os.lseek(self._descriptor, 0, os.SEEK_CUR) == found.st_size:
                os.ftruncate(self._descriptor, found.st_size - count)
                os.lseek(self._descriptor, -count, os.SEEK_CUR)
                self._torn = False
        except OSError:
            pass


# ------------------------------------------------------------------------------------------ the outputs of a process

_writers: dict[int, LineWriter] = {}
_making = threading.Lock()


def put_on_stdout(line: bytes) -> None:
    """A line of the log, or what a program that reads standard output waits for."""
    _put(sys.stdout, line)


def put_on_stderr(line: bytes) -> None:
    """A line for people."""
    _put(sys.stderr, line)


def lines_dropped() -> int:
    """By this process, on both outputs."""
    return sum(writer.dropped for writer in set(_writers.values()))


def flush(seconds: float = LAST_PATIENCE) -> None:
    """Waits for what was put, for so many seconds in all: before a process ends."""
    end = time.monotonic() + seconds
    for writer in set(_writers.values()):
        writer.flush(max(0.0, end - time.monotonic()))


def _put(stream: TextIO | None, line: bytes) -> None:
    if stream is None:  # the process was started without this output
        return
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # memory that stands in for a file
        stream.write(line.decode("utf-8", "replace"))
        stream.flush()
        return
    writer = _writers.get(descriptor)
    if writer is None:
        with _making:
            writer = _writers.get(descriptor) or _writer(descriptor)
            _writers[descriptor] = writer
    writer.put(line)


def _writer(descriptor: int) -> LineWriter:
    """One for both outputs where they are one file: so none cuts into a line of the other."""
    for other, writer in _writers.items():
        if _same_file(other, descriptor):
            return writer
    is_log = sys.stdout is not None and not os.isatty(descriptor) and _same_file(descriptor, sys.stdout.fileno())
    return LineWriter(descriptor, _notice_as_json if is_log else _notice_as_text)


def _same_file(one: int, other: int) -> bool:
    try:
        return one == other or os.path.sameopenfile(one, other)
    except OSError:
        return False


def _notice_as_json(count: int, reason: str) -> bytes:
    return msgspec.json.encode({"time": now(), "level": "warning", "event": DROPPED, "lines": count,
                                "reason": reason})


def _notice_as_text(count: int, reason: str) -> bytes:
    return f"extproc: {count} lines are missing here, they could not be written: {reason}".encode()


def now() -> str:
    """The time as it stands in every line of the log."""
    seconds = time.time()
    return f"{_second(int(seconds))}.{int(seconds % 1 * 1000):03d}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
