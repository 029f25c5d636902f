"""What stands behind the last call of a text that broke off: does it close that call, or had more begun?

Some servers never say how an answer ended. Behind whole calls such an answer counts as whole, so nothing may stand
there but what closes them: closing tags and tokens, brackets, fences, white space. Anything else, the mere opener of a
further call above all, is the beginning of what never came. Takes the text as it arrives, keeps little of it, and
shows nothing.
"""

from __future__ import annotations

import re

_LONGEST = 512
"""Characters behind a call: what closes it is shorter."""

_CLOSES = re.compile(r"""(?:
    [\s\])}`]
  | </[^<>]*(?:>|\Z)                                     # tags; the last one may be cut off
  | \[(?:/|END_)[A-Z_]*\]
  | <[|｜](?:call|[^<>]*?(?:end|suffix|eo[mt]|return)[^<>]*)[|｜]>
  | <(?:end|eo)[^<>]*>
  | <[|]close[|]>[^<>]*(?:<[|]sep[|]>)?
)*""", re.VERBOSE)


class Behind:
    """The text behind the last call."""

    __slots__ = ("_known", "_text")

    def __init__(self, known: tuple[str, ...]) -> None:
        self._known = known
        """Further tokens that mean nothing there."""
        self._text: str | None = None

    def heard(self, text: str) -> None:
        """This came."""
        if self._text is not None and len(self._text) <= _LONGEST:
            self._text += text[:_LONGEST + 1]

    def call_over(self, text: str, at: int = 0) -> None:
        """A call is over; behind it stands what of `text` is behind `at`."""
        self._text = text[at:at + _LONGEST + 1]

    @property
    def closes(self) -> bool:
        """Whether nothing stands behind the last call but what closes it; True where there was none."""
        text = self._text or ""
        if len(text) > _LONGEST:
            return False
        for token in self._known:
            text = text.replace(token, " ")
        return _CLOSES.fullmatch(text) is not None
