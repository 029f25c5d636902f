"""What reaches the provider: content of every kind, history, unknown and beta fields, cache stability, keys."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import anthropic
import pytest

from tests.e2e.gateway import CLIENT_KEY, PROVIDER_KEY, Gateway
from tests.e2e.wire import ANTHROPIC, HELLO, payload, post, stream
from tests.providers.openai import OpenAIProvider, text


def png(width: int = 1) -> str:
    """A valid PNG image, base64."""
    def part(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = width.to_bytes(4, "big") + b"\0\0\0\1\x08\0\0\0\0"
    pixels = zlib.compress(b"\0" * (width + 1))
    whole = b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", pixels) + part(b"IEND", b"")
    return base64.b64encode(whole).decode()


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png()}}
IMAGE_URL = f"data:image/png;base64,{png()}"
TOOLS: list[dict[str, Any]] = [{"name": "look", "input_schema": {"type": "object", "properties": {}}}]


def text_of(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def called(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": "look", "input": {}} for i in ids]}


def sent_for(gateway: Gateway, provider: OpenAIProvider, **fields: Any) -> dict[str, Any]:
    """The provider's view of a request that is accepted."""
    provider.script(text("ok"))
    answer = post(gateway.base_url, payload(**fields))
    assert answer.status == 200, answer.body
    body: dict[str, Any] = provider.last.body
    return body


# -------------------------------------------------------------------------------------------------------- content
def test_system_and_images(sdk: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    provider.script(text("ok"))
    messages: list[Any] = [{"role": "user", "content": [
        {"type": "text", "text": "Look"}, IMAGE,
        {"type": "image", "source": {"type": "url", "url": "https://example.com/cat.png"}}]}]
    sdk.messages.create(
        model="claude-test", max_tokens=9, system=[{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}],
        messages=messages)
    sent = provider.last.messages
    assert sent[0]["role"] == "system"
    assert "One." in text_of(sent[0])
    assert "Two." in text_of(sent[0])
    assert [p["image_url"]["url"] for p in sent[1]["content"] if p["type"] == "image_url"] == [
        IMAGE_URL, "https://example.com/cat.png"]


def test_documents(gateway: Gateway, provider: OpenAIProvider) -> None:
    pdf = base64.b64encode(b"%PDF-1.4 tiny").decode()
    body = sent_for(gateway, provider, messages=[{"role": "user", "content": [
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": pdf}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Plain words."}},
        {"type": "text", "text": "Summarise"}]}])
    parts = body["messages"][0]["content"]
    assert [p["file"]["file_data"] for p in parts if p["type"] == "file"] == [f"data:application/pdf;base64,{pdf}"]
    assert "Plain words." in text_of(body["messages"][0])


def test_p21_images_in_tool_results(gateway: Gateway, provider: OpenAIProvider) -> None:
    """Results stand right after their calls, in the order of the calls; images follow after all of them."""
    body = sent_for(gateway, provider, tools=TOOLS, messages=[
        *HELLO, called("a", "b", "c", "d"), {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "b", "content": "bad", "is_error": True},
            {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "picture:"}, IMAGE]},
            {"type": "tool_result", "tool_use_id": "d", "content": []},
            {"type": "tool_result", "tool_use_id": "c", "content": [IMAGE]},
            {"type": "text", "text": "What do you see?"}]}])
    roles = [m["role"] for m in body["messages"]]
    assert roles[:6] == ["user", "assistant", "tool", "tool", "tool", "tool"]
    results = {m["tool_call_id"]: text_of(m) for m in body["messages"][2:6]}
    by_call = dict(zip("abcd", [results[c["id"]] for c in body["messages"][1]["tool_calls"]], strict=True))
    assert "picture:" in by_call["a"]
    assert by_call["b"] != "bad", "is_error must be visible to the model"
    assert "bad" in by_call["b"]
    assert by_call["c"]
    assert by_call["d"]
    rest = body["messages"][6:]
    assert {m["role"] for m in rest} == {"user"}
    images = [p for m in rest if isinstance(m["content"], list) for p in m["content"] if p["type"] == "image_url"]
    assert [i["image_url"]["url"] for i in images] == [IMAGE_URL, IMAGE_URL]
    assert "What do you see?" in "".join(text_of(m) for m in rest)


