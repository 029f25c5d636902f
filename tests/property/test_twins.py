"""Text and native calls in any order, cut anywhere: the same bytes, and each call as often as the way that told it more
often."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.told_twice import UPSTREAMS, Native, body_of, heard, sent, written

CALLS = st.sampled_from([("read", {"path": "a", "n": 1}), ("read", {"n": 1, "path": "a"}), ("read", {"n": 2}),
                         ("read", {}), ("ping", {}), ("ping", {"o": {"x": [1, "</tool_call>"]}})])
ITEMS = st.lists(st.one_of(CALLS, CALLS.map(lambda one: written(*one)),
                           st.sampled_from(["\n", "Words.", " and `code`\n", "\n<tool_call>\n",
                                            "\n</tool_call>\n"])), min_size=1, max_size=6)


def key(one: Native) -> str:
    return json.dumps(one, sort_keys=True)


@pytest.mark.parametrize("upstream", UPSTREAMS)
@given(ITEMS, CALLS, st.booleans(), st.integers(1, 40), st.lists(st.integers(0, 10_000), max_size=8))
@settings(max_examples=150, deadline=None)
def test_any_order_and_any_cut(upstream: str, items: list[str | Native], last: Native, stream: bool, size: int,
                               cuts: list[int]) -> None:
    items = [*items, last]
    body = body_of(upstream, items, stream=stream, size=size)
    whole = sent(upstream, body, stream=stream)
    assert sent(upstream, body, stream=stream, cuts=cuts) == whole

    native = Counter(key(item) for item in items if not isinstance(item, str))
    texts = Counter(key((json.loads(item[12:-13])["name"], json.loads(item[12:-13])["arguments"]))
                    for item in items if isinstance(item, str) and '"name"' in item)
    answer = heard(whole, stream=stream)
    assert Counter(key(call) for call in answer.calls) == native | texts
    assert answer.stop == "tool_use"
    assert len(set(answer.ids)) == len(answer.ids)
    assert answer.text.count("Words.") == items.count("Words.")
