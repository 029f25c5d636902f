"""Envoy's own error replies in the client's error shape.

Envoy answers some requests itself: a missing key, a body over the limit, a provider that cannot be reached, a processor
that does not run. Plain text would break every client library, so both connection managers rewrite these replies: at
the edge by the client's path and headers, behind translation (where the path has changed) by the client's API, which
`filters.remember_client` keeps as metadata. The client API itself writes the body (`ClientApi.encode_error`), with
Envoy's format strings for the values that only Envoy knows.

The processor's own replies are left alone; their details begin with `extproc_`. The status never changes, but for
refused upgrades.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec
from envoy_data_plane.envoy.config.accesslog import v3 as accesslog
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.access_loggers.filters.cel import v3 as cel
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.google import protobuf

from extproc.apis import CLIENT_APIS
from extproc.endpoints import CLIENT_TRAITS, ENDPOINTS, FALLBACK_API, ClientApiName
from extproc.envoy_config.provider_keys import NO_KEY_DETAILS
from extproc.envoy_config.rendering import pack, request_header
from extproc.errors import GATEWAY_REFUSALS, Failure, FailureKind
from extproc.headers import LIMIT_MESSAGE_HEADER, ROUTE_HEADER, TEAM_HEADER

CLIENT_NAMESPACE, CLIENT_API, CLIENT_REQUEST_ID = "extproc.client", "api", "id"
"""Dynamic metadata of the backend hop that outlives the internal headers: its namespace and keys."""


_OTHER_APIS = [api for api in CLIENT_TRAITS if api != FALLBACK_API]


def _is_path_of(api: ClientApiName) -> str:
    return " || ".join(f"request.url_path.contains('{path}')"
                       for path, endpoint in ENDPOINTS.items() if endpoint.api == api)


def _speaks(api: ClientApiName) -> str:
    """The rule of `extproc.endpoints.api_of` as an expression of Envoy's."""
    traits = CLIENT_TRAITS[api]
    shown = " || ".join((*([] if traits.prefix is None else [f"request.url_path.startsWith('{traits.prefix}/')"]),
                         *(f"'{header}' in request.headers" for header in sorted(traits.headers))))
    if not shown:
        return f"({_is_path_of(api)})"
    foreign_path = " || ".join(_is_path_of(other) for other in CLIENT_TRAITS if other != api)
    return f"({_is_path_of(api)} || (!({foreign_path}) && ({shown})))"


EDGE_API = "".join(f"{_speaks(api)} ? '{api}' : " for api in _OTHER_APIS) + f"'{FALLBACK_API}'"
"""The client's API at the edge, as an expression of Envoy's."""
_HOP_API = f"metadata.filter_metadata['{CLIENT_NAMESPACE}']['{CLIENT_API}']"
_SERVED = [path for path in ENDPOINTS if path != "/"]
_ENVOYS_OWN = "response.code >= 400 && !response.code_details.startsWith('extproc_')"


@dataclass(frozen=True)
class _Reply:
    """One class of Envoy's replies: when it applies, and the failure that the client reads."""

    when: str
    kind: FailureKind
    message: str
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int | None = None
    """Replaces Envoy's status."""
    fallback_kind: FailureKind | None = None
    """The kind in the shape of `FALLBACK_API`, if another one."""


