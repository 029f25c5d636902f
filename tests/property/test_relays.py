"""Same API on both sides. Design rule 1: any cut of the provider's stream gives the same bytes. Rule 2: whatever part
of it comes, it never looks finished before it is. Any history of any mix of providers is one that Anthropic takes."""

from __future__ import annotations

import itertools
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extproc import Translation
from extproc.apis.anthropic.client.grammar import check
from extproc.conversation.model import Signature
from extproc.conversation.signatures import embed_in_id, embed_in_text
from tests.providers.anthropic_rules import refusal
from tests.unit.apis.anthropic.provider.helpers import event, stream, text, thinking, tool_use
from tests.unit.apis.passthrough.helpers import (
    DEEPSEEK,
    LOOK,
    MODELS,
    READ,
    STREAM,
    URLS,
    body_of,
    choice,
    chunk,
    event_data,
    sse,
)

WORDS = st.text(max_size=8) | st.sampled_from(['"model":"gpt-4o-x"', "[DONE]", "event: error\n", "\\", "é😀"])
TOOLS = {"anthropic": [READ], "openai": [LOOK]}


@st.composite
def messages_stream(draw: st.DrawFn) -> bytes:
    """A Messages stream as Anthropic or a careless endpoint writes it."""
    blocks: list[Any] = []
    for kind in draw(st.lists(st.sampled_from(["text", "thinking", "call", "server", "new"]), max_size=4)):
        words = draw(WORDS)
        if kind == "text":
            blocks.append(text(words, 3))
        elif kind == "thinking":
            blocks.append(thinking(words, draw(st.sampled_from(["c2ln", None]))))
        elif kind == "call":
            id = draw(st.sampled_from(["call_0", "a", "", "x:0"]))
            blocks.append(tool_use(id, "read", '{"a":', f"{len(words)}}}"))
        elif kind == "server":
            blocks.append([{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}])
        else:
            blocks.append([{"type": "brand_new", "id": [1]}, {"type": "new_delta", "x": words}])
    stop = draw(st.sampled_from(["end_turn", "tool_use", "max_tokens", "stop", None]))
    whole = stream(*blocks, stop=stop, named=draw(st.booleans()), end=draw(st.booleans()),
                   usage=draw(st.sampled_from([{"output_tokens": 3}, None])))
    if draw(st.booleans()):
        whole += draw(st.sampled_from([b"data: [DONE]\n\n", b"data: {\n\n", event({"type": "ping"}),
                                       event({"type": "error", "error": {"type": "api_error", "message": "no"}})]))
    return whole


@st.composite
def chat_stream(draw: st.DrawFn) -> bytes:
    """A stream of chunks with texts, calls and several choices."""
    chunks: list[Any] = [chunk(choice(role="assistant", content=""))]
    for kind in draw(st.lists(st.sampled_from(["text", "call", "second", "usage", "odd"]), max_size=6)):
        words = draw(WORDS)
        if kind == "text":
            chunks.append(chunk(choice(content=words), model=draw(st.sampled_from(["gpt-4o-x", "a/b", "gpt-4o"]))))
        elif kind == "call":
            at = draw(st.integers(0, 1))
            id = draw(st.sampled_from(["call_0", "a", "b", None]))
            entry: dict[str, Any] = {"index": at, "function": {"name": "read", "arguments": "{}"}}
            chunks.append(chunk(choice(tool_calls=[entry if id is None else {**entry, "id": id}])))
            chunks.append(chunk(choice(tool_calls=[{"index": at, "function": {"arguments": words}}])))
        elif kind == "second":
            chunks.append(chunk(choice(at=1, content=words)))
        elif kind == "usage":
            chunks.append(chunk(usage={"prompt_tokens": 3, "completion_tokens": 4}))
        else:
            chunks.append(draw(st.sampled_from([b": comment\n\n", b"data: \n\n", chunk(), b'data: {"choices":null}\n\n',
                                                b"data: [\n\n", {"error": {"message": "no"}}])))
    for at in draw(st.sampled_from([(), (0,), (0, 1)])):
        chunks.append(chunk(choice(draw(st.sampled_from(["stop", "tool_calls", "length", "error"])), at=at)))
    return sse(*chunks, done=draw(st.booleans()), spaced=draw(st.booleans()))


STREAMS = {"anthropic": messages_stream(), "openai": chat_stream()}
ENDPOINTS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [{}, DEEPSEEK], "openai": [{}, {"url": "http://127.0.0.1:8000/v1", "model": "any"}]}


def exchange(api: str, pieces: list[bytes], *, whole: bool, withhold: bool, endpoint: dict[str, Any]) -> tuple[
        bytes, Translation]:
    talk = Translation(api, api, **{"model": MODELS[api], "url": URLS[api], "withhold": withhold, **endpoint})
    fields: dict[str, Any] = {"stream": not whole, "tools": TOOLS[api]}
    if api == "openai":
        fields.update(n=2, stream_options=None if whole else {"include_usage": True})
    talk.request(body_of(api, **fields))
    talk.start(200, STREAM)
    return b"".join(map(talk.feed, pieces)) + talk.finish(), talk


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(st.data())
def test_rule_1_any_cut_gives_the_same_bytes(data: st.DataObject) -> None:
    api = data.draw(st.sampled_from(sorted(STREAMS)))
    provider = data.draw(STREAMS[api])
    how: dict[str, Any] = {"whole": data.draw(st.booleans()), "withhold": data.draw(st.booleans()),
                           "endpoint": data.draw(st.sampled_from(ENDPOINTS[api]))}
    out, talk = exchange(api, [provider], **how)
    places = data.draw(st.lists(st.integers(0, 10_000), max_size=6))
    for pieces in (cut(provider, places), [provider[at:at + 1] for at in range(len(provider))]):
        again, other = exchange(api, pieces, **how)
        # Until the head went out an error is a status, and when it goes out depends on the time, not on the cut.
        assert again == out or other.head != talk.head
        assert (other.usage, other.finish_reason, other.tool_calls, other.failure) == (
            talk.usage, talk.finish_reason, talk.tool_calls, talk.failure)
        assert how["withhold"] or other.head == talk.head


