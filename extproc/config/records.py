"""The configuration as typed records: what the YAML file may say, with the defaults and the meaning of every key.

The loader (`extproc.config.load_config`) makes them, everything else reads them. The configuration reference in
docs/ is generated from the docstrings below. Records are frozen, know nothing of the environment, and hold only what
has been checked; the one thing they look up is what a key file holds now.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Literal, overload

import msgspec

from extproc.bounds import Limits, bounded_cache
from extproc.config.backend_records import Backend
from extproc.config.events import EventSettings
from extproc.config.limits_records import LimitKey, LimitsService, TeamLimits, limit_numbers
from extproc.config.observing_records import Tracing
from extproc.config.routing_records import EdgeTls, Ejection, Order, orders_of
from extproc.config.tool_records import ToolSettings, merged
from extproc.globs import is_glob, matches, star_text

# The key `list` of a model rule hides the builtin inside that class, so the types get names of their own.
Names = list[str]
Problem = tuple[str, str]
Problems = list[Problem]

STAR = "{star}"


def _masked(key: str | list[str] | None) -> str:
    return "***" if key else "None"


class Attempt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One way to serve a model: a backend and the name of the model there."""

    backend: str
    """A name under `backends`."""
    model: str
    """The provider's name of the model. `"*"` passes the client's name on; `{star}` inside stands for the text that
    the first `*` of the rule's `match` matched: with `match: "openrouter/*"`, `"{star}"` sends the name without the
    prefix."""
    max_output_tokens: int | None = None
    """Larger requests are clamped to this many tokens."""
    weight: int | None = None
    """Attempts that stand together and have a weight are equals: each comes first for its share of the requests, and
    the others follow when it fails. Requests that name their user or conversation (`metadata.user_id`,
    `prompt_cache_key`) stay with one of them, so that prompt caches hit. An attempt without a weight keeps its
    place."""
    first_token_timeout: float | None = None
    """Seconds that this attempt has for the first token of a streamed answer; `timeouts.first_token` when unset. The
    response head is withheld so long where a further attempt remains, whatever `timeouts.commit_after` says."""
    tools: ToolSettings = ToolSettings()
    """How tools are offered to this model: each key over that of the backend."""
    safety: dict[str, str] = {}
    """Safety thresholds for this attempt, over those of its backend, category by category."""

    def provider_model(self, match: str, client_model: str) -> str:
        """The model's name for the provider, where `match` is the pattern of the rule that chose this attempt."""
        if self.model == "*":
            return client_model
        if STAR in self.model:
            return self.model.replace(STAR, star_text(match, client_model))
        return self.model


Attempts = list[Attempt]


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

    @cached_property
    def way(self) -> str:
        """What Envoy routes by: a header-safe name that changes only when the match, or the backends of its attempts
        and their weights do. An Envoy that runs elsewhere needs no new configuration for other changes."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.match.lower()).strip("-")[:40] or "any"
        routed = [self.match, [(attempt.backend, attempt.weight) for attempt in self.attempts]]
        return f"{slug}-{_digest(routed)}"

    @cached_property
    def id(self) -> str:
        """The value of `x-extproc-route`: `way`, and behind a full stop what changes whenever a request would be served
        in another way. Keys that say nothing new do not count, so that a version with further keys gives the same
        names."""
        return f"{self.way}.{_digest(msgspec.structs.replace(self, list=[]))}"

    def matches(self, model: str) -> bool:
        """Whether the client's model name falls under this rule."""
        return matches(self.match, model)

    @cached_property
    def orders(self) -> tuple[Order, ...]:
        """The orders in which the attempts are made: one, unless there are equals. The first is that of the file."""
        return orders_of([attempt.weight for attempt in self.attempts])

    @property
    def names(self) -> Names:
        """The names that this rule shows in `/v1/models`."""
        return self.list if is_glob(self.match) else [self.match]


