"""The gateway's own certificate under a running Envoy: new connections use a changed pair of files, however it changed.

Envoy itself only notices files that are moved into place: not a file that is written in place, nor a link whose target
changes elsewhere. So the files are polled here, like the configuration file. When they have changed and form a valid
pair, a file is moved in a folder of Envoy's runtime directory, which makes Envoy read the pair again. The private key
is never copied.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

from extproc.config import EdgeTls
from extproc.gateway.child_processes import LineSink
from extproc.gateway.config_file import LOOK_EVERY, FileWatch


class CertificateWatcher:
    """Polls from its creation on. `tls` returns the files of the configuration in force. `trigger` is the folder that
    Envoy watches. `report` receives messages for the operator."""

    def __init__(self, tls: Callable[[], EdgeTls | None], trigger: Path, report: LineSink) -> None:
        self._tls = tls
        self._trigger = trigger
        self._report = report
        self._files: EdgeTls | None = None
        self._watch: FileWatch | None = None
        self.check()

    async def run(self) -> None:
        """Polls forever."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            self.check()

    def check(self) -> None:
        """Polls once."""
        files = self._tls()
        if files != self._files:  # other files: Envoy reads them with its new configuration
            self._files = files
            self._watch = None if files is None else FileWatch(Path(files.certificate), lambda: [files.key])
        if files is None or self._watch is None or not self._watch.changed():
            return
        if problem := _pair_problem(files):
            self._report(f"warning: tls: {files.certificate} and {files.key} cannot be used ({problem}); the previous "
                         "certificate stays in use")
            return
        self._trigger_reload()
        self._report(f"tls: new connections get the new certificate of {files.certificate}")

    def _trigger_reload(self) -> None:
        temporary = self._trigger / ".trigger"
        temporary.touch()
        temporary.replace(self._trigger / "trigger")


def _pair_problem(files: EdgeTls) -> str | None:
    """Why the files are not a valid pair of certificate and key; None if they are."""
    def no_passphrase() -> str:
        return ""

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.certificate, files.key, no_passphrase)
    except (OSError, ssl.SSLError) as error:
        return getattr(error, "reason", None) or error.strerror or str(error)
    return None
