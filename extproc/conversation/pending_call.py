"""One tool call while its pieces arrive: fragments of a name and of arguments -> what is certain of them.

Providers disagree about how a native call is streamed: names in halves, names repeated, a stray `{}` before the real
arguments, every chunk repeating everything before it. This module knows those habits. `sequencer.py` decides when
something is sent, and the API's decoder which call a fragment belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container
from typing import Literal

import msgspec

from extproc.conversation.call_counts import CallCounts
from extproc.conversation.model import Signature
from extproc.errors import Failure

_IN_STRING = re.compile(r'["\\]')
_OUTSIDE = re.compile(r'["{}\[\]]')
_TOKENS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?P<closed>"?)|[{}\[\]]', re.DOTALL)
_CLOSER = {"{": "}", "[": "]"}
_NOTHING_YET = re.compile(r"\s*(?:\{\s*(?:\}\s*)?|n(?:u(?:l(?:l\s*)?)?)?)?")
"""Arguments that may turn out to be none: blank, the beginning of `null`, or an empty object."""
_STRAY_PREFIX = re.compile(r"\s*(?:\{\s*\}|null)\s*(?=\{)")
_validate = msgspec.json.Decoder(msgspec.Raw).decode
"""Raises `msgspec.DecodeError` for text that is not JSON; builds no objects."""


class JsonBalance:
    """The nesting of one JSON text, fragment by fragment. Each character is read once."""

    __slots__ = ("_escape", "closers", "in_string", "started")

    def __init__(self) -> None:
        self.closers: list[str] = []
        self.in_string = False
        self.started = False
        self._escape = False

    def feed(self, text: str) -> None:
        at, end = 0, len(text)
        if self._escape and end:
            self._escape, at = False, 1
        while at < end:
            if self.in_string:
                found = _IN_STRING.search(text, at)
                if found is None:
                    return
                at = found.end()
                if found.group() == '"':
                    self.in_string = False
                elif at == end:
                    self._escape = True
                else:
                    at += 1
                continue
            found = _OUTSIDE.search(text, at)
            if found is None:
                return
            at = found.end()
            mark = found.group()
            self.started = True
            if mark == '"':
                self.in_string = True
            elif mark in _CLOSER:
                self.closers.append(_CLOSER[mark])
            elif self.closers:
                self.closers.pop()

    @property
    def complete(self) -> bool:
        """A whole value came: an object, an array or a string."""
        return self.started and not self.closers and not self.in_string


def closing_bracket(text: str) -> int:
    """The index after the closing bracket of the object at the start of `text`; 0 if the object does not end."""
    depth = 0
    for found in _TOKENS.finditer(text):
        mark = found.group()[0]
        if mark == '"':
            if not found["closed"]:
                return 0
        else:
            depth += 1 if mark in _CLOSER else -1
            if not depth:
                return found.end()
    return 0


def is_json_object(text: str) -> bool:
    """True if `text` is one valid JSON object."""
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


TextPlace = Literal["text", "reasoning", "after reasoning"]
"""Where a model wrote a call. "after reasoning": after reasoning that held a call and was closed; the model may write
that call again."""


def _begins(name: str, offered: Collection[str]) -> bool:
    """True if the name of an offered tool starts with `name`."""
    return any(tool.startswith(name) for tool in offered)


class DeferredText:
    """Text or reasoning after an open call, in the pieces in which it came. `kind`: "text" or "thinking"."""

    __slots__ = ("kind", "pieces")

    def __init__(self, kind: str, first: str) -> None:
        self.kind = kind
        self.pieces = [first]


class PendingCall:
    """A call that is being received. `take_unsent` returns what may be sent now."""

    __slots__ = ("_balance", "_held", "_pieces", "_snapshot", "_start", "_unsent", "brackets_added", "closing",
                 "counts", "ended", "explicit_end", "finished", "id", "name", "on_truncated", "opened", "signature",
                 "size", "text_place", "unsent_size")

    def __init__(self, id: str | None = None, *, explicit_end: bool = False, signature: Signature | None = None,
                 text_place: TextPlace | None = None) -> None:
        self.id = id
        self.text_place = text_place
        """Where in the model's text it was read; None: it is native."""
        self.on_truncated: Callable[[], Failure | None] | None = None
        """Set when the model's text ended inside this call. Called when the call is certain not to be the beginning of
        a native one: returns the failure of the response, or None for a call that stays truncated."""
        self.counts: CallCounts | None = None
        """Where it is counted, if it was read from text."""
        self.signature = signature
        self.explicit_end = explicit_end
        """Its source says when it is complete; until then it is not, whatever the brackets say."""
        self.name = ""
        self.opened = False
        """Id and name were sent."""
        self.ended = False
        """No fragment counts any more."""
        self.finished = False
        """Its source says that nothing more comes, whatever the brackets say."""
        self.closing = ""
        """What completes it if its text ended inside it, unless it is the beginning of a native call."""
        self.brackets_added = False
        """Missing closing brackets were added."""
        self.unsent_size = 0
        """Characters that may be sent and were not."""
        self.size = 0
        """Characters of the arguments so far."""
        self._unsent: list[str] = []
        self._balance = JsonBalance()
        self._pieces: list[str] = []
        self._held = True
        """The first arguments are held back: they may be a stray prefix."""
        self._start = ""
        """What is held back, without white space."""
        self._snapshot = False
        """Fragments repeat everything before them."""

    def add_name(self, fragment: str, offered: Collection[str]) -> None:
        """Adds a fragment of the name. Names come whole, whole again in every chunk, in pieces, or growing; an offered
        name is final."""
        if self.opened or not fragment or fragment == self.name:
            return
        joined = self.name + fragment
        if joined in offered or not self.name:
            self.name = joined
        elif fragment in offered and fragment.startswith(self.name):
            self.name = fragment
        elif self.name not in offered:
            grows = fragment.startswith(self.name) and _begins(fragment, offered) and not _begins(joined, offered)
            self.name = fragment if grows else joined

    def is_other_tool(self, name: str, offered: Container[str]) -> bool:
        """True if `name` can only be the name of a further call: both are offered, and neither continues the other."""
        return (name != self.name and name in offered and self.name in offered
                and not name.startswith(self.name) and self.name + name not in offered)

    def name_goes_on(self, fragment: str, offered: Collection[str]) -> bool:
        """True if `fragment` can only continue the name, or be the whole of it: neither piece is an offered tool by
        itself, and together they are one or begin one."""
        if self.opened or not self.name or self.name in offered or fragment == self.name:
            return False
        if fragment.startswith(self.name):
            return _begins(fragment, offered)
        return fragment not in offered and _begins(self.name + fragment, offered)

    def may_grow(self, offered: Collection[str]) -> bool:
        """True if more of the name may come: there is none yet, or it only begins the name of an offered tool."""
        name = self.name
        return not name or (name not in offered and _begins(name, offered))

    def add_arguments(self, fragment: str) -> None:
        """Adds a fragment of JSON text."""
        if not fragment:
            return
        if self._pieces and fragment[0] == "{" and len(fragment) >= self.size:
            fragment = self._without_repeated(fragment)
            if not fragment:
                return
        self._pieces.append(fragment)
        self.size += len(fragment)
        self._balance.feed(fragment)
        if self._held:
            self._release_first(fragment)
        else:
            self._release(fragment)

    def _release(self, text: str) -> None:
        self._unsent.append(text)
        self.unsent_size += len(text)

    def _without_repeated(self, fragment: str) -> str:
        """The new part of a fragment. Some servers repeat the arguments so far in every chunk, or at the end.

        A fragment that starts with everything received is such a repetition, unless an object may begin here.
        """
        so_far = "".join(self._pieces)
        if not fragment.startswith(so_far):
            return fragment
        value_expected = not self._balance.in_string and so_far.rstrip()[-1:] in (":", ",", "[")
        if value_expected and not self._snapshot:
            return fragment
        self._snapshot = True
        return fragment[len(so_far):]

    def _release_first(self, fragment: str) -> None:
        """Holds back a lone `{}` or `null` until it is certain to be the arguments and not a stray prefix. Each piece
        is read once, also if all are blank."""
        start = self._start + fragment
        if _NOTHING_YET.fullmatch(start):
            self._start = "".join(start.split())
            return
        text = "".join(self._pieces)
        stray = _STRAY_PREFIX.match(text)
        if stray is not None:
            text = text[stray.end():]
            self._pieces, self.size = [text], len(text)
            self._balance = JsonBalance()
            self._balance.feed(text)
        self._held = False
        self._release(text)

    def equals_arguments(self, arguments: str) -> bool:
        """True if `arguments` repeats everything that came so far."""
        return arguments == self.arguments

    @property
    def arguments(self) -> str:
        """All of them so far."""
        return "".join(self._pieces)

    @property
    def in_string(self) -> bool:
        """The arguments so far end inside a string."""
        return self._balance.in_string

    @property
    def has_unsent(self) -> bool:
        """Arguments may be sent."""
        return bool(self._unsent)

    @property
    def complete(self) -> bool:
        """The arguments are a whole JSON value; without arguments a call is not complete, as they may still come. A
        call in text is complete when its parser says so: ended earlier, it would count as truncated, and its
        duplicate would not be found."""
        return self.finished or (self._balance.complete and not self._held and self.text_place is None)

    @property
    def whole(self) -> bool:
        """As `complete`, also if the value may still turn out to be a stray prefix."""
        return self.finished or (self._balance.complete and self.on_truncated is None)

    def end(self, clean: bool) -> None:
        """No more fragments follow. A native call of a clean finish gets its missing brackets if that makes it valid
        JSON. A truncated call is never closed, nor is a call in text: its parser knows what is missing."""
        self.ended = True
        closing, self.closing = self.closing, ""
        self.add_arguments(closing)
        if self._held:
            self._held = False
            if self._start in ("", "null"):  # no arguments, as some servers and models write them
                self._pieces, self.size = [], 0
            else:
                self._release("".join(self._pieces))
        if clean and self.text_place is None and self._balance.closers and not self._balance.in_string:
            closers = "".join(reversed(self._balance.closers))
            if is_json_object("".join(self._pieces) + closers):
                self._release(closers)
                self._pieces.append(closers)
                self.brackets_added = True
                self._balance.closers.clear()

    @property
    def truncated(self) -> bool:
        """The arguments end inside the JSON text."""
        return not self.finished and (self.explicit_end or self._balance.in_string or bool(self._balance.closers))

    @property
    def readable(self) -> bool:
        """The arguments are valid JSON; missing arguments count as an empty object. Reads all of them."""
        if self.truncated or self.brackets_added:
            return self.brackets_added
        text = "".join(self._pieces)
        try:
            return not text or text.isspace() or bool(_validate(text))
        except (msgspec.DecodeError, RecursionError):
            return False

    def take_unsent(self) -> str:
        """What may be sent now. It counts as sent from then on."""
        unsent = self._unsent[0] if len(self._unsent) == 1 else "".join(self._unsent)
        self._unsent = []
        self.unsent_size = 0
        return unsent
