"""What is wrong, and what is unwise, about how requests are routed: equal attempts, deadlines, the edge's TLS.

Called by `extproc.config.checks`, also on a configuration that converted only in part: what did not is None there and
is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator

from extproc.config.backend_checks import file_path, unreadable
from extproc.config.records import Config, ModelRule, Problem
from extproc.config.routing_records import MOST_ORDERS, count_orders, groups_of


def routing_problems(config: Config) -> Iterator[Problem]:
    """What makes the routing unusable, as (path, reason)."""
    for index, rule in enumerate(config.models or ()):
        if rule is not None and rule.attempts:
            weights = [attempt.weight if attempt is not None else None for attempt in rule.attempts]
            if count_orders(weights) > MOST_ORDERS:
                yield (f"models[{index}].attempts", f"there are {count_orders(weights)} orders of equal attempts, at "
                       f"most {MOST_ORDERS} are possible: give fewer of them a weight")
    if config.tls is not None:
        yield from file_path("tls.certificate", config.tls.certificate)
        yield from file_path("tls.key", config.tls.key)
    if config.ejection.longest < config.ejection.time:
        yield "ejection.longest", "must not be shorter than ejection.time"


def routing_warnings(config: Config) -> Iterator[Problem]:
    """What works but is probably not meant."""
    for index, rule in enumerate(config.models):
        yield from _rule_warnings(f"models[{index}].attempts", rule, config)
    if config.tls is not None:
        for key, file in (("certificate", config.tls.certificate), ("key", config.tls.key)):
            if reason := unreadable(file):
                yield f"tls.{key}", f"{reason}; until then no client can connect"
    if config.timeouts.first_token is not None and config.timeouts.first_token >= config.timeouts.idle:
        yield "timeouts.first_token", "has no effect: timeouts.idle ends the attempt first"


def _rule_warnings(path: str, rule: ModelRule, config: Config) -> Iterator[Problem]:
    for number, attempt in enumerate(rule.attempts):
        deadline = attempt.first_token_timeout
        if deadline is not None and deadline >= config.timeouts.idle:
            yield f"{path}[{number}].first_token_timeout", "has no effect: timeouts.idle ends the attempt first"
    for group in groups_of([attempt.weight for attempt in rule.attempts]):
        if len(group) == 1 and rule.attempts[group[0]].weight is not None:
            yield (f"{path}[{group[0]}].weight", "has no effect: the attempts beside it have no weight, so it is "
                   "always made in its place")
