"""Marks of a prompt cache: `cache_control` of a client -> `CacheMark` -> `cache_control` of a provider.

The mark is Anthropic's (`{"type": "ephemeral", "ttl": "1h"}`); OpenAI clients send it too, since OpenRouter and
DashScope accept it on parts. Called by the decoders of the client APIs and by the encoders of both formats that carry
marks. A `ttl` is "5m" or "1h"; a mark with any other value, or none, is a plain mark, which lasts five minutes.

Source: platform.claude.com/docs, "Prompt caching": the values of `ttl`, and that in one request (tools, system prompt,
messages) longer ones come before shorter ones, or it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

import msgspec

from extproc.conversation.model import CacheMark

Raw = msgspec.Raw


class CacheControl(msgspec.Struct, tag_field="type", tag="ephemeral", frozen=True, gc=False, omit_defaults=True):
    """A mark in a provider's request."""

    ttl: Literal["5m", "1h"] | None = None


class Carrier(Protocol):
    """A record of a request that may have a mark."""

    cache_control: CacheControl | None


class _Lifetime(msgspec.Struct):
    ttl: object = None


_lifetime = msgspec.json.Decoder(_Lifetime)
_ABSENT, _NULL = Raw(), Raw(b"null")
_PLAIN = CacheControl()
_FOR_LONG = CacheControl("1h")
_SENT: dict[CacheMark, CacheControl] = {True: _PLAIN, "5m": CacheControl("5m"), "1h": _FOR_LONG}


def read_mark(raw: Raw) -> CacheMark:
    """The mark in a client's `cache_control`. Absent and null are no mark; any other value is one."""
    if raw in (_ABSENT, _NULL):
        return False
    try:
        ttl = _lifetime.decode(raw).ttl
    except msgspec.DecodeError:
        return True
    return "1h" if ttl == "1h" else "5m" if ttl == "5m" else True


def sent_mark(mark: CacheMark) -> CacheControl:
    """The mark for a provider's request. `mark` is not False."""
    return _SENT[mark]


def put_in_order(carriers: Iterable[Carrier]) -> bool:
    """Shortens each long mark after a shorter one to a plain one, because providers refuse that order. It arises if the
    provider's format has another order than the client's (a system message in the middle, tools). Returns True if a
    mark changed."""
    shorter = changed = False
    for carrier in carriers:
        if carrier.cache_control is None:
            continue
        if carrier.cache_control != _FOR_LONG:
            shorter = True
        elif shorter:
            carrier.cache_control = _PLAIN
            changed = True
    return changed
