"""The paths beside the two chat APIs, and the headers of all: models, token counts, embeddings, responses, application
events, request ids and rate limits, through the real Envoy with the SDKs or on the wire."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import anthropic
import openai
import pytest

from tests.e2e.gateway import CLIENT_KEY, PROVIDER_KEY, Gateway
from tests.e2e.matrix.abilities import NOW, WEATHER
from tests.e2e.matrix.backends import BACKENDS, SAID, Backend
from tests.e2e.matrix.clients import AnthropicClient, Client, OpenAIClient, Wish
from tests.e2e.wire import HELLO, Answer, post, request, stream
from tests.providers import anthropic as claude
from tests.providers import openai as gpt
from tests.providers.http import Reply
from tests.providers.openai_endpoints import vectors_of
from tests.unit.apis.responses.client.grammar import check_stream

PROVIDERS = [kind.name for kind in BACKENDS]
LISTED = ["openai", "openai-thinker", "openai-signer", "anthropic", "gemini", "responses", "responses-thinker",
          *(f"after-{provider}" for provider in PROVIDERS),
          *(f"{first}-then-{second}" for first, second in permutations(PROVIDERS, 2))]
BEARER = {"authorization": f"Bearer {CLIENT_KEY}", "content-type": "application/json"}
DATE = "Tue, 15 Nov 2033 08:00:00 GMT"


@pytest.fixture
def gpt_sdk(clients: dict[str, Client]) -> openai.OpenAI:
    client = clients["openai"]
    assert isinstance(client, OpenAIClient)
    return client.sdk


@pytest.fixture
def claude_sdk(clients: dict[str, Client]) -> anthropic.Anthropic:
    client = clients["anthropic"]
    assert isinstance(client, AnthropicClient)
    return client.sdk


# -------------------------------------------------------------------------------------------------------------- models


def test_models_in_both_shapes(gpt_sdk: openai.OpenAI, claude_sdk: anthropic.Anthropic) -> None:
    """Anthropic's shape where the request names a version of that API, OpenAI's otherwise."""
    assert [model.id for model in gpt_sdk.models.list()] == LISTED
    listed = claude_sdk.models.list(limit=100)
    assert [model.id for model in listed] == LISTED
    assert all(model.type == "model" and model.display_name for model in listed.data)


@pytest.mark.parametrize("headers", [BEARER, {"x-api-key": CLIENT_KEY, "anthropic-version": "2023-06-01"}])
def test_models_on_the_wire(gateway: Gateway, headers: dict[str, str]) -> None:
    answer = request(gateway.base_url, "GET", "/v1/models?limit=1000", headers=headers)
    body = answer.json()
    assert answer.status == 200
    assert [model["id"] for model in body["data"]] == LISTED
    assert set(body) == ({"object", "data"} if headers is BEARER else {"data", "has_more", "first_id", "last_id"})


def test_models_need_a_key(gateway: Gateway) -> None:
    answer = request(gateway.base_url, "GET", "/v1/models", headers={})
    assert answer.status == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"


# -------------------------------------------------------------------------------------------------------- count_tokens


@pytest.mark.parametrize("provider", ["openai", "gemini"])
def test_tokens_are_estimated_here(claude_sdk: anthropic.Anthropic, backends: dict[str, Backend],
                                   provider: str) -> None:
    messages: Any = [{"role": "user", "content": "some words " * 1000}]
    assert 1500 < claude_sdk.messages.count_tokens(model=provider, messages=messages).input_tokens < 4000
    assert backends[provider].server(provider).seen == []


def test_anthropic_counts_itself(claude_sdk: anthropic.Anthropic, backends: dict[str, Backend]) -> None:
    counted = claude_sdk.messages.count_tokens(model="anthropic", messages=HELLO, system="Be brief.")
    assert counted.input_tokens == 42
    seen = backends["anthropic"].server("anthropic").last
    assert seen.path == "/v1/messages/count_tokens"
    assert seen.body == {"model": "claude-sonnet-4-5", "messages": HELLO, "system": "Be brief."}
    assert seen.headers["x-api-key"] == PROVIDER_KEY


# --------------------------------------------------------------------------------------------------------- embeddings


def test_embeddings_pass(gpt_sdk: openai.OpenAI, backends: dict[str, Backend]) -> None:
    found = gpt_sdk.embeddings.create(model="openai", input=["Köln", "Jena 🎈"], dimensions=3)
    assert [one.embedding for one in found.data] == [vectors_of("Köln"), vectors_of("Jena 🎈")]
    assert found.usage.prompt_tokens == 9
    seen = backends["openai"].server("openai").last
    assert seen.path == "/v1/embeddings"
    assert seen.body == {"model": "gpt-4o", "input": ["Köln", "Jena 🎈"], "dimensions": 3, "encoding_format": "base64"}


@pytest.mark.parametrize("model", ["anthropic", "gemini"])
@pytest.mark.parametrize("path", ["embeddings"])
def test_what_is_not_translated_needs_a_backend_of_the_same_api(gateway: Gateway, backends: dict[str, Backend],
                                                                model: str, path: str) -> None:
    answer = post(gateway.base_url, {"model": model, "input": "x"}, path=f"/v1/{path}", headers=BEARER)
    error = answer.json()["error"]
    assert answer.status == 404
    assert f"/v1/{path} needs a backend that speaks the openai API" in error["message"]
    assert model in error["message"]
    assert backends[model].server(model).seen == []


@pytest.mark.parametrize("path", ["embeddings"])
def test_errors_of_paths_that_pass(gateway: Gateway, backends: dict[str, Backend], path: str) -> None:
    backends["openai"].server("openai").script(gpt.status(
        429, gpt.openai_error(f"Slow down, {PROVIDER_KEY}. {SAID}", kind="tokens", code="rate_limit_exceeded"),
        {"retry-after": "7", "x-request-id": "req_1", "x-secret": "1"}))
    answer = post(gateway.base_url, {"model": "openai", "input": "x"}, path=f"/v1/{path}", headers=BEARER)
    assert answer.status == 429
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
    assert SAID in error["message"]
    assert PROVIDER_KEY not in error["message"]
    assert (answer.headers["retry-after"], answer.headers["x-provider-request-id"]) == ("7", "req_1")
    assert "x-secret" not in answer.headers


@pytest.mark.parametrize("body", [b"", b"[]", b'{"input": "x"}', b'{"model": 5, "input": "x"}', b'{"model": "openai"'])
def test_bodies_that_are_no_request(gateway: Gateway, backends: dict[str, Backend], body: bytes) -> None:
    answer = post(gateway.base_url, body, path="/v1/embeddings", headers=BEARER)
    assert answer.status == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert backends["openai"].server("openai").seen == []


# ---------------------------------------------------------------------------------------------------------- responses


@pytest.mark.parametrize("provider", PROVIDERS)
def test_r9_r10_a_stream_that_breaks_off_ends_in_a_failed_response(gateway: Gateway, backends: dict[str, Backend],
                                                                   provider: str) -> None:
    backends[provider].server(backends[provider].model).script(backends[provider].breaks("ends early", streamed=True))
    answer = post(gateway.base_url, {"model": provider, "input": "hello", "stream": True}, path="/v1/responses",
                  headers=BEARER)
    events = check_stream(answer.body)
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"]["code"] == "server_error"


def test_responses_are_not_stored(gpt_sdk: openai.OpenAI) -> None:
    for call in (gpt_sdk.responses.retrieve, gpt_sdk.responses.delete, gpt_sdk.responses.cancel):
        with pytest.raises(openai.NotFoundError, match="Response with id 'resp_1' not found"):
            call("resp_1")
    with pytest.raises(openai.NotFoundError):
        gpt_sdk.responses.input_items.list("resp_1")


@pytest.mark.parametrize(("field", "value", "code"), [
    ("previous_response_id", "resp_1", "previous_response_not_found"), ("background", True, "unsupported_parameter"),
    ("conversation", "conv_1", "unsupported_parameter")])
def test_r33_what_needs_a_store_is_refused_with_the_remedy(gpt_sdk: openai.OpenAI, field: str, value: Any,
                                                           code: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        gpt_sdk.responses.create(model="openai", input="hello", **{field: value})
    assert (caught.value.code, caught.value.param) == (code, field)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_input_tokens_are_estimated_here(gpt_sdk: openai.OpenAI, backends: dict[str, Backend], provider: str) -> None:
    counted = gpt_sdk.responses.input_tokens.count(model=provider, input="some words " * 1000)
    assert 1500 < counted.input_tokens < 4000
    assert backends[provider].server(provider).seen == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_r24_a_conversation_is_compacted_and_goes_on(gpt_sdk: openai.OpenAI, backends: dict[str, Backend],
                                                     provider: str) -> None:
    backend = backends[provider]
    backend.server(backend.model).script(backend.text("They said hello."), backend.text("Yes."))
    compacted = gpt_sdk.responses.compact(model=provider, input=[{"role": "user", "content": "hello"}])
    assert [item.type for item in compacted.output] == ["compaction"]
    [item] = [item.model_dump(exclude_none=True) for item in compacted.output]
    found = gpt_sdk.responses.create(model=provider, input=[item, {"role": "user", "content": "Did they?"}])
    assert found.output_text == "Yes."
    assert "They said hello." in backend.asked(backend.server(backend.model).last).texts[0]


@pytest.mark.parametrize(("body", "said"), [
    (b'{"model": "openai", "input": [', "not valid JSON"), (b'{"model": "openai"}', "input: "),
    (b'{"model": "openai", "input": [{"type": "item_reference", "id": "rs_1"}]}', "input[0]: "),
    (b'{"model": "openai", "input": 5}', "input: "), (b'{"input": "hi"}', "model")])
def test_malformed_responses_requests(gateway: Gateway, backends: dict[str, Backend], body: bytes, said: str) -> None:
    answer = post(gateway.base_url, body, path="/v1/responses", headers=BEARER)
    error = answer.json()["error"]
    assert (answer.status, error["type"], set(error)) == (
        400, "invalid_request_error", {"message", "type", "param", "code"})
    assert said in error["message"]
    assert backends["openai"].server("openai").seen == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_is_odd_in_an_input_is_repaired_or_named(gateway: Gateway, backends: dict[str, Backend],
                                                      provider: str) -> None:
    """An unknown type, an output without its call, reasoning alone, ten megabytes, the model's own words at the end."""
    backend = backends[provider]
    backend.server(backend.model).script(backend.text("ok"))
    items = [{"role": "user", "content": "x" * 10_000_000}, {"type": "hologram", "depth": 3},
             {"type": "function_call_output", "call_id": "c9", "output": "lost"},
             {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"},
             {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "half"}]}]
    answer = post(gateway.base_url, {"model": provider, "input": items}, path="/v1/responses", headers=BEARER)
    assert (answer.status, answer.json()["status"]) == (200, "completed")
    assert {"input.hologram", "tool_result.without_call"} <= set(answer.headers["x-extproc-dropped"].split(", "))
    texts = backend.asked(backend.server(backend.model).last).texts
    assert any("lost" in text for text in texts)
    assert "half" not in texts


