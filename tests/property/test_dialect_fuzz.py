"""Hostile text through every reader: no exception, the same bytes for any cut, the client's grammar, nothing invented,
nothing held back for good, and a cost that grows with the text and no faster."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.apis.anthropic.client.grammar import check
from extproc.bounds import Limits
from extproc.conversation.model import Message, Request, Text, TextDelta, Tool, ToolCall, ToolResult
from extproc.conversation.sequencer import BlockSequencer
from extproc.conversation.unsupported import Dropped
from extproc.dialects.registry import DIALECTS, find_scan_plan
from extproc.dialects.scanner import Scanner
from extproc.dialects.writing import WRITABLE, write
from extproc.translation.exchange import Translation
from tests.model_text.dialect_writers import TAGGED, WRITERS
from tests.model_text.exchange import request_body, sse_bytes, text_chunks, tool

TOOLS = [
    tool("read", path="string", lines="array", tries="integer"),
    tool("ping")]
TOOL_MAP = {entry["function"]["name"]: Tool(entry["function"]["name"], None, entry["function"]["parameters"])
            for entry in TOOLS}
NAMES = [*sorted(DIALECTS), None]
"""None: a model that nobody knows."""

FORMS = [form for dialect in DIALECTS.values() for form in (
    *dialect.forms, *dialect.loose, *dialect.frames, *dialect.opening_forms,
    *(form for make in (*dialect.factories, *dialect.unknown_factories) for form in make(TOOL_MAP)))]
OPENERS = sorted({opener for form in FORMS for opener in form.openers})
THINK = sorted({tag for dialect in DIALECTS.values() for pair in dialect.think for tag in pair})
NOISE = sorted({token for dialect in DIALECTS.values() for token in dialect.template_tokens})
BODIES = [
    '{"name": "read", "arguments": {"path": "a', '"}}', '{"name": "ping", "arguments": {}}', '"arguments"',
    "read", "ping", "functions.read:0", ".read:1", "path", ">", "/>", " ", "\n", "\r\n", "\n\n", "{", "}", "[", "]",
    "(", ")", ",", ":", "=", '"', "'", "\\", "\\u00", '\\"', "null", "tru", "1e", "-", "```", "```json\n", "~~~",
    "`",
    "</tool_call>", "</function>", "<parameter=path>", "</parameter>", '<parameter name="path">',
    '<invoke name="read">',
    "</invoke>", '<tool_call name="read">', "<![CDATA[", "]]>", "<arg_key>", "</arg_key>", "<arg_value>",
    "</arg_value>", "<path>", "</path>", "<read>", "</read>", "<|tool_call_argument_begin|>", "<|tool_call_end|>",
    "<|tool_calls_section_end|>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>", "<|message|>",
    "<|channel|>", "commentary to=functions.read", "<|call|>", "<|im_end|>", "[/TOOL_CALLS]", "[ARGS]", "</function",
    "日本", "😀", "\u2028", "\ufeff", "\x00", "a", "Well.",
    "\\ud83d", "\\ude00", "\\ud83d\\u", "0x" + "f" * 4000, "9" * 4400, "1e999", "[" * 600, '{"a":' * 600,
    "<|from|>assistant\n<|recipient|>",
]
PIECES = st.one_of(st.sampled_from(OPENERS), st.sampled_from(BODIES), st.sampled_from(THINK + NOISE),
                   st.sampled_from(OPENERS).flatmap(lambda mark: st.integers(1, len(mark)).map(lambda n: mark[:n])),
                   st.text(max_size=3))
TEXTS = st.lists(PIECES, max_size=14).map("".join)

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read", {"path": "a b", "lines": [1, {"x": "y"}], "tries": 3}), ("ping", {})]


def seed(name: str | None) -> list[str]:
    """Undamaged responses with two calls in the dialect."""
    writer = WRITERS.get(name or "") or TAGGED.get(name or "")
    if writer is not None:
        return [writer(CALLS)]
    blocks = [ToolCall(f"c{number}", called, json.dumps(arguments)) for number, (called, arguments) in enumerate(CALLS)]
    request = Request(model="m", tools=[*TOOL_MAP.values()], messages=[
        Message("assistant", [Text("Well."), *blocks]), Message("user", [ToolResult(one.id, []) for one in blocks])])
    forms = [name] if name is not None else sorted(WRITABLE)
    texts = [write(request, form, dropped=Dropped(), parallel=None, max_tools=64).messages[0].content[0]
             for form in forms if form in WRITABLE]
    return [block.text for block in texts if isinstance(block, Text)]


SEEDS = {name: seed(name) for name in NAMES}


@st.composite
def damaged(draw: st.DrawFn, name: str | None) -> str:
    """A response with up to four damaged places, between texts and reasoning."""
    text: str = draw(st.sampled_from(SEEDS[name]))
    if draw(st.booleans()):
        text = draw(TEXTS) + text + draw(TEXTS)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(text)))
        end = min(len(text), at + draw(st.integers(0, 9)))
        kind = draw(st.sampled_from(["lose", "add", "repeat", "stop"]))
        if kind == "lose":
            text = text[:at] + text[end:]
        elif kind == "add":
            text = text[:at] + draw(PIECES) + text[at:]
        elif kind == "repeat":
            text = text[:end] + text[at:]
        else:
            text = text[:max(at, 12)]
    return text


def translated(name: str | None, stream: bytes, cuts: list[int], repairs: list[str] | None = None,
               **options: Any) -> bytes:
    """What the client gets; `cuts` are places in the provider's bytes. `repairs` takes what was repaired."""
    exchange = Translation("anthropic", "openai", "nobody/knows-it", dialect=name, **options)
    exchange.request(request_body(TOOLS))
    exchange.start(200, {"content-type": "text/event-stream"})
    at = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    out = b"".join(exchange.feed(stream[a:b]) for a, b in itertools.pairwise(at)) + exchange.finish()
    if repairs is not None:
        repairs += [repair.reason for repair in exchange.repairs]
    return out


