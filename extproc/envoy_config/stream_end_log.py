"""Who ended an attempt before its answer was complete: Envoy tells the workers, since ext_proc does not.

A stream of ext_proc ends in the same way when the client leaves and when the provider's connection breaks. So each
backend's hop has an access log that is sent to the workers by gRPC: one short entry for each attempt that did not end
as it should. Envoy does not know which worker had the attempt, so every worker gets every entry, and the one that has
it waits for it (`extproc.worker.stream_ends`).
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
from extproc.envoy_config.cluster_parts import address_of, endpoints, http2, look_up, no_breakers, protocol
from extproc.envoy_config.filters import PROCESSOR
from extproc.envoy_config.local_replies import CLIENT_NAMESPACE, CLIENT_REQUEST_ID
from extproc.envoy_config.rendering import pack, seconds

_SOON = 0.05
"""Seconds that an entry waits for others. The worker writes its line when it is there."""
_ENTRY = (f"%DYNAMIC_METADATA({CLIENT_NAMESPACE}:{CLIENT_REQUEST_ID})% "
          f"%DYNAMIC_METADATA({CLIENT_NAMESPACE}:{CLIENT_ATTEMPT})% %RESPONSE_FLAGS%")
"""What `extproc.worker.stream_ends` reads."""


def ending_logs(sockets: Sequence[str]) -> list[accesslog.AccessLog]:
    """For a backend's connection manager: an entry for each attempt that has one of Envoy's response flags."""
    return [accesslog.AccessLog(
        name="envoy.access_loggers.http_grpc",
        filter=accesslog.AccessLogFilter(response_flag_filter=accesslog.ResponseFlagFilter()),
        typed_config=pack(grpc_log.HttpGrpcAccessLogConfig(common_config=grpc_log.CommonGrpcAccessLogConfig(
            log_name="ended", transport_api_version=core.ApiVersion.V3, buffer_flush_interval=seconds(_SOON),
            grpc_service=core.GrpcService(envoy_grpc=core.GrpcServiceEnvoyGrpc(cluster_name=name)),
            custom_tags=[tags.CustomTag(tag="ended", value=_ENTRY)]))))
        for name in _names(sockets)]


def worker_clusters(sockets: Sequence[str]) -> list[cluster.Cluster]:
    """A cluster for each worker; of one worker that of all will do."""
    return [_worker(name, socket) for name, socket in zip(_names(sockets), sockets, strict=True) if name != PROCESSOR]


def _names(sockets: Sequence[str]) -> list[str]:
    return [PROCESSOR] if len(sockets) == 1 else [f"{PROCESSOR}-{number}" for number in range(len(sockets))]


def _worker(name: str, socket: str) -> cluster.Cluster:
    made = cluster.Cluster(
        name=name, connect_timeout=seconds(1), circuit_breakers=no_breakers(),
        typed_extension_protocol_options=protocol(http2(core.Http2ProtocolOptions(
            connection_keepalive=core.KeepaliveSettings(interval=seconds(10), timeout=seconds(10))))),
        load_assignment=endpoints(name, [endpoint.Endpoint(address=address_of(socket))]))
    look_up(made, [socket])
    return made
