"""Configuration records -> Envoy configuration, built from typed messages.

`build` makes the files that Envoy watches under `extproc up`, `static_bootstrap` a single bootstrap to print.
`validate_with_envoy` lets Envoy check one. The path of a request through these parts:

    listeners.edge_listener -> filters (keys, limit, select) -> routes.edge_table -> clusters.hop_cluster
    -> listeners.internal_listener -> filters (translate, provider key) -> routes.hop_table
    -> provider_clusters

Loading Envoy's message types takes about two seconds of CPU. They are loaded when a configuration is built, but not for
code that only needs a path or the Envoy binary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extproc.envoy_config.layout import RuntimeLayout
from extproc.envoy_config.validation import find_envoy, validate_with_envoy

if TYPE_CHECKING:
    from extproc.envoy_config.files import EnvoyConfig, build, static_bootstrap

__all__ = ["EnvoyConfig", "RuntimeLayout", "build", "find_envoy", "static_bootstrap", "validate_with_envoy"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from extproc.envoy_config import files

    return getattr(files, name)
