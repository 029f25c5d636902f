"""Teams: their keys, models and limits, the service that counts usage, and their checks.

`extproc.ratelimit` decides how a limit counts. The checks also get records of which only a part could be converted. The
other parts are None and are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from extproc.config.models import ModelRule
from extproc.config.values import (
    Problem,
    converted_entries,
    converted_members,
    header_value_problems,
    mask_keys,
    parse_address,
    pattern_problems,
)
from extproc.globs import covers, is_glob, matches

LimitNumber = int | Literal["unlimited"] | None

LARGEST_LIMIT = 4_294_967_295
"""Envoy's rate limit protocol carries 32 bits."""


class ModelLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a team may use of one model rule. Counted separately, in addition to the team's own limits."""

    requests_per_minute: LimitNumber = None
    """Most requests for this rule's models in a minute."""
    tokens_per_minute: LimitNumber = None
    """Most tokens of this rule's models in a minute."""
    tokens_per_day: LimitNumber = None
    """Most tokens of this rule's models in a day."""
    concurrent_streams: LimitNumber = None
    """Most requests for this rule's models at the same time."""


class TeamLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a team may use. A limit that a team leaves unset is that of `team_limits`; `unlimited` lifts that one."""

    requests_per_minute: LimitNumber = None
    """Most requests that go to a provider in a minute of the clock. A request counts once, however many attempts it
    takes."""
    tokens_per_minute: LimitNumber = None
    """Most tokens, prompt and response together, in a minute of the clock. Tokens are known when a response has ended:
    a request is refused when the budget is used up, not when it would exceed it."""
    tokens_per_day: LimitNumber = None
    """The same for a day (UTC)."""
    concurrent_streams: LimitNumber = None
    """Most requests at the same time, streaming or not."""
    models: dict[str, ModelLimits] = {}
    """Further limits for single model rules, by the rule's `match`."""