def test_p21_tool_reference_is_rendered(gateway: Gateway, provider: OpenAIProvider) -> None:
    result = {"type": "tool_result", "tool_use_id": "a",
              "content": [{"type": "tool_reference", "tool_name": "NotebookEdit"}]}
    body = sent_for(gateway, provider, tools=TOOLS, messages=[
        *HELLO, called("a"), {"role": "user", "content": [result]}])
    assert "NotebookEdit" in text_of(body["messages"][2])


def test_p09_orphan_and_missing_results_are_repaired_or_refused(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.always(text("ok"))
    missing = [*HELLO, called("id-without-result"), {"role": "user", "content": "never mind"}]
    orphan = [{"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "id-without-call", "content": "x"}, {"type": "text", "text": "hm"}]}]
    for messages, id_ in ((missing, "id-without-result"), (orphan, "id-without-call")):
        answer = post(gateway.base_url, payload(tools=TOOLS, messages=messages))
        if answer.status != 200:
            assert answer.status == 400
            assert id_ in answer.error()[1]


# -------------------------------------------------------------------------------------------------------- history
def test_p11_thinking_history(gateway: Gateway, provider: OpenAIProvider) -> None:
    body = sent_for(gateway, provider, messages=[
        *HELLO,
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                                          {"type": "redacted_thinking", "data": "eA=="},
                                          {"type": "text", "text": "Hi"}]},
        {"role": "user", "content": "more"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "only this", "signature": "c2ln"}]},
        {"role": "user", "content": "and?"}])
    assert "signature" not in str(body)
    assert "c2ln" not in str(body)
    assert "redacted" not in str(body)
    for message in body["messages"]:
        assert text_of(message), "no empty turns"


def test_p10_strict_provider_gets_no_reasoning_content(gateway: Gateway, provider: OpenAIProvider) -> None:
    """The real endpoint refuses `reasoning_content` in messages; providers that need it are profiles of their own."""
    body = sent_for(gateway, provider, tools=TOOLS, messages=[
        *HELLO, {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""},
                                                  *called("a")["content"]]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "seen"}]}])
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "tool"]


# ----------------------------------------------------------------------------------------------- new client fields
def test_p23_unknown_and_beta_fields(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(text("ok"))
    answer = post(gateway.base_url, payload(
        tools=[{"name": "look", "input_schema": {"type": "object"}, "defer_loading": True, "cache_control": {
            "type": "ephemeral"}, "eager_input_streaming": True, "type": "custom", "input_examples": [{}]}],
        thinking={"type": "adaptive", "display": "updates"}, output_config={"effort": "high"},
        context_management={"edits": []}, metadata={"user_id": "x" * 150}, service_tier="auto", container="c",
        mcp_servers=[], brand_new_field={"a": 1},
        system=[{"type": "text", "text": "S", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        messages=[{"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"},
                                                "citations": None}]}]),
        path="/v1/messages?beta=true",
        headers={**ANTHROPIC, "anthropic-beta": "context-management-2025-06-27,effort-2025-11-24"})
    assert answer.status == 200, answer.body
    assert "cache_control" not in str(provider.last.body)
    assert "anthropic-beta" not in provider.last.headers
    assert "brand_new_field" in answer.headers["x-extproc-dropped"]
    assert len(answer.headers["x-extproc-dropped"]) <= 1024


def test_p23_system_messages_inside_the_conversation(gateway: Gateway, provider: OpenAIProvider) -> None:
    body = sent_for(gateway, provider, system="Top.", messages=[
        *HELLO, {"role": "system", "content": [{"type": "text", "text": "The environment."}]},
        {"role": "assistant", "content": "ok"}, {"role": "user", "content": "go"},
        {"role": "system", "content": "Later words."}])
    whole = "\n".join(text_of(m) for m in body["messages"])
    for part in ("Top.", "The environment.", "Later words.", "go"):
        assert part in whole


