"""Envoy's own access log lines.

The processor writes a log line for each exchange to which it has responded. Envoy writes lines for the requests that
the processor cannot know, so that every request has one line. At the edge these are requests that were refused before
or after `select`, cancelled during upload, or not valid HTTP; in a backend's hop, attempts whose worker died, or had
sent nothing when the client disconnected. The lines are JSON on standard output with the field names of the
processor's record (`extproc.ext_proc.record`). They contain no query string, no header except those named here, and
never the client's name of a model.
"""

from __future__ import annotations

from typing import Any

from envoy_data_plane.envoy.config.accesslog import v3 as accesslog
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.access_loggers.filters.cel import v3 as cel
from envoy_data_plane.envoy.extensions.access_loggers.stream import v3 as stream
from envoy_data_plane.google import protobuf

from extproc.config import Config
from extproc.config.versions import plain_name
from extproc.envoy_config.local_replies import CLIENT_API, CLIENT_NAMESPACE, CLIENT_REQUEST_ID, EDGE_API
from extproc.envoy_config.rendering import pack, request_header
from extproc.headers import ROUTE_HEADER, TEAM_HEADER

CLIENT_TEAM, CLIENT_ATTEMPT = "team", "attempt"
"""Further keys of `CLIENT_NAMESPACE`, for a hop's line about an attempt without metadata of `translate`."""
RULE_METADATA = "extproc"
"""The namespace of a route's own metadata. Its key `rule` has the `match` of the model rule."""

RESPONSE_DETAILS = "(has(response.code_details) ? response.code_details : '')"
_OF_PROCESSOR = f"{RESPONSE_DETAILS}.startsWith('extproc_')"
"""The response is the processor's own."""
_IN_HOP = (f"('{ROUTE_HEADER}' in request.headers && has(upstream.request_attempt_count)"
              " && upstream.request_attempt_count > 0"
              f" && !{RESPONSE_DETAILS}.startsWith('upstream_reset_before_response_started'))")
"""A backend's hop has the request and logs it. (A connection to a hop fails only while Envoy itself ends; the hop
responds to all later failures.)"""
_LIVENESS = f"{RESPONSE_DETAILS} == 'direct_response'"
_EDGE_OWN = f"!({_OF_PROCESSOR} || {_IN_HOP} || {_LIVENESS})"
_EDGE_OTHERS = f"({_OF_PROCESSOR} || {_IN_HOP}) && !({_LIVENESS})"
_HOP_OWN = (f"{RESPONSE_DETAILS}.startsWith('ext_proc_error')"
            f" || !({_OF_PROCESSOR} || 'extproc' in metadata.filter_metadata)")
_HANDSHAKE_FAILED = "has(connection.transport_failure_reason) && connection.transport_failure_reason != ''"

_NO_RESPONSE = "(!has(response.code) || response.code == 0)"
_LEVEL = f"%CEL({_NO_RESPONSE} || response.code < 400 ? 'info' : 'warning')%"
_OUTCOME = f"%CEL({_NO_RESPONSE} ? 'client_closed' : response.code < 400 ? 'ok' : 'error')%"

_COMMON = {"time": "%EMIT_TIME(%Y-%m-%dT%H:%M:%S.%3fZ)%", "response_flags": "%RESPONSE_FLAGS%"}
_REQUEST = {
    **_COMMON,
    "status": f"%TYPED_CEL({_NO_RESPONSE} ? null : response.code)%",
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
    "api": f"%CEL({EDGE_API})%",
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
        # The outcome is in the processor's line.
        others = {name: text for name, text in _EDGE.items() if name != "outcome"}
        logs.append(_log(_EDGE_OTHERS, {**others, **traced, "event": "access", "level": "info",
                                        "attempt": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
                                        "ms_head": "%COMMON_DURATION(DS_RX_BEG:DS_TX_BEG:ms)%"}))
    return logs


def connection_logs(config: Config) -> list[accesslog.AccessLog]:
    """For the edge's listener: connections without a request, because their TLS handshake failed."""
    if config.access_log == "off" or config.tls is None:
        return []
    return [_log(_HANDSHAKE_FAILED, {
        **_COMMON, "level": "warning", "event": "connection", "hop": "edge", "outcome": "error",
        "reason": "%DOWNSTREAM_TRANSPORT_FAILURE_REASON%", "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"})]


def hop_logs(name: str, config: Config) -> list[accesslog.AccessLog]:
    """For a backend's connection manager."""
    if config.access_log == "off":
        return []
    worker_lost = f"{RESPONSE_DETAILS}.startsWith('ext_proc_error')"
    return [_log(_HOP_OWN, {
        **_REQUEST, "event": "exchange", "hop": "translate",
        "level": f"%CEL({worker_lost} || !{_NO_RESPONSE} ? 'warning' : 'info')%",
        "outcome": f"%CEL({worker_lost} || !{_NO_RESPONSE} ? 'error' : 'client_closed')%",
        "request_id": _client_fact(CLIENT_REQUEST_ID), "api": _client_fact(CLIENT_API),
        "team": _client_fact(CLIENT_TEAM), "attempt": f"%TYPED_CEL(int(metadata.filter_metadata['{CLIENT_NAMESPACE}']"
                                                     f"['{CLIENT_ATTEMPT}']))%",
        "rule": "%DYNAMIC_METADATA(extproc:rule)%", "backend": plain_name(name)})]


def _client_fact(key: str) -> str:
    return f"%DYNAMIC_METADATA({CLIENT_NAMESPACE}:{key})%"


def _log(expression: str, fields: dict[str, Any]) -> accesslog.AccessLog:
    """One line of JSON for each request to which the expression applies, without empty fields."""
    return accesslog.AccessLog(
        name="envoy.access_loggers.stdout",
        filter=accesslog.AccessLogFilter(extension_filter=accesslog.ExtensionFilter(
            name="envoy.access_loggers.extension_filters.cel",
            typed_config=pack(cel.ExpressionFilter(expression=expression)))),
        typed_config=pack(stream.StdoutAccessLog(log_format=core.SubstitutionFormatString(
            json_format=protobuf.Struct.from_dict(fields), omit_empty_values=True))))
