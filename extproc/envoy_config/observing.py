"""What Envoy tells of requests itself: lines of its own in the log, and spans for a collector of traces.

The processor writes a line for each exchange that it has answered. Envoy adds those of which the processor cannot
know, so that every request has a line and none has two: at the edge what was refused before or behind `select`, was
given up while it was read, or never was a request; in a backend's hop the attempts whose worker was lost, or had said
nothing yet when the client left. The lines are JSON on standard output with the names of the processor's record
(`extproc.ext_proc.record`). They hold no query strings, no headers but those named here, and never the client's name of
a model.

Each request makes one span at the edge and one for each attempt in its backend's hop, which all join the same trace:
the edge hands its own context on, the hop takes it up. Whether the provider is told is the backend's setting.
"""

from __future__ import annotations

from typing import Any

from envoy_data_plane.envoy.config.accesslog import v3 as accesslog
from envoy_data_plane.envoy.config.bootstrap import v3 as bootstrap
from envoy_data_plane.envoy.config.cluster import v3 as cluster
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.endpoint import v3 as endpoint
from envoy_data_plane.envoy.config.route import v3 as route
from envoy_data_plane.envoy.config.trace import v3 as trace
from envoy_data_plane.envoy.extensions.access_loggers.filters.cel import v3 as cel
from envoy_data_plane.envoy.extensions.access_loggers.stream import v3 as stream
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.envoy.extensions.tracers.opentelemetry.samplers import v3 as samplers
from envoy_data_plane.envoy.type import v3 as envoy_type
from envoy_data_plane.envoy.type.tracing import v3 as tags
from envoy_data_plane.google import protobuf

from extproc.config import Backend, Config, Tracing
from extproc.config.observability import parse_otlp
from extproc.config.versions import plain_name
from extproc.envoy_config.cluster_parts import endpoints, find_by, http1, http2, protocol, tls_to
from extproc.envoy_config.local_replies import CLIENT_API, CLIENT_NAMESPACE, CLIENT_REQUEST_ID, EDGE_IS_ANTHROPIC
from extproc.envoy_config.rendering import extension, pack, request_header, seconds
from extproc.envoy_config.secrets import placeholder
from extproc.headers import ROUTE_HEADER, TEAM_HEADER
from extproc.profiles.telemetry import telemetry_provider_name

TRACES = "traces"
"""The cluster of the collector."""
CLIENT_TEAM, CLIENT_ATTEMPT = "team", "attempt"
"""Keys of `CLIENT_NAMESPACE` beside the API and the id: what a hop's line tells when `translate` said nothing."""
RULE_METADATA = "extproc"
"""The namespace of a route's own metadata; `rule` in it is the `match` of the model rule."""

# ----------------------------------------------------------------------------------------------------------- the log

_DETAILS = "(has(response.code_details) ? response.code_details : '')"
_ANSWERED = f"{_DETAILS}.startsWith('extproc_')"
"""The processor has answered by itself."""
_HANDED_ON = (f"('{ROUTE_HEADER}' in request.headers && has(upstream.request_attempt_count)"
              " && upstream.request_attempt_count > 0"
              f" && !{_DETAILS}.startsWith('upstream_reset_before_response_started'))")
"""A backend's hop has the request, and tells of it. (A connection into a hop does not fail unless Envoy is at its end;
what fails behind it is answered by the hop.)"""
_LIVENESS = f"{_DETAILS} == 'direct_response'"
_EDGE_OWN = f"!({_ANSWERED} || {_HANDED_ON} || {_LIVENESS})"
_EDGE_OTHERS = f"({_ANSWERED} || {_HANDED_ON}) && !({_LIVENESS})"
_HOP_OWN = (f"{_DETAILS}.startsWith('ext_proc_error')"
            f" || !({_ANSWERED} || 'extproc' in metadata.filter_metadata)")
