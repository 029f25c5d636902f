"""The command `extproc` as a whole: its help, its start, and errors that all commands report alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.commands import run, run_python


def test_version_and_help() -> None:
    assert run("--version").stdout.startswith(b"extproc 0.")
    shown = run("--help").stdout
    assert all(name in shown for name in (b"up", b"serve", b"envoy-config", b"check", b"translate"))
    assert b"worker" not in shown.replace(b"workers", b"")


def test_a_name_that_the_terminal_cannot_show_is_escaped() -> None:
    script = "from extproc import cli; cli.app = lambda: print('backend é→'); cli.main()"
    completed = run_python("-c", script, env={"PYTHONIOENCODING": "ascii"})
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, rb"backend \xe9\u2192" + b"\n", b"")


@pytest.mark.parametrize("command", ["up", "serve", "envoy-config"])
def test_a_bad_configuration_is_reported_without_a_traceback(command: str, tmp_path: Path) -> None:
    completed = run(command, "--config", tmp_path / "none.yaml")
    assert completed.returncode == 1
    assert completed.stderr.decode() == f"{tmp_path / 'none.yaml'}: cannot be read: No such file or directory\n"


def loaded_modules(imports: str, *names: str) -> str:
    """Those of `names` that these imports load."""
    completed = run_python("-c", f"import sys, {imports}; print([name for name in {names!r} if name in sys.modules])")
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.decode().strip()


def test_starting_loads_nothing_that_a_command_does_not_need() -> None:
    assert loaded_modules("extproc.cli", "grpc", "envoy_data_plane", "bpe_openai", "yaml", "msgspec") == "[]"


def test_only_a_worker_loads_the_library_that_checks_arguments() -> None:
    """A worker loads it before its first response, the parent process and the other commands never."""
    others = "extproc.config.loading, extproc.config.checks, extproc.gateway.program"
    assert loaded_modules(others, "jsonschema") == "[]"
    assert loaded_modules("extproc.worker.worker_process", "jsonschema") == "['jsonschema']"


def test_a_worker_loads_neither_the_command_line_nor_envoys_messages() -> None:
    assert loaded_modules("extproc.worker.worker_process", "typer", "rich", "pydantic", "envoy_data_plane") == "[]"
