"""Names of HTTP headers: in lower case, as everything here asks for them, and what follows from names alone.

Called by whoever takes headers from outside (`Translation`, the exchanges, the client APIs). Changes no value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from extproc.bounds import BoundedCache

Names = tuple[str, ...]


def in_lower_case(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers by names in lower case: these themselves where all names are, as HTTP/2 has them."""
    names = "".join(headers)  # one look at all of them, instead of one at each
    if names.lower() == names:
        return headers
    return {name.lower(): value for name, value in headers.items()}


def chosen(choose: Callable[[str], bool]) -> BoundedCache[Names, Names]:
    """`chosen(choose)[names]`: those of them that `choose` takes, in their order. A client sends the same headers with
    each request and a provider with each answer, so it is worked out for all of them at once, and once."""

    def choose_all(names: Names) -> Names:
        return tuple([name for name in names if choose(name)])

    return BoundedCache(choose_all, entries=256, longest=2000, size=_characters)


def _characters(names: Names) -> int:
    return sum(map(len, names))
