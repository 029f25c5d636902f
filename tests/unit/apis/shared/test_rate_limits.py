"""A provider's rate-limit headers in the format of the client's API."""

from __future__ import annotations

import pytest

from extproc.apis import CLIENT_APIS
from extproc.apis.shared.rate_limits import translate_rate_limits

DATE = {"date": "Sun, 22 Nov 2026 01:00:00 GMT"}
FORMATS = {name: api.rate_limits for name, api in CLIENT_APIS.items()}


def translated(headers: dict[str, str], client: str) -> dict[str, str]:
    return translate_rate_limits(headers, FORMATS[client], set(FORMATS.values()))


def test_openai_limits_for_an_anthropic_client() -> None:
    provider = {**DATE, "x-ratelimit-limit-requests": "500", "x-ratelimit-remaining-requests": "499",
                "x-ratelimit-reset-requests": "120ms", "x-ratelimit-limit-tokens": "30000",
                "x-ratelimit-reset-tokens": "6m0s"}
    assert translated(provider, "anthropic") == {
        "anthropic-ratelimit-requests-limit": "500", "anthropic-ratelimit-requests-remaining": "499",
        "anthropic-ratelimit-requests-reset": "2026-11-22T01:00:00Z", "anthropic-ratelimit-tokens-limit": "30000",
        "anthropic-ratelimit-tokens-reset": "2026-11-22T01:06:00Z"}


def test_anthropic_limits_for_an_openai_client() -> None:
    provider = {**DATE, "anthropic-ratelimit-tokens-limit": "80000", "anthropic-ratelimit-tokens-remaining": "79000",
                "anthropic-ratelimit-tokens-reset": "2026-11-22T02:01:05Z",
                "anthropic-ratelimit-input-tokens-limit": "5"}
    assert translated(provider, "openai") == {
        "x-ratelimit-limit-tokens": "80000", "x-ratelimit-remaining-tokens": "79000",
        "x-ratelimit-reset-tokens": "1h1m5s"}


@pytest.mark.parametrize(("reset", "expected"), [
    ("7.66s", "2026-11-22T01:00:07Z"), ("1h2m3s", "2026-11-22T02:02:03Z"), ("30", "2026-11-22T01:00:30Z"),
    ("1795309260", "2026-11-22T01:01:00Z"), ("1795309260000", "2026-11-22T01:01:00Z"), ("soon", None), ("", None)])
def test_spellings_of_a_reset(reset: str, expected: str | None) -> None:
    got = translated({**DATE, "x-ratelimit-reset": reset}, "anthropic")
    assert got.get("anthropic-ratelimit-requests-reset") == expected


def test_without_a_date_no_time_is_invented() -> None:
    assert translated({"x-ratelimit-reset-requests": "1s", "x-ratelimit-limit-requests": "5"}, "anthropic") == {
        "anthropic-ratelimit-requests-limit": "5"}
    assert translated({"anthropic-ratelimit-requests-reset": "2026-11-22T02:00:00Z"}, "openai") == {}


def test_headers_of_the_clients_own_api_are_left_to_the_provider() -> None:
    assert translated({"x-ratelimit-limit-requests": "5"}, "openai") == {}
    assert translated({"x-ratelimit-limit-requests": "many"}, "anthropic") == {}