_HANDSHAKE_FAILED = "has(connection.transport_failure_reason) && connection.transport_failure_reason != ''"

_NO_ANSWER = "(!has(response.code) || response.code == 0)"
_LEVEL = f"%CEL({_NO_ANSWER} || response.code < 400 ? 'info' : 'warning')%"
_OUTCOME = f"%CEL({_NO_ANSWER} ? 'client_closed' : response.code < 400 ? 'ok' : 'error')%"

_ALWAYS = {"time": "%EMIT_TIME(%Y-%m-%dT%H:%M:%S.%3fZ)%", "response_flags": "%RESPONSE_FLAGS%"}
_REQUEST = {
    **_ALWAYS,
    "status": f"%TYPED_CEL({_NO_ANSWER} ? null : response.code)%",
    "reason": "%RESPONSE_CODE_DETAILS%",
    "ms": "%DURATION%",
    "request_bytes": "%BYTES_RECEIVED%",
    "response_bytes": "%BYTES_SENT%",
}
_EDGE = {
    **_REQUEST,
    "level": _LEVEL,
    "hop": "edge",
    "request_id": "%STREAM_ID%",
    "path": "%PATH(NQ:ORIG_OR_PATH):200%",
    "api": f"%CEL({EDGE_IS_ANTHROPIC} ? 'anthropic' : 'openai')%",
    "team": request_header(TEAM_HEADER),
    "rule": f"%METADATA(ROUTE:{RULE_METADATA}:rule)%",
    "outcome": _OUTCOME,
    "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    "traceparent": "%REQ(TRACEPARENT):55%",
}


def edge_logs(config: Config) -> list[accesslog.AccessLog]:
    """For the edge's connection manager."""
    if config.access_log == "off":
        return []
    traced = {"trace_id": "%TRACE_ID%"} if config.tracing is not None else {}
    logs = [_log(_EDGE_OWN, {**_EDGE, **traced, "event": "exchange"})]
    if config.access_log == "all":
        # The processor's line has the outcome.
        others = {name: text for name, text in _EDGE.items() if name != "outcome"}
        logs.append(_log(_EDGE_OTHERS, {**others, **traced, "event": "access", "level": "info",
                                        "attempt": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
                                        "ms_head": "%COMMON_DURATION(DS_RX_BEG:DS_TX_BEG:ms)%"}))
    return logs


def connection_logs(config: Config) -> list[accesslog.AccessLog]:
    """For the edge's listener: connections that never came to a request, because their TLS handshake failed."""
    if config.access_log == "off" or config.tls is None:
        return []
    return [_log(_HANDSHAKE_FAILED, {
        **_ALWAYS, "level": "warning", "event": "connection", "hop": "edge", "outcome": "error",
        "reason": "%DOWNSTREAM_TRANSPORT_FAILURE_REASON%", "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"})]


def hop_logs(name: str, config: Config) -> list[accesslog.AccessLog]:
    """For a backend's connection manager."""
    if config.access_log == "off":
        return []
    lost = f"{_DETAILS}.startsWith('ext_proc_error')"
    return [_log(_HOP_OWN, {
        **_REQUEST, "event": "exchange", "hop": "translate",
        "level": f"%CEL({lost} || !{_NO_ANSWER} ? 'warning' : 'info')%",
        "outcome": f"%CEL({lost} || !{_NO_ANSWER} ? 'error' : 'client_closed')%",
        "request_id": _remembered(CLIENT_REQUEST_ID), "api": _remembered(CLIENT_API),
        "team": _remembered(CLIENT_TEAM), "attempt": f"%TYPED_CEL(int(metadata.filter_metadata['{CLIENT_NAMESPACE}']"
                                                     f"['{CLIENT_ATTEMPT}']))%",
        "rule": "%DYNAMIC_METADATA(extproc:rule)%", "backend": plain_name(name)})]


def _remembered(key: str) -> str:
    return f"%DYNAMIC_METADATA({CLIENT_NAMESPACE}:{key})%"


