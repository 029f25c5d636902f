"""Several keys of one backend, on the real Envoy: they take turns, and one that is refused makes room for another while
the very same request goes on."""

from __future__ import annotations

import json
import stat
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from extproc.config import Attempt, Backend, Config, ModelRule, ProviderKey
from extproc.envoy_config import build, static_bootstrap, validate_with_envoy
from tests.envoy.running import RunningEnvoy, read_body
from tests.envoy.test_own_replies import anthropic_error
from tests.ports import free_port


@dataclass
class Locks:
    """A provider that answers by the key: `status` of it (200 by default), with `headers` and, where `errors` has one,
    a chunked body. `asked` lists the keys."""

    status: dict[str, int] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    errors: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def start(self) -> Locks:
        locks = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                locks.bodies.append(read_body(self))
                key = self.headers.get("x-goog-api-key") or self.headers["authorization"].removeprefix("Bearer ")
                locks.asked.append(key)
                status = locks.status.get(key, 200)
                body = json.dumps({"key": key, "status": status}).encode()
                self.send_response(status)
                if key in locks.errors:
                    self._send_chunked(locks.errors[key])
                    return
                for name, value in ({**locks.headers, "content-length": str(len(body))}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def _send_chunked(self, body: bytes) -> None:
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for part in (body[:20], body[20:]):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def provider() -> Iterator[Locks]:
    made = Locks().start()
    yield made
    made.stop()


def configuration(provider: Locks, keys: list[Any], **changes: Any) -> Config:
    backends = {"b": Backend(api="openai", url=provider.url, keys=keys),
                "spare": Backend(api="openai", url=provider.url, key="spare")}
    rules = [ModelRule(match="m", attempts=[Attempt(backend="b", model="x")]),
             ModelRule(match="two", attempts=[Attempt(backend="b", model="x"), Attempt(backend="spare", model="x")])]
    return Config(**{"listen": f"127.0.0.1:{free_port()}", "backends": backends, "models": rules, **changes})


@pytest.fixture
def start(provider: Locks) -> Iterator[Any]:
    started: list[RunningEnvoy] = []

    def envoy(keys: list[Any], **changes: Any) -> RunningEnvoy:
        started.append(RunningEnvoy(configuration(provider, keys, **changes)))
        return started[-1]

    yield envoy
    for one in started:
        one.stop()


def rests(envoy: RunningEnvoy, some: bool) -> list[str]:
    """What Envoy's log says of keys that rest; waited for where there is to be `some`."""
    end = time.monotonic() + 10
    while not (said := [line for line in envoy.log if "the key rests" in line]) and some:
        assert time.monotonic() < end, envoy.log
        time.sleep(0.02)
    return said


def test_keys_take_turns_by_their_weight(provider: Locks, start: Any) -> None:
    envoy = start([ProviderKey(key="heavy", weight=3), "light"])
    assert [envoy.ask("m").status for _ in range(8)] == [200] * 8
    assert Counter(provider.asked) == {"heavy": 6, "light": 2}
    assert provider.asked[:4] == provider.asked[4:], "smoothly, not six and then two"


@pytest.mark.parametrize("status", [401, 402, 403, 429])
def test_a_refused_key_rests_and_the_same_request_goes_on_with_another(provider: Locks, start: Any,
                                                                       status: int) -> None:
    envoy = start(["bad", "good"])
    provider.status["bad"] = status
    answers = [envoy.ask("m") for _ in range(4)]
    assert [answer.status for answer in answers] == [200] * 4
    assert [answer.headers["x-attempt"] for answer in answers] == ["1"] * 4, "no attempt of the rule was used up"
    assert provider.asked.count("bad") == 1
    assert provider.asked.count("good") == 4
    said = rests(envoy, status != 429)
    assert [("backends.b.keys[0]" in line and str(status) in line and "bad" not in line) for line in said] == (
        [True] if status != 429 else []), "an operator must act on a refused key, not on a busy one"


def test_other_errors_are_not_about_the_key(provider: Locks, start: Any) -> None:
    envoy = start(["one", "two"])
    provider.status = {"one": 500, "two": 400}
    assert sorted(envoy.ask("m").status for _ in range(4)) == [400, 400, 500, 500]
    assert len(provider.asked) == 4


def googles(reason: str) -> bytes:
    """An error as Google sends it. Source: google.rpc.Status, ErrorInfo."""
    return json.dumps({"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.",
                                 "status": "INVALID_ARGUMENT", "details": [{
                                     "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason,
                                     "domain": "googleapis.com"}]}}, indent=2).encode()


def test_a_key_that_google_calls_a_wrong_request_rests_too(provider: Locks, start: Any) -> None:
    backend = Backend(api="gemini", url=provider.url, keys=["bad", "good"])
    envoy = start([], backends={"b": backend, "spare": backend})
    provider.status["bad"], provider.errors["bad"] = 400, googles("API_KEY_INVALID")
    answers = [envoy.ask("m") for _ in range(4)]
    assert [answer.status for answer in answers] == [200] * 4
    assert (provider.asked.count("bad"), provider.asked.count("good")) == (1, 4)
    assert [line.partition("backends.")[2] for line in rests(envoy, True)] == [
        "b.keys[0]: the provider answered 400; the key rests for 60 s\n"]


