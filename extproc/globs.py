"""Globs for the names of models and tools: which names a glob matches, the text of its star, and which glob hides
another.

Only `*` (any text, slashes included) and `?` (one character) are special. Brackets are ordinary characters, because
clients send names such as `claude-opus-4-6[1m]`. Matching is case-sensitive.
"""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST_NAME = 512
"""Characters. Longer names match no glob: no model has such a name, and matching could take long."""

_OTHER_CHARACTER = "\ue000"  # of a private-use area: no sensible pattern contains it


def is_glob(pattern: str) -> bool:
    """True if the pattern is not just one exact name."""
    return "*" in pattern or "?" in pattern


@lru_cache(maxsize=1024)
def _compile_glob(pattern: str) -> re.Pattern[str]:
    parts = {"*": "(.*)", "?": "(?:.)"}
    # Neighbouring stars mean the same as one, but would make matching exponential.
    collapsed = re.sub(r"\*+", "*", pattern)
    return re.compile("".join(parts.get(char) or re.escape(char) for char in collapsed), re.DOTALL)


def matches(pattern: str, name: str) -> bool:
    """True if `pattern` (an exact name or a glob) matches the whole name."""
    if not is_glob(pattern):
        return pattern == name
    return len(name) <= LONGEST_NAME and _compile_glob(pattern).fullmatch(name) is not None


def star_text(pattern: str, name: str) -> str:
    """The text in `name` that the first `*` of the pattern matched; the whole name if there is no star or no match."""
    if "*" not in pattern:
        return name
    found = _compile_glob(pattern).fullmatch(name)
    return found.group(1) if found else name


def covers(earlier: str, later: str) -> bool:
    """True if `earlier` matches every name that `later` matches (then a rule with `later` is never reached).

    The test uses extreme names of the later pattern: its stars empty, one character, and longer than all literal text
    of the earlier pattern.
    """
    if not is_glob(later):
        return matches(earlier, later)
    if not is_glob(earlier):
        return False
    fillings = ("", _OTHER_CHARACTER, _OTHER_CHARACTER * (len(earlier) + 1))
    return all(matches(earlier, later.replace("?", _OTHER_CHARACTER).replace("*", filling)) for filling in fillings)