def _log(expression: str, fields: dict[str, Any]) -> accesslog.AccessLog:
    """One line of JSON for what the expression holds of; fields that are empty are left out."""
    return accesslog.AccessLog(
        name="envoy.access_loggers.stdout",
        filter=accesslog.AccessLogFilter(extension_filter=accesslog.ExtensionFilter(
            name="envoy.access_loggers.extension_filters.cel",
            typed_config=pack(cel.ExpressionFilter(expression=expression)))),
        typed_config=pack(stream.StdoutAccessLog(log_format=core.SubstitutionFormatString(
            json_format=protobuf.Struct.from_dict(fields), omit_empty_values=True))))


# ------------------------------------------------------------------------------------------------------------ traces

_URL = "%REQ(:SCHEME)%://%REQ(:AUTHORITY)%%PATH(NQ)%"
"""Without the query, which Envoy's own `http.url` has and in which clients put keys."""

_HOP_TAGS = {
    "gen_ai.operation.name": "operation",
    "gen_ai.request.model": "rule",
    "gen_ai.response.model": "provider_model",
    "gen_ai.response.finish_reasons": "finish",
    "gen_ai.usage.input_tokens": "input",
    "gen_ai.usage.output_tokens": "output",
    "gen_ai.usage.cache_read.input_tokens": "cached",
    "gen_ai.usage.reasoning.output_tokens": "reasoning",
    "extproc.api": "api",
    "extproc.team": "team",
    "extproc.attempt": "attempt",
}
"""Attributes of an attempt's span, by the OpenTelemetry conventions for generative AI where they have one, and the keys
of the metadata that `translate` gives. The model is the rule's `match`, as in the metrics."""


_BROKEN = f"{_DETAILS}.startsWith('upstream_reset_after_response_started')"
_TOLD = "metadata.filter_metadata['extproc']"
_ERROR_TYPE = (f"%CEL({_BROKEN} ? 'server' : 'extproc' in metadata.filter_metadata && 'failure' in {_TOLD}"
               f" && type({_TOLD}['failure']) == string ? {_TOLD}['failure'] : '')%")
"""The failure that `translate` found, or that the provider's stream broke off, which only Envoy knows."""
_ERROR = f"%CEL({_BROKEN} ? 'true' : '')%"
"""Envoy marks a span by itself only where the status is 5xx."""


def edge_tracing(config: Config, *, with_secrets: bool) -> hcm.HttpConnectionManagerTracing | None:
    """For the edge's connection manager; None where nothing is traced."""
    if config.tracing is None:
        return None
    return _tracing(config.tracing, with_secrets, "%REQ(:METHOD)% %PATH(NQ):100%", {
        "extproc.team": request_header(TEAM_HEADER),
        "gen_ai.request.model": f"%METADATA(ROUTE:{RULE_METADATA}:rule)%", "error": _ERROR})


def hop_tracing(name: str, backend: Backend, config: Config, *,
                with_secrets: bool) -> hcm.HttpConnectionManagerTracing | None:
    """For a backend's connection manager; None where nothing is traced."""
    if config.tracing is None:
        return None
    made = _tracing(config.tracing, with_secrets, f"attempt {plain_name(name)}", {
        "extproc.backend": plain_name(name), "gen_ai.provider.name": telemetry_provider_name(
            backend.api, backend.host, backend.base_path, backend.provider),
        "server.address": backend.host,
        **{tag: f"%DYNAMIC_METADATA(extproc:{key})%" for tag, key in _HOP_TAGS.items()},
        "error.type": _ERROR_TYPE, "error": _ERROR})
    made.no_context_propagation = not backend.is_traced
    return made


def never_traced() -> route.Tracing:
    """For a route whose requests are of no interest."""
    return route.Tracing(client_sampling=envoy_type.FractionalPercent(numerator=0),
                         random_sampling=envoy_type.FractionalPercent(numerator=0),
                         overall_sampling=envoy_type.FractionalPercent(numerator=0))


