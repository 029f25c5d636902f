"""Envoy's RateLimitService on the counters: descriptors in, statuses out.

A descriptor names a team, perhaps a model rule, and a kind of limit (`kinds`); `hits_addend` says how much. What nobody
limits is answered OK. One descriptor of a request may tell the client's API, for the headers of a refusal. The service
keeps no state but the counters; `process` gives it a clock, a server and a life.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol

import grpc

from extproc.config import LimitKey
from extproc.ratelimit.counters import Counters, Hit, State
from extproc.ratelimit.kinds import API, DOMAIN, KINDS, LIMIT, RULE, STREAM, TEAM
from extproc.ratelimit.pb.rate_limit_service_pb2 import (
    HeaderValue,
    RateLimitDescriptor,
    RateLimitRequest,
    RateLimitResponse,
)
from extproc.ratelimit.refusal import headers

SERVICE = "envoy.service.ratelimit.v3.RateLimitService"

_Status = RateLimitResponse.DescriptorStatus
_OK, _OVER = RateLimitResponse.OK, RateLimitResponse.OVER_LIMIT
_UNITS = {"minute": RateLimitResponse.RateLimit.MINUTE, "day": RateLimitResponse.RateLimit.DAY}
_NOTHING = LimitKey("", "", "")


class Observer(Protocol):
    """Told of limits and decisions, for metrics."""

    def known(self, state: State) -> None: ...
    def used(self, hit: Hit, state: State) -> None: ...
    def refused(self, state: State) -> None: ...


class Silent:
    """An observer that keeps nothing."""

    def known(self, state: State) -> None:
        """Nothing."""

    def used(self, hit: Hit, state: State) -> None:
        """Nothing."""

    def refused(self, state: State) -> None:
        """Nothing."""


class LimitService:
    """`clock` gives seconds since 1970 (UTC)."""

    def __init__(self, numbers: Mapping[LimitKey, int], clock: Callable[[], float],
                 observer: Observer | None = None) -> None:
        self.counters = Counters(numbers)
        self._clock = clock
        self._observer = observer or Silent()
        self.elsewhere: Callable[[RateLimitRequest], Awaitable[RateLimitResponse]] | None = None
        """Who answers instead, while the counters are on their way from one process to the next."""

    def tell_limits(self, limits: Iterable[LimitKey]) -> None:
        """Tells the observer how each of these limits stands. Nothing is counted."""
        decision = self.counters.decide([Hit(key, 0) for key in limits], self._clock())
        for state in decision.states:
            if state is not None:
                self._observer.known(state)

    def handler(self) -> grpc.GenericRpcHandler:
        """The service for a grpc server, registered by its name: the messages are our own, the path is Envoy's."""
        async def should_rate_limit(request: RateLimitRequest, _: object) -> RateLimitResponse:
            return self.answer(request) if self.elsewhere is None else await self.elsewhere(request)

        method = grpc.unary_unary_rpc_method_handler(
            should_rate_limit, request_deserializer=RateLimitRequest.FromString,
            response_serializer=RateLimitResponse.SerializeToString)
        return grpc.method_handlers_generic_handler(SERVICE, {"ShouldRateLimit": method})

    def answer(self, request: RateLimitRequest) -> RateLimitResponse:
        """Decides about one request. Never waits, so that calls are served in the order in which they came."""
        if request.domain != DOMAIN:
            return RateLimitResponse(overall_code=_OK, statuses=[_Status(code=_OK) for _ in request.descriptors])
        now = self._clock()
        api = ""
        hits = []
        for descriptor in request.descriptors:
            entries = {entry.key: entry.value for entry in descriptor.entries}
            api = entries.get(API, api)
            hits.append(_hit(entries, descriptor, request.hits_addend))
        states, refused = self.counters.decide(hits, now)
        for hit, state in zip(hits, states, strict=True):
            if state is not None:
                self._observer.used(hit, state)
        answer = RateLimitResponse(overall_code=_OK, statuses=[_status(state) for state in states])
        if refused is not None:
            answer.overall_code = _OVER
            self._observer.refused(refused)
            answer.response_headers_to_add.extend(
                HeaderValue(key=name, value=value) for name, value in headers(refused, api, now).items())
        return answer


def _hit(entries: Mapping[str, str], descriptor: RateLimitDescriptor, common: int) -> Hit:
    if not {TEAM, LIMIT} <= entries.keys():
        return Hit(_NOTHING, 0)
    key = LimitKey(entries[TEAM], entries.get(RULE, ""), entries[LIMIT])
    own = descriptor.hits_addend.value if descriptor.HasField("hits_addend") else max(1, common)
    return Hit(key, own, descriptor.is_negative_hits, entries.get(STREAM, ""))


def _status(state: State | None) -> _Status:
    if state is None:
        return _Status(code=_OK)
    kind = KINDS[state.key.kind]
    status = _Status(code=_OVER if state.over else _OK, limit_remaining=state.remaining)
    status.current_limit.requests_per_unit = state.number
    status.current_limit.name = kind.name
    if kind.seconds:
        status.current_limit.unit = _UNITS[kind.unit]
        status.duration_until_reset.seconds = state.reset
    return status
