"""The private directory of a gateway: made for one user, removed at the end, or by the next start after a kill."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from extproc.envoy_config.layout import RuntimeLayout, remove_abandoned


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files go; short, since socket paths must be."""
    folder = Path(tempfile.mkdtemp(prefix="place-"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def killed_gateway(place: Path) -> Path:
    """The directory of a process that died without removing it."""
    program = ("import os, signal, tempfile; from extproc.envoy_config.layout import RuntimeLayout\n"
               f"tempfile.tempdir = {str(place)!r}\n"
               "print(RuntimeLayout.create(1).root, flush=True); os.kill(os.getpid(), signal.SIGKILL)")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False,
                          timeout=60, cwd=Path(__file__).parents[3])
    return Path(done.stdout.strip())


def test_only_this_user_can_look_into_it(place: Path) -> None:
    layout = RuntimeLayout.create(2)
    assert stat.S_IMODE(layout.root.stat().st_mode) == 0o700
    assert layout.sockets == [f"unix:{layout.root}/w0.sock", f"unix:{layout.root}/w1.sock"]
    layout.remove()
    layout.remove()
    assert list(place.iterdir()) == []


def test_what_a_killed_gateway_left_is_removed_by_the_next_and_a_running_one_is_not_touched(place: Path) -> None:
    left = killed_gateway(place)
    running = RuntimeLayout.create(1)
    assert not left.exists()
    (running.root / "w0.sock").touch()
    another = RuntimeLayout.create(1)
    assert (running.root / "w0.sock").exists()
    another.remove()
    running.remove()
    assert list(place.iterdir()) == []


def test_what_is_not_a_gateways_directory_stays(place: Path, tmp_path: Path) -> None:
    """A directory that is just being made has no lock yet; a link may lead anywhere."""
    left = killed_gateway(place)
    elsewhere = tmp_path / "elsewhere"
    left.rename(elsewhere)
    (place / "extproc-link").symlink_to(elsewhere)
    (place / "extproc-new").mkdir()
    (place / "extproc-file").touch()
    remove_abandoned(place)
    assert {path.name for path in place.iterdir()} == {"extproc-link", "extproc-new", "extproc-file"}
    assert (elsewhere / "running").exists()


def test_another_users_directory_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = killed_gateway(place)
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    remove_abandoned(place)
    assert left.exists()


def test_children_do_not_keep_the_lock(place: Path) -> None:
    layout = RuntimeLayout.create(1)
    assert layout.lock is not None
    assert not os.get_inheritable(layout.lock.fileno())
    layout.remove()
