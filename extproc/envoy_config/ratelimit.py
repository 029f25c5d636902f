"""The limits of teams as Envoy's rate limit filters and their descriptors.

At the edge the filters are behind `select`. By then the whole request has arrived, so a refusal always reaches the
client, and requests that need no provider are not counted. `select` puts the team into `x-extproc-limited-team` if
limits apply to this request; other requests cost no call. A refusal comes before the router, which alone retries, so it
is never mistaken for a provider's 429.

In a backend's hop a filter behind `translate` asks nothing. When the attempt has ended, it reports the tokens that the
metadata of `translate` has then.

The descriptors are part of the route tables, as configuration of a filter for a route (`rate_limits` of a route action
supports neither a number of hits nor the end of a stream). The service itself has the numbers. So both change without a
new listener. The filters always exist and do nothing for a route without descriptors. The behaviour while the service
does not respond is a setting of the filter, so there are two filters, and the route chooses one. A third one reports
the end of a request: a filter whose call is unfinished when the client disconnects would report nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.ratelimit import v3 as service
from envoy_data_plane.envoy.config.route import v3 as route
from envoy_data_plane.envoy.extensions.filters.http.ratelimit import v3 as ratelimit
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.envoy.type import v3 as http_type
from envoy_data_plane.envoy.type.metadata import v3 as metadata
from envoy_data_plane.google import protobuf

from extproc.config import Config, ModelRule
from extproc.envoy_config.local_replies import CLIENT_NAMESPACE
from extproc.envoy_config.rendering import pack, seconds
from extproc.headers import API_HEADER, LIMITED_TEAM_HEADER, STREAM_ID_HEADER
from extproc.ratelimit.kinds import API, DOMAIN, LIMIT, LIMIT_KINDS, RULE, STREAM, TEAM

LIMITS = "limits"
"""The cluster of the rate limit service."""
LIMITED_TEAM = "limited_team"
"""The metadata key of the team in a backend's hop (`filters.remember_client`)."""

_CHECK, _CHECK_STRICTLY, _END, _REPORT = "limits", "limits_strict", "limits_ended", "limits"
"""The filters: one that allows requests while the service does not respond, one that refuses them, one that reports
the end of a request, and the one of a hop, which reports tokens."""


# ----------------------------------------------------------------------------------------------------------- filters


def edge_filters(config: Config) -> list[hcm.HttpFilter]:
    """Behind `select`, before the router."""
    return [_filter(_END, config), _filter(_CHECK, config), _filter(_CHECK_STRICTLY, config)]


def hop_filter(config: Config) -> hcm.HttpFilter:
    """Behind all filters that may refuse the request, so that only sent requests are counted."""
    return _filter(_REPORT, config)


def _filter(name: str, config: Config) -> hcm.HttpFilter:
    # No retries: nothing may count twice, and Envoy would use their longest back-off as the timeout of each try.
    grpc = core.GrpcService(envoy_grpc=core.GrpcServiceEnvoyGrpc(cluster_name=LIMITS))
    return hcm.HttpFilter(name=name, typed_config=pack(ratelimit.RateLimit(
        domain=DOMAIN, timeout=seconds(config.limits_service.timeout), failure_mode_deny=name == _CHECK_STRICTLY,
        disable_x_envoy_ratelimited_header=True,
        status_on_error=http_type.HttpStatus(code=http_type.StatusCode.ServiceUnavailable),
        rate_limit_service=service.RateLimitServiceConfig(
            grpc_service=grpc, transport_api_version=core.ApiVersion.V3))))


# ------------------------------------------------------------------------------------------------------- descriptors


def edge_limits(rule: ModelRule, config: Config) -> dict[str, protobuf.Any]:
    """The descriptors for requests of limited teams for this rule's models: configuration by filter, for a route."""
    checks, ends = [], []
    for model, kinds in _used_kinds(rule, config):
        checks += [_check(kind, model, config) for kind in kinds]
        ends += [_end(kind, model) for kind in kinds if not LIMIT_KINDS[kind].window_seconds]
    if checks:
        # With the team, so that Envoy omits this descriptor too for a request without limits.
        checks.insert(0, _descriptor(config, [_header(TEAM, LIMITED_TEAM_HEADER), _header(API, API_HEADER)], 0))
    check_filter = _CHECK_STRICTLY if config.limits_service.failure_mode == "deny" else _CHECK
    return {**_for_route(check_filter, checks), **_for_route(_END, ends)}


