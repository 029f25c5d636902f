"""Tool loops of an OpenAI client with a Claude that thinks between texts and calls (P10). Whatever the client echoes,
Anthropic takes each request, no signature is invented, and thinking that came back whole keeps its position.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.translation.exchange import Translation
from tests.providers.anthropic_rules import refusal
from tests.unit.apis.anthropic.provider.helpers import stream, thinking, tool_use
from tests.unit.apis.openai.client.helpers import accumulated

TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {
    "a": {"type": "string"}}}}} for name in ("read.file", "write")]
MODELS = ["claude-haiku-4-5", "claude-sonnet-4-6", "claude-opus-4-8", "claude-fable-5-1"]


def thought(number: int) -> list[dict[str, Any]]:
    return thinking(f" thought {number}\n", f"c2ln{number:04d}")


def secret(number: int) -> list[dict[str, Any]]:
    return [{"type": "redacted_thinking", "data": f"cmVk{number:04d}"}]


def tool_use_block(number: int, name: str = "write") -> list[dict[str, Any]]:
    return tool_use(f"toolu_{number}", name, f'{{"a":"{number}"}}')


ANSWERS: list[list[Any]] = [
    [thought(1), "Look. ", tool_use_block(1, "read_file"), tool_use_block(2)],
    [thought(2), "First. ", thought(3), "Sécond. ", tool_use_block(3)],
    [thought(4), tool_use_block(4, "read_file"), thought(5), tool_use_block(5)],
    [secret(1), thought(6), tool_use_block(6)],
    [thought(7), "Done. ", thought(8), "Really."],
]
"""Steps of one turn."""


def whole_block(block: Any) -> dict[str, Any]:
    """A block of a response as it appears in the next request."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    whole: dict[str, Any] = dict(block[0])
    for delta in block[1:]:
        if "partial_json" in delta:
            whole["input"] = json.loads(delta["partial_json"])
        whole.update({name: delta[name] for name in ("thinking", "signature") if name in delta})
    return whole


def kept(*names: str, cut: int | None = None, rewritten: bool = False) -> Any:
    """A client that echoes these fields, truncates ids to the length `cut`, or replaces ids."""
    def echo(message: dict[str, Any]) -> dict[str, Any]:
        names_kept = ("role", "content", "tool_calls", *names)
        echoed = {name: message[name] for name in names_kept if message.get(name) is not None}
        for call in echoed.get("tool_calls", ()):
            call["id"] = f"call_{call['function']['arguments'][6]}" if rewritten else call["id"][:cut]
        return echoed
    return echo


CLIENTS = {
    "all": kept("reasoning_content", "reasoning_details"),
    "details": kept("reasoning_details"),
    "details, new ids": kept("reasoning_details", rewritten=True),
    "text": kept("reasoning_content"),
    "ids": kept(),
    "cut ids": kept(cut=40),
    "new ids": kept(rewritten=True),
}
TELL_ALL = ("all", "details", "details, new ids")


def send_messages(messages: list[dict[str, Any]], model: str, *, streamed: bool) -> tuple[Translation, dict[str, Any]]:
    talk = Translation("openai", "anthropic", model, url="https://api.anthropic.com/v1")
    request = talk.request(json.dumps({"model": "m", "messages": messages, "tools": TOOLS, "stream": streamed,
                                       "reasoning_effort": "high"}).encode())
    body: dict[str, Any] = json.loads(request.body)
    assert refusal(body, request.headers) is None
    return talk, body


def client_message(talk: Translation, blocks: list[Any], *, streamed: bool) -> dict[str, Any]:
    calls = any(block[0]["type"] == "tool_use" for block in blocks if not isinstance(block, str))
    talk.start(200, {"content-type": "text/event-stream"})
    out = talk.feed(stream(*blocks, stop="tool_use" if calls else "end_turn")) + talk.finish()
    message: dict[str, Any] = accumulated(out) if streamed else json.loads(out)["choices"][0]["message"]
    return message


def assert_nothing_invented(body: dict[str, Any]) -> None:
    issued = {block.get("signature") or block.get("data"): block for answer in ANSWERS
              for block in map(whole_block, answer) if block["type"] in ("thinking", "redacted_thinking")}
    for message in body["messages"]:
        for block in message["content"]:
            if block["type"] in ("thinking", "redacted_thinking"):
                original = issued[block.get("signature") or block.get("data")]
                assert block.get("thinking") in ("", original.get("thinking"))


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("client", CLIENTS)
def test_p10_anthropic_takes_every_step_of_a_loop(client: str, model: str, streamed: bool) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for blocks in ANSWERS:
        talk, body = send_messages(messages, model, streamed=streamed)
        assert_nothing_invented(body)
        echoed = CLIENTS[client](client_message(talk, blocks, streamed=streamed))
        messages.append({"role": "assistant", **echoed})
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": "r"}
                     for call in echoed.get("tool_calls", ())]
    _, body = send_messages([*messages, {"role": "user", "content": "more"}], model, streamed=streamed)
    assert_nothing_invented(body)
    turns = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
    if client in TELL_ALL:
        without_ids = [[{**block, "id": ""} if "id" in block else block for block in content] for content in turns]
        assert without_ids == [[{**block, "id": ""} if "id" in block else block for block in map(whole_block, blocks)]
                        for blocks in ANSWERS]
    elif client in ("text", "ids"):  # blocks before a call were embedded in its id
        assert [[block["signature"] for block in content if block["type"] == "thinking"] for content in turns[:4]] == [
            ["c2ln0001"], ["c2ln0002", "c2ln0003"], ["c2ln0004", "c2ln0005"], ["c2ln0006"]]
    elif client == "new ids":
        assert not any(block["type"] == "thinking" for content in turns for block in content)


def test_p10_adjacent_thinking_blocks_are_not_sent() -> None:
    """A client that puts all thinking first, behind a gateway that does not record its position."""
    details = [{"type": "reasoning.text", "text": str(n), "signature": f"c2ln000{n}", "format": "anthropic-claude-v1",
                "index": n} for n in (1, 2)]
    call = {"id": "call_1", "type": "function", "function": {"name": "write", "arguments": "{}"}}
    talk, body = send_messages([{"role": "user", "content": "go"},
                        {"role": "assistant", "content": "Look.", "reasoning_details": details, "tool_calls": [call]},
                        {"role": "tool", "tool_call_id": "call_1", "content": "r"}], MODELS[0], streamed=False)
    assert [block["type"] for block in body["messages"][1]["content"]] == ["thinking", "text", "tool_use"]
    assert body["messages"][1]["content"][0]["signature"] == "c2ln0002"
    assert "messages.thinking" in talk.dropped.hints
