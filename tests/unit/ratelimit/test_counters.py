"""What was used and whether a request may go on: the counters, with time handed in."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from extproc.bounds import LONGEST_STREAM
from extproc.config import LimitKey
from extproc.ratelimit.counters import STREAM_WAIT, Counters, Decision, Hit, Kept

NOON = 1_800_014_400.0
REQUESTS = LimitKey("red", "", "requests_per_minute")
TOKENS = LimitKey("red", "", "tokens_per_minute")
DAY = LimitKey("red", "", "tokens_per_day")
STREAMS = LimitKey("red", "", "concurrent_streams")


def asked(counters: Counters, *hits: Hit, at: float = NOON) -> Decision:
    return counters.decide(hits, at)


def passes(counters: Counters, *hits: Hit, at: float = NOON) -> bool:
    return asked(counters, *hits, at=at).refused is None


def test_as_many_as_the_number_and_not_one_more() -> None:
    counters = Counters({REQUESTS: 3})
    decisions = [asked(counters, Hit(REQUESTS)) for _ in range(5)]
    assert [decision.refused is None for decision in decisions] == [True, True, True, False, False]
    assert [decision.states[0] and decision.states[0].remaining for decision in decisions] == [2, 1, 0, 0, 0]


def test_a_window_begins_with_the_minute_of_the_clock() -> None:
    counters = Counters({REQUESTS: 1})
    assert passes(counters, Hit(REQUESTS), at=NOON + 59)
    refused = asked(counters, Hit(REQUESTS), at=NOON + 59.25).refused
    assert refused is not None
    assert refused.reset == 1
    assert passes(counters, Hit(REQUESTS), at=NOON + 60)


def test_a_day_begins_at_midnight_utc() -> None:
    counters = Counters({DAY: 10})
    asked(counters, Hit(DAY, 10))
    refused = asked(counters, Hit(DAY, 0)).refused
    assert refused is not None
    assert refused.reset == 12 * 3600
    assert passes(counters, Hit(DAY, 0), at=NOON + 12 * 3600)


def test_tokens_are_asked_about_with_nothing_and_counted_without_refusing() -> None:
    counters = Counters({TOKENS: 100})
    assert passes(counters, Hit(TOKENS, 0))
    assert passes(counters, Hit(TOKENS, 99))
    assert passes(counters, Hit(TOKENS, 0)), "one is left"
    told = asked(counters, Hit(TOKENS, 50))
    assert told.refused is None, "it has happened"
    assert told.states[0] is not None
    assert (told.states[0].remaining, told.states[0].over) == (0, True)
    assert not passes(counters, Hit(TOKENS, 0))


def test_exactly_used_up_is_used_up() -> None:
    counters = Counters({TOKENS: 100})
    asked(counters, Hit(TOKENS, 100))
    assert not passes(counters, Hit(TOKENS, 0))


def test_what_one_limit_refuses_costs_nothing_elsewhere() -> None:
    counters = Counters({REQUESTS: 5, TOKENS: 10, STREAMS: 5})
    asked(counters, Hit(TOKENS, 10))
    assert not passes(counters, Hit(REQUESTS), Hit(TOKENS, 0), Hit(STREAMS, stream="a"))
    assert counters.kept() == [Kept(TOKENS, int(NOON // 60), 10)]
    assert counters.running(STREAMS) == 0


def test_of_several_limits_the_one_that_takes_longest_is_told() -> None:
    counters = Counters({REQUESTS: 1, DAY: 1})
    asked(counters, Hit(REQUESTS), Hit(DAY, 1))
    refused = asked(counters, Hit(REQUESTS), Hit(DAY, 0)).refused
    assert refused is not None
    assert refused.key == DAY


def test_what_nobody_limits_is_not_counted() -> None:
    counters = Counters({REQUESTS: 1})
    other = LimitKey("blue", "", "requests_per_minute")
    assert asked(counters, Hit(other), Hit(LimitKey("red", "", "unheard_of"))) == Decision([None, None], None)
    assert counters.kept() == []


# ------------------------------------------------------------------------------------------------------------- streams


def test_requests_that_run_take_a_place_until_they_end() -> None:
    counters = Counters({STREAMS: 2})
    assert passes(counters, Hit(STREAMS, stream="a"))
    assert passes(counters, Hit(STREAMS, stream="b"))
    refused = asked(counters, Hit(STREAMS, stream="c")).refused
    assert refused is not None
    assert refused.reset == STREAM_WAIT
    asked(counters, Hit(STREAMS, back=True, stream="c"))  # Envoy tells of the end of a refused one too
    assert counters.running(STREAMS) == 2
    for _ in range(2):
        asked(counters, Hit(STREAMS, back=True, stream="a"))
    assert counters.running(STREAMS) == 1
    assert passes(counters, Hit(STREAMS, stream="c"))


def test_an_end_that_was_lost_does_not_take_a_place_for_ever() -> None:
    counters = Counters({STREAMS: 1})
    asked(counters, Hit(STREAMS, stream="lost"))
    assert not passes(counters, Hit(STREAMS, stream="a"), at=NOON + LONGEST_STREAM)
    assert passes(counters, Hit(STREAMS, stream="a"), at=NOON + LONGEST_STREAM + 1)


# ------------------------------------------------------------------------------------------------- clocks and restarts


def test_a_clock_that_jumps_blocks_nobody() -> None:
    counters = Counters({REQUESTS: 1, STREAMS: 1})
    for at in (NOON, NOON + 86400 * 365, NOON, NOON - 86400 * 365):
        assert passes(counters, Hit(REQUESTS), Hit(STREAMS, stream=str(at)), at=at)
        assert not passes(counters, Hit(REQUESTS), at=at)


def test_other_numbers_keep_what_was_counted() -> None:
    counters = Counters({REQUESTS: 3})
    for _ in range(3):
        asked(counters, Hit(REQUESTS))
    counters.use({REQUESTS: 4})
    assert [passes(counters, Hit(REQUESTS)) for _ in range(2)] == [True, False]
    counters.use({REQUESTS: 2})
    state = asked(counters, Hit(REQUESTS)).states[0]
    assert state is not None
    assert (state.over, state.remaining) == (True, 0)
    counters.use({})
    assert passes(counters, Hit(REQUESTS))
    assert counters.kept() == []


def test_a_restart_goes_on_where_it_was_but_not_with_requests_that_ran() -> None:
    before = Counters({REQUESTS: 3, TOKENS: 100, STREAMS: 1})
    asked(before, Hit(REQUESTS), Hit(STREAMS, stream="a"))
    asked(before, Hit(TOKENS, 70))
    written = msgspec.json.encode(before.kept())
    after = Counters({REQUESTS: 3, TOKENS: 100, STREAMS: 1})
    after.restore(msgspec.json.decode(written, type=list[Kept]))
    states = asked(after, Hit(REQUESTS), Hit(TOKENS, 0), Hit(STREAMS, stream="b")).states
    assert [state and state.remaining for state in states] == [1, 30, 0]
    old = Counters({REQUESTS: 3})
    old.restore(before.kept())
    assert passes(old, Hit(REQUESTS, 3), at=NOON + 60), "a window that is over counts as nothing"


@given(st.lists(st.tuples(st.floats(0, 600), st.integers(1, 4)), max_size=60), st.integers(1, 6))
def test_no_minute_ever_has_more_than_its_number(requests: list[tuple[float, int]], number: int) -> None:
    counters = Counters({REQUESTS: number})
    counted: dict[int, int] = {}
    for at, hits in sorted(requests):
        fits = counted.get(int(at // 60), 0) + hits <= number
        assert passes(counters, Hit(REQUESTS, hits), at=at) == fits
        counted[int(at // 60)] = counted.get(int(at // 60), 0) + (hits if fits else 0)
    assert max(counted.values(), default=0) <= number


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=60), st.integers(1, 4))
def test_never_more_requests_at_once_and_never_fewer_than_none(steps: list[tuple[str, bool]], number: int) -> None:
    counters = Counters({STREAMS: number})
    running: set[str] = set()
    for stream, ends in steps:
        if ends:
            asked(counters, Hit(STREAMS, back=True, stream=stream))
            running.discard(stream)
        elif passes(counters, Hit(STREAMS, stream=stream)):
            running.add(stream)
        assert counters.running(STREAMS) == len(running) <= number
