"""A file that holds a provider's key -> the key, read again whenever the file changes.

Used where the processor must know a key it never sends: provider keys are scrubbed from the texts of providers, and
`extproc check` and `extproc up` say when a file holds none. What reaches the provider is read by Envoy itself
(`extproc.envoy_config.key_files`), by the same rule: one word of printable ASCII, white space around it ignored; where
the file holds none for a moment, the last one stays.
"""

from __future__ import annotations

import os
import re
import stat
import time
from functools import lru_cache

LONGEST = 65_536
"""Bytes of a key file that are read; no key is as long."""
_KEY = re.compile(rb"[ \t\r\n\v\f]*([\x21-\x7e]+)[ \t\r\n\v\f]*")
_REMEMBERED = 3
"""Keys of one file that are known at a time: a provider may still quote the one before."""
_NEVER_READ = (0, 0, 0, 0)
_SETTLED = 100_000_000
"""Nanoseconds after which another write gets another time of change, on any file system's clock."""


class KeyFile:
    """One key file. Asking costs a `stat` while the file stays the same."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._seen = _NEVER_READ
        self._problem: str | None = None
        self._keys: tuple[str, ...] = ()

    def keys(self) -> tuple[str, ...]:
        """The current key and those before it, the newest first; empty while there never was one."""
        self._look()
        return self._keys

    def problem(self) -> str | None:
        """Why the file gives no key now; None when it does."""
        self._look()
        return self._problem

    def _look(self) -> None:
        try:
            # Follows symbolic links, so that a link that was pointed elsewhere is a change.
            found = os.stat(self.path)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(None, "it is not a regular file")  # a pipe would be waited for
            seen = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
            if seen != self._seen:
                with open(self.path, "rb") as file:
                    self._take(file.read(LONGEST + 1))
                # One that was written just now may be written once more without a trace in its times.
                self._seen = seen if time.time_ns() - found.st_mtime_ns > _SETTLED else _NEVER_READ
        except OSError as error:
            self._seen = _NEVER_READ
            self._problem = f"{self.path} cannot be read: {error.strerror or error}"
        except ValueError as error:  # a path that no system takes
            self._problem = f"{self.path!r} cannot be read: {error}"

    def _take(self, data: bytes) -> None:
        found = _KEY.fullmatch(data)
        if found is None or len(data) > LONGEST:
            self._problem = (f"{self.path} is empty" if not data.strip() else
                             f"{self.path} holds more than one word, or a character that a header cannot carry")
            return
        self._problem = None
        key = found[1].decode("ascii")
        if key not in self._keys[:1]:
            self._keys = (key, *(old for old in self._keys if old != key))[:_REMEMBERED]


@lru_cache(maxsize=1024)
def key_file(path: str) -> KeyFile:
    """The one record of this file in this process: what it remembers must outlive each exchange."""
    return KeyFile(path)
