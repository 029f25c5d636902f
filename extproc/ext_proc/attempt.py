"""The attempt that a backend hop serves, and its Translation.

Called by the translate exchange. The edge hop names the rule (`x-extproc-route`) and, if some of its attempts have
weights, their order (`x-extproc-order`, see `choose_attempt_order`). Envoy counts the attempts
(`x-envoy-attempt-count`). The filter's metadata names the backend. All of these must agree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Protocol

import msgspec

from extproc.apis import CLIENT_APIS
from extproc.apis.base import ClientOptions, ProviderRequest
from extproc.config import Attempt, Backend, Config, ModelRule
from extproc.conversation.call_counts import BadCall, CallCounts
from extproc.conversation.model import Usage
from extproc.conversation.unsupported import Dropped
from extproc.dialects.call_writer import Repair
from extproc.endpoints import Endpoint
from extproc.errors import BadRequest, Failure
from extproc.headers import ATTEMPT_COUNT_HEADER, ORDER_HEADER, ROUTE_HEADER
from extproc.translation.exchange import Translation
from extproc.translation.head import Head
from extproc.translation.request_edits import RequestEdits
from extproc.translation.settings import Settings
from extproc.translation.untranslated import UntranslatedExchange


class AttemptTranslation(Protocol):
    """The part of `Translation` that the exchange uses; tests replace it by a scripted one."""

    head: Head | None
    dropped: Dropped
    failure: Failure | None
    finish_reason: str | None
    tool_calls: int
    content_began: bool
    done: bool

    @property
    def provider_api(self) -> str: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def received_output(self) -> bool: ...
    @property
    def due(self) -> float: ...
    @property
    def repairs(self) -> list[Repair]: ...
    @property
    def calls(self) -> dict[str, CallCounts]: ...
    @property
    def bad_calls(self) -> list[BadCall]: ...
    def request(self, body: bytes, headers: Mapping[str, str] | None = None) -> ProviderRequest: ...
    def prepare(self) -> None: ...
    def start(self, status: int, headers: Mapping[str, str]) -> None: ...
    def feed(self, data: bytes, now: float | None = None) -> bytes: ...
    def tick(self, now: float) -> bytes: ...
    def finish(self) -> bytes: ...
    def fail(self, failure: Failure) -> bytes: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...


class ChosenAttempt(msgspec.Struct, frozen=True):
    """One attempt of a rule. `number` counts from 1; `last`: no further attempt remains."""

    rule: ModelRule
    attempt: Attempt
    number: int
    last: bool

    def first_token_timeout(self, config: Config) -> float | None:
        """Seconds that this attempt has for its first token; None: no limit."""
        own = self.attempt.first_token_timeout
        return own if own is not None else config.timeouts.first_token


class RoutingMismatchError(Exception):
    """Envoy's configuration differs from the processor's."""


def find_attempt_by_route(config: Config, headers: Mapping[str, str], backend: str) -> ChosenAttempt:
    """The attempt of a request that the edge hop has routed. Raises RoutingMismatchError."""
    route = headers.get(ROUTE_HEADER, "")
    rule = config.rule_by_id(route)
    if rule is None:
        raise RoutingMismatchError(f"no model rule has the id {route[:80]!r}; Envoy and the processor run on different "
                        "configurations")
    count = headers.get(ATTEMPT_COUNT_HEADER, "1")
    # Most requests need no second attempt, so the usual count is not parsed.
    number = 1 if count == "1" else min(max(int(count) if count.isdecimal() else 1, 1), len(rule.attempts))
    named = headers.get(ORDER_HEADER)
    order = int(named) if named is not None and named.isdecimal() else 0
    attempt = rule.attempts[rule.attempt_orders[order if order < len(rule.attempt_orders) else 0].attempts[number - 1]]
    if attempt.backend != backend:
        raise RoutingMismatchError(f"attempt {number} of {rule.match!r} belongs to backend {attempt.backend!r}, "
                        f"but came to {backend!r}")
    return ChosenAttempt(rule, attempt, number, number == len(rule.attempts))


def choose_attempt_order(rule: ModelRule, key: bytes) -> int:
    """The index of the order of attempts for a request. `key`: shared by requests of one conversation, or unique to the
    request. The same key gives the same order, in every worker and replica."""
    point = int.from_bytes(hashlib.blake2b(key, digest_size=8, person=b"order").digest(), "big") / 2**64
    for number, order in enumerate(rule.attempt_orders):
        point -= order.share
        if point < 0:
            return number
    return 0


def find_attempt_by_backend(rule: ModelRule, backend: str) -> ChosenAttempt | None:
    """One-hop mode: the rule's first attempt on this backend. The surrounding gateway retries with the translated
    request, so it is the last attempt here, and nothing is withheld."""
    for number, attempt in enumerate(rule.attempts, 1):
        if attempt.backend == backend:
            return ChosenAttempt(rule, attempt, number, True)
    return None


def make_translation(config: Config, api: str, backend: Backend, choice: ChosenAttempt, model: str, request_id: str,
                     endpoint: Endpoint | None = None) -> AttemptTranslation:
    """The Translation of one attempt. `model`: the client's name of it. `endpoint`: of the request's path, which may be
    one without translation. Raises BadRequest if the backend cannot serve the path."""
    attempt, timeouts = choice.attempt, config.timeouts
    if backend.has_key_files:
        backend.remember_keys()
    if endpoint is not None and endpoint.passes_to:
        if backend.api != endpoint.api:
            raise BadRequest(f"this path needs a backend that speaks the {endpoint.api} API", kind="not_found",
                             status=404)
        return UntranslatedExchange(
            backend.api, attempt.provider_model(choice.rule.match, model), endpoint.passes_to,
            provider=backend.provider, url=backend.url, withhold=True, limits=config.limits,
            ping_interval=timeouts.ping, idle_timeout=timeouts.idle, request_id=request_id, secrets=config.secrets(),
            edits=_request_edits(backend, attempt))
    settings = _settings(config, backend, attempt, endpoint.client if endpoint is not None else api)
    return Translation.of(settings, attempt.provider_model(choice.rule.match, model), request_id)


def _settings(config: Config, backend: Backend, attempt: Attempt, client: str) -> Settings:
    tools, timeouts = config.tools_of(attempt), config.timeouts
    labels = {name: (label.category, label.visibility) for name, label in config.events.tools.items()}
    options = ClientOptions(config.events.final_note, labels)
    return Settings(
        client=client, upstream=backend.api, endpoint=attempt.endpoint or backend.endpoint, provider=backend.provider,
        url=backend.url, reasoning_summaries=backend.reasoning_summaries, withhold=True,
        lossy=config.lossy, max_output_tokens=attempt.max_output_tokens, limits=config.limits,
        tool_style=tools.style or "auto", tool_choice=tools.choice, parallel_tool_calls=tools.parallel,
        duplicates=tools.duplicates, max_tools=tools.max, only_tools=tools.only, read_dialects=tools.read or (),
        arguments=tools.arguments, ping_interval=timeouts.ping, idle_timeout=timeouts.idle,
        secrets=config.secrets(), safety={**backend.safety, **attempt.safety},
        edits=_request_edits(backend, attempt),
        client_api=CLIENT_APIS[client].with_options(options))


def _request_edits(backend: Backend, attempt: Attempt) -> RequestEdits:
    """Those of the attempt over those of its backend."""
    base, own = (RequestEdits(set=keys.set, override=keys.override, remove=keys.remove, headers=keys.headers)
                 for keys in (backend, attempt))
    return own.over(base)
