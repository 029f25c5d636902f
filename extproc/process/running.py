"""A process that serves until it is told to stop -> its exit code. The same for workers and the rate limit service.

Knows nothing of what is served and handles no signal: the served program does.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import uvloop

from extproc.process.log import Log
from extproc.process.output import flush

LOG_LEVEL = "EXTPROC_LOG_LEVEL"
"""The environment variable that sets the level of `Log`."""


def run_until_stopped(program: Coroutine[Any, Any, None], log: Log) -> int:
    """Runs it on an event loop of its own. Returns 0, or 1 if its address cannot be used, which is logged."""
    try:
        uvloop.run(program)
    except RuntimeError as error:
        # Both transports raise RuntimeError, with different texts.
        if "listen" not in str(error) and "bind" not in str(error):
            raise
        log.write_event("error", "not_started", reason=str(error))
        return 1
    finally:
        flush()
    return 0
