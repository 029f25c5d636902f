"""The route tables: at the edge one route per model rule, in a backend's hop the routes to its provider.

`select` puts the rule into `x-extproc-route` and, if attempts have weights, the order of this request's attempts into
`x-extproc-order`. The edge route sends attempt n to the hop cluster of the n-th backend in that order, with a header
that lists the attempts that may skip an ejected provider. Both tables remove the headers that must not go further.
"""

from __future__ import annotations

from collections.abc import Sequence

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.route import v3 as route
from envoy_data_plane.envoy.type.matcher import v3 as matcher
from envoy_data_plane.google import protobuf

from extproc.config import Backend, Config, ModelRule
from extproc.endpoints import HEALTH_PATH
from extproc.envoy_config.access_log import RULE_METADATA
from extproc.envoy_config.filters import KEY_AUTH, SELECT, cors_policy, disabled, hop_domain, team_keys
from extproc.envoy_config.messages import ClusterWeight, PriorityGroup, PriorityGroupClusterSpecifier
from extproc.envoy_config.ratelimit import edge_limits, hop_limits
from extproc.envoy_config.rendering import extension, pack, seconds
from extproc.envoy_config.resource_sources import HOPS
from extproc.envoy_config.tracing import never_traced
from extproc.errors import FAILOVER_STATUSES
from extproc.headers import (
    ATTEMPT_COUNT_HEADER,
    EJECTABLE_ATTEMPTS_HEADER,
    HOP_HEADER,
    ORDER_HEADER,
    OTHER_KEY_HEADER,
    REMOVED_AT_EDGE,
    REMOVED_IN_HOP,
    ROUTE_HEADER,
)


def hop_cluster_name(backend: str) -> str:
    """The name of the cluster that leads from the edge to the hop of this backend."""
    return f"hop-{backend}"


def provider_cluster_name(backend: str) -> str:
    """The name of the cluster of the provider's endpoints."""
    return f"backend-{backend}"


def ejectable_cluster_name(backend: str) -> str:
    """The name of the cluster of the same endpoints for attempts that skip an ejected provider."""
    return f"early-{backend}"


def ejectable_attempts(backend: str, config: Config) -> list[int]:
    """The numbers of the attempts that may skip this backend while it is ejected, over all rules."""
    return sorted({number for rule in config.models for order in rule.attempt_orders
                   for number in _ejectable_attempts(rule, order.attempts)
                   if rule.attempts[order.attempts[number - 1]].backend == backend})


def _ejectable_attempts(rule: ModelRule, attempts: Sequence[int]) -> list[int]:
    """The numbers of the attempts that are followed by one of another backend."""
    backends = [rule.attempts[index].backend for index in attempts]
    return [number for number, backend in enumerate(backends, 1) if set(backends[number:]) - {backend}]


def edge_table(config: Config, *, with_secrets: bool) -> route.RouteConfiguration:
    """Liveness, one route per model rule, a 503 for a rule without a route, and a 404 for all other requests that
    `select` itself did not respond to."""
    rules: dict[str, ModelRule] = {}
    for rule in config.models:  # during a reload, two rules may differ only in parts that Envoy ignores
        rules.setdefault(rule.route_key, rule)
    keys = {KEY_AUTH: pack(team_keys(config, with_secrets=with_secrets))} if config.teams else {}
    return route.RouteConfiguration(name="edge", validate_clusters=False, virtual_hosts=[route.VirtualHost(
        name="edge", domains=["*"],
        routes=[_liveness(), *(route for rule in rules.values() for route in _rule_routes(rule, config)),
                _unknown_rule(), _not_found()],
        request_headers_to_remove=list(REMOVED_AT_EDGE),
        include_request_attempt_count=True,
        typed_per_filter_config={**cors_policy(config), **keys})])


def _liveness() -> route.Route:
    off = pack(disabled())
    return route.Route(
        name="healthz", match=route.RouteMatch(path=HEALTH_PATH),
        direct_response=route.DirectResponseAction(status=200, body=core.DataSource(inline_string="ok\n")),
        tracing=never_traced(), typed_per_filter_config={SELECT: off, KEY_AUTH: off})


def _unknown_rule() -> route.Route:
    """503 for a rule without a route: the processor has another configuration than this Envoy."""
    return route.Route(
        name="unknown-rule", match=route.RouteMatch(prefix="/", headers=[
            route.HeaderMatcher(name=ROUTE_HEADER, present_match=True)]),
        route=route.RouteAction(
            cluster="unknown-rule",
            cluster_not_found_response_code=route.RouteActionClusterNotFoundResponseCode.SERVICE_UNAVAILABLE))


def _not_found() -> route.Route:
    """404, as a route to a missing cluster: the CORS filter ignores direct responses, and every request has this route
    until `select` has chosen another one."""
    return route.Route(
        name="nothing", match=route.RouteMatch(prefix="/"),
        route=route.RouteAction(
            cluster="nothing",
            cluster_not_found_response_code=route.RouteActionClusterNotFoundResponseCode.NOT_FOUND))


def _rule_routes(rule: ModelRule, config: Config) -> list[route.Route]:
    """One route for each order of the rule's attempts. The first order is last, because it also serves requests without
    `x-extproc-order`."""
    routes = [_rule_route(rule, number, order.attempts, config) for number, order in enumerate(rule.attempt_orders)]
    return [*routes[1:], routes[0]]


