"""Requests of growing size through one side: CPU of the processor over both hops, CPU of Envoy, time to a first token.

A request is a conversation as coding clients send them: tools, then turns of a call and its result of some kilobytes.
"""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.bench.load import Side, one_by_one, opened
from tests.bench.processes import busy_since, cpu_seconds, machine_ticks
from tests.bench.sides import Running
from tests.bench.streams import warm

SIZES = (4_000, 40_000, 400_000, 4_000_000, 10_000_000)
_RESULT = 'def handler(event):\n    return {"status": "ok", "items": [1, 2]}\n'
_TURN, _CALL, _TOOLS = 6_000, 315, 1_932
"""Bytes of JSON: of a turn at least, of what of it is not the text of its result, of all that is not turns."""


@dataclass
class Cost:
    """Milliseconds."""

    size: int
    processor: float
    envoy: float
    first: float


def conversation(size: int) -> dict[str, object]:
    """Ten tools and turns of a call and its result, at least one: about `size` bytes of JSON."""
    schema = {"type": "object", "properties": {"path": {"type": "string", "description": "The file."}},
              "required": ["path"]}
    messages: list[dict[str, object]] = [{"role": "user", "content": "go"}]
    turns = max((size - _TOOLS) // _TURN, 1)
    lines, rest = divmod((size - _TOOLS) // turns - _CALL, len(json.dumps(_RESULT)) - 2)
    text = _RESULT * lines + "#" * rest
    for number in range(turns):
        id = f"toolu_{number:024d}"
        messages += [
            {"role": "assistant", "content": [{"type": "text", "text": "I read it."}, {
                "type": "tool_use", "id": id, "name": "read_0", "input": {"path": f"/src/file-{number}.py"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]}]
    tools = [{"name": f"read_{number}", "description": "Reads a file.", "input_schema": schema} for number in range(10)]
    return {"messages": messages, "tools": tools}


async def measure(running: Running, size: int, count: int) -> Cost:
    body = conversation(size)
    await one_by_one(running.side, 2, body)
    groups = (running.processor, running.envoy)
    before = [cpu_seconds(pids) for pids in groups]
    answered = await one_by_one(running.side, count, body)
    spent = [(cpu_seconds(pids) - then) * 1e3 / count for pids, then in zip(groups, before, strict=True)]
    return Cost(size, spent[0], spent[1], statistics.median(one.first for one in answered) * 1e3)


@dataclass
class First:
    """Milliseconds until the first token of short requests, one after the other, sorted; and of the same requests to a
    plain Envoy that took turns with it, since a machine's speed changes from minute to minute."""

    times: list[float]
    plain: list[float]
    beside: float = 0
    """Events a second that ran through the side meanwhile."""
    busy: float = 0
    """The part of all CPUs that was busy, with the load."""


_TURN_OF_EACH = 50
_STREAMS = 100
"""That carry the events beside."""
_SECONDS, _TRIES = 1.5, 6
_HALF, _NEAR = 0.5, 0.03
"""Of all CPUs, and how far from it is near enough."""


@asynccontextmanager
async def _load(side: Side, rate: float) -> AsyncIterator[None]:
    """So many events a second run through this side meanwhile."""
    streams = await opened(side, f"steady-{rate / _STREAMS:g}", _STREAMS, lambda _: None) if rate else []
    try:
        yield
    finally:
        for stream in streams:
            stream.close()


async def half_load(side: Side) -> float:
    """So many events a second keep half of the machine's CPUs busy, with the load that runs on them too. Found step by
    step, from below."""
    await warm(side)
    rate = 1000.0
    for _ in range(_TRIES):
        async with _load(side, rate):
            await asyncio.sleep(_SECONDS / 3)
            before = machine_ticks()
            await asyncio.sleep(_SECONDS)
            busy = busy_since(before)
        await asyncio.sleep(0.3)
        if abs(busy - _HALF) < _NEAR:
            break
        rate *= min(max(_HALF / busy, 0.5), 2.0)
    return rate


async def first_tokens(running: Running, plain: Running, count: int, beside: float = 0) -> First:
    """`beside`: so many events a second run through this side meanwhile."""
    found = First([], [])
    turns = ((running.side, found.times), (plain.side, found.plain))
    for side, _ in turns:
        await one_by_one(side, 10)
    async with _load(running.side, beside):
        before = machine_ticks()
        while len(found.times) < count:
            for side, times in turns:
                answered = await one_by_one(side, _TURN_OF_EACH, model="spoken")
                times += [one.first * 1e3 for one in answered[1:]]  # the first one finds everything cold after the turn
        return First(sorted(found.times), sorted(found.plain), beside, busy_since(before))
