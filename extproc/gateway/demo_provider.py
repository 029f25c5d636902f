"""The scripted demo provider as a child of `extproc up`: backends that ask for it -> a configuration with its address.

Its port is known only once it listens. Its health is never checked: it holds no state and does not end by itself.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import Mapping

from extproc.config import Config
from extproc.config.builtin import DEMO_URL_VARIABLE
from extproc.gateway.child_processes import ChildProcess, StartError

PATIENCE = 20.0
"""Seconds in which it must announce its port."""
_LISTENS = re.compile(r"listening on (?:\S*:)?(\d+)\s*$")


class DemoProvider:
    """At most one process."""

    def __init__(self) -> None:
        self._child: ChildProcess | None = None

    async def start(self, config: Config, env: dict[str, str]) -> Config:
        """The configuration with the demo's address, if a backend asks for it. `env`, which later processes get, tells
        it to `load_config`. Raises StartError."""
        names = [name for name, backend in config.backends.items() if backend.is_demo]
        if not names:
            return config
        url = f"http://127.0.0.1:{await self._start_and_find_port(env)}/v1"
        env[DEMO_URL_VARIABLE] = url
        for name in names:
            config = config.with_backend_url(name, url)
        return config

    async def _start_and_find_port(self, env: Mapping[str, str]) -> int:
        port_found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def on_line(line: str) -> None:
            if (found := _LISTENS.search(line)) and not port_found.done():
                port_found.set_result(int(found[1]))

        self._child = await ChildProcess.start(
            "demo provider", [sys.executable, "-m", "extproc", "demo", "--listen", "127.0.0.1:0"], env=env,
            on_line=on_line, on_error=lambda _: None)
        ended = asyncio.create_task(self._child.wait())
        await asyncio.wait([port_found, ended], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not port_found.done():
            raise StartError(f"the demo provider does not listen; the {self._child.describe_end()}")
        return port_found.result()

    async def kill(self) -> None:
        """Kills it, also during a start."""
        if self._child is not None:
            self._child.send_signal(signal.SIGKILL)
            await self._child.wait()
