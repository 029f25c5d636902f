"""Signals -> what they ask of the parent process: an end after a drain, an end at once, a look at the configuration,
new workers.

`up` and `serve` wait for these events and let long steps give way to them. Nothing is started or ended here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Coroutine
from typing import Any


class Stop:
    """What signals ask for: the first to end a drain, the second an end at once; others a look at the configuration
    (`changed`) or new workers (`replaced`)."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.at_once = asyncio.Event()
        self.changed = asyncio.Event()
        self.replaced = asyncio.Event()
        self._on_terminal = _has_terminal()

    def heed(self) -> None:
        """Signals come here from now on."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.on_signal)
        loop.add_signal_handler(signal.SIGHUP, self.on_hangup)
        loop.add_signal_handler(signal.SIGUSR1, self.replaced.set)

    def on_signal(self) -> None:
        (self.at_once if self.asked.is_set() else self.asked).set()

    def on_hangup(self) -> None:
        """SIGHUP asks to read the configuration again, unless it tells that the terminal was closed."""
        if self._on_terminal and not _has_terminal():
            self.on_signal()
        else:
            self.changed.set()


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


async def unless_stopped(start: Coroutine[Any, Any, None], stop: Stop) -> bool:
    """Runs `start` unless a signal comes first. Returns whether it was completed; its errors pass through."""
    starting = asyncio.ensure_future(start)
    asked = asyncio.ensure_future(stop.asked.wait())
    await asyncio.wait([starting, asked], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if not starting.done():
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        return False
    starting.result()
    return True


async def race(*contestants: Coroutine[Any, Any, Any]) -> None:
    """Until the first has ended; the others are cancelled. An error of the first passes through."""
    tasks = [asyncio.ensure_future(one) for one in contestants]
    done, late = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    for task in done:
        task.result()
