"""The shortcut past `select` in a running gateway: who takes it, and that nobody can tell who did."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.e2e.gateway import CLIENT_KEY, Gateway, configuration
from tests.e2e.odd_clients import H2, Raw, body, head
from tests.e2e.test_reload import Reloaded, wait
from tests.e2e.wire import ANTHROPIC, HELLO, Answer, payload, post
from tests.providers.openai import OpenAIProvider, completion, status
from tests.providers.openai import stream as deltas

KB = 1024
BEHIND_SELECT = {**ANTHROPIC, "content-type": "Application/JSON"}
"""A request that is the same in all else, but not plain."""


@pytest.fixture(scope="module")
def own(provider_server: OpenAIProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """With the shortcut, whatever the environment says; a team that may use one model, and one with a limit."""
    config = configuration(provider_server.url)
    config["models"].append({"match": "fails-*", "attempts": [
        {"backend": "plain", "model": f"number-{number}"} for number in (1, 2, 3)]})
    config["teams"] |= {"narrow": {"key": "sk-narrow", "models": ["claude-test", "glob/o*"]},
                        "limited": {"key": "sk-limited", "limits": {"requests_per_minute": 1000}}}
    running = Gateway(config, tmp_path_factory.mktemp("shortcut"), {"EXTPROC_SHORTCUT": "on"})
    yield running
    assert running.terminate() == 0, running.output


@pytest.fixture(autouse=True)
def answering(provider: OpenAIProvider) -> None:
    provider.always(lambda seen: deltas([{"content": "ab"}]) if seen.body.get("stream")
                    else completion({"content": "ab"}))


SELECTED = "http.edge.ext_proc.select.streams_started"


def selected(gateway: Gateway, run: Callable[[], Any]) -> int:
    """How many requests came to `select` meanwhile."""
    before = gateway.envoy_stat(SELECTED)
    run()
    return gateway.envoy_stat(SELECTED) - before


def test_the_official_sdks_take_it(own: Gateway) -> None:
    claude = anthropic.Anthropic(base_url=own.base_url, api_key=CLIENT_KEY, max_retries=0, timeout=30)
    gpt = openai.OpenAI(base_url=f"{own.base_url}/v1", api_key=CLIENT_KEY, max_retries=0, timeout=30)

    def ask() -> None:
        assert claude.messages.create(model="claude-test", max_tokens=50, messages=HELLO).content[0].type == "text"
        with claude.messages.stream(model="glob/one", max_tokens=50, messages=HELLO) as stream:
            assert stream.get_final_text() == "ab"
        found = gpt.chat.completions.create(model="claude-test", messages=HELLO, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in found if chunk.choices) == "ab"

    with claude, gpt:
        assert selected(own, ask) == 0


@pytest.mark.parametrize(("size", "through"), [(200 * KB, 0), (300 * KB, 1)])
def test_only_short_requests_take_it(own: Gateway, provider: OpenAIProvider, size: int, through: int) -> None:
    words = [{"role": "user", "content": "x" * size}]
    assert selected(own, lambda: post(own.base_url, payload(messages=words))) == through
    assert provider.seen[-1].body["messages"][-1]["content"] == "x" * size


TOOL = {"name": "look", "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}}


@pytest.mark.parametrize("asked", [
    pytest.param(payload(), id="plain"),
    pytest.param(payload(stream=True, tools=[TOOL], system="Be brief."), id="tools, streamed"),
    pytest.param(payload("nobody-knows-it"), id="unknown model"),
    pytest.param(payload("glob/nothing-listed"), id="glob"),
    pytest.param(payload(messages="none"), id="wrong type"),
    pytest.param(payload(max_tokens=-1), id="wrong value"),
    pytest.param(b'{"model": "claude-test", "messages": [{]}', id="broken inside"),
    pytest.param(b'{"model": "claude-test", "messages": [}', id="broken further inside"),
    pytest.param(b'{"model": "claude-test", "max_tokens": 5', id="cut off"),
    pytest.param(b'{"model": "claude-test", "max_tokens": 5, "messages": [{"role": "user", "content": "\xff"}]}',
                 id="no UTF-8"),
    pytest.param(b'{"model": "claude-down", "model": "claude-test", "max_tokens": 5, "messages": '
                 b'[{"role": "user", "content": "a"}]}', id="two models"),
    pytest.param(b'{"model": "claude-test"}', id="nothing else"), pytest.param(b"{}", id="nothing"),
    pytest.param(b"[]", id="a list"), pytest.param(b" ", id="blank"),
    pytest.param(payload("fails-over"), id="three attempts")])
@pytest.mark.parametrize("key", [CLIENT_KEY, "sk-narrow", "sk-limited", "sk-wrong"])
def test_who_took_it_cannot_be_told(own: Gateway, provider: OpenAIProvider, asked: Any, key: str) -> None:
    def answer(seen: Any) -> Any:
        if str(seen.body["model"]) in ("number-1", "number-2"):
            return status(429, {"error": {"message": "slow down"}})
        return deltas([{"content": "ab"}]) if seen.body.get("stream") else completion({"content": "ab"})

    provider.always(answer)
    seen = []
    for headers in (ANTHROPIC, BEHIND_SELECT):
        provider.seen.clear()
        found = post(own.base_url, asked, headers={**headers, "x-api-key": key})
        seen.append((shown(found), [(one.path, one.body) for one in provider.seen]))
    assert seen[0] == seen[1]


def shown(answer: Answer) -> tuple[int, str, dict[str, str]]:
    """Without what differs from one request to the next."""
    own = answer.headers.get("request-id", "-")
    headers = {name: value for name, value in answer.headers.items()
               if name not in ("date", "request-id", "content-length", "x-envoy-upstream-service-time")}
    text = answer.body.decode().replace(own, "ID")
    if answer.status == 200 and text.startswith("{"):
        text = json.dumps({**json.loads(text), "id": "ID"})
    return answer.status, text if "message_start" not in text else text.partition("\n\n")[2], headers


def test_a_team_goes_its_way_as_far_as_it_is_certain(own: Gateway) -> None:
    """That of a rule whose every model is the team's; where it has limits, all goes through select."""
    def ask(key: str, model: str) -> int:
        return selected(own, lambda: post(own.base_url, payload(model), headers={**ANTHROPIC, "x-api-key": key}))

    assert [ask(CLIENT_KEY, "claude-test"), ask(CLIENT_KEY, "glob/one")] == [0, 0]
    assert [ask("sk-narrow", "claude-test"), ask("sk-narrow", "glob/one"), ask("sk-narrow", "claude-new")] == [0, 1, 1]
    assert ask("sk-limited", "claude-test") == 1


