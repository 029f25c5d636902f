"""Envoy's RateLimitService on the counters: descriptors in, statuses out.

A descriptor names a team, possibly a model rule, and a kind of limit (`kinds`); `hits_addend` is the amount. A
descriptor without a limit is answered OK. One descriptor of a request may name the client's API, for the headers of a
refusal. The service has no state but the counters; `server` gives it a clock and a gRPC server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import grpc

from extproc.config import LimitKey
from extproc.ratelimit.counters import Charge, Counters, LimitStatus
from extproc.ratelimit.kinds import API, DOMAIN, LIMIT, LIMIT_KINDS, RULE, STREAM, TEAM
from extproc.ratelimit.metrics import DecisionObserver, NoObserver
from extproc.ratelimit.pb.rate_limit_service_pb2 import (
    HeaderValue,
    RateLimitDescriptor,
    RateLimitRequest,
    RateLimitResponse,
)
from extproc.ratelimit.refusal import refusal_headers

SERVICE = "envoy.service.ratelimit.v3.RateLimitService"

_Status = RateLimitResponse.DescriptorStatus
_OK, _OVER = RateLimitResponse.OK, RateLimitResponse.OVER_LIMIT
_UNITS = {"minute": RateLimitResponse.RateLimit.MINUTE, "day": RateLimitResponse.RateLimit.DAY}
_NO_LIMIT = LimitKey("", "", "")


class RateLimitService:
    """Decides about requests. `clock` returns seconds since 1970 (UTC)."""

    def __init__(self, limits: Mapping[LimitKey, int], clock: Callable[[], float],
                 observer: DecisionObserver | None = None) -> None:
        self.counters = Counters(limits)
        self._clock = clock
        self._observer = observer or NoObserver()

    def report_limits(self, keys: Iterable[LimitKey]) -> None:
        """Reports the status of these limits to the observer. Counts nothing."""
        decision = self.counters.decide([Charge(key, 0) for key in keys], self._clock())
        for status in decision.statuses:
            if status is not None:
                self._observer.limit_known(status)

    def grpc_handler(self) -> grpc.GenericRpcHandler:
        """The service for a grpc server. Its messages are generated from `proto/`, its path is Envoy's."""
        async def should_rate_limit(request: RateLimitRequest, _: object) -> RateLimitResponse:
            return self.decide(request)

        method = grpc.unary_unary_rpc_method_handler(
            should_rate_limit, request_deserializer=RateLimitRequest.FromString,
            response_serializer=RateLimitResponse.SerializeToString)
        return grpc.method_handlers_generic_handler(SERVICE, {"ShouldRateLimit": method})

    def decide(self, request: RateLimitRequest) -> RateLimitResponse:
        """Decides about one request. Never awaits, so that calls are decided in the order of their arrival."""
        if request.domain != DOMAIN:
            return RateLimitResponse(overall_code=_OK, statuses=[_Status(code=_OK) for _ in request.descriptors])
        now = self._clock()
        api = ""
        charges = []
        for descriptor in request.descriptors:
            entries = {entry.key: entry.value for entry in descriptor.entries}
            api = entries.get(API, api)
            charges.append(_read_charge(entries, descriptor, request.hits_addend))
        statuses, refused_by = self.counters.decide(charges, now)
        for charge, status in zip(charges, statuses, strict=True):
            if status is not None:
                self._observer.charged(charge, status)
        response = RateLimitResponse(overall_code=_OK, statuses=[_status_message(status) for status in statuses])
        if refused_by is not None:
            response.overall_code = _OVER
            self._observer.refused(refused_by)
            response.response_headers_to_add.extend(
                HeaderValue(key=name, value=value) for name, value in refusal_headers(refused_by, api, now).items())
        return response


def _read_charge(entries: Mapping[str, str], descriptor: RateLimitDescriptor, request_hits: int) -> Charge:
    """`request_hits`: the hits of the request, for a descriptor without hits of its own."""
    if not {TEAM, LIMIT} <= entries.keys():
        return Charge(_NO_LIMIT, 0)
    key = LimitKey(entries[TEAM], entries.get(RULE, ""), entries[LIMIT])
    amount = descriptor.hits_addend.value if descriptor.HasField("hits_addend") else max(1, request_hits)
    return Charge(key, amount, descriptor.is_negative_hits, entries.get(STREAM, ""))


def _status_message(status: LimitStatus | None) -> _Status:
    if status is None:
        return _Status(code=_OK)
    kind = LIMIT_KINDS[status.key.kind]
    message = _Status(code=_OVER if status.exceeded else _OK, limit_remaining=status.remaining)
    message.current_limit.requests_per_unit = status.limit
    message.current_limit.name = kind.name
    if kind.window_seconds:
        message.current_limit.unit = _UNITS[kind.unit]
        message.duration_until_reset.seconds = status.reset_seconds
    return message
