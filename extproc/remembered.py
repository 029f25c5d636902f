"""A function -> the same function that remembers its last results, where what it is asked with comes from outside.

Names, paths, patterns and schemas are chosen by clients and providers: a memory of them needs two bounds, how many are
kept and how long the text of one may be. What is longer is worked out each time and leaves nothing behind. Where only
the configuration or the code asks, `functools.lru_cache` does. It knows nothing of what it remembers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


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
