"""Removes provider keys from texts that a client may read.

Providers quote the key of a request in their error messages, plainly or escaped as in JSON, and long messages are cut,
perhaps in the middle of a key. Called by `Translation` for errors and headers of a provider.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from urllib.parse import quote

MASK = "***"
_SHORTEST = 4
"""Characters. Shorter values are no secrets: any text may contain them."""
_SHORTEST_CUT = 8
"""Characters. A beginning of a key of at least this length at the end of a text counts as a key that was cut."""


class Scrubber:
    """Replaces `secrets` by three asterisks, in each of their spellings.

    They are read with the first text, because a key may change until the request is sent."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._given = secrets

    @cached_property
    def _secrets(self) -> list[str]:
        return sorted({s for s in self._given if len(s) >= _SHORTEST}, key=lambda s: (-len(s), s))

    @cached_property
    def _spellings(self) -> list[str]:
        return [spelling for secret in self._secrets for spelling in _spellings(secret)]

    @cached_property
    def _encoded(self) -> list[bytes]:
        return [spelling.encode("utf-8", "surrogatepass") for spelling in self._spellings]

    def body(self, data: bytes) -> bytes:
        """Masks the keys in a body, before a later cut can leave half of a key."""
        for spelling in self._encoded:
            if spelling in data:
                data = data.replace(spelling, MASK.encode())
        return data

    def text(self, text: str) -> str:
        """Masks the keys in a message. Returns the same text if it has none."""
        for spelling in self._spellings:
            if spelling in text:
                text = text.replace(spelling, MASK)
        for secret in self._secrets:
            text = _without_cut(text, secret)
        return text


def _spellings(secret: str) -> list[str]:
    inside_json = json.dumps(secret)[1:-1]
    forms = (secret, inside_json, json.dumps(secret, ensure_ascii=False)[1:-1], inside_json.replace("/", "\\/"),
             quote(secret, safe=""))
    return list(dict.fromkeys(forms))


def _without_cut(text: str, secret: str) -> str:
    """The text without the beginning of the key at its end, if it was cut there."""
    end = "..." if text.endswith("...") else ""
    bare = text[:len(text) - len(end)]
    for length in range(min(len(secret) - 1, len(bare)), _SHORTEST_CUT - 1, -1):
        if bare.endswith(secret[:length]):
            return bare[:-length] + MASK + end
    return text
