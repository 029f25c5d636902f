"""Reports to the workers who ended an attempt early, the client or the provider, because ext_proc does not.

A stream of ext_proc ends in the same way when the client disconnects and when the provider's connection breaks. So the
hop of each backend has an access log that Envoy sends to the workers by gRPC, with one short entry for each attempt
that ended abnormally. Envoy does not know the worker of the attempt, so every worker gets every entry. The worker that
has the attempt waits for its entry (`extproc.worker.stream_ends`).
"""

from __future__ import annotations

from collections.abc import Sequence

from envoy_data_plane.envoy.config.accesslog import v3 as accesslog
from envoy_data_plane.envoy.config.cluster import v3 as cluster
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.endpoint import v3 as endpoint
from envoy_data_plane.envoy.extensions.access_loggers.grpc import v3 as grpc_log
from envoy_data_plane.envoy.type.tracing import v3 as tags

from extproc.envoy_config.access_log import CLIENT_ATTEMPT
from extproc.envoy_config.cluster_parts import address_of, endpoints, http2, no_breakers, protocol, resolve_addresses
from extproc.envoy_config.filters import PROCESSOR
from extproc.envoy_config.local_replies import CLIENT_NAMESPACE, CLIENT_REQUEST_ID
from extproc.envoy_config.rendering import pack, seconds

_FLUSH_INTERVAL = 0.05
"""Seconds that an entry waits for others. The worker delays its own log line until the entry arrives."""
_ENTRY = (f"%DYNAMIC_METADATA({CLIENT_NAMESPACE}:{CLIENT_REQUEST_ID})% "
          f"%DYNAMIC_METADATA({CLIENT_NAMESPACE}:{CLIENT_ATTEMPT})% %RESPONSE_FLAGS%")
"""The text of an entry, which `extproc.worker.stream_ends` parses."""


def stream_end_logs(sockets: Sequence[str]) -> list[accesslog.AccessLog]:
    """For a backend's connection manager: an entry for each attempt with one of Envoy's response flags."""
    return [accesslog.AccessLog(
        name="envoy.access_loggers.http_grpc",
        filter=accesslog.AccessLogFilter(response_flag_filter=accesslog.ResponseFlagFilter()),
        typed_config=pack(grpc_log.HttpGrpcAccessLogConfig(common_config=grpc_log.CommonGrpcAccessLogConfig(
            log_name="ended", transport_api_version=core.ApiVersion.V3, buffer_flush_interval=seconds(_FLUSH_INTERVAL),
            grpc_service=core.GrpcService(envoy_grpc=core.GrpcServiceEnvoyGrpc(cluster_name=name)),
            custom_tags=[tags.CustomTag(tag="ended", value=_ENTRY)]))))
        for name in _cluster_names(sockets)]


def worker_clusters(sockets: Sequence[str]) -> list[cluster.Cluster]:
    """A cluster for each worker. A single worker needs none, because `PROCESSOR` has just this worker."""
    return [_worker(name, socket) for name, socket in zip(_cluster_names(sockets), sockets, strict=True)
            if name != PROCESSOR]


def _cluster_names(sockets: Sequence[str]) -> list[str]:
    return [PROCESSOR] if len(sockets) == 1 else [f"{PROCESSOR}-{number}" for number in range(len(sockets))]


def _worker(name: str, socket: str) -> cluster.Cluster:
    made = cluster.Cluster(
        name=name, connect_timeout=seconds(1), circuit_breakers=no_breakers(),
        typed_extension_protocol_options=protocol(http2(core.Http2ProtocolOptions(
            connection_keepalive=core.KeepaliveSettings(interval=seconds(10), timeout=seconds(10))))),
        load_assignment=endpoints(name, [endpoint.Endpoint(address=address_of(socket))]))
    resolve_addresses(made, [socket])
    return made
