"""Envoy's questions and our answers, as messages of Envoy's own types on the wire."""

from __future__ import annotations

from typing import Any

import pytest
from envoy_data_plane.envoy.extensions.common.ratelimit import v3 as common
from envoy_data_plane.envoy.service.ratelimit import v3 as envoy

from extproc.config import LimitKey
from extproc.headers import LIMIT_MESSAGE_HEADER
from extproc.ratelimit.pb.rate_limit_service_pb2 import RateLimitRequest
from extproc.ratelimit.service import LimitService

NOON = 1_800_014_400.0
REQUESTS = LimitKey("red", "", "requests_per_minute")
TOKENS = LimitKey("red", "claude-*", "tokens_per_day")
STREAMS = LimitKey("red", "", "concurrent_streams")


def descriptor(hits: int | None = None, back: bool = False, **entries: str) -> common.RateLimitDescriptor:
    return common.RateLimitDescriptor(
        entries=[common.RateLimitDescriptorEntry(key=key, value=value) for key, value in entries.items()],
        hits_addend=hits, is_negative_hits=back)


def ask(service: LimitService, *descriptors: common.RateLimitDescriptor, domain: str = "extproc",
        hits: int = 0) -> envoy.RateLimitResponse:
    request = envoy.RateLimitRequest(domain=domain, descriptors=list(descriptors), hits_addend=hits)
    return envoy.RateLimitResponse.parse(service.answer(RateLimitRequest.FromString(bytes(request)))
                                         .SerializeToString())


def service(**numbers: int) -> LimitService:
    keys = {"requests": REQUESTS, "tokens": TOKENS, "streams": STREAMS}
    return LimitService({keys[name]: number for name, number in numbers.items()}, lambda: NOON + 43)


def headers(answer: envoy.RateLimitResponse) -> dict[str, str]:
    return {header.key: header.value for header in answer.response_headers_to_add}


def test_an_answer_says_where_the_limit_stands() -> None:
    answer = ask(service(requests=3), descriptor(team="red", limit="requests_per_minute"))
    assert answer.overall_code is envoy.RateLimitResponseCode.OK
    [status] = answer.statuses
    assert status.current_limit is not None
    assert status.duration_until_reset is not None
    assert (status.current_limit.requests_per_unit, status.current_limit.unit, status.limit_remaining,
            status.duration_until_reset.total_seconds()) == (3, envoy.RateLimitResponseRateLimitUnit.MINUTE, 2, 17)


@pytest.mark.parametrize(("hits", "common_hits", "left"), [(None, 0, 9), (None, 4, 6), (0, 4, 10), (3, 0, 7)])
def test_hits_of_a_descriptor_come_before_those_of_the_request(hits: int | None, common_hits: int, left: int) -> None:
    answer = ask(service(requests=10), descriptor(hits, team="red", limit="requests_per_minute"), hits=common_hits)
    assert answer.statuses[0].limit_remaining == left


def test_a_refusal_in_anthropics_words() -> None:
    limits = service(requests=1)
    question = [descriptor(0, team="red", api="anthropic"), descriptor(team="red", limit="requests_per_minute")]
    ask(limits, *question)
    answer = ask(limits, *question)
    assert answer.overall_code is envoy.RateLimitResponseCode.OVER_LIMIT
    assert [status.code.name for status in answer.statuses] == ["OK", "OVER_LIMIT"]
    assert headers(answer) == {
        LIMIT_MESSAGE_HEADER: 'Rate limit reached: team "red" may have 1 request per minute (requests_per_minute). '
                              "It resets in 17 seconds.",
        "retry-after": "17", "anthropic-ratelimit-requests-limit": "1", "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2027-01-15T12:01:00Z"}


def test_a_refusal_in_openais_words() -> None:
    limits = service(tokens=500)
    ask(limits, descriptor(500, team="red", model="claude-*", limit="tokens_per_day"))
    answer = ask(limits, descriptor(0, team="red", api="openai"),
                 descriptor(0, team="red", model="claude-*", limit="tokens_per_day"))
    assert headers(answer) == {
        LIMIT_MESSAGE_HEADER: 'Rate limit reached: team "red" for the model "claude-*" may have 500 tokens per day '
                              "(tokens_per_day). It resets in 11 hours and 59 minutes.",
        "retry-after": "43157", "x-ratelimit-limit-tokens": "500", "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "11h59m17s"}


def test_what_is_told_afterwards_is_no_refusal() -> None:
    limits = service(tokens=500)
    told = ask(limits, descriptor(900, team="red", model="claude-*", limit="tokens_per_day"))
    assert told.overall_code is envoy.RateLimitResponseCode.OK
    assert told.response_headers_to_add == []


def test_requests_at_the_same_time() -> None:
    limits = service(streams=1)

    def stream(name: str, back: bool = False) -> envoy.RateLimitResponse:
        return ask(limits, descriptor(1, back, team="red", limit="concurrent_streams", stream=name))

    assert stream("a").overall_code is envoy.RateLimitResponseCode.OK
    refused = stream("b")
    assert refused.overall_code is envoy.RateLimitResponseCode.OVER_LIMIT
    assert headers(refused) == {
        LIMIT_MESSAGE_HEADER: 'Rate limit reached: team "red" may have 1 request at the same time '
                              "(concurrent_streams). Please try again when one has ended.", "retry-after": "5"}
    stream("b", back=True)
    stream("a", back=True)
    assert stream("b").overall_code is envoy.RateLimitResponseCode.OK


@pytest.mark.parametrize("entries", [
    {"team": "blue", "limit": "requests_per_minute"}, {"team": "red", "limit": "unheard_of"}, {"team": "red"}, {},
    {"team": "red", "model": "other", "limit": "requests_per_minute"}])
def test_what_nobody_limits_is_fine(entries: dict[str, str]) -> None:
    limits = service(requests=1)
    for _ in range(3):
        answer = ask(limits, descriptor(**entries))
        assert answer.overall_code is envoy.RateLimitResponseCode.OK
        assert answer.statuses[0].current_limit is None


def test_another_domain_is_not_ours() -> None:
    limits = service(requests=1)
    for _ in range(3):
        answer = ask(limits, descriptor(team="red", limit="requests_per_minute"), domain="elsewhere")
        assert answer.overall_code is envoy.RateLimitResponseCode.OK


def test_a_rules_name_becomes_a_header_that_can_be_sent() -> None:
    key = LimitKey("red", "Ünï\ncode*", "requests_per_minute")
    limits = LimitService({key: 1}, lambda: NOON)
    question: Any = {"team": "red", "model": key.rule, "limit": key.kind}
    ask(limits, descriptor(**question))
    said = headers(ask(limits, descriptor(**question)))[LIMIT_MESSAGE_HEADER]
    assert '"?n??code*"' in said
    assert said.isascii()
    assert said.isprintable()
