"""The clusters of the gateway itself: the workers, the rate limit service, the hop of each backend.

Those of providers are in `provider_clusters`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import certifi
from envoy_data_plane.envoy.config.cluster import v3 as cluster
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.endpoint import v3 as endpoint
from envoy_data_plane.envoy.extensions.transport_sockets.internal_upstream import v3 as internal
from envoy_data_plane.envoy.extensions.transport_sockets.raw_buffer import v3 as raw
from envoy_data_plane.envoy.type import v3 as envoy_type

from extproc.envoy_config.cluster_parts import (
    address_of,
    endpoints,
    http2,
    internal_address,
    no_breakers,
    protocol,
    resolve_addresses,
)
from extproc.envoy_config.filters import PROCESSOR
from extproc.envoy_config.listeners import internal_listener_name
from extproc.envoy_config.ratelimit import LIMITS
from extproc.envoy_config.rendering import pack, seconds
from extproc.envoy_config.routes import hop_cluster_name

CA_BUNDLES = [
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Alpine, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/ssl/cert.pem",  # macOS, BSD
]
"""Where systems keep their trusted certificates, most common first."""
LIMITS_EJECTION = 5
"""Seconds for which a shared rate limit service is not called after a call that failed."""


def trusted_ca() -> str:
    """The system's CA bundle, or certifi's if it has none."""
    return next((path for path in CA_BUNDLES if os.path.isfile(path)), certifi.where())


def processor_cluster(sockets: Sequence[str]) -> cluster.Cluster:
    """One endpoint per worker, so that Envoy balances streams and not connections. Health checks tolerate a worker that
    is busy for a while; keep-alive detects a frozen one.

    A dead worker refuses connections, and the stream goes to the next one (`filters`), but only while Envoy still has
    all of its request. Larger requests would fail again and again, since the dead worker has the fewest requests. So
    the first failure ejects it until it passes a health check. If all are ejected, all are tried."""
    made = cluster.Cluster(
        name=PROCESSOR,
        connect_timeout=seconds(1),
        lb_policy=cluster.ClusterLbPolicy.LEAST_REQUEST,
        typed_extension_protocol_options=protocol(http2(core.Http2ProtocolOptions(
            connection_keepalive=core.KeepaliveSettings(interval=seconds(10), timeout=seconds(10))))),
        circuit_breakers=no_breakers(),
        # If no worker counts as healthy, all are tried: a new one has not passed a health check yet.
        common_lb_config=cluster.ClusterCommonLbConfig(healthy_panic_threshold=envoy_type.Percent(value=1.0)),
        health_checks=[core.HealthCheck(
            timeout=seconds(2), interval=seconds(1), no_traffic_interval=seconds(1),
            # A restarted worker is needed soon: the other one may be the next to die.
            unhealthy_interval=seconds(0.25),
            unhealthy_threshold=3, healthy_threshold=1,
            grpc_health_check=core.HealthCheckGrpcHealthCheck())],
        outlier_detection=cluster.OutlierDetection(
            split_external_local_origin_errors=True, consecutive_local_origin_failure=1,
            # No response of a worker ejects it.
            enforcing_consecutive_5xx=0, enforcing_consecutive_gateway_failure=0, enforcing_success_rate=0,
            enforcing_local_origin_success_rate=0,
            interval=seconds(0.25), base_ejection_time=seconds(5), max_ejection_time=seconds(5),
            max_ejection_percent=100, successful_active_health_check_uneject_host=True),
        load_assignment=endpoints(PROCESSOR, [endpoint.Endpoint(address=address_of(text)) for text in sockets]))
    resolve_addresses(made, sockets)
    return made


def ratelimit_cluster(address: str, *, is_shared: bool) -> cluster.Cluster:
    """The rate limit service, at `unix:/path` or `host:port`. `is_shared`: it is not this gateway's own process.

    If a shared service hangs (its Redis is gone), each request would wait for the whole timeout. So one failed call
    ejects the endpoint for `LIMITS_EJECTION` seconds. Calls then fail at once, until one call tries again. There are
    no health checks, because a shared service need not support gRPC's health protocol."""
    made = cluster.Cluster(
        name=LIMITS,
        connect_timeout=seconds(1),
        typed_extension_protocol_options=protocol(http2(core.Http2ProtocolOptions(
            connection_keepalive=core.KeepaliveSettings(interval=seconds(10), timeout=seconds(5))))),
        circuit_breakers=no_breakers(),
        load_assignment=endpoints(LIMITS, [endpoint.Endpoint(address=address_of(address))]))
    if is_shared:
        made.outlier_detection = cluster.OutlierDetection(
            consecutive_5xx=1, enforcing_consecutive_5xx=100, enforcing_consecutive_gateway_failure=0,
            enforcing_success_rate=0, interval=seconds(1), base_ejection_time=seconds(LIMITS_EJECTION),
            max_ejection_time=seconds(LIMITS_EJECTION), max_ejection_percent=100)
        # By default Envoy would call ejected endpoints if all are ejected.
        made.common_lb_config = cluster.ClusterCommonLbConfig(healthy_panic_threshold=envoy_type.Percent(value=0.0))
    resolve_addresses(made, [address])
    return made


def hop_cluster(backend: str) -> cluster.Cluster:
    """From the edge to the backend's internal listener. It must not have outlier detection: an ejected hop would end
    failover instead of causing it."""
    name = hop_cluster_name(backend)
    address = internal_address(internal_listener_name(backend))
    return cluster.Cluster(
        name=name,
        type=cluster.ClusterDiscoveryType.STATIC,
        connect_timeout=seconds(1),
        typed_extension_protocol_options=protocol(http2(core.Http2ProtocolOptions())),
        circuit_breakers=no_breakers(),
        transport_socket=core.TransportSocket(
            name="envoy.transport_sockets.internal_upstream",
            typed_config=pack(internal.InternalUpstreamTransport(transport_socket=core.TransportSocket(
                name="envoy.transport_sockets.raw_buffer", typed_config=pack(raw.RawBuffer()))))),
        load_assignment=endpoints(name, [endpoint.Endpoint(address=address)]))
