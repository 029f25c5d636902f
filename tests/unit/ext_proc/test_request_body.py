"""What routing reads of a body: the count of values against a slow and obvious one, any chunking of a body."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.apis.shared.body import containers
from extproc.bounds import Limits
from extproc.errors import BadRequest
from extproc.ext_proc.request_body import RequestBodyBuffer, peek_routing_fields

TEXTS = st.text(alphabet='ab"\\[]{}\n,:é', max_size=8)
VALUES = st.recursive(TEXTS | st.integers() | st.none(),
                      lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
                      max_leaves=12)


def containers_of(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + sum(map(containers_of, value)) if isinstance(value, list) else 0


@given(VALUES, st.booleans())
def test_objects_and_lists_are_counted_without_decoding(value: Any, ascii_only: bool) -> None:
    assert containers(json.dumps(value, ensure_ascii=ascii_only).encode()) == containers_of(value)


@given(VALUES, st.lists(st.integers(1, 9), max_size=8), st.booleans())
def test_any_chunking_gives_the_same_body(value: Any, cuts: list[int], packed: bool) -> None:
    plain = json.dumps({"model": "m", "x": value}).encode()
    rest = sent = gzip.compress(plain) if packed else plain
    body = RequestBodyBuffer(Limits())
    for cut in cuts:
        body.append(rest[:cut])
        rest = rest[cut:]
    body.append(rest)
    assert body.raw() == sent
    assert body.decode("gzip" if packed else None) == plain
    assert peek_routing_fields(plain, Limits()).model == "m"


def test_the_limit_is_exact() -> None:
    limits = Limits(body=10)
    body = RequestBodyBuffer(limits)
    body.check_announced_size("10")
    body.append(b"x" * 10)
    with pytest.raises(BadRequest) as refusal:
        body.append(b"x")
    assert refusal.value.failure.status == 413
    with pytest.raises(BadRequest):
        body.check_announced_size("11")
    packed = RequestBodyBuffer(Limits(body=100))
    packed.append(gzip.compress(b"y" * 100))
    assert packed.decode("gzip") == b"y" * 100
    packed = RequestBodyBuffer(Limits(body=100))
    packed.append(gzip.compress(b"y" * 101))
    with pytest.raises(BadRequest):
        packed.decode("gzip")


def test_half_an_emoji_does_not_stand_in_the_way() -> None:
    body = b'{"model": "m", "messages": [{"role": "user", "content": "cut \\ud83d"}, "\\\\ud83d \\ud83d\\ude00"]}'
    assert peek_routing_fields(body, Limits()).model == "m"
    with pytest.raises(BadRequest, match=r"line 2, column 7 \(byte 26\)"):
        peek_routing_fields(b'{"model": "\\ud83d",\n"a": tru}', Limits())


@pytest.mark.parametrize(("body", "place"), [
    (b'{"model": "m",\n\n  "a": tru}', r"line 3, column 9 \(byte 24\)"),
    (b'{"model": "m"', r"ends too early, after line 1, column 14 \(byte 13\)"),
    (b" \n", "the body is empty"),
])
def test_rule_3_malformed_json_is_named_with_its_place(body: bytes, place: str) -> None:
    with pytest.raises(BadRequest, match=place):
        peek_routing_fields(body, Limits())


def test_a_null_for_stream_means_no_stream() -> None:
    assert not peek_routing_fields(b'{"model": "m", "stream": null}', Limits()).stream
