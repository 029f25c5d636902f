"""What a changed configuration means for an Envoy that runs elsewhere, on one that was made from an earlier: `extproc
serve` changes the workers only.

Most changes of a rule are the workers' alone (the provider's model, bounds, tools, names to list). For others Envoy
needs a configuration made anew (`extproc envoy-config`); rules that it has no route for are answered with 503 until
then.
"""

from __future__ import annotations

import msgspec

from extproc.config import Config

WORKERS_ONLY = frozenset({"models", "events", "lossy", "workers", "admin", "one_hop", "backends", "listen"})
"""Top-level keys that say nothing to Envoy, or are looked at more closely (`models`, `backends`); where an Envoy
elsewhere listens is its own affair."""
BACKENDS_ONLY = frozenset({"safety"})
"""Keys of a backend that say nothing to Envoy."""


def envoy_needs(before: Config, now: Config) -> str | None:
    """A sentence for the operator when Envoy and the workers differ after this change; None when they do not. In
    one-hop mode Envoy knows no rules and no backends of ours."""
    if now.one_hop is not None:
        return None
    known = {rule.route_key for rule in before.models}
    unknown = [rule.match for rule in now.models if rule.route_key not in known]
    changed = [field.name for field in msgspec.structs.fields(Config)
               if field.name not in WORKERS_ONLY and getattr(before, field.name) != getattr(now, field.name)]
    if _backends(before) != _backends(now):
        changed.append("backends")
    if not unknown and not changed:
        return None
    if unknown:
        changed.insert(0, f"models ({', '.join(unknown[:10])}{', ...' if len(unknown) > 10 else ''})")
    until = ", and answers 503 for what it has no route for" if unknown else ""
    return (f"Envoy knows nothing of the change of {', '.join(changed)}: it needs a new configuration (extproc "
            f"envoy-config); until then it goes on as before{until}")


def _backends(config: Config) -> dict[str, dict[str, object]]:
    return {name: {field.name: getattr(backend, field.name) for field in msgspec.structs.fields(type(backend))
                   if field.name not in BACKENDS_ONLY} for name, backend in config.backends.items()}
