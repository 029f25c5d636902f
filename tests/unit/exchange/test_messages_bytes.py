"""Chunks are framed and read by hand: what protobuf would write, byte for byte, and what it would read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from extproc.exchange import incoming, messages, routes
from extproc.exchange.incoming import Chunk
from extproc.exchange.pb import external_processor_pb2 as pb

SIZES = [*range(400), *range(15_990, 16_010), *range(16_370, 16_400), *range(2_097_140, 2_097_156), 20_000_000]


@pytest.mark.parametrize(("part", "make"), [("request_body", messages.request_chunk),
                                            ("response_body", messages.response_chunk)])
def test_a_chunk_is_what_protobuf_writes(part: str, make: Callable[..., bytes]) -> None:
    for size in SIZES:
        for end in (False, True):
            data = bytes(size)
            streamed = pb.StreamedBodyResponse(body=data, end_of_stream=end)
            expected = pb.ProcessingResponse(**{part: pb.BodyResponse(response=pb.CommonResponse(
                body_mutation=pb.BodyMutation(streamed_response=streamed)))})
            assert make(data, end=end) == expected.SerializeToString(), (size, end)


_TEXT = st.text(st.characters(codec="utf-8"), min_size=1) | st.integers(100, 70_000).map("x".__mul__)


@given(st.dictionaries(_TEXT, _TEXT), st.lists(_TEXT | st.sampled_from(["host", ":path", "cookie"])), st.booleans())
def test_a_head_is_what_protobuf_writes(set_headers: dict[str, str], remove: list[str], clear: bool) -> None:
    def printable(text: str) -> bytes:
        return "".join(one if one.isprintable() else " " for one in text).encode()

    changes = pb.HeaderMutation(
        set_headers=[pb.HeaderValueOption(header=pb.HeaderValue(key=name, raw_value=printable(value)))
                     for name, value in set_headers.items()],
        remove_headers=[name for name in remove
                        if name not in set_headers and name != "host" and not name.startswith(":")])
    request = pb.ProcessingResponse(request_headers=pb.HeadersResponse(
        response=pb.CommonResponse(header_mutation=changes, clear_route_cache=clear)))
    assert messages.request_head(set_headers, remove, clear_route_cache=clear) == request.SerializeToString()
    response = pb.ProcessingResponse(response_headers=pb.HeadersResponse(
        response=pb.CommonResponse(header_mutation=changes)))
    assert messages.response_head(set_headers, remove) == response.SerializeToString()
    bodiless = pb.ProcessingResponse.FromString(messages.response_head_with_body(set_headers, remove, b"body"))
    assert bodiless.response_headers.response.header_mutation == changes


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers(0, 1 << 53)
                       | st.text()))
def test_metadata_follows_an_encoded_message_as_protobuf_would_write_it(values: dict[str, Any]) -> None:
    expected = Struct()
    expected.update({"extproc": {name: value for name, value in values.items() if value is not None}})
    chunk = messages.response_chunk(b"x", end=True)
    read = pb.ProcessingResponse.FromString(messages.with_metadata(chunk, "extproc", values))
    assert read.response_body.response.body_mutation.streamed_response.body == b"x"
    assert read.response_body.response.body_mutation.streamed_response.end_of_stream
    assert read.dynamic_metadata == expected


@pytest.mark.parametrize("part", ["request_body", "response_body"])
def test_a_piece_of_a_body_is_what_protobuf_reads(part: str) -> None:
    for size in SIZES:
        for end in (False, True):
            data = b"x" * size
            message = pb.ProcessingRequest(**{part: pb.HttpBody(body=data, end_of_stream=end)})
            assert incoming.read(message.SerializeToString()) == Chunk(data, end, part == "response_body"), (size, end)


def test_what_envoy_says_besides_a_piece_is_not_lost_in_reading_by_hand() -> None:
    body = pb.HttpBody(body=b"abcdef" * 100, end_of_stream=True)
    watched = pb.ProcessingRequest(response_body=body, observability_mode=True)
    assert incoming.read(watched.SerializeToString()) == watched
    first = pb.ProcessingRequest(request_body=body)
    first.protocol_config.request_body_mode = pb.ProcessingMode.FULL_DUPLEX_STREAMED
    assert incoming.read(first.SerializeToString()) == Chunk(body.body, True, False)
    other = pb.ProcessingRequest(request_trailers=pb.HttpTrailers())
    assert incoming.read(other.SerializeToString()) == other


@given(st.binary(max_size=40),
       st.sampled_from([b"", b"\x22", b"\x2a", b"\x2a\x08\x0a\x06", b"\x22\x88\x00\x0a\x84\x00"]))
def test_any_bytes_are_read_as_protobuf_reads_them(data: bytes, start: bytes) -> None:
    """Whatever protobuf takes is read to the same piece; what it refuses may at most be a piece whose unused bytes
    nobody looked at, and never anything else than a DecodeError."""
    message = start + data
    try:
        read = pb.ProcessingRequest.FromString(message)
    except DecodeError:
        read = None
    try:
        got = incoming.read(message)
    except DecodeError:
        assert read is None
        return
    assert read is not None
    part = read.WhichOneof("request")
    if isinstance(got, Chunk):
        body = getattr(read, str(part))
        assert got == Chunk(body.body, body.end_of_stream, part == "response_body")
    else:
        assert got == read


def test_names_and_paths_of_any_length_are_not_remembered() -> None:
    long = "x" * 60_000
    caches: list[Any] = [messages._removed, routes.find_endpoint]
    before = [cache.cache_info().currsize for cache in caches]
    for number in range(50):
        head = messages.request_head({}, [f"{long}{number}"])
        assert pb.ProcessingResponse.FromString(head).request_headers.response.header_mutation.remove_headers == [
            f"{long}{number}"]
        assert routes.find_endpoint(f"/v1/messages?{long}{number}") is routes.find_endpoint("/v1/messages")
    assert all(cache.cache_info().currsize <= size + 1 for cache, size in zip(caches, before, strict=True))
