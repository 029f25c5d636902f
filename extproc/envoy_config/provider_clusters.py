"""A backend's clusters: the provider's endpoints, twice where ejection matters, and its outgoing proxy.

`backend-NAME` always sends the request to the provider. Attempts with a later attempt on another backend use
`early-NAME`: the same endpoints under outlier detection that may eject all of them. Such an attempt then fails at once
with 503, and the next one follows. The last attempt gains nothing from ejection (its client would lose the provider's
own error and its `retry-after`), so it never uses that cluster; `routes.hop_table` selects between the two.

A backend with an outgoing proxy has an internal listener as its endpoint, which sends CONNECT to the proxy. So TLS is
end to end, and only the proxy resolves the provider's name, which machines behind a proxy often cannot. (Envoy's own
`http_11_proxy` transport socket needs the resolved address.)
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
    http1,
    http_auto,
    internal_address,
    no_breakers,
    protocol,
    resolve_host,
    tls_to,
)
from extproc.envoy_config.key_rotation import rotation_filters
from extproc.envoy_config.rendering import pack, seconds
from extproc.envoy_config.resource_sources import Sources
from extproc.envoy_config.routes import ejectable_attempts, ejectable_cluster_name, provider_cluster_name


def provider_clusters(name: str, backend: Backend, config: Config, ca: str, sources: Sources, *,
                      with_secrets: bool) -> list[cluster.Cluster]:
    """All clusters of this backend. `ca`: the file of trusted certificates if the backend has none."""
    def made(cluster_name: str) -> cluster.Cluster:
        return _provider(cluster_name, name, backend, config, ca, sources, with_secrets=with_secrets)

    always = made(provider_cluster_name(name))
    always.outlier_detection = _unreachable_address_detection()
    clusters = [always]
    if ejectable_attempts(name, config):
        ejectable = made(ejectable_cluster_name(name))
        ejectable.outlier_detection = _ejection(config.ejection)
        # By default Envoy uses all endpoints again as soon as most of them are ejected.
        ejectable.common_lb_config = cluster.ClusterCommonLbConfig(
            healthy_panic_threshold=envoy_type.Percent(value=0.0))
        clusters.append(ejectable)
    if backend.proxy is not None:
        clusters.append(proxy_cluster(name, backend.proxy, config, ca))
    return clusters


def _provider(cluster_name: str, name: str, backend: Backend, config: Config, ca: str, sources: Sources, *,
              with_secrets: bool) -> cluster.Cluster:
    """One cluster of the endpoints: for https TLS with the host checked, and HTTP/2 if the provider offers it."""
    options = http_auto() if backend.is_tls else http1()
    options.http_filters = rotation_filters(name, backend, sources, with_secrets=with_secrets)
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
        resolve_host(made, backend.host)
    if backend.is_tls:
        made.transport_socket = tls_to(backend.host, backend.ca or ca)
    return made


def keep_alive() -> cluster.UpstreamConnectionOptions:
    """TCP keep-alive, which detects a peer that vanished."""
    return cluster.UpstreamConnectionOptions(
        tcp_keepalive=core.TcpKeepalive(keepalive_time=60, keepalive_interval=10, keepalive_probes=3))


def _unreachable_address_detection() -> cluster.OutlierDetection:
    """Ejects an address of the provider that refuses connections while others accept them. Error responses do not
    count: they are about the request or the whole provider."""
    return cluster.OutlierDetection(
        split_external_local_origin_errors=True, consecutive_local_origin_failure=5,
        enforcing_consecutive_5xx=0, enforcing_consecutive_gateway_failure=0, enforcing_success_rate=0,
        enforcing_local_origin_success_rate=0, base_ejection_time=seconds(5), max_ejection_time=seconds(30),
        max_ejection_percent=50)


def _ejection(settings: Ejection) -> cluster.OutlierDetection:
    """Statuses below 500 do not count: a 429 or a refused key comes fast and is about a key. Connection errors and
    error responses share one count. With separate counts, each successful connection would reset the count of
    connection errors, and a provider that resets every connection would never be ejected."""
    return cluster.OutlierDetection(
        consecutive_5xx=settings.failures, enforcing_consecutive_5xx=100, enforcing_consecutive_gateway_failure=0,
        enforcing_success_rate=0,
        # How often Envoy checks whose ejection has ended.
        interval=seconds(1), base_ejection_time=seconds(settings.time), max_ejection_time=seconds(settings.longest),
        max_ejection_percent=100)


# -------------------------------------------------------------------------------------------------------------- proxies


def proxy_name(backend: str) -> str:
    """The name of both the internal listener and the proxy's cluster."""
    return f"proxy-{backend}"


def proxy_listener(name: str, backend: Backend, *, with_secrets: bool) -> listener.Listener:
    """A listener that forwards its connections to the backend's host, through the proxy."""
    assert backend.proxy is not None
    login = parse_proxy(backend.proxy).login
    headers = []
    if login is not None:
        value = base64.b64encode(login.encode()).decode() if with_secrets else f"PUT-THE-LOGIN-OF-PROXY-{name}-HERE"
        headers = [core.HeaderValueOption(header=core.HeaderValue(key="proxy-authorization", value=f"Basic {value}"))]
    tunnel = tcp.TcpProxy(
        stat_prefix=proxy_name(name), cluster=proxy_name(name),
        # The HTTP filters have the timeouts for silence.
        idle_timeout=seconds(0),
        tunneling_config=tcp.TcpProxyTunnelingConfig(hostname=backend.address, headers_to_add=headers))
    return listener.Listener(
        name=proxy_name(name), internal_listener=listener.ListenerInternalListenerConfig(),
        filter_chains=[listener.FilterChain(filters=[listener.Filter(
            name="envoy.filters.network.tcp_proxy", typed_config=pack(tunnel))])],
        traffic_direction=core.TrafficDirection.OUTBOUND)


def proxy_cluster(name: str, url: str, config: Config, ca: str) -> cluster.Cluster:
    """The cluster of the proxy itself."""
    proxy = parse_proxy(url)
    made = cluster.Cluster(
        name=proxy_name(name),
        connect_timeout=seconds(config.timeouts.connect),
        typed_extension_protocol_options=protocol(http1()),
        circuit_breakers=no_breakers(),
        upstream_connection_options=keep_alive(),
        load_assignment=endpoints(proxy_name(name), [endpoint.Endpoint(
            address=core.Address(socket_address=core.SocketAddress(address=proxy.host, port_value=proxy.port)))]))
    resolve_host(made, proxy.host)
    if proxy.is_tls:
        made.transport_socket = tls_to(proxy.host, ca)
    return made
