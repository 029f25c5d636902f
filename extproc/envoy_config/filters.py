"""The HTTP filters of both connection managers, in the order in which a request passes them.

Edge: origins (CORS), team keys, body limit, `select` (reads the request, chooses the route), limits of teams. Backend
hop: `translate` (both directions), the provider's key, limits. The key is added after translation, so the processor
never sees it.
"""

from __future__ import annotations

import re

from envoy_data_plane.envoy.config.common.mutation_rules import v3 as rules
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.route import v3 as route
from envoy_data_plane.envoy.extensions.filters.http.api_key_auth import v3 as keyauth
from envoy_data_plane.envoy.extensions.filters.http.cors import v3 as cors
from envoy_data_plane.envoy.extensions.filters.http.credential_injector import v3 as injector
from envoy_data_plane.envoy.extensions.filters.http.ext_proc import v3 as ext_proc
from envoy_data_plane.envoy.extensions.filters.http.header_to_metadata import v3 as to_metadata
from envoy_data_plane.envoy.extensions.filters.http.router import v3 as router
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.envoy.extensions.http.early_header_mutation.header_mutation import v3 as early
from envoy_data_plane.envoy.extensions.http.injected_credentials.generic import v3 as generic
from envoy_data_plane.envoy.extensions.retry.host.previous_hosts import v3 as previous_hosts
from envoy_data_plane.envoy.type import v3 as http_type
from envoy_data_plane.envoy.type.matcher import v3 as matcher
from envoy_data_plane.google import protobuf

from extproc.config import Backend, Config
from extproc.envoy_config.access_log import CLIENT_ATTEMPT, CLIENT_TEAM
from extproc.envoy_config.local_replies import CLIENT_API, CLIENT_NAMESPACE, CLIENT_REQUEST_ID
from extproc.envoy_config.messages import BodySizeLimit
from extproc.envoy_config.provider_keys import key_from_file, key_header, key_name, placeholder, secret_name
from extproc.envoy_config.ratelimit import LIMITED_TEAM
from extproc.envoy_config.rendering import extension, pack, seconds
from extproc.envoy_config.resource_sources import Sources
from extproc.headers import (
    API_HEADER,
    ATTEMPT_COUNT_HEADER,
    BACKEND_METADATA,
    CLIENT_OPTIONS,
    ENVOY_PREFIX,
    EXPOSED_TO_PAGES,
    HOP_HEADER,
    INTERNAL_PREFIX,
    LIMITED_TEAM_HEADER,
    ROLE_METADATA,
    SELECT_MAY_NOT_SET,
    TEAM_HEADER,
    TEAM_KEY_SOURCES,
)

PROCESSOR = "processor"
"""The cluster of all workers."""
KEY_AUTH = "api_key_auth"
SELECT = "select"
TRANSLATE = "translate"
_CAPITAL = re.compile("[A-Z]")
METADATA_NAMESPACE = "extproc"
"""The namespace of dynamic metadata that the processor may set (usage, for logs and limits)."""

_FULL_DUPLEX = ext_proc.ProcessingModeBodySendMode.FULL_DUPLEX_STREAMED
_SEND = ext_proc.ProcessingModeHeaderSendMode.SEND
_SKIP = ext_proc.ProcessingModeHeaderSendMode.SKIP


def drop_clients_internal_headers() -> core.TypedExtensionConfig:
    """Removes a client's `x-extproc-*` headers except `CLIENT_OPTIONS`, and its `x-envoy-*` headers, before any filter
    or route sees them."""
    internal = [matcher.StringMatcher(safe_regex=matcher.RegexMatcher(regex=pattern))
                for pattern in patterns_except(INTERNAL_PREFIX, *CLIENT_OPTIONS)]
    envoys = matcher.StringMatcher(prefix=ENVOY_PREFIX, ignore_case=True)
    return extension("envoy.http.early_header_mutation.header_mutation", early.HeaderMutation(mutations=[
        rules.HeaderMutation(remove_on_match=rules.HeaderMutationRemoveOnMatch(key_matcher=names))
        for names in (*internal, envoys)]))


def name_hop(backend: str) -> core.TypedExtensionConfig:
    """Sets the hop's name in a header of each request, before a route is chosen."""
    return extension("envoy.http.early_header_mutation.header_mutation", early.HeaderMutation(mutations=[
        rules.HeaderMutation(append=core.HeaderValueOption(
            header=core.HeaderValue(key=HOP_HEADER, value=hop_domain(backend)),
            append_action=core.HeaderValueOptionHeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD))]))


def hop_domain(backend: str) -> str:
    """The value of that header for this backend. Envoy ignores case there, but the names of two backends may differ in
    case only, so a capital letter becomes `^` and the small letter."""
    return _CAPITAL.sub(r"^\g<0>", backend).lower()


