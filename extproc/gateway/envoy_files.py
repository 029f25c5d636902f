"""Envoy's files under a running Envoy: writes what changed, in an order in which nothing refers to what is not there,
and waits for each step until Envoy has taken it.

What is new goes forward (keys and the table of the backends' hops, clusters, listeners, the edge's routes), what goes
away goes back. Every file names its version, which Envoy repeats in its statistics: that is how it is known that
a file was taken. A file that Envoy refuses raises `Refused` with Envoy's own words; what it held before stays in force
there.
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
"""Seconds within which Envoy must take a file; new host names are looked up meanwhile."""
SETTLED = 0.05
"""Seconds in which Envoy's threads learn what its main thread has taken."""

WORDS_PATIENCE = 1.0
"""Seconds in which the reason of a refusal arrives, which comes another way than the refusal itself."""

_HOPS = "rds.hops"
"""The table that the hops share: Envoy puts the name of one of them before it, of that which asked for it first."""
_STATISTIC = {"rds-hops.json": _HOPS, "cds.json": "cluster_manager.cds", "lds.json": "listener_manager.lds",
              "rds-edge.json": "http.edge.rds.edge"}
_FILTER = ("/stats?filter=^(cluster_manager\\.cds|listener_manager\\.lds|http\\..*\\.rds\\.(hops|edge))"
           "\\.(version_text|update_rejected)$"
           "|^listener_manager.(total_listeners_warming|listener_create_failure)$|^cluster_manager.warming_clusters$")
_WHOSE = re.compile(rf"^http\..*\.(?={re.escape(_HOPS)}\.)")
_REFUSAL = re.compile(r"rejected: (.*)|^error (.*)", re.S)
_REASONS = 5
"""A listing of what was refused ends here."""


class Refused(Exception):  # noqa: N818 - says what happened
    """Envoy does not take a file, or not in time."""


class EnvoyFiles:
    """The files of one runtime directory. `admin` is the running Envoy's."""

    def __init__(self, layout: RuntimeLayout, admin: EnvoyAdmin) -> None:
        self._layout = layout
        self._admin = admin
        self._there: dict[str, str] = {}
        self._words: collections.deque[str] = collections.deque(maxlen=30)
        self._spoke = asyncio.Event()

    def heard(self, line: str) -> None:
        """A line of Envoy's log, which alone says why something was refused."""
        if found := _REFUSAL.search(line):
            self._words.append(found[1] or found[2])
            self._spoke.set()

    def first(self, config: Config) -> None:
        """All files, for an Envoy that is yet to start."""
        made = envoy_config.build(config, self._layout)
        made.write()
        self._there = made.files()

    def _files(self, config: Config) -> dict[str, str]:
        return envoy_config.build(config, self._layout).files()

    async def deliver(self, config: Config, *, removing: bool = False) -> None:
        """Puts this configuration in force. `removing`: nothing in it is new. Raises Refused."""
        files = await asyncio.to_thread(self._files, config)
        files.pop("bootstrap.json")
        steps = _steps({*files, *self._there} - {"bootstrap.json"})
        for names in reversed(steps) if removing else steps:
            changed = {name: files[name] for name in names
                       if name in files and files[name] != self._there.get(name)}
            if changed:
                await self._write(changed)
        for name in [name for name in self._there if name not in files and name != "bootstrap.json"]:
            (self._layout.config / name).unlink(missing_ok=True)
            del self._there[name]

    async def _write(self, files: Mapping[str, str]) -> None:
        before = await self._figures()
        self._words.clear()
        self._spoke = asyncio.Event()
        for name, text in files.items():
            try:
                write_private(self._layout.config / name, text)
            except OSError as error:
                raise Refused(f"{name} cannot be written: {error}") from None
            self._there[name] = text
        wanted = {f"{_STATISTIC[name]}.version_text": json.loads(text)["version_info"]
                  for name, text in files.items() if name in _STATISTIC}
        if f"{_HOPS}.version_text" not in before:  # there is no hop yet; the first to come reads the file as it is then
            wanted.pop(f"{_HOPS}.version_text", None)
        end = time.monotonic() + TAKEN_PATIENCE
        while wanted:
            figures = await self._figures()
            refused = [name for name, value in figures.items()
                       if name.endswith(("rejected", "create_failure")) and value != before.get(name, "0")]
            if refused:
                raise Refused(f"Envoy refused a part of the configuration: {await self._why() or ', '.join(refused)}")
            if all(figures.get(name) == version for name, version in wanted.items()) and not _warming(figures):
                break
            if time.monotonic() > end:
                late = [name for name, version in wanted.items() if figures.get(name) != version]
                if late:
                    raise Refused(f"Envoy did not take a part of the configuration in time ({', '.join(late)})")
                break  # taken; a host name that cannot be looked up holds nobody else back
            await asyncio.sleep(0.02)
        await asyncio.sleep(SETTLED)

    async def _why(self) -> str:
        """Envoy's words; empty where it said none."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._spoke.wait(), WORDS_PATIENCE)
        said = list(dict.fromkeys(self._words))
        return "; ".join([*said[:_REASONS], *(["..."] if len(said) > _REASONS else [])])

    async def _figures(self) -> dict[str, str]:
        try:
            text = (await asyncio.to_thread(self._admin.ask, "GET", _FILTER))[1]
        except (OSError, http.client.HTTPException) as error:
            raise Refused(f"Envoy does not answer: {error}") from None
        return {_WHOSE.sub("", name): value.strip().strip('"') for name, _, value in
                (line.partition(": ") for line in text.splitlines())}


def _warming(figures: Mapping[str, str]) -> bool:
    return any(figures.get(name, "0") != "0" for name in (
        "listener_manager.total_listeners_warming", "cluster_manager.warming_clusters"))


def _steps(names: Iterable[str]) -> list[list[str]]:
    """The files in the order in which they are written; those of one step do not refer to each other."""
    order = {"cds.json": 1, "lds.json": 2, "rds-edge.json": 3}
    steps: list[list[str]] = [[], [], [], []]
    for name in sorted(names):
        steps[order.get(name, 0)].append(name)
    return steps
