"""SSE framing: whatever the framing and the cut, the same events (design rule 1, P20)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.apis.shared.sse import SseReader

STREAM = ('\ufeff: OPENROUTER PROCESSING\n\ndata: {"a":"é日本🙂"}\n\nevent: error\r\ndata:{"b":1}\r\n\r\ndata: x\r'
          "data: y\r\rid: 7\nretry: 10\ndata\n\ndata: last").encode()
EVENTS = [(b"", '{"a":"é日本🙂"}'.encode()), (b"error", b'{"b":1}'), (b"", b"x\ny"), (b"", b"last")]


def read(chunks: list[bytes], limit: int = 1 << 20) -> list[tuple[bytes, bytes]]:
    reader = SseReader(limit)
    return [event for chunk in chunks for event in reader.feed(chunk)] + reader.finish()


def by_byte(data: bytes) -> list[bytes]:
    return [data[i:i + 1] for i in range(len(data))]


def test_all_line_ends_comments_bom_and_a_last_event_without_blank_line() -> None:
    assert read([STREAM]) == EVENTS


def test_p20_every_single_cut() -> None:
    for at in range(len(STREAM) + 1):
        assert read([STREAM[:at], STREAM[at:]]) == EVENTS


def test_p20_byte_at_a_time() -> None:
    assert read(by_byte(STREAM)) == EVENTS


@given(st.lists(st.integers(0, len(STREAM))))
def test_p20_any_cuts(cuts: list[int]) -> None:
    at = [0, *sorted(cuts), len(STREAM)]
    assert read([STREAM[a:b] for a, b in itertools.pairwise(at)]) == EVENTS


def test_two_hundred_events_in_one_chunk() -> None:
    assert len(read([b"data: {}\n\n" * 200])) == 200


@pytest.mark.parametrize("stream", [
    b"data: 1\n\ndata: 2\n\n", b"data: 1\r\n\r\ndata: 2\r\n\r\n", b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\n",
    b"data: 1\n\n\ndata: 2\n\n", b"data: 1\ndata: 2\n\ndata: 3\n\n", b"data: 1\n\nevent: b\ndata: 2\n\n",
    b"event: a\ndata: 1\n\ndata: 2\n\n", b"event: a\n\ndata: 2\n\n", b"event: a\ndata: 1\ndata: 2\n\n",
    b"data: 1\r\n\r\ndata: 2\n\n", b"data: 1\r\r\ndata: 2\n\n", b"event: a\r\ndata: 1\r\n\r\n", b"data: \n\ndata: \n\n",
    b"event: a\ndata: 1\r\rdata: 2\n\n"])
def test_whole_events_in_one_chunk_are_those_of_their_lines(stream: bytes) -> None:
    """The reader takes such a chunk apart at once where its form allows."""
    assert read([b": comment\n\nevent: x\n", stream]) == read([b": comment\n\nevent: x\n", *by_byte(stream)])


def test_a_bare_json_line_counts_as_data() -> None:
    assert read([b'data: {}\n\n{"error":"boom"}\n\n']) == [(b"", b"{}"), (b"", b'{"error":"boom"}')]


def test_bare_json_over_several_lines_counts_as_data() -> None:
    body = b'data: {}\r\n\r\n{\r\n  "error": {\r\n    "code": 503,\r\n\t"a": [\r\n]\r\n  }\r\n}\r\n'
    error = b'{\n  "error": {\n    "code": 503,\n\t"a": [\n]\n  }\n}'
    for at in range(len(body) + 1):
        assert read([body[:at], body[at:]]) == [(b"", b"{}"), (b"", error)]
    assert read([b'data: {}\n indented\n"quoted"\n}\n\n']) == [(b"", b"{}")]


def test_a_line_past_the_limit_is_an_error_in_any_cut() -> None:
    for size in (1, 7, 4096):
        data = b"data: " + b"x" * 2000
        reader = SseReader(1000)
        chunks = [b"data: before\n\n", *(data[i:i + size] for i in range(0, len(data), size)), b"\n\ndata: z\n\n"]
        got = [event for chunk in chunks for event in reader.feed(chunk)] + reader.finish()
        assert (got, reader.too_long) == ([(b"", b"before")], True)


def test_what_came_before_a_line_past_the_limit_is_given_in_any_cut() -> None:
    data = b"data: one\n\n: a comment\ndata: " + b"x" * 30 + b"\ndata: " + b"y" * 30 + b"\n\n"
    for limit in range(12, 90):
        results = set()
        for size in (1, 2, 5, len(data)):
            reader = SseReader(limit)
            got = [event for i in range(0, len(data), size) for event in reader.feed(data[i:i + size])]
            results.add((tuple(got + reader.finish()), reader.too_long))
        assert len(results) == 1, limit


def test_many_data_lines_of_one_event_are_bounded_too() -> None:
    reader = SseReader(1000)
    reader.feed(b"data: 0123456789\n" * 200)
    assert reader.too_long


def test_a_megabyte_event_in_small_pieces_is_linear_and_whole() -> None:
    data = b"data: " + b"x" * 1_000_000 + b"\n\n"
    assert read([data[i:i + 100] for i in range(0, len(data), 100)], limit=1 << 24) == [(b"", b"x" * 1_000_000)]


@pytest.mark.parametrize(("last", "cut_off"), [
    (b"", False), (b"\n", False), (b"d", True), (b"data:", True), (b"data: ", True), (b"even", True),
    (b"event: done", True), (b"id: 7", False), (b"retry: 9", False), (b"\0", False),
    (b'data: {"a":1}', False), (b"data: [DONE]", False), (b": ping", False),
    (b'{"error":1}', False), (b"  ", False), (b"event: x\ndata: ", True), (b"data: 1\ndata: ", True)])
def test_a_stream_that_ends_inside_of_a_line_was_cut_off(last: bytes, cut_off: bool) -> None:
    reader = SseReader()
    reader.feed(b"data: 1\n\n" + last)
    assert not reader.cut_off
    reader.finish()
    assert reader.cut_off is cut_off
