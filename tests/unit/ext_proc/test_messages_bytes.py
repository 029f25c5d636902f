"""Chunks are framed and read by hand: what protobuf would write, byte for byte, and what it would read."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from extproc import endpoints
from extproc.ext_proc import incoming, messages
from extproc.ext_proc.incoming import Chunk, Head, Modes, Other, Trailers
from extproc.ext_proc.pb import external_processor_pb2 as pb

SIZES = [*range(400), *range(4070, 4110), *range(15_990, 16_010), *range(16_370, 16_400),
         *range(2_097_140, 2_097_156), 20_000_000]


@pytest.mark.parametrize(("part", "tag"), [("request_body", messages.REQUEST_BODY),
                                           ("response_body", messages.RESPONSE_BODY)])
def test_a_chunk_is_what_protobuf_writes(part: str, tag: bytes) -> None:
    for size in SIZES:
        for end in (False, True):
            data = bytes(size)
            streamed = pb.StreamedBodyResponse(body=data, end_of_stream=end)
            expected = pb.ProcessingResponse(**{part: pb.BodyResponse(response=pb.CommonResponse(
                body_mutation=pb.BodyMutation(streamed_response=streamed)))})
            written = messages.chunks(tag, data, end=end)
            if size <= messages.BODY_CHUNK and (size or end):
                assert written == [expected.SerializeToString()], (size, end)
            pieces = [getattr(pb.ProcessingResponse.FromString(piece), part).response.body_mutation.streamed_response
                      for piece in written]
            assert b"".join(piece.body for piece in pieces) == data
            assert [piece.end_of_stream for piece in pieces] == [*(False for _ in pieces[1:]), *([end] * bool(pieces))]


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
    [chunk] = messages.chunks(messages.RESPONSE_BODY, b"x", end=True)
    more = messages.named("name", "other", "none")["é" * 100, 2, None]
    expected["extproc"].update({"name": "é" * 100, "other": 2})  # type: ignore[union-attr]
    read = pb.ProcessingResponse.FromString(messages.with_metadata(chunk, "extproc", values, more))
    assert read.response_body.response.body_mutation.streamed_response.body == b"x"
    assert read.response_body.response.body_mutation.streamed_response.end_of_stream
    assert read.dynamic_metadata == expected


@pytest.mark.parametrize("part", ["request_body", "response_body"])
def test_a_piece_of_a_body_is_what_protobuf_reads(part: str) -> None:
    for size in SIZES:
        for end in (False, True):
            data = b"x" * size
            message = pb.ProcessingRequest(**{part: pb.HttpBody(body=data, end_of_stream=end)})
            expected = Chunk(data, end, part == "response_body")
            assert incoming.read(message.SerializeToString()) == expected, (size, end)
            message.metadata_context.SetInParent()  # as Envoy writes it behind every part
            assert incoming.read(message.SerializeToString()) == expected, (size, end)


def test_what_envoy_says_besides_a_piece_is_not_lost_in_reading_by_hand() -> None:
    body = pb.HttpBody(body=b"abcdef" * 100, end_of_stream=True)
    watched = pb.ProcessingRequest(response_body=body, observability_mode=True)
    assert incoming.read(watched.SerializeToString()) == Other(shown=True)
    first = pb.ProcessingRequest(request_body=body)
    first.protocol_config.request_body_mode = pb.ProcessingMode.FULL_DUPLEX_STREAMED
    assert incoming.read(first.SerializeToString()) == Chunk(body.body, True, False)
    trailers = pb.HttpTrailers(trailers=pb.HeaderMap(headers=[pb.HeaderValue(key="x-checksum", raw_value=b"1")]))
    assert incoming.read(pb.ProcessingRequest(request_trailers=trailers).SerializeToString()) == Trailers(
        {"x-checksum": "1"}, response=False)
    assert incoming.read(b"") == Other(shown=False)


_NAME = st.text(st.characters(codec="ascii"), min_size=1) | st.sampled_from([":path", "cookie", "a" * 128, "näme"])
_VALUE = (st.binary(max_size=20) | st.integers(100, 20_000).map(lambda size: b"x" * size)
          | st.sampled_from([b"", b"1", "Zürich".encode()]))


@given(st.lists(st.tuples(_NAME, _VALUE)), st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_a_head_is_what_protobuf_reads(headers: list[tuple[str, bytes]], response: bool, end: bool, first: bool,
                                       usual: bool, shown: bool) -> None:
    """However long names and values are, and whatever else is said."""
    head = pb.HttpHeaders(end_of_stream=end, headers=pb.HeaderMap(
        headers=[pb.HeaderValue(key=name, raw_value=value) for name, value in headers]))
    message = pb.ProcessingRequest(**{"response_headers" if response else "request_headers": head},
                                   observability_mode=shown)
    if usual:
        message.metadata_context.SetInParent()
    if first:
        message.protocol_config.request_body_mode = pb.ProcessingMode.FULL_DUPLEX_STREAMED
        message.protocol_config.response_body_mode = pb.ProcessingMode.BUFFERED
    expected: dict[str, str] = {}
    for name, value in headers:
        text = value.decode("utf-8", "replace")
        expected[name] = f"{expected[name]}, {text}" if name in expected else text
    modes = Modes(pb.ProcessingMode.FULL_DUPLEX_STREAMED, pb.ProcessingMode.BUFFERED) if first else None
    assert incoming.read(message.SerializeToString()) == (
        Other(shown=True) if shown else Head(expected, end, response, modes))


def test_a_header_with_a_value_of_text_is_read() -> None:
    head = pb.HttpHeaders(headers=pb.HeaderMap(headers=[pb.HeaderValue(key="a", value="b")]))
    assert incoming.read(pb.ProcessingRequest(request_headers=head).SerializeToString()) == Head(
        {"a": "b"}, end=False, response=False)


def test_what_envoy_writes_is_read_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head, a piece and an end as Envoy 1.40 sent them: protobuf is not asked for any of them."""
    monkeypatch.setattr(incoming, "_by_protobuf", lambda message: None)
    head = (b"\x12\x2e\x0a\x2c\x0a\x15\x0a\x05:path\x1a\x0c/v1/messages\x0a\x13\x0a\x0ccontent-type\x1a\x03a/b"
            b"B\x00Z\x04\x08\x04\x10\x04")
    assert incoming.read(head) == Head({":path": "/v1/messages", "content-type": "a/b"}, end=False, response=False,
                                       modes=Modes(4, 4))
    assert incoming.read(b"\x1a\x14\x0a\x10\x0a\x0e\x0a\x07:status\x1a\x03204\x18\x01B\x00") == Head(
        {":status": "204"}, end=True, response=True)
    assert incoming.read(b"*\x0b\x0a\x09data: {}\x0aB\x00") == Chunk(b"data: {}\n", False, True)
    assert incoming.read(b"\"\x02\x10\x01B\x00") == Chunk(b"", True, False)


