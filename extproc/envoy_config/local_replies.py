"""Envoy's own error replies in the client's error shape.

Envoy answers some requests itself: a missing key, a body over the limit, a provider that cannot be reached, a processor
that does not run. As plain text those would break every client library, so both connection managers rewrite them here:
at the edge by the path the client used, behind translation (where the path has changed) by the client's API, which
`filters.remember_client` keeps as metadata.

The processor's own replies are left alone; they carry details that begin with `extproc_`. The status never changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from envoy_data_plane.envoy.config.accesslog import v3 as accesslog
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.access_loggers.filters.cel import v3 as cel
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.google import protobuf

from extproc.endpoints import ANTHROPIC_PREFIX, ENDPOINTS
from extproc.envoy_config.provider_keys import NO_KEY_DETAILS
from extproc.envoy_config.rendering import pack, request_header
from extproc.errors import GATEWAY_REFUSALS
from extproc.headers import LIMIT_MESSAGE_HEADER, ROUTE_HEADER, TEAM_HEADER

CLIENT_NAMESPACE, CLIENT_API, CLIENT_REQUEST_ID = "extproc.client", "api", "id"
"""Dynamic metadata of the backend hop that outlives the internal headers: its namespace and keys."""


def _is_path_of(api: str) -> str:
    return " || ".join(f"request.url_path.contains('{path}')"
                       for path, endpoint in ENDPOINTS.items() if endpoint.api == api)


EDGE_IS_ANTHROPIC = (
    f"({_is_path_of('anthropic')} || (!({_is_path_of('openai')})"
    f" && (request.url_path.startsWith('{ANTHROPIC_PREFIX}/') || 'anthropic-version' in request.headers)))"
)
"""The rule of `extproc.endpoints.api_of` as an expression of Envoy's."""
_HOP_IS_ANTHROPIC = f"metadata.filter_metadata['{CLIENT_NAMESPACE}']['{CLIENT_API}'] == 'anthropic'"
_SERVED = [path for path in ENDPOINTS if path != "/"]
_ENVOYS_OWN = "response.code >= 400 && !response.code_details.startsWith('extproc_')"


@dataclass(frozen=True)
class _Reply:
    """One class of Envoy's replies: when, and what the client reads."""

    when: str
    anthropic: str
    openai: str
    message: str
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


_REPLIES = [
    _Reply("response.code == 401", "authentication_error", "invalid_request_error",
           GATEWAY_REFUSALS["authentication"], "invalid_api_key"),
    _Reply("response.code == 403", "permission_error", "invalid_request_error",
           GATEWAY_REFUSALS["permission"]),
    _Reply("response.code == 404", "not_found_error", "invalid_request_error",
           "Nothing is served here: %REQ(:METHOD)% %PATH(NQ:ORIG_OR_PATH)%. Served are "
           f"{', '.join(_SERVED[:-1])} and {_SERVED[-1]}.", "not_found"),
    # The processor says the same where its clock rings first.
    _Reply("response.code == 408", "timeout_error", "server_error", "The request did not arrive in time.", "timeout"),
    _Reply("response.code == 413", "request_too_large", "invalid_request_error",
           GATEWAY_REFUSALS["too_large"], "request_too_large"),
    # Said by our own service of limits, and made of the numbers of another one.
    _Reply(f"response.code == 429 && '{LIMIT_MESSAGE_HEADER}' in response.headers", "rate_limit_error",
           "rate_limit_error", f"%RESP({LIMIT_MESSAGE_HEADER})%", "rate_limit_exceeded"),
    _Reply("response.code == 429 && 'x-ratelimit-reset' in response.headers", "rate_limit_error", "rate_limit_error",
           f'Rate limit reached: a limit of team "{request_header(TEAM_HEADER)}" is used up. The limit, and what '
           "all its limits are by window (w, in seconds): %RESP(X-RATELIMIT-LIMIT)%. It resets in "
           "%RESP(X-RATELIMIT-RESET)% seconds.",
           "rate_limit_exceeded", {"retry-after": "%RESP(X-RATELIMIT-RESET)%"}),
    _Reply("response.code == 429", "rate_limit_error", "rate_limit_error",
           GATEWAY_REFUSALS["rate_limit"], "rate_limit_exceeded"),
    # 501 for a transfer encoding that Envoy does not know.
    _Reply("response.code < 500 || response.code_details.startsWith('http1.')", "invalid_request_error",
           "invalid_request_error", "The request is not valid HTTP for this gateway (%RESPONSE_CODE_DETAILS%)."),
    _Reply("response.code_details == 'rate_limiter_error'", "overloaded_error", "server_error",
           "The gateway cannot reach the service that counts the limits of teams. Please try again.",
           "limits_unavailable"),
    _Reply("response.code_details == 'cluster_not_found'", "api_error", "server_error",
           f"Envoy has no route for the rule that the processor chose ({request_header(ROUTE_HEADER)}): their "
           "configurations differ. This Envoy needs a new one (extproc envoy-config).", "configurations_differ"),
    _Reply(f"response.code_details == '{NO_KEY_DETAILS}'", "api_error", "server_error",
           "The gateway has no key for this provider: its key file is missing or empty.", "provider_key_missing"),
    _Reply("response.code_details.startsWith('ext_proc_error')", "api_error", "server_error",
           "The gateway's processor could not be reached or stopped answering. Please try again."),
    _Reply("response.code_details.contains('no_healthy_upstream')", "overloaded_error", "server_error",
           "The provider's host name cannot be resolved, or none of its addresses answers. Please try again.",
           "provider_unreachable"),
    _Reply("response.code_details.contains('connection_failure')", "overloaded_error", "server_error",
           "The provider cannot be reached: it refuses connections or its TLS certificate is not trusted. "
           "Please try again.", "provider_unreachable"),
    _Reply("response.code_details.contains('connection_timeout')", "overloaded_error", "server_error",
           "The provider did not accept a connection in time. Please try again.", "provider_unreachable"),
    _Reply("response.code_details.contains('protocol_error')", "api_error", "server_error",
           "The provider's response is not valid HTTP. Please try again.", "provider_unreadable"),
    _Reply("response.code == 503", "overloaded_error", "server_error",
           "The connection to the provider broke before it answered. Please try again.", "provider_unreachable"),
    _Reply("response.code == 504", "timeout_error", "server_error",
           "The provider did not answer in time. Please try again.", "provider_timeout"),
    _Reply("true", "api_error", "server_error", "The gateway could not complete the request. Please try again."),
]
"""The first that holds is used."""


