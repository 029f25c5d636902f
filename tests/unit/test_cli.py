"""The command line: what is printed where, and with which exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

GOOD = """
backends: {b: {api: openai, url: "https://x.example/v1", key: "${KEY}"}}
models: [{match: m, attempts: [{backend: b, model: x}]}]
"""
REQUEST = {"model": "claude-x", "max_tokens": 99, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
ANSWER = {"id": "c", "object": "chat.completion", "created": 1, "model": "x", "choices": [
    {"index": 0, "message": {"role": "assistant", "content": "hello there"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}
CHUNKS = b"".join(b"data: " + json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "x",
                                          "choices": [choice]}).encode() + b"\n\n" for choice in (
    {"index": 0, "delta": {"role": "assistant", "content": "hello"}, "finish_reason": None},
    {"index": 0, "delta": {}, "finish_reason": "stop"})) + b"data: [DONE]\n\n"


def run(*arguments: str | Path, stdin: bytes = b"", env: dict[str, str] | None = None,
        ) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "extproc", *map(str, arguments)], input=stdin, capture_output=True,
                          timeout=60, check=False, env=os.environ | {"NO_COLOR": "1"} | (env or {}))


@pytest.fixture
def good(tmp_path: Path) -> Path:
    file = tmp_path / "good.yaml"
    file.write_text(GOOD, encoding="utf-8")
    return file


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(REQUEST), encoding="utf-8")
    return file


def test_version_and_help() -> None:
    assert run("--version").stdout.startswith(b"extproc 0.")
    shown = run("--help").stdout
    assert all(name in shown for name in (b"up", b"serve", b"envoy-config", b"check", b"translate"))
    assert b"worker" not in shown.replace(b"workers", b"")


def test_a_name_that_the_terminal_cannot_show_is_no_reason_to_fail() -> None:
    script = "from extproc import cli; cli.app = lambda: print('backend é→'); cli.main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False,
                          env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stdout, done.stderr) == (0, rb"backend \xe9\u2192" + b"\n", b"")


def test_starting_loads_nothing_that_a_command_does_not_need() -> None:
    script = ("import sys, extproc.cli; "
              "print([m for m in ('grpc', 'envoy_data_plane', 'bpe_openai', 'yaml', 'msgspec') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=True)
    assert done.stdout == b"[]\n"


def test_only_a_worker_loads_the_library_that_checks_arguments() -> None:
    """A worker before its first answer, the parent process and the other commands never."""
    for module, loaded in (("extproc.config.loading, extproc.config.checks, extproc.gateway.program", False),
                           ("extproc.worker.worker_process", True)):
        script = f"import sys, {module}; print('jsonschema' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout == f"{loaded}\n", module


def test_a_worker_loads_neither_the_command_line_nor_envoys_messages() -> None:
    script = ("import sys, extproc.worker.worker_process; "
              "print([m for m in ('typer', 'rich', 'pydantic', 'envoy_data_plane') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=True)
    assert done.stdout == b"[]\n"


# ------------------------------------------------------------------------------------------------------------- check


def test_check_says_fine_in_one_line(good: Path) -> None:
    done = run("check", "--config", good, env={"KEY": "sk"})
    assert (done.returncode, done.stderr) == (0, b"")
    from extproc.envoy_config import find_envoy

    told = "Envoy takes it" if find_envoy() else "Envoy was not asked"
    assert done.stdout.decode() == f"{good}: fine (1 model rule, 1 backend, 0 teams; {told})\n"


def test_check_prints_every_error_with_its_path(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(GOOD.replace("backend: b,", "backend: c,") + "lisen: x\n", encoding="utf-8")
    done = run("check", "--config", file, env={"KEY": "sk"})
    assert done.returncode == 1
    assert done.stdout.decode().splitlines() == [
        'lisen: unknown key, did you mean "listen"?', 'models[0].attempts[0].backend: no backend "c"; known: b']


def test_check_prints_warnings_and_succeeds(tmp_path: Path) -> None:
    file = tmp_path / "literal.yaml"
    file.write_text(GOOD.replace("${KEY}", "sk-literal"), encoding="utf-8")
    done = run("check", "--config", file)
    assert done.returncode == 0
    assert done.stdout.startswith(b"warning: backends.b.key: the key is written in the file")
    assert b"sk-literal" not in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["up", "serve", "envoy-config"])
def test_every_command_reports_a_bad_configuration_without_a_traceback(command: str, tmp_path: Path) -> None:
    done = run(command, "--config", tmp_path / "none.yaml")
    assert done.returncode == 1
    assert done.stderr.decode() == f"{tmp_path / 'none.yaml'}: cannot be read: No such file or directory\n"


# ------------------------------------------------------------------------------------------------------ envoy-config


@pytest.mark.parametrize("command", ["up", "serve"])
def test_a_transport_that_nobody_knows_is_named_before_anything_starts(command: str, good: Path) -> None:
    done = run(command, "--config", good, env={"EXTPROC_TRANSPORT": "pigeon"})
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"EXTPROC_TRANSPORT: 'pigeon' is no transport; there are native, grpcio\n"


def test_envoy_config_holds_keys_only_when_asked(good: Path) -> None:
    hidden = run("envoy-config", "--config", good, env={"KEY": "sk-very-secret"})
    assert hidden.returncode == 0, hidden.stderr
    assert "static_resources" in json.loads(hidden.stdout)
    assert b"sk-very-secret" not in hidden.stdout
    shown = run("envoy-config", "--config", good, "--with-secrets", env={"KEY": "sk-very-secret"})
    assert b"sk-very-secret" in shown.stdout


def test_envoy_config_names_the_workers_it_is_told(good: Path) -> None:
    done = run("envoy-config", "--config", good, "--processor", "workers.internal:7777", env={"KEY": "sk"})
    assert b"workers.internal" in done.stdout
    assert b"7777" in done.stdout


# --------------------------------------------------------------------------------------------------------- translate


def translate(way: str, *arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return run("translate", way, "--client", "anthropic", "--upstream", "openai", *arguments, stdin=stdin)


def test_translate_request(asked: Path) -> None:
    done = translate("request", "--model", "qwen3", stdin=json.dumps(REQUEST | {"top_k": 5}).encode())
    assert done.returncode == 0
    body = json.loads(done.stdout)
    assert body["model"] == "qwen3"
    assert body["messages"] == [{"role": "user", "content": "hi"}]
    assert b"top_k" in done.stderr
    assert json.loads(translate("request", "--request", asked).stdout)["model"] == "claude-x"


def test_translate_request_that_cannot_be_served_gives_the_clients_error() -> None:
    done = translate("request", stdin=b'{"model": "m"')
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["type"] == "invalid_request_error"
    assert b"Traceback" not in done.stderr
    assert done.stderr.startswith(b"400: ")


@pytest.mark.parametrize("answer", [CHUNKS, json.dumps(ANSWER).encode()], ids=["stream", "json"])
def test_translate_response_reads_streams_and_json(answer: bytes, asked: Path) -> None:
    done = translate("response", "--request", asked, stdin=answer)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"event: message_start\n")
    assert b"hello" in done.stdout
    assert done.stdout.rstrip().endswith(b'data: {"type":"message_stop"}')


def test_translate_response_of_a_broken_stream_ends_in_an_error(asked: Path) -> None:
    done = translate("response", "--request", asked, stdin=CHUNKS[:150])
    assert done.returncode == 1
    assert b"message_stop" not in done.stdout


def test_translate_names_what_it_needs(tmp_path: Path) -> None:
    assert b"--request" in translate("response", stdin=CHUNKS).stderr
    missing = translate("response", "--request", tmp_path / "none.json", stdin=CHUNKS)
    assert (missing.returncode, missing.stdout) == (1, b"")
    unknown = run("translate", "request", "--client", "anthropic", "--upstream", "cobol", stdin=b"{}")
    assert unknown.returncode == 1
    assert b"openai" in unknown.stderr


# ------------------------------------------------------------------------------------------------------------ signals


def test_ctrl_c_is_quiet() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "extproc", "translate", "request", "--client", "anthropic", "--upstream", "openai"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"})
    try:
        assert process.stdin is not None
        # The pipe's buffer is far smaller: when this write returns the command reads, so its handlers are in place.
        process.stdin.write(b" " * 1_000_000)
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=20)
    finally:
        process.kill()
    assert b"Traceback" not in stderr
    assert process.returncode != 0
