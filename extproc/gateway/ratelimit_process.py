"""The rate limit service of the gateway: one process beside the workers, restarted when it dies.

It is started when a team has limits and `limits_service.address` names no other service. While it is down, Envoy treats
requests of limited teams as `limits_service.failure_mode` says, and counts them as unanswered.
"""

from __future__ import annotations

import http.client
import re
import sys
from collections.abc import Mapping

from extproc.config import Config
from extproc.envoy_config.layout import RuntimeLayout
from extproc.gateway.child_processes import LineSink
from extproc.gateway.envoy_admin import EnvoyAdmin
from extproc.gateway.workers import Workers

_UNANSWERED_STATS = "/stats?filter=^cluster\\..*\\.ratelimit\\.error$"
_FIGURE = re.compile(r"^cluster\..*\.ratelimit\.error: (\d+)$", re.M)


class RateLimitProcess:
    """At most one process."""

    def __init__(self, process: Workers) -> None:
        """`process`: not started yet."""
        self._process = process
        self._started = False

    @classmethod
    def at(cls, address: str, layout: RuntimeLayout, *, env: Mapping[str, str], on_line: LineSink,
           report: LineSink) -> RateLimitProcess:
        """The process on this address. The runtime directory `layout` holds the accepted configurations and, unless
        they name another file, the counters."""
        command = [sys.executable, "-m", "extproc", "limits", "--accepted", str(layout.accepted),
                   "--counters", str(layout.counters)]
        return cls(Workers([address], lambda at: [*command, "--listen", at], env=env, metrics=layout.metrics,
                           on_line=on_line, report=report, name="process that counts limits"))

    @staticmethod
    def is_needed(config: Config) -> bool:
        """True if this gateway counts limits itself."""
        return bool(config.limit_numbers) and config.limits_service.address is None

    async def prepare(self, config: Config) -> None:
        """Starts the process if this configuration is the first to need it. Raises StartError."""
        if self.is_needed(config) and not self._started:
            await self._process.start()
            self._started = True

    def active_process(self, config: Config) -> Workers | None:
        """The process if this configuration needs it, else None."""
        return self._process if self.is_needed(config) else None

    async def stop(self, patience: float) -> None:
        """Lets it save its counters."""
        await self._process.stop(patience)

    def kill(self) -> None:
        """Kills it."""
        self._process.kill()


def unanswered_metric(admin: EnvoyAdmin) -> bytes:
    """How many of Envoy's calls to the rate limit service got no response, as Prometheus text. Empty if Envoy does
    not respond."""
    try:
        text = admin.ask("GET", _UNANSWERED_STATS)[1]
    except (OSError, http.client.HTTPException):
        return b""
    total = sum(map(int, _FIGURE.findall(text)))
    name = "extproc_limits_unanswered_total"
    return (f"# HELP {name} Calls to the rate limit service without a response\n# TYPE {name} counter\n"
            f"{name} {total}\n").encode()
