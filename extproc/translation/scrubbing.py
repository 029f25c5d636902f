"""Provider keys out of texts that a client may read.

Providers quote the key they were sent in their error messages, plainly or as JSON text writes it, and long messages
are cut, perhaps in the middle of a key. Called by `Translation` for whatever it tells a client of a provider's error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from urllib.parse import quote

MASK = "***"
_SHORTEST = 4
"""Shorter values are no secrets: they stand in any text."""
_TELLING = 8
"""As many characters of a key at the end of a text are taken for a key that was cut."""


class Scrubber:
    """Replaces `secrets` by three asterisks, in each of their spellings.

    They are read when the first text comes: it quotes what was sent, and a key may change until it is sent."""

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
        """A body before anyone reads it, so that no later cut can leave half of a key."""
        for spelling in self._encoded:
            if spelling in data:
                data = data.replace(spelling, MASK.encode())
        return data

    def text(self, text: str) -> str:
        """A message. The text itself when nothing stands in it."""
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
    """Without the beginning of the key at the end of a text that was cut there."""
    end = "..." if text.endswith("...") else ""
    bare = text[:len(text) - len(end)]
    for length in range(min(len(secret) - 1, len(bare)), _TELLING - 1, -1):
        if bare.endswith(secret[:length]):
            return bare[:-length] + MASK + end
    return text
