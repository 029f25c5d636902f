"""Parts of several kinds of clusters: protocols, circuit breakers, endpoints, name resolution, TLS."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

from envoy_data_plane.envoy.config.cluster import v3 as cluster
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.endpoint import v3 as endpoint
from envoy_data_plane.envoy.extensions.clusters.common.dns import v3 as dns_common
from envoy_data_plane.envoy.extensions.clusters.dns import v3 as dns
from envoy_data_plane.envoy.extensions.network.dns_resolver.cares import v3 as cares
from envoy_data_plane.envoy.extensions.transport_sockets.tls import v3 as tls
from envoy_data_plane.envoy.extensions.upstreams.http import v3 as http
from envoy_data_plane.envoy.type.matcher import v3 as matcher

from extproc.config import parse_address
from extproc.envoy_config.rendering import extension, pack, seconds

_HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


def protocol(options: http.HttpProtocolOptions) -> dict[str, Any]:
    """The options in the form of a cluster's `typed_extension_protocol_options`."""
    return {_HTTP_OPTIONS: pack(options)}


def http1() -> http.HttpProtocolOptions:
    """HTTP/1.1 only."""
    return http.HttpProtocolOptions(explicit_http_config=http.HttpProtocolOptionsExplicitHttpConfig(
        http_protocol_options=core.Http1ProtocolOptions()))


def http2(options: core.Http2ProtocolOptions) -> http.HttpProtocolOptions:
    """HTTP/2 only."""
    return http.HttpProtocolOptions(explicit_http_config=http.HttpProtocolOptionsExplicitHttpConfig(
        http2_protocol_options=options))


def http_auto() -> http.HttpProtocolOptions:
    """HTTP/2 if the server offers it in the TLS handshake, else HTTP/1.1."""
    return http.HttpProtocolOptions(auto_config=http.HttpProtocolOptionsAutoHttpConfig(
        http_protocol_options=core.Http1ProtocolOptions(), http2_protocol_options=core.Http2ProtocolOptions()))


def no_breakers() -> cluster.CircuitBreakers:
    """Practically no limits: Envoy's default of 1024 is for short requests, while a stream here lasts minutes."""
    return cluster.CircuitBreakers(thresholds=[cluster.CircuitBreakersThresholds(
        max_connections=100_000, max_pending_requests=100_000, max_requests=100_000, max_retries=10_000)])


def endpoints(name: str, points: Sequence[endpoint.Endpoint]) -> endpoint.ClusterLoadAssignment:
    """These endpoints, all of the same priority."""
    return endpoint.ClusterLoadAssignment(cluster_name=name, endpoints=[endpoint.LocalityLbEndpoints(
        lb_endpoints=[endpoint.LbEndpoint(endpoint=point) for point in points])])


def internal_address(listener: str) -> core.Address:
    """The address of an internal listener of this Envoy."""
    return core.Address(envoy_internal_address=core.EnvoyInternalAddress(server_listener_name=listener))


def _dns_cluster(refresh: float = 30, respect_ttl: bool = True) -> cluster.ClusterCustomClusterType:
    """Every address of the name is an endpoint. IPv4 is preferred: the IPv6 addresses of many hosts are unreachable,
    and local servers rarely listen on ::1. Timeouts are short: Envoy listens only after the first query of every name
    has ended, successful or not, and a gateway without a network must still start."""
    resolver = extension("envoy.network.dns_resolver.cares", cares.CaresDnsResolverConfig(
        query_timeout_seconds=2, query_tries=2))
    return cluster.ClusterCustomClusterType(name="envoy.clusters.dns", typed_config=pack(dns.DnsCluster(
        dns_refresh_rate=seconds(refresh), respect_dns_ttl=respect_ttl, typed_dns_resolver_config=resolver,
        dns_lookup_family=dns_common.DnsLookupFamily.V4_PREFERRED)))


def resolve_host(made: cluster.Cluster, host: str) -> None:
    """Makes the cluster resolve a host name; an IP address stays as it is."""
    if is_ip(host):
        made.type = cluster.ClusterDiscoveryType.STATIC
    else:
        made.cluster_type = _dns_cluster()


def tls_to(host: str, ca: str) -> core.TransportSocket:
    """TLS. The certificate must match the host name or address. `ca`: the file of trusted certificates."""
    named = not is_ip(host)
    validation = tls.CertificateValidationContext(trusted_ca=core.DataSource(filename=ca))
    if not named:
        validation.match_typed_subject_alt_names = [tls.SubjectAltNameMatcher(
            san_type=tls.SubjectAltNameMatcherSanType.IP_ADDRESS, matcher=matcher.StringMatcher(exact=host))]
    # The SNI is set explicitly, because the endpoint's hostname may contain a port.
    return core.TransportSocket(name="envoy.transport_sockets.tls", typed_config=pack(tls.UpstreamTlsContext(
        common_tls_context=tls.CommonTlsContext(validation_context=validation), sni=host if named else "",
        auto_sni_san_validation=named)))


def is_ip(host: str) -> bool:
    """True if the host is an IP address, not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def resolve_addresses(made: cluster.Cluster, addresses: Sequence[str]) -> None:
    """Makes the cluster resolve the host names of these addresses every few seconds. Does nothing more if there are
    none."""
    if all(text.startswith(("unix:", "/")) or is_ip(parse_address(text)[0]) for text in addresses):
        made.type = cluster.ClusterDiscoveryType.STATIC
    else:
        # A replaced container has another address at once, but Docker's DNS gives the old one a TTL of 10 minutes.
        made.cluster_type = _dns_cluster(refresh=5, respect_ttl=False)


def address_of(text: str, *, mode: int = 0) -> core.Address:
    """The address `unix:/path`, `/path` or `host:port`. `mode`: the permissions of a socket that Envoy creates."""
    path = text.removeprefix("unix:")
    if path.startswith("/"):
        return core.Address(pipe=core.Pipe(path=path if not path.startswith("//") else path[1:], mode=mode))
    host, port = parse_address(text)
    return core.Address(socket_address=core.SocketAddress(address=host, port_value=port))
