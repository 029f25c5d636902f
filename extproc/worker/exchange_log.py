"""What a worker logs about its exchanges, and the secrets that its log masks.

One line per finished exchange, one per exception in an exchange. With the debug switch, one per piece of a body.
Without it, no line holds a body.
"""

from __future__ import annotations

import traceback
from operator import attrgetter

from extproc.config import Config
from extproc.ext_proc.record import Record
from extproc.process.log import Log

_failed_calls = attrgetter("failed")


def log_exchange(log: Log, record: Record) -> None:
    """One finished exchange. A warning if it failed or if the model made tool calls that no client can run."""
    good = record.outcome in ("ok", "client_closed") and not any(map(_failed_calls, record.calls.values()))
    log.write_encoded_event("info" if good else "warning", record.event, record.to_json)


def log_crash(log: Log, record: Record, error: BaseException) -> None:
    """An exception inside an exchange, with its traceback, which holds no values of variables."""
    log.write_event("error", "internal_error", request_id=record.request_id, hop=record.hop, backend=record.backend,
                    error=f"{type(error).__name__}: {error}"[:2000],
                    traceback=traceback.format_exception(error, limit=-12))


def log_body(log: Log, direction: str, request_id: str, data: bytes) -> None:
    """A piece of a body. Only the debug switch calls for it."""
    log.write_event_always("debug", "body", direction=direction, request_id=request_id,
                           text=data.decode("utf-8", "replace"))


def configured_secrets(config: Config) -> list[str]:
    """Provider keys and team keys, longest first."""
    return longest_first({*config.secrets(), *(key for team in config.teams.values() for key in team.keys)})


def longest_first(secrets: set[str]) -> list[str]:
    """The order in which secrets must be masked, since one may contain another."""
    return sorted(secrets, key=lambda secret: (-len(secret), secret))