@cache
def edge_replies() -> hcm.LocalReplyConfig:
    """For the edge listener: the shape follows from the client's path."""
    return _mappers(EDGE_IS_ANTHROPIC, "%STREAM_ID%")


@cache
def hop_replies() -> hcm.LocalReplyConfig:
    """For the internal listeners, all of them the same: the shape follows from the remembered API of the client."""
    return _mappers(_HOP_IS_ANTHROPIC, f"%DYNAMIC_METADATA({CLIENT_NAMESPACE}:{CLIENT_REQUEST_ID})%")


def _mappers(is_anthropic: str, request_id: str) -> hcm.LocalReplyConfig:
    """A mapper for each class and shape. OpenAI's come last and ask nothing about the client, so that they also
    catch a request too broken to have a path. `request_id`: Envoy's format for the id of the request."""
    mappers = [_mapper(f"{_ENVOYS_OWN} && {is_anthropic} && ({reply.when})", _anthropic_body(reply, request_id),
                       {"request-id": request_id, **reply.headers}) for reply in _REPLIES]
    mappers += [_mapper(f"{_ENVOYS_OWN} && ({reply.when})", _openai_body(reply),
                        {"x-request-id": request_id, **reply.headers}) for reply in _REPLIES]
    return hcm.LocalReplyConfig(mappers=mappers)


def _mapper(expression: str, body: dict[str, Any], headers: dict[str, str]) -> hcm.ResponseMapper:
    return hcm.ResponseMapper(
        filter=accesslog.AccessLogFilter(extension_filter=accesslog.ExtensionFilter(
            name="envoy.access_loggers.extension_filters.cel",
            typed_config=pack(cel.ExpressionFilter(expression=expression)))),
        # As JSON, not as text: Envoy then escapes what it puts in.
        body_format_override=core.SubstitutionFormatString(
            json_format=protobuf.Struct.from_dict(body), content_type="application/json"),
        headers_to_add=[core.HeaderValueOption(
            header=core.HeaderValue(key=key, value=value),
            append_action=core.HeaderValueOptionHeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD)
            for key, value in headers.items()])


def _anthropic_body(reply: _Reply, request_id: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": reply.anthropic, "message": reply.message}, "request_id": request_id}


def _openai_body(reply: _Reply) -> dict[str, Any]:
    return {"error": {"message": reply.message, "type": reply.openai, "param": None, "code": reply.code}}
