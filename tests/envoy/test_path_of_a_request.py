"""A request's way through the generated configuration, on the real Envoy: keys, headers, attempts."""

from __future__ import annotations

import pytest

from tests.envoy.conftest import PROVIDER_KEY, World, configuration
from tests.envoy.running import RunningEnvoy

Key = dict[str, str]


def test_a_request_reaches_the_provider_translated_and_comes_back(world: World, key: Key) -> None:
    answer = world.envoy.ask("good", headers=key)
    assert (answer.status, answer.body) == (200, b'{"ok":true}')
    assert answer.headers["x-served-by"] == "good"
    path, headers, body = world.good.requests[-1]
    assert (path, body) == ("/translated/good", b'{"model": "good"}')
    assert headers["host"] == f"127.0.0.1:{world.good.port}"


def test_a_provider_by_name_gets_its_name_as_host(world: World, key: Key) -> None:
    assert world.envoy.ask("by-name", headers=key).status == 200
    assert world.good.requests[-1][1]["host"] == f"localhost:{world.good.port}"


@pytest.mark.parametrize(("backend", "header", "value"), [
    ("good", "authorization", f"Bearer {PROVIDER_KEY}"), ("claude", "x-api-key", "claude-key"),
    ("gemini", "x-goog-api-key", "gemini-key")])
def test_each_api_gets_its_key_in_its_header(world: World, key: Key, backend: str, header: str, value: str) -> None:
    world.envoy.ask(backend, headers=key)
    assert world.good.requests[-1][1][header] == value


@pytest.mark.parametrize("backend", ["good", "keyless"])
def test_no_key_or_internal_header_of_the_client_reaches_a_provider(world: World, backend: str) -> None:
    world.envoy.ask(backend, headers={
        "authorization": "Bearer team-key-2", "x-goog-api-key": "mine", "cookie": "session=1", "accept-encoding": "br",
        "x-forwarded-for": "10.0.0.9", "x-request-id": "client-chosen"})
    headers = world.good.requests[-1][1]
    assert set(headers) <= {"host", "content-type", "transfer-encoding", "authorization", "x-not-allowed"}
    assert headers.get("authorization") == (f"Bearer {PROVIDER_KEY}" if backend == "good" else None)


SPOOFED = {"x-extproc-route": "x", "X-Extproc-Team": "blue", "x-extproc-api": "x", "x-extproc-asked": "down stream",
           "x-envoy-max-retries": "9", "x-envoy-attempt-count": "7", "x-extproc-tool": "x",
           "X-ExtProc-Tools": "off", "x-extproc-tools2": "x", "x-extproc-finalize": "true", "x-extproc-final": "x"}


def test_internal_headers_of_a_client_are_gone_before_select_sees_them(world: World, key: Key) -> None:
    world.envoy.ask("good", headers={**key, **SPOOFED})
    seen = world.envoy.stand_in.headers("select")[-1]
    assert seen["x-extproc-team"] == "red"
    assert {name for name in seen if name.startswith(("x-extproc-", "x-envoy-"))} == {
        "x-extproc-team", "x-extproc-tools", "x-extproc-finalize"} | (
            {"x-envoy-external-address", "x-envoy-internal"} & set(seen))
    assert (seen["x-extproc-tools"], seen["x-extproc-finalize"]) == ("off", "true"), "the client's own"


def test_the_key_that_authenticated_is_hidden_from_the_processor(world: World, key: Key) -> None:
    world.envoy.ask("good", headers=key)
    for role in ("select", "translate"):
        assert "team-key" not in str(world.envoy.stand_in.headers(role)[-1])


def test_translate_sees_route_api_team_and_attempt(world: World, key: Key) -> None:
    world.envoy.ask("good", headers=key)
    seen = world.envoy.stand_in.headers("translate")[-1]
    rule = world.envoy.config.find_rule("good")
    assert rule is not None
    assert (seen["x-extproc-route"], seen["x-extproc-api"], seen["x-extproc-team"], seen["x-envoy-attempt-count"]) == (
        rule.id, "anthropic", "red", "1")


def test_attempts_go_through_their_backends_in_order_with_clean_headers(world: World, key: Key) -> None:
    before = len(world.envoy.stand_in.headers("translate"))
    answer = world.envoy.ask("fails-over", headers=key)
    assert (answer.status, answer.headers["x-served-by"], answer.headers["x-attempt"]) == (200, "good", "3")
    attempts = world.envoy.stand_in.headers("translate")[before:]
    assert [headers["x-envoy-attempt-count"] for headers in attempts] == ["1", "2", "3"]
    assert {headers[":path"] for headers in attempts} == {"/v1/messages"}  # never what attempt 1 made of it
    assert world.good.requests[-1][1]["authorization"] == f"Bearer {PROVIDER_KEY}"
    assert world.failing.requests[-1][1]["authorization"] == "Bearer failing-key"


def test_the_last_attempts_own_error_reaches_the_client(world: World, key: Key) -> None:
    answer = world.envoy.ask("failing", headers=key)
    assert (answer.status, answer.body) == (429, world.failing.body)


def test_healthz_needs_no_key(world: World) -> None:
    assert world.envoy.request("GET", "/healthz").body == b"ok\n"


def test_a_preflight_needs_no_key_and_a_refusal_can_be_read_by_the_page(world: World, key: Key) -> None:
    """A browser asks without the key that it will send."""
    envoy = RunningEnvoy(configuration(world.good.port, world.failing.port, cors=["https://app.example"]))
    try:
        page = {"origin": "https://app.example"}
        asked = {**page, "access-control-request-method": "POST", "access-control-request-headers": "x-api-key"}
        answers = [envoy.request("OPTIONS", "/v1/messages", headers=asked), envoy.ask("good", headers=page),
                   envoy.ask("good", headers={**key, **page})]
        other = envoy.request("OPTIONS", "/v1/messages", headers={**asked, "origin": "https://evil.example"})
    finally:
        envoy.stop()
    assert [answer.status for answer in answers] == [200, 401, 200]
    assert [answer.headers["access-control-allow-origin"] for answer in answers] == ["https://app.example"] * 3
    assert other.status == 401
    assert "access-control-allow-origin" not in other.headers


def test_a_star_permits_every_origin(world: World) -> None:
    envoy = RunningEnvoy(configuration(world.good.port, world.failing.port, cors=["*"], teams={}))
    try:
        answer = envoy.ask("good", headers={"origin": "https://any.example"})
    finally:
        envoy.stop()
    assert answer.headers["access-control-allow-origin"] == "https://any.example"