def events_of(out: bytes) -> list[dict[str, Any]]:
    return [json.loads(block.split("data: ", 1)[1]) for block in out.decode().split("\n\n") if block]


def joined(events: list[dict[str, Any]], kind: str) -> str:
    return "".join(event["delta"][kind] for event in events
                   if event["type"] == "content_block_delta" and kind in event["delta"])


def is_part(text: str, of: str) -> bool:
    """Whether `text` is a subsequence."""
    rest = iter(of)
    return all(char in rest for char in text)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data(), finish=st.sampled_from(["stop", "stop", "length", "tool_calls"]),
       field=st.sampled_from(["content", "content", "reasoning_content"]), open_=st.booleans(),
       mode=st.sampled_from(["repair", "repair", "as-is", "strict"]), cuts=st.lists(st.integers(0, 9999), max_size=6))
@settings(max_examples=25, deadline=None)
def test_hostile_text(name, data, finish, field, open_, mode, cuts):
    text = data.draw(st.one_of(damaged(name), TEXTS) if SEEDS[name] else TEXTS, "text")
    options = {"arguments": mode, "reasoning_open": open_}
    whole = sse_bytes(text_chunks([text], finish, field))
    repairs: list[str] = []
    out = translated(name, whole, [], repairs, **options)
    events = events_of(out)
    check(events)
    if mode == "repair" and "unreadable" not in repairs and '"stop_reason":"tool_use"' in out.decode():
        for arguments in closed_calls(events):
            assert isinstance(json.loads(arguments or "{}"), dict)
    assert is_part(joined(events, "text"), text) or not joined(events, "text").strip()
    assert is_part(joined(events, "thinking").replace("\n", ""), text), "but for the newline between two reasonings"
    assert translated(name, whole, cuts, **options) == out, "a cut of the bytes"
    pieces = events_of(translated(name, sse_bytes(text_chunks(list(text), finish, field)), [], **options))
    check(pieces)
    assert summary(pieces) == summary(events), "a cut of the text"


def closed_calls(events: list[dict[str, Any]]) -> list[str]:
    """The arguments of every call that is presented as complete."""
    found: dict[int, str] = {}
    closed: list[str] = []
    for event in events:
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            found[event["index"]] = ""
        elif event["type"] == "content_block_delta" and event["index"] in found:
            found[event["index"]] += event["delta"]["partial_json"]
        elif event["type"] == "content_block_stop" and event["index"] in found:
            closed.append(found[event["index"]])
    return closed


def summary(events: list[dict[str, Any]]) -> Any:
    """What a client makes of the events: blocks with their text joined, the end."""
    blocks: list[list[Any]] = []
    for event in events:
        if event["type"] == "content_block_start":
            block = event["content_block"]
            blocks.append([block["type"], block.get("name"), ""])
        elif event["type"] == "content_block_delta":
            blocks[-1][2] += next((value for key, value in event["delta"].items()
                                   if key in ("text", "thinking", "partial_json")), "")
    return blocks, [event["type"] for event in events[-2:] if event["type"] != "content_block_delta"], [
        event["delta"]["stop_reason"] for event in events if event["type"] == "message_delta"]


# --------------------------------------------------------------------------------------------------- long hostile texts

BEHIND = ["", '{"name": "', '{"name": "read", "arguments": {"path": "', "read", ' name="read">', "[", "\n"]
HOSTILE = ["[", "{", "<", "```\n", "<think>", " ", "\n", '"', "a", "<tool_call", "`<tool_call>", "`<tool_call>\n",
           *(opener + body for opener in sorted({form.openers[0] for form in FORMS}) for body in BEHIND)]
"""One opener of each form: the others lead to the same code."""


def scanned(text: str, chunk: int, limit: int) -> tuple[str, str]:
    """The visible text that came out before the end, and all of it. `limit`: characters that may be held back."""
    sequencer = BlockSequencer(lambda number, _: f"c{number}", str, frozenset(TOOL_MAP), limit)
    look = find_scan_plan("nobody/knows-it", tools=True)
    assert look is not None
    scanner = Scanner(look, sequencer, TOOL_MAP, limits=Limits(held_back=limit))
    for at in range(0, len(text), chunk):
        scanner.feed_content(text[at:at + chunk])
    before = visible(sequencer)
    scanner.finish(clean=True)
    sequencer.flush(clean=True)
    return before, before + visible(sequencer)


def visible(sequencer: BlockSequencer) -> str:
    return "".join(event.text for event in sequencer.take_events() if isinstance(event, TextDelta))


def test_what_waits_is_bounded():
    limit = 1024
    for unit in HOSTILE:
        text = (unit * (4 * limit // len(unit) + 1))[:4 * limit]
        before, whole = scanned(text, limit, limit)
        assert len(whole) - len(before) <= 2 * limit + 512, unit


def steps(work: Callable[[], object]) -> int:
    """Calls of functions, of Python's own too."""
    count = 0

    def note(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_the_cost_is_linear():
    """Three times the text takes about three times the steps, also if its end shows that all of it is text."""
    for unit, end in itertools.product(HOSTILE, ["", " x y\n\n{"]):
        def cost(size: int, unit: str = unit, end: str = end) -> int:
            text = unit * (size // len(unit)) + end
            return steps(lambda: scanned(text, 64, 4096))

        small, large = cost(500), cost(1500)
        assert large <= 5 * small + 1000, (unit, end, small, large)
