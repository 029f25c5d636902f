"""Tags of all tag dialects thrown together: no cut changes the result, nothing raises, no call is left half-done."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model_text.checks import TOOLS
from tests.model_text.exchange import send_text

COMMON = ["\n", " ", "text", "é</", "<", ">", "```\n", "<think>", "</think>", "\r\n", "3", '"', "ping", "lookup"]
TAGS = {
    "qwen3-coder": ["<tool_call>", "</tool_call>", "<function=lookup>", "<function=set_valve>", "<function=no>",
                    "<function=lookup", "</function>", "<parameter=harbor>", "<parameter=valve_id>", "<parameter=x>",
                    "<parameter=", "</parameter>", "<tool_call>\n<function=lookup>\n<parameter=harbor>\n"],
    "glm-4.7": ["<tool_call>", "</tool_call>", "<tool_call>lookup<arg_key>harbor</arg_key><arg_value>",
                "<tool_call>ping</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "harbor"],
    "minimax-m2": ["<minimax:tool_call>", "</minimax:tool_call>", '<invoke name="lookup">', "<invoke name=ping>",
                   "</invoke>", '<parameter name="harbor">', "</parameter>",
                   '<minimax:tool_call><invoke name="lookup"><parameter name="harbor">'],
    "minimax-m3": ["]<]minimax[>[", "]<]minimax[>[<tool_call>", ']<]minimax[>[<invoke name="lookup">',
                   "]<]minimax[>[</invoke>", "]<]minimax[>[<harbor>", "]<]minimax[>[</harbor>", "]<]minimax[>[<item>",
                   "]<]minimax[>[</tool_call>", "]<]minimax[>[</item>"],
    "roo-xml": ["<lookup>", "</lookup>", "<harbor>", "</harbor>", "<day>", "</day>", "<save_file>", "</save_file>",
                "<content>", "</content>", "<path>", "</path>", "<ping>", "</ping>"],
}


@pytest.mark.parametrize("dialect", [*TAGS, None])
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_no_cut_changes_what_is_read(dialect: str | None, data: st.DataObject) -> None:
    tags = TAGS[dialect] if dialect else [tag for tags in TAGS.values() for tag in tags]
    raw = "".join(data.draw(st.lists(st.sampled_from([*tags, *tags, *COMMON]), max_size=25)))
    finish = data.draw(st.sampled_from(["stop", "length"]))
    cut = data.draw(st.integers(0, len(raw)))
    chosen: dict[str, Any] = {"dialect": dialect} if dialect else {}
    got = []
    for pieces in ([raw], list(raw), [raw[:cut], raw[cut:]]):
        found = send_text(pieces, TOOLS, finish=finish, **chosen)
        got.append([found[key] for key in ("content", "reasoning", "tool_calls", "finish_reason")])
    assert got[0] == got[1] == got[2]
    if got[0][3] != "length":
        for _, arguments in got[0][2]:
            json.loads(arguments or "{}")
