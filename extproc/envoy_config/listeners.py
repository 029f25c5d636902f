"""The listeners: the edge, where clients connect, and one internal listener per backend, where translation happens.

Each attempt goes through its backend's internal listener and starts from the client's original request, without any
header or key of an earlier attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.listener import v3 as listener
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.envoy.extensions.transport_sockets.tls import v3 as tls

from extproc.config import Backend, Config, parse_address
from extproc.envoy_config import access_log, filters, local_replies, ratelimit, tracing
from extproc.envoy_config.filters import cors_filter
from extproc.envoy_config.rendering import pack, seconds
from extproc.envoy_config.resource_sources import Sources
from extproc.envoy_config.routes import edge_table, hop_table
from extproc.envoy_config.stream_end_log import stream_end_logs

EDGE = "edge"
_SECRET = "certificate-edge"
"""The secret with the gateway's certificate. It is separate from the listener, so that new connections get a new pair
while old ones continue. Envoy reads the pair again when a file moves in a folder of the runtime directory, which
`extproc up` does after any change (`extproc.gateway.certificates`). A static bootstrap reads the files once, at
start-up."""
_REQUEST_TIMEOUT_MARGIN = 1.0
"""Seconds by which Envoy's timeout exceeds `timeouts.request`: the processor responds first, with a better error."""


def internal_listener_name(backend: str) -> str:
    """The internal listener of this backend."""
    return f"in-{backend}"


def edge_listener(config: Config, sources: Sources, *, with_secrets: bool) -> listener.Listener:
    """The listener for clients: HTTP/1.1 and HTTP/2, in clear text or over TLS."""
    host, port = parse_address(config.listen)
    manager = hcm.HttpConnectionManager(
        stat_prefix=EDGE,
        codec_type=hcm.HttpConnectionManagerCodecType.AUTO,
        server_name="extproc",
        use_remote_address=True,
        normalize_path=True,
        merge_slashes=True,
        stream_idle_timeout=seconds(config.timeouts.stream_idle),
        request_headers_timeout=seconds(10),
        request_timeout=seconds(config.timeouts.request + _REQUEST_TIMEOUT_MARGIN),
        early_header_mutation_extensions=[filters.drop_clients_internal_headers()],
        http_filters=[cors_filter(), filters.key_auth(), filters.body_limit(config.limits.body),
                      filters.select(), *ratelimit.edge_filters(config), filters.router_filter()],
        local_reply_config=local_replies.edge_replies(),
        access_log=access_log.edge_logs(config), tracing=tracing.edge_tracing(config, with_secrets=with_secrets))
    sources.attach_routes(manager, edge_table(config, with_secrets=with_secrets))
    return listener.Listener(
        name=EDGE, address=_socket("127.0.0.1" if host == "localhost" else host, port),
        filter_chains=[_chain(manager, edge_transport(config, sources))],
        access_log=access_log.connection_logs(config),
        # With a shared port, a second gateway could start on it and would get half of the connections.
        enable_reuse_port=False,
        # Draining stops listeners of this direction only. Failover of running requests needs the internal ones.
        traffic_direction=core.TrafficDirection.INBOUND)


def internal_listener(name: str, backend: Backend, config: Config, sources: Sources, *,
                      with_secrets: bool, sockets: Sequence[str]) -> listener.Listener:
    """The hop of one backend: translation, key, provider. `sockets`: the workers' addresses."""
    # Several keys are rotated in the cluster (`key_rotation`).
    key = [filters.provider_key(name, backend, sources)] if backend.has_key and not backend.keys else []
    manager = hcm.HttpConnectionManager(
        stat_prefix=internal_listener_name(name),
        codec_type=hcm.HttpConnectionManagerCodecType.HTTP2,
        server_header_transformation=hcm.HttpConnectionManagerServerHeaderTransformation.PASS_THROUGH,
        # The edge has the timeout for silent streams. A second one here would race with it.
        stream_idle_timeout=seconds(0),
        http_filters=[filters.remember_client(), filters.translate(name), *key, ratelimit.hop_filter(config),
                      filters.router_filter()],
        local_reply_config=local_replies.hop_replies(),
        access_log=[*access_log.hop_logs(name, config), *stream_end_logs(sockets)],
        tracing=tracing.hop_tracing(name, backend, config, with_secrets=with_secrets))
    sources.attach_hop(manager, lambda: hop_table(name, config), filters.name_hop(name))
    return listener.Listener(
        name=internal_listener_name(name), internal_listener=listener.ListenerInternalListenerConfig(),
        filter_chains=[_chain(manager)], traffic_direction=core.TrafficDirection.OUTBOUND)


def _chain(manager: hcm.HttpConnectionManager, transport: core.TransportSocket | None = None) -> listener.FilterChain:
    return listener.FilterChain(transport_socket=transport, filters=[listener.Filter(
        name="envoy.filters.network.http_connection_manager", typed_config=pack(manager))])


def _socket(host: str, port: int) -> core.Address:
    return core.Address(socket_address=core.SocketAddress(address=host, port_value=port))


def edge_transport(config: Config, sources: Sources) -> core.TransportSocket | None:
    """TLS 1.2 or newer (Envoy's own minimum), with HTTP/2 if the client offers it; None for clear text."""
    if config.tls is None:
        return None
    return core.TransportSocket(name="envoy.transport_sockets.tls", typed_config=pack(tls.DownstreamTlsContext(
        common_tls_context=tls.CommonTlsContext(
            alpn_protocols=["h2", "http/1.1"],
            tls_certificate_sds_secret_configs=[sources.secret(_SECRET)]))))


def edge_secrets(config: Config, reload_trigger: Path | None = None) -> list[tls.Secret]:
    """The secret with the certificate, which names files and contains no key. `reload_trigger`: the folder in which a
    moved file makes Envoy read the pair again."""
    if config.tls is None:
        return []
    return [tls.Secret(name=_SECRET, tls_certificate=tls.TlsCertificate(
        certificate_chain=core.DataSource(filename=config.tls.certificate),
        private_key=core.DataSource(filename=config.tls.key),
        watched_directory=None if reload_trigger is None else core.WatchedDirectory(
            path=str(reload_trigger))))]
