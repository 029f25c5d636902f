"""Patterns of the names of models and tools: which names a glob matches, what its star stood for, and which glob hides
another.

Only `*` (any text, slashes included) and `?` (one character) are special. Brackets are ordinary characters, because
clients send names such as `claude-opus-4-6[1m]`. Matching is case-sensitive. Never touches files or the environment.
"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_NAME = 512
"""Longer names match no glob: such a name is nobody's model, and matching it could take long."""

_FRESH = "\ue000"  # a private-use character: no sensible pattern holds it, so it stands for "any other character"


def is_glob(pattern: str) -> bool:
    """Whether the pattern is more than one exact name."""
    return "*" in pattern or "?" in pattern


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = {"*": "(.*)", "?": "(?:.)"}
    # Neighbouring stars mean the same as one, and would make the regular expression explode.
    collapsed = re.sub(r"\*+", "*", pattern)
    return re.compile("".join(parts.get(char) or re.escape(char) for char in collapsed), re.DOTALL)


def matches(pattern: str, name: str) -> bool:
    """Whether `pattern` (an exact name or a glob) matches the whole name."""
    if not is_glob(pattern):
        return pattern == name
    return len(name) <= MAX_NAME and _compiled(pattern).fullmatch(name) is not None


def star_text(pattern: str, name: str) -> str:
    """The text that the first `*` of the pattern stands for in `name`; the whole name when there is no star or the
    pattern does not match."""
    if "*" not in pattern:
        return name
    found = _compiled(pattern).fullmatch(name)
    return found.group(1) if found else name


def covers(earlier: str, later: str) -> bool:
    """Whether every name that `later` matches is matched by `earlier` (then a rule with `later` is never reached).

    Decided by trying the later pattern's extreme readings: its stars empty, one character, and longer than anything
    the earlier pattern could spell out.
    """
    if not is_glob(later):
        return matches(earlier, later)
    if not is_glob(earlier):
        return False
    fillings = ("", _FRESH, _FRESH * (len(earlier) + 1))
    return all(matches(earlier, later.replace("?", _FRESH).replace("*", filling)) for filling in fillings)
