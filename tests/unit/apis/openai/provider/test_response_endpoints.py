"""What endpoints write into responses: reasoning in every spelling, signatures, custom calls, usage, refused calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from extproc.apis.base import DecodeContext
from extproc.apis.openai.provider.failed_generation import rescue_response
from extproc.apis.openai.provider.response import OpenAIResponseDecoder
from extproc.apis.openai.provider.signatures import issuer_origin, unpack_item
from extproc.conversation.model import (
    Event,
    Finish,
    RedactedThinking,
    Request,
    Signature,
    SignatureDelta,
    Tool,
    ToolCallStart,
)
from extproc.dialects.registry import find_scan_plan
from extproc.dialects.scanner import Scanner
from extproc.profiles import find_profile
from extproc.profiles.target import Target
from extproc.translation.exchange import Translation
from tests.playbook import call, context, delta, script, sse


def context_of(provider: str, model: str = "m") -> DecodeContext:
    target = Target(model=model, profile=find_profile(provider, None, model), endpoint="example.com")
    return replace(context(), target=target)


def streamed(*chunks: Any, where: DecodeContext | None = None, done: bool = True) -> list[Event]:
    decoder = OpenAIResponseDecoder(where or context())
    return [*decoder.feed(sse(*chunks, done=done)), *decoder.finish()]


def whole_of(message: dict[str, Any], where: DecodeContext | None = None, **more: Any) -> list[Event]:
    decoder = OpenAIResponseDecoder(where or context())
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], **more}
    return [*decoder.feed(json.dumps(body).encode()), *decoder.finish()]


# ---------------------------------------------------------------------------------------------------------- reasoning

SPELLINGS: list[dict[str, Any]] = [
    {"reasoning_content": "hm"}, {"reasoning": "hm"}, {"thinking": "hm"}, {"reasoning_text": "hm"},
    {"reasoning": {"content": "hm"}}, {"reasoning_content": "hm", "reasoning": "hm"},
    {"reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}]},
    {"reasoning_details": [{"type": "reasoning.summary", "summary": "hm", "index": 0}], "reasoning": "hm"},
    {"thinking_blocks": [{"type": "thinking", "thinking": "hm"}], "reasoning_content": "hm"},
    {"thinking_blocks": [{"type": "thinking", "thinking": "hm"}]},
    {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
    {"content": [{"type": "thinking", "thinking": "hm"}]},
    {"content": [{"type": "thinking_delta", "thinking": "hm"}]},
    {"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}]},
    {"content": "<thought>hm</thought>", "extra_content": {"google": {"thought": True}}},
]


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda spelling: json.dumps(spelling)[:60])
def test_p2_reasoning_in_every_spelling_is_a_thinking_block(spelling):
    expected = ["start", "think", "think: hm", "stop", "text", "text: ok", "stop", "finish stop"]
    assert script(streamed(delta(**spelling), delta(content="ok"), delta("stop"))) == expected
    content = spelling.get("content")
    if content is None:
        assert script(whole_of({**spelling, "content": "ok"})) == expected
    elif isinstance(content, list):
        assert script(whole_of({"content": [*content, {"type": "text", "text": "ok"}]})) == expected


@pytest.mark.parametrize("signed", [
    {"reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "c2ln",
                            "format": "anthropic-claude-v1"}]},
    {"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}], "reasoning_content": "hm"},
    {"content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]},
])
def test_anthropics_signature_closes_its_block(signed):
    assert script(streamed(delta(**signed), delta(content="ok"), delta("stop"))) == [
        "start", "think", "think: hm", "signature c2ln", "stop", "text", "text: ok", "stop", "finish stop"]


def test_p8_the_signature_of_googles_endpoint_stays_with_its_call():
    where = context_of("gemini-compat", "gemini-3-pro-preview")
    first = {**call(0, "a", "ping", "{}"), "extra_content": {"google": {"thought_signature": "c2ln=="}}}
    events = streamed(delta(tool_calls=[first]), delta(tool_calls=[call(1, "b", "ping", "{}")]), delta("stop"),
                      where=where)
    starts = [event for event in events if isinstance(event, ToolCallStart)]
    assert [start.signature for start in starts] == [Signature("c2ln==", issuer_origin(where.target)), None]


def test_p8_the_signature_of_gemini_behind_openrouter_comes_as_an_item_before_its_call():
    where = context_of("openrouter", "google/gemini-3-pro-preview")
    item = {"type": "reasoning.encrypted", "data": "c2ln", "id": "b", "format": "google-gemini-v1", "index": 0}
    events = streamed(delta(reasoning_details=[{"type": "reasoning.text", "text": "hm", "index": 0}]),
                      delta(reasoning_details=[item]), delta(tool_calls=[call(0, "a", "ping", "{}")]),
                      delta(tool_calls=[call(1, "b", "ping", "{}")]), delta("stop"), where=where)
    assert [event.signature and event.signature.value for event in events if isinstance(event, ToolCallStart)] == [
        None, "c2ln"]


def test_a_sealed_item_joins_the_thinking_before_it_or_stands_alone_but_never_after_text():
    where = context_of("openrouter", "openai/gpt-5")
    item = {"type": "reasoning.encrypted", "id": "rs_1", "format": "openai-responses-v1", "data": "gAAA", "index": 1}
    kept = {name: value for name, value in item.items() if name != "index"}
    summed = streamed(delta(reasoning="hm"), delta(reasoning_details=[item]), delta(content="ok"), delta("stop"),
                      where=where)
    seal = next(event.signature for event in summed if isinstance(event, SignatureDelta))
    assert unpack_item(seal, where.target) == kept
    alone = streamed(delta(reasoning_details=[item]), delta(content="ok"), delta("stop"), where=where)
    assert unpack_item(next(e.data for e in alone if isinstance(e, RedactedThinking)), where.target) == kept
    late = streamed(delta(content="ok"), delta(reasoning_details=[item]), delta("stop"), where=where)
    assert script(late) == ["start", "text", "text: ok", "stop", "finish stop"]
    assert where.dropped.hints == ["response.reasoning_details"]


# ------------------------------------------------------------------------------------------------------- custom calls


def custom(index: int, id: str | None, name: str | None, text: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "id": id, "type": "custom", "custom": {"name": name, "input": text}}]}


def test_free_text_becomes_arguments():
    events = streamed(delta(**custom(0, "a", "save_file", 'say "')), delta(**custom(0, None, None, 'hi"\n')),
                      delta("tool_calls"))
    assert script(events) == ["start", "call save_file", 'args: {"input":"say \\"hi\\"\\n"}', "stop",
                              "finish tool_calls"]
    message = {"tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "save_file", "input": "x"}},
                              {"id": "b", "type": "function", "function": {"name": "ping", "arguments": "{}"}}]}
    assert script(whole_of(message)) == ["start", "call save_file", 'args: {"input":"x"}', "stop", "call ping",
                                         "args: {}",
                                      "stop", "finish tool_calls"]


def test_p1_truncated_free_text_is_never_a_whole_call():
    cut = streamed(delta(**custom(0, "a", "save_file", "half")), delta("length"))
    assert script(cut)[-1] == "finish length"
    assert 'args: {"input":"half"}' not in script(cut)
    broken = streamed(delta(**custom(0, "a", "save_file", "half")), done=False)
    assert script(broken)[-1] == "failure server"


# ------------------------------------------------------------------------------------------------------------- figures


@pytest.mark.parametrize(("provider", "usage", "output", "reasoning"), [
    ("xai", {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 45,
             "completion_tokens_details": {"reasoning_tokens": 30}}, 35, 30),
    ("gemini-compat", {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 45}, 35, 30),
    ("gemini-compat", {"prompt_tokens": 10, "completion_tokens": 5}, 5, 0),
    ("openai", {"prompt_tokens": 10, "completion_tokens": 35, "total_tokens": 45,
                "completion_tokens_details": {"reasoning_tokens": 30}}, 35, 30),
])
def test_p15_tokens_of_reasoning_are_counted_once(provider, usage, output, reasoning):
    last = streamed(delta(content="ok"), delta("stop"), {"choices": [], "usage": usage}, where=context_of(provider))[-1]
    assert isinstance(last, Finish)
    assert (last.usage.input, last.usage.output, last.usage.reasoning) == (10, output, reasoning)


@pytest.mark.parametrize("usage", [
    {"prompt_tokens_details": {"cached_tokens": 80, "cache_write_tokens": 15}},
    {"prompt_tokens_details": {"cached_tokens": 80, "cache_creation_input_tokens": 15}},
    {"prompt_cache_hit_tokens": 80, "prompt_tokens_details": {"cache_creation_tokens": 15}},
    {"num_cached_tokens": 80, "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 15}},
])
def test_p16_cached_tokens_are_part_of_the_prompt_under_any_name(usage):
    figures = {"prompt_tokens": 100, "completion_tokens": 1, **usage}
    last = streamed(delta(content="ok"), delta("stop"), {"choices": [], "usage": figures})[-1]
    assert isinstance(last, Finish)
    assert (last.usage.input, last.usage.cached, last.usage.cache_write) == (100, 80, 15)


# ------------------------------------------------------------------------------------------------------ refused calls


def refused(text: str) -> dict[str, Any]:
    return {"error": {"message": "Failed to call a function. Please adjust your prompt.", "type":
                      "invalid_request_error", "code": "tool_use_failed", "failed_generation": text}}


@pytest.mark.parametrize("text", [
    '{"name": "ping", "arguments": {"n": 1}}', '[{"name": "ping", "parameters": {"n": 1}}]',
    '{"type": "function", "function": {"name": "ping", "arguments": "{\\"n\\":1}"}}'])
def test_a_call_refused_by_its_host_is_read_from_the_error(text):
    events = streamed(delta(reasoning="hm"), refused(text), where=context_of("groq", "openai/gpt-oss-120b"))
    assert script(events) == ["start", "think", "think: hm", "stop", "call ping", 'args: {"n":1}', "stop",
                              "finish tool_calls"]


@pytest.mark.parametrize("text", ["I cannot do that.", '{"name": "gone", "arguments": {}}', '{"name": "ping"', "[]",
                                  '[{"name": "ping", "arguments": {}}, "and more"]'])
def test_any_other_refused_output_stays_an_error(text):
    assert script(streamed(refused(text), where=context_of("groq")))[-1] == "failure invalid_request"
    assert rescue_response(json.dumps(refused(text)).encode(), {"ping": "ping"}) is None


def test_a_refused_call_after_text_stays_an_error():
    events = streamed(delta(content="Let me see."), refused('{"name": "ping", "arguments": {}}'),
                      where=context_of("groq"))
    assert script(events)[-1] == "failure invalid_request"


def test_a_refused_call_in_the_models_own_form_is_read_by_its_dialect():
    tools = {"ping": Tool("ping", None, {"type": "object", "properties": {"n": {"type": "integer"}}})}
    look = find_scan_plan("llama-3.3-70b", style="auto", read=(), tools=True, reasoning_open=None)
    assert look is not None
    where = replace(context_of("groq", "llama-3.3-70b"), request=Request(model="m", messages=[],
                                                                         tools=list(tools.values())),
                    scanner=lambda sequencer: Scanner(look, sequencer, tools))
    text = '<|python_tag|>{"name": "ping", "parameters": {"n": 1}}'
    events = streamed(refused(text), where=where)
    assert [line.replace(" ", "") for line in script(events)][-4:] == ["callping", 'args:{"n":1}', "stop",
                                                                      "finishtool_calls"]
    assert script(streamed(refused("Sorry, I cannot."), where=where)) == ["failure invalid_request"]


# ----------------------------------------------------------------------------------------------------- there and back

CALLED = {"tool_calls": [call(0, "a", "ping", "{}")]}


SEALED = [
    ("gemini-3-pro-preview", "https://generativelanguage.googleapis.com/v1beta/openai",
     [{"tool_calls": [{"index": 0, "id": "a", "function": {"name": "ping", "arguments": "{}"},
                       "extra_content": {"google": {"thought_signature": "c2ln+/=="}}}]}],
     ["tool_calls", 0, "extra_content", "google", "thought_signature"]),
    ("google/gemini-3-pro-preview",
     "https://aiplatform.googleapis.com/v1/projects/p/locations/global/endpoints/openapi",
     [{"tool_calls": [{"index": 0, "id": "a", "function": {"name": "ping", "arguments": "{}"},
                       "extra_content": {"vertex": {"thought_signature": "c2ln+/=="}}}]}],
     ["tool_calls", 0, "extra_content", "vertex", "thought_signature"]),
    ("google/gemini-3-pro-preview", "https://openrouter.ai/api/v1",
     [{"reasoning_details": [{"type": "reasoning.encrypted", "data": "c2ln+/==", "id": "a", "index": 0,
                              "format": "google-gemini-v1"}]}, CALLED],
     ["reasoning_details", 0, "data"]),
    ("openai/gpt-5", "https://openrouter.ai/api/v1",
     [{"reasoning": "hm", "reasoning_details": [{"type": "reasoning.summary", "summary": "hm", "index": 0}]},
      {"reasoning_details": [{"type": "reasoning.encrypted", "data": "c2ln+/==", "id": "rs_1", "index": 1,
                              "format": "openai-responses-v1"}]}, CALLED],
     ["reasoning_details", -1, "data"]),
    ("anthropic/claude-sonnet-4.5", "https://openrouter.ai/api/v1",
     [{"reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "c2ln+/==", "index": 0,
                              "format": "anthropic-claude-v1"}]}, CALLED],
     ["reasoning_details", 0, "signature"]),
]


@pytest.mark.parametrize(("model", "url", "chunks", "carried"), SEALED)
def test_p8_a_sealed_item_comes_back_through_an_anthropic_client_byte_for_byte(model, url, chunks, carried):
    tools = [{"name": "ping", "input_schema": {"type": "object", "properties": {}}}]
    first = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "go"}], "tools": tools}
    turn = Translation("anthropic", "openai", model, url=url)
    turn.request(json.dumps(first).encode())
    turn.start(200, {"content-type": "application/json"})
    response = json.loads(turn.feed(sse(*(delta(**fields) for fields in chunks), delta("tool_calls"))) + turn.finish())
    used = next(block["id"] for block in response["content"] if block["type"] == "tool_use")
    messages = [*first["messages"], {"role": "assistant", "content": response["content"]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": used, "content": "ok"}]}]
    again = Translation("anthropic", "openai", model, url=url)
    found = json.loads(again.request(json.dumps({**first, "messages": messages}).encode()).body)["messages"][1]
    for step in carried:
        found = found[step]
    assert found == "c2ln+/=="


@pytest.mark.parametrize("drops", [False, True], ids=["echoes all", "drops what it does not know"])
@pytest.mark.parametrize(("model", "url", "chunks", "carried"), SEALED)
def test_p8_a_sealed_item_comes_back_through_an_openai_client(model, url, chunks, carried, drops):
    tools = [{"type": "function", "function": {"name": "ping", "parameters": {"type": "object", "properties": {}}}}]
    first = {"model": "m", "messages": [{"role": "user", "content": "go"}], "tools": tools}
    turn = Translation("openai", "openai", model, url=url)
    turn.request(json.dumps(first).encode())
    turn.start(200, {"content-type": "application/json"})
    response = json.loads(turn.feed(sse(*(delta(**fields) for fields in chunks), delta("tool_calls"))) + turn.finish())
    message = response["choices"][0]["message"]
    if drops:
        message = {name: message[name] for name in ("role", "content", "tool_calls")}
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "ok"}
    again = Translation("openai", "openai", model, url=url)
    body = json.dumps({**first, "messages": [*first["messages"], message, result]}).encode()
    found = json.loads(again.request(body).body)["messages"][1]
    for step in carried:
        found = found[step]
    assert found == "c2ln+/=="
