"""The clusters: the processor's workers, the way into each backend's hop, and each provider's endpoints."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence

import certifi
from envoy_data_plane.envoy.config.cluster import v3 as cluster
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.endpoint import v3 as endpoint
from envoy_data_plane.envoy.extensions.clusters.common.dns import v3 as dns_common
from envoy_data_plane.envoy.extensions.clusters.dns import v3 as dns
from envoy_data_plane.envoy.extensions.network.dns_resolver.cares import v3 as cares
from envoy_data_plane.envoy.extensions.transport_sockets.internal_upstream import v3 as internal
from envoy_data_plane.envoy.extensions.transport_sockets.raw_buffer import v3 as raw
from envoy_data_plane.envoy.extensions.transport_sockets.tls import v3 as tls
from envoy_data_plane.envoy.extensions.upstreams.http import v3 as http
from envoy_data_plane.envoy.type import v3 as envoy_type
from envoy_data_plane.envoy.type.matcher import v3 as matcher

from extproc.bootstrap.filters import PROCESSOR
from extproc.bootstrap.listeners import internal_listener_name
from extproc.bootstrap.rendering import extension, pack, seconds
from extproc.bootstrap.routes import hop_cluster, provider_cluster
from extproc.config import Backend, Config, parse_address

_HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

CA_BUNDLES = [
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Alpine, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/ssl/cert.pem",  # macOS, BSD
]
"""Where systems keep the certificates they trust, most common first."""


def trusted_ca() -> str:
    """The system's CA bundle, or certifi's where there is none."""
    return next((path for path in CA_BUNDLES if os.path.isfile(path)), certifi.where())


def processor_cluster(sockets: Sequence[str]) -> cluster.Cluster:
    """One endpoint per worker, so that Envoy balances streams and not connections. Health checks forgive a worker that
    is busy for a while; keep-alive notices one that is frozen.

    A dead worker needs no outlier detection: it refuses connections at once and the stream goes to the next one
    (`filters`). An ejection would only outlast its restart, and then keep out the one worker that is alive."""
    return cluster.Cluster(
        name=PROCESSOR,
        type=cluster.ClusterDiscoveryType.STATIC,
        connect_timeout=seconds(1),
        lb_policy=cluster.ClusterLbPolicy.LEAST_REQUEST,
        typed_extension_protocol_options={_HTTP_OPTIONS: pack(_http2(core.Http2ProtocolOptions(
            connection_keepalive=core.KeepaliveSettings(interval=seconds(10), timeout=seconds(10)))))},
        circuit_breakers=_no_breakers(),
        # Where no worker counts as healthy, all are tried: one that was just started is not known to be well yet.
        common_lb_config=cluster.ClusterCommonLbConfig(healthy_panic_threshold=envoy_type.Percent(value=1)),
        health_checks=[core.HealthCheck(
            timeout=seconds(2), interval=seconds(1), no_traffic_interval=seconds(1),
            # One that was started again is wanted soon: the next to die may be the only other.
            unhealthy_interval=seconds(0.25),
            unhealthy_threshold=3, healthy_threshold=1,
            grpc_health_check=core.HealthCheckGrpcHealthCheck())],
        load_assignment=_endpoints(PROCESSOR, [endpoint.Endpoint(address=_worker_address(text)) for text in sockets]))


def hop(backend: str) -> cluster.Cluster:
    """From the edge into the internal listener. Never with outlier detection: an ejected hop would end failover instead
    of causing it."""
    name = hop_cluster(backend)
    address = core.Address(envoy_internal_address=core.EnvoyInternalAddress(
        server_listener_name=internal_listener_name(backend)))
    return cluster.Cluster(
        name=name,
        type=cluster.ClusterDiscoveryType.STATIC,
        connect_timeout=seconds(1),
        typed_extension_protocol_options={_HTTP_OPTIONS: pack(_http2(core.Http2ProtocolOptions()))},
        circuit_breakers=_no_breakers(),
        transport_socket=core.TransportSocket(
            name="envoy.transport_sockets.internal_upstream",
            typed_config=pack(internal.InternalUpstreamTransport(transport_socket=core.TransportSocket(
                name="envoy.transport_sockets.raw_buffer", typed_config=pack(raw.RawBuffer()))))),
        load_assignment=_endpoints(name, [endpoint.Endpoint(address=address)]))


def provider(name: str, backend: Backend, config: Config, ca: str) -> cluster.Cluster:
    """The provider itself: TLS with the host checked for https, HTTP/2 where the provider offers it."""
    is_ip = _is_ip(backend.host)
    made = cluster.Cluster(
        name=provider_cluster(name),
        connect_timeout=seconds(config.timeouts.connect),
        typed_extension_protocol_options={_HTTP_OPTIONS: pack(_http_auto() if backend.is_tls else _http1())},
        circuit_breakers=_no_breakers(),
        upstream_connection_options=cluster.UpstreamConnectionOptions(
            tcp_keepalive=core.TcpKeepalive(keepalive_time=60, keepalive_interval=10, keepalive_probes=3)),
        outlier_detection=_mild_outlier_detection(),
        load_assignment=_endpoints(provider_cluster(name), [endpoint.Endpoint(
            # The name that becomes the Host header.
            hostname=backend.authority,
            address=core.Address(socket_address=core.SocketAddress(address=backend.host, port_value=backend.port)))]))
    if is_ip:
        made.type = cluster.ClusterDiscoveryType.STATIC
    else:
        made.cluster_type = _by_name()
    if backend.is_tls:
        made.transport_socket = core.TransportSocket(
            name="envoy.transport_sockets.tls", typed_config=pack(_tls(backend.host, is_ip, ca)))
    return made


def _by_name() -> cluster.ClusterCustomClusterType:
    """Every address of the name is an endpoint. IPv4 first: many hosts have an IPv6 address that leads nowhere, and
    local servers rarely listen on ::1. Short patience: Envoy listens only after the first look-up of every name has
    ended, well or not, and a gateway without a network must still start."""
    resolver = extension("envoy.network.dns_resolver.cares", cares.CaresDnsResolverConfig(
        query_timeout_seconds=2, query_tries=2))
    return cluster.ClusterCustomClusterType(name="envoy.clusters.dns", typed_config=pack(dns.DnsCluster(
        dns_refresh_rate=seconds(30), respect_dns_ttl=True, typed_dns_resolver_config=resolver,
        dns_lookup_family=dns_common.DnsLookupFamily.V4_PREFERRED)))


def _tls(host: str, is_ip: bool, ca: str) -> tls.UpstreamTlsContext:
    validation = tls.CertificateValidationContext(trusted_ca=core.DataSource(filename=ca))
    if is_ip:
        validation.match_typed_subject_alt_names = [tls.SubjectAltNameMatcher(
            san_type=tls.SubjectAltNameMatcherSanType.IP_ADDRESS, matcher=matcher.StringMatcher(exact=host))]
    common = tls.CommonTlsContext(validation_context=validation)
    # The name is given, not taken from the endpoint's hostname, which may hold a port.
    return tls.UpstreamTlsContext(common_tls_context=common, sni="" if is_ip else host,
                                  auto_sni_san_validation=not is_ip)


def _mild_outlier_detection() -> cluster.OutlierDetection:
    """Keeps away from an address of the provider that does not accept connections. Its error answers do not count:
    those are about the request or the provider as a whole, and failover is the edge's."""
    return cluster.OutlierDetection(
        split_external_local_origin_errors=True, consecutive_local_origin_failure=5,
        enforcing_consecutive_5xx=0, enforcing_consecutive_gateway_failure=0, enforcing_success_rate=0,
        enforcing_local_origin_success_rate=0, base_ejection_time=seconds(5), max_ejection_time=seconds(30),
        max_ejection_percent=50)


