"""An answer's bytes -> what it says, in words that all three client APIs share. Strict: what a client could not read
raises `Unreadable`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.wire import blocks_of, check_grammar


class Unreadable(Exception):  # noqa: N818 - says what it is
    """No client of this API could read it."""


@dataclass
class Said:
    """`finished`: it looks like a whole answer. `error`: the error event at its end."""

    text: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    stop: str = ""
    input: int = 0
    output: int = 0
    finished: bool = False
    error: Any = None


def read(client: str, body: bytes, *, streamed: bool, whole: bool) -> Said:
    """`whole`: the body ended cleanly; else only what is there of it is read."""
    try:
        if not streamed:
            return _whole(client, json.loads(body)) if whole else Said()
        events = _events(body, whole=whole)
        return {"anthropic": _anthropic, "openai": _openai, "events": _application}[client](events, whole)
    except (ValueError, KeyError, AssertionError, IndexError, TypeError, AttributeError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from None


def error_of(client: str, body: bytes) -> str:
    """The message of an error answer. Raises Unreadable for any other shape."""
    try:
        found = json.loads(body)
        assert client != "anthropic" or found["type"] == "error"
        assert found["error"]["type"]
        assert isinstance(found["error"]["message"], str)
        assert found["error"]["message"]
        return str(found["error"]["message"])
    except (ValueError, KeyError, AssertionError, TypeError) as error:
        raise Unreadable(f"not an error of {client}: {body[:200]!r} ({error!r})") from None


def _events(body: bytes, *, whole: bool) -> list[tuple[str, str]]:
    """(name, data); an unfinished one at the end is no event."""
    parts = body.decode("utf-8", "strict" if whole else "ignore").split("\n\n")
    assert not whole or parts[-1] == "", f"the stream ends inside an event: {parts[-1][:200]!r}"
    found = []
    for part in parts[:-1]:
        name, data = "", []
        for line in part.split("\n"):
            key, _, value = line.partition(":")
            if key == "event":
                name = value.strip()
            elif key == "data":
                data.append(value.removeprefix(" "))
            else:
                assert not key, f"a line that is no part of an event: {line[:200]!r}"
        if data:
            found.append((name, "\n".join(data)))
    return found


# ----------------------------------------------------------------------------------------------------------- Messages


def _anthropic(events: list[tuple[str, str]], whole: bool) -> Said:
    seen = [json.loads(data) for _, data in events]
    assert all(event["type"] == name for event, (name, _) in zip(seen, events, strict=True))
    said = Said()
    for event in seen:
        if event["type"] == "content_block_delta" and event["delta"]["type"] == "text_delta":
            said.text += event["delta"]["text"]
        usage = event["message"]["usage"] if event["type"] == "message_start" else event.get("usage") or {}
        said.input = usage.get("input_tokens") or said.input
        said.output = usage.get("output_tokens") or said.output
    if not whole:
        assert not any(event["type"] == "message_stop" for event in seen) or seen[-1]["type"] == "message_stop"
        said.finished = bool(seen) and seen[-1]["type"] == "message_stop"
        return said
    check_grammar(seen)
    if seen[-1]["type"] == "error":
        said.error = seen[-1]["error"]
        assert said.error["type"]
        assert said.error["message"]
        return said
    _blocks(said, blocks_of(seen))
    said.stop = next(event["delta"]["stop_reason"] for event in seen if event["type"] == "message_delta")
    said.finished = True
    return said


def _blocks(said: Said, blocks: list[Any]) -> None:
    said.text = "".join(block["text"] for block in blocks if block["type"] == "text")
    for block in blocks:
        if block["type"] == "tool_use":
            said.calls.append((block["name"], block["input"]))
            said.ids.append(block["id"])


# --------------------------------------------------------------------------------------------------- Chat Completions


def _openai(events: list[tuple[str, str]], whole: bool) -> Said:
    said = Said()
    calls: dict[int, dict[str, str]] = {}
    done = False
    for _, data in events:
        assert not done, "something follows [DONE]"
        if data == "[DONE]":
            done = True
            continue
        chunk = json.loads(data)
        if "error" in chunk:
            said.error = chunk["error"]
            assert said.error["message"]
            continue
        assert said.error is None, "something follows the error"
        for choice in chunk["choices"]:
            delta = choice["delta"]
            said.text += delta.get("content") or ""
            for call in delta.get("tool_calls") or ():
                known = calls.setdefault(call["index"], {"id": "", "name": "", "arguments": ""})
                known["id"] = call.get("id") or known["id"]
                known["name"] += call["function"].get("name") or ""
                known["arguments"] += call["function"].get("arguments") or ""
            said.stop = choice.get("finish_reason") or said.stop
        if chunk.get("usage"):
            said.input, said.output = chunk["usage"]["prompt_tokens"], chunk["usage"]["completion_tokens"]
    # What ends without [DONE] looks finished to many clients once there is a reason to finish.
    said.finished = said.error is None and (done or bool(said.stop))
    if said.finished and whole:
        assert done, "no [DONE]"
        assert said.stop, "no reason to finish"
        said.calls = [(call["name"], json.loads(call["arguments"])) for _, call in sorted(calls.items())]
        said.ids = [call["id"] for _, call in sorted(calls.items())]
    return said


# ------------------------------------------------------------------------------------------------- application events


def _application(events: list[tuple[str, str]], whole: bool) -> Said:
    said = Said()
    begun: list[str] = []
    for name, data in events:
        event = json.loads(data)
        kind = event["type"]
        assert not name
        assert not said.finished, "something follows done"
        assert said.error is None, "something follows the error"
        if kind == "content":
            said.text += event["text"]
        elif kind == "tool_start":
            begun.append(event["id"])
        elif kind == "tool_call":
            assert event["id"] == begun[-1], "a call begins before it is whole"
            said.calls.append((event["name"], event["arguments"]))
            said.ids.append(event["id"])
        elif kind == "usage":
            said.input, said.output = event["usage"]["prompt_tokens"], event["usage"]["completion_tokens"]
            said.stop = event["finish_reason"]
        elif kind == "error":
            said.error = event["error"]
            assert said.error["message"]
        else:
            assert kind == "done", kind
            said.finished = True
    return said


# -------------------------------------------------------------------------------------------------------------- whole


def _whole(client: str, body: Any) -> Said:
    said = Said(finished=True)
    usage = body["usage"]
    if client == "anthropic":
        assert body["type"] == "message"
        _blocks(said, body["content"])
        said.stop, said.input, said.output = body["stop_reason"], usage["input_tokens"], usage["output_tokens"]
        return said
    [choice] = body["choices"]
    said.text, said.stop = choice["message"]["content"] or "", choice["finish_reason"]
    for call in choice["message"].get("tool_calls") or ():
        said.calls.append((call["function"]["name"], json.loads(call["function"]["arguments"])))
        said.ids.append(call["id"])
    said.input, said.output = usage["prompt_tokens"], usage["completion_tokens"]
    return said
