"""Configuration records -> Envoy configuration, built from typed messages.

`build` gives the files that `extproc up` lets Envoy watch, `static_bootstrap` one bootstrap to print,
`validate_with_envoy` asks Envoy itself. A request's way through what is built here:

    listeners.edge_listener -> filters (keys, limit, select) -> routes.edge_table -> clusters.hop
    -> listeners.internal_listener -> filters (translate, provider key) -> routes.hop_table -> clusters.provider
"""

from __future__ import annotations

from extproc.bootstrap.files import EnvoyConfig, build, static_bootstrap
from extproc.bootstrap.layout import RuntimeLayout
from extproc.bootstrap.validation import find_envoy, validate_with_envoy

__all__ = ["EnvoyConfig", "RuntimeLayout", "build", "find_envoy", "static_bootstrap", "validate_with_envoy"]