_STARTS = [b"", b"\x22", b"\x2a", b"\x2a\x08\x0a\x06", b"\x22\x88\x00\x0a\x84\x00", b"\x12",
           b"\x1a\x12\x0a\x10\x0a\x0e\x0a", b"\x12\x0c\x0a\x0a\x0a\x08\x0a\x01a\x1a\x03", b"\x2a\x05\x0a\x01"]


@pytest.mark.parametrize("size", [3, 131, 132, 133, 134, 135, 136, 200])
def test_what_only_ends_like_a_piece_is_none(size: int) -> None:
    """Of sizes, too, that no piece has."""
    message = bytes(size - 2) + b"B\0"
    with pytest.raises(DecodeError):
        pb.ProcessingRequest.FromString(message)
    with pytest.raises(DecodeError):
        incoming.read(message)


_ENDS = [b"", b"B\x00", b"\x10\x01B\x00", b"\x18\x01"]


@given(st.binary(max_size=40), st.sampled_from(_STARTS), st.sampled_from(_ENDS))
def test_any_bytes_are_read_as_protobuf_reads_them(data: bytes, start: bytes, end: bytes) -> None:
    """Whatever protobuf takes is read to the same; what it refuses is refused, with a DecodeError."""
    _assert_read_alike(start + data + end)


