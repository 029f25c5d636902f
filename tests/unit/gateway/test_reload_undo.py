"""A change that Envoy or a worker refuses: everything is as before, the reason is reported, the next change works."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from extproc import envoy_config
from extproc.config import Attempt, Backend, Config, EdgeTls, ModelRule, Team
from extproc.envoy_config import RuntimeLayout
from extproc.gateway import envoy_files as envoy_files_module
from extproc.gateway import inotify
from extproc.gateway.child_processes import StartError
from extproc.gateway.config_file import ConfigFile, FileWatch
from extproc.gateway.envoy_admin import EnvoyAdmin
from extproc.gateway.envoy_files import ApplyError, EnvoyFiles
from extproc.gateway.ratelimit_process import RateLimitProcess
from extproc.gateway.reload import Reloader
from extproc.gateway.workers import Workers
from extproc.worker.generations import Accepted

_REJECTED = "warning Filesystem config update rejected: "
LOG = {"rds-hops.json": f"{_REJECTED}Only unique names for virtual hosts are permitted",
       "cds.json": f"{_REJECTED}Error adding/updating cluster(s) backend-c: Invalid path",
       "lds.json": f"{_REJECTED}Error adding/updating listener(s) edge: cannot bind",
       "rds-edge.json": f"{_REJECTED}Duplicate entry of domain *"}


class Envoy:
    """Takes the files of a folder whenever its statistics are read, except those that it `refuses`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.refuses: dict[str, Callable[[str], bool]] = {}
        self.log: Callable[[str], None] = lambda line: None
        self.away = False
        self._seen: dict[str, str] = {}
        self._versions: dict[str, str] = {}
        self._rejected: dict[str, int] = {}

    def ask(self, method: str, path: str) -> tuple[int, str]:
        if self.away:
            raise ConnectionRefusedError("gone")
        lines = []
        for file, name in envoy_files_module.FILE_STATISTICS.items():
            text = (self.folder / file).read_text()
            if text != self._seen.get(file):
                self._seen[file] = text
                if self.refuses.get(file, lambda text: False)(text):
                    self._rejected[name] = self._rejected.get(name, 0) + 1
                    self.log(LOG[file])
                else:
                    self._versions[name] = json.loads(text)["version_info"]
            lines += [f'{name}.version_text: "{self._versions.get(name, "")}"',
                      f"{name}.update_rejected: {self._rejected.get(name, 0)}"]
        return 200, "\n".join(lines)


