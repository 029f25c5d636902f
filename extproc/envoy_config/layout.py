"""Where one running gateway keeps its files: sockets, Envoy's configuration, secrets, metrics.

`extproc.gateway` makes a directory that only this user can read and removes it at exit; the modules here ask for paths
and never invent one. What a killed gateway left behind is removed by the next one that starts: a running one holds a
lock in its directory, which the kernel takes away however the process ends. The names are short, since the path of a
Unix socket must be.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

DEFAULT_LIMITS_ADDRESS = "127.0.0.1:50052"
"""Where `extproc limits` listens when nothing else is said."""
SOCKET_PATH_BYTES = 107
"""Longest path of a Unix socket: sun_path holds 108 bytes, the last of them zero."""
_NOT_IN_SOCKET_PATHS = frozenset("%#?,")
"""gRPC takes these in `unix:PATH` for parts of a URI or of a list."""
_LONGEST_NAME = "/extproc-12345678/w999.sock"
_PREFIX = "extproc-"
_LOCK = "running"
"""A file that its gateway has locked."""


def socket_path_problem(path: str) -> str | None:
    """Why no Unix socket can have this path; None when it can."""
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        return f"is longer than the {SOCKET_PATH_BYTES} bytes that a Unix socket's path may have"
    if strange := sorted(_NOT_IN_SOCKET_PATHS.intersection(path)):
        return f"holds {' '.join(strange)}, which gRPC does not take in a socket's path"
    return None


@dataclass(frozen=True)
class RuntimeLayout:
    """The private directory of one gateway and the addresses of its workers.

    `sockets` are gRPC addresses: `unix:/path`, `/path` or `host:port`, one per worker process.
    """

    root: Path
    sockets: Sequence[str]
    lock: IO[bytes] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def create(cls, workers: int) -> RuntimeLayout:
        """A fresh directory (mode 0700) for this many workers; those of gateways that are gone are removed. Raises
        OSError where none can be made."""
        place = _place()
        remove_abandoned(Path(place))
        root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        layout = cls(root, [f"unix:{root}/w{number}.sock" for number in range(workers)], _locked(root))
        for folder in (layout.config, layout.metrics, layout.reload_trigger):
            folder.mkdir(mode=0o700)
        return layout

    @property
    def config(self) -> Path:
        """The directory of Envoy's configuration; Envoy watches it for renames."""
        return self.root / "envoy"

    @property
    def reload_trigger(self) -> Path:
        """The directory in which a move tells Envoy to read the gateway's certificate again."""
        return self.root / "reload-trigger"

    @property
    def metrics(self) -> Path:
        """The directory in which the workers share their metrics."""
        return self.root / "metrics"

    @property
    def bootstrap(self) -> Path:
        """The file that Envoy starts from."""
        return self.config / "bootstrap.json"

    @property
    def limits_socket(self) -> Path:
        """The socket of the process that counts what teams use."""
        return self.root / "limits.sock"

    @property
    def counters(self) -> Path:
        """Where that process keeps its counters, unless the configuration names a file."""
        return self.root / "counters.json"

    @property
    def accepted(self) -> Path:
        """What the workers read: the configurations that were accepted (`extproc.worker.generations`)."""
        return self.root / "accepted.json"

    @property
    def envoy_admin(self) -> Path:
        """Envoy's admin socket."""
        return self.root / "admin.sock"

    def remove(self) -> None:
        """Deletes everything. Harmless when it is gone already."""
        shutil.rmtree(self.root, ignore_errors=True)
        if self.lock is not None:
            self.lock.close()


def remove_abandoned(place: Path) -> None:
    """Deletes the directories in `place` whose gateway is gone. Leaves alone what another user made, and what has no
    lock file (it may just be coming into being)."""
    for root in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            found = root.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                continue
            with (root / _LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(root, ignore_errors=True)


def _locked(root: Path) -> IO[bytes]:
    """The lock file, locked before it has its name: nobody ever sees it unlocked while we live. Children do not inherit
    it."""
    unnamed = root / f".{_LOCK}"
    lock = unnamed.open("wb")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    unnamed.rename(root / _LOCK)
    return lock


def _place() -> str:
    """Where temporary files go (TMPDIR), or /tmp when socket paths would not fit there."""
    usual = tempfile.gettempdir()
    return "/tmp" if socket_path_problem(usual + _LONGEST_NAME) else usual
