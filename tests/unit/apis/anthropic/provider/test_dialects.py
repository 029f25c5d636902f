"""Compatible endpoints serve models that write calls and reasoning as text: the scanner reads them here, too."""

from __future__ import annotations

import json

import pytest

from extproc.apis.anthropic.provider.response import AnthropicResponseDecoder
from extproc.conversation.model import Event, Request
from extproc.conversation.tool_names import NameMap
from extproc.translation.settings import Settings
from extproc.translation.tool_styles import CallReader
from tests.playbook import script
from tests.unit.apis.anthropic.provider.helpers import context, stream, target, text, thinking, tool, tool_use, user

KIMI = ('<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:0<|tool_call_argument_begin|>{"a": 1}'
        "<|tool_call_end|><|tool_calls_section_end|>")


def read(body: bytes, size: int) -> list[Event]:
    reading = CallReader(Settings(client="anthropic", upstream="anthropic", dialect="kimi-k2"))
    reading.prepare(Request(model="m", messages=[user("hi")], tools=[tool("ping")]), target("kimi-k2"),
                    NameMap({"ping": "ping"}, {"ping": "ping"}))
    decoder = AnthropicResponseDecoder(context(("ping",), "kimi-k2", endpoint="api.moonshot.ai",
                                             scanner=reading.scanner))
    return [one for at in range(0, len(body), size) for one in decoder.feed(body[at:at + size])] + decoder.finish()


@pytest.mark.parametrize("size", [1, 13, 10_000])
def test_calls_written_as_text(size: int) -> None:
    lines = script(read(stream(text("Ok." + KIMI, size=9)), size))
    assert lines == ["start", "text", "text: Ok.", "stop", "call ping", 'args: {"a": 1}', "stop", "finish tool_calls"]


@pytest.mark.parametrize("size", [1, 10_000])
def test_reasoning_keeps_its_end_and_its_signature(size: int) -> None:
    lines = script(read(stream(thinking("Hm. \n", "sig"), "ok", tool_use("t", "ping", "{}"), stop="tool_use"), size))
    signature = next(line for line in lines if line.startswith("signature"))
    assert signature.startswith("signature xs1.")
    lines.remove(signature)
    assert lines == ["start", "think", "think: Hm. \n", "stop", "text", "text: ok", "stop", "call ping", "args: {}",
                     "stop", "finish tool_calls"]


def test_a_whole_message_is_scanned_too() -> None:
    body = json.dumps({"id": "m", "type": "message", "role": "assistant", "model": "k", "stop_reason": "end_turn",
                       "content": [{"type": "text", "text": "Ok." + KIMI}]}).encode()
    assert script(read(body, len(body)))[-4:] == ["call ping", 'args: {"a": 1}', "stop", "finish tool_calls"]


def test_a_truncated_call_in_text_is_no_clean_end() -> None:
    body = stream(text(KIMI[:-60]), stop=None, end=False)
    assert script(read(body, 10_000))[-1] == "failure server"
