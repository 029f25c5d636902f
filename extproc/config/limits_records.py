"""What the configuration file says about limits: of teams, of a team's use of one model, and who counts.

Part of the records in `extproc.config.records`, which import it; the reference page is generated from the docstrings.
What is limited and how it is counted is `extproc.ratelimit`'s affair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec

Number = int | Literal["unlimited"] | None

LARGEST = 4_294_967_295
"""The largest number of a limit: Envoy's rate limit protocol carries 32 bits."""


class ModelLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a team may use of one model rule. Counted apart and beside the team's own limits."""

    requests_per_minute: Number = None
    """Most requests for this rule's models in a minute."""
    tokens_per_minute: Number = None
    """Most tokens of this rule's models in a minute."""
    tokens_per_day: Number = None
    """Most tokens of this rule's models in a day."""
    concurrent_streams: Number = None
    """Most requests for this rule's models at the same time."""


class TeamLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a team may use. A limit that a team leaves unset is that of `team_limits`; `unlimited` lifts that one."""

    requests_per_minute: Number = None
    """Most requests that go to a provider in a minute of the clock. A request counts once, however many attempts it
    takes."""
    tokens_per_minute: Number = None
    """Most tokens, prompt and answer together, in a minute of the clock. Tokens are known when an answer has ended: a
    request is refused when the budget is used up, not when it would go past it."""
    tokens_per_day: Number = None
    """The same for a day (UTC)."""
    concurrent_streams: Number = None
    """Most requests at the same time, streaming or not."""
    models: dict[str, ModelLimits] = {}
    """Further limits for single model rules, by the rule's `match`."""


class LimitsService(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who counts requests and tokens of teams."""

    address: str | None = None
    """`HOST:PORT` of a rate limit service that several gateways share: `envoyproxy/ratelimit` with the file that
    `extproc limits-config` prints, or one `extproc limits`. Unset: this gateway runs a process of its own."""
    failure_mode: Literal["allow", "deny"] = "allow"
    """What happens to requests of limited teams while the service does not answer: `allow` lets them pass unlimited,
    `deny` answers 503."""
    timeout: float = 2
    """Seconds within which the service must answer; after that it counts as silent."""
    counters: str | None = None
    """A file in which the gateway's own process keeps its counters, so that a budget of a day survives a restart of
    the gateway. A relative path starts at the configuration file's folder. Unset: they survive a restart of that
    process only."""


class LimitKey(NamedTuple):
    """What one number limits, and what one counter counts."""

    team: str
    rule: str
    """The `match` of a model rule; "" for all models together."""
    kind: str
    """A key of `ModelLimits`."""


KINDS = ModelLimits.__struct_fields__


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
    for kind in KINDS:
        number: Number = getattr(own, kind)
        if number is None:
            number = getattr(common, kind)
        if isinstance(number, int):
            yield LimitKey(team, rule, kind), number