def hop_limits(config: Config) -> dict[str, protobuf.Any]:
    """The descriptors for the usage of an attempt, for any rule: configuration by filter, for a route."""
    reports = []
    for by_rule in (False, True):
        model = [_metadata(RULE, "extproc", "rule")] if by_rule else []
        for kind in LIMIT_KINDS.values():
            if kind.counted_afterwards and any(key.kind == kind.name and bool(key.rule) == by_rule
                                              for key in config.limit_numbers):
                reports.append(route.RateLimit(
                    apply_on_stream_done=True,
                    actions=[_metadata(TEAM, CLIENT_NAMESPACE, LIMITED_TEAM), *model, _fixed(LIMIT, kind.name)],
                    hits_addend=route.RateLimitHitsAddend(format="%DYNAMIC_METADATA(extproc:total)%")))
    return _for_route(_REPORT, reports)


def _for_route(name: str, limits: list[route.RateLimit]) -> dict[str, protobuf.Any]:
    return {name: pack(ratelimit.RateLimitPerRoute(rate_limits=limits))} if limits else {}


def _used_kinds(rule: ModelRule, config: Config) -> Iterable[tuple[list[route.RateLimitAction], list[str]]]:
    """The kinds of limits that any team has on all models, and those on this rule, each with the descriptor's entries
    for the model."""
    entries: dict[str, list[route.RateLimitAction]] = {"": [], rule.match: [_fixed(RULE, rule.match)]}
    for match, model in entries.items():
        used = {key.kind for key in config.limit_numbers if key.rule == match}
        yield model, [kind for kind in LIMIT_KINDS if kind in used]


def _check(kind: str, model: list[route.RateLimitAction], config: Config) -> route.RateLimit:
    stream = [] if LIMIT_KINDS[kind].window_seconds else [_header(STREAM, STREAM_ID_HEADER)]
    return _descriptor(config, [_header(TEAM, LIMITED_TEAM_HEADER), *model, _fixed(LIMIT, kind), *stream],
                       0 if LIMIT_KINDS[kind].counted_afterwards else 1)


def _end(kind: str, model: list[route.RateLimitAction]) -> route.RateLimit:
    return route.RateLimit(
        apply_on_stream_done=True,
        actions=[_header(TEAM, LIMITED_TEAM_HEADER), *model, _fixed(LIMIT, kind), _header(STREAM, STREAM_ID_HEADER)],
        hits_addend=route.RateLimitHitsAddend(number=1, is_negative_hits=True))


def _descriptor(config: Config, actions: list[route.RateLimitAction], hits: int) -> route.RateLimit:
    option = route.RateLimitXRateLimitOption
    return route.RateLimit(
        actions=actions, hits_addend=route.RateLimitHitsAddend(number=hits),
        # A shared service gives numbers only; Envoy then puts them into headers.
        x_ratelimit_option=option.OFF if config.limits_service.address is None else option.DRAFT_VERSION_03)


def _header(key: str, header: str) -> route.RateLimitAction:
    """The value of a header. Without the header Envoy omits the whole descriptor."""
    return route.RateLimitAction(request_headers=route.RateLimitActionRequestHeaders(
        header_name=header, descriptor_key=key))


def _fixed(key: str, value: str) -> route.RateLimitAction:
    return route.RateLimitAction(generic_key=route.RateLimitActionGenericKey(
        descriptor_key=key, descriptor_value=value))


def _metadata(key: str, namespace: str, name: str) -> route.RateLimitAction:
    """A value of dynamic metadata, because the headers of a request are gone when its response has ended. Without the
    value Envoy omits the whole descriptor."""
    return route.RateLimitAction(metadata=route.RateLimitActionMetaData(
        descriptor_key=key, source=route.RateLimitActionMetaDataSource.DYNAMIC,
        metadata_key=metadata.MetadataKey(key=namespace, path=[metadata.MetadataKeyPathSegment(key=name)])))
