"""The private directory of a running gateway: sockets, Envoy's configuration, secrets, metrics.

`extproc.gateway` creates the directory, which only this user can read, and removes it at exit. All paths in it come
from here. A running gateway holds a lock in its directory, which the kernel releases however the process ends. So the
next gateway that starts can remove the directories of killed ones. The names are short because the path of a Unix
socket must be.
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
"""The default address of `extproc limits`."""
SOCKET_PATH_BYTES = 107
"""Longest path of a Unix socket: sun_path holds 108 bytes, the last of them zero."""
_NOT_IN_SOCKET_PATHS = frozenset("%#?,")
"""gRPC reads these characters of `unix:PATH` as parts of a URI or of a list."""
_LONGEST_NAME = "/extproc-12345678/w999.sock"
_PREFIX = "extproc-"
_LOCK = "running"
"""The name of the lock file."""


def socket_path_problem(path: str) -> str | None:
    """Why a Unix socket cannot have this path; None if it can."""
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        return f"is longer than the {SOCKET_PATH_BYTES} bytes that a Unix socket's path may have"
    if found := sorted(_NOT_IN_SOCKET_PATHS.intersection(path)):
        return f"holds {' '.join(found)}, which gRPC does not accept in a socket's path"
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
        """Makes a new directory (mode 0700) for this many workers, and removes those of gateways that are gone. Raises
        OSError."""
        parent = _parent_directory()
        remove_abandoned(Path(parent))
        root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        layout = cls(root, [f"unix:{root}/w{number}.sock" for number in range(workers)], _lock(root))
        for folder in (layout.config, layout.metrics, layout.reload_trigger):
            folder.mkdir(mode=0o700)
        return layout

    @property
    def config(self) -> Path:
        """The directory of Envoy's configuration; Envoy watches it for renames."""
        return self.root / "envoy"

    @property
    def reload_trigger(self) -> Path:
        """The directory in which a moved file makes Envoy read the gateway's certificate again."""
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
        """The socket of the rate limit service."""
        return self.root / "limits.sock"

    @property
    def counters(self) -> Path:
        """The file of its counters, unless the configuration names one."""
        return self.root / "counters.json"

    @property
    def accepted(self) -> Path:
        """The accepted configurations (`extproc.worker.generations`), which the workers read."""
        return self.root / "accepted.json"

    @property
    def envoy_admin(self) -> Path:
        """Envoy's admin socket."""
        return self.root / "admin.sock"

    def remove(self) -> None:
        """Deletes everything. Does nothing if it is gone already."""
        shutil.rmtree(self.root, ignore_errors=True)
        if self.lock is not None:
            self.lock.close()


def remove_abandoned(parent: Path) -> None:
    """Deletes the directories in `parent` whose gateway is gone. Keeps those of other users and those without a lock
    file, which may be new."""
    for root in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            found = root.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                continue
            with (root / _LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(root, ignore_errors=True)


def _lock(root: Path) -> IO[bytes]:
    """Makes the lock file, locked before it has its final name, so that nobody sees it unlocked while this process
    runs. Children do not inherit it."""
    unnamed = root / f".{_LOCK}"
    lock = unnamed.open("wb")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    unnamed.rename(root / _LOCK)
    return lock


def _parent_directory() -> str:
    """The directory for temporary files (TMPDIR), or /tmp if socket paths would be too long there."""
    default = tempfile.gettempdir()
    return "/tmp" if socket_path_problem(default + _LONGEST_NAME) else default
