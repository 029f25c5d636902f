"""Lines on standard output and standard error, written by a thread of their own: no caller waits for the disk, the
terminal or the reader of a pipe, and none fails because of them.

A line is written whole or dropped. Lines that cannot be written (a full disk, a closed pipe) or do not fit into the
queue of a stalled reader are dropped and counted. When writing works again, one line says how many are missing. Every
process of the gateway writes through this module: workers and the rate limit service to pipes that their parent reads,
the parent to its own outputs.
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
"""Bytes that may wait for a slow reader: some seconds of lines under full load."""
DROPPED: Final = "log_lines_dropped"
"""The event of the line that says how many lines are missing."""
LAST_PATIENCE: Final = 1.0
"""Seconds in which waiting lines may still be written when the process ends."""
_ROOM: Final = 16 * 1024
"""Bytes that must be free on a disk that was full before it is tried again. Otherwise a short line would fit now and
then, and the log would report each time that it works again."""


class LineWriter:
    """Writes to one file descriptor. `notice` makes the line (without its end) that says how many lines are missing,
    and why."""

    def __init__(self, descriptor: int, notice: Callable[[int, str], bytes], queue_bytes: int = QUEUE_BYTES) -> None:
        self._descriptor = descriptor
        self._notice = notice
        self._queue_bytes = queue_bytes
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._size = 0
        """Waiting bytes, including the line that is being written."""
        self._thread: threading.Thread | None = None
        self._unreported = 0
        """Lines that were dropped since the last notice."""
        self._reason = ""
        self._disk_was_full = False
        self._torn = False
        """The file ends with a part of a line that could not be removed."""
        self.dropped = 0
        """The total number of dropped lines."""

    def put(self, line: bytes) -> None:
        """Queues one or several lines with their ends. Returns at once. For any thread."""
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
        """Waits until everything was written or dropped. Returns False if that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._size, seconds)

    def _drop(self, reason: str) -> None:
        self.dropped += 1
        self._unreported += 1
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
                unreported = 0 if problem is not None or self._lines else self._unreported
                reason = self._reason
            if unreported and self._write(self._notice(unreported, reason) + b"\n") is None:
                with self._changed:
                    self._unreported -= unreported
            with self._changed:
                self._size -= len(line)
                self._changed.notify_all()

    def _write(self, line: bytes) -> str | None:
        """Writes all of it and returns None, or nothing and returns the reason."""
        if self._disk_was_full and self._is_full():
            return self._reason
        if self._torn:
            line = b"\n" + line
        done = 0
        while done < len(line):
            try:
                done += os.write(self._descriptor, line[done:] if done else line)
            except BlockingIOError:
                # Another program with the same terminal or pipe made it non-blocking. This thread can wait.
                poll = select.poll()
                poll.register(self._descriptor, select.POLLOUT)
                poll.poll(1000)
            except OSError as error:
                self._disk_was_full = error.errno == errno.ENOSPC
                if done:
                    self._remove_partial_line(done)
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

    def _remove_partial_line(self, count: int) -> None:
        """Removes the partial line that was written last, if it is still the end of a file. Otherwise the next line
        starts on a line of its own."""
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
    """Writes a line of the log, or a line for a program that reads standard output."""
    _put(sys.stdout, line)


def put_on_stderr(line: bytes) -> None:
    """Writes a line for people."""
    _put(sys.stderr, line)


def lines_dropped() -> int:
    """Dropped lines of this process, on both outputs."""
    return sum(writer.dropped for writer in set(_writers.values()))


def flush(seconds: float = LAST_PATIENCE) -> None:
    """Waits for queued lines before a process ends, for at most `seconds` in all."""
    end = time.monotonic() + seconds
    for writer in set(_writers.values()):
        writer.flush(max(0.0, end - time.monotonic()))


def _put(stream: TextIO | None, line: bytes) -> None:
    if stream is None:  # the process was started without this output
        return
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # an in-memory stream in place of a file
        stream.write(line.decode("utf-8", "replace"))
        stream.flush()
        return
    writer = _writers.get(descriptor)
    if writer is None:
        with _making:
            writer = _writers.get(descriptor) or _make_writer(descriptor)
            _writers[descriptor] = writer
    writer.put(line)


def _make_writer(descriptor: int) -> LineWriter:
    """One writer for both outputs if they are one file, so that neither interrupts a line of the other."""
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
    """The time in the format of the log."""
    seconds = time.time()
    return f"{_second(int(seconds))}.{int(seconds % 1 * 1000):03d}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
