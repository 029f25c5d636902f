"""The whole gateway with TLS for clients: an official SDK over https, and a start that says what is wrong with a
certificate."""

from __future__ import annotations

import json
import re
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import pytest

from tests.e2e.gateway import CLIENT_KEY, Process, configuration
from tests.envoy.certificates import authority, certificate, needs_openssl
from tests.ports import free_port
from tests.providers.openai import OpenAIProvider, text

pytestmark = needs_openssl


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tls")
    authority(made, "trusted")
    certificate(made, "trusted", "DNS:localhost,IP:127.0.0.1", "tls")
    return made


def started(folder: Path, name: str, config: dict[str, Any]) -> tuple[Process, int]:
    """The gateway with paths that are relative to its configuration."""
    file, port = folder / f"{name}.yaml", free_port()
    file.write_text(json.dumps(config))
    command = [sys.executable, "-m", "extproc", "up", "--config", str(file), "--port", str(port)]
    return Process("extproc up", command), port


@pytest.fixture
def https_url(folder: Path, provider: OpenAIProvider) -> Iterator[str]:
    gateway, port = started(folder, "good", configuration(
        provider.url, workers=1, tls={"certificate": "tls.pem", "key": "tls.key"}))
    assert gateway.wait_for_line(re.compile(r"extproc: ready on (\S+)"), 60)[1] == f"https://127.0.0.1:{port}"
    yield f"https://localhost:{port}"
    assert gateway.terminate() == 0, gateway.output


def test_an_sdk_over_https(folder: Path, https_url: str, provider: OpenAIProvider) -> None:
    provider.script(text("Safe and sound."))
    context = ssl.create_default_context(cafile=str(folder / "trusted.pem"))
    with (anthropic.DefaultHttpxClient(verify=context) as http,
          anthropic.Anthropic(base_url=https_url, api_key=CLIENT_KEY, max_retries=0, http_client=http) as client,
          client.messages.stream(model="claude-test", max_tokens=9,
                                 messages=[{"role": "user", "content": "hi"}]) as answer):
        assert answer.get_final_text() == "Safe and sound."


def test_a_certificate_that_cannot_be_used_ends_the_start_with_the_reason(
        folder: Path, provider: OpenAIProvider) -> None:
    gateway, _ = started(folder, "bad", configuration(
        provider.url, workers=1, tls={"certificate": "tls.pem", "key": "trusted.key"}))
    assert gateway.process.wait(60) == 1
    gateway.terminate()
    assert re.search("KEY_VALUES_MISMATCH|private key|mismatch", gateway.output), gateway.output
    assert "Traceback" not in gateway.output
