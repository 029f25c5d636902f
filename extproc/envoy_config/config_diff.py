"""An Envoy configuration that was made earlier, against the configuration as it is now: what the two do not share.

`extproc check --against` calls it for an Envoy that runs elsewhere. It looks at what decides where a request goes
(routes of rules, hops of backends), not at keys or times, and never at Envoy itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from extproc.config import Config
from extproc.envoy_config.routes import hop_cluster
from extproc.headers import ROUTE_HEADER

Problem = tuple[str, str]


def differences(config: Config, envoy: str) -> list[Problem]:
    """`envoy`: the text of a bootstrap, YAML or JSON. Raises ValueError for what is none."""
    try:
        made = yaml.safe_load(envoy)
    except yaml.YAMLError as error:
        raise ValueError(f"is not valid YAML: {str(error).splitlines()[0]}") from None
    ways, clusters = set(_ways(made)), _clusters(made)
    if not ways and not clusters:
        raise ValueError("holds no routes and clusters of extproc envoy-config")
    found = [(f"models[{number}]", f"Envoy has no route for {rule.match!r} and its backends; its requests get 503")
             for number, rule in enumerate(config.models) if f"{rule.route_key}." not in ways]
    known = {f"{rule.route_key}." for rule in config.models}
    found += [("models", f"Envoy has a route ({way.removesuffix('.')}) that no rule uses any more")
              for way in sorted(ways - known)]
    return found + [(f"backends.{name}", "Envoy has no way to it") for name in config.backends
                    if hop_cluster(name) not in clusters]


def _ways(value: Any) -> Iterator[str]:
    """The prefixes by which routes are chosen, wherever they stand."""
    if isinstance(value, list):
        for item in value:
            yield from _ways(item)
    elif isinstance(value, dict):
        if value.get("name") == ROUTE_HEADER and isinstance(value.get("string_match"), dict):
            yield str(value["string_match"].get("prefix", ""))
        for item in value.values():
            yield from _ways(item)


def _clusters(made: Any) -> set[str]:
    resources = made.get("static_resources") if isinstance(made, dict) else None
    listed = resources.get("clusters") if isinstance(resources, dict) else None
    return {str(one.get("name")) for one in listed or () if isinstance(one, dict)}
