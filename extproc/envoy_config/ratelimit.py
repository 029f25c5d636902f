"""The limits of teams as Envoy's rate limit filters, what they ask about, and the cluster of who answers.

At the edge, behind `select`: by then the whole request is there, so that a refusal always reaches the client, and what
needs no provider was answered and counts as nothing. `select` names the team in `x-extproc-limited-team` where limits
hold for this request, so nobody else costs a call. A refusal comes before the router, which alone retries: it can never
look like a provider's 429.

In a backend's hop, behind `translate`: nothing is asked there; when the attempt is over its tokens are counted, as the
metadata of `translate` tells them then.

What is asked travels with the route tables, as configuration of a filter for a route (`rate_limits` of a route action
knows neither a number of hits nor the end of a stream), and the numbers are the service's own: both change without a
new listener. The filters stand there always, idle while no route asks anything. How a silent service is taken belongs
to a filter, so there are two, and the route chooses. The end of a request is told by a third: a filter that is still
asking when the client leaves would tell nothing.
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
"""The key under which a backend's hop remembers the team (`filters.remember_client`)."""

_ASK, _ASK_STRICTLY, _ENDED, _COUNT = "limits", "limits_strict", "limits_ended", "limits"
"""The filters: a silent service lets pass; it refuses; told of the end of a request; in a hop, told of tokens."""


# ----------------------------------------------------------------------------------------------------------- filters


def edge_filters(config: Config) -> list[hcm.HttpFilter]:
    """Behind `select`, before the router."""
    return [_filter(_ENDED, config), _filter(_ASK, config), _filter(_ASK_STRICTLY, config)]


def hop_filter(config: Config) -> hcm.HttpFilter:
    """Behind all that may still refuse the request, so that only what was sent is counted."""
    return _filter(_COUNT, config)


def _filter(name: str, config: Config) -> hcm.HttpFilter:
    # No retries: nothing may count twice, and Envoy would take their longest back-off for a time limit of each try.
    grpc = core.GrpcService(envoy_grpc=core.GrpcServiceEnvoyGrpc(cluster_name=LIMITS))
    return hcm.HttpFilter(name=name, typed_config=pack(ratelimit.RateLimit(
        domain=DOMAIN, timeout=seconds(config.limits_service.timeout), failure_mode_deny=name == _ASK_STRICTLY,
        disable_x_envoy_ratelimited_header=True,
        status_on_error=http_type.HttpStatus(code=http_type.StatusCode.ServiceUnavailable),
        rate_limit_service=service.RateLimitServiceConfig(
            grpc_service=grpc, transport_api_version=core.ApiVersion.V3))))


# ------------------------------------------------------------------------------------------------------- descriptors


def edge_limits(rule: ModelRule, config: Config) -> dict[str, protobuf.Any]:
    """What a request for this rule's models asks, where its team has limits: configuration by filter, for a route."""
    asked, ended = [], []
    for model, kinds in _kinds(rule, config):
        asked += [_asked(kind, model, config) for kind in kinds]
        ended += [_ended(kind, model) for kind in kinds if not LIMIT_KINDS[kind].window_seconds]
    if asked:
        # The team stands in it so that it is left out where the others are.
        asked.insert(0, _entry(config, [_header(TEAM, LIMITED_TEAM_HEADER), _header(API, API_HEADER)], 0))
    asks = _ASK_STRICTLY if config.limits_service.failure_mode == "deny" else _ASK
    return {**_for_route(asks, asked), **_for_route(_ENDED, ended)}


def hop_limits(config: Config) -> dict[str, protobuf.Any]:
    """What is counted when an attempt on any rule is over: configuration by filter, for a route."""
    counted = []
    for by_rule in (False, True):
        model = [_remembered(RULE, "extproc", "rule")] if by_rule else []
        for kind in LIMIT_KINDS.values():
            if kind.counted_afterwards and any(key.kind == kind.name and bool(key.rule) == by_rule
                                              for key in config.limit_numbers):
                counted.append(route.RateLimit(
                    apply_on_stream_done=True,
                    actions=[_remembered(TEAM, CLIENT_NAMESPACE, LIMITED_TEAM), *model, _fixed(LIMIT, kind.name)],
                    hits_addend=route.RateLimitHitsAddend(format="%DYNAMIC_METADATA(extproc:total)%")))
    return _for_route(_COUNT, counted)


def _for_route(name: str, limits: list[route.RateLimit]) -> dict[str, protobuf.Any]:
    return {name: pack(ratelimit.RateLimitPerRoute(rate_limits=limits))} if limits else {}


def _kinds(rule: ModelRule, config: Config) -> Iterable[tuple[list[route.RateLimitAction], list[str]]]:
    """The kinds that any team has for all models, and those for this rule, each with the entries that say so."""
    entries: dict[str, list[route.RateLimitAction]] = {"": [], rule.match: [_fixed(RULE, rule.match)]}
    for match, said in entries.items():
        used = {key.kind for key in config.limit_numbers if key.rule == match}
        yield said, [kind for kind in LIMIT_KINDS if kind in used]


def _asked(kind: str, model: list[route.RateLimitAction], config: Config) -> route.RateLimit:
    stream = [] if LIMIT_KINDS[kind].window_seconds else [_header(STREAM, STREAM_ID_HEADER)]
    return _entry(config, [_header(TEAM, LIMITED_TEAM_HEADER), *model, _fixed(LIMIT, kind), *stream],
                  0 if LIMIT_KINDS[kind].counted_afterwards else 1)


def _ended(kind: str, model: list[route.RateLimitAction]) -> route.RateLimit:
    return route.RateLimit(
        apply_on_stream_done=True,
        actions=[_header(TEAM, LIMITED_TEAM_HEADER), *model, _fixed(LIMIT, kind), _header(STREAM, STREAM_ID_HEADER)],
        hits_addend=route.RateLimitHitsAddend(number=1, is_negative_hits=True))


def _entry(config: Config, actions: list[route.RateLimitAction], hits: int) -> route.RateLimit:
    option = route.RateLimitXRateLimitOption
    return route.RateLimit(
        actions=actions, hits_addend=route.RateLimitHitsAddend(number=hits),
        # A service of others says no more than numbers; Envoy then puts those into headers.
        x_ratelimit_option=option.OFF if config.limits_service.address is None else option.DRAFT_VERSION_03)


def _header(key: str, header: str) -> route.RateLimitAction:
    """No descriptor at all where the header is missing."""
    return route.RateLimitAction(request_headers=route.RateLimitActionRequestHeaders(
        header_name=header, descriptor_key=key))


def _fixed(key: str, value: str) -> route.RateLimitAction:
    return route.RateLimitAction(generic_key=route.RateLimitActionGenericKey(
        descriptor_key=key, descriptor_value=value))


def _remembered(key: str, namespace: str, name: str) -> route.RateLimitAction:
    """From dynamic metadata; the headers of a request are gone when its answer is over. No descriptor at all where it
    is missing."""
    return route.RateLimitAction(metadata=route.RateLimitActionMetaData(
        descriptor_key=key, source=route.RateLimitActionMetaDataSource.DYNAMIC,
        metadata_key=metadata.MetadataKey(key=namespace, path=[metadata.MetadataKeyPathSegment(key=name)])))
