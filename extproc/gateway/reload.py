"""A changed configuration under a running gateway: seen, checked, put in force without cutting a stream, or refused.

The order of a change: (1) every worker knows the new rules beside the old ones; (2) Envoy gets what is new beside what
is there: clusters, listeners, routes; (3) new requests get the new configuration in the workers; (4) Envoy gets the new
team keys, origins and settings; (5) when no request runs on the old configuration any more, and none has for a while,
what only that one needed goes away, in reverse order. Rules are named by their content and changed backends get another
name (`extproc.config.versions`), so whichever of these states two neighbours of a request's path are in, they mean the
same thing. A step that fails is undone, in reverse order; the configuration before stays in force. Where requests may
have begun on the new one, its rules and backends stay known until those have ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from extproc import envoy_config
from extproc.config import Backend, Config, ConfigError, ModelRule, warnings_of
from extproc.config.versions import fingerprint, rename_changed_backends
from extproc.gateway.child_processes import StartError
from extproc.gateway.envoy_files import EnvoyFiles, Refused
from extproc.gateway.workers import Workers
from extproc.worker.generations import Accepted, Generation

LOOK_EVERY = 0.25
"""Seconds between two looks at the file; it must be the same twice, or somebody is still writing it."""
QUIET = 5.0
"""Seconds without a stream of an old generation after which none comes any more: longer than the pause between two
attempts of a request."""
ASK_EVERY = 0.5
"""Seconds between two questions about streams of an old generation."""

NEEDS_RESTART = ("workers", "admin")
"""Keys that only a restart changes."""


class Metrics:
    """What /metrics says about the configuration."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._reloads = Counter("extproc_config_reload", "Changed configurations, by what became of them", ["result"],
                                registry=self._registry)
        for result in ("applied", "refused", "failed"):
            self._reloads.labels(result)
        self._info = Gauge("extproc_config_info", "The configuration in force: the first 12 digits of its file's "
                           "SHA-256", ["hash"], registry=self._registry)
        self._good = Gauge("extproc_config_last_reload_successful", "Whether the file as it is now is in force",
                           registry=self._registry)
        self._at = Gauge("extproc_config_applied_timestamp_seconds", "When the configuration in force was applied",
                         registry=self._registry)

    def in_force(self, digest: str) -> None:
        """Another configuration serves."""
        self._info.clear()
        self._info.labels(digest).set(1)
        self._good.set(1)
        self._at.set(time.time())

    def ended(self, result: str) -> None:
        """`applied`, `refused` (it is not valid) or `failed` (it could not be put in force)."""
        self._reloads.labels(result).inc()
        if result != "applied":
            self._good.set(0)

    def text(self) -> bytes:
        """As Prometheus text."""
        return generate_latest(self._registry)


# ------------------------------------------------------------------------------------------------------------ the files


def digest_of(path: Path | None) -> str:
    """What `extproc_config_info` shows: as `sha256sum FILE | cut -c1-12` does. "built-in" without a file."""
    if path is None:
        return "built-in"
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    except OSError:
        return "unreadable"


class Watch:
    """Looks whether a file is another one, or has been written: by rename, in place, or as Kubernetes swaps links.
    Begins when it is made. `also` names files that count as parts of it."""

    def __init__(self, path: Path, also: Callable[[], list[str]] = list) -> None:
        self.path = path
        self.also = also
        self._seen = self._before = self._stamps()

    def changed(self) -> bool:
        """Whether there is something new, which is the same as at the last look. Tells every change once."""
        now = self._stamps()
        settled, self._before = now == self._before, now
        if not settled:
            return False
        seen, self._seen = self._seen, now
        return any(seen.get(path, stamp) != stamp for path, stamp in now.items())

    def _stamps(self) -> dict[str, object]:
        return {path: _stamp_of(Path(path)) for path in (str(self.path), *self.also())}


def _stamp_of(path: Path) -> object:
    try:
        found = path.stat()  # follows links
    except OSError as error:
        return error.errno
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def trusted_files(config: Config) -> list[str]:
    """Files that the configuration names and that Envoy reads only once."""
    return sorted({backend.ca for backend in config.backends.values() if backend.ca})


# ---------------------------------------------------------------------------------------------------------- generations


class Known(NamedTuple):
    """A generation that running requests may need."""

    generation: Generation
    prints: Mapping[str, str]
    """The fingerprints of its backends, by their names in it."""

    @property
    def config(self) -> Config:
        """Its configuration, with the backends' names of this run."""
        return self.generation.config


