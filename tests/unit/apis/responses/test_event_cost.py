"""The Responses API on either side costs at most 1.3 times the event of a Messages client at Chat Completions.
Bytecodes are counted, which are the same on a busy machine."""

from __future__ import annotations

import pytest

from tests.bench.pairs import GOAL, KINDS, MESSAGES_TO_CHAT, PAIRS, Pair, bytecodes_per_event


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pair", PAIRS[1:], ids=" to ".join)
def test_an_event_costs_little_more_than_with_messages(pair: Pair, kind: str) -> None:
    assert bytecodes_per_event(pair, kind) <= GOAL * bytecodes_per_event(MESSAGES_TO_CHAT, kind)
