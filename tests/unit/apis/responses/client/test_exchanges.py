"""Responses clients at providers of other APIs, through `Translation`: where other gateways lost something."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.translation.exchange import Translation
from tests.playbook import delta
from tests.providers import responses
from tests.unit.apis.responses.client.grammar import check_stream
from tests.unit.apis.responses.client.helpers import HI, custom, function, namespace

MODELS = {"anthropic": "claude-sonnet-4-5", "openai": "some-model", "gemini": "gemini-3-pro-preview",
          "responses": "gpt-6-sol"}


def body_of(*items: Any, **fields: Any) -> bytes:
    return json.dumps({"model": "m", "stream": True, "input": list(items) or [HI], **fields}).encode()


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)


def answered(talk: Translation, body: bytes, stream: bytes) -> list[dict[str, Any]]:
    talk.request(body)
    talk.start(200, {"content-type": "text/event-stream"})
    return check_stream(talk.feed(stream) + talk.finish())


def done(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event["item"] for event in events if event["type"] == "response.output_item.done"]


@pytest.mark.parametrize("upstream", MODELS)
def test_r5_r6_r27_odd_names_and_schemas_reach_every_provider(upstream: str) -> None:
    one_of = {"type": "function", "name": "x" * 72, "strict": False, "parameters": {
        "oneOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "object"}]}}
    tools = [namespace("mcp__server", one_of), namespace("mcp__other", one_of), function("get.weird/name"),
             custom("patch"), {"type": "web_search"}]
    url = "https://api.openai.com/v1" if upstream == "responses" else None
    talk = Translation("responses", upstream, MODELS[upstream], url=url)
    sent = json.loads(talk.request(body_of(tools=tools)).body)
    listed = sent["tools"][0]["functionDeclarations"] if upstream == "gemini" else sent["tools"]
    names = [tool.get("name") or tool.get("function", tool.get("custom"))["name"] for tool in listed
             if tool.get("type") != "web_search"]
    assert len(set(names)) == 4
    assert all(len(name) <= (128 if upstream == "anthropic" else 64) for name in names)
    runs_search = upstream in ("responses", "gemini")
    assert ("tools.web_search" in talk.dropped.losses) is not runs_search


def test_r18_calls_written_as_text_are_calls_of_the_clients_tools() -> None:
    text = ('Looking. <tool_call>{"name": "ns__get", "arguments": {"a": 1}}</tool_call>'
            '<tool_call>{"name": "patch", "arguments": {"input": "*** Begin Patch"}}</tool_call>')
    chunks = [delta(content=text[at:at + 7]) for at in range(0, len(text), 7)]
    stream = sse(*chunks, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}) + b"data: [DONE]\n\n"
    tools = [namespace("ns", function("get", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})),
             custom("patch")]
    message, get, patch = done(answered(Translation("responses", "openai", "qwen2.5-7b-instruct"), body_of(tools=tools),
                                        stream))
    assert message["content"][0]["text"].strip() == "Looking."
    assert (get["type"], get["namespace"], get["name"], get["arguments"]) == ("function_call", "ns", "get", '{"a": 1}')
    assert (patch["type"], patch["input"]) == ("custom_tool_call", "*** Begin Patch")


def test_r30_parallel_calls_of_gemini_3_are_replayed_with_the_signature_of_the_first() -> None:
    parts = [{"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "QUJD"},
             {"functionCall": {"name": "f", "args": {"a": 2}}}]
    stream = sse({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]})
    tools = [function("f", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})]
    items = done(answered(Translation("responses", "gemini", MODELS["gemini"]), body_of(tools=tools), stream))
    outputs = [{"type": "function_call_output", "call_id": item["call_id"], "output": "ok"} for item in items]
    sent = Translation("responses", "gemini", MODELS["gemini"]).request(body_of(HI, *items, *outputs, tools=tools))
    [turn] = [content for content in json.loads(sent.body)["contents"] if content["role"] == "model"]
    assert [part.get("thoughtSignature") for part in turn["parts"]] == ["QUJD", None]


def test_r14_reasoning_of_chat_providers_comes_back_to_them() -> None:
    stream = sse(delta(reasoning_content="so "), delta(reasoning_content="what"), delta(tool_calls=[
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}) + b"data: [DONE]\n\n"

    def talk() -> Translation:
        return Translation("responses", "openai", "deepseek-reasoner", url="https://api.deepseek.com/v1")

    items = done(answered(talk(), body_of(tools=[function("f")]), stream))
    output = {"type": "function_call_output", "call_id": items[-1]["call_id"], "output": "ok"}
    sent = json.loads(talk().request(body_of(HI, *items, output, tools=[function("f")])).body)
    assert sent["messages"][1]["reasoning_content"] == "so what"


@pytest.mark.parametrize("upstream", ["anthropic", "openai", "gemini"])
def test_what_codex_says_of_the_machine_and_the_session_stays_here(upstream: str) -> None:
    sent = Translation("responses", upstream, MODELS[upstream]).request(
        body_of(client_metadata={"x-codex-installation-id": "machine"}),
        {"session-id": "s", "thread-id": "t", "x-codex-turn-metadata": "{}"})
    assert b"machine" not in sent.body
    assert not [name for name in sent.headers if "codex" in name or "session" in name or "thread" in name]


SHARED = {"prompt_cache_key": "k", "service_tier": "flex", "text": {"verbosity": "low"}}


@pytest.mark.parametrize("place", [
    {"url": "https://api.openai.com/v1", "endpoint": "chat"},
    {"url": "https://proxy.example/v1", "provider": "openai"}])
def test_fields_that_openais_two_apis_share_reach_its_chat_completions(place: dict[str, Any]) -> None:
    talk = Translation("responses", "openai", "gpt-5.2", **place)
    sent = talk.request(body_of(**SHARED, prompt_cache_retention="24h"))
    assert sent.path == "/v1/chat/completions"
    read = json.loads(sent.body)
    assert (read["prompt_cache_key"], read["service_tier"], read["verbosity"]) == ("k", "flex", "low")
    assert not {"text", "prompt_cache_retention"} & read.keys()
    assert (talk.dropped.losses, talk.dropped.hints) == ([], ["prompt_cache_retention"])


@pytest.mark.parametrize(("upstream", "url"), [
    ("openai", "https://api.groq.com/openai/v1"), ("openai", "https://api.mistral.ai/v1"),
    ("openai", "https://unknown.example/v1"), ("anthropic", None), ("gemini", None)])
def test_no_other_provider_gets_them_and_each_is_named(upstream: str, url: str | None) -> None:
    talk = Translation("responses", upstream, MODELS[upstream], url=url)
    sent = json.loads(talk.request(body_of(**SHARED)).body)
    assert not {"prompt_cache_key", "service_tier", "verbosity", "text"} & sent.keys()
    assert "verbosity" in talk.dropped.losses
    assert {"prompt_cache_key", "service_tier"} <= set(talk.dropped.hints)


# --------------------------------------------------------------------------------------------------- empty responses

EMPTY = {
    "anthropic": sse({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 7}}},
                     {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 0}},
                     {"type": "message_stop"}),
    "openai": sse(delta(role="assistant", content=""), delta("stop")) + b"data: [DONE]\n\n",
    "gemini": sse({"candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP"}]}),
    "responses": b"".join(map(responses.written, responses.events_of(responses.response([])))),
}


def exchange(upstream: str, client: str = "responses", **settings: Any) -> Translation:
    url = "https://api.openai.com/v1" if upstream == "responses" else None
    return Translation(client, upstream, MODELS[upstream], url=url, **settings)


@pytest.mark.parametrize("upstream", EMPTY)
def test_an_empty_response_is_a_failed_stream(upstream: str) -> None:
    talk = exchange(upstream)
    [*_, last] = answered(talk, body_of(), EMPTY[upstream])
    assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", "server_error")
    assert talk.failure is not None


@pytest.mark.parametrize("upstream", EMPTY)
def test_an_empty_response_is_a_status_while_nothing_was_sent(upstream: str) -> None:
    talk = exchange(upstream, withhold=True)
    talk.request(body_of())
    talk.start(200, {"content-type": "text/event-stream"})
    body = talk.feed(EMPTY[upstream]) + talk.finish()
    assert talk.head is not None
    assert talk.head.status >= 500
    assert json.loads(body)["error"]["type"] == "server_error"


@pytest.mark.parametrize(("upstream", "empty"), [
    ("anthropic", {"type": "message", "role": "assistant", "id": "m", "model": "m", "content": [],
                   "stop_reason": "end_turn", "usage": {"input_tokens": 7, "output_tokens": 0}}),
    ("openai", {"choices": [{"index": 0, "message": {"role": "assistant", "content": None}, "finish_reason": "stop"}]}),
    ("gemini", {"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]}),
    ("responses", responses.response([])),
])
def test_an_empty_whole_response_is_an_http_error(upstream: str, empty: dict[str, Any]) -> None:
    talk = exchange(upstream)
    talk.request(body_of(stream=False))
    talk.start(200, {"content-type": "application/json"})
    body = talk.feed(json.dumps(empty).encode()) + talk.finish()
    assert talk.head is not None
    assert talk.head.status >= 500
    assert json.loads(body)["error"]["type"] == "server_error"
    assert talk.failure is not None


def test_a_response_of_reasoning_alone_is_complete_but_no_summary() -> None:
    stream = sse(delta(reasoning_content="so"), delta("stop")) + b"data: [DONE]\n\n"
    assert answered(exchange("openai"), body_of(), stream)[-1]["type"] == "response.completed"
    compacts = body_of(HI, {"type": "compaction_trigger"})
    assert answered(exchange("openai"), compacts, stream)[-1]["type"] == "response.failed"


def test_an_empty_response_that_a_limit_cut_is_incomplete() -> None:
    stream = sse(delta(role="assistant", content=""), delta("length")) + b"data: [DONE]\n\n"
    assert answered(exchange("openai"), body_of(), stream)[-1]["type"] == "response.incomplete"


@pytest.mark.parametrize(("client", "upstream"), [("anthropic", "openai"), ("openai", "anthropic")])
def test_other_clients_get_an_empty_response(client: str, upstream: str) -> None:
    talk = exchange(upstream, client)
    talk.request(json.dumps({"model": "m", "max_tokens": 9, "messages": [HI], "stream": True}).encode())
    talk.start(200, {"content-type": "text/event-stream"})
    talk.feed(EMPTY[upstream])
    talk.finish()
    assert talk.failure is None


# ----------------------------------------------------------------------------------------------------------- sources


def url_citation(url: str, title: str, start: int, end: int) -> dict[str, Any]:
    return {"type": "url_citation", "start_index": start, "end_index": end, "url": url, "title": title}


@pytest.mark.parametrize(("fields", "beside", "expected"), [
    ({"annotations": [{"type": "url_citation", "url_citation": {
        "url": "https://a.example", "title": "A", "start_index": 1, "end_index": 4}}]}, {},
     [url_citation("https://a.example", "A", 1, 4)]),
    ({"annotations": [{"type": "url_citation", "url": "https://a.example"}, {"type": "file", "file": {}}]}, {},
     [url_citation("https://a.example", "", 0, 12)]),
    ({}, {"citations": ["https://a.example", "https://b.example"],
          "search_results": [{"url": "https://b.example", "title": "B"}]},
     [url_citation("https://a.example", "", 0, 12), url_citation("https://b.example", "B", 8, 11)]),
])
@pytest.mark.parametrize("streams", [True, False], ids=["a stream", "a whole response"])
def test_sources_are_annotations_of_the_text(streams: bool, fields: dict[str, Any], beside: dict[str, Any],
                                             expected: list[dict[str, Any]]) -> None:
    message = {"role": "assistant", "content": "So it is[2]."}
    talk = exchange("openai")
    if streams:
        stream = sse(delta(**message), {**delta("stop", **fields), **beside}) + b"data: [DONE]\n\n"
        [item] = done(answered(talk, body_of(), stream))
    else:
        talk.request(body_of(stream=False))
        talk.start(200, {"content-type": "application/json"})
        choice = {"index": 0, "message": {**message, **fields}, "finish_reason": "stop"}
        body = talk.feed(json.dumps({"choices": [choice], **beside}).encode()) + talk.finish()
        [item] = json.loads(body)["output"]
    [part] = item["content"]
    assert (part["text"], part["annotations"]) == ("So it is[2].", expected)


def test_sources_of_a_response_with_calls_are_named_as_lost() -> None:
    page = {"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A"}}
    talk = exchange("openai")
    stream = sse(delta(content="So.", annotations=[page]), delta(tool_calls=[
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]),
        delta("tool_calls")) + b"data: [DONE]\n\n"
    message, _ = done(answered(talk, body_of(tools=[function("f")]), stream))
    assert message["content"][0]["annotations"] == []
    assert "response.citations" in talk.dropped.losses