@pytest.mark.parametrize("error", [googles("SOMETHING_ELSE"), b"", googles("API_KEY_INVALID") + b" " * 3_000_000])
def test_googles_other_400s_reach_the_client_whole(provider: Locks, start: Any, error: bytes) -> None:
    backend = Backend(api="gemini", url=provider.url, keys=["one", "two"])
    envoy = start([], backends={"b": backend, "spare": backend})
    provider.status, provider.errors = {"one": 400, "two": 400}, {"one": error, "two": error}
    answers = [envoy.ask("m") for _ in range(2)]
    assert [(answer.status, answer.body) for answer in answers] == [(400, error)] * 2
    assert sorted(provider.asked) == ["one", "two"]


def test_when_all_keys_are_held_back_the_client_is_told_when_to_come_again(provider: Locks, start: Any) -> None:
    envoy = start(["one", "two", "three"])
    provider.status = {"one": 429, "two": 429, "three": 429}
    provider.headers = {"retry-after": "33"}
    answer = envoy.ask("m")
    assert (answer.status, answer.headers["retry-after"]) == (429, "33")
    assert sorted(provider.asked) == ["one", "three", "two"], "each key once"
    provider.status.clear()
    assert envoy.ask("m").status == 200, "a rest is a preference: with nothing else the key is used"
    assert len(provider.asked) == 4


def test_failover_begins_when_all_keys_have_failed(provider: Locks, start: Any) -> None:
    envoy = start(["one", "two"])
    provider.status = {"one": 401, "two": 429}
    answer = envoy.ask("two")
    assert (answer.status, answer.headers["x-attempt"]) == (200, "2")
    assert sorted(provider.asked) == ["one", "spare", "two"]


def test_a_provider_cannot_ask_for_another_try(provider: Locks, start: Any) -> None:
    envoy = start(["one", "two"])
    provider.headers = {"x-extproc-other-key": "1"}
    assert envoy.ask("m").status == 200
    assert len(provider.asked) == 1


def test_the_whole_request_is_sent_again(provider: Locks, start: Any) -> None:
    envoy = start(["bad", "good"])
    provider.status["bad"] = 429
    body = json.dumps({"model": "m", "filler": "x" * 3_000_000}).encode()
    assert envoy.request("POST", "/v1/messages", body, {"content-type": "application/json"}).status == 200
    assert provider.bodies == [body, body]


def test_keys_from_files_beside_others(provider: Locks, start: Any, tmp_path: Path) -> None:
    file = tmp_path / "key"
    envoy = start(["fixed", ProviderKey(key_file=str(file))])
    assert [envoy.ask("m").status for _ in range(3)] == [200] * 3
    assert set(provider.asked) == {"fixed"}
    end = time.monotonic() + 10
    while not (said := [line for line in envoy.log if "No such file" in line]):
        assert time.monotonic() < end
        time.sleep(0.02)
    assert len(said) == 1
    assert "backends.b.keys[1]" in said[0]
    file.write_text("late\n")
    assert [envoy.ask("m").status for _ in range(4)] == [200] * 4
    assert "late" in provider.asked
    file.write_text("newer")
    provider.asked.clear()
    assert [envoy.ask("m").status for _ in range(4)] == [200] * 4
    assert set(provider.asked) == {"fixed", "newer"}


def test_without_any_key_it_is_an_error_of_the_gateway_or_the_next_attempt(provider: Locks, start: Any,
                                                                           tmp_path: Path) -> None:
    missing = [ProviderKey(key_file=str(tmp_path / name)) for name in ("a", "b")]
    envoy = start(missing)
    assert "no key" in anthropic_error(envoy.ask("m"), 503, "api_error")
    assert provider.asked == [], "a request without a key is not sent"
    assert envoy.ask("two").status == 200
    assert provider.asked == ["spare"]


def test_a_changed_key_needs_neither_listener_nor_cluster(provider: Locks, start: Any) -> None:
    envoy = start(["old-1", "old-2"])
    before = build(envoy.config, envoy.layout).files()
    changed = msgspec.structs.replace(envoy.config, backends={
        **envoy.config.backends, "b": msgspec.structs.replace(envoy.config.backends["b"], keys=["new-1", "new-2"])})
    made = build(changed, envoy.layout)
    assert {name for name, text in made.files().items() if before.get(name) != text} == {"key-b.1", "key-b.2"}
    made.write()
    assert stat.S_IMODE((envoy.layout.config / "key-b.1").stat().st_mode) == 0o600
    assert [envoy.ask("m").status for _ in range(2)] == [200] * 2
    assert sorted(provider.asked) == ["new-1", "new-2"]


def test_the_static_bootstrap_hides_keys_and_is_taken(provider: Locks) -> None:
    config = configuration(provider, ["secret-1", ProviderKey(key="secret-2", weight=2)])
    shown, hidden = (static_bootstrap(config, with_secrets=with_secrets, sockets=["127.0.0.1:1"])
                     for with_secrets in (True, False))
    assert validate_with_envoy(shown) == validate_with_envoy(hidden) == []
    for key in ("secret-1", "secret-2"):
        assert key in json.dumps(shown)
        assert key not in json.dumps(hidden)
    assert "PUT-THE-KEY-OF-BACKEND-b-2-HERE" in json.dumps(hidden)
