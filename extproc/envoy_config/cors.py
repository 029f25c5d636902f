"""What web pages of listed origins may do, as the policy of Envoy's cors filter.

The filter stands first at the edge: it answers a browser's preflight, which carries no key, and puts the origin's
permission on every answer, Envoy's own errors included. The policy travels with the route table, so that origins come
and go without a new listener.

It looks at the route before `select` has chosen one, and passes over routes that are answered directly: the last route
of the table must lead to a cluster. Pages of other origins get no permission here; without teams the processor refuses
them.
"""

from __future__ import annotations

from envoy_data_plane.envoy.extensions.filters.http.cors import v3 as cors
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.envoy.type.matcher import v3 as matcher
from envoy_data_plane.google import protobuf

from extproc.config import Config
from extproc.envoy_config.rendering import pack
from extproc.headers import EXPOSED_TO_PAGES

CORS = "envoy.filters.http.cors"


def cors_filter() -> hcm.HttpFilter:
    """Idle until a route table brings a policy along."""
    return hcm.HttpFilter(name=CORS, typed_config=pack(cors.Cors()))


def cors_policy(config: Config) -> dict[str, protobuf.Any]:
    """The policy as per-filter configuration of a virtual host; empty when no origin is listed."""
    if not config.cors:
        return {}
    return {CORS: pack(cors.CorsPolicy(
        # "*" is understood by the filter itself.
        allow_origin_string_match=[matcher.StringMatcher(exact=origin) for origin in config.cors],
        # "*" for headers allows those that the browser asks for: every SDK brings some of its own.
        allow_methods="GET, POST, OPTIONS", allow_headers="*",
        expose_headers=", ".join(EXPOSED_TO_PAGES), max_age="600",
        # The gateway usually listens on loopback, and the page comes from elsewhere.
        allow_private_network_access=True))}
