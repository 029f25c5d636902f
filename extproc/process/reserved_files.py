"""Metric files with reserved disk space: prometheus_client maps its files into memory, and writing to a mapped page
without room on a full disk ends the process (SIGBUS).

A process calls `reserve_files` before it creates its metrics. Then each part of a file is allocated before it is used.
Figures without room stay in memory and join the file when there is room again.

prometheus_client (0.26) has no parameter for the class of its files: `values.MultiProcessValue` always uses
`values.MmapedDict`. So that name is replaced, by a subclass.
"""

from __future__ import annotations

import os
from contextlib import suppress

from prometheus_client import values
from prometheus_client.mmap_dict import MmapedDict

_FIRST = 1 << 16
"""Bytes that prometheus_client gives a new file."""
_ENTRY = 40
"""Bytes of an entry besides its key, and some for padding."""


def reserve_files() -> None:
    """Metrics that are created from now on use such files. Without files for metrics, nothing changes."""
    values.MmapedDict = ReservedFile  # type: ignore[attr-defined]


class ReservedFile(MmapedDict):
    """One file. If a full disk has no room for its beginning, it is in memory, and its figures are lost."""

    def __init__(self, filename: str, read_mode: bool = False) -> None:
        super().__init__(_allocated(filename), read_mode)  # type: ignore[no-untyped-call]

    def read_value(self, key: str) -> tuple[float, float]:
        if not self._ensure_room(key):
            return 0.0, 0.0
        found: tuple[float, float] = super().read_value(key)  # type: ignore[no-untyped-call]
        return found

    def write_value(self, key: str, value: float, timestamp: float) -> None:
        if self._ensure_room(key):
            super().write_value(key, value, timestamp)  # type: ignore[no-untyped-call]

    def _ensure_room(self, key: str) -> bool:
        """True if the key has an entry or there is room for one. Allocates the room."""
        if key in self._positions:
            return True
        needed, capacity = self._used + len(key.encode()) + _ENTRY, self._capacity
        while needed > capacity:
            capacity *= 2
        if capacity == self._capacity:
            return True
        try:
            os.posix_fallocate(self._f.fileno(), 0, capacity)
        except OSError:
            with suppress(OSError):  # the part that was allocated
                os.truncate(self._f.fileno(), self._capacity)
            return False
        return True


def _allocated(filename: str) -> str:
    """The path of the file, with room for its beginning; on a full disk that of a file in memory."""
    try:
        file = os.open(filename, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.posix_fallocate(file, 0, _FIRST)
        finally:
            os.close(file)
    except OSError:
        with suppress(OSError):
            os.unlink(filename)
        return f"/proc/self/fd/{os.memfd_create('metrics')}"
    return filename
