"""The whole configuration file as one record, with the defaults and the meaning of its keys.

The loader (`extproc.config.load_config`) makes it, the rest of the program reads it. docs/configuration.md is generated
from the docstrings of this record and its parts. Records are frozen and checked. The only files that they read are key
files, whose keys may change at any time.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Annotated, Literal, overload

import msgspec

from extproc.bounds import Limits, bounded_cache
from extproc.config.backends import Backend
from extproc.config.models import Attempt, ModelRule
from extproc.config.observability import Tracing
from extproc.config.prices import AnyPrice, Prices
from extproc.config.teams import LimitKey, LimitsService, Team, TeamLimits, limit_numbers
from extproc.config.tools import EventSettings, ToolSettings, merge_tool_settings

SET_BY_LOADER = msgspec.Meta(extra={"set_by_loader": True})
"""Marks a field that is no key of the file."""


class Timeouts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time limits, in seconds."""

    connect: float = 5
    """To connect to a provider."""
    idle: float = 240
    """Silence of a provider after which the processor ends the response with an error. Must be shorter than
    `per_try_idle`."""
    per_try_idle: float = 300
    """Silence on one attempt after which Envoy ends the attempt."""
    first_token: float | None = None
    """For the first token of a streamed response (text, reasoning or a tool call). After that the next attempt is made,
    or the client gets an error of kind timeout. Unset: only `idle` applies. (A response that is not streamed comes in
    one piece; only `idle` applies to it.)"""
    commit_after: float = 8
    """How long the response head is withheld while a further attempt remains and no content has come."""
    ping: float = 10
    """Time without bytes to the client after which a keep-alive is sent."""
    request: float = 600
    """For a whole request to arrive, even if it keeps coming in small pieces. After that the client gets a 408."""
    stream_idle: float = 900
    """Silence after which Envoy closes a stream."""
    drain: float = 600
    """How long running responses may take to finish when the gateway stops."""


class Ejection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a provider that fails is skipped for a while. Only an attempt that is followed by one of another backend
    skips it. The last attempt always asks, so that a client gets at least the provider's own error."""

    failures: int = 10
    """Consecutive failures after which an address of a provider is ejected: responses with status 500 and above, and
    connections that fail (a failed one is tried twice, and both count) or break before a response."""
    time: float = 10
    """Seconds until the provider is tried again. Each further ejection takes this much longer."""
    longest: float = 120
    """Longest ejection, in seconds."""


class EdgeTls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """TLS for clients. Relative paths start at the configuration file's folder. Under `extproc up` files that
    change (replaced, written in place, or as Kubernetes swaps the links of a mounted secret) are read again, for new
    connections."""

    certificate: str
    """A file with the gateway's certificate and the intermediate ones after it (PEM)."""
    key: str
    """A file with the certificate's private key (PEM, without a passphrase)."""


