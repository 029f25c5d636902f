"""A call that a server sends natively and also leaves in the text is one call: a client would run it twice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.conversation.duplicate_calls import DuplicateCallDetector
from extproc.conversation.pending_call import PendingCall
from tests.model_text.text_and_calls import UPSTREAMS, NativeCall, begin_exchange, hermes_call, provider_body, received
from tests.playbook import call, delta, sse

READ: NativeCall = ("read", {"path": "a b", "n": 1, "o": {"x": [True, None], "y": "ü"}})
SAME: NativeCall = ("read", {"o": {"y": "ü", "x": [True, None]}, "n": 1, "path": "a b"})
OTHER: NativeCall = ("read", {"path": "a b", "n": 2})
WRITTEN, WRITTEN_OTHER = hermes_call(*READ), hermes_call(*OTHER)

every_api = pytest.mark.parametrize("upstream", UPSTREAMS)
both_ways = pytest.mark.parametrize("stream", [True, False])


@every_api
@both_ways
@pytest.mark.parametrize("items", [
    ["Look.\n" + WRITTEN, SAME],
    ["Look.\n" + WRITTEN + "\n", SAME, "\n"],
    ["Look.\n", SAME, "\n" + WRITTEN],
], ids=["written first", "with white space", "native first"])
def test_one_call_told_both_ways_is_one(upstream: str, stream: bool, items: list[str | NativeCall]) -> None:
    answer = received(upstream, items, stream=stream)
    assert (answer.calls, answer.stop) == ([READ], "tool_use")
    assert answer.order == ["text", "read"]
    assert answer.text.strip() == "Look."


@every_api
@both_ways
@pytest.mark.parametrize(("items", "calls"), [
    ([READ, SAME], 2),
    ([WRITTEN + "\n" + WRITTEN], 2),
    ([WRITTEN + WRITTEN, READ], 2),
    ([READ, WRITTEN + WRITTEN], 2),
    ([READ, READ, WRITTEN], 2),
    ([WRITTEN, READ, READ], 2),
    ([WRITTEN + WRITTEN, READ, READ], 2),
    ([WRITTEN, READ, WRITTEN, READ], 2),
    ([WRITTEN, READ, WRITTEN + WRITTEN], 3),
])
def test_as_many_as_the_way_that_tells_more(upstream: str, stream: bool, items: list[str | NativeCall], calls: int) -> None:
    answer = received(upstream, items, stream=stream)
    assert (answer.calls, answer.stop) == ([READ] * calls, "tool_use")
    assert len(set(answer.ids)) == calls
    assert "tool_call" not in answer.text


@every_api
@pytest.mark.parametrize("other", [
    OTHER, ("ping", READ[1]), ("read", {**READ[1], "n": True}), ("read", {**READ[1], "path": "a  b"}), ("read", {}),
], ids=["a value", "the tool", "true is not 1", "white space in a string", "nothing"])
def test_what_differs_stays_two(upstream: str, other: NativeCall) -> None:
    assert received(upstream, [WRITTEN, other]).calls == [READ, other]
    assert received(upstream, [other, WRITTEN]).calls == [other, READ]


@every_api
def test_each_finds_its_own_twin(upstream: str) -> None:
    answer = received(upstream, [WRITTEN + WRITTEN_OTHER, OTHER, ("ping", {}), READ])
    assert answer.calls == [READ, OTHER, ("ping", {})]


@every_api
def test_a_call_without_arguments(upstream: str) -> None:
    ping: NativeCall = ("ping", {})
    assert received(upstream, [hermes_call(*ping), ping]).calls == [ping]
    assert received(upstream, [ping, hermes_call(*ping)]).calls == [ping]


@every_api
def test_numbers_are_compared_as_numbers(upstream: str) -> None:
    answer = received(upstream, [hermes_call("read", {"x": 2.0, "n": 3}), ("read", {"x": 2, "n": 3.0})])
    assert len(answer.calls) == 1


@every_api
def test_a_server_that_leaves_strings_told_the_same_call(upstream: str) -> None:
    """What is read from text has the types of the schema; the server's own parser may not know the schema."""
    text, native = hermes_call("read", {"path": "1", "n": "1"}), ("read", {"path": "1", "n": "1"})
    assert received(upstream, [text, native]).calls == [("read", {"path": "1", "n": 1})]
    assert received(upstream, [native, text]).calls == [native]
    assert len(received(upstream, [text, ("read", {"path": "1", "n": "2"})]).calls) == 2


@every_api
def test_text_behind_twins_stays_in_its_place(upstream: str) -> None:
    answer = received(upstream, ["Look.\n", READ, WRITTEN, "\nThere."])
    assert (answer.order, answer.text.split()) == (["text", "read", "text"], ["Look.", "There."])
    answer = received(upstream, [READ, "One.\n" + WRITTEN, "\nTwo."])
    assert (answer.calls, answer.text.split()) == ([READ], ["One.", "Two."])


@pytest.mark.parametrize("upstream", ["openai", "anthropic"])
def test_the_id_that_went_out_first_stays(upstream: str) -> None:
    assert received(upstream, [READ, WRITTEN]).ids == ["call_0"]
    (minted,) = received(upstream, [WRITTEN, READ]).ids
    assert minted.startswith("toolu_")


