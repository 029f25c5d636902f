"""The limits of a configuration -> a configuration of envoyproxy/ratelimit, for gateways that share one counter.

That service gets the same descriptors as ours and keeps its counters in Redis. Its windows are the same. It cannot
count concurrent requests. Format: its README and src/config/config_impl.go. There, a `value` that ends with `*` is a
prefix, and an exact value comes first. A rule without limits is therefore listed without a limit, so that no prefix
applies to it.
"""

from __future__ import annotations

from typing import Any

import yaml

from extproc.config import Config, LimitKey
from extproc.ratelimit.kinds import DOMAIN, LIMIT, LIMIT_KINDS, RULE, TEAM

Descriptor = dict[str, Any]

_HEADER = """\
# Made by `extproc limits-config` for envoyproxy/ratelimit: a file of its runtime directory, such as
# RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/config/extproc.yaml. Make it again when limits change; the service then reads it.
"""


def fleet_config(config: Config) -> str:
    """The file's text, YAML."""
    return _HEADER + yaml.safe_dump({"domain": DOMAIN, "descriptors": _team_descriptors(config)}, sort_keys=False,
                                    width=120)


def unsupported_limits(config: Config) -> list[LimitKey]:
    """The limits that envoyproxy/ratelimit cannot count."""
    return [key for key in config.limit_numbers if not LIMIT_KINDS[key.kind].window_seconds]


def _team_descriptors(config: Config) -> list[Descriptor]:
    teams = dict.fromkeys(key.team for key in config.limit_numbers if LIMIT_KINDS[key.kind].window_seconds)
    return [{"key": TEAM, "value": team,
             "descriptors": [*_limit_descriptors(config, team, ""), *_rule_descriptors(config, team)]}
            for team in teams]


def _rule_descriptors(config: Config, team: str) -> list[Descriptor]:
    matches = list(dict.fromkeys(rule.match for rule in config.models))
    limits = {match: _limit_descriptors(config, team, match) for match in matches}
    descriptors: list[Descriptor] = [{"key": RULE, "value": match, "descriptors": limits[match]}
                                     for match in matches if limits[match]]
    if any(match.endswith("*") for match in matches if limits[match]):
        descriptors += [{"key": RULE, "value": match} for match in matches if not limits[match]]
    return descriptors


def _limit_descriptors(config: Config, team: str, rule: str) -> list[Descriptor]:
    return [{"key": LIMIT, "value": kind.name,
             "rate_limit": {"name": kind.name, "unit": kind.unit, "requests_per_unit": limit}}
            for kind in LIMIT_KINDS.values() if kind.window_seconds
            and (limit := config.limit_numbers.get(LimitKey(team, rule, kind.name))) is not None]
