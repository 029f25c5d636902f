"""Envoy's message types are loaded as plain dataclasses; what is built of them passes pydantic's checks too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from extproc.config import load_config
from extproc.envoy_config import files, plain_messages
from extproc.envoy_config.layout import RuntimeLayout

EVERYTHING = {
    "listen": "0.0.0.0:10000", "cors": ["https://app.example"], "access_log": "all",
    "tls": {"certificate": "c.pem", "key": "k.pem"},
    "tracing": {"otlp": "https://collector.example:4318", "sampling": 0.25, "headers": {"x-key": "secret"},
                "ca": "ca.pem"},
    "limits_service": {"failure_mode": "deny", "timeout": 1.5},
    "timeouts": {"first_token": 3.5, "commit_after": 0.5},
    "backends": {
        "by-name": {"api": "openai", "url": "https://llm.example/v1", "key": "k1", "ca": "ca.pem"},
        "by-address": {"api": "anthropic", "url": "http://[::1]:8080/v1", "trace": True},
        "from-a-file": {"api": "gemini", "url": "https://gemini.example/v1beta", "key_file": "token", "auth": "bearer"},
        "in-turns": {"api": "openai", "url": "http://10.0.0.1:1234/v1",
                     "keys": [{"key": "k2", "weight": 3}, {"key_file": "token"}, "k3"]},
        "behind-a-proxy": {"api": "openai", "url": "https://far.example/v1", "key": "k4",
                           "proxy": "http://name:password@proxy.example:3128"}},
    "models": [
        {"match": "one", "attempts": [{"backend": "by-name", "model": "m", "weight": 2},
                                      {"backend": "in-turns", "model": "m", "weight": 1},
                                      {"backend": "from-a-file", "model": "m", "first_token_timeout": 2}]},
        {"match": "many/*", "list": ["many/one"], "attempts": [{"backend": "behind-a-proxy", "model": "*"},
                                                               {"backend": "by-address", "model": "m"}]}],
    "teams": {"red": {"key": ["t1", "t2"], "models": ["many/*"], "limits": {
        "requests_per_minute": 60, "tokens_per_minute": 1000, "tokens_per_day": 20000, "concurrent_streams": 3,
        "models": {"many/*": {"requests_per_minute": 6}}}}, "blue": {"key": "t3"}},
}
"""Every part of Envoy's configuration that this project writes."""

SCRIPT = """
import importlib, json, sys
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
from envoy_data_plane.envoy.config.core import v3 as core
from pydantic.dataclasses import is_pydantic_dataclass
assert is_pydantic_dataclass(core.Node)
from tests.unit.envoy_config.test_plain_messages import rendered
from pathlib import Path
print(json.dumps(rendered(Path(sys.argv[2]))))
"""


def rendered(folder: Path) -> list[object]:
    """Both renderings of `EVERYTHING`."""
    config = load_config(folder / "extproc.yaml", {})
    layout = RuntimeLayout(folder, [f"unix:{folder}/w0.sock"])
    return [files.build(config, layout, ca="all.pem").files(),
            files.static_bootstrap(config, with_secrets=True, sockets=["127.0.0.1:1"], ca="all.pem")]


def test_checked_types_find_nothing_and_change_nothing(tmp_path: Path) -> None:
    """With wrong types somewhere pydantic would refuse to build, or turn them into others."""
    for name in ("c.pem", "k.pem", "ca.pem", "token"):
        (tmp_path / name).write_text("x")
    (tmp_path / "extproc.yaml").write_text(json.dumps(EVERYTHING))
    loaded = [name for name in sys.modules if name.startswith("envoy_data_plane.")]
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", SCRIPT, json.dumps(loaded), str(tmp_path)],
                          capture_output=True, timeout=120, check=False, cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout) == rendered(tmp_path)


def test_pydantics_own_decorator_is_back_and_the_types_are_plain() -> None:
    script = ("from extproc.envoy_config import files; import pydantic.dataclasses as own; "
              "from envoy_data_plane.envoy.config.core import v3 as core; "
              "print(own.dataclass.__module__, own.is_pydantic_dataclass(core.Node), core.Node(id='a').id)")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, timeout=60, check=True)
    assert done.stdout == b"pydantic.dataclasses False a\n"


def test_installing_again_changes_nothing() -> None:
    before = list(sys.meta_path)
    plain_messages.install()
    assert sys.meta_path == before
