"""docs/logs.md shows a line of the log as the gateway writes it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec

from extproc.conversation.call_counts import CallCounts
from extproc.ext_proc.record import Record
from extproc.process.log import Log
from extproc.worker.exchange_log import log_exchange

PAGE = Path(__file__).resolve().parents[3] / "docs" / "logs.md"


def example() -> dict[str, Any]:
    found = re.search(r"^```json\n(\{.*\"exchange\".*\})\n```$", PAGE.read_text(encoding="utf-8"), re.M)
    assert found is not None
    return dict(json.loads(found[1]))


def test_the_line_on_the_page_is_the_line_that_is_written() -> None:
    """Field by field, in the order of the record: reading it and writing it again gives the same line."""
    shown = example()
    record = msgspec.convert({name: value for name, value in shown.items() if name not in ("time", "level")}, Record)
    lines: list[bytes] = []
    log_exchange(Log(write=lines.append), record)
    written = json.loads(lines[0])
    assert {**written, "time": shown["time"]} == shown
    assert [name for name in written if name != "event"] == [name for name in shown if name != "event"]


def test_tool_calls_are_counted_by_their_format() -> None:
    lines: list[bytes] = []
    log_exchange(Log(write=lines.append), Record(hop="translate", outcome="ok", calls={
        "native": CallCounts(total=1), "hermes": CallCounts(total=2, unreadable=1)}))
    assert json.loads(lines[0])["calls"] == {"native": {"total": 1}, "hermes": {"total": 2, "unreadable": 1}}
