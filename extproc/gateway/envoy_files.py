"""Envoy's files under a running Envoy: changed files are written in an order in which no reference is ever dangling.

Additions go forward (keys and the table of the backends' hops, clusters, listeners, the edge's routes), removals
backward. Each step waits until Envoy has taken its files. Every file names its version, which Envoy repeats in its
statistics: this shows that a file was taken. A file that Envoy refuses raises `ApplyError` with Envoy's own words;
Envoy then keeps what it had.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import http.client
import json
import re
import time
from collections.abc import Iterable, Mapping

from extproc import envoy_config
from extproc.config import Config
from extproc.envoy_config.layout import RuntimeLayout
from extproc.gateway.envoy_admin import EnvoyAdmin
from extproc.process.private_files import write_private

TAKEN_PATIENCE = 20.0
"""Seconds within which Envoy must take a file. New host names are resolved meanwhile."""
SETTLED = 0.05
"""Seconds in which Envoy's threads learn what its main thread has taken."""

REASON_PATIENCE = 1.0
"""Seconds in which the reason of a refusal arrives: it is logged, while the refusal is a statistic."""

_HOPS = "rds.hops"
"""The route table that the hops share. Envoy prefixes it with the name of the hop that asked for it first."""
FILE_STATISTICS = {"rds-hops.json": _HOPS, "cds.json": "cluster_manager.cds", "lds.json": "listener_manager.lds",
                   "rds-edge.json": "http.edge.rds.edge"}
"""The statistics of each file."""
_FILTER = ("/stats?filter=^(cluster_manager\\.cds|listener_manager\\.lds|http\\..*\\.rds\\.(hops|edge))"
           "\\.(version_text|update_rejected)$"
           "|^listener_manager.(total_listeners_warming|listener_create_failure)$|^cluster_manager.warming_clusters$")
_WHOSE = re.compile(rf"^http\..*\.(?={re.escape(_HOPS)}\.)")
_REFUSAL = re.compile(r"rejected: (.*)|^error (.*)", re.S)
_REASONS = 5
"""At most so many reasons are listed."""


class ApplyError(Exception):
    """Envoy or a worker does not take a configuration, or not in time."""


class EnvoyFiles:
    """The files of one runtime directory. `admin` is the running Envoy's."""

    def __init__(self, layout: RuntimeLayout, admin: EnvoyAdmin) -> None:
        self._layout = layout
        self._admin = admin
        self._written: dict[str, str] = {}
        self._refusal_texts: collections.deque[str] = collections.deque(maxlen=30)
        self._refusal_logged = asyncio.Event()

    def on_log_line(self, line: str) -> None:
        """Takes a line of Envoy's log, which alone holds the reason of a refusal."""
        if found := _REFUSAL.search(line):
            self._refusal_texts.append(found[1] or found[2])
            self._refusal_logged.set()

    def write_all(self, config: Config) -> None:
        """Writes all files for an Envoy that is yet to start."""
        made = envoy_config.build(config, self._layout)
        made.write()
        self._written = made.files()

    def _files(self, config: Config) -> dict[str, str]:
        return envoy_config.build(config, self._layout).files()

    async def write_changes(self, config: Config, *, removing: bool = False) -> None:
        """Applies this configuration. `removing`: nothing in it is new. Raises ApplyError."""
        files = await asyncio.to_thread(self._files, config)
        files.pop("bootstrap.json")
        steps = _steps({*files, *self._written} - {"bootstrap.json"})
        for names in reversed(steps) if removing else steps:
            changed = {name: files[name] for name in names
                       if name in files and files[name] != self._written.get(name)}
            if changed:
                await self._write(changed)
        for name in [name for name in self._written if name not in files and name != "bootstrap.json"]:
            (self._layout.config / name).unlink(missing_ok=True)
            del self._written[name]

    async def _write(self, files: Mapping[str, str]) -> None:
        before = await self._read_statistics()
        self._refusal_texts.clear()
        self._refusal_logged = asyncio.Event()
        for name, text in files.items():
            try:
                write_private(self._layout.config / name, text)
            except OSError as error:
                raise ApplyError(f"{name} cannot be written: {error}") from None
            self._written[name] = text
        wanted = {f"{FILE_STATISTICS[name]}.version_text": json.loads(text)["version_info"]
                  for name, text in files.items() if name in FILE_STATISTICS}
        if f"{_HOPS}.version_text" not in before:  # there is no hop yet; the first one reads the file
            wanted.pop(f"{_HOPS}.version_text", None)
        end = time.monotonic() + TAKEN_PATIENCE
        while wanted:
            statistics = await self._read_statistics()
            refused = [name for name, value in statistics.items()
                       if name.endswith(("rejected", "create_failure")) and value != before.get(name, "0")]
            if refused:
                reason = await self._refusal_reason() or ", ".join(refused)
                raise ApplyError(f"Envoy refused a part of the configuration: {reason}")
            if all(statistics.get(name) == version for name, version in wanted.items()) and not _warming(statistics):
                break
            if time.monotonic() > end:
                late = [name for name, version in wanted.items() if statistics.get(name) != version]
                if late:
                    raise ApplyError(f"Envoy did not take a part of the configuration in time ({', '.join(late)})")
                break  # taken; a host name that cannot be resolved delays nothing else
            await asyncio.sleep(0.02)
        await asyncio.sleep(SETTLED)

    async def _refusal_reason(self) -> str:
        """Envoy's words; empty if it logged none."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._refusal_logged.wait(), REASON_PATIENCE)
        reasons = list(dict.fromkeys(self._refusal_texts))
        return "; ".join([*reasons[:_REASONS], *(["..."] if len(reasons) > _REASONS else [])])

    async def _read_statistics(self) -> dict[str, str]:
        try:
            text = (await asyncio.to_thread(self._admin.ask, "GET", _FILTER))[1]
        except (OSError, http.client.HTTPException) as error:
            raise ApplyError(f"Envoy does not answer: {error}") from None
        return {_WHOSE.sub("", name): value.strip().strip('"') for name, _, value in
                (line.partition(": ") for line in text.splitlines())}


def _warming(statistics: Mapping[str, str]) -> bool:
    return any(statistics.get(name, "0") != "0" for name in (
        "listener_manager.total_listeners_warming", "cluster_manager.warming_clusters"))


def _steps(names: Iterable[str]) -> list[list[str]]:
    """The files in the order of writing. Those of one step do not refer to each other."""
    order = {"cds.json": 1, "lds.json": 2, "rds-edge.json": 3}
    steps: list[list[str]] = [[], [], [], []]
    for name in sorted(names):
        steps[order.get(name, 0)].append(name)
    return steps
