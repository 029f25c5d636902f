"""Envoy is not started where the kernel would not let it watch its files, and its death of that is explained."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from extproc.envoy_config import RuntimeLayout
from extproc.gateway import envoy, inotify
from extproc.gateway.child_processes import StartError
from extproc.gateway.envoy import Envoy

FILES = ["bootstrap.json", "cds.json", "lds.json", "rds-edge.json", "rds-hops.json", "key-b.1"]
DIES = """#!/bin/sh
[ "$1" = --version ] && echo 'envoy  version: 0a/1.40.0/Clean/RELEASE/BoringSSL' && exit
echo 'critical assert failure: inotify_fd_ >= 0. Details: Consider increasing value' >&2
for line in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do echo "error #$line UNKNOWN [0x559cc8a7322c]" >&2; done
kill -ABRT $$
"""


def asked(allowed: int, needed: int) -> str:
    """The answer where the kernel gives `allowed` instances to all programs together."""
    if shutil.which("unshare") is None:
        pytest.skip("needs the program unshare")
    limited = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c",
         f'echo {allowed} > /proc/sys/user/max_inotify_instances && exec "$@"', "sh", sys.executable, "-c",
         f"from extproc.gateway import inotify; print(inotify.shortage({needed}))"],
        cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=30, check=False)
    if limited.returncode:
        pytest.skip(f"no user namespace can be made here: {limited.stderr.strip()[-200:]}")
    return limited.stdout.strip()


def test_a_backend_needs_none_of_its_own() -> None:
    assert inotify.instances(FILES) == 4
    assert inotify.instances([*FILES, "key-c.1", "key-c.2"]) == 4
    assert inotify.instances([*FILES, "sds-certificate-edge.json"]) == 6


def test_the_kernel_is_asked() -> None:
    assert asked(allowed=4, needed=4) == "None"
    said = asked(allowed=3, needed=4)
    assert "user.max_inotify_instances is 3" in said
    assert "needs 4" in said
    assert "sudo sysctl user.max_inotify_instances=1024" in said


def test_another_kernel_lacks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inotify.ctypes, "CDLL", lambda *_, **__: object())
    assert inotify.shortage(10**6) is None


def test_what_is_said_names_the_setting_and_who_holds_the_most(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "limit").write_text("4096\n")
    monkeypatch.setattr(inotify, "_LIMITS", {"fs.inotify.max_user_instances": tmp_path / "limit",
                                             "user.max_inotify_instances": tmp_path / "none"})
    monkeypatch.setattr(inotify, "_held", lambda: {"code": 3, "envoy": 125, "a": 1, "b": 2})
    said = inotify.explanation(4)
    assert "fs.inotify.max_user_instances is 4096" in said
    assert "hold 131 (envoy: 125, code: 3, b: 2)" in said
    assert "sudo sysctl fs.inotify.max_user_instances=16384" in said


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A program in Envoy's place that dies as Envoy does."""
    program = tmp_path / "envoy"
    program.write_text(DIES)
    program.chmod(0o755)
    monkeypatch.setattr(envoy, "find_envoy", lambda: str(program))
    return program


def test_a_start_without_room_ends_before_envoy_runs(start: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inotify, "_given", lambda needed: needed < 4)
    layout = RuntimeLayout.create(1)
    try:
        for name in FILES:
            (layout.config / name).touch()
        start.write_text("nothing that could be run")
        with pytest.raises(StartError, match=r"needs 4 inotify instances .* sudo sysctl fs\.inotify"):
            asyncio.run(Envoy.start(layout, {}))
    finally:
        layout.remove()


def test_envoys_own_words_about_it_are_explained(start: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The room may be gone between the question and the start, or be taken while Envoy runs."""
    async def words() -> str:
        running = await Envoy.start(layout, {})
        await running.wait()
        return running.last_words()

    layout = RuntimeLayout.create(1)
    try:
        said = asyncio.run(words())
    finally:
        layout.remove()
    assert "Envoy was ended by SIGABRT: inotify_fd_ >= 0" in said
    assert "sudo sysctl fs.inotify" in said
    assert "UNKNOWN" not in said, "addresses help nobody"
