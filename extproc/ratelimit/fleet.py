"""The limits of a configuration -> a configuration of envoyproxy/ratelimit, for gateways that share one counter.

That service gets the same descriptors as ours and keeps its counters in Redis. Its windows are the same; requests that
run at the same time it cannot count. Format: its README and src/config/config_impl.go. A `value` that ends with `*`
also stands for every value that begins like it, so each rule that is not limited stands there by itself, without a
limit: an exact value comes first.
"""

from __future__ import annotations

from typing import Any

import yaml

from extproc.config import Config, LimitKey
from extproc.ratelimit.kinds import DOMAIN, KINDS, LIMIT, RULE, TEAM

Descriptor = dict[str, Any]

_HEAD = """\
# Made by `extproc limits-config` for envoyproxy/ratelimit: a file of its runtime directory, such as
# RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/config/extproc.yaml. Make it again when limits change; the service then reads it.
"""


def fleet_config(config: Config) -> str:
    """The file's text, YAML."""
    return _HEAD + yaml.safe_dump({"domain": DOMAIN, "descriptors": _teams(config)}, sort_keys=False, width=120)


def left_out(config: Config) -> list[LimitKey]:
    """The limits that the service cannot count."""
    return [key for key in config.limit_numbers if not KINDS[key.kind].seconds]


def _teams(config: Config) -> list[Descriptor]:
    teams = dict.fromkeys(key.team for key in config.limit_numbers if KINDS[key.kind].seconds)
    return [{"key": TEAM, "value": team, "descriptors": [*_limits(config, team, ""), *_rules(config, team)]}
            for team in teams]


def _rules(config: Config, team: str) -> list[Descriptor]:
    matches = list(dict.fromkeys(rule.match for rule in config.models))
    limits = {match: _limits(config, team, match) for match in matches}
    made: list[Descriptor] = [{"key": RULE, "value": match, "descriptors": limits[match]}
                              for match in matches if limits[match]]
    if any(match.endswith("*") for match in matches if limits[match]):
        made += [{"key": RULE, "value": match} for match in matches if not limits[match]]
    return made


def _limits(config: Config, team: str, rule: str) -> list[Descriptor]:
    return [{"key": LIMIT, "value": kind.name,
             "rate_limit": {"name": kind.name, "unit": kind.unit, "requests_per_unit": number}}
            for kind in KINDS.values() if kind.seconds
            and (number := config.limit_numbers.get(LimitKey(team, rule, kind.name))) is not None]
