"""SSE framing: whatever the framing and the cut, the same events (design rule 1, P20)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.sse import SseReader, SseTooLong

STREAM = ('\ufeff: OPENROUTER PROCESSING\n\ndata: {"a":"é日本🙂"}\n\nevent: error\r\ndata:{"b":1}\r\n\r\ndata: x\r'
          "data: y\r\rid: 7\nretry: 10\ndata\n\ndata: last").encode()
EVENTS = [(b"", '{"a":"é日本🙂"}'.encode()), (b"error", b'{"b":1}'), (b"", b"x\ny"), (b"", b"last")]


def read(chunks: list[bytes], limit: int = 1 << 20) -> list[tuple[bytes, bytes]]:
    reader = SseReader(limit)
    return [event for chunk in chunks for event in reader.feed(chunk)] + reader.finish()


def test_all_line_ends_comments_bom_and_a_last_event_without_blank_line() -> None:
    assert read([STREAM]) == EVENTS


def test_p20_every_single_cut() -> None:
    for at in range(len(STREAM) + 1):
        assert read([STREAM[:at], STREAM[at:]]) == EVENTS


def test_p20_byte_at_a_time() -> None:
    assert read([STREAM[i:i + 1] for i in range(len(STREAM))]) == EVENTS


@given(st.lists(st.integers(0, len(STREAM))))
def test_p20_any_cuts(cuts: list[int]) -> None:
    at = [0, *sorted(cuts), len(STREAM)]
    assert read([STREAM[a:b] for a, b in itertools.pairwise(at)]) == EVENTS


def test_two_hundred_events_in_one_chunk() -> None:
    assert len(read([b"data: {}\n\n" * 200])) == 200


def test_a_bare_json_line_counts_as_data() -> None:
    assert read([b'data: {}\n\n{"error":"boom"}\n\n']) == [(b"", b"{}"), (b"", b'{"error":"boom"}')]


def test_a_line_past_the_limit_is_an_error_in_any_cut() -> None:
    for size in (1, 7, 4096):
        data = b"data: " + b"x" * 2000
        with pytest.raises(SseTooLong):
            read([data[i:i + size] for i in range(0, len(data), size)] + [b"\n\n"], limit=1000)


def test_many_data_lines_of_one_event_are_bounded_too() -> None:
    with pytest.raises(SseTooLong):
        read([b"data: 0123456789\n" * 200], limit=1000)


def test_a_megabyte_event_in_small_pieces_is_linear_and_whole() -> None:
    data = b"data: " + b"x" * 1_000_000 + b"\n\n"
    assert read([data[i:i + 100] for i in range(0, len(data), 100)], limit=1 << 24) == [(b"", b"x" * 1_000_000)]
