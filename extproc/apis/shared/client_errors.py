"""What the errors of all client APIs have in common: the status, the words without a message, the code, and the field.

Shapes, types and wording are in `errors` of each client API.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from extproc.errors import Failure

_KIND_ONLY = re.compile(r"[a-z_]+_error|[A-Z]+(?:_[A-Z]+)*|\d+")
"""Codes that only repeat the kind in another API's words: Anthropic's types, Google's and HTTP's statuses. Clients look
for OpenAI's."""
_PLACE = re.compile(r"([a-z_]+)[\w.\[\]]*(?=: )")


def error_status(failure: Failure) -> int:
    """The provider's status, except for a context overflow, which is always a 400."""
    if failure.kind == "context_length":
        return 400
    return failure.status if 400 <= failure.status <= 599 else 502


def plain_message(failure: Failure) -> str:
    """The message, never empty."""
    return failure.message or f"the provider failed with status {failure.status}"


def specific_code(failure: Failure) -> str | None:
    """The provider's code, if it says more than the kind of the failure."""
    if failure.kind == "context_length" or not failure.code or _KIND_ONLY.fullmatch(failure.code):
        return None
    return failure.code


def place_in_message(failure: Failure, fields: Collection[str]) -> str | None:
    """The place in the request at the start of the message, such as `messages[2].content`, if it begins with one of
    these fields."""
    found = _PLACE.match(failure.message)
    return found.group(0) if found is not None and found.group(1) in fields else None
