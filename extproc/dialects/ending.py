"""What stands behind the last call of a text that broke off: does it close that call, or had more begun?

Some servers never say how an answer ended. Behind whole calls such an answer counts as whole, unless something more had
begun there: the opener of a further call above all, words, a tag that is cut off, a comma. What is left over (closing
tags and tokens of any kind, brackets, fences, white space) means nothing. Takes the text as it arrives, keeps little of
it, and shows nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from extproc.dialects.leftovers import CLOSER, OPENER

_LONGEST = 4096
"""Characters behind a call, white space left out: what closes it is shorter."""

_BLANK = re.compile(r"\s+")
_END_OF_ELEMENT = re.compile(r"<\|close\|>[^<>]*(?:<\|sep\|>|\Z)")
"""Kimi K3's closing tags, which a form looks for as it does for openers."""
_TOKEN = re.compile(r"<[^<>=]*>|\[/?[A-Z_]+\]")
"""What is no opener and has no attributes closes something."""
_CLOSES = re.compile(r"[\s\])}`,;.]*+(?:</[^<>]*)?\Z")
"""What is left without the tokens; the last tag may be cut off."""


class Behind:
    """The text behind the last call. `openers` begin a further call; `known`: further tokens that mean nothing."""

    __slots__ = ("_known", "_open", "_openers", "_text")

    def __init__(self, openers: Collection[str] = (), known: Collection[str] = ()) -> None:
        self._openers = openers
        self._known = known
        self._text: str | None = None
        self._open = False
        """A call has begun and is not over."""

    def feed(self, text: str) -> None:
        """This came."""
        if self._text is not None:
            self._keep(self._text, text, 0)

    def call_began(self) -> None:
        """A written call begins for certain."""
        self._open = True

    def call_over(self, text: str, at: int = 0) -> None:
        """It is over; behind it stands what of `text` is behind `at`."""
        self._open = False
        self._keep("", text, at)

    def native_call(self) -> None:
        """One came beside the text, maybe inside of a written one."""
        self._text = ""

    def _keep(self, had: str, text: str, at: int) -> None:
        """As much as is of use. A model that runs on in white space has begun nothing."""
        while at < len(text) and len(had) <= _LONGEST:
            had += text[at:at + _LONGEST]
            at += _LONGEST
            if len(had) > _LONGEST:
                had = _BLANK.sub(" ", had)
        self._text = had

    @property
    def closes(self) -> bool:
        """Whether the last call is over and nothing had begun behind it; True where there was none."""
        text = self._text or ""
        if self._open or len(text) > _LONGEST:
            return False
        text = _END_OF_ELEMENT.sub("", _BLANK.sub(" ", text))
        text = text.replace(f"{OPENER} {CLOSER}", "").replace(OPENER + CLOSER, "")  # left over of a native call
        if any(opener in text for opener in self._openers) or text.rstrip().endswith(tuple(self._half_openers())):
            return False
        for token in self._known:
            text = text.replace(token, "")
        return not text.rstrip().endswith((",", ";")) and _CLOSES.match(_TOKEN.sub("", text)) is not None

    def _half_openers(self) -> Iterator[str]:
        """Tokens that stand before closing tags as well as at the beginning of a call."""
        return (token for token in self._known if any(opener.startswith(token) for opener in self._openers))
