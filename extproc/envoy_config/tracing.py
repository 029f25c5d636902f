"""Spans for a collector of traces, and the collector's cluster.

Each request makes one span at the edge and one for each attempt in its backend's hop. All of them join one trace: the
edge forwards its context, and the hop continues it. The backend's `trace` decides whether the provider gets it.
"""

from __future__ import annotations

from envoy_data_plane.envoy.config.bootstrap import v3 as bootstrap
from envoy_data_plane.envoy.config.cluster import v3 as cluster
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.endpoint import v3 as endpoint
from envoy_data_plane.envoy.config.route import v3 as route
from envoy_data_plane.envoy.config.trace import v3 as trace
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.envoy.extensions.tracers.opentelemetry.samplers import v3 as samplers
from envoy_data_plane.envoy.type import v3 as envoy_type
from envoy_data_plane.envoy.type.tracing import v3 as tags
from envoy_data_plane.google import protobuf

from extproc.config import Backend, Config, Tracing
from extproc.config.observability import parse_otlp
from extproc.config.versions import plain_name
from extproc.envoy_config.access_log import RESPONSE_DETAILS, RULE_METADATA
from extproc.envoy_config.cluster_parts import endpoints, http1, http2, protocol, resolve_host, tls_to
from extproc.envoy_config.provider_keys import placeholder
from extproc.envoy_config.rendering import extension, pack, request_header, seconds
from extproc.headers import TEAM_HEADER
from extproc.profiles.telemetry import telemetry_provider_name

TRACES = "traces"
"""The cluster of the collector."""

_URL = "%REQ(:SCHEME)%://%REQ(:AUTHORITY)%%PATH(NQ)%"
"""Without the query of Envoy's own `http.url`, in which clients may put keys."""

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
"""Attributes of an attempt's span, and the keys in the metadata of `translate`. The names follow the OpenTelemetry
conventions for generative AI if these have one. The request's model is the rule's `match`, as in the metrics."""

_BROKEN = f"{RESPONSE_DETAILS}.startsWith('upstream_reset_after_response_started')"
_FACTS = "metadata.filter_metadata['extproc']"
_ERROR_TYPE = (f"%CEL({_BROKEN} ? 'server' : 'extproc' in metadata.filter_metadata && 'failure' in {_FACTS}"
               f" && type({_FACTS}['failure']) == string ? {_FACTS}['failure'] : '')%")
"""The failure found by `translate`; `server` if the provider's stream broke off, which only Envoy knows."""
_ERROR = f"%CEL({_BROKEN} ? 'true' : '')%"
"""Envoy itself marks a span as an error only for a 5xx status."""


def edge_tracing(config: Config, *, with_secrets: bool) -> hcm.HttpConnectionManagerTracing | None:
    """For the edge's connection manager; None without tracing."""
    if config.tracing is None:
        return None
    return _tracing(config.tracing, with_secrets, "%REQ(:METHOD)% %PATH(NQ):100%", {
        "extproc.team": request_header(TEAM_HEADER),
        "gen_ai.request.model": f"%METADATA(ROUTE:{RULE_METADATA}:rule)%", "error": _ERROR})


def hop_tracing(name: str, backend: Backend, config: Config, *,
                with_secrets: bool) -> hcm.HttpConnectionManagerTracing | None:
    """For a backend's connection manager; None without tracing."""
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
    """For a route without traces."""
    return route.Tracing(client_sampling=envoy_type.FractionalPercent(numerator=0),
                         random_sampling=envoy_type.FractionalPercent(numerator=0),
                         overall_sampling=envoy_type.FractionalPercent(numerator=0))


def _tracing(tracing: Tracing, with_secrets: bool, operation: str,
             custom: dict[str, str]) -> hcm.HttpConnectionManagerTracing:
    return hcm.HttpConnectionManagerTracing(
        # The sampler decides. A client's x-client-trace-id must not.
        client_sampling=envoy_type.Percent(value=0), random_sampling=envoy_type.Percent(value=100.0),
        operation=operation,
        custom_tags=[tags.CustomTag(tag=tag, value=text) for tag, text in {"http.url": _URL, **custom}.items()],
        provider=trace.TracingHttp(name="envoy.tracers.opentelemetry",
                                   typed_config=pack(_exporter(tracing, with_secrets))))


def _exporter(tracing: Tracing, with_secrets: bool) -> trace.OpenTelemetryConfig:
    collector = parse_otlp(tracing.otlp)
    # Over HTTP Envoy reads % as the start of a format string. (Over gRPC the configuration refuses a %.)
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
    """Sends spans at the latest a second after their end. Envoy's default is 5 s."""
    return bootstrap.LayeredRuntime(layers=[bootstrap.RuntimeLayer(
        name="extproc", static_layer=protobuf.Struct.from_dict({"tracing.opentelemetry.flush_interval_ms": 1000.0}))])


def collector_clusters(config: Config, ca: str) -> list[cluster.Cluster]:
    """The cluster of the collector; none without tracing. `ca`: the file of trusted certificates if the configuration
    has none."""
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
    resolve_host(made, collector.host)
    if collector.is_tls:
        made.transport_socket = tls_to(collector.host, config.tracing.ca or ca)
    return [made]
