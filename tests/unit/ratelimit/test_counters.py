"""The counters of limits, with a clock of the test's own."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from extproc.bounds import LONGEST_STREAM
from extproc.config import LimitKey
from extproc.ratelimit.counters import STREAM_RETRY_SECONDS, Charge, Counters, Decision, SavedCounter

NOON = 1_800_014_400.0
REQUESTS = LimitKey("red", "", "requests_per_minute")
TOKENS = LimitKey("red", "", "tokens_per_minute")
DAY = LimitKey("red", "", "tokens_per_day")
STREAMS = LimitKey("red", "", "concurrent_streams")


def decide(counters: Counters, *charges: Charge, at: float = NOON) -> Decision:
    return counters.decide(charges, at)


def allows(counters: Counters, *charges: Charge, at: float = NOON) -> bool:
    return decide(counters, *charges, at=at).refused_by is None


def test_exactly_as_many_requests_as_the_limit() -> None:
    counters = Counters({REQUESTS: 3})
    decisions = [decide(counters, Charge(REQUESTS)) for _ in range(5)]
    assert [decision.refused_by is None for decision in decisions] == [True, True, True, False, False]
    assert [decision.statuses[0] and decision.statuses[0].remaining for decision in decisions] == [2, 1, 0, 0, 0]


def test_a_window_begins_with_the_minute_of_the_clock() -> None:
    counters = Counters({REQUESTS: 1})
    assert allows(counters, Charge(REQUESTS), at=NOON + 59)
    refused = decide(counters, Charge(REQUESTS), at=NOON + 59.25).refused_by
    assert refused is not None
    assert refused.reset_seconds == 1
    assert allows(counters, Charge(REQUESTS), at=NOON + 60)


def test_a_day_begins_at_midnight_utc() -> None:
    counters = Counters({DAY: 10})
    decide(counters, Charge(DAY, 10))
    refused = decide(counters, Charge(DAY, 0)).refused_by
    assert refused is not None
    assert refused.reset_seconds == 12 * 3600
    assert allows(counters, Charge(DAY, 0), at=NOON + 12 * 3600)


def test_tokens_are_checked_before_and_counted_afterwards_without_refusal() -> None:
    counters = Counters({TOKENS: 100})
    assert allows(counters, Charge(TOKENS, 0))
    assert allows(counters, Charge(TOKENS, 99))
    assert allows(counters, Charge(TOKENS, 0)), "one token is left"
    reported = decide(counters, Charge(TOKENS, 50))
    assert reported.refused_by is None, "usage that has happened is not refused"
    assert reported.statuses[0] is not None
    assert (reported.statuses[0].remaining, reported.statuses[0].exceeded) == (0, True)
    assert not allows(counters, Charge(TOKENS, 0))


def test_a_limit_that_is_exactly_used_up_refuses() -> None:
    counters = Counters({TOKENS: 100})
    decide(counters, Charge(TOKENS, 100))
    assert not allows(counters, Charge(TOKENS, 0))


def test_a_refused_request_is_counted_towards_no_other_limit() -> None:
    counters = Counters({REQUESTS: 5, TOKENS: 10, STREAMS: 5})
    decide(counters, Charge(TOKENS, 10))
    assert not allows(counters, Charge(REQUESTS), Charge(TOKENS, 0), Charge(STREAMS, stream_id="a"))
    assert counters.snapshot() == [SavedCounter(TOKENS, int(NOON // 60), 10)]
    assert counters.count_streams(STREAMS) == 0


def test_of_several_exceeded_limits_the_longest_wait_is_reported() -> None:
    counters = Counters({REQUESTS: 1, DAY: 1})
    decide(counters, Charge(REQUESTS), Charge(DAY, 1))
    refused = decide(counters, Charge(REQUESTS), Charge(DAY, 0)).refused_by
    assert refused is not None
    assert refused.key == DAY


def test_keys_without_a_limit_are_not_counted() -> None:
    counters = Counters({REQUESTS: 1})
    other = LimitKey("blue", "", "requests_per_minute")
    assert decide(counters, Charge(other), Charge(LimitKey("red", "", "unheard_of"))) == Decision([None, None], None)
    assert counters.snapshot() == []


# ------------------------------------------------------------------------------------------------------------- streams


def test_requests_in_progress_count_until_they_end() -> None:
    counters = Counters({STREAMS: 2})
    assert allows(counters, Charge(STREAMS, stream_id="a"))
    assert allows(counters, Charge(STREAMS, stream_id="b"))
    refused = decide(counters, Charge(STREAMS, stream_id="c")).refused_by
    assert refused is not None
    assert refused.reset_seconds == STREAM_RETRY_SECONDS
    decide(counters, Charge(STREAMS, refund=True, stream_id="c"))  # Envoy also reports the end of a refused request
    assert counters.count_streams(STREAMS) == 2
    for _ in range(2):
        decide(counters, Charge(STREAMS, refund=True, stream_id="a"))
    assert counters.count_streams(STREAMS) == 1
    assert allows(counters, Charge(STREAMS, stream_id="c"))


def test_a_request_whose_end_was_lost_expires() -> None:
    counters = Counters({STREAMS: 1})
    decide(counters, Charge(STREAMS, stream_id="lost"))
    assert not allows(counters, Charge(STREAMS, stream_id="a"), at=NOON + LONGEST_STREAM)
    assert allows(counters, Charge(STREAMS, stream_id="a"), at=NOON + LONGEST_STREAM + 1)


# ------------------------------------------------------------------------------------------------- clocks and restarts


def test_a_clock_that_jumps_blocks_nobody() -> None:
    counters = Counters({REQUESTS: 1, STREAMS: 1})
    for at in (NOON, NOON + 86400 * 365, NOON, NOON - 86400 * 365):
        assert allows(counters, Charge(REQUESTS), Charge(STREAMS, stream_id=str(at)), at=at)
        assert not allows(counters, Charge(REQUESTS), at=at)


def test_changed_limits_keep_the_counters() -> None:
    counters = Counters({REQUESTS: 3})
    for _ in range(3):
        decide(counters, Charge(REQUESTS))
    counters.set_limits({REQUESTS: 4})
    assert [allows(counters, Charge(REQUESTS)) for _ in range(2)] == [True, False]
    counters.set_limits({REQUESTS: 2})
    status = decide(counters, Charge(REQUESTS)).statuses[0]
    assert status is not None
    assert (status.exceeded, status.remaining) == (True, 0)
    counters.set_limits({})
    assert allows(counters, Charge(REQUESTS))
    assert counters.snapshot() == []


def test_a_restart_restores_windows_but_not_requests_in_progress() -> None:
    before = Counters({REQUESTS: 3, TOKENS: 100, STREAMS: 1})
    decide(before, Charge(REQUESTS), Charge(STREAMS, stream_id="a"))
    decide(before, Charge(TOKENS, 70))
    written = msgspec.json.encode(before.snapshot())
    after = Counters({REQUESTS: 3, TOKENS: 100, STREAMS: 1})
    after.restore(msgspec.json.decode(written, type=list[SavedCounter]))
    statuses = decide(after, Charge(REQUESTS), Charge(TOKENS, 0), Charge(STREAMS, stream_id="b")).statuses
    assert [status and status.remaining for status in statuses] == [1, 30, 0]
    old = Counters({REQUESTS: 3})
    old.restore(before.snapshot())
    assert allows(old, Charge(REQUESTS, 3), at=NOON + 60), "a window that is over counts as 0"


@given(st.lists(st.tuples(st.floats(0, 600), st.integers(1, 4)), max_size=60), st.integers(1, 6))
def test_no_minute_exceeds_its_limit(requests: list[tuple[float, int]], limit: int) -> None:
    counters = Counters({REQUESTS: limit})
    counted: dict[int, int] = {}
    for at, amount in sorted(requests):
        fits = counted.get(int(at // 60), 0) + amount <= limit
        assert allows(counters, Charge(REQUESTS, amount), at=at) == fits
        counted[int(at // 60)] = counted.get(int(at // 60), 0) + (amount if fits else 0)
    assert max(counted.values(), default=0) <= limit


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=60), st.integers(1, 4))
def test_concurrent_requests_stay_between_zero_and_the_limit(steps: list[tuple[str, bool]], limit: int) -> None:
    counters = Counters({STREAMS: limit})
    running: set[str] = set()
    for stream, ends in steps:
        if ends:
            decide(counters, Charge(STREAMS, refund=True, stream_id=stream))
            running.discard(stream)
        elif allows(counters, Charge(STREAMS, stream_id=stream)):
            running.add(stream)
        assert counters.count_streams(STREAMS) == len(running) <= limit
