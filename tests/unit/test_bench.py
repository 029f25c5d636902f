"""What the benchmark counts is a request that goes all the way."""

from __future__ import annotations

import asyncio

from tests.bench.steps import counted


def test_every_step_to_a_first_token_and_behind_it_is_counted() -> None:
    steps = asyncio.run(counted())
    assert list(steps) == ["edge hop", "backend hop", "first token", "event", "end"]
    assert all(count.bytecodes.total() > count.calls.total() > 10 and count.in_c for count in steps.values())
    assert steps["event"].bytecodes.total() < steps["first token"].bytecodes.total()
