"""Envoy's JSON of a message: names, defaults, and types with a special form."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from envoy_data_plane.envoy.config.cluster import v3 as cluster
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.google import protobuf

from extproc.envoy_config.messages import BodySizeLimit
from extproc.envoy_config.rendering import extension, pack, to_json


def test_fields_have_their_proto_names_and_defaults_are_omitted() -> None:
    made = cluster.Cluster(
        name="c", lb_policy=cluster.ClusterLbPolicy.LEAST_REQUEST, connect_timeout=timedelta(seconds=1),
        outlier_detection=cluster.OutlierDetection(consecutive_5xx=5, enforcing_success_rate=0))
    assert to_json(made) == {
        "name": "c", "lb_policy": "LEAST_REQUEST", "connect_timeout": "1s",
        "outlier_detection": {"consecutive_5xx": 5, "enforcing_success_rate": 0}}


@pytest.mark.parametrize(("length", "text"), [
    (timedelta(), "0s"), (timedelta(milliseconds=250), "0.25s"), (timedelta(microseconds=1), "0.000001s"),
    (timedelta(days=1), "86400s")])
def test_durations(length: timedelta, text: str) -> None:
    assert to_json(core.KeepaliveSettings(interval=length)) == {"interval": text}


def test_packed_messages_name_their_type_and_are_nested() -> None:
    inner = extension("limit", BodySizeLimit(max_request_bytes=9))
    kind = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
    assert to_json(pack(inner)) == {"@type": kind, "name": "limit", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.body_size_limit.v3.BodySizeLimit",
        "max_request_bytes": 9}}


def test_free_json_stays_as_it_is() -> None:
    content: dict[str, Any] = {"a": [1.5, None, {"b": True}], "c": "d"}
    metadata = core.Metadata(filter_metadata={"extproc": protobuf.Struct.from_dict(content)})
    assert to_json(metadata) == {"filter_metadata": {"extproc": content}}


def test_a_type_without_a_rule_is_an_error() -> None:
    with pytest.raises(TypeError, match="no JSON for bytes"):
        to_json(core.DataSource(inline_bytes=b"x"))