def joined(base: Config, known: list[Known]) -> Config:
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
    """The configuration of one running gateway. `file` is what workers read; `delivery` is None where Envoy runs
    elsewhere."""

    def __init__(self, config: Config, file: Path, *, quiet: float = QUIET) -> None:
        self.plain = config
        self.metrics = Metrics()
        self.lock = asyncio.Lock()
        prints = {name: fingerprint(backend) for name, backend in config.backends.items()}
        self._known = [Known(Generation(1, config), prints)]
        self._numbers = itertools.count(2)  # one that was undone is never given again
        self._file = file
        self._quiet = quiet
        self._valid: set[str] = set()
        self._workers: Workers | None = None
        self._delivery: EnvoyFiles | None = None
        self.prepare: Callable[[Config], Awaitable[None]] = _nothing
        """Awaited before anything of a new configuration is put in force; may raise StartError."""
        self._write(self._known[0].generation, self._known)

    def serve(self, workers: Workers, delivery: EnvoyFiles | None) -> None:
        """The workers and Envoy's files, once they are there."""
        self._workers = workers
        self._delivery = delivery

    @property
    def generations(self) -> list[int]:
        """Those that are known, the newest first."""
        return [one.generation.number for one in self._known]

    async def check(self, config: Config) -> list[str]:
        """What Envoy says against it. It is not asked about the same thing twice: that costs a second."""
        if self._delivery is None:
            return []
        made = await asyncio.to_thread(
            envoy_config.static_bootstrap, config, with_secrets=False, sockets=["unix:/worker"])
        text = msgspec.json.encode(made).decode()
        name = hashlib.sha256(text.encode()).hexdigest()
        if name in self._valid:
            return []
        complaints = await asyncio.to_thread(envoy_config.validate_with_envoy, made)
        if not complaints:
            self._valid.add(name)
        return complaints

    async def apply(self, config: Config) -> None:
        """Puts a valid configuration in force. Raises Refused when that fails; all is then as before."""
        assert self._workers is not None
        async with self.lock:
            try:
                await self.prepare(config)
            except StartError as error:
                raise Refused(str(error)) from None
            await self._apply(config)

    async def _apply(self, config: Config) -> None:
        before, old = list(self._known), self._known[0]
        new = self._next(config)
        known = [new, *before]
        served = False
        try:
            await self._tell(old.generation, known)
            if self._delivery is not None:
                # Where keys begin to be asked for, Envoy asks first: a worker would refuse who brings one already.
                teams = old.config.teams or new.config.teams
                await self._delivery.deliver(joined(msgspec.structs.replace(old.config, teams=teams), known))
            served = True
            # A key that changes hands is checked by Envoy under its old owner until the next step.
            both = {**old.config.teams, **new.config.teams} if new.config.teams else {}
            await self._tell(Generation(new.generation.number, msgspec.structs.replace(new.config, teams=both)), known)
            if self._delivery is not None:
                await self._delivery.deliver(joined(new.config, known))
            await self._tell(new.generation, known)
        except Refused as refused:
            # What requests may have begun on goes away as any old generation does.
            self._known = [old, new, *before[1:]] if served else before
            if problems := await self._undo(old, self._known):
                raise Refused(f"{refused}; going back to the configuration before failed too ({problems}), a reload "
                              "(SIGHUP) tries again") from None
            raise
        self._known = known
        self.plain = config

    async def _undo(self, old: Known, known: list[Known]) -> str:
        """Returns what stood in the way: Envoy and the workers are each brought back as far as that goes."""
        problems: list[str] = []
        try:
            await self._tell(old.generation, known)
        except Refused as error:
            problems.append(str(error))
        if self._delivery is not None:
            try:
                await self._delivery.deliver(joined(old.config, known), removing=True)
            except Refused as error:
                problems.append(str(error))
        return "; ".join(problems)

    def _next(self, config: Config) -> Known:
        plain = {name: fingerprint(backend) for name, backend in config.backends.items()}
        # Where Envoy runs elsewhere it knows the plain names only.
        named = config if self._delivery is None else rename_changed_backends(
            config, plain, [one.prints for one in self._known])
        prints = dict(zip(named.backends, plain.values(), strict=True))
        return Known(Generation(next(self._numbers), named), prints)

    async def _tell(self, serving: Generation, known: list[Known]) -> None:
        assert self._workers is not None
        try:
            digest = self._write(serving, known)
        except OSError as error:
            raise Refused(f"the workers' file cannot be written: {error}") from None
        if not await self._workers.configure(digest):
            raise Refused("a worker did not take the configuration in time")

    def _write(self, serving: Generation, known: list[Known]) -> str:
        return Accepted(serving, [one.generation for one in known]).write(self._file)

    # ------------------------------------------------------------------------------------------------ what goes away

    async def retire(self) -> None:
        """For ever: takes old generations away when nothing needs them any more."""
        quiet_since: dict[int, float] = {}
        while True:
            await asyncio.sleep(ASK_EVERY)
            if len(self._known) == 1 or self._workers is None:
                continue
            for number in self.generations[1:]:
                if await self._workers.in_use(number):
                    quiet_since.pop(number, None)
                else:
                    quiet_since.setdefault(number, time.monotonic())
            gone = {one.generation.number for one in self._known[1:] if self._is_over(one, quiet_since)}
            if gone:
                async with self.lock:
                    with contextlib.suppress(Refused):  # asked again soon
                        await self._forget(gone)
                        quiet_since = {number: since for number, since in quiet_since.items() if number not in gone}

    def _is_over(self, one: Known, quiet_since: Mapping[int, float]) -> bool:
        """Whether no request that needs this generation can follow."""
        since = quiet_since.get(one.generation.number)
        return since is not None and time.monotonic() - since >= self._quiet

    async def _forget(self, gone: set[int]) -> None:
        newest = self._known[0]
        known = [one for one in self._known if one is newest or one.generation.number not in gone]
        if self._delivery is not None:
            await self._delivery.deliver(joined(newest.config, known), removing=True)
        await self._tell(newest.generation, known)
        self._known = known


