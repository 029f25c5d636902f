"""`up`, `serve` and `ready`: errors before anything starts. `tests/envoy` and `tests/e2e` have the running gateways."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.commands import run


@pytest.mark.parametrize("command", ["up", "serve"])
def test_an_unknown_transport_is_an_error_before_anything_starts(command: str, config_file: Path) -> None:
    completed = run(command, "--config", config_file, env={"EXTPROC_TRANSPORT": "pigeon"})
    assert (completed.returncode, completed.stdout) == (1, b"")
    assert completed.stderr == b"EXTPROC_TRANSPORT: 'pigeon' is not a transport; known: native, grpcio\n"


def test_ready_reports_an_admin_port_without_a_gateway() -> None:
    completed = run("ready", "--admin", "127.0.0.1:1")
    assert completed.returncode == 1
    assert completed.stderr.startswith(b"127.0.0.1:1: ")
    assert b"Traceback" not in completed.stderr