class Team(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of callers with a key of its own."""

    key: str | list[str]
    """The key or keys with which this team calls the gateway. Write `${VAR}` to take one from the environment."""
    models: list[str] | None = None
    """Names and globs of the models the team may use. Unset: all."""
    limits: TeamLimits | None = None
    """What the team may use."""

    def __repr__(self) -> str:
        """Without the keys: a record ends up in logs sooner or later."""
        return f"Team(key={_masked(self.key)}, models={self.models!r}, limits={self.limits!r})"

    @property
    def keys(self) -> Names:
        """All keys of the team."""
        return [self.key] if isinstance(self.key, str) else self.key


class Timeouts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long things may take, in seconds."""

    connect: float = 5
    """To connect to a provider."""
    idle: float = 240
    """Silence of a provider after which the processor ends the answer with an error. Must be shorter than
    `per_try_idle`."""
    per_try_idle: float = 300
    """Silence on one attempt after which Envoy gives the attempt up."""
    first_token: float | None = None
    """For the first token of a streamed answer (text, reasoning or a tool call). Then the next attempt is made, or the
    client gets an error of kind timeout. Unset: `idle` alone counts. (An answer that is not streamed comes in one
    piece; for those `idle` counts.)"""
    commit_after: float = 8
    """How long the response head is withheld while a further attempt remains and no content came."""
    ping: float = 10
    """Time without bytes to the client after which a keep-alive is sent."""
    request: float = 600
    """For a whole request to arrive, however little of it comes at a time; then the client gets a 408."""
    stream_idle: float = 900
    """Silence after which Envoy closes a stream."""
    drain: float = 600
    """How long running answers may take to finish when the gateway stops."""


class Secrets(Sequence[str]):
    """The provider keys of a configuration, longest first: those of the file and, read again at each use, those of key
    files."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def _now(self) -> list[str]:
        keys = {key for backend in self._config.backends.values() for key in backend.known_keys}
        return sorted(keys, key=lambda key: (-len(key), key))

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self._now()[index]


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The whole configuration file."""

    listen: str = "127.0.0.1:10000"
    """`HOST:PORT` where clients connect. Without `teams` this must be a loopback address, unless `open` is set."""
    admin: str = "127.0.0.1:9902"
    """`HOST:PORT` of /metrics, /healthz and /readyz. The default port yields to a free one when it is taken."""
    workers: Literal["auto"] | int = "auto"
    """Number of processor processes; `auto` is one per core."""
    backends: dict[str, Backend]
    """The providers' endpoints, by a name of your own: letters, digits, `-`, `_` and `.`."""
    models: list[ModelRule]
    """The models that are served; the first match wins."""
    teams: dict[str, Team] = {}
    """Callers, by name. Without teams everybody who can connect may use every model."""
    team_limits: TeamLimits = TeamLimits()
    """The limits of every team that does not set its own, limit by limit."""
    limits_service: LimitsService = LimitsService()
    """Who counts what teams use."""
    lossy: Literal["report", "reject"] = "report"
    """When the provider cannot carry a part of a request: `report` drops it and names it in `x-extproc-dropped`,
    `reject` answers 400."""
    open: bool = False
    """Allows a listen address beyond loopback without teams."""
    cors: list[str] = []
    """Origins (such as `https://app.example`) whose web pages may call the gateway and read its answers; `*` for
    all."""
    limits: Limits = Limits()
    """Bounds on sizes."""
    tools: ToolSettings = ToolSettings()
    """How tools go to all models: each key where neither the backend nor the attempt sets it."""
    timeouts: Timeouts = Timeouts()
    """Time limits."""
    ejection: Ejection = Ejection()
    """When a provider that fails is left out for a while."""
    tls: EdgeTls | None = None
    """Files of a certificate: clients then connect with https. Unset: clear text, for clients on this machine or
    behind something else that ends TLS."""
    events: EventSettings = EventSettings()
    """What `/v1/events` tells of tools."""
    access_log: Literal["off", "own", "all"] = "own"
    """Which requests Envoy writes a line of its own about: `own` for those that the processor has no line for (refused
    by Envoy, given up before they were read, lost with their worker), so that every request has a line and none has
    two; `all` for the others too, as `event: access`. See docs/logs.md."""
    tracing: Tracing | None = None
    """Traces of requests. Unset: none are made."""
    one_hop: str | None = None
    """Only for `extproc serve` behind a gateway that cannot say which backend its filter is for, as Envoy Gateway's
    policies cannot: the backend that serves such filters. Unset: their requests fail."""

    @cached_property
    def limit_numbers(self) -> dict[LimitKey, int]:
        """All limits of teams that are in force."""
        return limit_numbers({name: team.limits for name, team in self.teams.items()}, self.team_limits)

    @cached_property
    def limited_teams(self) -> dict[str, frozenset[str]]:
        """The teams with limits, each with the kinds of them."""
        found: dict[str, set[str]] = {}
        for key in self.limit_numbers:
            found.setdefault(key.team, set()).add(key.kind)
        return {team: frozenset(kinds) for team, kinds in found.items()}

    def tools_of(self, attempt: Attempt) -> ToolSettings:
        """The settings of tools that hold for an attempt: its own over its backend's over those of the file."""
        return merged(attempt.tools, self.backends[attempt.backend].tools, self.tools)

    def find_rule(self, model: str) -> ModelRule | None:
        """The first rule that matches the client's model name."""
        return self._rule_of(model)

    @cached_property
    def _rule_of(self) -> Callable[[str], ModelRule | None]:
        """Clients ask for the same few models all the time, and may think of any."""
        rules = self.models

        @bounded_cache(entries=1024, longest=200)
        def found(model: str) -> ModelRule | None:
            return next((rule for rule in rules if rule.matches(model)), None)

        return found

    def rule_by_id(self, rule_id: str) -> ModelRule | None:
        """The rule with this id (the value of `x-extproc-route`)."""
        return self._rules_by_id.get(rule_id)

    @cached_property
    def _rules_by_id(self) -> dict[str, ModelRule]:
        return {rule.id: rule for rule in reversed(self.models)}

    def nearest(self, model: str, team: str | None = None) -> list[str]:
        """Up to five listed names that look most like `model`, the most alike first."""
        listed = self.listed_models(team)
        folded = {name.lower(): name for name in reversed(listed)}
        # A name of megabytes must not cost minutes: no listed name is alike to what follows the first 200 characters.
        found = difflib.get_close_matches(model[:200].lower(), folded, n=5, cutoff=0.3)
        return [folded[name] for name in found] or listed[:5]

    def listed_models(self, team: str | None = None) -> list[str]:
        """What `/v1/models` shows: exact names and the `list` of globs, in order, without duplicates; with a team
        only what that team may use."""
        names = dict.fromkeys(name for rule in self.models for name in rule.names)
        return [name for name in names if team is None or self.allows(team, name)]

    def allows(self, team: str | None, model: str) -> bool:
        """Whether the team may use the model. Without teams everybody may; with teams, nobody without one."""
        if not self.teams:
            return True
        found = self.teams.get(team) if team is not None else None
        if found is None:
            return False
        return found.models is None or any(matches(pattern, model) for pattern in found.models)

    def secrets(self) -> Sequence[str]:
        """All provider keys, longest first, for scrubbing them from texts. Those in files are as they are when the
        sequence is read, and as they were before."""
        return self._secrets

    @cached_property
    def _secrets(self) -> Sequence[str]:
        live = Secrets(self)
        return live if any(backend.has_key_files for backend in self.backends.values()) else tuple(live)

    def with_backend_url(self, name: str, url: str) -> Config:
        """The same configuration with another URL for one backend (the demo's, once it listens)."""
        backend = msgspec.structs.replace(self.backends[name], url=url)
        changed = msgspec.structs.replace(self, backends={**self.backends, name: backend})
        return changed.with_literal_keys(self.literal_keys)

    @property
    def literal_keys(self) -> list[str]:
        """Paths of keys that are written in the file itself."""
        paths: list[str] = self.__dict__.get("literal_keys_", [])
        return paths

    def with_literal_keys(self, paths: list[str]) -> Config:
        """Records what only the loader can see: where the file holds keys itself. Returns this very record."""
        self.__dict__["literal_keys_"] = paths
        return self

    def warnings(self) -> Problems:
        """What works but is unsafe or probably not meant, as (path, reason)."""
        from extproc.config.checks import warnings

        return warnings(self)
