"""A file with a provider's key -> the key, read again whenever the file changes.

The processor never sends these keys, but must know them: it scrubs provider keys from the texts of providers, and
`extproc check` and `extproc up` warn about a file without a key. Envoy reads the key that it sends by itself
(`extproc.envoy_config.provider_keys`), by the same rule: one word of printable ASCII, white space around it ignored.
While the file holds no key, the last one stays in use.
"""

from __future__ import annotations

import os
import re
import stat
import time
from functools import lru_cache

LONGEST_KEY_FILE = 65_536
"""Bytes of a key file that are read. No key is this long."""
_KEY = re.compile(rb"[ \t\r\n\v\f]*([\x21-\x7e]+)[ \t\r\n\v\f]*")
_REMEMBERED_KEYS = 3
"""Keys of one file that are known at a time: a provider may still quote the previous one."""
_NEVER_READ = (0, 0, 0, 0)
_CLOCK_STEP = 100_000_000
"""Nanoseconds. Two writes that are further apart have different times of change on every file system."""


class KeyFile:
    """One key file. Each use costs one `stat` while the file is unchanged."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._seen = _NEVER_READ
        self._problem: str | None = None
        self._keys: tuple[str, ...] = ()

    def keys(self) -> tuple[str, ...]:
        """The current key and earlier ones, the newest first; empty if there has never been one."""
        self._refresh()
        return self._keys

    def problem(self) -> str | None:
        """Why the file has no key now; None if it has one."""
        self._refresh()
        return self._problem

    def _refresh(self) -> None:
        try:
            # Follows symbolic links: a link that now points elsewhere is a change.
            found = os.stat(self.path)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(None, "it is not a regular file")  # reading a pipe would block
            seen = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
            if seen != self._seen:
                with open(self.path, "rb") as file:
                    self._parse(file.read(LONGEST_KEY_FILE + 1))
                # A file that was written just now may change once more without a new time of change.
                self._seen = seen if time.time_ns() - found.st_mtime_ns > _CLOCK_STEP else _NEVER_READ
        except OSError as error:
            self._seen = _NEVER_READ
            self._problem = f"{self.path} cannot be read: {error.strerror or error}"
        except ValueError as error:  # a path with a null byte
            self._problem = f"{self.path!r} cannot be read: {error}"

    def _parse(self, data: bytes) -> None:
        found = _KEY.fullmatch(data)
        if found is None or len(data) > LONGEST_KEY_FILE:
            self._problem = (f"{self.path} is empty" if not data.strip() else
                             f"{self.path} holds more than one word, or a character that a header cannot carry")
            return
        self._problem = None
        key = found[1].decode("ascii")
        if key not in self._keys[:1]:
            self._keys = (key, *(old for old in self._keys if old != key))[:_REMEMBERED_KEYS]


@lru_cache(maxsize=1024)
def key_file(path: str) -> KeyFile:
    """The only `KeyFile` of this path in the process, so that its earlier keys outlive each exchange."""
    return KeyFile(path)
