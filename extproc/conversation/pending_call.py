"""One tool call while its pieces arrive: fragments of a name and of arguments -> what can be said for certain.

Providers disagree about how a native call travels (names in halves, names repeated, a stray `{}` before the real
arguments, every chunk repeating all that came before). This module knows those habits; `blocks.py`, its only caller,
decides when something goes out. It never decides which call a fragment belongs to: the API's decoder does.
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
"""Arguments that may turn out to be none: blank, the beginning of `null`, or an empty object with nothing inside."""
_STRAY = re.compile(r"\s*(?:\{\s*\}|null)\s*(?=\{)")
_check = msgspec.json.Decoder(msgspec.Raw).decode
"""Reads a JSON text and builds nothing of it."""


class JsonBalance:
    """Follows the nesting of one JSON text, fragment by fragment; looks at each character once."""

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
        """A whole value went by (an object, an array or a string)."""
        return self.started and not self.closers and not self.in_string


def closing_bracket(text: str) -> int:
    """Where the object that `text` begins with ends: behind its closing bracket; 0 where it does not end."""
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
    """Whether `text` is one valid JSON object."""
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


Place = Literal["text", "reasoning", "behind reasoning"]
"""Where a model wrote a call: behind reasoning that was closed after a call in it, such a call may stand once more."""


def _begins(name: str, offered: Collection[str]) -> bool:
    """Whether an offered tool's name begins like this, or is this."""
    return any(tool.startswith(name) for tool in offered)


class PendingCall:
    """A call that is being received. `take` gives what may go out now; `opened` says that id and name went out."""

    __slots__ = ("_balance", "_held", "_pieces", "_snapshot", "_start", "_unsent", "buffered", "closing", "counts",
                 "ended", "finished", "give_up", "id", "mended", "name", "opened", "signature", "size", "told_end",
                 "written")

    def __init__(self, id: str | None = None, *, told_end: bool = False, signature: Signature | None = None,
                 written: Place | None = None) -> None:
        self.id = id
        self.written = written
        """Where in the model's text it was read; None: it is native."""
        self.give_up: Callable[[], Failure | None] | None = None
        """Set once the text of a written call has ended inside of it. Called when the call is certain to be no
        beginning of a native one: it is truncated then, or the answer fails."""
        self.counts: CallCounts | None = None
        """Where it is counted, if it was read from text."""
        self.signature = signature
        self.told_end = told_end
        """Its source says when it is whole; until then it is not, whatever the brackets say."""
        self.name = ""
        self.opened = False
        self.ended = False
        self.finished = False
        """Its source says that nothing more comes, whatever the brackets say."""
        self.closing = ""
        """What ends it where its text ran out, unless it is the beginning of a native call."""
        self.mended = False
        """It got brackets that were missing."""
        self.buffered = 0
        """Characters that wait to be sent."""
        self.size = 0
        """Characters of the arguments so far."""
        self._unsent: list[str] = []
        self._balance = JsonBalance()
        self._pieces: list[str] = []
        self._held = True
        self._start = ""
        """What is held back, without white space."""
        self._snapshot = False

    def add_name(self, fragment: str, offered: Collection[str]) -> None:
        """Names come whole, whole again in every chunk, in pieces, or growing. An offered name settles it."""
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
        """Whether `name` can only be the name of a further call: both are offered, and neither goes on with the
        other."""
        return (name != self.name and name in offered and self.name in offered
                and not name.startswith(self.name) and self.name + name not in offered)

    def name_goes_on(self, fragment: str, offered: Collection[str]) -> bool:
        """Whether `fragment` can only be the rest of a name that was cut, or the whole of it: neither piece is an
        offered tool of its own, and together they are one or begin one."""
        if self.opened or not self.name or self.name in offered or fragment == self.name:
            return False
        if fragment.startswith(self.name):
            return _begins(fragment, offered)
        return fragment not in offered and _begins(self.name + fragment, offered)

    def may_grow(self, offered: Collection[str]) -> bool:
        """Whether more of the name may come: there is none yet, or it only begins the name of an offered tool."""
        name = self.name
        return not name or (name not in offered and _begins(name, offered))

    def add_arguments(self, fragment: str) -> None:
        """Takes a fragment of JSON text."""
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
        self.buffered += len(text)

    def _without_repeated(self, fragment: str) -> str:
        """Some servers send the arguments so far in every chunk, or all of them once more at the end.

        A fragment that begins with everything received is such a repetition, unless an object may really begin here.
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
        """Holds back a lone `{}` or `null` until it is known to be the arguments and not a stray prefix of them. The
        usual first piece is told by its first characters; blank ones, however many, are looked at once each."""
        start = self._start + fragment
        if _NOTHING_YET.fullmatch(start):
            self._start = "".join(start.split())
            return
        text = "".join(self._pieces)
        stray = _STRAY.match(text)
        if stray is not None:
            text = text[stray.end():]
            self._pieces, self.size = [text], len(text)
            self._balance = JsonBalance()
            self._balance.feed(text)
        self._held = False
        self._release(text)

    def repeats(self, arguments: str) -> bool:
        """Whether `arguments` is all that came so far, once more."""
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
    def has_arguments(self) -> bool:
        return bool(self._unsent)

    @property
    def complete(self) -> bool:
        """The arguments are a whole JSON value (no arguments yet is not complete: they may still come). Of a written
        call its reader says so: ended before, it would pass for truncated, and no twin would be found."""
        return self.finished or (self._balance.complete and not self._held and self.written is None)

    @property
    def whole(self) -> bool:
        """As `complete`, also when the value may still turn out to be a stray prefix."""
        return self.finished or (self._balance.complete and self.give_up is None)

    def end(self, clean: bool) -> None:
        """No more fragments. A cleanly finished native call gets its missing brackets, if that makes it valid JSON; a
        truncated one is never closed, nor is a written one: its reader knows what is missing."""
        self.ended = True
        closing, self.closing = self.closing, ""
        self.add_arguments(closing)
        if self._held:
            self._held = False
            if self._start in ("", "null"):  # no arguments, as some servers and models write them
                self._pieces, self.size = [], 0
            else:
                self._release("".join(self._pieces))
        if clean and self.written is None and self._balance.closers and not self._balance.in_string:
            closers = "".join(reversed(self._balance.closers))
            if is_json_object("".join(self._pieces) + closers):
                self._release(closers)
                self._pieces.append(closers)
                self.mended = True
                self._balance.closers.clear()

    @property
    def truncated(self) -> bool:
        """The arguments broke off inside the JSON text."""
        return not self.finished and (self.told_end or self._balance.in_string or bool(self._balance.closers))

    @property
    def readable(self) -> bool:
        """The arguments are valid JSON; none at all stand for an empty object. Looks at all of them."""
        if self.truncated or self.mended:
            return self.mended
        text = "".join(self._pieces)
        try:
            return not text or text.isspace() or bool(_check(text))
        except (msgspec.DecodeError, RecursionError):
            return False

    def take(self) -> str:
        """What may be sent now; it counts as sent."""
        unsent = self._unsent[0] if len(self._unsent) == 1 else "".join(self._unsent)
        self._unsent = []
        self.buffered = 0
        return unsent
