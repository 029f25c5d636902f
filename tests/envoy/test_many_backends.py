"""Many backends on the real Envoy: as many as would need more inotify instances than Linux gives a user, were one
opened for each; and what changes reaches them without all the rest being read again."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from extproc.config import Attempt, Backend, Config, ModelRule
from extproc.gateway.envoy_admin import EnvoyAdmin
from extproc.gateway.envoy_files import EnvoyFiles
from tests.envoy.running import Answer, Provider, RunningEnvoy
from tests.ports import free_port

MANY = 70
"""A watch for each one's routes and another for its key would be 140; Linux's default is 128."""


class World:
    """One Envoy, a backend with a provider that answers when it is told to (`slow`), and many others. Two of their
    names differ by a capital letter only."""

    def __init__(self) -> None:
        self.provider = Provider().start()
        self.slow = socket.create_server(("127.0.0.1", 0))
        names = ["Same", "same", *(f"b{number}" for number in range(MANY - 2))]
        backends = {name: Backend(api="openai", url=f"http://127.0.0.1:{self.provider.port}/v1", key=f"key-of-{name}")
                    for name in names}
        backends["slow"] = Backend(api="openai", url=f"http://127.0.0.1:{self.slow.getsockname()[1]}", key="k")
        self.config = Config(listen=f"127.0.0.1:{free_port()}", backends=backends,
                             models=[rule(name) for name in backends])
        self.envoy = RunningEnvoy(self.config)
        self.admin = EnvoyAdmin(f"unix:{self.envoy.layout.envoy_admin}")
        self.delivery = EnvoyFiles(self.envoy.layout, self.admin)
        self.delivery.write_all(self.config)  # as they are

    def write_changes(self, config: Config, *, removing: bool = False) -> None:
        for one in config.models:
            self.envoy.stand_in.routes[one.match] = one.id
        asyncio.run(self.delivery.write_changes(config, removing=removing))

    def key_of(self, model: str) -> str:
        """What the provider gets for it."""
        assert self.envoy.ask(model).status == 200
        return self.provider.requests[-1][1]["authorization"].removeprefix("Bearer ")

    def watches(self) -> int:
        folder = Path(f"/proc/{self.envoy.process.pid}/fd")
        return sum(os.readlink(one) == "anon_inode:inotify" for one in folder.iterdir())

    def reads(self) -> str:
        """How often Envoy has read its listeners and clusters."""
        return self.admin.ask("GET", "/stats?filter=(lds|cds).update_attempt$")[1]


def rule(backend: str) -> ModelRule:
    return ModelRule(match=backend, attempts=[Attempt(backend=backend, model="m")])


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.envoy.stop()
    made.provider.stop()
    made.slow.close()


def test_many_backends_are_served_and_changed_while_a_stream_runs(world: World) -> None:
    if Path("/proc/self/fd").is_dir():
        assert world.watches() == 4, "as docs/operations.md says"
    assert [world.key_of(name) for name in ("Same", "same", f"b{MANY - 3}")] == [
        "key-of-Same", "key-of-same", f"key-of-b{MANY - 3}"]
    answers: list[Answer] = []
    asking = threading.Thread(target=lambda: answers.append(world.envoy.ask("slow")))
    asking.start()
    with world.slow.accept()[0] as connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nha")

        before = world.reads()
        backends = {name: msgspec.structs.replace(one, key=f"{one.key}-2")
                    for name, one in world.config.backends.items()}
        world.write_changes(config := msgspec.structs.replace(world.config, backends=backends))
        assert [world.key_of(name) for name in ("Same", "same")] == ["key-of-Same-2", "key-of-same-2"]
        assert world.reads() == before, "new keys are no reason to read anything else again"

        # The first backend's hop is the one that asked for the table of all.
        backends = {"new": backends.pop("Same"), **backends}
        world.write_changes(msgspec.structs.replace(config, backends={**world.config.backends, **backends}, models=[
            *config.models, rule("new")]))
        world.write_changes(config := msgspec.structs.replace(config, backends=backends, models=[
            *config.models[1:], rule("new")]), removing=True)
        assert [world.envoy.ask(model).status for model in ("Same", "same", "new")] == [503, 200, 200]
        world.write_changes(msgspec.structs.replace(config, timeouts=msgspec.structs.replace(
            config.timeouts, per_try_idle=world.config.timeouts.per_try_idle + 1)))
        assert world.envoy.ask("new").status == 200

        connection.sendall(b"lf")
        asking.join(10)
    assert answers[0].body == b"half"
