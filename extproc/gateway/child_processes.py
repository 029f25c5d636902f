"""Child processes that die with this one and that the terminal never signals.

Each child gets a session of its own, so Ctrl-C reaches only the parent, which then drains. A few lines of Python run
before the program itself and ask the kernel to kill it when the parent ends, for whatever reason.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence

LineSink = Callable[[str], None]

_PR_SET_PDEATHSIG = 1
_BEFORE_EXEC = f"""
import ctypes, os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, int(signal.SIGKILL))
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the parent is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""
"""SIGHUP asks a worker to read its configuration; it must not kill one that has no handler yet. argv: the parent's
process id (it may have died before the request to the kernel), then the program and its arguments."""


class StartError(Exception):
    """A required part could not be started. The message is complete and meant for the user."""


class ChildProcess:
    """A running child. Its output goes line by line to the callbacks; the last lines are kept for error messages."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, on_line: LineSink, on_error: LineSink) -> None:
        self.name = name
        self.tail: collections.deque[str] = collections.deque(maxlen=30)
        self._process = process
        self._readers = [asyncio.create_task(self._read(process.stdout, on_line)),
                         asyncio.create_task(self._read(process.stderr, on_error))]

    @classmethod
    async def start(cls, name: str, command: Sequence[str], *, env: Mapping[str, str], on_line: LineSink,
                    on_error: LineSink) -> ChildProcess:
        """Starts `command`, whose first part is the path of the program."""
        # Called in the main thread only: the kernel watches the thread that forked.
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", "-c", _BEFORE_EXEC, str(os.getpid()), *command, env=dict(env),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            start_new_session=True)
        return cls(name, process, on_line, on_error)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for a signal."""
        return self._process.returncode

    async def wait(self) -> int:
        """Waits until it has ended and all its output was read. Returns the exit code."""
        code = await self._process.wait()
        await asyncio.gather(*self._readers)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Signals the child. Does nothing if it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def stop(self, patience: float) -> None:
        """SIGTERM, and SIGKILL after `patience` seconds."""
        self.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(asyncio.shield(self._process.wait()), patience)
        except TimeoutError:
            self.send_signal(signal.SIGKILL)
        await self.wait()

    def describe_end(self, lines: int = 12) -> str:
        """How it ended, and the last lines that it wrote, indented."""
        code = self.exit_code
        if code is None:
            how = "still runs"
        elif code < 0:
            how = f"was ended by {signal.Signals(-code).name}"
        else:
            how = f"ended with exit code {code}"
        last_lines = list(self.tail)[-lines:] if lines else []
        return "\n".join([f"{self.name} {how}", *(f"    {line}" for line in last_lines)])

    async def _read(self, stream: asyncio.StreamReader | None, on_line: LineSink) -> None:
        """Splits lines by hand: a line (a body in a debug log) may be longer than asyncio's limit."""
        assert stream is not None
        parts: list[bytes] = []
        while data := await stream.read(65536):
            *complete, rest = data.split(b"\n")
            for line in complete:
                self._line(b"".join([*parts, line]), on_line)
                parts = []
            if rest:
                parts.append(rest)
        if parts:
            self._line(b"".join(parts), on_line)

    def _line(self, data: bytes, on_line: LineSink) -> None:
        text = data.decode("utf-8", "replace")
        self.tail.append(text[:500])
        on_line(text)
