"""`check` and `envoy-config`: what is printed where, and with which exit code."""

from __future__ import annotations

import json
from pathlib import Path

from extproc.envoy_config import find_envoy
from tests.unit.cli.commands import CONFIG, invoke


def test_check_prints_one_line_for_a_valid_configuration(config_file: Path) -> None:
    completed = invoke("check", "--config", config_file, env={"KEY": "sk"})
    assert (completed.returncode, completed.stderr) == (0, b"")
    envoy = "Envoy takes it" if find_envoy() else "Envoy was not asked"
    assert completed.stdout.decode() == f"{config_file}: fine (1 model rule, 1 backend, 0 teams; {envoy})\n"


def test_check_prints_every_error_with_its_path(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(CONFIG.replace("backend: b,", "backend: c,") + "lisen: x\n", encoding="utf-8")
    completed = invoke("check", "--config", file, env={"KEY": "sk"})
    assert completed.returncode == 1
    assert completed.stdout.decode().splitlines() == [
        'lisen: unknown key, did you mean "listen"?', 'models[0].attempts[0].backend: no backend "c"; known: b']


def test_check_prints_warnings_and_succeeds(tmp_path: Path) -> None:
    file = tmp_path / "literal.yaml"
    file.write_text(CONFIG.replace("${KEY}", "sk-literal"), encoding="utf-8")
    completed = invoke("check", "--config", file)
    assert completed.returncode == 0
    assert completed.stdout.startswith(b"warning: backends.b.key: the key is written in the file")
    assert b"sk-literal" not in completed.stdout + completed.stderr


def test_check_against_an_earlier_envoy_configuration(config_file: Path, tmp_path: Path) -> None:
    env, earlier = {"KEY": "sk"}, tmp_path / "envoy.json"
    assert invoke("envoy-config", "--config", config_file, "--output", earlier, env=env).returncode == 0
    assert earlier.stat().st_mode & 0o077 == 0
    assert invoke("check", "--config", config_file, "--against", earlier, env=env).returncode == 0
    config_file.write_text(CONFIG.replace("match: m", "match: n"), encoding="utf-8")
    completed = invoke("check", "--config", config_file, "--against", earlier, env=env)
    assert completed.returncode == 1
    assert b"models[0]: Envoy has no route for 'n'" in completed.stdout
    assert b"does not fit; make it anew with extproc envoy-config" in completed.stdout


def test_envoy_config_has_keys_only_on_request(config_file: Path) -> None:
    hidden = invoke("envoy-config", "--config", config_file, env={"KEY": "sk-very-secret"})
    assert hidden.returncode == 0, hidden.stderr
    assert "static_resources" in json.loads(hidden.stdout)
    assert b"sk-very-secret" not in hidden.stdout
    shown = invoke("envoy-config", "--config", config_file, "--with-secrets", env={"KEY": "sk-very-secret"})
    assert b"sk-very-secret" in shown.stdout


def test_envoy_config_names_the_given_workers(config_file: Path) -> None:
    completed = invoke("envoy-config", "--config", config_file, "--processor", "workers.internal:7777",
                       env={"KEY": "sk"})
    assert b"workers.internal" in completed.stdout
    assert b"7777" in completed.stdout
