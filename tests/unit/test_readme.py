"""The README is true: commands, configuration, code, output. The links and file names of all pages exist."""

from __future__ import annotations

import json
import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from extproc import Translation
from extproc.cli import app
from extproc.config import ConfigError, load_config, warnings_of
from extproc.demo.responses import DemoResponse
from extproc.demo.script import run_script
from extproc.gateway.console import print_overview

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "proto").glob("*.md"))]
CONFIGURATION = {"OPENROUTER_API_KEY": "sk-1", "RED_KEY": "red-1"}


def blocks(language: str, section: str) -> list[str]:
    """The code blocks of a section in this language; "" selects blocks without one."""
    text = README.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return [block for found, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S) if found == language]


# ---------------------------------------------------------------------------------------------------------- commands


def test_ci_runs_the_test_command_word_for_word() -> None:
    (command,) = blocks("sh", "Run the tests")
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    pattern = re.search(r"grep -m1 -E '([^']+)' README\.md", script)
    assert pattern is not None
    found = re.search(pattern[1], README, re.M)
    assert found is not None
    assert found[0] + "\n" == command
    assert 'bash -c "$command"' in script


def test_both_commands_are_one_line_each() -> None:
    start, test = blocks("sh", "Try it")[0], blocks("sh", "Run the tests")[0]
    for command in (start, test):
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
        assert command.count("\n") == 1


def test_every_call_of_the_command_line_exists() -> None:
    commands: Any = typer.main.get_command(app)
    calls = re.findall(r"`extproc ([^`]+)`", "\n".join(re.findall(r"^\| `extproc .* \|$", README, re.M)))
    assert len(calls) >= 5
    for call in calls:
        names, options = re.findall(r"(?<![-\w])[a-z][\w-]*", call), re.findall(r"--[\w-]+", call)
        command = commands.commands[names[0]]
        if hasattr(command, "commands"):
            assert {"request", "response"} == set(command.commands)
            command = command.commands["request"]
        known = {text for parameter in command.params for text in parameter.opts}
        assert set(options) <= known, call


# ---------------------------------------------------------------------------------------------------- output shown


def test_what_up_prints(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shown = blocks("", "Try it")[0].split("\nmetrics and health: ")[0]
    print_overview(load_config(None, {}), "http://127.0.0.1:10000", {})
    printed = "\n".join(line.rstrip() for line in capsys.readouterr().err.splitlines())
    assert printed.strip() == shown.strip()


def test_the_response_to_the_curl_call() -> None:
    """The demo's script and the translation give the response shown; ids depend on the id of the request."""
    called = shlex.split(blocks("sh", "Try it")[1])
    body = called[called.index("-d") + 1].encode()
    exchange = Translation("anthropic", "openai", "demo")
    sent = exchange.request(body, {"content-type": "application/json"}).body
    exchange.start(200, {"content-type": "application/json"})
    reply = DemoResponse(json.loads(sent), sent, run_script(json.loads(sent)))
    response = exchange.feed(reply.body()) + exchange.finish()
    assert without_ids(response.decode()) == without_ids(blocks("", "Try it")[1])


def without_ids(text: str) -> str:
    return re.sub(r"\b(msg_|call_)[0-9a-f]{24}\b", r"\1ID", text.strip())


# ------------------------------------------------------------------------------------------ configuration and code


def test_the_configuration_is_good(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(blocks("yaml", "Configure it")[0], encoding="utf-8")
    assert warnings_of(load_config(file, CONFIGURATION)) == []


def test_the_errors_shown_are_those_of_that_configuration(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    text = blocks("yaml", "Configure it")[0].replace("{backend: local, model: qwen3-coder-30b}",
                                                     "{backend: locale, model: qwen3-coder-30b}")
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(file, {"OPENROUTER_API_KEY": "sk-1"})
    errors = "".join(f"{path}: {reason}\n" for path, reason in caught.value.problems)
    assert errors == blocks("", "Configure it")[0]


def test_the_python_code_runs(tmp_path: Path) -> None:
    file = tmp_path / "snippet.py"
    file.write_text(blocks("python", "The command line")[0], encoding="utf-8")
    body = {"model": "m", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "x",
             "choices": [{"index": 0, "delta": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}]}
    names = runpy.run_path(str(file), {"body": json.dumps(body).encode(), "headers": {},
                                       "chunk": f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()})
    assert b'"text":"hello"' in names["out"]
    assert b"event: message_stop" in names["out"]
    up = names["up"]
    assert (up.method, up.path) == ("POST", "/v1/chat/completions")
    assert up.headers["content-type"] == "application/json"
    assert json.loads(up.body)["model"] == "qwen/qwen3-coder"


# -------------------------------------------------------------------------------------------------------------- links


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_named_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`((?:extproc|tests|envoy|proto|docs)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), name
