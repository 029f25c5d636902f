"""A faithful endpoint's response reaches an OpenAI client unchanged, and a broken one never looks finished."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.bounds import Limits
from extproc.conversation.model import Usage
from tests.unit.apis.passthrough.helpers import LOOK, choice, chunk, event_data, receive, send_request, sse

FIGURES = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
           "prompt_tokens_details": {"cached_tokens": 80}, "completion_tokens_details": {"reasoning_tokens": 5}}
LOCAL: dict[str, Any] = {"url": "http://127.0.0.1:8000/v1", "model": "some-model"}
USAGE: dict[str, Any] = {"stream_options": {"include_usage": True}}
HEAD = chunk(choice(role="assistant", content=""))
HELLO = [HEAD, chunk(choice(content="hel")), chunk(choice(content="lo"))]
STOP = chunk(choice("stop"))
COUNT = chunk(usage=FIGURES)


def started(id: str | None, name: str | None = "read", at: int = 0, **more: Any) -> dict[str, Any]:
    """The first piece of a call."""
    function = {"arguments": ""} if name is None else {"name": name, "arguments": ""}
    entry: dict[str, Any] = {"index": at, "type": "function", "function": function, **more}
    return entry if id is None else {**entry, "id": id}


def piece(arguments: str, at: int = 0, **more: Any) -> dict[str, Any]:
    return {"index": at, "function": {"arguments": arguments}, **more}


def body(*choices: Any, **more: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-9", "object": "chat.completion", "created": 5, "model": "gpt-4o-2024-08-06",
            "choices": list(choices), "usage": FIGURES, **more}


def message(finish: str | None = "stop", *, at: int = 0, **fields: Any) -> dict[str, Any]:
    return {"index": at, "message": {"role": "assistant", **fields}, "logprobs": None, "finish_reason": finish}


# ----------------------------------------------------------------------------------------------------------- bytes pass


@pytest.mark.parametrize("spaced", [False, True])
def test_every_chunk_passes_unchanged_except_for_the_models_name(spaced: bool) -> None:
    words = 'say "model":"gpt-4o-2024-08-06" \\ "finish_reason":"error" é 😀'
    provider = sse(*HELLO, chunk(choice(content=words), brand_new={"x": [1.0]}, service_tier="default"),
                   chunk(choice(refusal="no")), chunk(choice(annotations=[{"url": "u"}])), STOP, COUNT, spaced=spaced)
    out, talk = receive("openai", provider, **USAGE)
    assert out == provider.replace(b'"model":"gpt-4o-2024-08-06"', b'"model":"gpt-4o"').replace(
        b'"model": "gpt-4o-2024-08-06"', b'"model": "gpt-4o"')
    assert event_data(out)[3]["choices"][0]["delta"]["content"] == words
    assert (talk.done, talk.failure, talk.finish_reason) == (True, None, "stop")
    assert talk.usage == Usage(input=100, output=20, cached=80, reasoning=5)


@pytest.mark.parametrize("name", ["qwen\\/qwen3", "\\u0071wen", "gpt-4o-mini"])
def test_every_spelling_of_the_models_name_becomes_the_clients(name: str) -> None:
    """Also where the name differs in every chunk, and where it follows other members."""
    provider = sse(HEAD, b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}],"model" :\t"%b"}'
                         b"\n\n" % name.encode(), *HELLO, chunk(choice("stop"), model=""))
    out, _ = receive("openai", provider)
    assert {data["model"] for data in event_data(out)[:-1]} == {"gpt-4o"}


def test_any_framing_becomes_plain_events() -> None:
    odd = (b": OPENROUTER PROCESSING\r\n\r\n" + sse(HEAD, done=False).replace(b"\n", b"\r\n")
           + b'data:{"choices":[{"index":0,\ndata:"delta":{"content":"a"}}]}\n\n'
           + sse(STOP, done=False) + b"data: [DONE]")
    out, _ = receive("openai", odd)
    assert len(event_data(out)) == 4
    assert out.endswith(b"data: [DONE]\n\n")


def test_bytes_that_are_no_utf_8_never_reach_the_client() -> None:
    out, _ = receive("openai", sse(*HELLO, STOP).replace(b"hel", b"h\xffl"))
    assert event_data(out)[1]["choices"][0]["delta"]["content"] == "h\ufffdl"


def test_halves_of_a_surrogate_pair_pass() -> None:
    """JavaScript joins the two halves."""
    half = b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d"}}]}\n\n'
    out, talk = receive("openai", sse(*HELLO, half, STOP))
    assert half in out
    assert talk.failure is None


def test_a_whole_response_passes() -> None:
    given = body(message(content="hi", refusal=None, annotations=[]), system_fingerprint="fp", brand_new=1.0)
    out, talk = receive("openai", json.dumps(given).encode(), stream=False)
    assert json.loads(out) == {**given, "model": "gpt-4o"}
    assert talk.usage.output == 20
    assert talk.finish_reason == "stop"


# ---------------------------------------------------------------------------------------------------------------- usage


def test_p15_the_usage_chunk_comes_only_on_request() -> None:
    out, talk = receive("openai", sse(*HELLO, STOP, COUNT))
    assert [data for data in event_data(out)[:-1] if not data["choices"]] == []
    assert talk.usage.output == 20
    out, _ = receive("openai", sse(*HELLO, STOP, COUNT), **USAGE)
    assert event_data(out)[-2]["usage"] == FIGURES


def test_p15_usage_beside_the_finish_reason_counts_once() -> None:
    _, talk = receive("openai", sse(*HELLO, chunk(choice("stop"), usage=FIGURES), COUNT))
    assert talk.usage == Usage(input=100, output=20, cached=80, reasoning=5)
    groq = chunk(choice("stop"), x_groq={"usage": FIGURES})
    assert receive("openai", sse(*HELLO, groq))[1].usage.output == 20


def test_p15_missing_usage_is_estimated() -> None:
    out, talk = receive("openai", sse(*HELLO, STOP), **USAGE)
    told = event_data(out)[-2]
    assert told["choices"] == []
    assert (told["id"], told["model"]) == ("chatcmpl-9", "gpt-4o")
    assert told["usage"]["prompt_tokens"] > 0
    assert talk.usage.estimated
    assert event_data(receive("openai", sse(*HELLO, STOP))[0])[-2]["choices"][0]["finish_reason"] == "stop"
    out, talk = receive("openai", json.dumps({**body(message(content="hi")), "usage": None}).encode(), stream=False)
    assert json.loads(out)["usage"]["total_tokens"] > 0


# ---------------------------------------------------------------------------------------------------------------- calls


def test_a_call_passes() -> None:
    provider = sse(HEAD, chunk(choice(tool_calls=[started("call_1")])), chunk(choice(tool_calls=[piece('{"a":')])),
                   chunk(choice(tool_calls=[piece("1}")])), chunk(choice("tool_calls")))
    out, talk = receive("openai", provider, tools=[LOOK])
    assert out == provider.replace(b"gpt-4o-2024-08-06", b"gpt-4o")
    assert (talk.tool_calls, talk.unoffered_calls, talk.finish_reason) == (1, 0, "tool_calls")


HISTORY = [{"role": "user", "content": "x"},
           {"role": "assistant", "content": None, "tool_calls": [{"id": "call_0", "type": "function", "function": {
               "name": "read", "arguments": "{}"}}]},
           {"role": "tool", "tool_call_id": "call_0", "content": "r"}]


@pytest.mark.parametrize(("settings", "fields"), [({}, {}), (LOCAL, {"logprobs": True})])
def test_rule_5_an_id_of_the_conversation_is_replaced(settings: dict[str, Any], fields: dict[str, Any]) -> None:
    provider = sse(HEAD, chunk(choice(tool_calls=[started("call_0")])), chunk(choice(tool_calls=[piece("{}")])),
                   chunk(choice(tool_calls=[started("call_1", at=1)])), chunk(choice(tool_calls=[started(None, at=2)])),
                   chunk(choice("tool_calls")))
    given: dict[str, Any] = {"settings": settings, "tools": [LOOK], "messages": HISTORY, **fields}
    out, talk = receive("openai", provider, **given)
    calls = [call for data in event_data(out)[:-1] for one in data["choices"]
             for call in one["delta"].get("tool_calls", ())]
    ids = [call["id"] for call in calls if "id" in call]
    assert len(ids) == 3
    assert ids[1] == "call_1"
    assert "call_0" not in ids
    assert len(set(ids)) == 3
    assert talk.tool_calls == 3
    assert receive("openai", provider, **given)[0] == out, "reproducible"
    whole = body(message("tool_calls", content=None, tool_calls=[
        {"id": "call_0", "type": "function", "function": {"name": "read", "arguments": "{ }"}},
        {"id": "call_0", "type": "function", "function": {"name": "gone", "arguments": "{}"}}]))
    out, talk = receive("openai", json.dumps(whole).encode(), stream=False, **given)
    got = json.loads(out)["choices"][0]["message"]["tool_calls"]
    assert len({"call_0", got[0]["id"], got[1]["id"]}) == 3
    assert [{**call, "id": "call_0"} for call in got] == whole["choices"][0]["message"]["tool_calls"]
    assert (talk.tool_calls, talk.unoffered_calls) == (2, 1)


def test_ids_repeated_in_every_chunk_are_sent_once() -> None:
    """The official SDK joins repetitions."""
    provider = sse(HEAD, *(chunk(choice(tool_calls=[started("call_1"), started("call_2", at=1)])) for _ in range(3)),
                   chunk(choice("stop")))
    out, talk = receive("openai", provider, settings=LOCAL, tools=[LOOK], logprobs=True)
    calls = [call for data in event_data(out)[1:4] for call in data["choices"][0]["delta"]["tool_calls"]]
    assert [(call.get("id"), call["function"].get("name")) for call in calls] == [
        ("call_1", "read"), ("call_2", "read"), *[(None, None)] * 4]
    assert talk.tool_calls == 2
    assert event_data(out)[-2]["choices"][0]["finish_reason"] == "tool_calls", "a local server said stop"


def test_p5_calls_with_the_same_index_get_their_own() -> None:
    provider = sse(HEAD, chunk(choice(tool_calls=[started("a")])), chunk(choice(tool_calls=[piece("{}")])),
                   chunk(choice(tool_calls=[started("b")])), chunk(choice(tool_calls=[piece("[]")])),
                   chunk(choice("tool_calls")))
    out, _ = receive("openai", provider, settings=LOCAL, tools=[LOOK], logprobs=True)
    calls = [call for data in event_data(out)[1:5] for call in data["choices"][0]["delta"]["tool_calls"]]
    assert [(call["index"], call.get("id"), call["function"]["arguments"]) for call in calls] == [
        (0, "a", ""), (0, None, "{}"), (1, "b", ""), (1, None, "[]")]


# ----------------------------------------------------------------------------------- several choices, log probabilities


@pytest.mark.parametrize("settings", [{}, LOCAL])
def test_several_choices_and_log_probabilities_pass_through_any_server(settings: dict[str, Any]) -> None:
    logs = {"content": [{"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}]}
    first, second = choice(content="a"), choice(at=1, content="b")
    provider = sse(chunk({**first, "logprobs": logs}), chunk({**second, "logprobs": logs}), chunk(choice("stop")),
                   chunk(choice("length", at=1)), COUNT)
    out, talk = receive("openai", provider, settings=settings, n=2, logprobs=True, **USAGE)
    datas = event_data(out)
    assert [data["choices"][0]["index"] for data in datas[:4]] == [0, 1, 0, 1]
    assert datas[1]["choices"][0]["logprobs"] == logs
    assert {data["model"] for data in datas[:-1]} == {"gpt-4o"}
    assert talk.failure is None
    whole = body(message(content="a"), message(content="b", at=1))
    out, _ = receive("openai", json.dumps(whole).encode(), stream=False, settings=settings, n=2)
    assert [one["message"]["content"] for one in json.loads(out)["choices"]] == ["a", "b"]


def test_other_responses_of_an_unfaithful_server_are_translated() -> None:
    out, talk = receive("openai", sse(*HELLO, chunk(choice(reasoning="hm")), STOP), settings=LOCAL)
    assert b"reasoning_content" in out
    assert talk.failure is None


def test_legacy_functions_and_excluded_reasoning_never_pass() -> None:
    call = sse(HEAD, chunk(choice(tool_calls=[started("call_1")])), chunk(choice("tool_calls")))
    old: dict[str, Any] = {"functions": [{"name": "read", "parameters": {"type": "object", "properties": {}}}]}
    out, _ = receive("openai", call, **old)
    assert b'"function_call":{"name":"read"' in out
    out, _ = receive("openai", sse(HEAD, chunk(choice(reasoning_content="hm")), *HELLO, STOP),
                      reasoning={"exclude": True})
    assert b"hm" not in out


# -------------------------------------------------------------------------------------- not the form that was asked for


def test_p20_a_whole_response_for_a_client_that_wants_a_stream() -> None:
    out, talk = receive("openai", json.dumps(body(message(content="hi"))).encode(), whole=True)
    assert out.endswith(b"data: [DONE]\n\n")
    assert "".join(data["choices"][0]["delta"].get("content", "") for data in event_data(out)[:-1]) == "hi"
    assert talk.usage.output == 20


def test_p20_a_stream_for_a_client_that_wants_a_whole_response() -> None:
    out, _ = receive("openai", sse(*HELLO, STOP, COUNT), stream=False, whole=False)
    got = json.loads(out)
    assert got["choices"][0]["message"]["content"] == "hello"
    assert (got["model"], got["usage"]["completion_tokens"]) == ("gpt-4o", 20)


# ---------------------------------------------------------------------------------------------- rule 2: what breaks off


def ends_in_error(out: bytes) -> bool:
    datas = event_data(out)
    return "error" in datas[-1] and not any(data is None or "error" in data for data in datas[:-1])


TWO = [chunk(choice(content="a"), choice(content="b", at=1)), chunk(choice("stop"))]
CALLING = [HEAD, chunk(choice(tool_calls=[started("call_1")]))]


@pytest.mark.parametrize("came", [[HEAD], HELLO, TWO, CALLING, []])
def test_rule_2_a_stream_that_ends_early_ends_in_an_error(came: list[Any]) -> None:
    out, talk = receive("openai", sse(*came, done=False), tools=[LOOK], n=2)
    assert ends_in_error(out)
    assert talk.failure is not None


@pytest.mark.parametrize("came", [CALLING, [HEAD], []])
def test_rule_2_done_without_content_or_inside_a_call_is_a_failure(came: list[Any]) -> None:
    out, _ = receive("openai", sse(*came), tools=[LOOK])
    assert ends_in_error(out)


def test_an_end_without_a_finish_reason_gets_one() -> None:
    out, talk = receive("openai", sse(*HELLO))
    assert event_data(out)[-2]["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert talk.finish_reason == "stop"


def test_without_done_a_response_is_complete_once_all_its_choices_are() -> None:
    out, talk = receive("openai", sse(*HELLO, STOP, done=False))
    assert out.endswith(b"data: [DONE]\n\n")
    assert talk.failure is None


@pytest.mark.parametrize("damage", [
    b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"ha\n\n', b"data: nonsense\n\n",
    b'data: {"choices":[{"index":0,"delta":{"content":"a"} "x"}]}\n\n', b"data: 7\n\n"])
def test_rule_2_a_damaged_event_ends_in_an_error(damage: bytes) -> None:
    out, _ = receive("openai", sse(*HELLO, damage, chunk(choice(content="more")), STOP))
    assert ends_in_error(out)
    assert b"more" not in out


@pytest.mark.parametrize(("told", "words"), [
    ({"error": {"message": "no more", "code": "rate_limit_exceeded"}}, "no more"),
    ({"object": "error", "message": "no more", "code": 500}, "no more"), ({"detail": "no more"}, "no more"),
    (b"event: error\ndata: no more\n\n", "no more"), ([{"error": {"message": "no more"}}], "no more"),
    (chunk(choice("error"), error={"message": "no more"}), "no more"),
    (chunk(choice(content="x"), error={"message": "no more"}), "no more"),
    (chunk({**choice(), "error": {"message": "no more"}}), "no more"),
    (chunk(choice(), x_groq={"error": "no more"}), "no more"), (chunk(choice("abort")), "aborted"),
])
@pytest.mark.parametrize("begun", [[], HELLO])
def test_rule_2_an_error_is_the_clients_last_event(told: Any, words: str, begun: list[Any]) -> None:
    out, talk = receive("openai", sse(*begun, told, chunk(choice(content="more")), STOP))
    assert ends_in_error(out)
    assert words in event_data(out)[-1]["error"]["message"]
    assert b"more\"" not in out.partition(b"error")[2].replace(b"no more\"", b"")
    assert talk.done


def test_an_empty_error_in_every_chunk_is_ignored() -> None:
    out, talk = receive("openai", sse(*({**one, "error": ""} for one in HELLO), {**STOP, "error": None}))
    assert talk.failure is None
    assert out.endswith(b"data: [DONE]\n\n")


def test_rule_7_an_endless_line_is_an_error() -> None:
    out, _ = receive("openai", sse(*HELLO, done=False) + b"data: " + b"x" * 2000,
                      settings={"limits": Limits(sse_line=1000)})
    assert ends_in_error(out)


@pytest.mark.parametrize(("given", "status"), [
    (b'{"error":{"message":"no","code":429}}', 429), (b'{"id":"x","choices":[{"mess', 502), (b"", 502),
    (b'{"choices":null}', 502), (b"<html>no</html>", 502)])
@pytest.mark.parametrize("stream", [True, False])
def test_rule_3_a_whole_body_that_is_an_error_is_a_status(given: bytes, status: int, stream: bool) -> None:
    out, talk = receive("openai", given, stream=stream, whole=True)
    assert talk.head is not None
    assert talk.head.status == status
    assert json.loads(out)["error"]["message"]


def test_rule_2_a_whole_response_with_a_failed_reason_is_a_status() -> None:
    out, talk = receive("openai", json.dumps(body(message("error", content="ha"))).encode(), stream=False)
    assert talk.head is not None
    assert talk.head.status == 502
    assert b"ha\"" not in out


def test_rule_8_no_part_of_a_key_crosses_in_an_error() -> None:
    told = sse(*HELLO, {"error": {"message": "the key sk-0123456789 is wrong"}})
    out, _ = receive("openai", told, settings={"secrets": ["sk-0123456789"]})
    assert b"0123" not in out


def test_the_request_decides_on_usage() -> None:
    _, talk = send_request("openai", stream=True, **USAGE)
    assert talk.conversation is not None
    assert talk.conversation.want_usage
    _, talk = send_request("openai", stream=True)
    assert talk.conversation is not None
    assert not talk.conversation.want_usage
