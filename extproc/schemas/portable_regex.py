"""Regular expressions of JSON Schemas in the syntax that every provider compiles.

JSON Schema asks for ECMA-262, clients write PCRE, and providers compile with the engine of their own language: RE2, Go,
Rust or Python. `portable` keeps to the syntax that all of these read alike. Called for `pattern` and
`patternProperties`. The caller describes a regular expression that this syntax cannot express.

Sources: the refusals of Claude Code's `Artifact` tool, whose pattern has a lookahead and `\\p{Cc}` (anthropics/
claude-code 92969; zai-org/feedback 579 and 593: code 1210; DeepSeek: `is not a "regex"`); the syntax pages of RE2, of
Rust's regex crate and of ECMA-262.
"""

from __future__ import annotations

import re
import warnings

from extproc.bounds import bounded_cache

LONGEST_COMPILED = 1000
"""Characters of a regular expression that is compiled as a check, at 2 us per character. In a longer one only the
syntax of the parts is checked."""
_MAX_REPEATS = 1000
"""The limit of RE2 and Go in `{n,m}`."""

_ESCAPES = r"\\0(?![0-9])|\\x[0-9a-fA-F]{2}|\\[!-/:-@\[-`{-~ ]"
_OUTSIDE = re.compile(
    r"(?P<klass>\[\^?)"
    r"|(?P<code>\\u[0-9a-fA-F]{4})"
    r"|(?P<named>\(\?P?<[A-Za-z_][A-Za-z0-9_]*>)"
    r"|(?P<count>\{([0-9]{1,6})(?:,([0-9]{0,6}))?\})\??(?![*+?])"
    rf"|\\[dDwWsSbBnrtfv]|{_ESCAPES}|\(\?:|\((?![?*])|[*+?]\??(?![*+?])|\{{(?![0-9,])|[^\\(\[{{*+?]+")
_INSIDE = re.compile(
    r"(?P<end>\])|(?P<code>\\u[0-9a-fA-F]{4})|(?P<open>\[(?!:))"
    rf"|\\[dDwWsSnrtfv]|{_ESCAPES}|[^\\\[\]]+")
"""One piece of a regular expression, outside and inside of brackets. Anything else is not portable: lookaround,
`\\p`, backreferences, inline flags, atomic groups, possessive quantifiers, POSIX classes, anchors such as `\\A`."""


@bounded_cache(entries=4096, longest=200)
def portable(pattern: str) -> str | None:
    """The regular expression in portable syntax; None if there is no such form. The result matches the same strings:
    group names are removed, `\\u0041` becomes `\\x41` or the character."""
    out: list[str] = []
    at = 0
    in_class = False
    while at < len(pattern):
        found = (_INSIDE if in_class else _OUTSIDE).match(pattern, at)
        if found is None:
            return None
        at = found.end()
        piece: str | None = found.group()
        kind = found.lastgroup
        if kind == "klass":
            in_class = True
            if pattern.startswith("]", at):
                return None  # an empty class to some engines, a literal bracket to others
        elif kind == "end":
            in_class = False
        elif kind == "named":
            piece = "("
        elif kind == "open":
            piece = r"\["  # Rust takes a bare bracket for a class inside the class
        elif kind == "code":
            piece = _character(int(found.group("code")[2:], 16))
        elif found.re is _OUTSIDE and found.group("count") and any(
                number and int(number) > _MAX_REPEATS for number in re.findall("[0-9]+", found.group("count"))):
            return None
        if piece is None:
            return None
        out.append(piece)
    text = "".join(out)
    if in_class or (len(text) <= LONGEST_COMPILED and not compiles(text)):
        return None
    return pattern if text == pattern else text


def _character(code: int) -> str | None:
    if 0xD800 <= code <= 0xDFFF:
        return None  # half of a surrogate pair: engines that count in characters have no such thing
    return f"\\x{code:02x}" if code < 0x100 else chr(code)


def compiles(pattern: str) -> bool:
    """True if Python compiles it as a regular expression."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError, ValueError):
        return False
    return True
