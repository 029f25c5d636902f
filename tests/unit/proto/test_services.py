"""Our messages of the rate limit service and the access log service are Envoy's on the wire, and the committed code is
that of the .proto files."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.data.accesslog import v3 as log_data
from envoy_data_plane.envoy.extensions.common.ratelimit import v3 as common
from envoy_data_plane.envoy.service.accesslog import v3 as log_service
from envoy_data_plane.envoy.service.ratelimit import v3 as envoy
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor

from extproc.ratelimit.pb import rate_limit_service_pb2 as pb
from extproc.ratelimit.service import SERVICE
from extproc.worker import stream_ends
from extproc.worker.pb import access_log_service_pb2 as log_pb
from tests.unit.proto.envoy_types import envoy_fields

ROOT = Path(__file__).parents[3]
PAIRS: list[tuple[Descriptor, Any]] = [
    (pb.RateLimitRequest.DESCRIPTOR, envoy.RateLimitRequest),
    (pb.RateLimitDescriptor.DESCRIPTOR, common.RateLimitDescriptor),
    (pb.RateLimitDescriptor.Entry.DESCRIPTOR, common.RateLimitDescriptorEntry),
    (pb.RateLimitResponse.DESCRIPTOR, envoy.RateLimitResponse),
    (pb.RateLimitResponse.RateLimit.DESCRIPTOR, envoy.RateLimitResponseRateLimit),
    (pb.RateLimitResponse.DescriptorStatus.DESCRIPTOR, envoy.RateLimitResponseDescriptorStatus),
    (pb.HeaderValue.DESCRIPTOR, core.HeaderValue),
    (log_pb.StreamAccessLogsMessage.DESCRIPTOR, log_service.StreamAccessLogsMessage),
    (log_pb.HTTPAccessLogEntries.DESCRIPTOR, log_service.StreamAccessLogsMessageHttpAccessLogEntries),
    (log_pb.HTTPAccessLogEntry.DESCRIPTOR, log_data.HttpAccessLogEntry),
]


@pytest.mark.parametrize("pb", [pb, log_pb], ids=["rate_limit_service", "access_log_service"])
def test_the_generated_code_is_current(tmp_path: Path, pb: ModuleType) -> None:
    made = tmp_path / "made.pb"
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I", "proto", f"--descriptor_set_out={made}",
                    f"--pyi_out={tmp_path}", f"proto/{pb.DESCRIPTOR.name}"], cwd=ROOT, check=True)
    [fresh] = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes()).file
    committed = descriptor_pb2.FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(committed)
    for file in (fresh, committed):
        for field in _fields(file.message_type):
            field.ClearField("json_name")  # filled in by one of the two only
    assert fresh == committed
    assert pb.__file__ is not None
    stubs = Path(pb.__file__).with_suffix(".pyi")
    assert stubs.read_text() == (tmp_path / stubs.name).read_text()


def _fields(messages: Any) -> list[Any]:
    return [field for message in messages for field in (*message.field, *_fields(message.nested_type))]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda one: getattr(one, "name", ""))
def test_every_field_has_envoys_number_and_type(ours: Descriptor, theirs: Any) -> None:
    fields = envoy_fields(theirs)
    for field in ours.fields:
        meta = fields[field.name]
        assert (meta.number, meta.repeated) == (field.number, field.is_repeated), field.name


def test_enums_have_envoys_numbers() -> None:
    for ours, theirs in ((pb.RateLimitResponse.Code, envoy.RateLimitResponseCode),
                         (pb.RateLimitResponse.RateLimit.Unit, envoy.RateLimitResponseRateLimitUnit)):
        assert dict(ours.items()).items() <= {member.name: member.value for member in theirs}.items()


def test_what_they_write_we_read_and_write_back() -> None:
    asked = envoy.RateLimitRequest(domain="extproc", hits_addend=3, descriptors=[common.RateLimitDescriptor(
        entries=[common.RateLimitDescriptorEntry(key="team", value="röd")], hits_addend=0, is_negative_hits=True)])
    read = pb.RateLimitRequest.FromString(bytes(asked))
    assert read.descriptors[0].HasField("hits_addend"), "0 is a number"
    assert envoy.RateLimitRequest.parse(read.SerializeToString()) == asked
    answer = envoy.RateLimitResponse(
        overall_code=envoy.RateLimitResponseCode.OVER_LIMIT, raw_body=b"x",
        statuses=[envoy.RateLimitResponseDescriptorStatus(
            code=envoy.RateLimitResponseCode.OVER_LIMIT, limit_remaining=7,
            current_limit=envoy.RateLimitResponseRateLimit(
                name="n", requests_per_unit=4_294_967_295, unit=envoy.RateLimitResponseRateLimitUnit.DAY),
            duration_until_reset=timedelta(seconds=9))],
        response_headers_to_add=[core.HeaderValue(key="retry-after", value="9", raw_value=b"9")])
    assert bytes(envoy.RateLimitResponse.parse(pb.RateLimitResponse.FromString(bytes(answer)).SerializeToString())
                 ) == bytes(answer)


def test_the_tags_of_a_log_entry_have_envoys_number() -> None:
    """Strings in Envoy, bytes here: the same on the wire."""
    theirs = envoy_fields(log_data.AccessLogCommon)["custom_tags"]
    assert log_pb.AccessLogCommon.DESCRIPTOR.fields_by_name["custom_tags"].number == theirs.number
    [method] = log_pb.DESCRIPTOR.services_by_name["AccessLogService"].methods
    assert f"/{stream_ends.SERVICE}/{method.name}" in stream_ends.EndReports().methods


def test_the_service_has_envoys_name_and_method() -> None:
    [method] = pb.DESCRIPTOR.services_by_name["RateLimitService"].methods
    assert (method.name, method.input_type.name, method.output_type.name) == (
        "ShouldRateLimit", "RateLimitRequest", "RateLimitResponse")
    assert SERVICE == "envoy.service.ratelimit.v3.RateLimitService"