@given(st.data())
def test_rule_2_a_part_of_an_answer_never_looks_finished(data: st.DataObject) -> None:
    """Every client sees the end exactly when there was one: its last event, or an error and nothing more."""
    api = data.draw(st.sampled_from(sorted(STREAMS)))
    provider = data.draw(STREAMS[api])
    part = provider[:data.draw(st.integers(0, len(provider)))]
    endpoint = data.draw(st.sampled_from(ENDPOINTS[api]))
    out, talk = exchange(api, [part], whole=False, withhold=False, endpoint=endpoint)
    datas = event_data(out)
    assert talk.done
    ended = [one for one in datas if one is None or one.get("type") == "message_stop"]
    failed = [one for one in datas if one is not None and "error" in one]
    assert (len(ended), len(failed)) == ((0, 1) if talk.failure is not None else (1, 0))
    assert datas[-1] is (ended or failed)[0]
    if api == "anthropic" and talk.failure is None and b"brand_new" not in part and b"server_tool_use" not in part:
        check(datas)
    if talk.failure is None:
        told = part.count(b"message_delta") if api == "anthropic" else part.count(b'"finish_reason"')
        assert told or b"message_stop" in part or b"[DONE]" in part, "somebody said that it is complete"


# ------------------------------------------------------------------------------------------------------------ histories


def foreign(draw: st.DrawFn) -> str:
    """A signature that is not Anthropic's."""
    return draw(st.sampled_from(["", embed_in_text(Signature("x", "abcd")), embed_in_text(Signature("{}", "abce"))]))


@st.composite
def history(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Turns of Claude, DeepSeek and Gemini in one conversation, as an Anthropic client keeps them."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    number = 0
    blocks: list[dict[str, Any]]
    for maker in draw(st.lists(st.sampled_from(["claude", "deepseek", "gemini"]), max_size=4)):
        for _ in range(draw(st.integers(0, 2))):
            blocks = []
            if maker == "claude":
                blocks.append(draw(st.sampled_from([{"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                                                    {"type": "redacted_thinking", "data": "ZGF0"}])))
            elif maker == "deepseek":
                blocks.append({"type": "thinking", "thinking": "hm", "signature": foreign(draw)})
            elif draw(st.booleans()):
                blocks.append({"type": "text", "text": "let me see"})
            ids = []
            for _ in range(draw(st.integers(1, 2))):
                number += 1
                ids.append(embed_in_id(f"toolu_{number}", Signature("Z2Vt", "gem1") if maker == "gemini" else None))
            blocks += [{"type": "tool_use", "id": id, "name": "read", "input": {}} for id in ids]
            messages.append({"role": "assistant", "content": blocks})
            results: list[dict[str, Any]] = [{"type": "tool_result", "tool_use_id": id, "content": "r"} for id in ids]
            if draw(st.booleans()):
                results.append({"type": "text", "text": "<system-reminder>"})
            messages.append({"role": "user", "content": results})
        if draw(st.booleans()):
            blocks = [] if maker == "claude" else [draw(st.sampled_from([
                {"type": "thinking", "thinking": "hm", "signature": foreign(draw)},
                {"type": "redacted_thinking", "data": embed_in_text(Signature("{}", "abce"))}]))]
            alone = bool(blocks) and draw(st.booleans())
            messages += [{"role": "assistant", "content": blocks if alone else [*blocks, {
                "type": "text", "text": "done"}]}, {"role": "user", "content": "go on"}]
    return messages


@given(history(), st.sampled_from([None, {"type": "enabled", "budget_tokens": 1024}]),
       st.sampled_from(["claude-sonnet-4-5", "claude-opus-4-6"]))
def test_p10_after_any_failover_anthropic_takes_the_history(messages: list[dict[str, Any]], wish: Any,
                                                            model: str) -> None:
    talk = Translation("anthropic", "anthropic", model, url=URLS["anthropic"])
    body = body_of("anthropic", model=model, messages=messages, tools=[READ], thinking=wish, max_tokens=4000)
    request = talk.request(body)
    assert refusal(json.loads(request.body), request.headers) is None
    assert b"_xs1_" not in request.body
    assert b"xs1." not in request.body
    again = Translation("anthropic", "anthropic", model, url=URLS["anthropic"]).request(body)
    assert again == request, "rule 6"
    kept = [block for message in json.loads(request.body)["messages"] for block in message["content"]
            if isinstance(block, dict)]
    given = [block for message in messages for block in message["content"] if isinstance(block, dict)]
    own = [block for block in given if block.get("signature") == "c2ln" or block.get("data") == "ZGF0"]
    assert [block for block in kept if block["type"] in ("thinking", "redacted_thinking")] == own, "its own stays"
    assert sum(block["type"] == "tool_use" for block in kept) == sum(block["type"] == "tool_use" for block in given)