def _rule_route(rule: ModelRule, order: int, attempts: Sequence[int], config: Config) -> route.Route:
    """Attempt n is group n. Envoy keeps the request for further attempts up to `limits.replay` bytes; a larger one has
    only the first attempt."""
    groups = [PriorityGroup(name=f"attempt-{number}", clusters=[ClusterWeight(
        cluster_name=hop_cluster_name(rule.attempts[index].backend), weight=100)])
        for number, index in enumerate(attempts, 1)]
    ejectable = ",".join(map(str, _ejectable_attempts(rule, attempts)))
    chosen = [route.HeaderMatcher(name=ROUTE_HEADER, string_match=matcher.StringMatcher(prefix=f"{rule.route_key}.")),
              *([_exactly(ORDER_HEADER, str(order))] if order else [])]
    return route.Route(
        name=f"{rule.route_key}.{order}" if order else rule.route_key,
        match=route.RouteMatch(prefix="/", headers=chosen),
        metadata=core.Metadata(filter_metadata={RULE_METADATA: protobuf.Struct.from_dict({"rule": rule.match})}),
        typed_per_filter_config=edge_limits(rule, config),
        request_body_buffer_limit=config.limits.replay,
        request_headers_to_add=[_overwriting(EJECTABLE_ATTEMPTS_HEADER, f",{ejectable},")] if ejectable else [],
        route=route.RouteAction(
            timeout=seconds(0), idle_timeout=seconds(config.timeouts.stream_idle),
            retry_policy=route.RetryPolicy(
                # Without a condition Envoy keeps no copy of the request, which a single attempt does not need.
                retry_on="5xx,reset,connect-failure,retriable-status-codes" if len(attempts) > 1 else "",
                retriable_status_codes=FAILOVER_STATUSES,
                num_retries=len(attempts) - 1, refresh_cluster_on_retry=True,
                retry_back_off=route.RetryPolicyRetryBackOff(base_interval=seconds(0.025), max_interval=seconds(0.25))),
            inline_cluster_specifier_plugin=route.ClusterSpecifierPlugin(extension=extension(
                "envoy.router.cluster_specifier_plugin.priority_group",
                PriorityGroupClusterSpecifier(priority_groups=groups)))))


def hops_table(config: Config) -> route.RouteConfiguration:
    """The routes of all hops in one table. A header, which the listener of each hop adds, chooses its part."""
    return route.RouteConfiguration(
        name=HOPS, vhost_header=HOP_HEADER, request_headers_to_remove=[HOP_HEADER],
        virtual_hosts=[_hop(name, config, hop_domain(name)) for name in config.backends])


CONNECT_RETRIES, CONNECT_RETRIES_EJECTABLE = 3, 1
"""Retries of a failed connection (one that carried nothing) by the last attempt, and by one that another follows. A
provider with a full listen queue drops connection attempts, in a burst for several seconds."""


def hop_table(backend: str, config: Config) -> route.RouteConfiguration:
    """The routes of one hop, for a listener with its own table."""
    return route.RouteConfiguration(name=f"in-{backend}", virtual_hosts=[_hop(backend, config, "*")])


def _hop(backend: str, config: Config, domain: str) -> route.VirtualHost:
    """The routes to the provider. An attempt skips an ejected provider if another backend follows; the last attempt
    never does."""
    def route_to(cluster: str, connect_retries: int, *headers: route.HeaderMatcher) -> route.Route:
        return route.Route(
            name=cluster, match=route.RouteMatch(prefix="/", headers=list(headers)),
            typed_per_filter_config=hop_limits(config),
            request_body_buffer_limit=config.limits.replay if config.backends[backend].keys else None,
            route=_hop_action(cluster, config.backends[backend], config, connect_retries))

    routes = [route_to(ejectable_cluster_name(backend), CONNECT_RETRIES_EJECTABLE,
                       _exactly(ATTEMPT_COUNT_HEADER, str(number)),
                       route.HeaderMatcher(name=EJECTABLE_ATTEMPTS_HEADER,
                                           string_match=matcher.StringMatcher(contains=f",{number},")))
              for number in ejectable_attempts(backend, config)]
    routes.append(route_to(provider_cluster_name(backend), CONNECT_RETRIES))
    return route.VirtualHost(name=backend, domains=[domain], request_headers_to_remove=list(REMOVED_IN_HOP),
                             routes=routes)


def _hop_action(cluster: str, backend: Backend, config: Config, connect_retries: int) -> route.RouteAction:
    """Retries here cannot make a provider serve a request twice: they follow a connection that never carried the
    request, or the refusal of a key while another key is free. Failover is the edge's."""
    retry = route.RetryPolicy(
        retry_on="connect-failure,refused-stream,reset-before-request", num_retries=connect_retries,
        retry_back_off=route.RetryPolicyRetryBackOff(base_interval=seconds(0.1), max_interval=seconds(1)),
        per_try_idle_timeout=seconds(config.timeouts.per_try_idle))
    if backend.keys:
        retry.retry_on += ",retriable-headers"
        retry.retriable_headers = [_exactly(OTHER_KEY_HEADER, "1")]
        retry.num_retries = len(backend.keys) - 1 + connect_retries
    return route.RouteAction(
        cluster=cluster, timeout=seconds(0), idle_timeout=seconds(0), auto_host_rewrite=True,
        retry_policy=retry)


def _overwriting(header: str, value: str) -> core.HeaderValueOption:
    return core.HeaderValueOption(
        header=core.HeaderValue(key=header, value=value),
        append_action=core.HeaderValueOptionHeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD)


def _exactly(header: str, value: str) -> route.HeaderMatcher:
    return route.HeaderMatcher(name=header, string_match=matcher.StringMatcher(exact=value))