def _http1() -> http.HttpProtocolOptions:
    return http.HttpProtocolOptions(explicit_http_config=http.HttpProtocolOptionsExplicitHttpConfig(
        http_protocol_options=core.Http1ProtocolOptions()))


def _http2(options: core.Http2ProtocolOptions) -> http.HttpProtocolOptions:
    return http.HttpProtocolOptions(explicit_http_config=http.HttpProtocolOptionsExplicitHttpConfig(
        http2_protocol_options=options))


def _http_auto() -> http.HttpProtocolOptions:
    return http.HttpProtocolOptions(auto_config=http.HttpProtocolOptionsAutoHttpConfig(
        http_protocol_options=core.Http1ProtocolOptions(), http2_protocol_options=core.Http2ProtocolOptions()))


def _no_breakers() -> cluster.CircuitBreakers:
    """Envoy's own bounds of 1024 are for short requests; a stream here lasts minutes."""
    return cluster.CircuitBreakers(thresholds=[cluster.CircuitBreakersThresholds(
        max_connections=100_000, max_pending_requests=100_000, max_requests=100_000, max_retries=10_000)])


def _endpoints(name: str, points: Sequence[endpoint.Endpoint]) -> endpoint.ClusterLoadAssignment:
    return endpoint.ClusterLoadAssignment(cluster_name=name, endpoints=[endpoint.LocalityLbEndpoints(
        lb_endpoints=[endpoint.LbEndpoint(endpoint=point) for point in points])])


def _worker_address(text: str) -> core.Address:
    """`unix:/path`, `/path` or `host:port`."""
    path = text.removeprefix("unix:")
    if path.startswith("/"):
        return core.Address(pipe=core.Pipe(path=path if not path.startswith("//") else path[1:]))
    host, port = parse_address(text)
    return core.Address(socket_address=core.SocketAddress(address=host, port_value=port))


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
