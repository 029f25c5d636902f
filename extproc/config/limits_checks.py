"""What is wrong, and what is unwise, about the limits of a configuration.

Called by `extproc.config.checks`, also on a configuration that converted only in part: what did not is None there and
is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from extproc.config.addresses import parse_address
from extproc.config.limits_records import KINDS, LARGEST, LimitsService, ModelLimits, TeamLimits
from extproc.config.records import Config, Problem


def limit_problems(config: Config) -> Iterator[Problem]:
    """What makes the limits unusable, as (path, reason)."""
    rules = {rule.match for rule in config.models or () if rule is not None}
    for path, limits in _places(config):
        yield from _numbers(path, limits)
        for match, model in (limits.models or {}).items():
            if match not in rules and rules:
                yield f"{path}.models.{match}", f'no model rule has match: "{match}"'
            if model is not None:
                yield from _numbers(f"{path}.models.{match}", model)
    yield from _service(config.limits_service)


def limit_warnings(config: Config) -> Iterator[Problem]:
    """What works but is probably not meant, as (path, reason)."""
    if config.team_limits != TeamLimits() and not config.teams:
        yield "team_limits", "has no effect without teams"
    service = config.limits_service
    if service.address is not None:
        for key in config.limit_numbers:
            if key.kind == "concurrent_streams":
                where = f".models.{key.rule}" if key.rule else ""
                yield (f"teams.{key.team}.limits{where}.{key.kind}",
                       "is counted by extproc limits only: where limits_service.address is envoyproxy/ratelimit, this "
                       "limit is not in force")
        if service.counters is not None:
            yield "limits_service.counters", "has no effect beside address: that service keeps its own"
    for name, team in config.teams.items():
        for match in team.limits.models if team.limits else ():
            if team.models is not None and not config.allows(name, match) and "*" not in match and "?" not in match:
                yield f"teams.{name}.limits.models.{match}", "the team may not use these models anyway"


def _places(config: Config) -> Iterator[tuple[str, TeamLimits]]:
    yield "team_limits", config.team_limits
    teams: Mapping[str, object] = config.teams or {}
    for name, team in teams.items():
        limits = getattr(team, "limits", None)
        if isinstance(limits, TeamLimits):
            yield f"teams.{name}.limits", limits


def _numbers(path: str, limits: TeamLimits | ModelLimits) -> Iterator[Problem]:
    for kind in KINDS:
        number = getattr(limits, kind)
        if isinstance(number, int):
            if number <= 0:
                yield f"{path}.{kind}", "must be above 0"
            elif number > LARGEST:
                yield f"{path}.{kind}", f"must not be above {LARGEST}; for none write unlimited"


def _service(service: LimitsService) -> Iterator[Problem]:
    if service.address is not None:
        try:
            if parse_address(service.address)[1] == 0:
                yield "limits_service.address", "the port must be a number from 1 to 65535"
        except ValueError as error:
            yield "limits_service.address", str(error)
    if not 0 < service.timeout < float("inf"):
        yield "limits_service.timeout", "must be above 0"
    if service.counters is not None and (not service.counters.strip() or not service.counters.isprintable()):
        yield "limits_service.counters", "is not the path of a file"
