"""Bounds: the size limits of a request and a response, and caches whose keys come from outside.

`Limits` holds the bounds of design rule 7. Each is a setting. Past one, the client gets an error that names it.

Names, paths, patterns and schemas are chosen by clients and providers. A cache of results by such keys needs two
bounds: the number of entries and the length of a key. Results of longer keys are computed each time and not kept. Where
only the configuration or the code chooses the keys, `functools.lru_cache` is enough. `BoundedCache` is for lookups of
every request: a hit is a dictionary lookup and no call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Generic, TypeVar, cast

import msgspec

Function = TypeVar("Function", bound=Callable[..., Any])
Key = TypeVar("Key")
Result = TypeVar("Result")


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes in bytes unless a name says otherwise."""

    body: int = 64 * 1024 * 1024
    """Largest request or whole answer, after decompression."""
    replay: int = 8 * 1024 * 1024
    """Largest request that can be sent again to a further attempt; a larger one has its first attempt only. Envoy keeps
    the copy until the answer has ended: count with the size of the requests (at most this) times the answers that run
    at the same time, and twice that for a backend with several keys."""
    sse_line: int = 16 * 1024 * 1024
    """Longest line of a provider's event stream."""
    json_depth: int = 128
    """Deepest nesting of a request."""
    tools: int = 512
    """Most tools of a request, as a count."""
    prompted_tools: int = 64
    """Most tools of a request whose tools are written into the prompt, as a count."""
    tool_arguments: int = 16 * 1024 * 1024
    """Longest arguments of one tool call of a model, in characters of their JSON; a longer call ends the answer with an
    error."""
    held_back: int = 64 * 1024
    """Most text that waits for a decision (a marker, a later block)."""


def bounded_cache(*, entries: int, longest: int, at: int = 0) -> Callable[[Function], Function]:
    """Keeps the last `entries` results. `at`: which argument is the text from outside, of which results up to a length
    of `longest` are kept. Arguments are given by position. `cache_info` tells of the memory, as that of `lru_cache`."""

    def decorate(function: Function) -> Function:
        kept = lru_cache(entries)(function)

        @wraps(function)
        def call(*arguments: Any) -> Any:
            return kept(*arguments) if len(arguments[at]) <= longest else function(*arguments)

        call.cache_info = kept.cache_info  # type: ignore[attr-defined]
        return cast(Function, call)

    return decorate


class BoundedCache(dict[Key, Result], Generic[Key, Result]):
    """`BoundedCache(function)[key]` is `function(key)`. Results of keys up to a length of `longest`, as `size` counts
    it, are kept; past `entries` of them it begins again with none, so whoever sends new keys costs the others a
    call."""

    __slots__ = ("_entries", "_function", "_longest", "_size")

    def __init__(self, function: Callable[[Key], Result], *, entries: int, longest: int,
                 size: Callable[[Key], int] = len) -> None:  # type: ignore[assignment]
        super().__init__()
        self._function = function
        self._entries, self._longest, self._size = entries, longest, size

    def __missing__(self, key: Key) -> Result:
        found = self._function(key)
        if self._size(key) <= self._longest:
            if len(self) >= self._entries:
                self.clear()
            self[key] = found
        return found
