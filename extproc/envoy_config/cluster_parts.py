"""What several kinds of clusters are made of: protocols, breakers, endpoints, look-ups of names.

Called by the builders of clusters. Decides nothing about a backend.
"""

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
    """The options as a cluster wants them."""
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
    """HTTP/2 where the server offers it in its TLS handshake."""
    return http.HttpProtocolOptions(auto_config=http.HttpProtocolOptionsAutoHttpConfig(
        http_protocol_options=core.Http1ProtocolOptions(), http2_protocol_options=core.Http2ProtocolOptions()))


def no_breakers() -> cluster.CircuitBreakers:
    """Envoy's own bounds of 1024 are for short requests; a stream here lasts minutes."""
    return cluster.CircuitBreakers(thresholds=[cluster.CircuitBreakersThresholds(
        max_connections=100_000, max_pending_requests=100_000, max_requests=100_000, max_retries=10_000)])


def endpoints(name: str, points: Sequence[endpoint.Endpoint]) -> endpoint.ClusterLoadAssignment:
    """All of one priority."""
    return endpoint.ClusterLoadAssignment(cluster_name=name, endpoints=[endpoint.LocalityLbEndpoints(
        lb_endpoints=[endpoint.LbEndpoint(endpoint=point) for point in points])])


def internal_address(listener: str) -> core.Address:
    """An internal listener of this Envoy."""
    return core.Address(envoy_internal_address=core.EnvoyInternalAddress(server_listener_name=listener))


def by_name(refresh: float = 30, respect_ttl: bool = True) -> cluster.ClusterCustomClusterType:
    """Every address of the name is an endpoint. IPv4 first: many hosts have an IPv6 address that leads nowhere, and
    local servers rarely listen on ::1. Short patience: Envoy listens only after the first look-up of every name has
    ended, well or not, and a gateway without a network must still start."""
    resolver = extension("envoy.network.dns_resolver.cares", cares.CaresDnsResolverConfig(
        query_timeout_seconds=2, query_tries=2))
    return cluster.ClusterCustomClusterType(name="envoy.clusters.dns", typed_config=pack(dns.DnsCluster(
        dns_refresh_rate=seconds(refresh), respect_dns_ttl=respect_ttl, typed_dns_resolver_config=resolver,
        dns_lookup_family=dns_common.DnsLookupFamily.V4_PREFERRED)))


def find_by(made: cluster.Cluster, host: str) -> None:
    """Makes the cluster look the host's name up, or take its address as it is."""
    if is_ip(host):
        made.type = cluster.ClusterDiscoveryType.STATIC
    else:
        made.cluster_type = by_name()


def tls_to(host: str, ca: str) -> core.TransportSocket:
    """TLS with the host's name (or address) checked against its certificate. `ca`: a file of trusted ones."""
    named = not is_ip(host)
    validation = tls.CertificateValidationContext(trusted_ca=core.DataSource(filename=ca))
    if not named:
        validation.match_typed_subject_alt_names = [tls.SubjectAltNameMatcher(
            san_type=tls.SubjectAltNameMatcherSanType.IP_ADDRESS, matcher=matcher.StringMatcher(exact=host))]
    # The name is given, not taken from the endpoint's hostname, which may hold a port.
    return core.TransportSocket(name="envoy.transport_sockets.tls", typed_config=pack(tls.UpstreamTlsContext(
        common_tls_context=tls.CommonTlsContext(validation_context=validation), sni=host if named else "",
        auto_sni_san_validation=named)))


def is_ip(host: str) -> bool:
    """Whether the host is an address and not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def look_up(made: cluster.Cluster, addresses: Sequence[str]) -> None:
    """Host names are looked up again and again, and each address of one is an endpoint; what has none stands as it
    is."""
    if all(text.startswith(("unix:", "/")) or is_ip(parse_address(text)[0]) for text in addresses):
        made.type = cluster.ClusterDiscoveryType.STATIC
    else:
        # A container that was replaced has another address at once; Docker's DNS lets the old one live 10 minutes.
        made.cluster_type = by_name(refresh=5, respect_ttl=False)


def address_of(text: str, *, mode: int = 0) -> core.Address:
    """`unix:/path`, `/path` or `host:port`. `mode`: the rights of a socket that Envoy makes itself."""
    path = text.removeprefix("unix:")
    if path.startswith("/"):
        return core.Address(pipe=core.Pipe(path=path if not path.startswith("//") else path[1:], mode=mode))
    host, port = parse_address(text)
    return core.Address(socket_address=core.SocketAddress(address=host, port_value=port))
