"""What runs beside the requests: a changed file is applied, old generations are removed, workers are replaced on a
signal.

The same for `up` and `serve`. `reload` and `workers` know how; this module only says when. It never ends the gateway.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence

from extproc.config import Config
from extproc.gateway import console
from extproc.gateway.config_file import ConfigFile, FileWatch
from extproc.gateway.reload import Reloader
from extproc.gateway.signals import OperatorSignals
from extproc.gateway.workers import Workers


def start_background_tasks(reloader: Reloader, workers: Workers, stop: OperatorSignals, watch: FileWatch | None,
              load: Callable[[], Config], applied: Callable[[Config], None]) -> list[asyncio.Task[None]]:
    """Starts tasks that run forever: applying changes of the file (none without one), removing old generations, and
    replacing the workers on SIGUSR1. `load` reads the file; `applied` is called with each configuration in force."""
    async def replace() -> None:
        while True:
            await stop.replace_requested.wait()
            stop.replace_requested.clear()
            async with reloader.lock:  # a worker is configured or replaced, never both at once
                console.report("replacing the workers one by one")
                if await workers.replace():
                    console.report("the workers are replaced; the old ones finish what they run")

    def ignored() -> None:
        console.report("SIGHUP: there is no configuration file to read again")

    tasks = [reloader.retire_generations(), replace()]
    if watch is not None:
        tasks.append(ConfigFile(watch, load, reloader, console.report, stop.reload_requested, applied).follow())
    else:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, ignored)
    return [asyncio.create_task(task) for task in tasks]


async def cancel_tasks(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancels the tasks. Raises the error of one that has failed."""
    for task in tasks:
        task.cancel()
    for error in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(error, Exception):
            raise error