class ProviderSecrets(Sequence[str]):
    """The provider keys of a configuration, longest first. Those in key files are read again at each use."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        self._backends = backends

    def _current(self) -> list[str]:
        keys = {key for backend in self._backends for key in backend.known_keys}
        return sorted(keys, key=lambda key: (-len(key), key))

    def __iter__(self) -> Iterator[str]:
        return iter(self._current())

    def __len__(self) -> int:
        return len(self._current())

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self._current()[index]


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The whole configuration file."""

    listen: str = "127.0.0.1:10000"
    """`HOST:PORT` where clients connect. Without `teams` this must be a loopback address, unless `open` is set."""
    admin: str = "127.0.0.1:9902"
    """`HOST:PORT` of /metrics, /healthz and /readyz. If the default port is taken, a free one is used."""
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
    """The service that counts what teams use."""
    lossy: Literal["report", "reject"] = "report"
    """What happens to a part of a request that the provider cannot carry: `report` drops it and names it in
    `x-extproc-dropped`, `reject` refuses the request with 400."""
    open: bool = False
    """Allows a listen address beyond loopback without teams."""
    cors: list[str] = []
    """Origins (such as `https://app.example`) whose web pages may call the gateway and read its responses; `*` for
    all."""
    limits: Limits = Limits()
    """Bounds on sizes."""
    tools: ToolSettings = ToolSettings()
    """How tools go to all models. Each key applies where neither the backend nor the attempt sets it."""
    timeouts: Timeouts = Timeouts()
    """Time limits."""
    ejection: Ejection = Ejection()
    """When a provider that fails is skipped for a while."""
    tls: EdgeTls | None = None
    """Files of a certificate: clients then connect with https. Unset: clear text, for clients on this machine or
    behind something else that ends TLS."""
    events: EventSettings = EventSettings()
    """How `/v1/events` labels tools."""
    access_log: Literal["off", "own", "all"] = "own"
    """Requests for which Envoy writes a log line: `own` for those without a line of the processor (refused by Envoy,
    cancelled before they were read, lost with their worker), so that every request has exactly one line; `all` also
    for the others, as `event: access`. See docs/operations.md."""
    tracing: Tracing | None = None
    """Traces of requests. Unset: no traces."""
    prices: Prices = Prices()
    """The currency, and the prices of models without a `price` of their own."""
    one_hop: str | None = None
    """Only for `extproc serve` behind a gateway whose filters cannot name their backend, such as Envoy Gateway: the
    backend for these filters. Unset: their requests fail."""
    literal_key_paths: Annotated[tuple[str, ...], SET_BY_LOADER] = ()
    """Paths of the secrets in the file itself, as opposed to variables."""

    # ------------------------------------------------------------------------------------------------ limits of teams

    @cached_property
    def limit_numbers(self) -> dict[LimitKey, int]:
        """All limits of teams that are in force."""
        return limit_numbers({name: team.limits for name, team in self.teams.items()}, self.team_limits)

    @cached_property
    def limited_teams(self) -> dict[str, frozenset[str]]:
        """The teams with limits, and the kinds of limits that each has."""
        kinds: dict[str, set[str]] = {}
        for key in self.limit_numbers:
            kinds.setdefault(key.team, set()).add(key.kind)
        return {team: frozenset(names) for team, names in kinds.items()}

    # --------------------------------------------------------------------------------------------------------- prices

    def configured_price(self, rule: ModelRule, attempt: Attempt) -> AnyPrice:
        """The price that the file has for an attempt: the attempt's, else the rule's, else the backend's."""
        return next((price for price in (attempt.price, rule.price, self.backends[attempt.backend].price)
                     if price is not None), None)

    # ---------------------------------------------------------------------------------------------------- model rules

    def tools_of(self, attempt: Attempt) -> ToolSettings:
        """The tool settings of an attempt: its own, else those of its backend, else those of the file."""
        return merge_tool_settings(attempt.tools, self.backends[attempt.backend].tools, self.tools)

    @cached_property
    def find_rule(self) -> Callable[[str], ModelRule | None]:
        """`find_rule(model)`: the first rule that matches the client's model name. The cache is bounded: most clients
        use the same few names, but any name may come."""
        rules = self.models

        @bounded_cache(entries=1024, longest=200)
        def find(model: str) -> ModelRule | None:
            return next((rule for rule in rules if rule.matches(model)), None)

        return find

    def rule_by_id(self, rule_id: str) -> ModelRule | None:
        """The rule whose `id` this is."""
        return self._rules_by_id.get(rule_id)

    @cached_property
    def _rules_by_id(self) -> dict[str, ModelRule]:
        return {rule.id: rule for rule in reversed(self.models)}

    def similar_models(self, model: str, team: str | None = None) -> list[str]:
        """Up to five listed names, those most similar to `model` first."""
        listed = self.listed_models(team)
        folded = {name.lower(): name for name in reversed(listed)}
        # Only the beginning of the name is compared: one of megabytes would take minutes.
        similar = difflib.get_close_matches(model[:200].lower(), folded, n=5, cutoff=0.3)
        return [folded[name] for name in similar] or listed[:5]

    def listed_models(self, team: str | None = None) -> list[str]:
        """What `/v1/models` shows: exact names and the `list` of globs, in order, without duplicates; with a team only
        what that team may use."""
        names = dict.fromkeys(name for rule in self.models for name in rule.listed_names)
        return [name for name in names if team is None or self.allows(team, name)]

    def allows(self, team: str | None, model: str) -> bool:
        """True if the team may use the model. Without teams everybody may; with teams, nobody without one."""
        if not self.teams:
            return True
        found = self.teams.get(team) if team is not None else None
        return found is not None and found.may_use(model)

    # ------------------------------------------------------------------------------------------------------- backends

    def secrets(self) -> Sequence[str]:
        """All provider keys, longest first, for scrubbing them from texts; of key files also earlier keys."""
        return self._secrets

    @cached_property
    def _secrets(self) -> Sequence[str]:
        current = ProviderSecrets(tuple(self.backends.values()))
        return current if any(backend.has_key_files for backend in self.backends.values()) else tuple(current)

    def with_backend_url(self, name: str, url: str) -> Config:
        """The same configuration with another URL for one backend (the demo's, once it listens)."""
        backend = msgspec.structs.replace(self.backends[name], url=url)
        return msgspec.structs.replace(self, backends={**self.backends, name: backend})
