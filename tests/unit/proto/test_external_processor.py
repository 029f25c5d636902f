"""Our ext_proc messages are Envoy's on the wire, and the committed code is that of the committed .proto."""

from __future__ import annotations

import dataclasses
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import betterproto2
import envoy_data_plane.envoy.config.core.v3 as envoy_core
import envoy_data_plane.envoy.extensions.filters.http.ext_proc.v3 as envoy_filter
import envoy_data_plane.envoy.service.ext_proc.v3 as envoy
import envoy_data_plane.envoy.type.v3 as envoy_type
import pytest
from google.protobuf import descriptor_pb2, struct_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from extproc.ext_proc.pb import external_processor_pb2 as pb
from tests.unit.proto.envoy_types import envoy_fields

ROOT = Path(__file__).parents[3]
MESSAGES: dict[str, Descriptor] = dict(pb.DESCRIPTOR.message_types_by_name)
ELSEWHERE = {"ProcessingMode": envoy_filter, "HeaderValue": envoy_core, "HeaderValueOption": envoy_core,
             "HeaderMap": envoy_core, "Metadata": envoy_core, "HttpStatus": envoy_type}


def test_the_generated_code_is_current(tmp_path: Path) -> None:
    made = tmp_path / "made.pb"
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I", "proto", f"--descriptor_set_out={made}",
                    "proto/external_processor.proto"], cwd=ROOT, check=True)
    [fresh] = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes()).file
    committed = descriptor_pb2.FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(committed)
    for file in (fresh, committed):
        for message in file.message_type:  # json_name is filled in by one of the two only
            for field in [*message.field, *(f for nested in message.nested_type for f in nested.field)]:
                field.ClearField("json_name")
    assert fresh == committed


def test_the_type_stubs_are_current(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I", "proto", f"--pyi_out={tmp_path}",
                    "proto/external_processor.proto"], cwd=ROOT, check=True)
    assert pb.__file__ is not None
    committed = Path(pb.__file__).with_suffix(".pyi")
    assert committed.read_text() == (tmp_path / committed.name).read_text()


def test_the_service_has_envoys_method() -> None:
    [method] = pb.DESCRIPTOR.services_by_name["ExternalProcessor"].methods
    assert (method.name, method.input_type.name, method.output_type.name) == (
        "Process", "ProcessingRequest", "ProcessingResponse")


def theirs(name: str) -> Any:
    return getattr(ELSEWHERE.get(name, envoy), name)


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_every_field_has_envoys_number_and_type(name: str) -> None:
    fields = envoy_fields(theirs(name))
    for field in MESSAGES[name].fields:
        assert field.name in fields, f"Envoy knows no {name}.{field.name}"
        meta = fields[field.name]
        assert meta.number == field.number, field.name
        assert bool(meta.repeated or meta.map_meta) == field.is_repeated, field.name
        oneof = field.containing_oneof.name if field.containing_oneof else None
        assert meta.group == oneof, field.name


def sample(message: Descriptor, depth: int = 0) -> list[Any]:
    """Messages in which, together, every field is set (of a oneof one field each)."""
    made = []
    groups: dict[str, list[FieldDescriptor]] = {}
    for field in message.fields:
        groups.setdefault(field.containing_oneof.name if field.containing_oneof else "", []).append(field)
    alone = groups.pop("", [])
    choices = [field for fields in groups.values() for field in fields] or [None]
    for choice in choices:
        instance = getattr(pb, message.name)()
        for field in [*alone, *([choice] if choice else [])]:
            fill(instance, field, depth)
        made.append(instance)
    return made


def fill(instance: Any, field: FieldDescriptor, depth: int) -> None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        getattr(instance, field.name)["filter"].update({"text": "a", "number": 1.5, "list": [True, None]})
        return
    if field.message_type is None:
        value: Any = {FieldDescriptor.CPPTYPE_STRING: "täxt", FieldDescriptor.CPPTYPE_BOOL: True,
                      FieldDescriptor.CPPTYPE_ENUM: 2 if field.name != "status" else 1,
                      FieldDescriptor.CPPTYPE_INT32: 404, FieldDescriptor.CPPTYPE_UINT32: 7}.get(field.cpp_type, "x")
        if field.type == FieldDescriptor.TYPE_BYTES:
            value = b"\x00\xffbytes"
        if field.is_repeated:
            getattr(instance, field.name).extend([value, value])
        else:
            setattr(instance, field.name, value)
        return
    if field.message_type.file is not pb.DESCRIPTOR:
        values: Any = {"Struct": struct_pb2.Struct, "Duration": lambda: {"seconds": 3, "nanos": 5_000_000},
                       "BoolValue": lambda: {"value": True}}[field.message_type.name]()
        if isinstance(values, struct_pb2.Struct):
            values.update({"extproc": {"total": 46.0, "model": "m"}})
            getattr(instance, field.name).CopyFrom(values)
        else:
            target = getattr(instance, field.name)
            target.SetInParent()
            for key, value in values.items():
                setattr(target, key, value)
        return
    value = sample(field.message_type, depth + 1)[0]
    if field.is_repeated:
        getattr(instance, field.name).extend([value, value])
    else:
        getattr(instance, field.name).CopyFrom(value)


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_what_we_write_they_read_and_write_back(name: str) -> None:
    """Ours -> bytes -> Envoy's types -> bytes -> ours: nothing lost, nothing unknown."""
    for ours in sample(MESSAGES[name]):
        other = theirs(name).parse(ours.SerializeToString())
        known = type(other)(**{field.name: getattr(other, field.name) for field in dataclasses.fields(other)})
        assert bytes(known) == bytes(other), "a field is unknown to Envoy's type"
        assert ours.ByteSize() > 0
        assert getattr(pb, name).FromString(bytes(other)) == ours


def test_a_field_by_field_look_at_the_messages_of_an_exchange() -> None:
    asked = envoy.ProcessingRequest(
        request_headers=envoy.HttpHeaders(headers=envoy_core.HeaderMap(headers=[
            envoy_core.HeaderValue(key=":path", raw_value=b"/v1/messages")]), end_of_stream=True),
        observability_mode=True,
        protocol_config=envoy.ProtocolConfiguration(
            request_body_mode=envoy_filter.ProcessingModeBodySendMode.FULL_DUPLEX_STREAMED))
    read = pb.ProcessingRequest.FromString(bytes(asked))
    assert read.WhichOneof("request") == "request_headers"
    assert read.request_headers.headers.headers[0].raw_value == b"/v1/messages"
    assert read.request_headers.end_of_stream
    assert read.observability_mode
    assert read.protocol_config.request_body_mode == pb.ProcessingMode.FULL_DUPLEX_STREAMED

    answer = pb.ProcessingResponse(immediate_response=pb.ImmediateResponse(
        status=pb.HttpStatus(code=429), body=b"{}", details="extproc_x"))
    seen = envoy.ProcessingResponse.parse(answer.SerializeToString())
    name, immediate = betterproto2.which_one_of(seen, "response")
    assert name == "immediate_response"
    assert (immediate.status.code, immediate.body, immediate.details) == (429, b"{}", "extproc_x")


def test_the_generated_module_is_found_where_the_server_looks() -> None:
    assert importlib.util.find_spec("extproc.ext_proc.pb.external_processor_pb2") is not None
