"""Helpers that let tests read as conversations: provider chunks in, one line per event out."""

from __future__ import annotations

import json
from collections.abc import Iterable

from extproc.apis.base import DecodeContext
from extproc.bounds import Limits
from extproc.conversation.ids import IdMinter
from extproc.conversation.model import (
    ArgumentsDelta,
    BlockStop,
    Event,
    Finish,
    RedactedThinking,
    Request,
    SignatureDelta,
    Start,
    TextDelta,
    TextStart,
    ThinkingDelta,
    ThinkingStart,
    ToolCallStart,
)
from extproc.conversation.tool_names import NameMap
from extproc.errors import Failure
from extproc.profiles import find_profile
from extproc.profiles.target import Target


def context(tools: Iterable[str] = ("lookup_tide", "ping", "save_file"), *, stop: list[str] | None = None,
            seen: set[str] | None = None, limits: Limits | None = None) -> DecodeContext:
    names = {name: name for name in tools}
    minter = IdMinter(b"digest", seen or set())
    return DecodeContext(
        request=Request(model="m", messages=[], stop=stop or []),
        target=Target(model="m", profile=find_profile(None, None, "m")),
        names=NameMap(names, names), mint_id=minter.mint, accept_id=minter.accept,
        prompt_estimate=lambda: 42, limits=limits or Limits())


def sse(*chunks: object, done: bool = True) -> bytes:
    """Chunks as a Chat Completions stream; strings go out as they are."""
    parts = [chunk if isinstance(chunk, str) else json.dumps(chunk, ensure_ascii=False) for chunk in chunks]
    return "".join(f"data: {part}\n\n" for part in [*parts, *(["[DONE]"] if done else [])]).encode()


def delta(finish: str | None = None, **fields: object) -> dict[str, object]:
    return {"id": "gen-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(index: int | None = 0, id: str | None = None, name: str | None = None,
         arguments: object = None) -> dict[str, object]:
    function: dict[str, object] = {}
    if name is not None:
        function["name"] = name
    if arguments is not None:
        function["arguments"] = arguments
    out: dict[str, object] = {"function": function}
    if index is not None:
        out["index"] = index
    if id is not None:
        out["id"] = id
    return out


def script(events: Iterable[Event], *, merge: bool = True) -> list[str]:
    """One line per event: `text: ...`, `call lookup_tide`, `args: {...}`, `stop`, `finish tool_calls`... Adjacent
    deltas are one line unless `merge` is off. The ids of calls are left out (see `call_ids`)."""
    lines: list[str] = []
    for event in events:
        line = _line(event)
        prefix = line.split(" ", 1)[0]
        if merge and lines and prefix in ("text:", "think:", "args:") and lines[-1].startswith(prefix):
            lines[-1] += line[len(prefix) + 1:]
        else:
            lines.append(line)
    return lines


def call_ids(events: Iterable[Event]) -> list[str]:
    return [event.id for event in events if isinstance(event, ToolCallStart)]


def _line(event: Event) -> str:
    match event:
        case Start():
            return "start"
        case TextStart():
            return "text"
        case TextDelta(text):
            return f"text: {text}"
        case ThinkingStart():
            return "think"
        case ThinkingDelta(text):
            return f"think: {text}"
        case SignatureDelta(signature):
            return f"signature {signature}"
        case RedactedThinking(data):
            return f"redacted {data}"
        case ToolCallStart(_, name):
            return f"call {name}"
        case ArgumentsDelta(text):
            return f"args: {text}"
        case BlockStop():
            return "stop"
        case Finish(reason, _, stop_sequence):
            return f"finish {reason}" + (f" {stop_sequence}" if stop_sequence else "")
        case Failure(kind):
            return f"failure {kind}"
