"""A backend's clusters: the provider's endpoints, twice where ejection matters, and its outgoing proxy.

`backend-NAME` always sends the request to the provider. Attempts with a later attempt on another backend use
`early-NAME`: the same endpoints under outlier detection that may eject all of them. Such an attempt then fails at once
with 503, and the next one follows. The last attempt gains nothing from ejection (its client would lose the provider's
own error and its `retry-after`), so it never uses that cluster; `routes.hop_table` selects between the two.

A backend with an outgoing proxy has an internal listener as its endpoint, which sends CONNECT to the proxy. So TLS is
end to end, and only the proxy resolves the provider's name; machines behind a proxy often cannot. (Envoy's own
`http_11_proxy` transport socket needs an address for either.)
"""

from __future__ import annotations

import base64

from envoy_data_plane.envoy.config.cluster import v3 as cluster
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.endpoint import v3 as endpoint
from envoy_data_plane.envoy.config.listener import v3 as listener
from envoy_data_plane.envoy.extensions.filters.network.tcp_proxy import v3 as tcp
from envoy_data_plane.envoy.type import v3 as envoy_type

from extproc.config import Backend, Config, Ejection
from extproc.config.backends import parse_proxy
from extproc.envoy_config.cluster_parts import (
    endpoints,
    find_by,
    http1,
    http_auto,
    internal_address,
    no_breakers,
    protocol,
    tls_to,
)
from extproc.envoy_config.key_rotation import keys_filters
from extproc.envoy_config.rendering import pack, seconds
from extproc.envoy_config.resource_sources import Sources
from extproc.envoy_config.routes import ejectable_attempts, ejectable_cluster, provider_cluster


def provider_clusters(name: str, backend: Backend, config: Config, ca: str, sources: Sources, *,
                      with_secrets: bool) -> list[cluster.Cluster]:
    """All clusters of this backend. `ca`: the file of certificates trusted where the backend names none."""
    def made(cluster_name: str) -> cluster.Cluster:
        return _provider(cluster_name, name, backend, config, ca, sources, with_secrets=with_secrets)

    patient = made(provider_cluster(name))
    patient.outlier_detection = _mild_outlier_detection()
    found = [patient]
    if ejectable_attempts(name, config):
        ejectable = made(ejectable_cluster(name))
        ejectable.outlier_detection = _ejection(config.ejection)
        # Without this Envoy would ask all endpoints again as soon as most of them are ejected.
        ejectable.common_lb_config = cluster.ClusterCommonLbConfig(
            healthy_panic_threshold=envoy_type.Percent(value=0.0))
        found.append(ejectable)
    if backend.proxy is not None:
        found.append(proxy_cluster(name, backend.proxy, config, ca))
    return found


def _provider(cluster_name: str, name: str, backend: Backend, config: Config, ca: str, sources: Sources, *,
              with_secrets: bool) -> cluster.Cluster:
    """The endpoints: TLS with the host checked for https, HTTP/2 where the provider offers it."""
    options = http_auto() if backend.is_tls else http1()
    options.http_filters = keys_filters(name, backend, sources, with_secrets=with_secrets)
    proxied = backend.proxy is not None
    address = (internal_address(proxy_name(name)) if proxied else
               core.Address(socket_address=core.SocketAddress(address=backend.host, port_value=backend.port)))
    made = cluster.Cluster(
        name=cluster_name,
        connect_timeout=seconds(config.timeouts.connect),
        typed_extension_protocol_options=protocol(options),
        circuit_breakers=no_breakers(),
        # The hostname becomes the Host header.
        load_assignment=endpoints(cluster_name, [endpoint.Endpoint(hostname=backend.authority, address=address)]))
    if proxied:
        made.type = cluster.ClusterDiscoveryType.STATIC
    else:
        made.upstream_connection_options = keep_alive()
        find_by(made, backend.host)
    if backend.is_tls:
        made.transport_socket = tls_to(backend.host, backend.ca or ca)
    return made


