"""What docs/clients.md and docs/events.md show is what happens: SDK code and curl calls, against `extproc up`."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.gateway import READY, START_SECONDS, Process
from tests.ports import free_port

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = "\n".join((DOCS / name).read_text(encoding="utf-8") for name in ("clients.md", "events.md"))
SHOWN = "127.0.0.1:10000"


def pairs(language: str) -> list[tuple[str, str]]:
    """The code blocks of this language that have their output right behind them."""
    return re.findall(rf"^```{language}\n(.*?)^```\n\n```\n(.*?)^```$", PAGES, re.M | re.S)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    gateway = Process("extproc up", [sys.executable, "-m", "extproc", "up", "--port", str(port)],
                      {"DEEPINFRA_TOKEN": ""})
    gateway.wait_for_line(READY, START_SECONDS)
    yield f"127.0.0.1:{port}"
    assert gateway.terminate() == 0, gateway.output


@pytest.mark.parametrize(("code", "shown"), pairs("python"), ids=["openai", "responses", "anthropic"])
def test_sdk_code_prints_what_is_shown(address: str, code: str, shown: str, tmp_path: Path) -> None:
    file = tmp_path / "snippet.py"
    file.write_text(code.replace(SHOWN, address), encoding="utf-8")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(file))
    assert printed.getvalue().strip() == shown.strip()


def without_ids(text: str) -> str:
    """Ids differ from request to request."""
    return re.sub(r"\b(chatcmpl-|call_)[0-9a-f]{24}\b", r"\1ID", text.strip())


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_prints_what_is_shown(address: str) -> None:
    calls = [(command, shown) for command, shown in pairs("sh") if command.startswith("curl ")]
    assert len(calls) == 4
    for command, shown in calls:
        call = command.replace(SHOWN, address)
        ran = subprocess.run(["bash", "-c", call], capture_output=True, text=True, timeout=30)
        assert without_ids(ran.stdout) == without_ids(shown), command
