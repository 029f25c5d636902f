"""Runs a command on a terminal of its own (a pty), types into it and reads what an operator would see."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading

from tests.e2e.gateway import ROOT, Process

CTRL_C = b"\x03"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ON_THE_TERMINAL = "import os, sys; os.open(os.ttyname(0), os.O_RDWR); os.execv(sys.argv[1], sys.argv[1:])"
"""A session leader without a terminal gets the one it opens first; only then does Ctrl-C reach it."""


class Terminal(Process):
    """`lines` holds what was shown, without colours; lines end where the program ended them."""

    def __init__(self, command: list[str], env: dict[str, str] | None = None, *, columns: int = 80) -> None:
        self.name = "the command on the terminal"
        self.lines = []
        self._new_line = threading.Condition()
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        clean = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY") and key != "COLUMNS"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _ON_THE_TERMINAL, *command], cwd=ROOT, stdin=slave, stdout=slave, stderr=slave,
            text=True, env={**clean, "TERM": "xterm", "PYTHONPATH": str(ROOT), **(env or {})}, start_new_session=True)
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        rest = ""
        with contextlib.suppress(OSError):  # nobody holds the other end any more
            while data := os.read(self._master, 65536):
                *whole, rest = (rest + data.decode(errors="replace")).split("\r\n")
                self._add(whole)
        self._add([rest] if rest else [])

    def _add(self, lines: list[str]) -> None:
        with self._new_line:
            self.lines += [_COLOUR.sub("", line) for line in lines]
            self._new_line.notify_all()

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def close(self) -> None:
        """Ends the command when it still runs."""
        if self.process.poll() is None:
            self.terminate()
        self._reader.join(5)
        os.close(self._master)
