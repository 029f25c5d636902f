"""Messages streams as Anthropic and relays before it send them, to Messages clients (bytes pass) and to others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.conversation.model import Usage
from tests.unit.apis.streams.exchanges import WAYS, answered, every_way, talk

Json = dict[str, Any]
CLAUDE: Json = {"url": "https://api.anthropic.com/v1", "model": "claude-sonnet-4-5"}
DEEPSEEK: Json = {"url": "https://api.deepseek.com/anthropic", "model": "deepseek-chat"}
STREAMED = [way for way in WAYS if way[1]]


def start(id: str | None = "msg_1", **usage: int) -> Json:
    message: Json = {"type": "message", "role": "assistant", "model": "x", "content": [], "stop_reason": None,
                     "usage": {"input_tokens": 10, "output_tokens": 1, **usage}}
    return {"type": "message_start", "message": message if id is None else {"id": id, **message}}


def said(text: str, index: int = 0) -> list[Json]:
    return [{"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}},
            {"type": "content_block_stop", "index": index}]


def end(reason: str = "end_turn", details: Any = ..., **usage: Any) -> list[Json]:
    delta: Json = {"stop_reason": reason, "stop_sequence": None}
    if details is not ...:
        delta["stop_details"] = details
    return [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7, **usage}}, {"type": "message_stop"}]


def stream(*events: Json) -> bytes:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


# --------------------------------------------------------------------------------------------------- a second message


@pytest.mark.parametrize("where", [CLAUDE, DEEPSEEK], ids=["claude", "deepseek"])
@pytest.mark.parametrize("before", [
    pytest.param(said("Low"), id="behind a block"),
    pytest.param(said("Low")[:2], id="inside of a block"),
])
def test_a_second_message_in_a_stream_is_an_error(where: Json, before: list[Json]) -> None:
    body = stream(start("msg_1"), *before, start("msg_2"), *said("High", 1), *end())
    heard = every_way(body, "anthropic", ways=STREAMED, **where)
    assert (heard.text, heard.finish) == ("Low", None)
    assert heard.error is not None
    assert "another message" in heard.error


def test_a_second_message_before_any_content_fails_over() -> None:
    exchange = talk("anthropic", "anthropic", withhold=True, **CLAUDE)
    answered(exchange, stream(start("msg_1"), start("msg_2"), *said("High"), *end()))
    assert exchange.head is not None
    assert exchange.head.status == 502


@pytest.mark.parametrize("again", ["msg_1", "", None])
def test_the_start_of_the_same_message_may_come_twice(again: str | None) -> None:
    body = stream(start("msg_1"), *said("Low "), start(again), *said("tide.", 1), *end())
    heard = every_way(body, "anthropic", **CLAUDE)
    assert (heard.text, heard.finish, heard.error) == ("Low tide.", "stop", None)


# ------------------------------------------------------------------------------------------------------------- figures

COMPACTED: Json = {"input_tokens": 2_300, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0,
                   "iterations": [{"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
                                  {"type": "message", "input_tokens": 2_300, "output_tokens": 7}]}


@pytest.mark.parametrize(("client", "streamed"), WAYS)
@pytest.mark.parametrize(("first", "last", "figures"), [
    pytest.param({"input_tokens": 5, "cache_read_input_tokens": 180_000}, COMPACTED, Usage(input=2_300, output=7),
                 id="compacted"),
    pytest.param({"input_tokens": 5, "cache_read_input_tokens": 180_000},
                 {name: value for name, value in COMPACTED.items() if name != "iterations"},
                 Usage(input=2_300, output=7), id="compacted, told without iterations"),
    pytest.param({"input_tokens": 180_000}, {"input_tokens": 2_300, "cache_read_input_tokens": 700},
                 Usage(input=3_000, output=7, cached=700), id="compacted, with a cache"),
    pytest.param({"input_tokens": 10, "cache_read_input_tokens": 90}, {"input_tokens": 0, "cache_read_input_tokens": 0},
                 Usage(input=100, output=7, cached=90), id="zeros for figures that came before"),
    pytest.param({"input_tokens": 10, "cache_read_input_tokens": 90}, {"input_tokens": 10,
                                                                      "cache_read_input_tokens": 0},
                 Usage(input=100, output=7, cached=90), id="the same prompt, a zero for the cache"),
    pytest.param({"input_tokens": 0}, {"input_tokens": 100, "cache_read_input_tokens": 20},
                 Usage(input=120, output=7, cached=20), id="known at the end only"),
])
def test_the_last_figures_of_the_prompt_count(client: str, streamed: bool, first: Json, last: Json,
                                              figures: Usage) -> None:
    exchange = talk(client, "anthropic", stream=streamed, **CLAUDE)
    out = answered(exchange, stream(start(**first), *said("Low tide."), *end(**last)))
    assert exchange.usage == figures
    if client == "openai" and not streamed:
        assert json.loads(out)["usage"]["prompt_tokens"] == figures.input


# ----------------------------------------------------------------------------------------------------------- overflows


@pytest.mark.parametrize(("body", "figures"), [
    ({"error": "prompt too long; exceeded max context length by 540451 tokens (ref: 00ad71bb-fea0)"}, (None, None)),
    ({"error": {"message": "prompt too long; exceeded max context length by 1 tokens", "type": "invalid_request",
                "param": None, "code": None}}, (None, None)),
    ({"error": {"message": "User input tokens exceeds 127072 tokens", "type": "too_many_prompt_tokens", "code": 400}},
     (None, 127072)),
    ({"error": {"message": "The total length of all messages is too long.", "type": "too_many_prompt_tokens",
                "code": 400}}, (None, None)),
    ({"error": {"message": "No.", "type": "too_many_prompt_tokens", "code": 400}}, (None, None)),
    ({"error": {"message": "Requested 115120 to generate tokens, following a prompt of length 40055, which exceeds the "
                           "max limit of 128000 tokens.", "type": "requested_too_many_tokens", "code": 400}},
     (40055, 128000)),
])
@pytest.mark.parametrize(("client", "streamed"), WAYS)
def test_a_context_overflow_is_told_in_the_words_of_the_client(client: str, streamed: bool, body: Json,
                                                               figures: tuple[int | None, int | None]) -> None:
    exchange = talk(client, "openai", stream=streamed)
    exchange.start(400, {"content-type": "application/json"})
    out = json.loads(exchange.feed(json.dumps(body).encode()) + exchange.finish())
    assert exchange.head is not None
    assert exchange.head.status == 400
    assert exchange.failure is not None
    assert (exchange.failure.kind, exchange.failure.prompt_tokens, exchange.failure.context_limit) == (
        "context_length", *figures)
    if client == "anthropic":
        assert "prompt is too long" in out["error"]["message"] or "exceed context limit" in out["error"]["message"]
    else:
        assert out["error"]["code"] == "context_length_exceeded"
