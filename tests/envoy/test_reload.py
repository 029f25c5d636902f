"""Files written again reach a running Envoy: models, teams and keys change without a restart, streams go on; what Envoy
refuses is taken back and said in its words."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from extproc.config import Attempt, Backend, Config, ModelRule, Team
from extproc.envoy_config import build
from extproc.gateway.envoy_admin import EnvoyAdmin
from extproc.gateway.envoy_files import ApplyError, EnvoyFiles
from tests.envoy.running import Answer, Provider, RunningEnvoy
from tests.ports import free_port


def until(answer: int, envoy: RunningEnvoy, model: str, key: str) -> None:
    end = time.monotonic() + 10
    while envoy.ask(model, headers={"x-api-key": key}).status != answer:
        assert time.monotonic() < end, f"no {answer} for {model} with {key}"
        time.sleep(0.02)


def new_key_arrives(envoy: RunningEnvoy, provider: Provider) -> None:
    end = time.monotonic() + 10
    while provider.requests[-1][1]["authorization"] != "Bearer new-key":
        assert time.monotonic() < end, "the provider still gets the old key"
        assert envoy.ask("m", headers={"x-api-key": "two"}).status == 200


def test_models_teams_and_keys_change_while_a_stream_runs() -> None:
    provider = Provider().start()
    with socket.create_server(("127.0.0.1", 0)) as slow:
        backends = {"slow": Backend(api="openai", url=f"http://127.0.0.1:{slow.getsockname()[1]}", key="k"),
                    "b": Backend(api="openai", url=f"http://127.0.0.1:{provider.port}", key="old-key")}
        first = Config(listen=f"127.0.0.1:{free_port()}", backends=backends, teams={"red": Team(key="one")}, models=[
            ModelRule(match="slow", attempts=[Attempt(backend="slow", model="m")])])
        added = ModelRule(match="m", attempts=[Attempt(backend="b", model="m")])
        changed = msgspec.structs.replace(
            first, teams={"red": Team(key="two")}, models=[*first.models, added],
            backends={**backends, "b": msgspec.structs.replace(backends["b"], key="new-key")})
        envoy = RunningEnvoy(first)
        envoy.stand_in.routes["m"] = added.id
        try:
            answers: list[Answer] = []
            asking = threading.Thread(target=lambda: answers.append(envoy.ask("slow", headers={"x-api-key": "one"})))
            asking.start()
            connection = slow.accept()[0]
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nha")
                build(changed, envoy.layout).write()
                until(200, envoy, "m", "two")
                until(401, envoy, "m", "one")
                new_key_arrives(envoy, provider)
                connection.sendall(b"lf")
                asking.join(10)
            assert answers[0].body == b"half"
        finally:
            envoy.stop()
            provider.stop()


class Delivered:
    """An Envoy whose files a `EnvoyFiles` writes."""

    def __init__(self, provider: Provider) -> None:
        backend = Backend(api="openai", url=f"http://127.0.0.1:{provider.port}", key="k")
        self.config = Config(
            listen=f"127.0.0.1:{free_port()}", backends={"b": backend},
            models=[ModelRule(match="m", attempts=[Attempt(backend="b", model="m")])])
        self.envoy = RunningEnvoy(self.config)
        self.delivery = EnvoyFiles(self.envoy.layout, EnvoyAdmin(f"unix:{self.envoy.layout.envoy_admin}"))
        self.delivery.write_all(self.config)  # as they are
        self._heard = 0

    def with_backend(self, name: str, **changes: object) -> Config:
        """And a rule of the same name for it."""
        backend = msgspec.structs.replace(self.config.backends["b"], **changes)
        rule = ModelRule(match=name, attempts=[Attempt(backend=name, model="m")])
        self.envoy.stand_in.routes[name] = rule.id
        return msgspec.structs.replace(self.config, backends={**self.config.backends, name: backend},
                                       models=[*self.config.models, rule])

    def write_changes(self, config: Config, *, removing: bool = False) -> None:
        async def main() -> None:
            delivering = asyncio.ensure_future(self.delivery.write_changes(config, removing=removing))
            while not delivering.done():
                await asyncio.wait([delivering], timeout=0.02)
                for line in self.envoy.log[self._heard:]:
                    self._heard += 1
                    self.delivery.on_log_line(line.rstrip("\n"))
            await delivering

        asyncio.run(main())

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.envoy.layout.config.iterdir()}


@pytest.fixture
def delivered() -> Iterator[Delivered]:
    provider = Provider().start()
    made = Delivered(provider)
    yield made
    made.envoy.stop()
    provider.stop()


def test_what_envoy_refuses_is_named_and_taken_back(delivered: Delivered, tmp_path: Path) -> None:
    """A file of trusted certificates that is gone between the check and the change; an address that is not ours."""
    before = delivered.files()
    for changed, said in (
            (delivered.with_backend("c", url="https://c.example", ca=str(tmp_path / "gone.pem")), "gone.pem"),
            (msgspec.structs.replace(delivered.with_backend("c"), listen="192.0.2.1:10000"), "192.0.2.1:10000")):
        with pytest.raises(ApplyError, match=f"Envoy refused a part of the configuration: .*{said}"):
            delivered.write_changes(changed)
        assert delivered.envoy.ask("m").status == 200, "what was there serves"
        delivered.write_changes(delivered.config, removing=True)
        assert delivered.files() == before
        assert delivered.envoy.ask("m").status == 200
        assert delivered.envoy.ask("c").status == 503, "no route any more"
    delivered.write_changes(delivered.with_backend("c"))
    assert [delivered.envoy.ask(model).status for model in ("m", "c")] == [200, 200]
    delivered.write_changes(delivered.config, removing=True)
    assert delivered.files() == before
