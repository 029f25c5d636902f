"""How the process gets its memory: what lives long is left alone by the garbage collector, what a large body needed is
kept for the next one.

Called once by a worker, when everything is imported and nothing is served yet. It frees nothing itself.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # glibc's mallopt.h
KEPT = 64 * 1024 * 1024
"""Bytes of freed memory at most that stay with the process: what a few requests of 10 MB take."""
LARGEST_KEPT = 32 * 1024 * 1024
"""Blocks up to this size, the largest that glibc allows, come from there; larger ones come from the system and go back
to it."""


def settle() -> None:
    """By default glibc asks the system for every block past 128 KB and gives it back: a request of some hundred KB then
    costs more in page faults than in its translation. And what an import left behind need not be walked again."""
    with suppress(OSError, AttributeError):  # another C library has no mallopt
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, LARGEST_KEPT)
        mallopt(_TRIM_THRESHOLD, KEPT)
        mallopt(_ARENA_MAX, 1)
    gc.collect()
    gc.freeze()
    # A stream leaves nothing behind that needs this (`Exchange.closed`), but exceptions and libraries do: the oldest
    # generation too is looked at often enough, which costs milliseconds because what lives as long as the process is
    # not in it.
    gc.set_threshold(50_000, 10, 2)
