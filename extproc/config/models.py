"""Model rules: which names are served, by which attempts and in which order, and their checks.

The checks also get rules of which only a part could be converted. The other parts are None and are skipped, because
their problems are reported already.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from extproc.config.backends import Backend, endpoint_problems, safety_problems
from extproc.config.prices import AnyPrice
from extproc.config.request_edits import request_edit_problems
from extproc.config.tools import ToolSettings
from extproc.config.values import Problem, converted_entries, number_problems, pattern_problems
from extproc.globs import covers, is_glob, matches, star_text
from extproc.profiles.responses import EndpointChoice

Names = list[str]  # the key `list` of a rule hides the builtin inside that class

STAR = "{star}"
"""In the `model` of an attempt: the text that the first `*` of the rule's `match` matched."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One way to serve a model: a backend and the name of the model there."""

    backend: str
    """A name under `backends`."""
    model: str
    """The provider's name of the model. `"*"` is the client's name. `{star}` is replaced by the text that the first
    `*` of the rule's `match` matched: with `match: "openrouter/*"`, `"{star}"` sends the name without the prefix."""
    max_output_tokens: int | None = None
    """Larger requests are clamped to this many tokens."""
    weight: int | None = None
    """Neighbouring attempts with a weight share the requests: each is the first one for its share, and the others
    follow when it fails. Requests that name their user or conversation (`metadata.user_id`, `prompt_cache_key`) stay
    with one of them, so that prompt caches hit. An attempt without a weight keeps its position."""
    first_token_timeout: float | None = None
    """Seconds that this attempt has for the first token of a streamed response; `timeouts.first_token` when unset.
    Where a further attempt remains, the response head is withheld for this time, whatever `timeouts.commit_after`
    says."""
    endpoint: EndpointChoice | None = None
    """`auto`, `chat` or `responses`, as for a backend, which it overrides."""
    tools: ToolSettings = ToolSettings()
    """How tools are offered to this model. Each key overrides that of the backend."""
    safety: dict[str, str] = {}
    """Safety thresholds for this attempt. Each category overrides that of its backend."""
    set: dict[str, Any] = {}
    """Fields that are added to requests without them, as for a backend. What an attempt says of a path replaces all
    that its backend says of it."""
    override: dict[str, Any] = {}
    """Fields that are added or overwritten."""
    remove: list[str] = []
    """Paths of fields that are removed."""
    headers: dict[str, str] = {}
    """Headers for the endpoint. Each overrides that of the backend."""
    price: AnyPrice = None
    """The price of this attempt's tokens, or 0 (see below). Unset: that of the model rule, of the backend or of the
    price table, whichever is set first."""

    def __repr__(self) -> str:
        """Without the values of headers, which may be secret."""
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        shown = ((name, sorted(value) if name == "headers" else value) for name, value in fields)
        return f"Attempt({', '.join(f'{name}={value!r}' for name, value in shown)})"

    def provider_model(self, match: str, client_model: str) -> str:
        """The model's name for the provider, where `match` is the pattern of the rule that chose this attempt."""
        if self.model == "*":
            return client_model
        if STAR in self.model:
            return self.model.replace(STAR, star_text(match, client_model))
        return self.model


Attempts = list[Attempt]


# ------------------------------------------------------------------------------------------------- order of attempts


class AttemptOrder(msgspec.Struct, frozen=True):
    """One order in which the attempts of a rule are made: the share of requests that take it (all shares add up to 1),
    and the indexes of the attempts."""

    share: float
    attempts: tuple[int, ...]


MOST_ATTEMPT_ORDERS = 256
"""Each order is a route in Envoy."""


def weighted_groups(weights: Sequence[int | None]) -> list[list[int]]:
    """The indexes of attempts in failover order: neighbours with a weight form a group, each other attempt a group of
    its own."""
    groups = itertools.groupby(range(len(weights)), lambda index: -1 if weights[index] is not None else index)
    return [list(members) for _, members in groups]


def attempt_orders(weights: Sequence[int | None]) -> tuple[AttemptOrder, ...]:
    """Every order in which attempts of these weights are made. Each attempt of a group is its first one for the share
    of its weight; the others follow, the heavier first."""
    choices = [[AttemptOrder(
        _weight(weights, first) / sum(_weight(weights, one) for one in group),
        (first, *sorted((one for one in group if one != first), key=lambda one: -_weight(weights, one))))
        for first in group] for group in weighted_groups(weights)]
    orders = []
    for parts in itertools.product(*choices):
        share = 1.0
        for part in parts:
            share *= part.share
        orders.append(AttemptOrder(share, tuple(index for part in parts for index in part.attempts)))
    return tuple(orders)


def count_attempt_orders(weights: Sequence[int | None]) -> int:
    """How many orders `attempt_orders` would make."""
    count = 1
    for group in weighted_groups(weights):
        count *= len(group)
    return count


def _weight(weights: Sequence[int | None], index: int) -> int:
    return weights[index] or 1


# ------------------------------------------------------------------------------------------------------------- rules


def _digest(content: object) -> str:
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:8]


class ModelRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """Which model names are served, and by what. The first rule that matches wins."""

    match: str
    """An exact model name or a glob: `*` stands for any text, `?` for one character. Case matters."""
    attempts: Attempts
    """Where the request goes, in failover order. The same backend may appear again with another model."""
    list: Names = []
    """For a glob: the names that `/v1/models` shows."""
    price: AnyPrice = None
    """The price of every attempt of this rule that has none of its own, or 0 (see below)."""

    @cached_property
    def route_key(self) -> str:
        """The rule's name in Envoy's routes, fit for a header. It changes only with the match and with the backends and
        weights of the attempts. After other changes an external Envoy needs no new configuration."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.match.lower()).strip("-")[:40] or "any"
        routed = [self.match, [(attempt.backend, attempt.weight) for attempt in self.attempts]]
        return f"{slug}-{_digest(routed)}"

    @cached_property
    def id(self) -> str:
        """`ROUTE.CONTENT`: the route key, and a digest that changes whenever requests would be served differently.
        Keys at their defaults are not part of the digest, so a later version with further keys gives the same ids."""
        return f"{self.route_key}.{_digest(msgspec.structs.replace(self, list=[]))}"

    def matches(self, model: str) -> bool:
        """True if this rule's pattern matches the client's model name."""
        return matches(self.match, model)

    @cached_property
    def attempt_orders(self) -> tuple[AttemptOrder, ...]:
        """The orders in which the attempts are made: one, unless some have weights. The first is that of the file."""
        return attempt_orders([attempt.weight for attempt in self.attempts])

    @property
    def listed_names(self) -> Names:
        """The names that this rule shows in `/v1/models`."""
        return self.list if is_glob(self.match) else [self.match]


# ------------------------------------------------------------------------------------------------------------ checks


def rule_problems(path: str, rule: ModelRule, backends: Mapping[str, Backend]) -> Iterator[Problem]:
    """What makes the rule unusable, as (path, reason)."""
    if rule.match is not None:
        yield from pattern_problems(f"{path}.match", rule.match)
        for index, name in converted_entries(rule.list):
            if is_glob(name):
                yield f"{path}.list[{index}]", f'"{name}" is a glob: list exact names'
            elif not matches(rule.match, name):
                yield f"{path}.list[{index}]", f'"{name}" does not match "{rule.match}"'
    if rule.attempts is not None and not rule.attempts:
        yield f"{path}.attempts", "is empty: name at least one"
    for index, attempt in converted_entries(rule.attempts):
        yield from _attempt_problems(f"{path}.attempts[{index}]", attempt, rule, backends)
    count = count_attempt_orders([attempt.weight if attempt is not None else None for attempt in rule.attempts or ()])
    if count > MOST_ATTEMPT_ORDERS:
        yield (f"{path}.attempts", f"there are {count} orders of weighted attempts, at most {MOST_ATTEMPT_ORDERS} are "
               "possible: give fewer of them a weight")


def _attempt_problems(path: str, attempt: Attempt, rule: ModelRule, backends: Mapping[str, Backend],
                      ) -> Iterator[Problem]:
    yield from number_problems(path, attempt)
    if attempt.backend is not None and attempt.backend not in backends:
        yield f"{path}.backend", f'no backend "{attempt.backend}"; known: {", ".join(sorted(backends)) or "none"}'
    elif (backend := backends.get(attempt.backend)) is not None:
        yield from endpoint_problems(f"{path}.endpoint", attempt.endpoint, backend.api)
        yield from safety_problems(f"{path}.safety", attempt.safety, backend.api)
    known = backends.get(attempt.backend)
    yield from request_edit_problems(path, attempt, known.api if known is not None else None)
    if attempt.model is not None:
        yield from pattern_problems(f"{path}.model", attempt.model)
        if "*" in attempt.model and attempt.model != "*":
            yield f"{path}.model", f'"*" stands alone; {STAR} stands for what the star of match matched'
        if STAR in attempt.model and rule.match is not None and "*" not in rule.match:
            yield f"{path}.model", f"{STAR} needs a match with a *"


def rule_warnings(path: str, rule: ModelRule, idle_timeout: float) -> Iterator[Problem]:
    """Settings without effect."""
    for number, attempt in enumerate(rule.attempts):
        deadline = attempt.first_token_timeout
        if deadline is not None and deadline >= idle_timeout:
            yield (f"{path}.attempts[{number}].first_token_timeout",
                   "has no effect: timeouts.idle ends the attempt first")
    for group in weighted_groups([attempt.weight for attempt in rule.attempts]):
        if len(group) == 1 and rule.attempts[group[0]].weight is not None:
            yield (f"{path}.attempts[{group[0]}].weight", "has no effect: the attempts beside it have no weight, so it "
                   "is always made in its place")


def unreachable_warnings(rules: Sequence[ModelRule]) -> Iterator[Problem]:
    """Rules and listed names that an earlier rule hides."""
    for index, rule in enumerate(rules):
        path = f"models[{index}]"
        by = next((earlier for earlier in range(index) if covers(rules[earlier].match, rule.match)), None)
        if by is not None:
            yield f"{path}.match", f'never reached: models[{by}] ("{rules[by].match}") matches first'
            continue
        for number, name in enumerate(rule.list):
            taken = next((earlier for earlier in range(index) if rules[earlier].matches(name)), None)
            if taken is not None:
                yield f"{path}.list[{number}]", f'"{name}" is served by models[{taken}] ("{rules[taken].match}")'
