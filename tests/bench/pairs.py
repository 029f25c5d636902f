"""The Responses API on either side: CPU and bytecodes of one streamed event, compared to a Messages client at a
provider of OpenAI's Chat Completions.

    python -m tests.bench.pairs

Every event comes in a feed of its own. Times are compared within one run: the pairs take turns, and the best round of
each counts. Bytecodes are the same on every machine; they leave out what C code does.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, NamedTuple

import extproc
from tests.bench import core


class Pair(NamedTuple):
    """A client API and a provider API."""

    client: str
    upstream: str


MESSAGES_TO_CHAT = Pair("anthropic", "openai")
"""The others are measured by it."""
PAIRS = (MESSAGES_TO_CHAT, Pair("responses", "openai"), Pair("anthropic", "responses"), Pair("responses", "responses"))
KINDS = ("text", "reasoning", "calls")
GOAL = 1.3
"""An event with the Responses API on one side costs at most this part of the same event of the first pair."""

_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
_REQUESTS = {
    "anthropic": json.dumps({**json.loads(core.REQUEST), "max_tokens": 4000,
                             "thinking": {"type": "enabled", "budget_tokens": 2000}}).encode(),
    "responses": json.dumps({
        "model": "claude", "stream": True, "store": False, "input": "hi", "reasoning": {"summary": "auto"},
        "tools": [{"type": "function", "name": "write", "strict": False, "parameters": _SCHEMA}]}).encode(),
}
_STEADY = 100
"""Events before the one whose bytecodes are counted: the interpreter has specialised its bytecodes by then."""


def events(upstream: str, kind: str, count: int) -> list[bytes]:
    """A response of `count` events: text, reasoning, or the arguments of one call."""
    if upstream == "openai":
        return _chunks(kind, count)
    item, event, place = _ITEMS[kind]
    head: list[dict[str, object]] = [
        {"type": "response.created", "response": {"id": "resp_1", "object": "response", "model": "bench"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item}]
    first = '{"text":"' if kind == "calls" else "In"
    deltas: list[dict[str, object]] = [
        {"type": event, "item_id": item["id"], "output_index": 0, **place, "delta": f"word{i % 10} " if i else first,
         "obfuscation": "x9Kq2"} for i in range(count - len(head))]
    return _numbered([*head, *deltas])


def _chunks(kind: str, count: int) -> list[bytes]:
    if kind == "reasoning":
        return [core.event({"reasoning_content": f" word{i % 10}"}) for i in range(count)]
    return core.text_events(count) if kind == "text" else core.call_events(count)


_ITEMS: dict[str, tuple[dict[str, object], str, dict[str, object]]] = {
    "text": ({"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []},
             "response.output_text.delta", {"content_index": 0, "logprobs": []}),
    "reasoning": ({"id": "rs_1", "type": "reasoning", "summary": []}, "response.reasoning_summary_text.delta",
                  {"summary_index": 0}),
    "calls": ({"id": "fc_1", "type": "function_call", "status": "in_progress", "name": "write", "call_id": "call_1",
               "arguments": ""}, "response.function_call_arguments.delta", {}),
}
"""For each kind: the item as it begins, the name of its delta event and the members of that event."""


def _numbered(values: Iterable[dict[str, object]]) -> list[bytes]:
    """As OpenAI writes them."""
    return [f"event: {value['type']}\ndata: {json.dumps({**value, 'sequence_number': number})}\n\n".encode()
            for number, value in enumerate(values)]


def microseconds_per_event(count: int, rounds: int = 5) -> dict[tuple[Pair, str], float]:
    """Process CPU time of each pair and kind: the best of `rounds`, in which the pairs take turns."""
    best: dict[tuple[Pair, str], float] = {}
    for kind in KINDS:
        streams = {upstream: events(upstream, kind, count) for _, upstream in PAIRS}
        for _ in range(rounds):
            for pair in PAIRS:
                spent = _run(pair, streams[pair.upstream]) * 1e6 / count
                best[pair, kind] = min(best.get((pair, kind), spent), spent)
    return best


def _run(pair: Pair, stream: list[bytes]) -> float:
    feed = _started(pair)
    started = time.process_time()
    written = sum(len(feed(one)) for one in stream)
    spent = time.process_time() - started
    if written < len(stream):
        raise RuntimeError("the translation wrote nothing")
    return spent


def _started(pair: Pair) -> Callable[[bytes], bytes]:
    """`feed` of an exchange whose response begins."""
    translation = extproc.Translation(client=pair.client, upstream=pair.upstream, model=core.NATIVE)
    translation.request(_REQUESTS[pair.client], {})
    translation.start(200, {"content-type": "text/event-stream"})
    return translation.feed


def bytecodes_per_event(pair: Pair, kind: str) -> int:
    """Of one event in the middle of a stream."""
    feed = _started(pair)
    *before, last = events(pair.upstream, kind, _STEADY)
    for event in before:
        feed(event)
    count = 0

    def trace(frame: FrameType, what: str, _argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += what == "opcode"
        return trace

    outer = sys.gettrace()
    sys.settrace(trace)
    try:
        feed(last)
    finally:
        sys.settrace(outer)
    return count


def main() -> None:
    spent = microseconds_per_event(20_000)
    print(f"{'pair':24} {'event':10} {'us':>6} {'ratio':>6} {'bytecodes':>10} {'ratio':>6}")
    for kind in KINDS:
        base = spent[MESSAGES_TO_CHAT, kind], bytecodes_per_event(MESSAGES_TO_CHAT, kind)
        for pair in PAIRS:
            micros, codes = spent[pair, kind], bytecodes_per_event(pair, kind)
            print(f"{' to '.join(pair):24} {kind:10} {micros:6.2f} {micros / base[0]:6.2f} {codes:10} "
                  f"{codes / base[1]:6.2f}")


if __name__ == "__main__":
    main()