def test_r23_a_websocket_is_refused_with_426(gateway: Gateway) -> None:
    upgrade = {**BEARER, "connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
               "sec-websocket-key": "x3JJHMbDL1EzLkh9GBhXDw=="}
    answer = request(gateway.base_url, "GET", "/v1/responses", headers=upgrade)
    assert answer.status == 426
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


# ------------------------------------------------------------------------------------------------- request ids, limits


def answered(headers: dict[str, str]) -> dict[str, Any]:
    """A short answer of each provider with these headers."""
    def with_headers(made: Any) -> Any:
        def answer(seen: Any) -> Reply:
            reply = made if isinstance(made, Reply) else made(seen)
            return Reply(reply.status, {**reply.headers, **headers}, reply.body, reply.end, reply.framing)
        return answer
    return {kind.name: with_headers(kind().text("ok")) for kind in BACKENDS}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("client", ["openai", "anthropic"])
def test_both_request_ids(clients: dict[str, Client], backends: dict[str, Backend], client: str, provider: str,
                          streamed: bool) -> None:
    """The gateway's own where the SDK looks for it, the provider's beside it."""
    backends[provider].server(provider).script(answered({"x-request-id": "req_theirs", "request-id": "req_theirs",
                                                         "x-internal": "secret"})[provider])
    talk = clients[client].talk(Wish(provider, streamed))
    talk.say("hello")
    talk.turn()
    headers = clients[client].headers
    own = headers["request-id" if client == "anthropic" else "x-request-id"]
    assert own
    assert own != "req_theirs"
    assert headers["x-provider-request-id"] == "req_theirs"
    assert "x-internal" not in headers