async def _nothing(config: Config) -> None:
    """Nothing to prepare."""


# -------------------------------------------------------------------------------------------------------- the whole way


class ConfigFile:
    """The user's file (`watch`), and what becomes of its changes. `load` reads and checks it; `say` gets what an
    operator should know; `asked` is set when the file shall be read again, changed or not; `applied` is called with
    each configuration that is in force."""

    def __init__(self, watch: Watch, load: Callable[[], Config], reloader: Reloader, say: Callable[[str], None],
                 asked: asyncio.Event, applied: Callable[[Config], None]) -> None:
        self._path = watch.path
        self._load = load
        self._reloader = reloader
        self._say = say
        self._applied = applied
        self._watch = watch
        watch.also = lambda: trusted_files(reloader.plain)
        self._asked = asked

    async def follow(self) -> None:
        """For ever: puts every change of the file in force, or says why not."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), LOOK_EVERY)
            if self._watch.changed() or self._asked.is_set():
                self._asked.clear()
                await self.reload()

    async def reload(self) -> str:
        """Once, now. Returns `applied`, `refused` or `failed`."""
        try:
            return await self._reload()
        except Exception:
            # Nobody else would look at the file any more.
            return self._ended("failed", "internal error, the configuration before stays:\n" + traceback.format_exc())

    def _ended(self, result: str, what: str) -> str:
        """The figures first: whoever reads the line may ask for them at once."""
        self._reloader.metrics.ended(result)
        self._say(f"{self._path}: {what}")
        return result

    async def _reload(self) -> str:
        digest = digest_of(self._path)
        try:
            config = await asyncio.to_thread(self._load)
            problems = [("Envoy", complaint) for complaint in await self._reloader.check(config)]
        except ConfigError as error:
            problems = error.problems
        except StartError as error:
            problems = [("listen", str(error))]
        if problems:
            self._ended("refused", "the change is refused, the configuration before stays in force:")
            for path, reason in problems:
                self._say(f"    {path}: {reason}")
            return "refused"
        for key in NEEDS_RESTART:
            if getattr(config, key) != (kept := getattr(self._reloader.plain, key)):
                self._say(f"warning: {key}: a change needs a restart; {kept} stays")
                config = msgspec.structs.replace(config, **{key: kept})
        try:
            await self._reloader.apply(config)
        except Refused as error:
            return self._ended(
                "failed", f"the change could not be put in force, the configuration before stays: {error}")
        self._reloader.metrics.in_force(digest)
        for path, reason in warnings_of(config):
            self._say(f"warning: {path}: {reason}")
        self._ended("applied", f"in force now (generation {self._reloader.generations[0]}, {digest})")
        self._applied(config)
        return "applied"
