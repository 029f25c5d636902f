"""Signals -> requests of the operator: drain and end, end at once, read the configuration, replace the workers.

`up` and `serve` wait for these events and let long steps give way to them. Nothing is started or ended here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Coroutine
from typing import Any


class OperatorSignals:
    """The first SIGTERM or SIGINT asks for a drain, the second for an end at once. SIGHUP asks to read the
    configuration, SIGUSR1 for new workers."""

    def __init__(self) -> None:
        self.stop_requested = asyncio.Event()
        self.kill_requested = asyncio.Event()
        self.reload_requested = asyncio.Event()
        self.replace_requested = asyncio.Event()
        self._on_terminal = _has_terminal()

    def install(self) -> None:
        """Installs the signal handlers."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.on_signal)
        loop.add_signal_handler(signal.SIGHUP, self.on_hangup)
        loop.add_signal_handler(signal.SIGUSR1, self.replace_requested.set)

    def on_signal(self) -> None:
        (self.kill_requested if self.stop_requested.is_set() else self.stop_requested).set()

    def on_hangup(self) -> None:
        """SIGHUP asks to read the configuration again, unless it means that the terminal was closed."""
        if self._on_terminal and not _has_terminal():
            self.on_signal()
        else:
            self.reload_requested.set()


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


async def unless_stopped(start: Coroutine[Any, Any, None], stop: OperatorSignals) -> bool:
    """Runs `start` unless a signal comes first. Returns whether it completed. Its errors are raised."""
    starting = asyncio.ensure_future(start)
    stop_requested = asyncio.ensure_future(stop.stop_requested.wait())
    await asyncio.wait([starting, stop_requested], return_when=asyncio.FIRST_COMPLETED)
    stop_requested.cancel()
    if not starting.done():
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        return False
    starting.result()
    return True


async def wait_for_first(*contestants: Coroutine[Any, Any, Any]) -> None:
    """Waits until the first has ended, and cancels the others. Raises an error of the first."""
    tasks = [asyncio.ensure_future(one) for one in contestants]
    done, unfinished = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in unfinished:
        task.cancel()
    await asyncio.gather(*unfinished, return_exceptions=True)
    for task in done:
        task.result()
