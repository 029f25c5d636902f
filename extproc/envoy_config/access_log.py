"""Envoy's own access log lines.

The processor writes a log line for each exchange that it has answered. Envoy writes lines for the requests that the
processor cannot know, so that every request has one line: at the edge, requests that were refused before or after
`select`, that were cancelled during upload, or that were no HTTP; in a backend's hop, attempts whose worker died, or
had sent nothing yet when the client disconnected. The lines are JSON on standard output with the field names of the
processor's record (`extproc.ext_proc.record`). They hold no query string, no header except those named here, and never
the client's name of a model.
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
"""Keys of `CLIENT_NAMESPACE` beside the API and the id: what a hop's line tells when `translate` said nothing."""
RULE_METADATA = "extproc"
"""The namespace of a route's own metadata; `rule` in it is the `match` of the model rule."""

RESPONSE_DETAILS = "(has(response.code_details) ? response.code_details : '')"
_ANSWERED = f"{RESPONSE_DETAILS}.startsWith('extproc_')"
"""The processor has answered by itself."""
_HANDED_ON = (f"('{ROUTE_HEADER}' in request.headers && has(upstream.request_attempt_count)"
              " && upstream.request_attempt_count > 0"
              f" && !{RESPONSE_DETAILS}.startsWith('upstream_reset_before_response_started'))")
"""A backend's hop has the request, and tells of it. (A connection into a hop does not fail unless Envoy is at its end;
what fails behind it is answered by the hop.)"""
_LIVENESS = f"{RESPONSE_DETAILS} == 'direct_response'"
_EDGE_OWN = f"!({_ANSWERED} || {_HANDED_ON} || {_LIVENESS})"
_EDGE_OTHERS = f"({_ANSWERED} || {_HANDED_ON}) && !({_LIVENESS})"
_HOP_OWN = (f"{RESPONSE_DETAILS}.startsWith('ext_proc_error')"
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
    lost = f"{RESPONSE_DETAILS}.startsWith('ext_proc_error')"
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
