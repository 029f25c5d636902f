"""The clusters of the gateway itself: the processor's workers, the limits' service, the way into each backend's hop.

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
    look_up,
    no_breakers,
    protocol,
)
from extproc.envoy_config.filters import PROCESSOR
from extproc.envoy_config.listeners import internal_listener_name
from extproc.envoy_config.ratelimit import LIMITS
from extproc.envoy_config.rendering import pack, seconds
from extproc.envoy_config.routes import hop_cluster

CA_BUNDLES = [
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Alpine, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/ssl/cert.pem",  # macOS, BSD
]
"""Where systems keep the certificates they trust, most common first."""


LIMITS_EJECTION = 5
"""Seconds for which a shared rate limit service is not called after a call that failed."""


def trusted_ca() -> str:
    """The system's CA bundle, or certifi's where there is none."""
    return next((path for path in CA_BUNDLES if os.path.isfile(path)), certifi.where())


def processor_cluster(sockets: Sequence[str]) -> cluster.Cluster:
    """One endpoint per worker, so that Envoy balances streams and not connections. Health checks forgive a worker that
    is busy for a while; keep-alive notices one that is frozen.

    A dead worker refuses connections at once, and the stream goes to the next one (`filters`), but only while Envoy
    holds all of its request: of larger ones every other one would fail until the worker is back, since a dead worker
    has the fewest requests. So the first failure puts it aside, until it passes a health check. Where all are put
    aside, all are tried."""
    made = cluster.Cluster(
        name=PROCESSOR,
        connect_timeout=seconds(1),
        lb_policy=cluster.ClusterLbPolicy.LEAST_REQUEST,
        typed_extension_protocol_options=protocol(http2(core.Http2ProtocolOptions(
            connection_keepalive=core.KeepaliveSettings(interval=seconds(10), timeout=seconds(10))))),
        circuit_breakers=no_breakers(),
        # Where no worker counts as healthy, all are tried: one that was just started is not known to be well yet.
        common_lb_config=cluster.ClusterCommonLbConfig(healthy_panic_threshold=envoy_type.Percent(value=1.0)),
        health_checks=[core.HealthCheck(
            timeout=seconds(2), interval=seconds(1), no_traffic_interval=seconds(1),
            # One that was started again is wanted soon: the next to die may be the only other.
            unhealthy_interval=seconds(0.25),
            unhealthy_threshold=3, healthy_threshold=1,
            grpc_health_check=core.HealthCheckGrpcHealthCheck())],
        outlier_detection=cluster.OutlierDetection(
            split_external_local_origin_errors=True, consecutive_local_origin_failure=1,
            # What a worker answers never puts it aside.
            enforcing_consecutive_5xx=0, enforcing_consecutive_gateway_failure=0, enforcing_success_rate=0,
            enforcing_local_origin_success_rate=0,
            interval=seconds(0.25), base_ejection_time=seconds(5), max_ejection_time=seconds(5),
            max_ejection_percent=100, successful_active_health_check_uneject_host=True),
        load_assignment=endpoints(PROCESSOR, [endpoint.Endpoint(address=address_of(text)) for text in sockets]))
    look_up(made, sockets)
    return made


def rate_limits(address: str, *, is_shared: bool) -> cluster.Cluster:
    """The rate limit service, at `unix:/path` or `host:port`. `is_shared`: it is not this gateway's own process.

    A shared service that hangs (its Redis is gone) would cost each request the whole timeout. So one failed call ejects
    the endpoint for `LIMITS_EJECTION` seconds: calls then fail at once, until one call tries again. Envoy does not
    check its health: a service of others need not answer gRPC's health protocol."""
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
        # By default Envoy would call ejected endpoints where all of them are ejected.
        made.common_lb_config = cluster.ClusterCommonLbConfig(healthy_panic_threshold=envoy_type.Percent(value=0.0))
    look_up(made, [address])
    return made


def hop(backend: str) -> cluster.Cluster:
    """From the edge into the internal listener. Never with outlier detection: an ejected hop would end failover instead
    of causing it."""
    name = hop_cluster(backend)
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
