"""The route tables: at the edge one route per model rule, in a backend's hop the one way to its provider.

`select` names the rule in `x-extproc-route`; the edge route sends attempt n to the hop cluster of the rule's n-th
attempt. Both tables say what must not travel on.
"""

from __future__ import annotations

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.route import v3 as route
from envoy_data_plane.envoy.type.matcher import v3 as matcher

from extproc.bootstrap.cors import cors_policy
from extproc.bootstrap.filters import KEY_AUTH, SELECT, switched_off, team_keys
from extproc.bootstrap.messages import ClusterWeight, PriorityGroup, PriorityGroupClusterSpecifier
from extproc.bootstrap.rendering import extension, pack, seconds
from extproc.config import Config, ModelRule

RETRIED_STATUSES = [401, 402, 403, 404, 408, 429]
"""Statuses below 500 with which a provider says that another one may do better; 5xx always counts."""

CLIENT_SECRETS = ["authorization", "x-api-key", "x-goog-api-key", "cookie"]
"""A client's keys end at the edge."""

_INTERNAL_HEADERS = [
    "x-extproc-route", "x-extproc-api", "x-extproc-team", "x-envoy-attempt-count", "x-envoy-expected-rq-timeout-ms",
    "x-envoy-external-address", "x-envoy-internal", "x-envoy-original-path", "x-forwarded-for", "x-forwarded-host",
    "x-forwarded-port", "x-forwarded-proto", "x-request-id", "via",
]
"""What the gateway knows and no provider needs to."""


def hop_cluster(backend: str) -> str:
    """The cluster that leads from the edge into the hop of this backend."""
    return f"hop-{backend}"


def provider_cluster(backend: str) -> str:
    """The cluster of the provider's own endpoints."""
    return f"backend-{backend}"


def edge_table(config: Config, *, with_secrets: bool) -> route.RouteConfiguration:
    """Liveness, one route per model rule, and a 404 for what `select` did not answer itself."""
    keys = {KEY_AUTH: pack(team_keys(config, with_secrets=with_secrets))} if config.teams else {}
    return route.RouteConfiguration(name="edge", validate_clusters=False, virtual_hosts=[route.VirtualHost(
        name="edge", domains=["*"],
        routes=[_liveness(), *(_rule_route(rule, config) for rule in config.models), _nothing_here()],
        # accept-encoding: the processor reads answers, it should not have to unpack them.
        request_headers_to_remove=[*CLIENT_SECRETS, "accept-encoding"],
        include_request_attempt_count=True,
        typed_per_filter_config={**cors_policy(config), **keys})])


def _liveness() -> route.Route:
    off = pack(switched_off())
    return route.Route(
        name="healthz", match=route.RouteMatch(path="/healthz"),
        direct_response=route.DirectResponseAction(status=200, body=core.DataSource(inline_string="ok\n")),
        typed_per_filter_config={SELECT: off, KEY_AUTH: off})


def _nothing_here() -> route.Route:
    """404, but as a route to a cluster: the cors filter passes over direct responses, and this is the route of every
    request until `select` has chosen one."""
    return route.Route(name="nothing", match=route.RouteMatch(prefix="/"), route=route.RouteAction(
        cluster="nothing", cluster_not_found_response_code=route.RouteActionClusterNotFoundResponseCode.NOT_FOUND))


def _rule_route(rule: ModelRule, config: Config) -> route.Route:
    """Attempt n of the rule is group n. The request is kept for further attempts up to `limits.replay` bytes; a larger
    one is served by the first attempt alone."""
    groups = [PriorityGroup(name=f"attempt-{number}",
                            clusters=[ClusterWeight(cluster_name=hop_cluster(attempt.backend), weight=100)])
              for number, attempt in enumerate(rule.attempts, 1)]
    return route.Route(
        name=rule.id,
        match=route.RouteMatch(prefix="/", headers=[route.HeaderMatcher(
            name="x-extproc-route", string_match=matcher.StringMatcher(exact=rule.id))]),
        request_body_buffer_limit=config.limits.replay,
        route=route.RouteAction(
            timeout=seconds(0), idle_timeout=seconds(config.timeouts.stream_idle),
            retry_policy=route.RetryPolicy(
                retry_on="5xx,reset,connect-failure,retriable-status-codes",
                retriable_status_codes=RETRIED_STATUSES,
                num_retries=len(rule.attempts) - 1, refresh_cluster_on_retry=True,
                retry_back_off=route.RetryPolicyRetryBackOff(base_interval=seconds(0.025), max_interval=seconds(0.25))),
            inline_cluster_specifier_plugin=route.ClusterSpecifierPlugin(extension=extension(
                "envoy.router.cluster_specifier_plugin.priority_group",
                PriorityGroupClusterSpecifier(priority_groups=groups)))))


def hop_table(backend: str, config: Config) -> route.RouteConfiguration:
    """To the provider. Only a connection that never carried the request is tried again; failover is the edge's."""
    return route.RouteConfiguration(name=f"in-{backend}", virtual_hosts=[route.VirtualHost(
        name=backend, domains=["*"], request_headers_to_remove=_INTERNAL_HEADERS,
        routes=[route.Route(name=backend, match=route.RouteMatch(prefix="/"), route=route.RouteAction(
            cluster=provider_cluster(backend), timeout=seconds(0), idle_timeout=seconds(0), auto_host_rewrite=True,
            retry_policy=route.RetryPolicy(
                retry_on="connect-failure,refused-stream", num_retries=1,
                per_try_idle_timeout=seconds(config.timeouts.per_try_idle))))])])
