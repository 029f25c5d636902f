"""A backend's clusters: the provider's endpoints, twice where ejection matters, and its proxy.

`backend-NAME` always asks the provider. Attempts that are followed by one of another backend go through `early-NAME`:
the same endpoints under outlier detection, which may eject all of them. Such an attempt then fails at once with 503,
and the next one is made. The last attempt would gain nothing from that (its client would lose the provider's own error
and its `retry-after`), so it never goes there; `routes.hop_table` tells the two apart.
"""

from __future__ import annotations

from envoy_data_plane.envoy.config.cluster import v3 as cluster
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.endpoint import v3 as endpoint
from envoy_data_plane.envoy.type import v3 as envoy_type

from extproc.config import Backend, Config, Ejection
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
from extproc.envoy_config.proxies import proxy_cluster, proxy_name
from extproc.envoy_config.rendering import seconds
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
