"""The gateway's own certificate under a running Envoy: a pair of files that changed, however it was done, is used for
new connections.

Envoy itself would notice a file only when it is moved to its place: one that is written in place goes by unseen, and so
does a link whose target changes elsewhere. So the files are looked at here, like the configuration's, and when they are
another pair, and a pair at all, Envoy is told by a file that moves in a folder of its runtime directory. It then reads
the pair where it is: the private key is copied nowhere.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

from extproc.config import EdgeTls
from extproc.gateway.child_processes import Line
from extproc.gateway.reload import LOOK_EVERY, Watch


class Certificates:
    """`tls` gives the files of the configuration in force; `bell` is the folder that Envoy watches; `say` gets what an
    operator should know. Looks from the moment on when it is made."""

    def __init__(self, tls: Callable[[], EdgeTls | None], bell: Path, say: Line) -> None:
        self._tls = tls
        self._bell = bell
        self._say = say
        self._files: EdgeTls | None = None
        self._watch: Watch | None = None
        self.look()

    async def follow(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            self.look()

    def look(self) -> None:
        """Once."""
        files = self._tls()
        if files != self._files:  # other files, which Envoy reads by itself as it learns of them
            self._files = files
            self._watch = None if files is None else Watch(Path(files.certificate), lambda: [files.key])
        if files is None or self._watch is None or not self._watch.changed():
            return
        if problem := _problem(files):
            self._say(f"warning: tls: {files.certificate} and {files.key} cannot be used ({problem}); the certificate "
                      "before stays in use")
            return
        self._ring()
        self._say(f"tls: new connections get the certificate that {files.certificate} holds now")

    def _ring(self) -> None:
        beside = self._bell / ".rings"
        beside.touch()
        beside.replace(self._bell / "rings")


def _problem(files: EdgeTls) -> str | None:
    """Why the files are no pair of a certificate and its key."""
    def no_passphrase() -> str:
        return ""

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.certificate, files.key, no_passphrase)
    except (OSError, ssl.SSLError) as error:
        return getattr(error, "reason", None) or error.strerror or str(error)
    return None
