"""The order of events in a streamed response of the Messages API, as one table.

Rules of this file:
1. Every decision about which event may follow is in TABLE. The encoder and the checker both ask it.
2. Nothing here depends on bytes, indexes or the conversation model; only `check` reads decoded events.

The rules in the table:
- `message_start` is first. Blocks follow one another, one open at a time, then `message_delta` (once or more), then
  `message_stop`. Nothing follows `message_stop` or `error`.
- A delta belongs to the open block and has its type. A signature comes once, as the last delta of a thinking block.
- A block of encrypted thinking is complete at its start: no deltas.
- `ping` changes nothing and may come anywhere between `message_start` and the end.
- `error` may replace the rest at any point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

# States, named after the open block.
BEGIN: Final = "begin"
BETWEEN: Final = "between"
TEXT: Final = "text"
THINKING: Final = "thinking"
SIGNED: Final = "signed"
TOOL_USE: Final = "tool_use"
COMPLETE: Final = "complete"
CLOSING: Final = "closing"
END: Final = "end"

_ANYWHERE: Final = {"error": END}


def _open(state: str, deltas: Mapping[str, str]) -> dict[str, str]:
    return {**deltas, "stop": BETWEEN, "ping": state, **_ANYWHERE}


TABLE: Final[Mapping[str, Mapping[str, str]]] = {
    BEGIN: {"message_start": BETWEEN, **_ANYWHERE},
    BETWEEN: {"start text": TEXT, "start thinking": THINKING, "start tool_use": TOOL_USE, "start complete": COMPLETE,
              "message_delta": CLOSING, "ping": BETWEEN, **_ANYWHERE},
    TEXT: _open(TEXT, {"text_delta": TEXT}),
    THINKING: _open(THINKING, {"thinking_delta": THINKING, "signature_delta": SIGNED}),
    SIGNED: _open(SIGNED, {}),
    TOOL_USE: _open(TOOL_USE, {"input_json_delta": TOOL_USE}),
    COMPLETE: _open(COMPLETE, {}),
    CLOSING: {"message_delta": CLOSING, "message_stop": END, "ping": CLOSING, **_ANYWHERE},
    END: {},
}


class GrammarError(ValueError):
    """An event in a position where it is not allowed: a defect of the code that made the events, never of the
    provider."""


def step(state: str, symbol: str) -> str:
    """The state after `symbol`. Raises GrammarError."""
    try:
        return TABLE[state][symbol]
    except KeyError:
        raise GrammarError(f"{symbol!r} may not follow in the state {state!r}") from None


def check(events: Iterable[Mapping[str, object]], *, whole: bool = True) -> None:
    """Checks decoded events (the `data` objects of a stream): the table, consecutive block indexes, and the end of the
    stream (unless `whole` is false). Raises GrammarError."""
    state, index = BEGIN, -1
    for event in events:
        symbol = symbol_of(event)
        state = step(state, symbol)
        if symbol.startswith("start "):
            index += 1
        if "index" in event and event["index"] != index:
            raise GrammarError(f"index {event['index']!r} where block {index} is meant")
    if whole and state != END:
        raise GrammarError(f"the stream ends in the state {state!r}")


def symbol_of(event: Mapping[str, object]) -> str:
    """The symbol of the table for a decoded event."""
    kind = str(event.get("type"))
    if kind == "content_block_stop":
        return "stop"
    if kind == "content_block_delta":
        return str(_part(event, "delta").get("type"))
    if kind == "content_block_start":
        block = str(_part(event, "content_block").get("type"))
        return f"start {block}" if block in (TEXT, THINKING, TOOL_USE) else "start complete"
    return kind


def _part(event: Mapping[str, object], name: str) -> Mapping[str, object]:
    part = event.get(name)
    if not isinstance(part, Mapping):
        raise GrammarError(f"{event.get('type')!r} without {name!r}")
    return part
