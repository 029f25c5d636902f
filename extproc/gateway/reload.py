"""A changed configuration under a running gateway: checked, and applied without cutting a stream, or refused.

The order of a change: (1) every worker learns the new rules beside the old ones; (2) Envoy gets the additions beside
what it has: clusters, listeners, routes; (3) new requests get the new configuration in the workers; (4) Envoy gets the
new team keys, origins and settings; (5) when no request has run on the old configuration for a while, what only that
one needed is removed, in reverse order. Rules are named by their content, and changed backends get another name
(`extproc.config.versions`). So two neighbours on a request's path always mean the same thing, whichever of these states
each of them is in. A failed step is undone in reverse order, and the previous configuration stays in force. If requests
may have begun on the new one, its rules and backends stay known until those have ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from extproc import envoy_config
from extproc.config import Backend, Config, ModelRule
from extproc.config.values import Problems
from extproc.config.versions import fingerprint, rename_changed_backends
from extproc.gateway import inotify
from extproc.gateway.child_processes import StartError
from extproc.gateway.envoy_files import ApplyError, EnvoyFiles
from extproc.gateway.workers import Workers
from extproc.worker.generations import Accepted, Generation

QUIET = 5.0
"""Seconds without a stream after which an old generation gets none any more: longer than the pause between two attempts
of a request."""
ASK_EVERY = 0.5
"""Seconds between two questions about streams of an old generation."""


class ReloadMetrics:
    """The metrics of the configuration."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._reloads = Counter("extproc_config_reload", "Reloads of the configuration, by result", ["result"],
                                registry=self._registry)
        for result in ("applied", "refused", "failed"):
            self._reloads.labels(result)
        self._info = Gauge("extproc_config_info", "The configuration in force: the first 12 digits of its file's "
                           "SHA-256", ["hash"], registry=self._registry)
        self._good = Gauge("extproc_config_last_reload_successful", "1 if the present content of the file is in force",
                           registry=self._registry)
        self._at = Gauge("extproc_config_applied_timestamp_seconds", "Time at which the configuration in force was "
                         "applied", registry=self._registry)

    def in_force(self, digest: str) -> None:
        """Another configuration serves."""
        self._info.clear()
        self._info.labels(digest).set(1)
        self._good.set(1)
        self._at.set(time.time())

    def ended(self, result: str) -> None:
        """Counts the end of a reload: `applied`, `refused` (it is invalid) or `failed` (it could not be applied)."""
        self._reloads.labels(result).inc()
        if result != "applied":
            self._good.set(0)

    def text(self) -> bytes:
        """As Prometheus text."""
        return generate_latest(self._registry)


# ---------------------------------------------------------------------------------------------------------- generations


class KnownGeneration(NamedTuple):
    """A generation that running requests may need."""

    generation: Generation
    fingerprints: Mapping[str, str]
    """The fingerprints of its backends, by their names in it."""

    @property
    def config(self) -> Config:
        """Its configuration, with the backends' names of this run."""
        return self.generation.config


def combine_generations(base: Config, known: list[KnownGeneration]) -> Config:
    """`base` with the rules and the backends of all known generations, the newest first: what Envoy must be able to
    serve."""
    rules: dict[str, ModelRule] = {}
    backends: dict[str, Backend] = {}
    for one in known:
        for rule in one.config.models:
            rules.setdefault(rule.id, rule)
        for name, backend in one.config.backends.items():
            backends.setdefault(name, backend)
    return msgspec.structs.replace(base, models=list(rules.values()), backends=backends)


