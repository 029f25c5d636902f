"""Configuration records -> Envoy configuration, built from typed messages.

`build` gives the files that `extproc up` lets Envoy watch, `static_bootstrap` one bootstrap to print,
`validate_with_envoy` asks Envoy itself. A request's way through what is built here:

    listeners.edge_listener -> filters (keys, limit, select) -> routes.edge_table -> clusters.hop
    -> listeners.internal_listener -> filters (translate, provider key) -> routes.hop_table -> clusters.provider

Loading Envoy's message types takes about two seconds of CPU. So they are loaded when a configuration is built, and not
by code that only needs a path or the Envoy binary.
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
