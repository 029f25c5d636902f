"""Bounds: the size limits of requests and responses, and caches whose keys come from outside.

`Limits` holds the bounds of design rule 7. Each is a setting. Past one, the client gets an error that names it. The
constants are bounds that several rooms share. A bound with a reason inside one module stands in that module.

Clients and providers choose names, paths, patterns and schemas. A cache with such keys needs two bounds: the number of
entries and the length of a key. Results for longer keys are computed each time. Where only the configuration or the
code chooses the keys, `functools.lru_cache` is enough. `BoundedCache` is for lookups of every request: a hit is a
dictionary lookup and no call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Generic, TypeVar, cast

import msgspec

Function = TypeVar("Function", bound=Callable[..., Any])
Key = TypeVar("Key")
Result = TypeVar("Result")


JSON_DEPTH = 128
"""Deepest nesting of JSON that is read, of a client (the default of `Limits.json_depth`) as of a model."""
TOOL_ARGUMENTS = 16 * 1024 * 1024
"""Characters of the arguments of one tool call (the default of `Limits.tool_arguments`), so also of one value in
them."""
LONGEST_STREAM = 4 * 3600
"""Seconds that a response may run after its worker or its listener was told to stop. A limit on concurrent streams
counts it no longer than that."""


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes in bytes unless the text says otherwise."""

    body: int = 64 * 1024 * 1024
    """Largest request or whole response, after decompression."""
    replay: int = 8 * 1024 * 1024
    """Largest request that can be sent again to a further attempt. A larger one gets its first attempt only. Envoy
    keeps the copy until the response has ended. The memory it takes is the size of the requests (at most this) times
    the number of concurrent responses, and twice that for a backend with several keys."""
    sse_line: int = 16 * 1024 * 1024
    """Longest line of a provider's event stream."""
    json_depth: int = JSON_DEPTH
    """Deepest nesting of a request."""
    tools: int = 512
    """Most tools of a request, as a count."""
    prompted_tools: int = 64
    """Most tools of a request whose tools are written into the prompt, as a count."""
    tool_arguments: int = TOOL_ARGUMENTS
    """Longest arguments of one tool call of a model, in characters of their JSON. A longer call ends the response with
    an error."""
    held_back: int = 64 * 1024
    """Most text that is held back until a decision is possible (is it a marker? does a later block belong to it?)."""


def bounded_cache(*, entries: int, longest: int, at: int = 0) -> Callable[[Function], Function]:
    """Decorator: keeps the last `entries` results. `at`: the position of the argument that comes from outside; results
    for a longer one than `longest` are not kept. Arguments are passed by position. `cache_info` is that of
    `lru_cache`."""

    def decorate(function: Function) -> Function:
        kept = lru_cache(entries)(function)

        @wraps(function)
        def call(*arguments: Any) -> Any:
            return kept(*arguments) if len(arguments[at]) <= longest else function(*arguments)

        call.cache_info = kept.cache_info  # type: ignore[attr-defined]
        return cast(Function, call)

    return decorate


class BoundedCache(dict[Key, Result], Generic[Key, Result]):
    """`BoundedCache(function)[key]` is `function(key)`. Results are kept for keys whose `size` is at most `longest`.
    When `entries` of them are kept and another comes, all are forgotten: a client that sends ever new keys costs the
    others one call."""

    __slots__ = ("_entries", "_function", "_longest", "_size")

    def __init__(self, function: Callable[[Key], Result], *, entries: int, longest: int,
                 size: Callable[[Key], int] = len) -> None:  # type: ignore[assignment]
        super().__init__()
        self._function = function
        self._entries, self._longest, self._size = entries, longest, size

    def __missing__(self, key: Key) -> Result:
        result = self._function(key)
        if self._size(key) <= self._longest:
            if len(self) >= self._entries:
                self.clear()
            self[key] = result
        return result
