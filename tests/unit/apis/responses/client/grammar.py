"""The grammar of a Responses stream, as a checker: bytes in, the events out, or an AssertionError with the event that
does not fit."""

from __future__ import annotations

import json
from typing import Any

TERMINAL = ("response.completed", "response.incomplete", "response.failed")
KEEP_ALIVE = "keepalive"
_TEXT_FIELD = {"output_text": "text", "refusal": "refusal"}
_CALLS = {"function_call": ("function_call_arguments", "arguments"),
          "custom_tool_call": ("custom_tool_call_input", "input")}


def parse_stream(stream: bytes) -> list[dict[str, Any]]:
    """The events of a stream. Each is two lines, and its type stands in both."""
    text = stream.decode()
    assert not text or text.endswith("\n\n")
    events = []
    for block in text.split("\n\n")[:-1]:
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


def check_stream(stream: bytes, *, ended: bool = True) -> list[dict[str, Any]]:
    """The events without keep-alives, if they obey the grammar. `ended`: the last one must be terminal."""
    events = parse_stream(stream)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    events = [event for event in events if event["type"] != KEEP_ALIVE]
    reader = _Reader(events)
    reader.expect("response.created", "response.in_progress")
    items = []
    while reader.next_type not in (*TERMINAL, None):
        item = reader.read_item(len(items))
        if item is None:
            break
        items.append(item)
    if not ended:
        return events
    last = reader.take()
    assert last["type"] in TERMINAL, last
    assert reader.next_type is None, reader.take()
    response = last["response"]
    assert response["status"] == last["type"].removeprefix("response.")
    assert response["output"] == items
    assert (response["error"] is not None) == (response["status"] == "failed")
    assert (response["incomplete_details"] is not None) == (response["status"] == "incomplete")
    if reader.open_item:
        assert response["status"] != "completed"
    return events


class _Reader:
    def __init__(self, events: list[dict[str, Any]]) -> None:
        self._events = events
        self._at = 0
        self.open_item = False

    @property
    def next_type(self) -> str | None:
        return self._events[self._at]["type"] if self._at < len(self._events) else None

    def take(self) -> dict[str, Any]:
        event = self._events[self._at]
        self._at += 1
        return event

    def expect(self, *types: str) -> None:
        for kind in types:
            assert self.next_type == kind, (self.next_type, kind)
            self.take()

    def _body_event(self, kind: str, item_id: str, index: int) -> dict[str, Any]:
        assert self.next_type == f"response.{kind}", (self.next_type, kind)
        event = self.take()
        assert (event["item_id"], event["output_index"]) == (item_id, index)
        return event

    def _deltas(self, kind: str, item_id: str, index: int) -> str:
        text = ""
        while self.next_type == f"response.{kind}.delta":
            event = self._body_event(f"{kind}.delta", item_id, index)
            assert event["delta"]
            text += event["delta"]
        return text

    def _cut_off(self) -> bool:
        """The stream ends inside an item."""
        self.open_item = self.next_type in ("response.incomplete", "response.failed", None)
        return self.open_item

    def read_item(self, index: int) -> dict[str, Any] | None:
        """One item; None if the stream ends inside it."""
        assert self.next_type == "response.output_item.added", self.next_type
        added = self.take()
        assert added["output_index"] == index
        item, item_id = added["item"], added["item"]["id"]
        body = {"message": self._message, "reasoning": self._reasoning}.get(item["type"], self._call)
        content = body(item, item_id, index)
        if content is None:
            return None
        assert self.next_type == "response.output_item.done", self.next_type
        done = self.take()
        assert done["output_index"] == index
        assert done["item"]["id"] == item_id
        assert {**item, **done["item"]} == done["item"]     # all that it had at its beginning is still there
        assert {**done["item"], **content} == done["item"]
        whole: dict[str, Any] = done["item"]
        return whole

    def _message(self, item: dict[str, Any], item_id: str, index: int) -> dict[str, Any] | None:
        assert (item["content"], item["status"]) == ([], "in_progress")
        parts: list[Any] = []
        while self.next_type == "response.content_part.added":
            kind = self._body_event("content_part.added", item_id, index)["part"]["type"]
            text = self._deltas(kind, item_id, index)
            annotations = self._annotations(item_id, index, len(parts))
            if self._cut_off():
                return None
            field = _TEXT_FIELD[kind]
            assert self._body_event(f"{kind}.done", item_id, index)[field] == text
            done = self._body_event("content_part.done", item_id, index)
            assert (done["content_index"], done["part"][field]) == (len(parts), text)
            assert done["part"].get("annotations", []) == annotations
            parts.append(done["part"])
        if self._cut_off():
            return None
        assert parts
        return {"content": parts}

    def _annotations(self, item_id: str, index: int, part: int) -> list[Any]:
        found: list[Any] = []
        while self.next_type == "response.output_text.annotation.added":
            event = self._body_event("output_text.annotation.added", item_id, index)
            assert (event["content_index"], event["annotation_index"]) == (part, len(found))
            found.append(event["annotation"])
        return found

    def _reasoning(self, item: dict[str, Any], item_id: str, index: int) -> dict[str, Any] | None:
        assert item["summary"] == []
        summary: list[Any] = []
        while self.next_type == "response.reasoning_summary_part.added":
            self._body_event("reasoning_summary_part.added", item_id, index)
            text = self._deltas("reasoning_summary_text", item_id, index)
            if self._cut_off():
                return None
            assert self._body_event("reasoning_summary_text.done", item_id, index)["text"] == text
            done = self._body_event("reasoning_summary_part.done", item_id, index)
            assert (done["summary_index"], done["part"]["text"]) == (len(summary), text)
            summary.append(done["part"])
        return None if self._cut_off() else {"summary": summary}

    def _call(self, item: dict[str, Any], item_id: str, index: int) -> dict[str, Any] | None:
        if item["type"] not in _CALLS:
            return None if self._cut_off() else {}
        kind, field = _CALLS[item["type"]]
        assert item[field] == ""
        text = self._deltas(kind, item_id, index)
        if self._cut_off():
            return None
        assert self._body_event(f"{kind}.done", item_id, index)[field] == text
        return {field: text}
