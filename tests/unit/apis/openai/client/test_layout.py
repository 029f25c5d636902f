"""The position of thinking in an assistant message of the history, also when the client changed the message."""

from __future__ import annotations

from typing import Any

import pytest

from extproc.apis.openai.client.messages import order_blocks
from extproc.apis.openai.client.signatures import BlockPosition, PendingSignatures, PositionedThinking, position_of_id
from extproc.conversation.model import Block, Text, Thinking, ToolCall, ToolCallStart
from extproc.conversation.signatures import extract_from_id


def signed(name: str, place: tuple[int, int] | None = None, text: str = "t") -> PositionedThinking:
    return PositionedThinking(Thinking(text, signature=name), None if place is None else BlockPosition(*place))


def called(name: str, *before: tuple[str, int]) -> ToolCall:
    """A call with these signatures embedded in its id, each after so many characters of text."""
    pending = PendingSignatures()
    for signature, characters in before:
        pending.add(Thinking("", signature=signature), characters)
    call_id, signature = extract_from_id(pending.id_with_signature(ToolCallStart(name, "f")))
    return ToolCall(call_id, "f", "{}", signature=signature)


def shown(blocks: list[Block]) -> list[str]:
    """Signatures, quoted texts and ids of calls."""
    return [repr(block.text) if isinstance(block, Text) else block.id if isinstance(block, ToolCall)
            else f"{block.signature}:{block.text}" if isinstance(block, Thinking) else "?" for block in blocks]


AB: list[Block] = [Text("aabb", cache=True)]


@pytest.mark.parametrize(("thoughts", "content", "calls", "expected"), [
    ([], AB, [called("x")], ["'aabb'", "x"]),
    ([signed("S")], AB, [called("x")], ["S:t", "'aabb'", "x"]),
    ([signed("S", (0, 0)), signed("T", (0, 2))], AB, [called("x")], ["S:t", "'aa'", "T:t", "'bb'", "x"]),
    ([signed("S", (0, 0)), signed("T", (1, 4))], AB, [called("x"), called("y")], ["S:t", "'aabb'", "x", "T:t", "y"]),
    ([], AB, [called("x", ("S", 0), ("T", 2)), called("y", ("U", 4))],
     ["S:", "'aa'", "T:", "'bb'", "x", "U:", "y"]),
    # the id gives the position of thinking that came back without one, and is no second copy
    ([signed("S"), signed("T")], AB, [called("x", ("S", 0)), called("y", ("T", 4))],
     ["S:t", "'aabb'", "x", "T:t", "y"]),
    # the client shortened the text, or left calls out
    ([signed("S", (0, 2)), signed("T", (0, 90))], [Text("a")], [called("x")], ["'a'", "S:t", "T:t", "x"]),
    ([signed("S", (0, 0)), signed("T", (3, 0))], AB, [called("x")], ["S:t", "'aabb'", "x", "T:t"]),
    ([signed("S", (1, 0)), signed("T", (2, 2))], AB, [], ["S:t", "'aa'", "T:t", "'bb'"]),
    # one plain reasoning text and one signature belong together; with several the owner is unknown
    ([PositionedThinking(Thinking("plain"))], AB, [called("x", ("S", 0))], ["S:plain", "'aabb'", "x"]),
    ([PositionedThinking(Thinking("plain"))], AB, [called("x"), called("y", ("S", 4))],
     ["'aabb'", "x", "S:plain", "y"]),
    ([PositionedThinking(Thinking("plain"))], AB, [called("x", ("S", 0)), called("y", ("T", 4))],
     ["None:plain", "S:", "'aabb'", "x", "T:", "y"]),
    ([], [Thinking("inline"), *AB], [called("x", ("S", 0))], ["S:inline", "'aabb'", "x"]),
])
def test_p10_thinking_returns_to_its_position(thoughts: list[PositionedThinking], content: list[Block],
                                            calls: list[ToolCall],
                                            expected: list[str]) -> None:
    blocks = order_blocks(thoughts, content, calls)
    assert shown(blocks) == expected
    assert not any(isinstance(block, ToolCall) and block.signature for block in blocks)
    texts = [block for block in blocks if isinstance(block, Text)]
    assert "".join(block.text for block in texts) == "".join(b.text for b in content if isinstance(b, Text))
    assert [block.cache for block in texts].count(True) == sum(b.cache for b in content if isinstance(b, Text))


@pytest.mark.parametrize(("item_id", "place"), [
    (BlockPosition(2, 7).item_id(0), BlockPosition(2, 7)), ("rs_abc", None), ("thought-1-2", None),
    ("thought-1-2-x", None), ("thought-1-2-99999999999", None), (None, None)])
def test_the_position_in_the_id_of_an_item(item_id: str | None, place: Any) -> None:
    assert position_of_id(item_id) == place