def _assert_read_alike(message: bytes) -> None:
    try:
        read = pb.ProcessingRequest.FromString(message)
    except DecodeError:
        with pytest.raises(DecodeError):
            incoming.read(message)
        return
    got = incoming.read(message)
    assert got == incoming._by_protobuf(message), message
    part = read.WhichOneof("request")
    if isinstance(got, Chunk):
        body = getattr(read, str(part))
        assert got == Chunk(body.body, body.end_of_stream, part == "response_body")


def _head(*headers: tuple[str, bytes], end: bool = True) -> bytes:
    """A head as Envoy writes it."""
    return pb.ProcessingRequest(metadata_context={}, response_headers=pb.HttpHeaders(
        end_of_stream=end, headers=pb.HeaderMap(headers=[pb.HeaderValue(key=name, raw_value=value)
                                                          for name, value in headers]))).SerializeToString()


_WHOLE = {
    "a head": _head((":status", b"200"), ("date", b""), ("date", b"now")),
    "a value that ends like a head": _head(("a", b"b\x18\x01"), end=False),
    "a long value": _head(("a", b"b"), ("c", b"d" * 130)),
    "a piece": b"\x2a\x08\x0a\x04data\x10\x01B\x00",
    "a long piece": b"\x22\x85\x01\x0a\x82\x01" + b"x" * 130,
}


@pytest.mark.parametrize("message", _WHOLE.values(), ids=_WHOLE.keys())
def test_a_damaged_message_is_read_as_protobuf_reads_it(message: bytes) -> None:
    """Cut off anywhere, a byte too few or too many, another tag, a size that is wrong."""
    for at in range(len(message) + 1):
        before, after, byte = message[:at], message[at:], message[at] if at < len(message) else 0
        near = [byte + by & 255 for by in (-2, -1, 1, 2)]
        for new in (0, 1, *b"\x0a\x10\x12\x18\x1a\x42\x50", 127, 128, 255, *near):
            _assert_read_alike(before + bytes((new,)) + after)
            _assert_read_alike(before + bytes((new,)) + after[1:])
        _assert_read_alike(before)
        _assert_read_alike(before + after[1:])


def test_a_long_name_that_looks_shorter_is_read_whole() -> None:
    """A client chooses names and values: here the name's last character could pass for the tag of a value that is just
    as long as what is left, were the first byte of the name's length all of it."""
    name, value = "a" * 127 + "\x1a", b"v" * 25
    assert incoming.read(_head((name, value))) == Head({name: value.decode()}, end=True, response=True)


def test_names_and_paths_of_any_length_are_not_remembered() -> None:
    long = "x" * 60_000
    names = messages.named("model")
    kept: list[Any] = [messages._REMOVALS, messages._SET_HEADS, names, endpoints.ENDPOINT_OF]
    messages.request_head({"a": "1"}, ["b"])
    assert names["short",]
    assert endpoints.ENDPOINT_OF["/v1/messages"]
    before = [len(one) for one in kept]
    assert all(before), "short ones are remembered"
    for number in range(50):
        head = pb.ProcessingResponse.FromString(messages.request_head({f"{long}{number}": "1"}, [f"{number}{long}"]))
        changes = head.request_headers.response.header_mutation
        assert changes.remove_headers == [f"{number}{long}"]
        assert [option.header.key for option in changes.set_headers] == [f"{long}{number}"]
        assert names[f"{long}{number}",].endswith(str(number).encode())
        assert endpoints.ENDPOINT_OF[f"/v1/messages?{long}{number}"] is endpoints.ENDPOINT_OF["/v1/messages"]
    assert [len(one) for one in kept] == before


def test_a_value_of_any_length_stands_behind_its_name() -> None:
    for size in (*range(300), 16_383, 16_384, 60_000):
        head = messages.request_head({"x-long": "v" * size})
        changes = pb.ProcessingResponse.FromString(head).request_headers.response.header_mutation
        assert changes.set_headers[0].header == pb.HeaderValue(key="x-long", raw_value=b"v" * size)
        values = {"word": "w" * size, "number": 1.5}
        metadata = pb.ProcessingResponse.FromString(messages.with_metadata(head, "extproc", values)).dynamic_metadata
        assert dict(metadata["extproc"].items()) == values  # type: ignore[union-attr]
