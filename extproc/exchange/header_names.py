"""Names of headers -> some of them, where the name alone decides.

A client sends the same headers with each request, and a provider with each answer: which of them go on, which stay, is
worked out for the whole set of names once. Knows no values.
"""

from __future__ import annotations

from collections.abc import Callable

from extproc.remembered import Remembered

Names = tuple[str, ...]
Chosen = Remembered[Names, Names]


def chosen(choose: Callable[[str], bool]) -> Chosen:
    """`chosen(choose)[names]`: those for which `choose` says so, in their order."""

    def choose_all(names: Names) -> Names:
        return tuple([name for name in names if choose(name)])

    return Remembered(choose_all, entries=256, longest=2000, size=_characters)


def _characters(names: Names) -> int:
    return sum(map(len, names))
