"""Files of figures for which the disk has room: prometheus_client maps its files into memory, and a mapped page for
which a full disk has no room ends the process (SIGBUS) when it is written.

A process that counts calls `reserve_files` before it makes its metrics. Then each part of a file is allocated before it
is used. Figures for which there is no room are kept in memory and join the file when there is some again.
"""

from __future__ import annotations

import os
from contextlib import suppress

from prometheus_client import values
from prometheus_client.mmap_dict import MmapedDict

_FIRST = 1 << 16
"""Bytes that prometheus_client gives a new file."""
_ENTRY = 40
"""Bytes of an entry beside its key, and some for padding."""


def reserve_files() -> None:
    """Metrics that are made from now on use such files; nothing changes where figures are not kept in files."""
    values.MmapedDict = ReservedFile  # type: ignore[attr-defined]


class ReservedFile(MmapedDict):
    """One file. Where a full disk has no room for its beginning, it lies in memory and nobody adds it up."""

    def __init__(self, filename: str, read_mode: bool = False) -> None:
        super().__init__(_allocated(filename), read_mode)  # type: ignore[no-untyped-call]

    def read_value(self, key: str) -> tuple[float, float]:
        if not self._has_place(key):
            return 0.0, 0.0
        found: tuple[float, float] = super().read_value(key)  # type: ignore[no-untyped-call]
        return found

    def write_value(self, key: str, value: float, timestamp: float) -> None:
        if self._has_place(key):
            super().write_value(key, value, timestamp)  # type: ignore[no-untyped-call]

    def _has_place(self, key: str) -> bool:
        """Whether the key has an entry, or room for one."""
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
            with suppress(OSError):  # what was allocated of it
                os.truncate(self._f.fileno(), self._capacity)
            return False
        return True


def _allocated(filename: str) -> str:
    """The file with room for its beginning; on a full disk one in memory."""
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
