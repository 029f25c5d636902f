"""The way through an outgoing proxy: an internal listener that asks the proxy to CONNECT, and the proxy's cluster.

A backend with a proxy has the internal listener for its endpoint, so TLS goes end to end and the provider's name is
looked up by the proxy alone; machines behind one often cannot look it up themselves. (Envoy's own `http_11_proxy`
transport socket can do neither without an address.)
"""

from __future__ import annotations

import base64

from envoy_data_plane.envoy.config.cluster import v3 as cluster
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.endpoint import v3 as endpoint
from envoy_data_plane.envoy.config.listener import v3 as listener
from envoy_data_plane.envoy.extensions.filters.network.tcp_proxy import v3 as tcp

from extproc.config import Backend, Config
from extproc.config.backends import parse_proxy
from extproc.envoy_config.cluster_parts import endpoints, find_by, http1, no_breakers, protocol, tls_to
from extproc.envoy_config.rendering import pack, seconds


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
