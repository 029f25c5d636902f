"""The image: what is in it, and that it serves, says so, drains and complains the way the program does."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.containers.conftest import port_of, wait_until
from tests.containers.slow_provider import WORDS

KEY = "key-of-the-test"
CONFIG = """
listen: 0.0.0.0:10000
admin: 0.0.0.0:9902
workers: 1
backends: {one: {api: openai, url: "http://PROVIDER:9000/v1", provider: generic}}
models: [{match: m, attempts: [{backend: one, model: demo}]}]
teams: {red: {key: "${TEAM_KEY}"}}
"""


@pytest.fixture
def gateway(run: Callable[..., Any], tmp_path: Path) -> Callable[[str], Any]:
    """Starts the gateway in front of the provider of this name, and waits until it is ready."""
    def start(provider: str) -> Any:
        file = tmp_path / "gateway.yaml"
        file.write_text(CONFIG.replace("PROVIDER", provider))
        container = run(publish=(10000, 9902), files={file: "/etc/extproc/config.yaml"}, env={"TEAM_KEY": KEY})
        wait_until(lambda: get(container, 9902, "/readyz") == 200 or ended(container), "ready")
        assert not ended(container), container.get_logs()
        return container
    return start


def get(container: Any, port: int, path: str) -> int | None:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(container, port), timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def ask(container: Any, **more: Any) -> http.client.HTTPResponse:
    """A request of the team; the response is not read yet."""
    connection = http.client.HTTPConnection("127.0.0.1", port_of(container, 10000), timeout=30)
    body = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}], **more}
    connection.request("POST", "/v1/messages", json.dumps(body), {"content-type": "application/json",
                                                                  "x-api-key": KEY})
    return connection.getresponse()


def ended(container: Any) -> bool:
    wrapped = container.get_wrapped_container()
    wrapped.reload()
    return bool(wrapped.status == "exited")


def inside(container: Any, *command: str) -> tuple[int, str]:
    done = container.get_wrapped_container().exec_run(list(command))
    return done.exit_code, done.output.decode()


def test_what_is_in_the_image(image: Any) -> None:
    config = image.attrs["Config"]
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["extproc"]
    assert config["Labels"]["org.opencontainers.image.revision"] == "tested"
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    added = image.attrs["Size"] - _base(image)
    assert added < 400e6, f"{added / 1e6:.0f} MB over the base: Envoy and the vocabulary of o200k are 180 of them"


def _base(image: Any) -> int:
    base = image.attrs["Config"]["Labels"]["org.opencontainers.image.base.name"]
    return int(image.client.images.get(base).attrs["Size"])


def test_it_serves_without_a_right_to_anything(run: Callable[..., Any], gateway: Callable[[str], Any]) -> None:
    """Read-only, no capabilities, not root; written is only to the memory that is its runtime directory."""
    run("demo", "--listen", "0.0.0.0:9000", alias="demo-provider")
    container = gateway("demo-provider")
    answer = ask(container)
    assert answer.status == 200
    assert "demo of extproc" in json.loads(answer.read())["content"][0]["text"]
    assert inside(container, "id", "-u") == (0, "10001\n")
    assert inside(container, "touch", "/opt/extproc/x")[0] != 0
    assert inside(container, "stat", "-c", "%a %U", "/run/extproc") == (0, "700 extproc\n")
    assert inside(container, "extproc", "ready") == (0, "ready\n")
    wait_until(lambda: _health(container) == "healthy", "the health check passes")
    unauthorised = http.client.HTTPConnection("127.0.0.1", port_of(container, 10000), timeout=10)
    unauthorised.request("GET", "/v1/models")
    assert unauthorised.getresponse().status == 401


def _health(container: Any) -> str:
    wrapped = container.get_wrapped_container()
    wrapped.reload()
    return str(wrapped.attrs["State"]["Health"]["Status"])


def test_a_running_answer_is_finished_before_the_container_ends(run: Callable[..., Any],
                                                                gateway: Callable[[str], Any]) -> None:
    """SIGTERM in the middle of a stream: the client gets all of it, then the process ends with 0."""
    script = Path(__file__).parent / "slow_provider.py"
    run("/provider.py", "9000", entrypoint=["python"], files={script: "/provider.py"},
        alias="slow-provider")
    container = gateway("slow-provider")
    answer = ask(container, stream=True)
    assert answer.status == 200
    read = answer.readline()
    while b"word1" not in read:
        read += answer.readline()
    stopping = threading.Thread(target=container.get_wrapped_container().stop, kwargs={"timeout": 60})
    stopping.start()
    read += answer.read()
    stopping.join(60)
    for word in WORDS:
        assert word.encode() in read
    assert b"message_stop" in read
    assert container.get_wrapped_container().wait(timeout=30)["StatusCode"] == 0


def test_an_idle_container_ends_at_once(run: Callable[..., Any], gateway: Callable[[str], Any]) -> None:
    run("demo", "--listen", "0.0.0.0:9000", alias="demo-provider")
    container = gateway("demo-provider")
    container.get_wrapped_container().kill("SIGTERM")
    assert container.get_wrapped_container().wait(timeout=8)["StatusCode"] == 0


def test_without_a_configuration_it_says_what_is_missing(run: Callable[..., Any]) -> None:
    container = run()
    assert container.get_wrapped_container().wait(timeout=30)["StatusCode"] == 1
    out, err = container.get_logs()
    assert b"/etc/extproc/config.yaml" in out + err
    assert b"Traceback" not in out + err


def test_a_wrong_configuration_is_refused_at_its_path(run: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(CONFIG.replace("backend: one", "backend: two"))
    container = run(files={file: "/etc/extproc/config.yaml"}, env={"TEAM_KEY": KEY})
    assert container.get_wrapped_container().wait(timeout=30)["StatusCode"] == 1
    assert b'models[0].attempts[0].backend: no backend "two"; known: one' in b"".join(container.get_logs())
