"""The files of a running gateway: private, written atomically, with keys only in a few of them."""

from __future__ import annotations

import json
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from extproc.config import Attempt, Backend, Config, ModelRule, Team
from extproc.envoy_config import RuntimeLayout, build
from extproc.envoy_config.layout import socket_path_problem

CONFIG = Config(
    backends={"b": Backend(api="openai", url="http://127.0.0.1:1/v1", key="secret-of-b"),
              "open": Backend(api="openai", url="http://127.0.0.1:2/v1")},
    models=[ModelRule(match="m", attempts=[Attempt(backend="b", model="x")])], teams={"red": Team(key="secret-of-red")})


@pytest.fixture
def layout() -> Iterator[RuntimeLayout]:
    made = RuntimeLayout.create(2)
    yield made
    made.remove()


def test_only_this_user_can_read_anything(layout: RuntimeLayout) -> None:
    build(CONFIG, layout).write()
    for path in (layout.root, layout.config, layout.metrics):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for file in layout.config.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["x" * 90, "100%25"])
def test_socket_paths_stay_short_with_a_deep_directory_for_temporary_files(
        name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    deep = tmp_path / name
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    made = RuntimeLayout.create(2)
    try:
        for path in (*made.sockets, str(made.envoy_admin)):
            assert socket_path_problem(path.removeprefix("unix:")) is None
        assert stat.S_IMODE(made.root.stat().st_mode) == 0o700
    finally:
        made.remove()


def test_each_part_that_changes_often_has_its_own_file(layout: RuntimeLayout) -> None:
    build(CONFIG, layout).write()
    assert {file.name for file in layout.config.iterdir()} == {
        "bootstrap.json", "lds.json", "cds.json", "rds-edge.json", "rds-hops.json", "key-b.1"}


def test_keys_are_only_in_their_own_files_and_in_the_edge_routes(layout: RuntimeLayout) -> None:
    """With a key in it, a listener would be replaced when the key changes, and its streams would be cut in the end."""
    files = build(CONFIG, layout).files()
    assert {name for name, text in files.items() if "secret-of-b" in text} == {"key-b.1"}
    assert {name for name, text in files.items() if "secret-of-red" in text} == {"rds-edge.json"}


def test_listeners_stay_the_same_when_teams_models_and_keys_change(layout: RuntimeLayout) -> None:
    other = Config(backends={"b": Backend(api="openai", url="http://127.0.0.1:9/v1", key="another"),
                             "open": CONFIG.backends["open"]},
                   models=[ModelRule(match="n", attempts=[Attempt(backend="open", model="x")])])
    assert build(other, layout).files()["lds.json"] == build(CONFIG, layout).files()["lds.json"]


def test_envoy_watches_single_files(layout: RuntimeLayout) -> None:
    bootstrap = json.loads(build(CONFIG, layout).files()["bootstrap.json"])
    source = bootstrap["dynamic_resources"]["lds_config"]["path_config_source"]
    assert source == {"path": f"{layout.config}/lds.json"}, "with a folder, any move makes Envoy read all files"
    assert bootstrap["admin"]["address"]["pipe"] == {"path": str(layout.envoy_admin), "mode": 0o600}


def test_a_second_write_replaces_whole_files(layout: RuntimeLayout) -> None:
    build(CONFIG, layout).write()
    before = (layout.config / "lds.json").stat().st_ino
    build(CONFIG, layout).write()
    assert (layout.config / "lds.json").stat().st_ino != before
    assert not [file for file in layout.config.iterdir() if file.name.startswith(".new-")]
