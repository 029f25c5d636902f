"""The one process that counts what teams use, beside the workers: started when a configuration needs it, started again
when it dies.

A configuration needs it when a team has limits and no service of others counts. While it is away, Envoy does with
requests of limited teams what `limits_service.failure_mode` says, and counts them as unanswered.
"""

from __future__ import annotations

import http.client
import re
import sys
from collections.abc import Mapping

from extproc.config import Config
from extproc.envoy_config.layout import RuntimeLayout
from extproc.gateway.child_processes import Line
from extproc.gateway.envoy_admin import EnvoyAdmin
from extproc.gateway.workers import Workers

_UNANSWERED = "/stats?filter=^cluster\\..*\\.ratelimit\\.error$"
_FIGURE = re.compile(r"^cluster\..*\.ratelimit\.error: (\d+)$", re.M)


class Limits:
    """At most one process, on one address. In the runtime directory `layout` lie the accepted configurations and,
    where these name no other place, the counters."""

    def __init__(self, address: str, layout: RuntimeLayout, *, env: Mapping[str, str], on_line: Line,
                 say: Line) -> None:
        command = [sys.executable, "-m", "extproc", "limits", "--accepted", str(layout.accepted),
                   "--counters", str(layout.counters)]
        self._process = Workers([address], lambda place: [*command, "--listen", place], env=env,
                                metrics=layout.metrics, on_line=on_line, say=say, name="process that counts limits")
        self._started = False

    @staticmethod
    def needed(config: Config) -> bool:
        """Whether this gateway counts itself."""
        return bool(config.limit_numbers) and config.limits_service.address is None

    async def prepare(self, config: Config) -> None:
        """Starts the process where this configuration is the first to need it. Raises StartError."""
        if self.needed(config) and not self._started:
            await self._process.start()
            self._started = True

    def running(self, config: Config) -> Workers | None:
        """The process, where this configuration needs it."""
        return self._process if self.needed(config) else None

    async def end(self, patience: float) -> None:
        """Lets it save its counters."""
        await self._process.end(patience)

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()


def unanswered(admin: EnvoyAdmin) -> bytes:
    """How often Envoy got no answer about limits, as Prometheus text; nothing while Envoy is not asked or silent."""
    try:
        text = admin.ask("GET", _UNANSWERED)[1]
    except (OSError, http.client.HTTPException):
        return b""
    total = sum(map(int, _FIGURE.findall(text)))
    name = "extproc_limits_unanswered_total"
    return (f"# HELP {name} Questions about limits that nobody answered\n# TYPE {name} counter\n"
            f"{name} {total}\n").encode()
