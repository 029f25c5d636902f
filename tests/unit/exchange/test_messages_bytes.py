"""Chunks are framed by hand: what protobuf would write, byte for byte."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from extproc.exchange import messages
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


def test_metadata_can_follow_an_encoded_message() -> None:
    from google.protobuf.struct_pb2 import Struct

    values = Struct()
    values.update({"extproc": {"input": 7}})
    read = pb.ProcessingResponse.FromString(messages.with_metadata(messages.response_chunk(b"x", end=True), values))
    assert read.response_body.response.body_mutation.streamed_response.body == b"x"
    assert read.response_body.response.body_mutation.streamed_response.end_of_stream
    assert read.dynamic_metadata["extproc"]["input"] == 7