def test_http2_in_small_frames_and_with_trailers(own: Gateway, provider: OpenAIProvider) -> None:
    data = body()
    length = ("content-length", str(len(data)))

    def ask(*, trailers: bool) -> str:
        with H2(own.port) as client:
            number = client.open(length)
            for at in range(0, len(data), 7):
                client.data(number, data[at:at + 7], end=not trailers and at + 7 >= len(data))
            if trailers:
                client.state.send_headers(number, [("x-checksum", "1")], end_stream=True)
                client.flush()
            return client.part(number).seen

    seen: list[str] = []
    assert selected(own, lambda: seen.append(ask(trailers=False))) == 0
    assert selected(own, lambda: seen.append(ask(trailers=True))) == 1
    assert seen == ["200", "400 `invalid_request_error`"]
    assert len(provider.seen) == 1, "a request with trailers is refused, as ever"


@pytest.mark.parametrize("data", [body(), body().replace(b"model", b"mod\\u0065l", 1)], ids=["plain", "behind select"])
def test_a_body_that_is_on_its_way_while_the_rules_change(monkeypatch: pytest.MonkeyPatch,
                                                          start_gateway: Callable[..., Gateway],
                                                          provider: OpenAIProvider, data: bytes) -> None:
    """It goes by the rules that were in force when it began, whoever has to say which of them."""
    monkeypatch.setenv("EXTPROC_SHORTCUT", "on")
    reloaded = Reloaded(start_gateway())
    with Raw(reloaded.gateway.port) as client:
        client.send(head(reloaded.gateway.port, f"content-length: {len(data)}"), data[:20])
        wait(lambda: reloaded.gateway.envoy_stat("http.edge.downstream_rq_active") == 1, "the head", reloaded.gateway)
        reloaded.change(models=[{"match": "other", "attempts": [{"backend": "official", "model": "gpt-5"}]}])
        assert reloaded.ask() == 404
        client.send(data[20:])
        answer = client.answer()
    assert answer is not None
    assert answer.status == 200, answer
    assert provider.seen[-1].body["model"] == "scripted/model-1"


def test_without_teams_only_its_own_names_pass(monkeypatch: pytest.MonkeyPatch,
                                               start_gateway: Callable[..., Gateway]) -> None:
    monkeypatch.setenv("EXTPROC_SHORTCUT", "on")
    gateway = start_gateway(teams={})
    data = body()

    def ask(*lines: str) -> int:
        with Raw(gateway.port) as client:
            client.send(b"POST /v1/messages HTTP/1.1\r\ncontent-type: application/json\r\n")
            client.send("".join(f"{line}\r\n" for line in (*lines, f"content-length: {len(data)}", "")).encode(), data)
            answer = client.answer()
        assert answer is not None
        return answer.status

    for lines, expected, through in (
            (("host: 127.0.0.1",), 200, 0), (("host: localhost:1",), 200, 0), (("host: 127.0.0.2",), 200, 1),
            (("host: evil.example",), 421, 1), (("host: 127.0.0.1.evil.example",), 421, 1),
            (("host: 127.0.0.1", "origin: https://evil.example"), 403, 1)):
        before = gateway.envoy_stat(SELECTED)
        assert ask(*lines) == expected
        assert gateway.envoy_stat(SELECTED) - before == through, lines
