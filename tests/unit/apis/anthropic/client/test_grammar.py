"""The checker of the event grammar rejects every violation: each rule of the table is broken once."""

from __future__ import annotations

import pytest

from extproc.apis.anthropic.client import grammar

START = {"type": "message_start", "message": {}}
END = [{"type": "message_delta", "delta": {}}, {"type": "message_stop"}]
PING = {"type": "ping"}
ERROR = {"type": "error", "error": {}}


def block_start(kind: str, index: int = 0) -> dict[str, object]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind}}


def delta(kind: str, index: int = 0) -> dict[str, object]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind}}


def stop(index: int = 0) -> dict[str, object]:
    return {"type": "content_block_stop", "index": index}


@pytest.mark.parametrize("events", [
    [START, *END],
    [START, PING, block_start("text"), PING, delta("text_delta"), stop(), PING, *END],
    [START, block_start("thinking"), delta("thinking_delta"), delta("signature_delta"), stop(),
     block_start("tool_use", 1), delta("input_json_delta", 1), stop(1), *END],
    [START, block_start("web_search_tool_result"), stop(), END[0], END[0], END[1]],
    [ERROR],
    [START, block_start("text"), ERROR],
])
def test_legal(events: list[dict[str, object]]) -> None:
    grammar.check(events)


@pytest.mark.parametrize("events", [
    [],
    [PING, START, *END],
    [START],
    [START, START, *END],
    [START, END[1]],
    [START, *END, PING],
    [START, ERROR, PING],
    [START, block_start("text"), *END],
    [START, block_start("text"), block_start("text", 1), stop(1), stop(0), *END],
    [START, block_start("text", 1), stop(1), *END],
    [START, block_start("text"), delta("text_delta", 1), stop(), *END],
    [START, block_start("text"), delta("thinking_delta"), stop(), *END],
    [START, block_start("thinking"), delta("signature_delta"), delta("thinking_delta"), stop(), *END],
    [START, block_start("thinking"), delta("signature_delta"), delta("signature_delta"), stop(), *END],
    [START, block_start("redacted_thinking"), delta("text_delta"), stop(), *END],
    [START, {"type": "content_block_delta", "index": 0}, *END],
    [START, END[0], block_start("text"), stop(), END[1]],
    [START, {"type": "surprise"}, *END],
])
def test_illegal(events: list[dict[str, object]]) -> None:
    with pytest.raises(grammar.GrammarError):
        grammar.check(events)


def test_an_unfinished_stream_may_stop_anywhere() -> None:
    grammar.check([START, block_start("text")], whole=False)