@pytest.mark.parametrize("streamed", [True, False])
def test_rate_limits_of_openai_in_anthropics_words(clients: dict[str, Client], backends: dict[str, Backend],
                                                   streamed: bool) -> None:
    given = {"date": DATE, "x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "59",
             "x-ratelimit-reset-requests": "1m30s", "x-ratelimit-remaining-tokens": "149000"}
    backends["openai"].server("openai").script(answered(given)["openai"])
    talk = clients["anthropic"].talk(Wish("openai", streamed))
    talk.say("hello")
    talk.turn()
    headers = clients["anthropic"].headers
    assert headers["anthropic-ratelimit-requests-limit"] == "60"
    assert headers["anthropic-ratelimit-requests-remaining"] == "59"
    assert headers["anthropic-ratelimit-requests-reset"] == "2033-11-15T08:01:30Z"
    assert headers["anthropic-ratelimit-tokens-remaining"] == "149000"
    assert "anthropic-ratelimit-tokens-limit" not in headers, "nothing is made up"


@pytest.mark.parametrize("streamed", [True, False])
def test_rate_limits_of_anthropic_in_openais_words(clients: dict[str, Client], backends: dict[str, Backend],
                                                   streamed: bool) -> None:
    given = {"date": DATE, "anthropic-ratelimit-requests-limit": "50", "anthropic-ratelimit-tokens-remaining": "39000",
             "anthropic-ratelimit-tokens-reset": "2033-11-15T08:00:42Z"}
    backends["anthropic"].server("anthropic").script(answered(given)["anthropic"])
    talk = clients["openai"].talk(Wish("anthropic", streamed))
    talk.say("hello")
    talk.turn()
    headers = clients["openai"].headers
    assert headers["x-ratelimit-limit-requests"] == "50"
    assert (headers["x-ratelimit-remaining-tokens"], headers["x-ratelimit-reset-tokens"]) == ("39000", "42s")


