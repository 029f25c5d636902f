"""Envoy's own replies come in the client's error shape; the processor's own replies come as they are."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

import pytest

from tests.envoy.conftest import World, configuration
from tests.envoy.running import Answer, RunningEnvoy
from tests.envoy.stand_in import OWN_ERROR

MESSAGES, CHAT = "/v1/messages", "/v1/chat/completions"
Key = dict[str, str]


def anthropic_error(answer: Answer, status: int, kind: str) -> str:
    """Checks the shape that Anthropic's client libraries read; returns the message."""
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    body: dict[str, Any] = answer.json
    assert set(body) == {"type", "error", "request_id"}
    assert (body["type"], body["error"]["type"]) == ("error", kind)
    assert body["request_id"] == answer.headers["request-id"]
    return str(body["error"]["message"])


def openai_error(answer: Answer, status: int, kind: str, code: str | None) -> str:
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    error: Any = answer.json["error"]
    assert (error["type"], error["code"], error["param"]) == (kind, code, None)
    assert answer.headers["x-request-id"]
    return str(error["message"])


def test_401_without_a_key(world: World) -> None:
    assert "API key" in anthropic_error(world.envoy.ask("good"), 401, "authentication_error")
    openai_error(world.envoy.ask("good", CHAT), 401, "invalid_request_error", "invalid_api_key")


@pytest.mark.parametrize(("path", "anthropics"), [
    ("/openai/v1/messages", True), ("/anthropic/v1/messages/count_tokens", True), ("/anthropic/v1/models", True),
    ("/anthropic/v1/chat/completions", False), ("/openai/v1/chat/completions", False), ("/v1/events", False),
    ("/v1/embeddings", False), ("/v1/responses", False)])
def test_the_shape_is_that_of_the_path(world: World, path: str, anthropics: bool) -> None:
    for version in ({}, {"anthropic-version": "2023-06-01"}):
        answer = world.envoy.ask("good", path, headers=version)
        if anthropics:
            anthropic_error(answer, 401, "authentication_error")
        else:
            openai_error(answer, 401, "invalid_request_error", "invalid_api_key")


def test_401_with_a_wrong_key(world: World) -> None:
    anthropic_error(world.envoy.ask("good", headers={"x-api-key": "wrong"}), 401, "authentication_error")
    anthropic_error(world.envoy.ask("good", headers={"authorization": "Bearer wrong"}), 401, "authentication_error")


def test_models_is_anthropics_with_its_version_header(world: World) -> None:
    anthropic_error(world.envoy.request("GET", "/v1/models", headers={"anthropic-version": "2023-06-01"}), 401,
                    "authentication_error")
    openai_error(world.envoy.request("GET", "/v1/models"), 401, "invalid_request_error", "invalid_api_key")


def test_404_where_select_chose_no_route(world: World, key: Key) -> None:
    said = anthropic_error(world.envoy.ask("unknown", headers=key), 404, "not_found_error")
    assert "/v1/messages" in said
    openai_error(world.envoy.ask("unknown", '/v1/"quoted"', headers=key), 404, "invalid_request_error", "not_found")


def test_503_for_a_rule_that_this_envoy_does_not_know(world: World, key: Key) -> None:
    """The processor has another configuration. What Envoy does not look at may differ."""
    routes = world.envoy.stand_in.routes
    routes["new"], routes["edited"] = "new-00000000.11111111", routes["good"].partition(".")[0] + ".22222222"
    try:
        said = anthropic_error(world.envoy.ask("new", headers=key), 503, "api_error")
        assert "no route for the rule that the processor chose (new-00000000.11111111)" in said
        assert "extproc envoy-config" in said
        openai_error(world.envoy.ask("new", CHAT, headers=key), 503, "server_error", "configurations_differ")
        assert world.envoy.ask("edited", headers=key).status == 200
    finally:
        del routes["new"], routes["edited"]


@pytest.mark.parametrize("chunked", [False, True])
def test_413_over_the_body_limit(world: World, key: Key, chunked: bool) -> None:
    body = b'{"model": "good", "x": "' + b"x" * 250_000 + b'"}'
    if chunked:
        pieces = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (body[:1000], body[1000:])) + b"0\r\n\r\n"
        answer = raw_post(world, MESSAGES, pieces, "transfer-encoding: chunked", key)
    else:
        answer = raw_post(world, MESSAGES, body, f"content-length: {len(body)}", key)
    assert "413" in answer.split("\r\n")[0]
    assert '"request_too_large"' in answer


def raw_post(world: World, path: str, body: bytes, framing: str, key: Key) -> str:
    """http.client would stop at the early answer with a broken pipe."""
    with socket.create_connection(("127.0.0.1", world.envoy.port), 20) as connection:
        connection.sendall(f"POST {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {key['x-api-key']}\r\n{framing}\r\n\r\n"
                           .encode())
        with contextlib.suppress(OSError):
            connection.sendall(body)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while data := connection.recv(65536):
                received += data
        return received.decode()


def test_503_of_the_backend_hop_has_the_clients_shape(world: World, key: Key) -> None:
    assert "cannot be reached" in anthropic_error(world.envoy.ask("down", headers=key), 503, "overloaded_error")
    openai_error(world.envoy.ask("down", CHAT, headers=key), 503, "server_error", "provider_unreachable")


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
def test_the_processors_own_reply_is_left_alone(world: World, key: Key, path: str) -> None:
    answer = world.envoy.ask("refused", path, headers=key)
    assert (answer.status, answer.body) == (404, OWN_ERROR)
    assert answer.headers["content-type"] == "application/json"


def test_a_broken_request_gets_json(world: World) -> None:
    with socket.create_connection(("127.0.0.1", world.envoy.port), 20) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nno colon here\r\n\r\n")
        head, _, body = connection.recv(65536).decode().partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 400")
    assert '"type":"invalid_request_error"' in body


def test_an_unreachable_processor_is_an_error_of_the_gateway() -> None:
    envoy = RunningEnvoy(configuration(1, 1, teams={}), processor=False)
    try:
        said = anthropic_error(envoy.ask("good"), 503, "api_error")
        assert "processor" in said
        assert "gRPC" not in said
        openai_error(envoy.ask("good", CHAT), 503, "server_error", None)
    finally:
        envoy.stop()
