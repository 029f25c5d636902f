"""Models whose prompt opens the reasoning, at hosts that take the reasoning out of the text themselves: the host's
record decides, and text is text, once and at once. At servers of unknown make the model's family decides."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.playbook import call, delta, sse
from tests.unit.apis.streams.exchanges import STREAM, every_way, talk

MODELS = ["deepseek-r1", "deepseek/deepseek-r1-0528", "qwq-32b", "qwen/qwen3-235b-a22b-thinking-2507", "minimax-m2",
          "deepseek-r1-distill-llama-70b", "stepfun/step3"]
HOSTS = ["https://openrouter.ai/api/v1", "https://api.kilo.ai/api/openrouter", "https://api.fireworks.ai/inference/v1",
         "https://api.together.xyz/v1", "https://api.siliconflow.cn/v1", "https://api.novita.ai/v3/openai",
         "https://dashscope.aliyuncs.com/compatible-mode/v1", "https://api.groq.com/openai/v1",
         "https://ark.cn-beijing.volces.com/api/v3", "https://api.deepinfra.com/v1/openai",
         "https://api.minimax.io/v1", "https://api.cerebras.ai/v1"]
CALL = delta(tool_calls=[call(0, "a", "ping", "{}")])
NONE: dict[str, Any] = {"tools": {}}


def where(host: str, model: str = "deepseek-r1") -> dict[str, Any]:
    return {"url": host, "model": model}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("host", HOSTS[:3])
@pytest.mark.parametrize("tools", [{}, NONE])
def test_a_response_without_reasoning_is_text_for_every_model(model: str, host: str, tools: dict[str, Any]) -> None:
    heard = every_way(sse(delta(content="The tide"), delta(content=" is low."), delta("stop")), **where(host, model),
                      **tools)
    assert heard == ("", "The tide is low.", (), "stop", None, ("text",))


@pytest.mark.parametrize("host", HOSTS)
def test_a_response_without_reasoning_is_text_at_every_host(host: str) -> None:
    body = sse(delta(content="The tide"), delta(content=" is low."), delta("stop"))
    assert every_way(body, **where(host), sizes=(None,)) == ("", "The tide is low.", (), "stop", None, ("text",))


@pytest.mark.parametrize("host", HOSTS)
def test_its_first_word_goes_out_at_once(host: str) -> None:
    exchange = talk("anthropic", "openai", **where(host))
    exchange.start(200, STREAM)
    assert b'"text_delta","text":"The tide"' in exchange.feed(sse(delta(content="The tide"), done=False))


@pytest.mark.parametrize("host", HOSTS)
def test_text_before_a_native_call_is_text_once(host: str) -> None:
    heard = every_way(sse(delta(content="I look."), CALL, delta("tool_calls")), **where(host), sizes=(None,))
    assert heard == ("", "I look.", (("ping", {}),), "tool_calls", None, ("text", "tool_use"))


UNKNOWN = ["http://127.0.0.1:8000/v1", "https://api.featherless.ai/v1"]


@pytest.mark.parametrize("host", [*HOSTS, *UNKNOWN])
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_in_its_field_makes_the_content_plain(host: str, field: str) -> None:
    chunks = [delta(role="assistant", content="", **{field: ""}), delta(**{field: "Hm"}), delta(**{field: "."}),
              delta(content="Low"), delta(content=" tide."), delta("stop")]
    assert every_way(sse(*chunks), **where(host), sizes=(None, 1)) == (
        "Hm.", "Low tide.", (), "stop", None, ("thinking", "text"))
    for content in ({"content": "Low tide.", field: "Hm."}, {field: "Hm.", "content": "Low tide."}):
        whole = {"id": "g", "choices": [{"index": 0, "message": content, "finish_reason": "stop"}]}
        assert every_way(json.dumps(whole).encode(), **where(host), sizes=(None,))[:2] == ("Hm.", "Low tide.")


@pytest.mark.parametrize("host", HOSTS)
def test_tags_are_still_read_at_the_very_start(host: str) -> None:
    body = sse(*(delta(content=piece) for piece in ("<thi", "nk>\nHm.", "\n</think>\n\n", "Low tide.")), delta("stop"))
    assert every_way(body, **where(host), sizes=(None,))[:2] == ("Hm.", "Low tide.")


def test_the_anthropic_api_has_blocks_for_reasoning() -> None:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m1", "model": "x", "content": [], "usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Low tide."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"}]
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
    heard = every_way(body, "anthropic", url="https://api.minimax.io/anthropic", model="MiniMax-M2")
    assert heard == ("", "Low tide.", (), "stop", None, ("text",))


@pytest.mark.parametrize("host", UNKNOWN)
def test_at_a_server_of_unknown_make_the_text_may_begin_inside_of_reasoning(host: str) -> None:
    body = sse(*(delta(content=piece) for piece in ("Hm", ".\n</th", "ink>\n\nLow", " tide.")), delta("stop"))
    assert every_way(body, **where(host))[:2] == ("Hm.", "Low tide.")


@pytest.mark.parametrize("host", UNKNOWN)
def test_a_whole_response_of_such_a_server_shows_whether_it_does(host: str) -> None:
    def whole(content: str) -> bytes:
        return json.dumps({"id": "g", "choices": [{"index": 0, "message": {"content": content},
                                                   "finish_reason": "stop"}]}).encode()

    assert every_way(whole("Hm.\n</think>\n\nLow tide."), **where(host), sizes=(None,))[:2] == ("Hm.", "Low tide.")
    assert every_way(whole("Low tide."), **where(host), sizes=(None,))[:2] == ("", "Low tide.")


def test_the_settings_outrank_the_hosts_record() -> None:
    body = sse(delta(content="Hm.\n</think>\n\nLow tide."), delta("stop"))
    assert every_way(body, **where(HOSTS[0]), reasoning_open=True)[:2] == ("Hm.", "Low tide.")