def _tracing(tracing: Tracing, with_secrets: bool, operation: str,
             custom: dict[str, str]) -> hcm.HttpConnectionManagerTracing:
    return hcm.HttpConnectionManagerTracing(
        # The sampler decides; a client's x-client-trace-id shall have no say.
        client_sampling=envoy_type.Percent(value=0), random_sampling=envoy_type.Percent(value=100.0),
        operation=operation,
        custom_tags=[tags.CustomTag(tag=tag, value=text) for tag, text in {"http.url": _URL, **custom}.items()],
        provider=trace.TracingHttp(name="envoy.tracers.opentelemetry",
                                   typed_config=pack(_exporter(tracing, with_secrets))))


def _exporter(tracing: Tracing, with_secrets: bool) -> trace.OpenTelemetryConfig:
    collector = parse_otlp(tracing.otlp)
    # Over HTTP Envoy reads % as the beginning of a format. (Over gRPC no value may hold one, which is checked.)
    headers = {name: value.replace("%", "%%") if with_secrets else placeholder("tracing", name)
               for name, value in tracing.headers.items()}
    made = trace.OpenTelemetryConfig(service_name=tracing.service, sampler=extension(
        "envoy.tracers.opentelemetry.samplers.parent_based", samplers.ParentBasedSamplerConfig(
            wrapped_sampler=extension(
                "envoy.tracers.opentelemetry.samplers.trace_id_ratio_based", samplers.TraceIdRatioBasedSamplerConfig(
                    sampling_percentage=envoy_type.FractionalPercent(
                        numerator=round(tracing.sampling * 1_000_000),
                        denominator=envoy_type.FractionalPercentDenominatorType.MILLION))))))
    if collector.is_grpc:
        made.grpc_service = core.GrpcService(
            envoy_grpc=core.GrpcServiceEnvoyGrpc(cluster_name=TRACES, authority=collector.authority),
            timeout=seconds(5),
            initial_metadata=[core.HeaderValue(key=name.lower(), value=value) for name, value in headers.items()])
    else:
        scheme = "https" if collector.is_tls else "http"
        made.http_service = core.HttpService(
            http_uri=core.HttpUri(uri=f"{scheme}://{collector.authority}{collector.path}", cluster=TRACES,
                                  timeout=seconds(5)),
            request_headers_to_add=[core.HeaderValueOption(
                header=core.HeaderValue(key=name, value=value),
                append_action=core.HeaderValueOptionHeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD)
                for name, value in headers.items()])
    return made


def runtime() -> bootstrap.LayeredRuntime:
    """Spans leave a second after they ended, where nothing fills a batch sooner; Envoy's own patience is 5 s."""
    return bootstrap.LayeredRuntime(layers=[bootstrap.RuntimeLayer(
        name="extproc", static_layer=protobuf.Struct.from_dict({"tracing.opentelemetry.flush_interval_ms": 1000.0}))])


def collector_clusters(config: Config, ca: str) -> list[cluster.Cluster]:
    """The cluster of the collector; none where nothing is traced. `ca`: the file of certificates trusted where the
    configuration names none."""
    if config.tracing is None:
        return []
    collector = parse_otlp(config.tracing.otlp)
    made = cluster.Cluster(
        name=TRACES, connect_timeout=seconds(2),
        typed_extension_protocol_options=protocol(
            http2(core.Http2ProtocolOptions()) if collector.is_grpc else http1()),
        load_assignment=endpoints(TRACES, [endpoint.Endpoint(
            hostname=collector.authority, address=core.Address(socket_address=core.SocketAddress(
                address=collector.host, port_value=collector.port)))]))
    find_by(made, collector.host)
    if collector.is_tls:
        made.transport_socket = tls_to(collector.host, config.tracing.ca or ca)
    return [made]