class TheWorkers:
    """Take what is in their file, except what they `refuse`. `served` lists the generations of new requests."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.refuse: Callable[[Accepted], bool] = lambda accepted: False
        self.busy: set[int] = set()
        self.served: list[int] = []

    @property
    def accepted(self) -> Accepted:
        return Accepted.read(self._file)[0]

    async def configure(self, digest: str) -> bool:
        assert Accepted.read(self._file)[1] == digest
        if self.refuse(self.accepted):
            return False
        self.served.append(self.accepted.serving.number)
        return True

    async def is_generation_in_use(self, generation: int) -> bool:
        return generation in self.busy


class World:
    """One gateway without processes: its file, its runtime directory, stand-ins for Envoy and the workers."""

    def __init__(self, layout: RuntimeLayout, file: Path) -> None:
        self.layout = layout
        self.file = file
        self.said: list[str] = []
        self.on_report: Callable[[str], None] = self.said.append
        self.envoy = Envoy(layout.config)
        self.workers = TheWorkers(layout.accepted)
        self.envoy_files = EnvoyFiles(layout, cast(EnvoyAdmin, self.envoy))
        self.envoy.log = self.envoy_files.on_log_line
        self.first = configuration()
        self.reloader = Reloader(self.first, layout.accepted)
        self.envoy_files.write_all(self.first)
        self.envoy.ask("GET", "")
        self.reloader.connect(cast(Workers, self.workers), self.envoy_files)
        self.next = self.first
        file.write_text("")
        self.applied: list[Config] = []
        self.config_file = ConfigFile(FileWatch(file), lambda: self.next, self.reloader,
                                      lambda line: self.on_report(line), asyncio.Event(), self.applied.append)

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.layout.config.iterdir() if path.name != "bootstrap.json"}

    def reload(self, config: Config) -> str:
        self.next = config
        return asyncio.run(self.config_file.reload())

    def metric(self, name: str) -> str:
        text = self.reloader.metrics.text().decode()
        return next(line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(name))


def configuration(**changes: Any) -> Config:
    settings: dict[str, Any] = {
        "backends": {"b": Backend(api="openai", url="https://b.example/v1", key="sk-b")},
        "models": [ModelRule(match="m", attempts=[Attempt(backend="b", model="x")])],
        "teams": {"red": Team(key="sk-red")}}
    return Config(**{**settings, **changes})


def changed() -> Config:
    """Changes every kind of file: a new backend, a new rule, a new team, a setting of the listener."""
    first = configuration()
    return configuration(
        backends={**first.backends, "c": Backend(api="openai", url="https://c.example/v1", keys=["sk-1", "sk-2"])},
        models=[*first.models, ModelRule(match="n", attempts=[Attempt(backend="c", model="y")])],
        teams={"blue": Team(key="sk-blue")},
        timeouts=msgspec.structs.replace(first.timeouts, stream_idle=1234))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(envoy_files_module, "SETTLED", 0)
    monkeypatch.setattr(envoy_files_module, "TAKEN_PATIENCE", 0.1)
    monkeypatch.setattr(envoy_config, "validate_with_envoy", lambda bootstrap: [])
    layout = RuntimeLayout.create(1)
    yield World(layout, tmp_path / "extproc.yaml")
    layout.remove()


def is_as_before(world: World, before: dict[str, str]) -> None:
    """Except what running requests may need."""
    assert world.files() == before
    accepted = world.workers.accepted
    assert (accepted.serving.number, accepted.serving.config) == (1, world.first)
    assert world.metric("extproc_config_last_reload_successful") == "0.0"
    assert world.metric('extproc_config_reload_total{result="failed"}') == "1.0"
    assert world.applied == []


def serves_after_all(world: World) -> None:
    """The same change again, without an obstacle."""
    world.envoy.refuses.clear()
    world.workers.refuse = lambda accepted: False
    assert world.reload(changed()) == "applied"
    serving = world.workers.accepted.serving
    assert set(serving.config.backends) == {"b", "c"}
    assert set(serving.config.teams) == {"blue"}
    files = world.files()
    assert '"backend-c"' in files["rds-hops.json"]
    assert "key-c.1" in files
    assert world.metric("extproc_config_last_reload_successful") == "1.0"


@pytest.mark.parametrize(("file", "said"), [
    ("rds-hops.json", "Only unique names for virtual hosts are permitted"),
    ("cds.json", "Error adding/updating cluster(s) backend-c: Invalid path"),
    ("lds.json", "Error adding/updating listener(s) edge: cannot bind"),
    ("rds-edge.json", "Duplicate entry of domain *")])
def test_a_change_that_envoy_refuses_at_once_is_undone(world: World, file: str, said: str) -> None:
    before = world.files()
    held = before[file]
    world.envoy.refuses[file] = lambda text: text != held
    assert world.reload(changed()) == "failed"
    is_as_before(world, before)
    assert set(world.workers.served) == {1}, "no request began on the new configuration"
    assert world.reloader.generations == [1]
    assert world.said == [f"{world.file}: the change could not be put in force, the configuration before stays: "
                          f"Envoy refused a part of the configuration: {said}"]
    serves_after_all(world)


def test_a_change_that_envoy_refuses_after_requests_began_on_it_is_undone_after_them(world: World) -> None:
    """The teams' keys come last, in the edge's routes: by then the workers route by the new rules."""
    before = world.files()
    world.envoy.refuses["rds-edge.json"] = lambda text: "sk-blue" in text and "sk-red" not in text
    assert world.reload(changed()) == "failed"
    assert 2 in world.workers.served
    assert world.reloader.generations == [1, 2]
    accepted = world.workers.accepted
    assert (accepted.serving.number, [one.number for one in accepted.known]) == (1, [1, 2])
    kept = world.files()
    assert '"backend-c"' in kept["rds-hops.json"], "a request of the new rule may still have an attempt to make"
    assert "sk-blue" not in kept["rds-edge.json"]
    world.workers.busy = {2}
    asyncio.run(world.reloader.remove_generations(set()))
    asyncio.run(world.reloader.remove_generations({2}))
    is_as_before(world, before)
    serves_after_all(world)
    assert world.reloader.generations[0] == 3, "a number is never given twice"


@pytest.mark.parametrize("serving", [1, 2])
def test_a_worker_that_does_not_take_a_change(world: World, serving: int) -> None:
    """Neither as a known nor as the serving generation."""
    before = world.files()
    world.workers.refuse = lambda accepted: accepted.serving.number == serving and len(accepted.known) == 2 and (
        serving == 2 or accepted.known[0].number == 2)
    assert world.reload(changed()) == "failed"
    assert "a worker did not take the configuration in time" in world.said[0]
    assert world.workers.accepted.serving.number == 1
    assert world.reloader.current_config is world.first
    if serving == 2:
        asyncio.run(world.reloader.remove_generations({2}))
    is_as_before(world, before)
    serves_after_all(world)


def test_a_failed_undo_is_reported_and_repaired_by_the_next_change(world: World) -> None:
    held = world.files()["cds.json"]

    def refuse(text: str) -> bool:
        world.envoy.away = text != held
        return text != held

    world.envoy.refuses["cds.json"] = refuse
    assert world.reload(changed()) == "failed"
    assert "going back to the configuration before failed too (Envoy does not answer: gone)" in world.said[0]
    world.envoy.away = False
    serves_after_all(world)


def test_a_full_disk_is_a_failed_change_like_any_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world.files()
    write = envoy_files_module.write_private

    def full(path: Path, text: str) -> None:
        if path.name == "lds.json":
            raise OSError(28, "No space left on device")
        write(path, text)

    monkeypatch.setattr(envoy_files_module, "write_private", full)
    assert world.reload(changed()) == "failed"
    assert "lds.json cannot be written: [Errno 28] No space left on device" in world.said[0]
    is_as_before(world, before)
    monkeypatch.setattr(envoy_files_module, "write_private", write)
    serves_after_all(world)


class Instances:
    """inotify instances of this user, of which `spare` are left."""

    def __init__(self, spare: int) -> None:
        self.spare = spare
        self.opened: list[int] = []

    def open(self) -> int:
        if len(self.opened) == self.spare:
            raise OSError(24, "Too many open files")
        self.opened.append(os.open(os.devnull, os.O_RDONLY))
        return self.opened[-1]


TLS, OTHER_TLS = EdgeTls(certificate="/a.pem", key="/a.key"), EdgeTls(certificate="/b.pem", key="/b.key")


@pytest.mark.parametrize(("current", "new", "needed"), [(None, TLS, 2), (TLS, OTHER_TLS, 1), (TLS, TLS, 0),
                                                        (TLS, None, 0)])
def test_a_change_is_refused_if_envoy_would_abort_for_lack_of_inotify_instances(
        world: World, monkeypatch: pytest.MonkeyPatch, current: EdgeTls | None, new: EdgeTls | None,
        needed: int) -> None:
    """Envoy 1.40 ends by SIGABRT, restarts included, so the change must not reach it."""
    def reload(tls: EdgeTls | None, spare: int) -> str:
        instances = Instances(spare)
        monkeypatch.setattr(inotify, "open_instance", instances.open)
        result = world.reload(configuration(tls=tls))
        for descriptor in instances.opened:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.close(descriptor)
        return result

    assert reload(current, spare=2) == "applied"
    before, world.said[:] = world.files(), []
    for spare in range(needed):
        assert reload(new, spare) == "refused"
        assert "    tls: Linux gives this user no further inotify instances" in world.said[-1]
        assert "sudo sysctl " in world.said[-1]
        assert world.files() == before
    assert reload(new, needed) == "applied"


def test_an_internal_error_ends_the_change_but_not_the_watch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(config: Config) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(world.reloader, "apply", broken)
    assert world.reload(changed()) == "failed"
    assert "KeyError: 'a bug'" in world.said[0]
    monkeypatch.undo()
    assert world.reload(configuration(lossy="reject")) == "applied"


@pytest.mark.parametrize("result", ["applied", "refused", "failed"])
def test_the_metrics_are_updated_before_the_message(world: World, monkeypatch: pytest.MonkeyPatch,
                                                    result: str) -> None:
    if result == "refused":
        monkeypatch.setattr(envoy_config, "validate_with_envoy", lambda bootstrap: ["no"])
    world.workers.refuse = lambda accepted: result == "failed"
    name, shown = f'extproc_config_reload_total{{result="{result}"}}', []
    world.on_report = lambda line: shown.append(world.metric(name))
    assert world.reload(changed()) == result
    assert set(shown) == {"1.0"}


def test_a_rate_limit_process_that_fails_to_start_is_started_by_the_next_change(world: World) -> None:
    starts: list[str] = []

    class Process:
        async def start(self) -> None:
            starts.append("try")
            if len(starts) == 1:
                raise StartError("no memory")

    limits = RateLimitProcess(cast(Workers, Process()))
    limits.is_needed = lambda config: True  # type: ignore[method-assign,assignment]
    world.reloader.prepare = limits.prepare
    assert world.reload(changed()) == "failed"
    assert "no memory" in world.said[0]
    assert world.reload(changed()) == "applied"
    assert world.reload(configuration()) == "applied"
    assert len(starts) == 2


def test_without_a_logged_reason_the_statistics_name_the_part(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envoy_files_module, "REASON_PATIENCE", 0)
    world.envoy.log = lambda line: None
    world.envoy.refuses["cds.json"] = lambda text: True
    with pytest.raises(ApplyError, match=r"cluster_manager\.cds\.update_rejected"):
        asyncio.run(world.reloader.apply(changed()))