class LimitsService(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The service that counts requests and tokens of teams."""

    address: str | None = None
    """`HOST:PORT` of a rate limit service that several gateways share: `envoyproxy/ratelimit` with the file that
    `extproc limits-config` prints, or one `extproc limits`. Unset: this gateway runs a process of its own."""
    failure_mode: Literal["allow", "deny"] = "allow"
    """What happens to requests of limited teams while the service does not respond: `allow` lets them pass unlimited,
    `deny` refuses them with 503."""
    timeout: float = 2
    """Seconds within which the service must respond. After that `failure_mode` applies."""
    counters: str | None = None
    """A file in which the gateway's own process keeps its counters, so that a budget of a day survives a restart of
    the gateway. A relative path starts at the configuration file's folder. Unset: they survive a restart of that
    process only."""


class Team(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of callers with a key of its own."""

    key: str | list[str]
    """The key or keys with which this team calls the gateway. Write `${VAR}` to take one from the environment."""
    models: list[str] | None = None
    """Names and globs of the models the team may use. Unset: all."""
    limits: TeamLimits | None = None
    """What the team may use."""

    def __repr__(self) -> str:
        """Without the keys: records end up in logs sooner or later."""
        return f"Team(key={mask_keys(self.key)}, models={self.models!r}, limits={self.limits!r})"

    @property
    def keys(self) -> list[str]:
        """All keys of the team."""
        return [self.key] if isinstance(self.key, str) else self.key

    def may_use(self, model: str) -> bool:
        """True if the team may use the model, named as clients do."""
        return self.models is None or any(matches(pattern, model) for pattern in self.models)


# --------------------------------------------------------------------------------------------------- limits in force


class LimitKey(NamedTuple):
    """The subject of one limit and of its counter."""

    team: str
    rule: str
    """The `match` of a model rule; "" for all models together."""
    kind: str
    """A key of `ModelLimits`."""


LIMIT_KINDS = ModelLimits.__struct_fields__


def limit_numbers(teams: Mapping[str, TeamLimits | None], common: TeamLimits | None) -> dict[LimitKey, int]:
    """The numbers in force: a team's own, and the common one where it sets none."""
    common = common or TeamLimits()
    numbers: dict[LimitKey, int] = {}
    for team, own in teams.items():
        own = own or TeamLimits()
        numbers.update(_numbers(team, "", own, common))
        for rule in dict.fromkeys((*common.models, *own.models)):
            nothing = ModelLimits()
            numbers.update(_numbers(team, rule, own.models.get(rule, nothing), common.models.get(rule, nothing)))
    return numbers


def _numbers(team: str, rule: str, own: TeamLimits | ModelLimits,
             common: TeamLimits | ModelLimits) -> Iterator[tuple[LimitKey, int]]:
    for kind in LIMIT_KINDS:
        number: LimitNumber = getattr(own, kind)
        if number is None:
            number = getattr(common, kind)
        if isinstance(number, int):
            yield LimitKey(team, rule, kind), number


# ---------------------------------------------------------------------------------------------------------- problems


def team_problems(path: str, team: Team, key_owners: dict[str, str]) -> Iterator[Problem]:
    """What makes the team unusable, as (path, reason). `key_owners` has the keys seen so far with their paths, and gets
    those of this team."""
    if team.key == []:
        yield f"{path}.key", "is empty: a team needs a key"
    single = isinstance(team.key, str)
    for index, key in converted_entries(team.keys if team.key is not None else None):
        place = f"{path}.key" if single else f"{path}.key[{index}]"
        yield from header_value_problems(place, key)
        if key in key_owners:
            yield place, f"is the same key as {key_owners[key]}"
        key_owners.setdefault(key, place)
    for index, pattern in converted_entries(team.models):
        yield from pattern_problems(f"{path}.models[{index}]", pattern)


def limit_problems(teams: Mapping[str, Team] | None, common: TeamLimits, service: LimitsService,
                   rules: Sequence[ModelRule] | None) -> Iterator[Problem]:
    """What makes the limits unusable, as (path, reason)."""
    known = {rule.match for _, rule in converted_entries(rules)}
    places = {"team_limits": common} | {
        f"teams.{name}.limits": team.limits for name, team in converted_members(teams) if team.limits is not None}
    for path, limits in places.items():
        yield from _number_problems(path, limits)
        for match, model in (limits.models or {}).items():
            if match not in known and known:
                yield f"{path}.models.{match}", f'no model rule has match: "{match}"'
            if model is not None:
                yield from _number_problems(f"{path}.models.{match}", model)
    yield from _service_problems(service)


def _number_problems(path: str, limits: TeamLimits | ModelLimits) -> Iterator[Problem]:
    for kind in LIMIT_KINDS:
        number = getattr(limits, kind)
        if isinstance(number, int):
            if number <= 0:
                yield f"{path}.{kind}", "must be above 0"
            elif number > LARGEST_LIMIT:
                yield f"{path}.{kind}", f"must not be above {LARGEST_LIMIT}; for none write unlimited"


def _service_problems(service: LimitsService) -> Iterator[Problem]:
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


# ---------------------------------------------------------------------------------------------------------- warnings


def limit_warnings(teams: Mapping[str, Team], common: TeamLimits, service: LimitsService) -> Iterator[Problem]:
    """Valid settings that are probably a mistake, as (path, reason)."""
    if common != TeamLimits() and not teams:
        yield "team_limits", "has no effect without teams"
    if service.address is not None:
        for key in limit_numbers({name: team.limits for name, team in teams.items()}, common):
            if key.kind == "concurrent_streams":
                where = f".models.{key.rule}" if key.rule else ""
                yield (f"teams.{key.team}.limits{where}.{key.kind}",
                       "is counted by extproc limits only: where limits_service.address is envoyproxy/ratelimit, this "
                       "limit is not in force")
        if service.counters is not None:
            yield "limits_service.counters", "has no effect with address: that service keeps its own"
    for name, team in teams.items():
        for match in team.limits.models if team.limits else ():
            if not is_glob(match) and not team.may_use(match):
                yield f"teams.{name}.limits.models.{match}", "the team may not use these models anyway"


def team_warnings(teams: Mapping[str, Team], rules: Sequence[ModelRule]) -> Iterator[Problem]:
    """Patterns of models that no rule serves."""
    for name, team in teams.items():
        for index, pattern in enumerate(team.models or ()):
            if not any(covers(pattern, rule.match) or covers(rule.match, pattern) for rule in rules):
                yield f"teams.{name}.models[{index}]", f'"{pattern}" fits no model rule'
