"""Messages of ext_proc: what is framed by hand is what protobuf would write and read; heads, trailers and metadata."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from extproc import endpoints
from extproc.ext_proc import incoming, messages
from extproc.ext_proc.incoming import BodyChunk, BodyModes, HeadersMessage, OtherMessage, TrailersMessage
from extproc.ext_proc.pb import external_processor_pb2 as pb

SIZES = [*range(400), *range(4070, 4110), *range(15_990, 16_010), *range(16_370, 16_400),
         *range(2_097_140, 2_097_156), 20_000_000]

# -------------------------------------------------------------------------------------------------------------- written


@pytest.mark.parametrize(("part", "tag"), [("request_body", messages.REQUEST_BODY),
                                           ("response_body", messages.RESPONSE_BODY)])
def test_a_chunk_is_what_protobuf_writes(part: str, tag: bytes) -> None:
    for size in SIZES:
        for end in (False, True):
            data = bytes(size)
            streamed = pb.StreamedBodyResponse(body=data, end_of_stream=end)
            expected = pb.ProcessingResponse(**{part: pb.BodyResponse(response=pb.CommonResponse(
                body_mutation=pb.BodyMutation(streamed_response=streamed)))})
            written = messages.body_chunks(tag, data, end=end)
            if size <= messages.BODY_CHUNK and (size or end):
                assert written == [expected.SerializeToString()], (size, end)
            pieces = [getattr(pb.ProcessingResponse.FromString(piece), part).response.body_mutation.streamed_response
                      for piece in written]
            assert b"".join(piece.body for piece in pieces) == data
            assert [piece.end_of_stream for piece in pieces] == [*(False for _ in pieces[1:]), *([end] * bool(pieces))]


SET = {"a": "x\r\ny\0", "b": "Zürich", "c": "", "cookie": "1"}
REMOVED = ["gone", "cookie", "host", ":path"]


def changes_of(mutation: pb.HeaderMutation) -> tuple[dict[str, bytes], list[str]]:
    return {option.header.key: option.header.raw_value for option in mutation.set_headers}, [*mutation.remove_headers]


@pytest.mark.parametrize("clear", [False, True])
def test_heads_set_clean_values_and_remove_what_can_be_removed(clear: bool) -> None:
    expected = ({"a": b"x  y ", "b": "Zürich".encode(), "c": b"", "cookie": b"1"}, ["gone"])
    request = pb.ProcessingResponse.FromString(messages.request_head(SET, REMOVED, clear_route_cache=clear))
    assert changes_of(request.request_headers.response.header_mutation) == expected
    assert request.request_headers.response.clear_route_cache is clear
    response = pb.ProcessingResponse.FromString(messages.response_head(SET, REMOVED))
    assert changes_of(response.response_headers.response.header_mutation) == expected
    with_body = pb.ProcessingResponse.FromString(messages.response_head_with_body(SET, REMOVED, b"body"))
    assert changes_of(with_body.response_headers.response.header_mutation) == expected
    assert with_body.response_headers.response.body_mutation.body == b"body"
    encoded = messages.immediate_response(404, SET, b"{}", "unknown_path")
    reply = pb.ProcessingResponse.FromString(encoded).immediate_response
    assert changes_of(reply.headers) == (expected[0], [])
    assert (reply.status.code, reply.body, reply.details) == (404, b"{}", "extproc_unknown_path")


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers(0, 1 << 53)
                       | st.text()))
def test_metadata_joins_an_encoded_message(values: dict[str, Any]) -> None:
    expected = Struct()
    expected.update({"extproc": {name: value for name, value in values.items() if value is not None}})
    [chunk] = messages.body_chunks(messages.RESPONSE_BODY, b"x", end=True)
    read = pb.ProcessingResponse.FromString(messages.append_metadata(chunk, "extproc", values))
    assert read.response_body.response.body_mutation.streamed_response.body == b"x"
    assert read.response_body.response.body_mutation.streamed_response.end_of_stream
    assert read.dynamic_metadata == expected


# ----------------------------------------------------------------------------------------------------------------- read


@pytest.mark.parametrize("part", ["request_body", "response_body"])
def test_a_chunk_is_read(part: str) -> None:
    for size in SIZES:
        for end in (False, True):
            data = b"x" * size
            message = pb.ProcessingRequest(**{part: pb.HttpBody(body=data, end_of_stream=end)})
            expected = BodyChunk(data, end, part == "response_body")
            assert incoming.read_message(message.SerializeToString()) == expected, (size, end)
            message.metadata_context.SetInParent()  # as Envoy writes it behind every part
            assert incoming.read_message(message.SerializeToString()) == expected, (size, end)


def test_what_envoy_says_besides_a_chunk_is_read() -> None:
    body = pb.HttpBody(body=b"abcdef" * 100, end_of_stream=True)
    watched = pb.ProcessingRequest(response_body=body, observability_mode=True)
    assert incoming.read_message(watched.SerializeToString()) == OtherMessage(observed_only=True)
    first = pb.ProcessingRequest(request_body=body)
    first.protocol_config.request_body_mode = pb.ProcessingMode.FULL_DUPLEX_STREAMED
    assert incoming.read_message(first.SerializeToString()) == BodyChunk(body.body, True, False)
    trailers = pb.HttpTrailers(trailers=pb.HeaderMap(headers=[pb.HeaderValue(key="x-checksum", raw_value=b"1")]))
    encoded = pb.ProcessingRequest(request_trailers=trailers).SerializeToString()
    assert incoming.read_message(encoded) == TrailersMessage({"x-checksum": "1"}, response=False)
    assert incoming.read_message(b"") == OtherMessage(observed_only=False)


def test_messages_as_envoy_writes_them() -> None:
    """Recorded from Envoy 1.40: heads, an event and an end."""
    head = (b"\x12\x2e\x0a\x2c\x0a\x15\x0a\x05:path\x1a\x0c/v1/messages\x0a\x13\x0a\x0ccontent-type\x1a\x03a/b"
            b"B\x00Z\x04\x08\x04\x10\x04")
    assert incoming.read_message(head) == HeadersMessage(
        {":path": "/v1/messages", "content-type": "a/b"}, end=False, response=False, modes=BodyModes(4, 4))
    assert incoming.read_message(b"\x1a\x14\x0a\x10\x0a\x0e\x0a\x07:status\x1a\x03204\x18\x01B\x00") == HeadersMessage(
        {":status": "204"}, end=True, response=True)
    assert incoming.read_message(b"*\x0b\x0a\x09data: {}\x0aB\x00") == BodyChunk(b"data: {}\n", False, True)
    assert incoming.read_message(b"\"\x02\x10\x01B\x00") == BodyChunk(b"", True, False)


def test_repeated_headers_are_joined_and_values_need_not_be_utf8() -> None:
    headers = pb.HeaderMap(headers=[
        pb.HeaderValue(key="a", raw_value=b"1"), pb.HeaderValue(key="a", raw_value=b"2"), pb.HeaderValue(key="b"),
        pb.HeaderValue(key="c", value="text"), pb.HeaderValue(key="d", raw_value="Zürich".encode()),
        pb.HeaderValue(key="e", raw_value=b"\xff")])
    message = pb.ProcessingRequest(response_headers=pb.HttpHeaders(headers=headers, end_of_stream=True))
    assert incoming.read_message(message.SerializeToString()) == HeadersMessage(
        {"a": "1, 2", "b": "", "c": "text", "d": "Zürich", "e": "\ufffd"}, end=True, response=True)


@pytest.mark.parametrize("size", [3, 131, 132, 133, 134, 135, 136, 200])
def test_what_only_ends_like_a_chunk_is_none(size: int) -> None:
    """Some of these sizes no chunk of Envoy has."""
    message = bytes(size - 2) + b"B\0"
    with pytest.raises(DecodeError):
        pb.ProcessingRequest.FromString(message)
    with pytest.raises(DecodeError):
        incoming.read_message(message)


@given(st.binary(max_size=40), st.sampled_from([b"", b"\x22", b"\x2a", b"\x2a\x08\x0a\x06", b"\x2a\x05\x0a\x01"]),
       st.sampled_from([b"", b"B\x00", b"\x10\x01B\x00"]))
def test_any_bytes_are_read_as_protobuf_reads_them(data: bytes, start: bytes, end: bytes) -> None:
    """Protobuf and `read_message` accept the same messages."""
    assert_read_as_by_protobuf(start + data + end)


def assert_read_as_by_protobuf(message: bytes) -> None:
    try:
        expected = pb.ProcessingRequest.FromString(message)
    except DecodeError:
        with pytest.raises(DecodeError):
            incoming.read_message(message)
        return
    found = incoming.read_message(message)
    part = expected.WhichOneof("request")
    assert isinstance(found, OtherMessage) is (part is None or expected.observability_mode)
    if isinstance(found, BodyChunk):
        body = getattr(expected, str(part))
        assert found == BodyChunk(body.body, body.end_of_stream, part == "response_body")


@pytest.mark.parametrize("message", [b"\x2a\x08\x0a\x06data: B\x00", b"\x2a\x85\x01\x0a\x82\x01" + b"x" * 130 + b"B\0"])
def test_a_damaged_chunk_is_read_as_protobuf_reads_it(message: bytes) -> None:
    """Cut off anywhere, a byte too few or too many, another tag, a wrong size."""
    for at in range(len(message) + 1):
        before, after, byte = message[:at], message[at:], message[at] if at < len(message) else 0
        near = [byte + by & 255 for by in (-2, -1, 1, 2)]
        for new in (0, 1, *b"\x0a\x10\x12\x18\x1a\x42\x50", 127, 128, 255, *near):
            assert_read_as_by_protobuf(before + bytes((new,)) + after)
            assert_read_as_by_protobuf(before + bytes((new,)) + after[1:])
        assert_read_as_by_protobuf(before)
        assert_read_as_by_protobuf(before + after[1:])


def test_long_paths_are_not_remembered() -> None:
    assert endpoints.ENDPOINT_OF["/v1/messages"]
    before = len(endpoints.ENDPOINT_OF)
    for number in range(50):
        path = f"/v1/messages?{'x' * 60_000}{number}"
        assert endpoints.ENDPOINT_OF[path] is endpoints.ENDPOINT_OF["/v1/messages"]
    assert len(endpoints.ENDPOINT_OF) == before