_REPLIES = [
    # Codex tries a WebSocket first. Only 426 sends it to HTTP at once.
    _Reply("response.code_details == 'upgrade_failed'", "invalid_request",
           "WebSockets are not served here: use HTTP.", "upgrade_not_supported", status=426),
    # OpenAI itself refuses a wrong key as an invalid request, with this code.
    _Reply("response.code == 401", "authentication", GATEWAY_REFUSALS["authentication"], "invalid_api_key",
           fallback_kind="invalid_request"),
    _Reply("response.code == 403", "permission", GATEWAY_REFUSALS["permission"], fallback_kind="invalid_request"),
    _Reply("response.code == 404", "not_found",
           "Nothing is served here: %REQ(:METHOD)% %PATH(NQ:ORIG_OR_PATH)%. Served are "
           f"{', '.join(_SERVED[:-1])} and {_SERVED[-1]}.", "not_found"),
    # The processor says the same if its own timeout ends first.
    _Reply("response.code == 408", "timeout", "The request did not arrive in time.", "timeout"),
    _Reply("response.code == 413", "too_large", GATEWAY_REFUSALS["too_large"], "request_too_large"),
    # The first is a refusal by our own rate limit service; the second is made of the numbers of another one.
    _Reply(f"response.code == 429 && '{LIMIT_MESSAGE_HEADER}' in response.headers", "rate_limit",
           f"%RESP({LIMIT_MESSAGE_HEADER})%", "rate_limit_exceeded"),
    _Reply("response.code == 429 && 'x-ratelimit-reset' in response.headers", "rate_limit",
           f'Rate limit reached: a limit of team "{request_header(TEAM_HEADER)}" is used up. The limit, and what '
           "all its limits are by window (w, in seconds): %RESP(X-RATELIMIT-LIMIT)%. It resets in "
           "%RESP(X-RATELIMIT-RESET)% seconds.",
           "rate_limit_exceeded", {"retry-after": "%RESP(X-RATELIMIT-RESET)%"}),
    _Reply("response.code == 429", "rate_limit", GATEWAY_REFUSALS["rate_limit"], "rate_limit_exceeded"),
    # 501 is the status for a transfer encoding that Envoy does not know.
    _Reply("response.code < 500 || response.code_details.startsWith('http1.')", "invalid_request",
           "The request is not valid HTTP for this gateway (%RESPONSE_CODE_DETAILS%)."),
    _Reply("response.code_details == 'rate_limiter_error'", "overloaded",
           "The gateway cannot reach the service that counts the limits of teams. Please try again.",
           "limits_unavailable"),
    _Reply("response.code_details == 'cluster_not_found'", "server",
           f"Envoy has no route for the rule that the processor chose ({request_header(ROUTE_HEADER)}): their "
           "configurations differ. This Envoy needs a new one (extproc envoy-config).", "configurations_differ"),
    _Reply(f"response.code_details == '{NO_KEY_DETAILS}'", "server",
           "The gateway has no key for this provider: its key file is missing or empty.", "provider_key_missing"),
    _Reply("response.code_details.startsWith('ext_proc_error')", "server",
           "The gateway's processor could not be reached or stopped answering. Please try again."),
    _Reply("response.code_details.contains('no_healthy_upstream')", "unavailable",
           "The provider's host name cannot be resolved, or none of its addresses answers. Please try again.",
           "provider_unreachable"),
    _Reply("response.code_details.contains('connection_failure')", "unavailable",
           "The provider cannot be reached: it refuses connections or its TLS certificate is not trusted. "
           "Please try again.", "provider_unreachable"),
    _Reply("response.code_details.contains('connection_timeout')", "unavailable",
           "The provider did not accept a connection in time. Please try again.", "provider_unreachable"),
    _Reply("response.code_details.contains('protocol_error')", "server",
           "The provider's response is not valid HTTP. Please try again.", "provider_unreadable"),
    _Reply("response.code == 503", "unavailable",
           "The connection to the provider broke before it answered. Please try again.", "provider_unreachable"),
    _Reply("response.code == 504", "timeout",
           "The provider did not answer in time. Please try again.", "provider_timeout"),
    _Reply("true", "server", "The gateway could not complete the request. Please try again."),
]
"""The first that applies is used."""


@cache
def edge_replies() -> hcm.LocalReplyConfig:
    """For the edge listener: the shape follows from the client's path and headers."""
    return _mappers({api: _speaks(api) for api in _OTHER_APIS}, "%STREAM_ID%")


@cache
def hop_replies() -> hcm.LocalReplyConfig:
    """For the internal listeners, the same for all: the shape follows from the remembered API of the client."""
    return _mappers({api: f"{_HOP_API} == '{api}'" for api in _OTHER_APIS},
                    f"%DYNAMIC_METADATA({CLIENT_NAMESPACE}:{CLIENT_REQUEST_ID})%")


def _mappers(conditions: Mapping[ClientApiName, str], request_id: str) -> hcm.LocalReplyConfig:
    """A mapper for each reply and API. Those of the fallback API come last and have no condition on the client, so that
    they also apply to a request too broken to have a path. `conditions`: expressions for the other APIs. `request_id`:
    Envoy's format for the id of the request."""
    mappers = [_mapper(f"{_ENVOYS_OWN} && {condition} && ({reply.when})", api, reply, reply.kind, request_id)
               for api, condition in conditions.items() for reply in _REPLIES]
    mappers += [_mapper(f"{_ENVOYS_OWN} && ({reply.when})", FALLBACK_API, reply, reply.fallback_kind or reply.kind,
                        request_id) for reply in _REPLIES]
    return hcm.LocalReplyConfig(mappers=mappers)


def _mapper(expression: str, api: ClientApiName, reply: _Reply, kind: FailureKind,
            request_id: str) -> hcm.ResponseMapper:
    error = CLIENT_APIS[api].encode_error(Failure(kind=kind, message=reply.message, code=reply.code), request_id)
    body: dict[str, Any] = msgspec.json.decode(error.body)
    headers = {name: value for name, value in {**error.headers, **reply.headers}.items() if name != "content-type"}
    add_if_absent = core.HeaderValueOptionHeaderAppendAction.ADD_IF_ABSENT
    overwrite = core.HeaderValueOptionHeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD
    return hcm.ResponseMapper(
        status_code=reply.status,
        filter=accesslog.AccessLogFilter(extension_filter=accesslog.ExtensionFilter(
            name="envoy.access_loggers.extension_filters.cel",
            typed_config=pack(cel.ExpressionFilter(expression=expression)))),
        # As JSON, not as text: Envoy then escapes the values that it inserts.
        body_format_override=core.SubstitutionFormatString(
            json_format=protobuf.Struct.from_dict(body), content_type="application/json"),
        headers_to_add=[core.HeaderValueOption(
            header=core.HeaderValue(key=name, value=value),
            # The time that the rate limit service named counts, not the API's usual one.
            append_action=add_if_absent if name == "retry-after" and name not in reply.headers else overwrite)
            for name, value in headers.items()])
