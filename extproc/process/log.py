"""A process's log: JSON lines on standard output, one per event.

The workers and the rate limit service write through here. The log knows no event by name; what belongs into a line is
the caller's. Configured secrets are masked in every line.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache

import msgspec

from extproc.process.output import now, put_on_stdout

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_encode = msgspec.json.Encoder().encode


class Log:
    """Writes events of `level` and above.

    `secrets` is called for every line, because key files change while the process runs. Secrets shorter than four
    characters are not masked: they would mask everything. `write` receives whole lines and must not block.
    """

    def __init__(self, level: str = "info", secrets: Callable[[], Sequence[str]] = tuple,
                 write: Callable[[bytes], None] = put_on_stdout) -> None:
        self._level = LEVELS.get(level, 20)
        self._secrets = secrets
        self._write = write

    def write_event(self, level: str, event: str, **fields: object) -> None:
        """Writes one event with its fields."""
        if LEVELS[level] >= self._level:
            self.write_event_always(level, event, **fields)

    def write_event_always(self, level: str, event: str, **fields: object) -> None:
        """Writes one event whatever the log's level is."""
        self._write_masked(_encode({"time": now(), "level": level, "event": event, **fields}))

    def write_encoded_event(self, level: str, event: str, fields: Callable[[], bytes]) -> None:
        """Writes one event whose fields are a JSON object already. `fields` is called only when the level is on."""
        if LEVELS[level] >= self._level:
            self._write_masked(b'{"time":"%b","level":"%b","event":"%b",%b' % (
                now().encode(), level.encode(), event.encode(), fields()[1:]))

    def _write_masked(self, line: bytes) -> None:
        for secret in self._secrets():
            if len(secret) >= 4:
                line = line.replace(_as_json(secret), b"***")
        self._write(line + b"\n")


@lru_cache(maxsize=4096)
def _as_json(secret: str) -> bytes:
    """The secret as it would appear inside a JSON string."""
    return _encode(secret)[1:-1]


class LibraryHandler(logging.Handler):
    """Writes warnings of libraries (asyncio, grpc) to the same log."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f" ({type(record.exc_info[1]).__name__}: {record.exc_info[1]})"
        level = "error" if record.levelno >= logging.ERROR else "warning"
        self._log.write_event(level, "library", logger=record.name, message=text[:2000])
