"""Compares an Envoy configuration made earlier with the configuration of today, for `extproc check --against`.

An Envoy that runs elsewhere may have an older configuration than the processor. Only the parts that decide where a
request goes (routes of rules, hops of backends) are compared, not keys or times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from extproc.config import Config
from extproc.config.values import Problems
from extproc.envoy_config.routes import hop_cluster_name
from extproc.headers import ROUTE_HEADER


def find_differences(config: Config, envoy: str) -> Problems:
    """Rules and backends that the Envoy configuration lacks, and routes that no rule uses any more, as (path, reason).

    `envoy`: the text of a bootstrap, YAML or JSON. Raises ValueError if it is not one of `extproc envoy-config`."""
    try:
        bootstrap = yaml.safe_load(envoy)
    except yaml.YAMLError as error:
        raise ValueError(f"is not valid YAML: {str(error).splitlines()[0]}") from None
    routes, clusters = set(_route_prefixes(bootstrap)), _cluster_names(bootstrap)
    if not routes and not clusters:
        raise ValueError("holds no routes and clusters of extproc envoy-config")
    found = [(f"models[{number}]", f"Envoy has no route for {rule.match!r} and its backends; its requests get 503")
             for number, rule in enumerate(config.models) if f"{rule.route_key}." not in routes]
    used = {f"{rule.route_key}." for rule in config.models}
    found += [("models", f"Envoy has a route ({route.removesuffix('.')}) that no rule uses any more")
              for route in sorted(routes - used)]
    return found + [(f"backends.{name}", "Envoy has no route to it") for name in config.backends
                    if hop_cluster_name(name) not in clusters]


def _route_prefixes(value: Any) -> Iterator[str]:
    """The prefixes of the route header by which routes are matched, at any depth."""
    if isinstance(value, list):
        for item in value:
            yield from _route_prefixes(item)
    elif isinstance(value, dict):
        if value.get("name") == ROUTE_HEADER and isinstance(value.get("string_match"), dict):
            yield str(value["string_match"].get("prefix", ""))
        for item in value.values():
            yield from _route_prefixes(item)


def _cluster_names(bootstrap: Any) -> set[str]:
    resources = bootstrap.get("static_resources") if isinstance(bootstrap, dict) else None
    clusters = resources.get("clusters") if isinstance(resources, dict) else None
    return {str(cluster.get("name")) for cluster in clusters or () if isinstance(cluster, dict)}
