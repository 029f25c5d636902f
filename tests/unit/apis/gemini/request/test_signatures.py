"""P8: thought signatures return on the part they were issued with, through clients that only echo ids. Signatures of
another model are never sent."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest

from extproc.apis.gemini.provider.signatures import origin
from extproc.apis.openai.provider.request import encode_request as encode_for_openai
from extproc.conversation.model import Message, Request, Signature, Thinking
from extproc.conversation.signatures import embed_in_id, embed_in_text, extract_from_id
from extproc.conversation.unsupported import Dropped
from extproc.profiles import find_profile
from extproc.translation.exchange import Translation
from tests.unit.apis.gemini.request.helpers import (
    BYPASS,
    FLASH_25,
    LATEST,
    OLD,
    PRO_3,
    VERTEX,
    assistant,
    call,
    encode,
    result,
    roles,
    signature,
    target,
    user,
)

STUDIO_URL = "https://generativelanguage.googleapis.com/v1beta"
LONG = base64.b64encode(bytes(range(256)) * 40).decode()
VALUES = ["c2ln", LONG, "a+b/c+==", "url_safe-Value", "not base64 at all: é{}\n", "x"]


def signatures(content: dict[str, Any]) -> list[str | None]:
    return [part.get("thoughtSignature") for part in content["parts"]]


def step(*calls: Any, said: str | None = None) -> list[Message]:
    """A model turn with these calls, and their results."""
    return [assistant(*([said] if said else []), *calls), user(*(result(one.id, "done") for one in calls))]


def claude_body(*calls: dict[str, Any]) -> bytes:
    """Turn two as Claude Code sends it: a call keeps its id, name and input."""
    return json.dumps({
        "model": "claude", "max_tokens": 4000,
        "tools": [{"name": "Read", "input_schema": {"type": "object",
                                                    "properties": {"file_path": {"type": "string"}}}}],
        "messages": [
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": [{"type": "tool_use", **one} for one in calls]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": one["id"], "content": "ok"}
                                         for one in calls]},
        ]}).encode()


def through_claude_code(model: str, *calls: dict[str, Any], upstream: str = "gemini",
                        url: str = STUDIO_URL) -> dict[str, Any]:
    exchange = Translation(client="anthropic", upstream=upstream, model=model, url=url)
    body: dict[str, Any] = json.loads(exchange.request(claude_body(*calls)).body)
    return body


@pytest.mark.parametrize("value", VALUES)
def test_p8_a_c_a_signature_returns_on_its_call_through_a_client_that_keeps_only_the_id(value):
    echoed = embed_in_id("toolu_01", signature(value))
    body = through_claude_code(PRO_3, {"id": echoed, "name": "Read", "input": {"file_path": "a"}})
    [part] = body["contents"][1]["parts"]
    assert part == {"functionCall": {"name": "Read", "args": {"file_path": "a"}, "id": "toolu_01"},
                    "thoughtSignature": value}
    [response] = body["contents"][2]["parts"]
    assert response["functionResponse"]["id"] == "toolu_01"


def test_p8_parallel_calls_are_signed_on_the_first_only():
    body = through_claude_code(PRO_3, {"id": embed_in_id("t1", signature()), "name": "Read", "input": {}},
                               {"id": "t2", "name": "Read", "input": {}})
    assert signatures(body["contents"][1]) == [signature().value, None]


def test_p8_each_step_of_a_turn_has_its_own_signature():
    body = encode(user("go"), *step(call("a", signed=signature("b25l"))), *step(call("b", signed=signature("dHdv"))))
    assert [signatures(content) for content in body["contents"][1::2]] == [["b25l"], ["dHdv"]]


def test_p8_b_calls_of_another_provider_get_the_documented_bypass_on_the_first_of_each_step():
    body = encode(user("go"), *step(call("a"), call("b")), user("on"), *step(call("c")))
    assert [signatures(content) for content in body["contents"] if content["role"] == "model"] == [[BYPASS, None],
                                                                                                     [BYPASS]]


def test_p8_the_bypass_stays_when_the_conversation_goes_on():
    """Requests keep the same bytes, so that prompt caches hit."""
    begun = [user("go"), *step(call("a"))]
    first = encode(*begun)["contents"]
    assert encode(*begun, assistant("done"), user("next"))["contents"][:len(first)] == first


@pytest.mark.parametrize(("model", "expected"), [(PRO_3, BYPASS), (LATEST, BYPASS), ("gemini-9-ultra", BYPASS),
                                                 (FLASH_25, None), ("gemini-2.5-pro", None), (OLD, None)])
def test_p8_only_models_that_require_a_signature_get_the_bypass(model, expected):
    body = encode(user("go"), *step(call("a")), model=model)
    assert signatures(body["contents"][1]) == [expected]


def test_p8_a_signature_goes_back_to_a_model_where_it_is_optional():
    body = encode(user("go"), *step(call("a", signed=signature(model=FLASH_25))), model=FLASH_25)
    assert signatures(body["contents"][1]) == [signature().value]


@pytest.mark.parametrize("foreign", [
    signature(model="gemini-3-flash-preview"),
    signature(**VERTEX),
    Signature("c2ln", "abcd"),
])
def test_p8_a_signature_of_another_model_or_endpoint_is_never_sent(foreign):
    body = encode(user("go"), *step(call("a", signed=foreign)))
    assert signatures(body["contents"][1]) == [BYPASS]
    assert foreign.value not in json.dumps(body)


def test_p8_an_id_truncated_by_a_client_loses_only_the_signature():
    cut = embed_in_id("t1", signature(LONG))[:64]
    body = through_claude_code(PRO_3, {"id": cut, "name": "Read", "input": {}})
    assert signatures(body["contents"][1]) == [BYPASS]
    assert body["contents"][1]["parts"][0]["functionCall"]["id"] == "t1"
    assert body["contents"][2]["parts"][0]["functionResponse"]["id"] == "t1"


def test_p8_failover_to_another_gemini_and_back():
    """The second attempt's model refuses the signature; the first attempt's model takes it in the next turn."""
    echoed = {"id": embed_in_id("t1", signature()), "name": "Read", "input": {}}
    assert signatures(through_claude_code("gemini-3-flash-preview", echoed)["contents"][1]) == [BYPASS]
    assert signatures(through_claude_code(PRO_3, echoed)["contents"][1]) == [signature().value]


def test_p8_failover_to_an_openai_provider_sends_short_ids():
    echoed = {"id": embed_in_id("toolu_01", signature(LONG)), "name": "Read", "input": {}}
    body = through_claude_code("gpt-5", echoed, upstream="openai", url="https://api.openai.com/v1")
    [sent] = body["messages"][1]["tool_calls"]
    assert sent["id"] == body["messages"][2]["tool_call_id"] == "toolu_01"
    assert LONG[:40] not in json.dumps(body)


def test_p8_failover_from_an_openai_provider():
    body = through_claude_code(PRO_3, {"id": "call_0123456789abcdef", "name": "Read", "input": {}})
    assert signatures(body["contents"][1]) == [BYPASS]


@pytest.mark.parametrize("value", VALUES)
def test_p8_the_id_that_carries_it_fits_the_alphabet_of_clients_and_is_short_elsewhere(value):
    carried = embed_in_id("toolu_01", signature(value))
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", carried)
    plain, found = extract_from_id(carried)
    assert (plain, found) == ("toolu_01", signature(value))
    request = Request(model="m", messages=[user("go"), *step(call(plain, signed=found))])
    openai = target("gpt-5", profile=find_profile("openai", None, "gpt-5"))
    body = json.loads(encode_for_openai(request, openai, Dropped()).request.body)
    assert len(body["messages"][1]["tool_calls"][0]["id"]) <= 40


def test_p8_a_signature_stays_with_its_call_when_the_first_call_lost_its_own():
    body = encode(user("go"), *step(call("a"), call("b", signed=signature())))
    assert signatures(body["contents"][1]) == [BYPASS, signature().value]


def test_p8_a_text_signature_returns_on_the_text_after_its_thinking():
    carrier = Thinking("hm", signature=embed_in_text(signature()))
    body = encode(user("go"), assistant(carrier, "first", "second"), user("on"))
    assert body["contents"][1]["parts"] == [{"text": "first", "thoughtSignature": signature().value},
                                            {"text": "second"}]


def test_p8_the_signature_of_a_text_never_moves_to_a_text_after_a_call():
    carrier = Thinking("hm", signature=embed_in_text(signature()))
    body = encode(user("go"), assistant(carrier, call("a"), "then"), user(result("a")))
    assert signatures(body["contents"][1]) == [BYPASS, None]


def test_p8_a_signed_thought_is_sent_back_as_a_thought():
    signed = Thinking("hm", signature=embed_in_text(Signature("dGg=", origin(target(), thought=True))))
    body = encode(user("go"), assistant(signed, "first"), user("on"))
    assert body["contents"][1]["parts"] == [{"text": "hm", "thought": True, "thoughtSignature": "dGg="},
                                            {"text": "first"}]


def test_p8_a_signed_thought_alone_is_no_turn():
    signed = Thinking("hm", signature=embed_in_text(Signature("dGg=", origin(target(), thought=True))))
    assert roles(encode(user("go"), assistant(signed), user("on"))) == ["user text text"]


@pytest.mark.parametrize("carried", [embed_in_text(signature(model=FLASH_25)), "EqQBCkYIARgCKkB", "xs1.damaged"])
def test_p8_a_foreign_signature_of_thinking_is_omitted_and_the_text_stays_text(carried):
    dropped = Dropped()
    body = encode(user("go"), assistant(Thinking("hm", signature=carried), "first"), user("on"), dropped=dropped)
    assert body["contents"][1]["parts"] == [{"text": "first"}]
    assert dropped.hints == ["messages.thinking"]


def test_p8_thinking_alone_is_not_sent_as_an_empty_content():
    body = encode(user("go"), assistant(Thinking("hm"), Thinking("", redacted="x")), user("on"))
    assert roles(body) == ["user text text"]