def keep_alive() -> cluster.UpstreamConnectionOptions:
    """Notices a peer that is gone without a word."""
    return cluster.UpstreamConnectionOptions(
        tcp_keepalive=core.TcpKeepalive(keepalive_time=60, keepalive_interval=10, keepalive_probes=3))


def _mild_outlier_detection() -> cluster.OutlierDetection:
    """Keeps away from an address of the provider that does not accept connections while others do. Its error answers
    do not count: those are about the request or the provider as a whole."""
    return cluster.OutlierDetection(
        split_external_local_origin_errors=True, consecutive_local_origin_failure=5,
        enforcing_consecutive_5xx=0, enforcing_consecutive_gateway_failure=0, enforcing_success_rate=0,
        enforcing_local_origin_success_rate=0, base_ejection_time=seconds(5), max_ejection_time=seconds(30),
        max_ejection_percent=50)


def _ejection(settings: Ejection) -> cluster.OutlierDetection:
    """Statuses below 500 do not count: a 429 or a refused key is answered fast, and is about a key. Errors of the
    connection count with the others: counted apart, each connection that is made would start their count anew, and one
    that is reset every time would never be noticed."""
    return cluster.OutlierDetection(
        consecutive_5xx=settings.failures, enforcing_consecutive_5xx=100, enforcing_consecutive_gateway_failure=0,
        enforcing_success_rate=0,
        # How often it is looked who comes back.
        interval=seconds(1), base_ejection_time=seconds(settings.time), max_ejection_time=seconds(settings.longest),
        max_ejection_percent=100)


# -------------------------------------------------------------------------------------------------------------- proxies


def proxy_name(backend: str) -> str:
    """The name of both the internal listener and the proxy's cluster."""
    return f"proxy-{backend}"


def proxy_listener(name: str, backend: Backend, *, with_secrets: bool) -> listener.Listener:
    """Whatever connects here is connected to the backend's host, through the proxy."""
    assert backend.proxy is not None
    login = parse_proxy(backend.proxy).login
    headers = []
    if login is not None:
        value = base64.b64encode(login.encode()).decode() if with_secrets else f"PUT-THE-LOGIN-OF-PROXY-{name}-HERE"
        headers = [core.HeaderValueOption(header=core.HeaderValue(key="proxy-authorization", value=f"Basic {value}"))]
    tunnel = tcp.TcpProxy(
        stat_prefix=proxy_name(name), cluster=proxy_name(name),
        # Silence is watched over by those who know what it means.
        idle_timeout=seconds(0),
        tunneling_config=tcp.TcpProxyTunnelingConfig(hostname=backend.address, headers_to_add=headers))
    return listener.Listener(
        name=proxy_name(name), internal_listener=listener.ListenerInternalListenerConfig(),
        filter_chains=[listener.FilterChain(filters=[listener.Filter(
            name="envoy.filters.network.tcp_proxy", typed_config=pack(tunnel))])],
        traffic_direction=core.TrafficDirection.OUTBOUND)


def proxy_cluster(name: str, url: str, config: Config, ca: str) -> cluster.Cluster:
    """The proxy itself."""
    proxy = parse_proxy(url)
    made = cluster.Cluster(
        name=proxy_name(name),
        connect_timeout=seconds(config.timeouts.connect),
        typed_extension_protocol_options=protocol(http1()),
        circuit_breakers=no_breakers(),
        upstream_connection_options=cluster.UpstreamConnectionOptions(
            tcp_keepalive=core.TcpKeepalive(keepalive_time=60, keepalive_interval=10, keepalive_probes=3)),
        load_assignment=endpoints(proxy_name(name), [endpoint.Endpoint(
            address=core.Address(socket_address=core.SocketAddress(address=proxy.host, port_value=proxy.port)))]))
    find_by(made, proxy.host)
    if proxy.is_tls:
        made.transport_socket = tls_to(proxy.host, ca)
    return made
