"""A key from a file reaches the provider through the real Envoy, and a new one does with the very next request."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import anthropic
import pytest

from extproc.config import Attempt, Backend, Config, ModelRule
from tests.e2e.gateway import Gateway
from tests.envoy.running import Answer, Provider, RunningEnvoy
from tests.envoy.test_own_replies import anthropic_error, openai_error
from tests.envoy.test_up import Up, ups  # noqa: F401 - a fixture
from tests.ports import free_port

VERTEX = "/v1/projects/p/locations/l/publishers/google"
Change = Callable[[Path, str], None]


def in_place(file: Path, key: str) -> None:
    """As `some-command > FILE` does."""
    file.write_text(f"{key}\n")


def by_rename(file: Path, key: str) -> None:
    fresh = file.with_name("fresh")
    fresh.write_text(key)
    fresh.rename(file)


def by_link(file: Path, key: str) -> None:
    """As Kubernetes does: FILE -> ..data/FILE, where ..data points to a new folder each time."""
    folder = file.with_name(f"..{time.monotonic_ns()}")
    folder.mkdir()
    (folder / file.name).write_text(f"{key}\r\n")
    link = file.with_name("..data_tmp")
    link.symlink_to(folder.name)
    os.replace(link, file.with_name("..data"))
    if not file.is_symlink():
        file.unlink(missing_ok=True)
        file.symlink_to(Path("..data") / file.name)


CHANGES = pytest.mark.parametrize("change", [in_place, by_rename, by_link])


@dataclass
class World:
    """Envoy with a backend whose key is in `file`, one at Vertex with the same key, and one without a file yet."""

    folder: Path
    provider: Provider = field(default_factory=Provider)

    def __post_init__(self) -> None:
        self.provider.start()
        # A name that Lua and JSON would both like to read in their own way.
        self.file = self.folder / 'a "key" \\1 über'
        self.late = self.folder / "late"
        in_place(self.file, "first")
        url = f"http://127.0.0.1:{self.provider.port}"
        backends = {
            "studio": Backend(api="gemini", url=f"{url}/v1beta", key_file=str(self.file)),
            "vertex": Backend(api="gemini", url=f"{url}{VERTEX}", key_file=str(self.file)),
            "late": Backend(api="openai", url=f"{url}/v1", key_file=str(self.late)),
            "literal": Backend(api="openai", url=f"{url}/v1", key="literal"),
        }
        rules = [ModelRule(match=name, attempts=[Attempt(backend=name, model="m")]) for name in backends]
        rules.append(ModelRule(match="fails-over", attempts=[
            Attempt(backend="late", model="m"), Attempt(backend="literal", model="m")]))
        self.envoy = RunningEnvoy(Config(listen=f"127.0.0.1:{free_port()}", backends=backends, models=rules))

    def sent(self, model: str) -> dict[str, str]:
        """The headers that the provider gets for a request whose client brings keys of its own."""
        assert self.envoy.ask(model, headers={"x-api-key": "c1", "authorization": "Bearer c2",
                                              "x-goog-api-key": "c3"}).status == 200
        return self.provider.requests[-1][1]

    def said(self, words: str) -> bool:
        return any(words in line for line in self.envoy.log)

    def close(self) -> None:
        self.envoy.stop()
        self.provider.stop()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("keys"))
    yield made
    made.close()


@CHANGES
def test_the_next_request_carries_the_new_key(world: World, change: Change) -> None:
    for number in range(3):
        key = f"{change.__name__}-{number}"
        change(world.file, key)
        assert world.sent("vertex")["authorization"] == f"Bearer {key}"
        assert world.sent("studio")["x-goog-api-key"] == key


def test_only_the_one_header_holds_a_key(world: World) -> None:
    in_place(world.file, "alone")
    keys = ("authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie")
    assert {name: value for name, value in world.sent("studio").items() if name in keys} == {"x-goog-api-key": "alone"}
    assert {name: value for name, value in world.sent("vertex").items() if name in keys} == {
        "authorization": "Bearer alone"}


@pytest.mark.parametrize(("spoil", "words"), [
    (lambda file: file.unlink(), "No such file"), (lambda file: file.write_text(" \n"), "is empty"),
    (lambda file: file.write_text("two words"), "holds no key"),
], ids=["missing", "empty", "not a key"])
def test_without_a_key_the_last_one_stays_and_the_log_says_so(world: World, spoil: Callable[[Path], None],
                                                             words: str) -> None:
    in_place(world.file, "the-last")
    world.sent("vertex")
    spoil(world.file)
    assert [world.sent("vertex")["authorization"] for _ in range(3)] == ["Bearer the-last"] * 3
    end = time.monotonic() + 10
    while not world.said(words):
        assert time.monotonic() < end, world.envoy.log
        time.sleep(0.02)
    said = [line for line in world.envoy.log if words in line]
    assert len(said) == 1, "once, not for every request"
    assert "backends.vertex.key_file" in said[0]
    assert "the last key stays in use" in said[0]
    in_place(world.file, "back")
    assert world.sent("vertex")["authorization"] == "Bearer back"


def test_before_there_is_a_key_requests_fail_over_or_fail_in_the_clients_shape(world: World) -> None:
    assert "no key" in anthropic_error(world.envoy.ask("late"), 503, "api_error")
    openai_error(world.envoy.ask("late", "/v1/chat/completions"), 503, "server_error", "provider_key_missing")
    assert world.sent("fails-over")["authorization"] == "Bearer literal"
    in_place(world.late, "here-now")
    assert world.sent("late")["authorization"] == "Bearer here-now"
    assert world.sent("fails-over")["authorization"] == "Bearer here-now"
    world.late.unlink()


def test_no_request_is_dropped_while_keys_change(world: World) -> None:
    in_place(world.file, "key-0")
    world.sent("vertex")
    before = len(world.provider.requests)
    answers: list[Answer] = []

    def ask() -> None:
        answers.extend(world.envoy.ask("vertex") for _ in range(30))

    asking = [threading.Thread(target=ask) for _ in range(4)]
    for thread in asking:
        thread.start()
    number = 0
    while any(thread.is_alive() for thread in asking):
        number += 1
        (in_place, by_rename, by_link)[number % 3](world.file, f"key-{number}")
    assert [answer.status for answer in answers] == [200] * 120
    seen = [headers["authorization"] for _, headers, _ in world.provider.requests[before:]]
    assert set(seen) <= {f"Bearer key-{made}" for made in range(number + 1)}
    assert len(set(seen)) > 1, "the keys did change meanwhile"


def test_a_start_without_a_key_is_a_warning(ups: list[Up], tmp_path: Path) -> None:  # noqa: F811
    provider = Provider().start()
    try:
        file = tmp_path / "token"
        ups.append(up := Up(tmp_path, 1, backends={
            "b": {"api": "openai", "url": f"http://127.0.0.1:{provider.port}/v1", "key_file": "token"}}))
        up.ready()
        assert up.line(f"extproc: warning: backends.b.key_file: {file} cannot be read: No such file or directory")
        assert up.ask()[0] == 503
        assert up.line("envoy: error script log: backends.b.key_file: ")
        file.write_text("came-later\n")
        assert up.ask()[0] == 200
        assert provider.requests[-1][1]["authorization"] == "Bearer came-later"
    finally:
        provider.stop()


def test_a_renewed_token_at_vertex_with_the_whole_gateway(tmp_path: Path) -> None:
    """With the real processor behind the filter: translated path, new token at once, no token in an error text."""
    answer = {"candidates": [{"content": {"role": "model", "parts": [{"text": "hello"}]}, "finishReason": "STOP"}]}
    provider = Provider(body=json.dumps(answer).encode()).start()
    token = tmp_path / "token"
    token.write_text("first-token\n")
    gateway = Gateway({
        "admin": f"127.0.0.1:{free_port()}", "workers": 1,
        "backends": {"b": {"api": "gemini", "url": f"http://127.0.0.1:{provider.port}{VERTEX}",
                           "key_file": str(token)}},
        "models": [{"match": "m", "attempts": [{"backend": "b", "model": "gemini-2.5-flash"}]}]}, tmp_path)
    try:
        with anthropic.Anthropic(base_url=gateway.base_url, api_key="mine", max_retries=0) as client:
            def ask() -> anthropic.types.Message:
                return client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}])

            for key, change in (("first-token", in_place), ("second-token", by_rename), ("third-token", by_link)):
                change(token, key)
                assert [block.type for block in ask().content] == ["text"]
                path, headers, _ = provider.requests[-1]
                assert path == f"{VERTEX}/models/gemini-2.5-flash:generateContent"
                assert headers["authorization"] == f"Bearer {key}"
            provider.status = 400
            provider.body = b'{"error":{"code":400,"message":"bad third-token, not second-token"}}'
            with pytest.raises(anthropic.BadRequestError, match=r"bad \*\*\*, not \*\*\*"):
                ask()
        assert gateway.terminate() == 0, gateway.output
        assert not gateway.said("-token")
    finally:
        gateway.terminate()
        provider.stop()
