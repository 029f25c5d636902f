"""The hand-written messages have the field names and numbers of the proto files."""

from __future__ import annotations

import dataclasses
from importlib import resources
from pathlib import Path
from typing import Any

import betterproto2
import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from extproc.envoy_config import messages

PROTO = Path(__file__).resolve().parents[3] / "proto"
FILES = ["envoy/extensions/router/cluster_specifiers/priority_group/v3/priority_group.proto",
         "envoy/extensions/filters/http/body_size_limit/v3/body_size_limit.proto"]


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    """Message name -> field name -> number, from the proto files."""
    target = tmp_path_factory.mktemp("proto") / "set"
    include = resources.files("grpc_tools") / "_proto"  # Google's own types
    assert protoc.main(["protoc", f"-I{PROTO}", f"-I{include}", f"--descriptor_set_out={target}", *FILES]) == 0
    files = descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes()).file
    return {message.name: {field.name: field.number for field in message.field}
            for file in files for message in file.message_type}


@pytest.mark.parametrize("kind", [messages.BodySizeLimit, messages.ClusterWeight, messages.PriorityGroup,
                                  messages.PriorityGroupClusterSpecifier])
def test_names_and_numbers_are_those_of_the_proto_file(kind: Any, declared: dict[str, dict[str, int]]) -> None:
    here = {field.name: field.metadata["betterproto"].number for field in dataclasses.fields(kind)}
    assert here == declared[kind.__name__]


def test_a_message_is_encoded_and_decoded() -> None:
    made = messages.PriorityGroupClusterSpecifier(priority_groups=[messages.PriorityGroup(
        name="attempt-1", clusters=[messages.ClusterWeight(cluster_name="hop-a", weight=100)])])
    assert bytes(made) == b"\n\x18\n\tattempt-1\x12\x0b\n\x05hop-a\x12\x02\x08\x64"
    again = messages.PriorityGroupClusterSpecifier.parse(bytes(made))
    assert again.priority_groups[0].clusters[0].weight == 100
    assert isinstance(again, betterproto2.Message)
