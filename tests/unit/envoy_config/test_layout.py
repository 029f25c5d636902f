"""The private directory of a gateway: readable for one user, removed at the end, or after a kill by the next start."""

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
def parent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory for temporary files. Its path is short, because socket paths must be."""
    folder = Path(tempfile.mkdtemp(prefix="tmp-"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def killed_gateway(parent: Path) -> Path:
    """The directory of a process that died without removing it."""
    program = ("import os, signal, tempfile; from extproc.envoy_config.layout import RuntimeLayout\n"
               f"tempfile.tempdir = {str(parent)!r}\n"
               "print(RuntimeLayout.create(1).root, flush=True); os.kill(os.getpid(), signal.SIGKILL)")
    completed = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True,
                               check=False, timeout=60, cwd=Path(__file__).parents[3])
    return Path(completed.stdout.strip())


def test_only_this_user_can_read_it(parent: Path) -> None:
    layout = RuntimeLayout.create(2)
    assert stat.S_IMODE(layout.root.stat().st_mode) == 0o700
    assert layout.sockets == [f"unix:{layout.root}/w0.sock", f"unix:{layout.root}/w1.sock"]
    layout.remove()
    layout.remove()
    assert list(parent.iterdir()) == []


def test_a_start_removes_the_directories_of_killed_gateways_but_not_of_running_ones(parent: Path) -> None:
    left = killed_gateway(parent)
    running = RuntimeLayout.create(1)
    assert not left.exists()
    (running.root / "w0.sock").touch()
    another = RuntimeLayout.create(1)
    assert (running.root / "w0.sock").exists()
    another.remove()
    running.remove()
    assert list(parent.iterdir()) == []


def test_other_directories_stay(parent: Path, tmp_path: Path) -> None:
    """A new directory has no lock yet; a link may lead anywhere."""
    left = killed_gateway(parent)
    elsewhere = tmp_path / "elsewhere"
    left.rename(elsewhere)
    (parent / "extproc-link").symlink_to(elsewhere)
    (parent / "extproc-new").mkdir()
    (parent / "extproc-file").touch()
    remove_abandoned(parent)
    assert {path.name for path in parent.iterdir()} == {"extproc-link", "extproc-new", "extproc-file"}
    assert (elsewhere / "running").exists()


def test_another_users_directory_stays(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = killed_gateway(parent)
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    remove_abandoned(parent)
    assert left.exists()


def test_children_do_not_keep_the_lock(parent: Path) -> None:
    layout = RuntimeLayout.create(1)
    assert layout.lock is not None
    assert not os.get_inheritable(layout.lock.fileno())
    layout.remove()