def patterns_except(prefix: str, *names: str) -> list[str]:
    """Patterns that together match all names with this prefix except these. RE2 has no look-ahead, and Envoy's header
    names are lower case. One pattern for each next letter: Envoy refuses patterns whose program has more than 100
    steps."""
    words = [name.removeprefix(prefix) for name in names]
    letters = sorted({word[0] for word in words})
    first = f"{prefix}([^{''.join(letters)}].*)?" if letters else f"{prefix}.*"
    return [first, *(prefix + letter + _others([word[1:] for word in words if word[0] == letter])
                     for letter in letters)]


def _others(words: list[str]) -> str:
    """A pattern for all texts except these."""
    letters = sorted({word[0] for word in words if word})
    branches = [f"[^{''.join(letters)}].*" if letters else ".+"]
    branches += [letter + _others([word[1:] for word in words if word[:1] == letter]) for letter in letters]
    return f"({'|'.join(branches)}){'' if '' in words else '?'}"


def key_auth() -> hcm.HttpFilter:
    """The filter for team keys. It is disabled until a route table has keys (`team_keys`), so a change of teams needs
    no new listener."""
    return hcm.HttpFilter(name=KEY_AUTH, disabled=True, typed_config=pack(keyauth.ApiKeyAuth(
        key_sources=_key_sources(), forwarding=_key_forwarding())))


def team_keys(config: Config, *, with_secrets: bool) -> keyauth.ApiKeyAuthPerRoute:
    """The keys of all teams, for a route table."""
    credentials = [
        keyauth.Credential(key=key if with_secrets else placeholder("team", f"{name}-{number}"), client=name)
        for name, team in config.teams.items() for number, key in enumerate(team.keys, 1)]
    return keyauth.ApiKeyAuthPerRoute(
        credentials=credentials, key_sources=_key_sources(), forwarding=_key_forwarding())


def _key_sources() -> list[keyauth.KeySource]:
    """The headers with a team's key. The filter removes the prefix `Bearer `."""
    return [keyauth.KeySource(header=name) for name in TEAM_KEY_SOURCES]


def _key_forwarding() -> keyauth.Forwarding:
    return keyauth.Forwarding(header=TEAM_HEADER, hide_credentials=True)


def disabled() -> route.FilterConfig:
    """Per-route configuration that turns a filter off."""
    return route.FilterConfig(disabled=True)


def body_limit(limit: int) -> hcm.HttpFilter:
    """413 for a body of more than `limit` bytes."""
    return hcm.HttpFilter(name="body_size_limit", typed_config=pack(BodySizeLimit(max_request_bytes=limit)))


def select() -> hcm.HttpFilter:
    """Reads the whole request and chooses its route. It may not change the request's target or credentials, and gets no
    response."""
    return hcm.HttpFilter(name=SELECT, typed_config=pack(ext_proc.ExternalProcessor(
        grpc_service=_processor({ROLE_METADATA: "select"}),
        processing_mode=ext_proc.ProcessingMode(
            request_header_mode=_SEND, request_body_mode=_FULL_DUPLEX, request_trailer_mode=_SEND,
            response_header_mode=_SKIP, response_body_mode=ext_proc.ProcessingModeBodySendMode.NONE,
            response_trailer_mode=_SKIP),
        mutation_rules=rules.HeaderMutationRules(
            disallow_expression=matcher.RegexMatcher(
                regex=f"^(:.*|{'|'.join(SELECT_MAY_NOT_SET)})$")),
        stat_prefix=SELECT,
        status_on_error=http_type.HttpStatus(code=http_type.StatusCode.ServiceUnavailable))))


def translate(backend: str) -> hcm.HttpFilter:
    """Translates the request for this backend and the response for the client, both as streams."""
    return hcm.HttpFilter(name=TRANSLATE, typed_config=pack(ext_proc.ExternalProcessor(
        grpc_service=_processor({ROLE_METADATA: "translate", BACKEND_METADATA: backend}),
        processing_mode=ext_proc.ProcessingMode(
            request_header_mode=_SEND, request_body_mode=_FULL_DUPLEX, request_trailer_mode=_SEND,
            response_header_mode=_SEND, response_body_mode=_FULL_DUPLEX, response_trailer_mode=_SEND),
        mutation_rules=rules.HeaderMutationRules(allow_all_routing=True),
        metadata_options=ext_proc.MetadataOptions(
            receiving_namespaces=ext_proc.MetadataOptionsMetadataNamespaces(untyped=[METADATA_NAMESPACE])),
        stat_prefix=TRANSLATE,
        status_on_error=http_type.HttpStatus(code=http_type.StatusCode.BadGateway))))


