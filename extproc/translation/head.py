"""The response head for the client: the provider's headers that cross, and the headers that the gateway adds.

Called by `Translation` when it knows the status. Headers cross by allow-list (design rule 8).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from extproc.apis import CLIENT_APIS
from extproc.apis.base import ClientApi
from extproc.apis.shared.rate_limits import has_rate_limits, translate_rate_limits
from extproc.conversation.unsupported import Dropped
from extproc.errors import Failure
from extproc.headers import (
    DROPPED_HEADER,
    LONGEST_FORWARDED_VALUE,
    PROVIDER_REQUEST_ID_HEADER,
    PROVIDER_REQUEST_IDS,
    RESPONSE_ADVICE,
    crosses_to_client,
)
from extproc.translation.scrubbing import Scrubber

_GATEWAY_FAILURES = ("authentication", "billing", "permission")
"""Failures about the gateway's own key or credit at the provider. A retry cannot help; the official SDKs and coding
clients do not retry if they get `x-should-retry: false`."""


_RATE_LIMIT_FORMATS = frozenset(api.rate_limits for api in CLIENT_APIS.values())


class Head(msgspec.Struct, frozen=True):
    """The response head for the client; header names are lower case."""

    status: int
    headers: dict[str, str]


def response_head(content_type: str, *, stream: bool) -> Head:
    """The head of a translated response."""
    headers = {"content-type": content_type}
    if stream:
        headers["cache-control"] = "no-cache"
    return Head(200, headers)


def with_retry_advice(headers: dict[str, str], failure: Failure, *, by_provider: bool) -> dict[str, str]:
    """The headers of an error, with the advice not to retry if the provider refused the gateway itself."""
    if by_provider and failure.kind in _GATEWAY_FAILURES:
        return {"x-should-retry": "false", **headers}
    return dict(headers)


def complete_head(head: Head, provider: Mapping[str, str], scrubber: Scrubber, request_id: str | None,
              dropped: Dropped, client: ClientApi) -> Head:
    """The head with the provider's headers that may cross, its rate limits in the format of `client`, both request ids
    and the names of dropped parts."""
    headers = dict(head.headers)
    if has_rate_limits(provider) or not RESPONSE_ADVICE.isdisjoint(provider):
        translated = translate_rate_limits(provider, client.rate_limits, _RATE_LIMIT_FORMATS)
        for name, value in (*provider.items(), *translated.items()):
            if crosses_to_client(name) and len(value) <= LONGEST_FORWARDED_VALUE:
                headers.setdefault(name, scrubber.text(value))
    for name in PROVIDER_REQUEST_IDS:
        if theirs := provider.get(name):
            if theirs != request_id:
                headers[PROVIDER_REQUEST_ID_HEADER] = scrubber.text(theirs)[:200]
            break
    if request_id is not None:
        headers.setdefault(client.request_id_header, request_id)
    if (dropped.losses or dropped.hints) and (names := dropped_header(dropped)):
        headers[DROPPED_HEADER] = names
    return Head(head.status, headers)


def dropped_header(dropped: Dropped) -> str:
    """The value of `x-extproc-dropped`: names joined by commas, only safe characters, at most 1 KB."""
    value = ""
    for name in (*dropped.losses, *dropped.hints):
        safe = "".join(c if c.isascii() and (c.isalnum() or c in "_.-[]:") else "_" for c in name)[:96]
        joined = f"{value}, {safe}" if value else safe
        if len(joined) > 1020:
            return value + ",..."
        value = joined
    return value