@every_api
@pytest.mark.parametrize("arguments", ["repair", "strict"])
def test_where_arguments_are_looked_at(upstream: str, arguments: str) -> None:
    assert received(upstream, [WRITTEN, SAME, OTHER], arguments=arguments).calls == [READ, OTHER]
    assert received(upstream, [SAME, OTHER, WRITTEN], arguments=arguments).calls == [READ, OTHER]


def native_delta(*fields: Any, **more: Any) -> dict[str, Any]:
    """A chunk with a fragment of a native call."""
    return delta(tool_calls=[call(*fields, **more)])


def test_a_call_that_broke_off_is_no_twin() -> None:
    """It may have become another call, and the response must not look complete."""
    talk = begin_exchange("openai")
    cut = json.dumps(READ[1])[:-4]
    out = talk.feed(sse(delta(content=WRITTEN), native_delta(0, "c", "read", cut), delta("length"))) + talk.finish()
    assert out.count(b'"type":"tool_use"') == 2
    assert b'"stop_reason":"max_tokens"' in out


# --------------------------------------------------------------------------------------------------- what has to wait


def test_nothing_of_a_native_call_goes_out_before_it_is_known_to_differ() -> None:
    talk = begin_exchange("openai")
    talk.feed(sse(delta(content=WRITTEN), done=False))
    assert talk.feed(sse(native_delta(0, "c", "read", '{"path": "a '), native_delta(0, arguments='b", "n": 2'), done=False)) == b""
    out = talk.feed(sse(native_delta(0, arguments="}"), delta("tool_calls")))
    assert out.count(b'"type":"content_block_start"') == 1
    assert json.loads(b"".join(json.loads(line[6:])["delta"]["partial_json"].encode() for line in out.split(b"\n")
                               if b"partial_json" in line)) == OTHER[1]


@pytest.mark.parametrize("first", ["", hermes_call("ping", {}), hermes_call("ping", {}) + WRITTEN + "{}"])
def test_no_other_native_call_waits(first: str) -> None:
    """A call of another tool, or after native copies of all written calls."""
    talk = begin_exchange("openai")
    talk.feed(sse(delta(content=first or "Look."), done=False))
    if "read" in first:
        talk.feed(sse(native_delta(0, "a", "read", json.dumps(READ[1])), done=False))
    assert b"partial_json" in talk.feed(sse(native_delta(1, "b", "read", '{"path": "'), done=False))


def test_a_long_call_waits_no_longer_than_text_is_held_back() -> None:
    talk = begin_exchange("openai")
    talk.feed(sse(delta(content=WRITTEN), done=False))
    assert talk.feed(sse(native_delta(0, "c", "read", '{"path": "' + "x" * 60_000), done=False)) == b""
    assert len(talk.feed(sse(native_delta(0, arguments="x" * 6_000), done=False))) > 66_000


def test_an_answer_that_fails_does_not_end_a_call_that_waits() -> None:
    talk = begin_exchange("openai")
    out = talk.feed(sse(delta(content=WRITTEN), native_delta(0, "c", "read", json.dumps(OTHER[1])[:-3]), done=False))
    out += talk.finish()
    assert b"event: error" in out
    assert out.count(b'"type":"tool_use"') == 1


# -------------------------------------------------------------------------------------------------------- the figures


@pytest.mark.parametrize("items", [[WRITTEN, READ], [READ, WRITTEN]])
def test_twins_count_both_ways_and_went_out_once(items: list[str | NativeCall]) -> None:
    talk = begin_exchange("openai")
    talk.feed(provider_body("openai", items))
    talk.finish()
    assert {name: counts.total for name, counts in talk.calls.items()} == {"native": 1, "hermes": 1}
    assert talk.tool_calls == 1


@pytest.mark.parametrize(("items", "lost"), [(["written", "native"], True), (["native", "written"], False)])
def test_a_signature_that_does_not_go_out_is_told(items: list[str], lost: bool) -> None:
    """The copy that was sent had none, and cannot get it any more."""
    parts = {"written": {"text": WRITTEN},
             "native": {"functionCall": {"name": "read", "args": READ[1]}, "thoughtSignature": "c2lnbmVk"}}
    talk = begin_exchange("gemini")
    chunk = {"candidates": [{"content": {"role": "model", "parts": [parts[item] for item in items]},
                             "finishReason": "STOP"}]}
    talk.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    talk.finish()
    assert ("response.thoughtSignature" in talk.dropped.hints) is lost


def test_arguments_past_the_limit_are_not_even_read() -> None:
    def typed(name: str, arguments: dict[str, object]) -> dict[str, object]:
        raise AssertionError("that takes as long as they are")

    call = PendingCall()
    call.add_arguments(json.dumps({"path": "x" * 100}))
    assert not DuplicateCallDetector(99, typed).check_and_remember("read", call)
    with pytest.raises(AssertionError, match="takes as long"):
        DuplicateCallDetector(1000, typed).check_and_remember("read", call)
