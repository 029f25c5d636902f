"""Tool call ids: minted for a client, and rewritten for a provider.

Both are deterministic and keep no state, so any worker produces the same ids:

* `IdMinter` gives the calls of a response ids that are new in the conversation (a client that sees an id again takes
  the call for a duplicate and loops), and decides whether a provider's own id may be sent.
* `ProviderIds` rewrites the ids of the history as the provider allows, the same way in a call and in its result.

Called by the translation and by the request encoders of provider APIs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Literal

from extproc.conversation.model import Message, ToolCall, ToolResult
from extproc.conversation.signatures import MARK

CLIENT_ID = r"[a-zA-Z0-9_-]{1,64}"
"""Ids that every client API takes: Anthropic's alphabet, and short enough for all."""

_NOT_IDS = frozenset({"null", "none", "undefined", "nil"})
_ALPHANUMERIC = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def history_ids(messages: Iterable[Message]) -> frozenset[str]:
    """All tool call ids of a conversation, in calls and in results."""
    ids: set[str] = set()
    for message in messages:
        for block in message.content:
            if type(block) is ToolCall:
                ids.add(block.id)
            elif type(block) is ToolResult:
                ids.add(block.call_id)
    return frozenset(ids)


def repeated_id(call_id: str, occurrence: int) -> str:
    """A deterministic id for the n-th call (from 1) that reuses `call_id`. Every provider takes it."""
    return "call_" + _hex(f"{occurrence}\0{call_id}".encode("utf-8", "surrogatepass"))


class IdMinter:
    """The ids of one response.

    `identity`: a hash of the request and its id, so that one request gets the same ids every time, and the same
    conversation sent again gets others. `seen`: the ids of the history. `pattern`: what the client accepts. `prefix`:
    of minted ids.
    """

    def __init__(self, identity: bytes, seen: Iterable[str], pattern: str = CLIENT_ID, prefix: str = "toolu_") -> None:
        self._identity = identity
        self._taken = set(seen)
        self._legal = re.compile(pattern)
        self._prefix = prefix
        self._minted: dict[int, str] = {}

    def mint(self, ordinal: int) -> str:
        """The id of the response's call number `ordinal`: the same one every time."""
        known = self._minted.get(ordinal)
        if known is not None:
            return known
        attempt = 0
        while True:
            new = self._prefix + _hex(b"%d\0%d\0" % (ordinal, attempt) + self._identity)
            if new not in self._taken:
                break
            attempt += 1
        self._taken.add(new)
        self._minted[ordinal] = new
        return new

    def accept(self, call_id: str) -> bool:
        """True if a provider's id may be sent to the client. Each id is accepted only once."""
        if (not self._legal.fullmatch(call_id) or call_id.lower() in _NOT_IDS or call_id in self._taken
                or MARK in call_id):
            return False
        self._taken.add(call_id)
        return True


class ProviderIds:
    """Ids of one conversation as one provider accepts them: legal ids unchanged, others replaced by a hash of their
    text, so that an id gives the same bytes in every later request.

    `form` is the replacement: "hash" is `call_` and 24 hex digits, "nine" nine alphanumerics; "functions" turns every
    id into `functions.NAME:N` unless that is longer than `limit` characters.
    """

    def __init__(self, pattern: str, limit: int, form: Literal["hash", "nine", "functions"] = "hash") -> None:
        self._legal = re.compile(pattern).fullmatch
        self._limit = limit
        self._form = form
        self._used: set[str] = set()
        self._count = 0

    def next_id(self, call_id: str, name: str) -> str:
        """The provider's id of the conversation's next call. `call_id` must be unique in the conversation; `name` is
        the provider's name of the tool."""
        if self._form == "functions":
            numbered = f"functions.{name}:{self._count}"
            self._count += 1
            if len(numbered) <= self._limit:
                return numbered
        new = call_id
        attempt = 0
        while new in self._used or len(new) > self._limit or not self._legal(new):
            new = self._replacement(call_id, attempt)
            attempt += 1
            if new not in self._used:
                break
        self._used.add(new)
        return new

    def _replacement(self, call_id: str, attempt: int) -> str:
        seed = (f"{attempt}\0{call_id}" if attempt else call_id).encode("utf-8", "surrogatepass")
        if self._form != "nine":
            return "call_" + _hex(seed)
        number = int.from_bytes(blake2b(seed, digest_size=12).digest(), "big")
        digits = []
        for _ in range(9):
            number, digit = divmod(number, len(_ALPHANUMERIC))
            digits.append(_ALPHANUMERIC[digit])
        return "".join(digits)


def _hex(seed: bytes) -> str:
    return blake2b(seed, digest_size=12).hexdigest()
