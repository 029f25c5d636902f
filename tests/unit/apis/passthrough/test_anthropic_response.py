"""An Anthropic-format provider's response reaches an Anthropic client unchanged, and a broken one never looks finished.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.apis.anthropic.client.grammar import check
from extproc.apis.anthropic.provider.messages import origin_at
from extproc.conversation.model import Signature, Usage
from extproc.conversation.signatures import embed_in_text
from tests.unit.apis.anthropic.provider.helpers import event, stream, text, thinking, tool_use
from tests.unit.apis.passthrough.helpers import CLAUDE, DEEPSEEK, READ, event_data, event_names, receive, send_request

STARTED = {"input_tokens": 9, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 50, "output_tokens": 1}
REPEATED = [{"role": "user", "content": "x"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "call_0", "name": "read", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_0", "content": "r"}]}]
LOCAL = {"url": "http://127.0.0.1:1234/v1", "model": "qwen3-coder"}
MARKED = embed_in_text(Signature("deep-id", origin_at("api.deepseek.com")))


def start(model: str = "claude-sonnet-4-5-20250929", **message: Any) -> bytes:
    return event({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": STARTED, **message}})


def raw_event(name: str, data: str) -> bytes:
    return f"event: {name}\ndata: {data}\n\n".encode()


def message(*blocks: Any, stop: str | None = "end_turn", **more: Any) -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": list(blocks),
            "stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 20}, **more}


# --------------------------------------------------------------------------------------------------- bytes pass


def test_every_event_passes_unchanged_except_for_the_models_name() -> None:
    body = [raw_event("ping", '{"type": "ping"}'),
            raw_event("content_block_start", '{"type":"content_block_start", "index":0,"content_block":{"type":"text",'
                                             '"text":"","citations":[]}}'),
            raw_event("content_block_delta", '{"index":0,"type":"content_block_delta","delta":{"type":"text_delta",'
                                             '"text":"a\\u00e9 \\ud83d"}}'),
            raw_event("content_block_delta", '{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta'
                                             '","citation":{"x":[1.0]}}}'),
            raw_event("content_block_stop", '{"type":"content_block_stop","index":0}'),
            raw_event("content_block_start", '{"type":"content_block_start","index":1,"content_block":{"type":'
                                             '"brand_new","id":{"odd":1},"signature":0,"name":[]}}'),
            raw_event("content_block_delta", '{"type":"content_block_delta","index":1,"delta":{"type":"new_delta"}}'),
            raw_event("content_block_stop", '{"type":"content_block_stop","index":1}'),
            raw_event("brand_new_event", '{"type":"brand_new_event","x":1}'),
            raw_event("message_delta", '{"type":"message_delta","delta":{"stop_reason":"brand_new","stop_details":{}},'
                                       '"usage":{"output_tokens":7,"server_tool_use":{"web_search_requests":1}},'
                                       '"context_management":{"applied_edits":[]}}'),
            raw_event("message_stop", '{"type":"message_stop","amazon-bedrock-invocationMetrics":{}}')]
    out, talk = receive("anthropic", b"".join([start(), *body]))
    first, _, rest = out.partition(b"\n\n")
    assert rest == b"".join(body)
    begun = json.loads(first.split(b"data: ")[1])["message"]
    assert begun["model"] == CLAUDE
    assert (begun["id"], begun["usage"]) == ("msg_1", STARTED)
    assert talk.done
    assert talk.failure is None
    assert talk.finish_reason == "stop"


def test_signatures_and_encrypted_thinking_pass_byte_for_byte() -> None:
    body = stream(thinking("Hm.", "c2ln+/=="), [{"type": "redacted_thinking", "data": "ZGF0YQ=="}],
                  tool_use("toolu_1", "read", '{"a":', "1}"), stop="tool_use")
    out, talk = receive("anthropic", body, tools=[READ])
    assert out.partition(b"\n\n")[2] == body.partition(b"\n\n")[2]
    check(event_data(out))
    assert (talk.tool_calls, talk.unoffered_calls, talk.finish_reason) == (1, 0, "tool_calls")


def test_any_framing_becomes_plain_events() -> None:
    """CRLF, comments, no event names, JSON over several data lines."""
    odd = (b": comment\r\n\r\ndata: " + start().split(b"data: ")[1].strip() + b"\r\n\r\n"
           b'data:{"type":"content_block_start","index":0,\ndata: "content_block":{"type":"text","text":""}}\n\n'
           b'data: {"type":"content_block_delta","index":0,\ndata:"delta":{"type":"text_delta","text":"x"}}\n\n'
           b'data: {"type":"content_block_stop","index":0}\n\n'
           b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}\n\n'
           b'data: {"type":"message_stop"}')
    out, talk = receive("anthropic", odd)
    assert event_names(out) == ["message_start", "content_block_start", "content_block_delta", "content_block_stop",
                             "message_delta", "message_stop"]
    assert [data["type"] for data in event_data(out)] == event_names(out)
    assert talk.failure is None


def test_bytes_that_are_no_utf_8_never_reach_the_client() -> None:
    body = stream("caf").replace(b"caf", b"caf\xff")
    out, _ = receive("anthropic", body)
    assert "caf\ufffd" in out.decode()


HALF = "\\ud83d"


@pytest.mark.parametrize("settings", [{}, DEEPSEEK])
def test_halves_of_a_surrogate_pair_pass_in_deltas_and_do_no_harm_elsewhere(settings: dict[str, Any]) -> None:
    """JavaScript joins the two halves of an emoji that a provider cut."""
    body = stream([{"type": "text", "text": "HALF"}, {"type": "text_delta", "text": "HALF"}],
                  tool_use("call_0", "HALF", '{"a":', '"HALF"}'), stop="tool_use", details="HALF")
    body = start(note="HALF") + body.partition(b"\n\n")[2]
    out, talk = receive("anthropic", body.replace(b"HALF", HALF.encode()), settings=settings, messages=REPEATED,
                         tools=[READ])
    assert talk.failure is None
    assert out.count(HALF.encode()) == 2
    datas = event_data(out)
    assert datas[0]["message"]["model"] == CLAUDE
    assert [data["type"] for data in datas] == [data["type"] for data in event_data(body)]
    assert talk.tool_calls == 1


# -------------------------------------------------------------------------------------------------------------- usage


def test_p15_p16_usage_is_cumulative_and_the_prompt_the_sum_of_its_parts() -> None:
    body = b"".join([start(), stream("ok", start=False, stop=None, end=False),
                     event({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 5}}),
                     event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {
                         "output_tokens": 20, "input_tokens": 0, "cache_read_input_tokens": None,
                         "output_tokens_details": {"thinking_tokens": 4}}}),
                     event({"type": "message_stop"})])
    _, talk = receive("anthropic", body)
    assert talk.usage == Usage(input=159, output=20, cached=100, cache_write=50, reasoning=4)


def test_usage_is_known_while_the_stream_runs() -> None:
    _, talk = send_request("anthropic", stream=True)
    talk.start(200, {"content-type": "text/event-stream"})
    talk.feed(start())
    assert talk.usage.input == 159


def test_p15_missing_usage_is_estimated() -> None:
    """The official SDK fails on a message without usage."""
    begin = start(usage=None)
    out, talk = receive("anthropic", begin + stream("o" * 40, start=False).replace(b', "usage": {"output_tokens": 20}',
                                                                                   b""), settings=DEEPSEEK)
    datas = event_data(out)
    assert datas[0]["message"]["usage"]["input_tokens"] > 0
    assert datas[-2]["usage"]["output_tokens"] > 0
    assert talk.usage.estimated
    assert talk.usage.input > 0
    assert talk.usage.output > 0


# ----------------------------------------------------------------------------------------------------------------- ids


@pytest.mark.parametrize("settings", [{}, DEEPSEEK])
def test_rule_5_an_id_of_the_conversation_is_replaced(settings: dict[str, Any]) -> None:
    """Claude Code takes a second call with the same id for a duplicate and loops forever."""
    calls = [tool_use("call_0", "read", "{}"), tool_use("call_1", "read", "{}"), tool_use("call_1", "read", "{}"),
             tool_use("", "read", "{}"), tool_use("functions.read:0", "read", "{}")]
    body = stream(*calls, stop="tool_use")
    fields: dict[str, Any] = {"messages": REPEATED, "tools": [READ], "settings": settings}
    out, talk = receive("anthropic", body, **fields)
    ids = [data["content_block"]["id"] for data in event_data(out) if data["type"] == "content_block_start"]
    assert ids[1] == "call_1"
    assert len({"call_0", *ids}) == 6
    assert all(new.startswith("toolu_") for at, new in enumerate(ids) if at != 1)
    assert receive("anthropic", body, **fields)[0] == out, "reproducible"
    assert talk.tool_calls == 5


def test_rule_5_ids_of_a_whole_response() -> None:
    whole = message({"type": "text", "text": "a"}, *({"type": "tool_use", "id": "call_0", "name": "other", "input": {
        "x":  1.0}} for _ in range(2)), stop="tool_use")
    out, talk = receive("anthropic", json.dumps(whole).encode(), stream=False, messages=REPEATED, tools=[READ])
    got = json.loads(out)
    ids = [block["id"] for block in got["content"][1:]]
    assert len({"call_0", *ids}) == 3
    assert got == {**whole, "model": CLAUDE, "content": [whole["content"][0], *(
        {**whole["content"][1], "id": new} for new in ids)]}
    assert (talk.tool_calls, talk.unoffered_calls) == (2, 2)


# ------------------------------------------------------------------------------------------------- compatible endpoints


def test_a_signature_that_is_not_anthropics_is_marked() -> None:
    """So that it never reaches Anthropic after a failover, and comes back to its own endpoint."""
    out, _ = receive("anthropic", stream(thinking("hm", "deep-id"), "ok"), settings=DEEPSEEK)
    [signature] = [data["delta"]["signature"] for data in event_data(out) if data.get("delta", {}).get("signature")]
    assert signature == MARKED
    given = [{"type": "thinking", "thinking": "", "signature": "deep-id"}]
    out, _ = receive("anthropic", stream(given, "ok"), settings=DEEPSEEK)
    assert event_data(out)[1]["content_block"]["signature"] == MARKED
    whole = message({"type": "thinking", "thinking": "hm", "signature": "deep-id"}, {"type": "text", "text": "ok"})
    out, _ = receive("anthropic", json.dumps(whole).encode(), stream=False, settings=DEEPSEEK)
    assert json.loads(out)["content"][0]["signature"] == MARKED


@pytest.mark.parametrize(("told", "blocks", "expected"), [
    ("end_turn", [tool_use("a", "read", "{}")], "tool_use"), ("tool_use", [text("x")], "end_turn"),
    ("stop", [text("x")], "end_turn"), ("length", [text("x")], "max_tokens"), ("brand_new", [text("x")], "brand_new"),
    ("max_tokens", [tool_use("a", "read", "{}")], "max_tokens"),
])
def test_stop_reasons_of_compatible_endpoints_are_corrected(told: str, blocks: list[Any], expected: str) -> None:
    out, _ = receive("anthropic", stream(*blocks, stop=told), settings=DEEPSEEK, tools=[READ])
    assert event_data(out)[-2]["delta"]["stop_reason"] == expected
    content = [{**block[0], **({"input": {}} if block[0]["type"] == "tool_use" else {"text": "x"})} for block in blocks]
    out, _ = receive("anthropic", json.dumps(message(*content, stop=told)).encode(), stream=False, settings=DEEPSEEK,
                      tools=[READ])
    assert json.loads(out)["stop_reason"] == expected


def test_p25_calls_that_a_local_model_writes_as_text_are_calls() -> None:
    """A server of unknown make: its response is decoded."""
    said = 'ok <tool_call>\n<function=read>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>'
    tool = {"name": "read", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}
    out, talk = receive("anthropic", stream(said), settings=LOCAL, tools=[tool])
    assert "<tool_call>" not in out.decode()
    assert (talk.tool_calls, talk.text_calls) == (1, 1)
    arguments = "".join(data["delta"].get("partial_json", "") for data in event_data(out) if "delta" in data)
    assert json.loads(arguments) == {"path": "a"}


# ------------------------------------------------------------------------------------- not the form that was asked for


def test_p20_a_whole_response_for_a_client_that_wants_a_stream() -> None:
    whole = message({"type": "text", "text": "ok"}, {"type": "tool_use", "id": "t", "name": "read", "input": {"a": 1}},
                    stop="tool_use")
    out, talk = receive("anthropic", json.dumps(whole).encode(), whole=True, tools=[READ])
    assert event_names(out)[0] == "message_start"
    assert event_names(out)[-1] == "message_stop"
    assert event_data(out)[0]["message"]["model"] == CLAUDE
    assert (talk.tool_calls, talk.usage.output) == (1, 20)


def test_p20_a_stream_for_a_client_that_wants_a_whole_response() -> None:
    out, talk = receive("anthropic", stream(thinking("hm"), "ok"), stream=False, whole=False)
    got = json.loads(out)
    assert got["content"][1] == {"type": "text", "text": "ok"}
    assert got["model"] == CLAUDE
    assert talk.usage.output == 20


def test_a_ping_before_the_message_changes_nothing() -> None:
    out, _ = receive("anthropic", raw_event("ping", '{"type":"ping"}') + stream("ok"))
    assert out == receive("anthropic", stream("ok"))[0]


def test_a_stream_with_a_wrong_beginning_is_repaired() -> None:
    out, talk = receive("anthropic", raw_event("ping", '{"type":"ping"}') + stream("ok", start=False))
    assert event_names(out)[0] == "message_start"
    assert event_names(out)[-1] == "message_stop"
    assert talk.failure is None


# --------------------------------------------------------------------------------------------- rule 2: what breaks off


WHOLE = stream(thinking("Hm."), "text", tool_use("toolu_1", "read", '{"a":', "1}"), stop="tool_use")


def ends_in_error(out: bytes) -> bool:
    names = event_names(out)
    return names.count("error") == 1 and names[-1] == "error" and "message_stop" not in names


@pytest.mark.parametrize("events", range(1, WHOLE.count(b"\n\n") - 2))
def test_rule_2_a_stream_that_ends_early_ends_in_an_error(events: int) -> None:
    pieces = [piece + b"\n\n" for piece in WHOLE.split(b"\n\n")[:events]]
    out, talk = receive("anthropic", pieces, tools=[READ])
    assert ends_in_error(out)
    assert talk.failure is not None
    assert talk.failure.kind == "server"


def test_a_stream_without_its_last_event_is_complete() -> None:
    out, talk = receive("anthropic", WHOLE.removesuffix(event({"type": "message_stop"})), tools=[READ])
    assert event_names(out)[-1] == "message_stop"
    assert talk.failure is None
    out, talk = receive("anthropic", WHOLE.removesuffix(event({"type": "message_stop"})) + b"data: [DONE]\n\n",
                         tools=[READ])
    assert event_names(out)[-1] == "message_stop"


def test_an_end_without_a_stop_reason_gets_one() -> None:
    out, talk = receive("anthropic", stream("ok", stop=None), settings=DEEPSEEK)
    assert event_data(out)[-2]["delta"]["stop_reason"] == "end_turn"
    assert talk.finish_reason == "stop"


@pytest.mark.parametrize("torn", ["content_block_stop", None])
@pytest.mark.parametrize("settings", [{}, DEEPSEEK])
def test_rule_2_an_end_inside_a_call_is_a_failure(torn: str | None, settings: dict[str, Any]) -> None:
    opened = stream(tool_use("toolu_1", "read", '{"a":'), stop=None, end=False)
    opened = opened[:opened.rindex(b"event: content_block_stop")]
    ends = b"" if torn is None else event({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {
        "output_tokens": 1}})
    out, _ = receive("anthropic", opened + ends + event({"type": "message_stop"}), tools=[READ], settings=settings)
    assert ends_in_error(out)


def test_an_open_text_is_closed() -> None:
    """Claude Code shows a block when it stops."""
    body = stream("ok").replace(event({"type": "content_block_stop", "index": 0}), b"")
    out, _ = receive("anthropic", body)
    assert event_names(out)[-3:] == ["content_block_stop", "message_delta", "message_stop"]


@pytest.mark.parametrize("damage", [
    b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ha\n\n',
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0 "delta":{}}\n\n',
    b"data: nonsense\n\n", b'data: ["a"]\n\n', b'data: {"type":7}\n\n',
    b'data: {"type":"content_block_start","index":"x","content_block":7}\n\n',
    b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}\n\n',
])
def test_rule_2_a_damaged_event_ends_in_an_error(damage: bytes) -> None:
    out, talk = receive("anthropic", stream("ok", stop=None, end=False) + damage + stream("more", start=False))
    assert ends_in_error(out)
    assert b"more" not in out
    assert talk.failure is not None


@pytest.mark.parametrize(("told", "kind", "words"), [
    (b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
     "overloaded_error", "Overloaded"),
    (b'data: {"error":{"message":"no more","code":429}}\n\n', "rate_limit_error", "no more"),
    (b"event: error\ndata: plain words\n\n", "api_error", "plain words"),
    (b'event: error\ndata: {"message":"said at the top"}\n\n', "api_error", "said at the top"),
    (b'event: error\ndata: {"type":"error","error":"\\ud83d only"}\n\n', "api_error", "only"),
])
@pytest.mark.parametrize("begun", [b"", start(), stream("ok", stop=None, end=False)])
def test_rule_2_an_error_event_is_the_clients_last(told: bytes, kind: str, words: str, begun: bytes) -> None:
    out, talk = receive("anthropic", begun + told + stream("more", start=False))
    assert ends_in_error(out)
    error = event_data(out)[-1]["error"]
    assert error["type"] == kind
    assert words in error["message"]
    assert talk.done


def test_rule_7_an_endless_line_is_an_error() -> None:
    from extproc.bounds import Limits

    out, _ = receive("anthropic", stream("ok", stop=None, end=False) + b"data: " + b"x" * 2000,
                      settings={"limits": Limits(sse_line=1000)})
    assert ends_in_error(out)


@pytest.mark.parametrize(("body", "status"), [
    (b'{"type":"error","error":{"type":"overloaded_error","message":"no"}}', 529),
    (b'{"message":"no"}', 502), (b'{"id":"msg_1","content":"text', 502), (b"<html><title>no</title>", 502), (b"", 502)])
@pytest.mark.parametrize("stream", [True, False])
def test_rule_3_a_whole_body_that_is_an_error_is_a_status(body: bytes, status: int, stream: bool) -> None:
    out, talk = receive("anthropic", body, stream=stream, whole=True)
    assert talk.head is not None
    assert talk.head.status == status
    assert json.loads(out)["type"] == "error"


def test_rule_2_content_beside_an_error_is_a_failure() -> None:
    body = b'{"content":[{"type":"text","text":"a"}],"error":{"message":"no"}}'
    out, talk = receive("anthropic", body, stream=False)
    assert talk.head is not None
    assert (talk.head.status, json.loads(out)["error"]["message"]) == (502, "no")


def test_the_ordinary_decoder_reads_a_whole_response_of_odd_shape() -> None:
    out, _ = receive("anthropic", b'{"id":"m","content":"plain words","stop_reason":"end_turn"}', stream=False)
    assert json.loads(out)["content"] == [{"type": "text", "text": "plain words"}]
