"""Tokens: what the providers really sent, against what the workers' log, /metrics and the limits' process counted.

`whole` attempts (the answer and its figures went out and were taken) must be counted to the token. Attempts that were
cut off can only be estimated; they must be counted as something. An attempt without a record ran on a killed worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.fault.load import Done
from tests.fault.plan import BACKENDS
from tests.fault.provider import Entry
from tests.fault.world import TEAMS, World


@dataclass
class Sum:
    """Attempts that used tokens, and those tokens."""

    attempts: int = 0
    tokens: int = 0

    def add(self, tokens: int) -> None:
        self.attempts += 1
        self.tokens += tokens


@dataclass
class Accounts:
    """By team: `whole` and `cut` as the providers know them, `lost` those without a record; what the log, /metrics and
    the limits say. `false` names whole answers with other figures, `uncounted` attempts cut off that left none."""

    whole: dict[str, Sum] = field(default_factory=lambda: {team: Sum() for team in TEAMS})
    cut: dict[str, Sum] = field(default_factory=lambda: {team: Sum() for team in TEAMS})
    lost: dict[str, Sum] = field(default_factory=lambda: {team: Sum() for team in TEAMS})
    logged: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TEAMS, 0))
    metrics: dict[str, int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    false: list[str] = field(default_factory=list)
    uncounted: list[str] = field(default_factory=list)
    lost_names: list[str] = field(default_factory=list)


def settle(world: World, ledger: Sequence[Entry], done: Sequence[Done]) -> Accounts:
    """The accounts of requests that are over."""
    accounts = Accounts()
    records = {(record["model"], record["attempt"]): record for record in world.records()}
    for (_, _), record in records.items():
        usage = record.get("usage") or {}
        accounts.logged[record["team"]] += usage.get("input", 0) + usage.get("output", 0)
    by_number = {one.plan.number: one for one in done}
    letters = {backend: letter for letter, backend in BACKENDS.items()}
    for entry in ledger:
        if not entry.answers or not (entry.sent or entry.told):
            continue  # nothing was used
        one = by_number[entry.number]
        used = entry.story.input + entry.sent
        name = f"{one.plan.model} {entry.backend} {entry.fault}"
        record = records.get((one.plan.model, one.plan.route.index(letters[entry.backend]) + 1))
        if record is None:
            accounts.lost[one.team].add(used)
            accounts.lost_names.append(name + ("" if one.struck else " (no worker was killed)"))
            continue
        usage = record.get("usage") or {}
        counted = usage.get("input", 0), usage.get("output", 0)
        if entry.whole and record["outcome"] == "ok":
            accounts.whole[one.team].add(used)
            if counted != (entry.story.input, entry.story.output):
                accounts.false.append(f"{name}: {counted} for {entry.story.input, entry.story.output}")
        else:
            accounts.cut[one.team].add(used)
            if not sum(counted):
                accounts.uncounted.append(f"{name}: {record.get('status')} {record['outcome']} after {entry.sent}")
    samples = world.metrics()
    for team in TEAMS:
        accounts.metrics[team] = round(sum(
            one.value for one in samples if one.name == "gen_ai_client_token_usage_sum" and one.labels["team"] == team))
        accounts.limits[team] = round(sum(
            one.value for one in samples if one.name == "extproc_limit_hits_total" and one.labels["team"] == team
            and one.labels["limit"] == "tokens_per_day"))
    return accounts
