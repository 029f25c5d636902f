"""`translate request` and `translate response` on standard input and output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.commands import invoke

REQUEST = {"model": "claude-x", "max_tokens": 99, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
COMPLETION = {"id": "c", "object": "chat.completion", "created": 1, "model": "x", "choices": [
    {"index": 0, "message": {"role": "assistant", "content": "hello there"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}
CHUNKS = b"".join(b"data: " + json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "x",
                                          "choices": [choice]}).encode() + b"\n\n" for choice in (
    {"index": 0, "delta": {"role": "assistant", "content": "hello"}, "finish_reason": None},
    {"index": 0, "delta": {}, "finish_reason": "stop"})) + b"data: [DONE]\n\n"


def translate(direction: str, *arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return invoke("translate", direction, "--client", "anthropic", "--upstream", "openai", *arguments, stdin=stdin)


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(REQUEST), encoding="utf-8")
    return file


def test_a_request_is_translated(request_file: Path) -> None:
    completed = translate("request", "--model", "qwen3", stdin=json.dumps(REQUEST | {"top_k": 5}).encode())
    assert completed.returncode == 0
    body = json.loads(completed.stdout)
    assert body["model"] == "qwen3"
    assert body["messages"] == [{"role": "user", "content": "hi"}]
    assert b"top_k" in completed.stderr
    assert json.loads(translate("request", "--request", request_file).stdout)["model"] == "claude-x"


def test_a_refused_request_gives_the_clients_error() -> None:
    completed = translate("request", stdin=b'{"model": "m"')
    assert completed.returncode == 1
    assert json.loads(completed.stdout)["error"]["type"] == "invalid_request_error"
    assert b"Traceback" not in completed.stderr
    assert completed.stderr.startswith(b"400: ")


@pytest.mark.parametrize("response", [CHUNKS, json.dumps(COMPLETION).encode()], ids=["stream", "json"])
def test_a_response_is_translated_from_a_stream_or_json(response: bytes, request_file: Path) -> None:
    completed = translate("response", "--request", request_file, stdin=response)
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.startswith(b"event: message_start\n")
    assert b"hello" in completed.stdout
    assert completed.stdout.rstrip().endswith(b'data: {"type":"message_stop"}')


def test_a_broken_stream_ends_in_an_error(request_file: Path) -> None:
    completed = translate("response", "--request", request_file, stdin=CHUNKS[:150])
    assert completed.returncode == 1
    assert b"message_stop" not in completed.stdout


def test_missing_and_unknown_options_are_named(tmp_path: Path) -> None:
    assert b"--request" in translate("response", stdin=CHUNKS).stderr
    missing = translate("response", "--request", tmp_path / "none.json", stdin=CHUNKS)
    assert (missing.returncode, missing.stdout) == (1, b"")
    unknown = invoke("translate", "request", "--client", "anthropic", "--upstream", "cobol", stdin=b"{}")
    assert unknown.returncode == 1
    assert b"openai" in unknown.stderr


def test_ctrl_c_ends_it_without_a_traceback() -> None:
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
