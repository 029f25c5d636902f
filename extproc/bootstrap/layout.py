"""Where one running gateway keeps its files: sockets, Envoy's configuration, secrets, metrics.

`extproc.up` makes a directory that only this user can read and removes it at exit; the modules here ask for paths and
never invent one. Unix socket paths must stay under about 100 bytes, so the names are short.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RuntimeLayout:
    """The private directory of one gateway and the addresses of its workers.

    `sockets` are gRPC addresses: `unix:/path`, `/path` or `host:port`, one per worker process.
    """

    root: Path
    sockets: Sequence[str]

    @classmethod
    def create(cls, workers: int) -> RuntimeLayout:
        """A fresh directory (mode 0700) for this many workers."""
        root = Path(tempfile.mkdtemp(prefix="extproc-"))
        layout = cls(root, [f"unix:{root}/w{number}.sock" for number in range(workers)])
        for folder in (layout.config, layout.metrics):
            folder.mkdir(mode=0o700)
        return layout

    @property
    def config(self) -> Path:
        """The directory of Envoy's configuration; Envoy watches it for renames."""
        return self.root / "envoy"

    @property
    def metrics(self) -> Path:
        """The directory in which the workers share their metrics."""
        return self.root / "metrics"

    @property
    def bootstrap(self) -> Path:
        """The file that Envoy starts from."""
        return self.config / "bootstrap.json"

    @property
    def envoy_admin(self) -> Path:
        """Envoy's admin socket."""
        return self.root / "admin.sock"

    def remove(self) -> None:
        """Deletes everything. Harmless when it is gone already."""
        shutil.rmtree(self.root, ignore_errors=True)
