"""Requests and responses of the rate limit service, as Envoy's own message types on the wire."""

from __future__ import annotations

from typing import Any

import pytest
from envoy_data_plane.envoy.extensions.common.ratelimit import v3 as common
from envoy_data_plane.envoy.service.ratelimit import v3 as envoy

from extproc.config import LimitKey
from extproc.headers import LIMIT_MESSAGE_HEADER
from extproc.ratelimit.pb.rate_limit_service_pb2 import RateLimitRequest
from extproc.ratelimit.service import RateLimitService

NOON = 1_800_014_400.0
REQUESTS = LimitKey("red", "", "requests_per_minute")
TOKENS = LimitKey("red", "claude-*", "tokens_per_day")
STREAMS = LimitKey("red", "", "concurrent_streams")


def descriptor(hits: int | None = None, refund: bool = False, **entries: str) -> common.RateLimitDescriptor:
    return common.RateLimitDescriptor(
        entries=[common.RateLimitDescriptorEntry(key=key, value=value) for key, value in entries.items()],
        hits_addend=hits, is_negative_hits=refund)


def ask(service: RateLimitService, *descriptors: common.RateLimitDescriptor, domain: str = "extproc",
        hits: int = 0) -> envoy.RateLimitResponse:
    request = envoy.RateLimitRequest(domain=domain, descriptors=list(descriptors), hits_addend=hits)
    return envoy.RateLimitResponse.parse(service.decide(RateLimitRequest.FromString(bytes(request)))
                                         .SerializeToString())


def service(**numbers: int) -> RateLimitService:
    keys = {"requests": REQUESTS, "tokens": TOKENS, "streams": STREAMS}
    return RateLimitService({keys[name]: number for name, number in numbers.items()}, lambda: NOON + 43)


def headers(response: envoy.RateLimitResponse) -> dict[str, str]:
    return {header.key: header.value for header in response.response_headers_to_add}


def test_a_response_reports_the_status_of_the_limit() -> None:
    response = ask(service(requests=3), descriptor(team="red", limit="requests_per_minute"))
    assert response.overall_code is envoy.RateLimitResponseCode.OK
    [status] = response.statuses
    assert status.current_limit is not None
    assert status.duration_until_reset is not None
    assert (status.current_limit.requests_per_unit, status.current_limit.unit, status.limit_remaining,
            status.duration_until_reset.total_seconds()) == (3, envoy.RateLimitResponseRateLimitUnit.MINUTE, 2, 17)


@pytest.mark.parametrize(("hits", "common_hits", "left"), [(None, 0, 9), (None, 4, 6), (0, 4, 10), (3, 0, 7)])
def test_hits_of_a_descriptor_override_those_of_the_request(hits: int | None, common_hits: int, left: int) -> None:
    response = ask(service(requests=10), descriptor(hits, team="red", limit="requests_per_minute"), hits=common_hits)
    assert response.statuses[0].limit_remaining == left


def test_headers_of_a_refusal_for_anthropic_clients() -> None:
    limits = service(requests=1)
    question = [descriptor(0, team="red", api="anthropic"), descriptor(team="red", limit="requests_per_minute")]
    ask(limits, *question)
    response = ask(limits, *question)
    assert response.overall_code is envoy.RateLimitResponseCode.OVER_LIMIT
    assert [status.code.name for status in response.statuses] == ["OK", "OVER_LIMIT"]
    assert headers(response) == {
        LIMIT_MESSAGE_HEADER: 'Rate limit reached: team "red" may have 1 request per minute (requests_per_minute). '
                              "It resets in 17 seconds.",
        "retry-after": "17", "anthropic-ratelimit-requests-limit": "1", "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2027-01-15T12:01:00Z"}


def test_headers_of_a_refusal_for_openai_clients() -> None:
    limits = service(tokens=500)
    ask(limits, descriptor(500, team="red", model="claude-*", limit="tokens_per_day"))
    response = ask(limits, descriptor(0, team="red", api="openai"),
                 descriptor(0, team="red", model="claude-*", limit="tokens_per_day"))
    assert headers(response) == {
        LIMIT_MESSAGE_HEADER: 'Rate limit reached: team "red" for the model "claude-*" may have 500 tokens per day '
                              "(tokens_per_day). It resets in 11 hours and 59 minutes.",
        "retry-after": "43157", "x-ratelimit-limit-tokens": "500", "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "11h59m17s"}


def test_usage_reported_afterwards_is_never_refused() -> None:
    limits = service(tokens=500)
    reported = ask(limits, descriptor(900, team="red", model="claude-*", limit="tokens_per_day"))
    assert reported.overall_code is envoy.RateLimitResponseCode.OK
    assert reported.response_headers_to_add == []


def test_concurrent_requests() -> None:
    limits = service(streams=1)

    def stream(name: str, refund: bool = False) -> envoy.RateLimitResponse:
        return ask(limits, descriptor(1, refund, team="red", limit="concurrent_streams", stream=name))

    assert stream("a").overall_code is envoy.RateLimitResponseCode.OK
    refused = stream("b")
    assert refused.overall_code is envoy.RateLimitResponseCode.OVER_LIMIT
    assert headers(refused) == {
        LIMIT_MESSAGE_HEADER: 'Rate limit reached: team "red" may have 1 request at the same time '
                              "(concurrent_streams). Please try again when one has ended.", "retry-after": "5"}
    stream("b", refund=True)
    stream("a", refund=True)
    assert stream("b").overall_code is envoy.RateLimitResponseCode.OK


@pytest.mark.parametrize("entries", [
    {"team": "blue", "limit": "requests_per_minute"}, {"team": "red", "limit": "unheard_of"}, {"team": "red"}, {},
    {"team": "red", "model": "other", "limit": "requests_per_minute"}])
def test_descriptors_without_a_limit_are_ok(entries: dict[str, str]) -> None:
    limits = service(requests=1)
    for _ in range(3):
        response = ask(limits, descriptor(**entries))
        assert response.overall_code is envoy.RateLimitResponseCode.OK
        assert response.statuses[0].current_limit is None


def test_other_domains_are_ok() -> None:
    limits = service(requests=1)
    for _ in range(3):
        response = ask(limits, descriptor(team="red", limit="requests_per_minute"), domain="elsewhere")
        assert response.overall_code is envoy.RateLimitResponseCode.OK


def test_a_rule_name_becomes_a_valid_header() -> None:
    key = LimitKey("red", "Ünï\ncode*", "requests_per_minute")
    limits = RateLimitService({key: 1}, lambda: NOON)
    question: Any = {"team": "red", "model": key.rule, "limit": key.kind}
    ask(limits, descriptor(**question))
    message = headers(ask(limits, descriptor(**question)))[LIMIT_MESSAGE_HEADER]
    assert '"?n??code*"' in message
    assert message.isascii()
    assert message.isprintable()
