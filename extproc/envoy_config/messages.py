"""Two Envoy 1.40 messages that envoy-data-plane does not have: priority group specifier and body size limit.

Used by `routes` and `filters`. `proto/envoy/extensions/` has the same messages; a test compares names and field
numbers. Remove this module when envoy-data-plane has them.
"""

from __future__ import annotations

from dataclasses import dataclass

import betterproto2
from envoy_data_plane.google import protobuf
from envoy_data_plane.message_pool import default_message_pool


@dataclass(eq=False, repr=False)
class BodySizeLimit(betterproto2.Message):
    """Refuses a request with a body over the limit with 413, with and without a content-length."""

    max_request_bytes: int | None = betterproto2.field(
        1, betterproto2.TYPE_MESSAGE, unwrap=lambda: protobuf.UInt64Value, optional=True
    )
    """Bytes."""


@dataclass(eq=False, repr=False)
class ClusterWeight(betterproto2.Message):
    """One cluster of a group and its share of the group's attempts."""

    cluster_name: str = betterproto2.field(1, betterproto2.TYPE_STRING)
    weight: int | None = betterproto2.field(
        2, betterproto2.TYPE_MESSAGE, unwrap=lambda: protobuf.UInt32Value, optional=True
    )


@dataclass(eq=False, repr=False)
class PriorityGroup(betterproto2.Message):
    """The clusters that may serve one attempt."""

    name: str = betterproto2.field(1, betterproto2.TYPE_STRING)
    clusters: list[ClusterWeight] = betterproto2.field(  # noqa: RUF009 - how betterproto declares fields
        2, betterproto2.TYPE_MESSAGE, repeated=True
    )


@dataclass(eq=False, repr=False)
class PriorityGroupClusterSpecifier(betterproto2.Message):
    """Attempt n goes to group n, attempts past the last group to the last group."""

    priority_groups: list[PriorityGroup] = betterproto2.field(  # noqa: RUF009 - how betterproto declares fields
        1, betterproto2.TYPE_MESSAGE, repeated=True
    )


_PRIORITY = "envoy.extensions.router.cluster_specifiers.priority_group.v3"
_BODY_SIZE = "envoy.extensions.filters.http.body_size_limit.v3"

default_message_pool.register_message(_BODY_SIZE, "BodySizeLimit", BodySizeLimit)
default_message_pool.register_message(_PRIORITY, "ClusterWeight", ClusterWeight)
default_message_pool.register_message(_PRIORITY, "PriorityGroup", PriorityGroup)
default_message_pool.register_message(_PRIORITY, "PriorityGroupClusterSpecifier", PriorityGroupClusterSpecifier)
