"""docker-compose.yml, run as its first lines say: the gateway, and the fleet.

The fleet's rate limit service and Redis are images that an engine may not have; then `stand-in.yaml` puts this
project's own service, which speaks the same protocol, into their place.
"""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.containers.conftest import ROOT, wait_until

PROJECT = "extproc-test"
STAND_IN = Path(__file__).parent / "stand-in.yaml"


@contextmanager
def running(compose: list[str], *options: str) -> Iterator[Callable[..., str]]:
    """The services, until the end of the block. Gives a function that runs further compose commands."""
    def command(*arguments: str) -> str:
        done = subprocess.run([*compose, "-p", PROJECT, *options, *arguments], cwd=ROOT, capture_output=True, text=True,
                              timeout=180, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        command("up", "-d", "--no-build")
        yield command
    except AssertionError as error:
        error.add_note(command("logs", "--no-color", "--tail", "20"))
        raise
    finally:
        command("down", "-v", "-t", "5")


def ask(port: int, key: str = "local") -> tuple[int, dict[str, Any]]:
    """The status, 0 without an answer, and the body with the headers' `x-ratelimit-remaining` in it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    body = {"model": "demo", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}
    try:
        connection.request("POST", "/v1/messages", json.dumps(body), {"content-type": "application/json",
                                                                      "x-api-key": key})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()) | {"remaining": answer.headers["x-ratelimit-remaining"]}
    except (OSError, http.client.HTTPException, ValueError):
        return 0, {}
    finally:
        connection.close()


def test_the_gateway_in_front_of_the_demo(image: Any, compose: list[str]) -> None:
    with running(compose) as command:
        wait_until(lambda: ask(10000)[0] == 200, "the gateway answers")
        assert "demo of extproc" in ask(10000)[1]["content"][0]["text"]
        assert ask(10000, key="wrong")[0] == 401
        assert "provider" in command("ps", "--services")


def test_the_fleet(image: Any, compose: list[str], there: Callable[..., None]) -> None:
    """Envoy, both processors, the rate limit service and its Redis."""
    text = (ROOT / "docker-compose.yml").read_text()
    there(*(line.split()[1] for line in text.splitlines()
            if line.strip().startswith("image:") and ("ratelimit" in line or "redis" in line)))
    with running(compose, "--profile", "fleet") as command:
        _serves(command)


def test_the_fleet_with_a_stand_in_for_the_rate_limit_service(image: Any, compose: list[str]) -> None:
    with running(compose, "-f", "docker-compose.yml", "-f", str(STAND_IN), "--profile", "fleet") as command:
        _serves(command)


def _serves(command: Callable[..., str]) -> None:
    """Both processors answer, every request counts against the team's limit, the drain closes the door."""
    wait_until(lambda: ask(10001)[0] == 200, "Envoy answers")
    wait_until(lambda: ask(10001)[0] == 200 and all(_served(command, name) for name in ("processor-1", "processor-2")),
               "both processors serve")
    counted = [int(ask(10001)[1]["remaining"]) for _ in range(2)]
    assert counted[1] in (counted[0] - 1, 599), "one less, or a new minute"
    command("exec", "-T", "envoy", "extproc", "drain", "--admin", "unix:/run/extproc/admin.sock", "--patience", "20")
    assert ask(10001)[0] == 0


def _served(command: Callable[..., str], processor: str) -> bool:
    return '"event":"exchange"' in command("logs", "--no-color", processor)


@pytest.fixture(autouse=True)
def _ports_are_free() -> None:
    for port in (10000, 10001, 9902):
        if _listens(port):
            pytest.skip(f"port {port} of this machine, which docker-compose.yml publishes, is taken")


def _listens(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.connect()
    except OSError:
        return False
    connection.close()
    return True
