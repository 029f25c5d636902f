"""A Docker engine, the image built from the checkout, and containers that end with their test.

Everything here is skipped, with the reason, where no engine answers or an image that a test names is not there: tests
pull nothing. `pytest -m containers -rs tests/containers` runs them and says why not.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TAG = "extproc:0.1.0"
PATIENCE = 60.0
HARDENED: dict[str, Any] = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]}
MEMORY = {"/run/extproc": "uid=10001,gid=10001,mode=0700"}
"""How docs/deployment.md says that the image is run."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.containers)


def wait_until(fulfilled: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """What the condition gives, once it is true."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if found := fulfilled():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {patience:g} s: {what}")


@pytest.fixture(scope="session")
def engine() -> Any:
    """A client of the engine."""
    docker = pytest.importorskip("docker", reason="testcontainers is not installed: pip install -e '.[containers]'")
    try:
        client = docker.from_env()
        client.ping()
    except docker.errors.DockerException as error:
        pytest.skip(f"no Docker engine answers: {error}")
    return client


@pytest.fixture(scope="session")
def there(engine: Any) -> Callable[..., None]:
    """Skips unless the engine has these images already."""
    from docker.errors import ImageNotFound

    def check(*names: str) -> None:
        for name in names:
            try:
                engine.images.get(name)
            except ImageNotFound:
                pytest.skip(f"the engine has no image {name}, and tests pull nothing")
    return check


@pytest.fixture(scope="session")
def image(engine: Any, there: Callable[..., None]) -> Any:
    """The image, built from the checkout."""
    from testcontainers.core.image import DockerImage

    text = (ROOT / "Dockerfile").read_text()
    there(next(line.partition("=")[2] for line in text.splitlines() if line.startswith("ARG PYTHON_IMAGE=")))
    # The host's network: the package index may be reachable from there only.
    DockerImage(path=ROOT, tag=TAG, clean_up=False, network_mode="host", rm=True,
                buildargs={"REVISION": "tested"}).build()
    return engine.images.get(TAG)


@pytest.fixture
def network(engine: Any) -> Iterator[Any]:
    """A network of the test's own, in which containers know each other by name."""
    from testcontainers.core.network import Network

    with Network() as made:
        yield made


@pytest.fixture
def run(image: Any, network: Any) -> Iterator[Callable[..., Any]]:
    """Starts a container of the image, hardened. `publish`: ports that are reached through 127.0.0.1. `alias`: its name
    in the network."""
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer

    testcontainers_config.ryuk_disabled = True  # it is an image of its own, and every container here ends below
    started = []

    def start(*command: str, publish: tuple[int, ...] = (), files: dict[Path, str] | None = None,
              env: dict[str, str] | None = None, alias: str = "gateway", **more: Any) -> Any:
        container = DockerContainer(TAG, **HARDENED, **more)
        container.tmpfs.update(MEMORY)
        container.with_network(network).with_network_aliases(alias)
        if command:
            container.with_command(list(command))
        for port in publish:
            container.ports[f"{port}/tcp"] = ("127.0.0.1", None)
        for here, inside in (files or {}).items():
            container.with_volume_mapping(str(here), inside, "ro")
        for name, value in (env or {}).items():
            container.with_env(name, value)
        started.append(container)
        return container.start()

    yield start
    for container in reversed(started):
        container.stop(force=True, delete_volume=True)


def port_of(container: Any, inside: int) -> int:
    """The port on 127.0.0.1 that leads to this one of the container."""
    wrapped = container.get_wrapped_container()
    wrapped.reload()
    return int(wrapped.attrs["NetworkSettings"]["Ports"][f"{inside}/tcp"][0]["HostPort"])


@pytest.fixture(scope="session")
def compose() -> list[str]:
    """The command of Docker Compose, of either generation."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) and subprocess.run(
                [*command, "version"], capture_output=True, timeout=30, check=False).returncode == 0:
            return command
    pytest.skip("neither docker compose nor docker-compose is installed")