class Reloader:
    """The configuration of one running gateway.

    `file` is read by the workers. `current_config` is the configuration in force, with the backends' configured names.
    """

    def __init__(self, config: Config, file: Path, *, quiet: float = QUIET) -> None:
        self.current_config = config
        self.metrics = ReloadMetrics()
        self.lock = asyncio.Lock()
        fingerprints = {name: fingerprint(backend) for name, backend in config.backends.items()}
        self._known = [KnownGeneration(Generation(1, config), fingerprints)]
        self._numbers = itertools.count(2)  # one that was undone is never given again
        self._file = file
        self._quiet = quiet
        self._valid: set[str] = set()
        self._workers: Workers | None = None
        self._envoy_files: EnvoyFiles | None = None
        self.prepare: Callable[[Config], Awaitable[None]] = _prepare_nothing
        """Awaited before any part of a new configuration is applied. May raise StartError."""
        self._write(self._known[0].generation, self._known)

    def connect(self, workers: Workers, envoy_files: EnvoyFiles | None) -> None:
        """Supplies the workers and Envoy's files once they are there. `envoy_files` is None if Envoy runs elsewhere."""
        self._workers = workers
        self._envoy_files = envoy_files

    @property
    def generations(self) -> list[int]:
        """The numbers of the known generations, the newest first."""
        return [one.generation.number for one in self._known]

    async def check(self, config: Config) -> Problems:
        """Why Envoy would not take it, as (path, reason). Remembers valid configurations, because asking takes a
        second."""
        if self._envoy_files is None:
            return []
        if reason := self._tls_problem(config):
            return [("tls", reason)]
        made = await asyncio.to_thread(
            envoy_config.static_bootstrap, config, with_secrets=False, sockets=["unix:/worker"])
        text = msgspec.json.encode(made).decode()
        name = hashlib.sha256(text.encode()).hexdigest()
        if name in self._valid:
            return []
        complaints = await asyncio.to_thread(envoy_config.validate_with_envoy, made)
        if not complaints:
            self._valid.add(name)
        return [("Envoy", complaint) for complaint in complaints]

    def _tls_problem(self, config: Config) -> str | None:
        """Envoy 1.40 watches the file that names the certificate, and the folder that triggers its reading. For another
        certificate it opens the second watch once more before it closes the old one."""
        current = self.current_config.tls
        if config.tls in (None, current):
            return None
        return inotify.shortage(2 if current is None else 1)

    async def apply(self, config: Config) -> None:
        """Applies a valid configuration. Raises ApplyError if that fails; the previous one is then in force."""
        assert self._workers is not None
        async with self.lock:
            try:
                await self.prepare(config)
            except StartError as error:
                raise ApplyError(str(error)) from None
            await self._apply(config)

    async def _apply(self, config: Config) -> None:
        before, old = list(self._known), self._known[0]
        new = self._next_generation(config)
        known = [new, *before]
        served = False
        try:
            await self._configure_workers(old.generation, known)
            if self._envoy_files is not None:
                # If keys are required from now on, Envoy must know it first: without it a worker would refuse
                # clients that send one already.
                teams = old.config.teams or new.config.teams
                await self._envoy_files.write_changes(
                    combine_generations(msgspec.structs.replace(old.config, teams=teams), known))
            served = True
            # Until the next step Envoy checks a key that moves to another team under its old team.
            both = {**old.config.teams, **new.config.teams} if new.config.teams else {}
            await self._configure_workers(
                Generation(new.generation.number, msgspec.structs.replace(new.config, teams=both)), known)
            if self._envoy_files is not None:
                await self._envoy_files.write_changes(combine_generations(new.config, known))
            await self._configure_workers(new.generation, known)
        except ApplyError as refused:
            # If requests may have begun on it, it is removed like any old generation.
            self._known = [old, new, *before[1:]] if served else before
            if problems := await self._undo(old, self._known):
                raise ApplyError(f"{refused}; going back to the configuration before failed too ({problems}), a reload "
                              "(SIGHUP) tries again") from None
            raise
        self._known = known
        self.current_config = config

    async def _undo(self, old: KnownGeneration, known: list[KnownGeneration]) -> str:
        """Brings Envoy and the workers back as far as possible. Returns the problems."""
        problems: list[str] = []
        try:
            await self._configure_workers(old.generation, known)
        except ApplyError as error:
            problems.append(str(error))
        if self._envoy_files is not None:
            try:
                await self._envoy_files.write_changes(combine_generations(old.config, known), removing=True)
            except ApplyError as error:
                problems.append(str(error))
        return "; ".join(problems)

    def _next_generation(self, config: Config) -> KnownGeneration:
        plain = {name: fingerprint(backend) for name, backend in config.backends.items()}
        # An external Envoy knows the configured names only.
        named = config if self._envoy_files is None else rename_changed_backends(
            config, plain, [one.fingerprints for one in self._known])
        fingerprints = dict(zip(named.backends, plain.values(), strict=True))
        return KnownGeneration(Generation(next(self._numbers), named), fingerprints)

    async def _configure_workers(self, serving: Generation, known: list[KnownGeneration]) -> None:
        assert self._workers is not None
        try:
            digest = self._write(serving, known)
        except OSError as error:
            raise ApplyError(f"the workers' file cannot be written: {error}") from None
        if not await self._workers.configure(digest):
            raise ApplyError("a worker did not take the configuration in time")

    def _write(self, serving: Generation, known: list[KnownGeneration]) -> str:
        return Accepted(serving, [one.generation for one in known]).write(self._file)

    # ------------------------------------------------------------------------------------------------ old generations

    async def retire_generations(self) -> None:
        """Forever: removes old generations that no request needs any more."""
        quiet_since: dict[int, float] = {}
        while True:
            await asyncio.sleep(ASK_EVERY)
            if len(self._known) == 1 or self._workers is None:
                continue
            for number in self.generations[1:]:
                if await self._workers.is_generation_in_use(number):
                    quiet_since.pop(number, None)
                else:
                    quiet_since.setdefault(number, time.monotonic())
            gone = {one.generation.number for one in self._known[1:] if self._is_unused(one, quiet_since)}
            if gone:
                async with self.lock:
                    with contextlib.suppress(ApplyError):  # asked again soon
                        await self.remove_generations(gone)
                        quiet_since = {number: since for number, since in quiet_since.items() if number not in gone}

    def _is_unused(self, one: KnownGeneration, quiet_since: Mapping[int, float]) -> bool:
        """True if no request of this generation can follow."""
        since = quiet_since.get(one.generation.number)
        return since is not None and time.monotonic() - since >= self._quiet

    async def remove_generations(self, gone: set[int]) -> None:
        """Removes what only these generations needed. Raises ApplyError."""
        newest = self._known[0]
        known = [one for one in self._known if one is newest or one.generation.number not in gone]
        if self._envoy_files is not None:
            await self._envoy_files.write_changes(combine_generations(newest.config, known), removing=True)
        await self._configure_workers(newest.generation, known)
        self._known = known


async def _prepare_nothing(config: Config) -> None:
    """The default of `prepare`."""
