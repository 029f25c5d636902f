"""What goes on beside the requests while a gateway runs: a changed file is put in force, old generations go away,
workers are replaced when a signal asks for it.

The same for `up` and `serve`. It says when, `reload` and `workers` know how; it never ends the gateway.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence

from extproc.config import Config
from extproc.gateway import console
from extproc.gateway.reload import ConfigFile, Reloader, Watch
from extproc.gateway.signals import Stop
from extproc.gateway.workers import Workers


def followers(reloader: Reloader, workers: Workers, stop: Stop, watch: Watch | None,
              load: Callable[[], Config], applied: Callable[[Config], None]) -> list[asyncio.Task[None]]:
    """Tasks that run for ever: changes of the file (none without one), old generations that go away, new workers when
    SIGUSR1 asks for them. `load` reads the file, `applied` is told what is in force now."""
    async def replace() -> None:
        while True:
            await stop.replaced.wait()
            stop.replaced.clear()
            async with reloader.lock:  # a worker is configured or replaced, never both at once
                console.say("replacing the workers one by one")
                if await workers.replace():
                    console.say("the workers are replaced; the old ones finish what they run")

    def ignored() -> None:
        console.say("SIGHUP: there is no configuration file to read again")

    tasks = [reloader.retire(), replace()]
    if watch is not None:
        tasks.append(ConfigFile(watch, load, reloader, console.say, stop.changed, applied).follow())
    else:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, ignored)
    return [asyncio.create_task(task) for task in tasks]


async def cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Ends them. What one of them had died of is raised."""
    for task in tasks:
        task.cancel()
    for error in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(error, Exception):
            raise error
