"""The configuration file: polled for changes, read, and given to the `Reloader`.

Followed by a task of `background`. A file that cannot be read, or is invalid, changes nothing; the reason is reported.
`FileWatch` also serves the files of certificates.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from extproc.config import Config, ConfigError, warnings_of
from extproc.gateway.child_processes import StartError
from extproc.gateway.envoy_files import ApplyError
from extproc.gateway.reload import Reloader

LOOK_EVERY = 0.25
"""Seconds between two polls of the file. A change counts if two polls find the same: it may still be being written."""
NEEDS_RESTART = ("workers", "admin")
"""Keys that only a restart changes."""


def digest_of(path: Path | None) -> str:
    """The hash in `extproc_config_info`: that of `sha256sum FILE | cut -c1-12`. "built-in" without a file."""
    if path is None:
        return "built-in"
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    except OSError:
        return "unreadable"


class FileWatch:
    """Polls whether a file was replaced or written: by rename, in place, or as Kubernetes swaps links. Starts with its
    creation. `also` returns files that count as parts of it."""

    def __init__(self, path: Path, also: Callable[[], list[str]] = list) -> None:
        self.path = path
        self.also = also
        self._seen = self._before = self._stamps()

    def changed(self) -> bool:
        """True if there is a change that is the same as at the last look. Reports every change once."""
        now = self._stamps()
        settled, self._before = now == self._before, now
        if not settled:
            return False
        seen, self._seen = self._seen, now
        return any(seen.get(path, stamp) != stamp for path, stamp in now.items())

    def _stamps(self) -> dict[str, object]:
        return {path: _stamp_of(Path(path)) for path in (str(self.path), *self.also())}


def _stamp_of(path: Path) -> object:
    try:
        found = path.stat()  # follows links
    except OSError as error:
        return error.errno
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def trusted_files(config: Config) -> list[str]:
    """Files that the configuration names and that Envoy reads only once."""
    return sorted({backend.ca for backend in config.backends.values() if backend.ca})


class ConfigFile:
    """The user's file (`watch`) and the fate of its changes.

    `load` reads and checks it. `report` receives messages for the operator. `reload_requested` is set when the file
    shall be read even if unchanged. `applied` is called with each configuration that is in force.
    """

    def __init__(self, watch: FileWatch, load: Callable[[], Config], reloader: Reloader,
                 report: Callable[[str], None], reload_requested: asyncio.Event,
                 applied: Callable[[Config], None]) -> None:
        self._path = watch.path
        self._load = load
        self._reloader = reloader
        self._report = report
        self._applied = applied
        self._watch = watch
        watch.also = lambda: trusted_files(reloader.current_config)
        self._reload_requested = reload_requested

    async def follow(self) -> None:
        """Forever: applies every change of the file, or reports why not."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._reload_requested.wait(), LOOK_EVERY)
            if self._watch.changed() or self._reload_requested.is_set():
                self._reload_requested.clear()
                await self.reload()

    async def reload(self) -> str:
        """Reads the file once. Returns `applied`, `refused` or `failed`."""
        try:
            return await self._reload()
        except Exception:
            # Otherwise the file would no longer be followed.
            return self._ended("failed", "internal error, the configuration before stays:\n" + traceback.format_exc())

    def _ended(self, result: str, what: str) -> str:
        """Counts first: whoever reads the message may ask for the metrics at once."""
        self._reloader.metrics.ended(result)
        self._report(f"{self._path}: {what}")
        return result

    async def _reload(self) -> str:
        digest = digest_of(self._path)
        try:
            config = await asyncio.to_thread(self._load)
            problems = await self._reloader.check(config)
        except ConfigError as error:
            problems = error.problems
        except StartError as error:
            problems = [("listen", str(error))]
        if problems:
            self._ended("refused", "the change is refused, the configuration before stays in force:")
            for path, reason in problems:
                self._report(f"    {path}: {reason}")
            return "refused"
        for key in NEEDS_RESTART:
            if getattr(config, key) != (kept := getattr(self._reloader.current_config, key)):
                self._report(f"warning: {key}: a change needs a restart; {kept} stays")
                config = msgspec.structs.replace(config, **{key: kept})
        try:
            await self._reloader.apply(config)
        except ApplyError as error:
            return self._ended(
                "failed", f"the change could not be put in force, the configuration before stays: {error}")
        self._reloader.metrics.in_force(digest)
        for path, reason in warnings_of(config):
            self._report(f"warning: {path}: {reason}")
        self._ended("applied", f"in force now (generation {self._reloader.generations[0]}, {digest})")
        self._applied(config)
        return "applied"
