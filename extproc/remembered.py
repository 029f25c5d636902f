"""A function -> the same function that remembers its results, where what it is asked with comes from outside.

Names, paths, patterns and schemas are chosen by clients and providers: a memory of them needs two bounds, how many are
kept and how long the text of one may be. What is longer is worked out each time and leaves nothing behind. Where only
the configuration or the code asks, `functools.lru_cache` does. `Remembered` is for what every request asks again: a
look into it is no call. Neither knows anything of what it remembers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Generic, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])
Key = TypeVar("Key")
Result = TypeVar("Result")


def remembered(*, entries: int, longest: int, at: int = 0) -> Callable[[Function], Function]:
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


class Remembered(dict[Key, Result], Generic[Key, Result]):
    """`Remembered(function)[key]` is `function(key)`. Results of keys up to a length of `longest`, as `size` counts it,
    are kept; past `entries` of them it begins again with none, so whoever sends new keys costs the others a call."""

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
