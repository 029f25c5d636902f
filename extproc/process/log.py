"""The worker's log: JSON lines on standard output, one per finished exchange and one per event of the worker.

Never holds bodies or keys: configured secrets are masked in every line. The debug switch adds lines with bodies,
masked in the same way.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter

import msgspec

from extproc.config import Config
from extproc.ext_proc.record import Record
from extproc.process.output import now, put_on_stdout

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_encode = msgspec.json.Encoder().encode
_FAILED = attrgetter("failed")


class Log:
    """`write` gets whole lines and must not wait. `secrets` is asked for every line, since key files change. Secrets
    shorter than four characters are not masked: they would mask everything."""

    def __init__(self, level: str = "info", secrets: Callable[[], Sequence[str]] = tuple,
                 write: Callable[[bytes], None] = put_on_stdout) -> None:
        self._level = LEVELS.get(level, 20)
        self._secrets = secrets
        self._write = write

    def line(self, level: str, event: str, **fields: object) -> None:
        """One event of the worker."""
        if LEVELS[level] >= self._level:
            self._put({"time": now(), "level": level, "event": event, **fields})

    def exchange(self, record: Record) -> None:
        """One finished exchange; failed ones are warnings, and those with calls that no client can run."""
        fine = record.outcome in ("ok", "client_closed") and not any(map(_FAILED, record.calls.values()))
        level = "info" if fine else "warning"
        if LEVELS[level] >= self._level:
            self._mask(b'{"time":"%b","level":"%b","event":"%b",%b' % (
                now().encode(), level.encode(), record.event.encode(), record.to_json()[1:]))

    def crash(self, record: Record, error: BaseException) -> None:
        """An exception inside an exchange, with its traceback (which holds no values of variables)."""
        self.line("error", "internal_error", request_id=record.request_id, hop=record.hop, backend=record.backend,
                  error=f"{type(error).__name__}: {error}"[:2000],
                  traceback=traceback.format_exception(error, limit=-12))

    def body(self, direction: str, request_id: str, data: bytes) -> None:
        """A piece of a body, for debugging only."""
        self._put({"time": now(), "level": "debug", "event": "body", "direction": direction,
                   "request_id": request_id, "text": data.decode("utf-8", "replace")})

    def _put(self, fields: dict[str, object]) -> None:
        self._mask(_encode(fields))

    def _mask(self, line: bytes) -> None:
        """Writes it without secrets."""
        for secret in self._secrets():
            if len(secret) >= 4:
                line = line.replace(_as_written(secret), b"***")
        self._write(line + b"\n")


@lru_cache(maxsize=4096)
def _as_written(secret: str) -> bytes:
    """As it would stand in a line."""
    return _encode(secret)[1:-1]


class LibraryHandler(logging.Handler):
    """Warnings of libraries (asyncio, grpc) as lines of the same log."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f" ({type(record.exc_info[1]).__name__}: {record.exc_info[1]})"
        level = "error" if record.levelno >= logging.ERROR else "warning"
        self._log.line(level, "library", logger=record.name, message=text[:2000])


def secrets_of(config: Config) -> list[str]:
    """Provider keys and team keys, longest first."""
    keys = {*config.secrets(), *(key for team in config.teams.values() for key in team.keys)}
    return sorted(keys, key=lambda key: (-len(key), key))
