"""Files written again reach a running Envoy: models, teams and keys change without a restart, streams go on."""

from __future__ import annotations

import socket
import threading
import time

import msgspec

from extproc.bootstrap import build
from extproc.config import Attempt, Backend, Config, ModelRule, Team
from tests.envoy.running import Answer, Provider, RunningEnvoy, free_port


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