def test_rate_limits_come_with_an_error_as_well(clients: dict[str, Client], backends: dict[str, Backend]) -> None:
    backends["anthropic"].server("anthropic").script(claude.status(
        429, claude.anthropic_error("rate_limit_error", SAID),
        {"date": DATE, "retry-after": "9", "anthropic-ratelimit-requests-remaining": "0",
         "anthropic-ratelimit-requests-reset": "2033-11-15T08:00:09Z"}))
    talk = clients["openai"].talk(Wish("anthropic", streamed=True))
    talk.say("hello")
    with pytest.raises(openai.RateLimitError) as caught:
        talk.turn()
    headers = caught.value.response.headers
    assert (headers["retry-after"], headers["x-ratelimit-remaining-requests"]) == ("9", "0")
    assert headers["x-ratelimit-reset-requests"] == "9s"


# -------------------------------------------------------------------------------------------------- application events

FUNCTIONS = [{"type": "function", "function": {"name": tool.name, "description": tool.description,
                                               "parameters": tool.schema}} for tool in (WEATHER, NOW)]


def events_of(gateway: Gateway, **fields: Any) -> list[dict[str, Any]]:
    """POST /v1/events: every line is a `data:` line of JSON with a type."""
    with stream(gateway.base_url, {"messages": HELLO, "tools": FUNCTIONS, **fields}, path="/v1/events",
                headers=BEARER) as answer:
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        named = list(answer.raw_events())
    assert all(not name for name, _ in named)
    return [json.loads(data) for _, data in named]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_events_of_an_answer_with_a_call(gateway: Gateway, backends: dict[str, Backend], provider: str) -> None:
    backend = backends[provider]
    model = backend.thinker
    backend.server(model).script(backend.calls(("weather", {"town": "Köln"}), ("now", {}), content="Looking.",
                                               thinking="Hm, Köln."))
    events = events_of(gateway, model=model, reasoning_effort="low")
    assert "".join(event["text"] for event in events if event["type"] == "reasoning") == "Hm, Köln."
    assert "".join(event["text"] for event in events if event["type"] == "content") == "Looking."
    told = [event for event in events if event["type"] == "tool_call"]
    assert [{key: value for key, value in event.items() if key != "id"} for event in told] == [
        {"type": "tool_call", "name": "weather", "arguments": {"town": "Köln"}, "category": "lookup",
         "visibility": "hidden"},
        {"type": "tool_call", "name": "now", "arguments": {}, "category": "tool", "visibility": "visible"}]
    assert len({event["id"] for event in told}) == 2
    figures, done = events[-2:]
    assert (figures["type"], figures["finish_reason"]) == ("usage", "tool_calls")
    assert (figures["usage"]["prompt_tokens"], figures["usage"]["completion_tokens"]) == (21, 12)
    assert done == {"type": "done", "done": True}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_finalize_asks_for_the_answer(gateway: Gateway, backends: dict[str, Backend], provider: str) -> None:
    """A front end that ran out of rounds: a call without a result, tools that may not be called any more, the note."""
    backend = backends[provider]
    backend.server(provider).script(backend.text("It is sunny."))
    calls = [{"id": f"call_{n}", "type": "function", "function": {"name": "weather", "arguments": '{"town": "Ulm"}'}}
             for n in (1, 2)]
    events = events_of(gateway, model=provider, finalize=True, messages=[
        *HELLO, {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}])
    assert "".join(event["text"] for event in events if event["type"] == "content") == "It is sunny."
    assert events[-1] == {"type": "done", "done": True}
    server = backend.server(provider)
    asked = backend.asked(server.last)
    assert [tool for tool, _ in asked.results] == ["weather", "weather"]
    assert asked.results[0][1] == "sunny"
    raw = json.dumps(server.last.body)
    assert "was not run" in raw
    assert "Give your final answer to the user now" in raw
    told = {"openai": lambda body: body["tool_choice"] == "none",
            "responses": lambda body: body["tool_choice"] == "none",
            "anthropic": lambda body: body["tool_choice"] == {"type": "none"},
            "gemini": lambda body: body["toolConfig"]["functionCallingConfig"]["mode"] == "NONE"}
    assert told[provider](server.last.body)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_events_of_a_broken_answer(gateway: Gateway, backends: dict[str, Backend], provider: str) -> None:
    backend = backends[provider]
    backend.server(provider).script(backend.breaks("error inside", streamed=True))
    events = events_of(gateway, model=provider)
    assert "".join(event.get("text", "") for event in events) == "one two "
    assert events[-1]["type"] == "error"
    assert SAID in events[-1]["error"]["message"]
    assert not any(event["type"] == "done" for event in events)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_error_before_the_first_event_is_a_status(gateway: Gateway, backends: dict[str, Backend],
                                                     provider: str) -> None:
    backend = backends[provider]
    backend.server(provider).script(backend.fails("rate"))
    answer: Answer = post(gateway.base_url, {"model": provider, "messages": HELLO}, path="/v1/events", headers=BEARER)
    assert (answer.status, answer.headers["retry-after"]) == (429, "34")
    assert answer.json()["error"]["type"] == "rate_limit_error"


@pytest.mark.parametrize(("fields", "place"), [({"finalize": "yes"}, "finalize"), ({"n": 2}, "n"),
                                               ({"messages": []}, "messages")])
def test_events_requests_that_are_refused(gateway: Gateway, fields: dict[str, Any], place: str) -> None:
    answer = post(gateway.base_url, {"model": "openai", "messages": HELLO, **fields}, path="/v1/events",
                  headers=BEARER)
    assert answer.status == 400
    assert answer.json()["error"]["message"].startswith(f"{place}:")
