"""Tool call ids: minted for a client, and spelt for a provider.

Two jobs, both without state and without randomness, so that any worker gives the same answer twice:

* `IdMinter` gives the calls of an answer ids that are new in the conversation (a client that sees an id again takes
  the call for a duplicate and loops) and decides whether a provider's own id may pass.
* `ProviderIds` spells the ids of the history as the provider allows, the same way in a call and in its result.

Called by the translation and by the provider APIs' request encoders.
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
    """Every tool call id of a conversation, in calls and in results."""
    ids: set[str] = set()
    for message in messages:
        for block in message.content:
            if type(block) is ToolCall:
                ids.add(block.id)
            elif type(block) is ToolResult:
                ids.add(block.call_id)
    return frozenset(ids)


def repeated_id(call_id: str, occurrence: int) -> str:
    """A deterministic id for the n-th call (from 1) that reuses `call_id`, legal at every provider."""
    return "call_" + _hex(f"{occurrence}\0{call_id}".encode("utf-8", "surrogatepass"))


class IdMinter:
    """The ids of one answer.

    `identity` stands for the request and its id (same request, same ids; the same conversation sent again gets others),
    `seen` holds the ids of its history, `pattern` is what the client takes, `prefix` begins minted ids.
    """

    def __init__(self, identity: bytes, seen: Iterable[str], pattern: str = CLIENT_ID, prefix: str = "toolu_") -> None:
        self._identity = identity
        self._taken = set(seen)
        self._legal = re.compile(pattern)
        self._prefix = prefix
        self._minted: dict[int, str] = {}

    def mint(self, ordinal: int) -> str:
        """The id of the answer's call number `ordinal`; asked again, the same one."""
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
        """Whether a provider's id may pass to the client. An accepted id is taken: asked again, the answer is no."""
        if (not self._legal.fullmatch(call_id) or call_id.lower() in _NOT_IDS or call_id in self._taken
                or MARK in call_id):
            return False
        self._taken.add(call_id)
        return True


class ProviderIds:
    """Ids of one conversation as one provider takes them: legal ones unchanged, others replaced by a hash of their
    text, so that the same id gives the same bytes in every later request.

    `form` names the replacement: "hash" is `call_` and 24 hex digits, "nine" nine alphanumerics, "functions" turns
    every id into `functions.NAME:N`, where that is not too long.
    """

    def __init__(self, pattern: str, limit: int, form: Literal["hash", "nine", "functions"] = "hash") -> None:
        self._legal = re.compile(pattern).fullmatch
        self._limit = limit
        self._form = form
        self._used: set[str] = set()
        self._count = 0

    def next(self, call_id: str, name: str) -> str:
        """The provider's id of the conversation's next call; `call_id` must be unique in the conversation, `name` is
        the provider's name of the tool."""
        if self._form == "functions":
            spelt = f"functions.{name}:{self._count}"
            self._count += 1
            if len(spelt) <= self._limit:
                return spelt
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