def test_p23_server_tools_are_never_sent_as_functions(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(text("ok"), text("ok"))
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    answer = post(gateway.base_url, payload(tools=[search], tool_choice={"type": "auto"}))
    if answer.status == 200:
        assert "tools" not in provider.last.body
        assert "web_search" in answer.headers["x-extproc-dropped"]
    else:
        assert answer.error()[0] == "invalid_request_error"
    answer = post(gateway.base_url, payload(tools=[search, *TOOLS]))
    if answer.status == 200:
        assert [t["function"]["name"] for t in provider.last.body["tools"]] == ["look"]


def test_structured_output(gateway: Gateway, provider: OpenAIProvider) -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"],
              "additionalProperties": False}
    body = sent_for(gateway, provider, output_config={"format": {"type": "json_schema", "schema": schema}})
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["schema"]["properties"] == schema["properties"]


@pytest.mark.parametrize(("fields", "effort"), [
    ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, "low"),
    ({"output_config": {"effort": "high"}}, "high"),
    ({"max_tokens": 40000, "thinking": {"type": "enabled", "budget_tokens": 31999}}, "high"),
])
def test_effort_for_reasoning_models(gateway: Gateway, provider: OpenAIProvider, fields: Any, effort: str) -> None:
    assert sent_for(gateway, provider, model="claude-official", **fields)["reasoning_effort"] == effort


# --------------------------------------------------------------------------------------------------------- caching
def test_p17_the_billing_line_does_not_break_the_prompt_cache(gateway: Gateway, provider: OpenAIProvider) -> None:
    for nonce in ("abcde", "fghij"):
        provider.script(text("ok"))
        with stream(gateway.base_url, {
                "system": [{"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.330; cch={nonce};"},
                           {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}}],
                "tools": TOOLS, "messages": [*HELLO, called("toolu_1"), {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}]}]}) as answer:
            answer.read()
    first, second = provider.seen[-2:]
    assert first.raw == second.raw
    assert b"billing" not in first.raw
    assert b"You are an agent." in first.raw


# ------------------------------------------------------------------------------------------------------------ keys
def test_keys_and_headers_stay_on_their_side(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(text("ok"))
    answer = post(gateway.base_url, payload(), headers={
        **ANTHROPIC, "cookie": "session=secret-cookie", "x-goog-api-key": "secret-google", "x-secret": "secret-own",
        "x-extproc-route": "spoofed", "x-extproc-team": "spoofed", "x-extproc-backend": "spoofed",
        "user-agent": "someone"})
    assert answer.status == 200, answer.body
    sent = provider.last
    assert sent.headers["authorization"] == f"Bearer {PROVIDER_KEY}"
    whole = str(sent.headers)
    assert CLIENT_KEY not in [v for k, v in sent.headers.items()]
    for secret in ("secret-cookie", "secret-google", "secret-own", "spoofed", f"Bearer {CLIENT_KEY}"):
        assert secret not in whole
    assert not [name for name in sent.headers if name.startswith(("x-extproc", "x-api-key", "anthropic-", "x-envoy"))]
    assert PROVIDER_KEY not in str(answer.headers)
    assert sent.headers.get("accept-encoding", "identity") == "identity"
    assert sent.headers["host"] == f"127.0.0.1:{provider.port}"


def test_bearer_key(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(text("ok"))
    headers = {"authorization": f"Bearer {CLIENT_KEY}", "anthropic-version": "2023-06-01",
               "content-type": "application/json"}
    assert post(gateway.base_url, payload(), headers=headers).status == 200
    assert provider.last.headers["authorization"] == f"Bearer {PROVIDER_KEY}"


def test_a_provider_that_is_not_known_yet_is_generic(gateway: Gateway, provider: OpenAIProvider) -> None:
    assert sent_for(gateway, provider, model="claude-new")["max_tokens"] == 256


def test_a_glob_passes_the_clients_name_on(gateway: Gateway, provider: OpenAIProvider) -> None:
    assert sent_for(gateway, provider, model="glob/any-thing")["model"] == "glob/any-thing"