def _processor(metadata: dict[str, str]) -> core.GrpcService:
    """The workers, with metadata that names the calling filter.

    If a worker dies before its first message, the stream goes to another worker. (The dead one has the fewest requests,
    so it would be chosen every time.) Envoy repeats a stream only while it still has all of it (64 KB), so no upload is
    damaged; a larger request fails. After the first message of the worker a stream is never repeated, so no provider
    gets a request twice."""
    return core.GrpcService(
        envoy_grpc=core.GrpcServiceEnvoyGrpc(cluster_name=PROCESSOR),
        initial_metadata=[core.HeaderValue(key=key, value=value) for key, value in metadata.items()],
        retry_policy=core.RetryPolicy(
            retry_on="connect-failure,refused-stream,reset,unavailable,cancelled",
            # About two seconds in all: the time in which a single dead worker is replaced.
            num_retries=10,
            retry_host_predicate=[core.RetryPolicyRetryHostPredicate(
                name="envoy.retry_host_predicates.previous_hosts",
                typed_config=pack(previous_hosts.PreviousHostsPredicate()))],
            host_selection_retry_max_attempts=5,
            retry_back_off=core.BackoffStrategy(base_interval=seconds(0.025), max_interval=seconds(0.5))))


def remember_client() -> hcm.HttpFilter:
    """Copies facts about the client from headers, which the route removes, to metadata: its API and request id for
    Envoy's own replies, its team for the count of tokens, and all of them for the log line of a lost worker."""
    return hcm.HttpFilter(name="remember_client", typed_config=pack(to_metadata.Config(request_rules=[
        _to_metadata(API_HEADER, CLIENT_API), _to_metadata("x-request-id", CLIENT_REQUEST_ID),
        _to_metadata(LIMITED_TEAM_HEADER, LIMITED_TEAM), _to_metadata(TEAM_HEADER, CLIENT_TEAM),
        _to_metadata(ATTEMPT_COUNT_HEADER, CLIENT_ATTEMPT)])))


def _to_metadata(header: str, key: str) -> to_metadata.ConfigRule:
    return to_metadata.ConfigRule(header=header, on_header_present=to_metadata.ConfigKeyValuePair(
        metadata_namespace=CLIENT_NAMESPACE, key=key, type=to_metadata.ConfigValueType.STRING))


def provider_key(name: str, backend: Backend, sources: Sources) -> hcm.HttpFilter:
    """Sets the header with the backend's key. A running gateway always reads the key from a file: each secret that
    Envoy watches costs an inotify instance."""
    if backend.key_file:
        return key_from_file(f"backends.{name}.key_file", backend.key_file, key_header(backend))
    if (path := sources.key_path(key_name(name, 1))) is not None:
        return key_from_file(f"backends.{name}.key", path, key_header(backend))
    return hcm.HttpFilter(name="provider_key", typed_config=pack(injector.CredentialInjector(
        overwrite=True, credential=extension("envoy.http.injected_credentials.generic", generic.Generic(
            credential=sources.secret(secret_name(name)), header=key_header(backend).name)))))


def router_filter() -> hcm.HttpFilter:
    """Envoy's router, without its own headers for the provider."""
    return hcm.HttpFilter(name="envoy.filters.http.router", typed_config=pack(router.Router(
        suppress_envoy_headers=True)))


# ---------------------------------------------------------------------------------------------------------------- cors

CORS = "envoy.filters.http.cors"
"""The filter for web pages of listed origins. It is the first at the edge: it responds to a browser's preflight, which
has no key, and adds the permission to every response, Envoy's own errors included. Its policy is part of the route
table, so a change of origins needs no new listener.

It uses the route from before `select` has chosen one, and ignores routes with a direct response. So the last route of
the table must lead to a cluster. Pages of other origins get no permission; without teams the processor refuses them."""


def cors_filter() -> hcm.HttpFilter:
    """Without effect until a route table has a policy."""
    return hcm.HttpFilter(name=CORS, typed_config=pack(cors.Cors()))


def cors_policy(config: Config) -> dict[str, protobuf.Any]:
    """The policy, as per-filter configuration of a virtual host; empty if no origin is listed."""
    if not config.cors:
        return {}
    return {CORS: pack(cors.CorsPolicy(
        # The filter itself interprets "*".
        allow_origin_string_match=[matcher.StringMatcher(exact=origin) for origin in config.cors],
        # "*" allows the headers that the browser names: each SDK has some of its own.
        allow_methods="GET, POST, OPTIONS", allow_headers="*",
        expose_headers=", ".join(EXPOSED_TO_PAGES), max_age="600",
        # The gateway usually listens on loopback, the page comes from a public address.
        allow_private_network_access=True))}
