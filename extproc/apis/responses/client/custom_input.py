"""The free text of a custom tool's call, from the arguments of the function that stands for it.

The model writes `{"input": "..."}`; the client gets the text alone, as it streams. `CustomInput` decodes the string at
any cut, also inside an escape or a surrogate pair. Models do other things, too: another key, no JSON at all, the object
twice, a code fence, a shell's here-document. Such text is held back and unwrapped at its end. Used by `calls`.
"""

from __future__ import annotations

import json
import re

import msgspec

_decode = msgspec.json.Decoder().decode

_HEAD = re.compile(r'\s{0,64}\{\s{0,64}"input"\s{0,64}:\s{0,64}"')
_LONGEST_HEAD = 4 * 64 + len('{"input":"')
"""A longer one is read at the end, as other forms are: the cost stays linear whatever the cut."""
_UNITS = re.compile(
    r'(?:[^"\\]+'
    r'|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}'
    r'|\\u(?![dD][89abAB])[0-9a-fA-F]{4}'
    r'|\\["\\/bfnrt])*')
"""As much of a JSON string as is whole: no piece of an escape and no half of a pair at its end."""
_PIECE = re.compile(r'\\(?:u[0-9a-fA-F]{0,4})?|\\u[dD][89abAB][0-9a-fA-F]{2}\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?')
"""What may become whole: the beginning of an escape, or half of a pair and the beginning of the other half."""

_HALF = re.compile("[\ud800-\udfff]")

_WRAPPED = ("{", "```", "<<", "apply_patch")
"""Beginnings of texts that may be wrapped."""
_LONGEST_BEGINNING = max(map(len, _WRAPPED))
_WHITESPACE = 256
"""Characters within which they begin."""
_FENCE = re.compile(r"\s*```[\w+-]*\n(.*?)\n?```\s*", re.DOTALL)
_HERE_DOCUMENT = re.compile(r"\s*(?:apply_patch\s+)?<<-?\s*(['\"]?)(\w+)\1\n(.*?)\n?\2\s*", re.DOTALL)


class CustomInput:
    """One call's arguments as they stream. `text` is all that `feed` and `finish` have returned."""

    def __init__(self) -> None:
        self._arguments: list[str] = []
        self._state = "head"
        self._rest = ""     # not decoded yet
        self._beginning: str | None = ""     # decoded, but too short to tell whether it is wrapped
        self._held: list[str] | None = None     # decoded and held back, because it may be wrapped
        self._sent: list[str] = []

    @property
    def arguments(self) -> str:
        """The arguments as the model wrote them."""
        return "".join(self._arguments)

    @property
    def text(self) -> str:
        """The text so far, as it was returned."""
        return "".join(self._sent)

    def feed(self, piece: str) -> str:
        """Takes a piece of the arguments and returns the text that is certain."""
        self._arguments.append(piece)
        if self._state == "string" and not self._rest and "\\" not in piece and '"' not in piece:
            return self._send(piece)
        if self._state not in ("head", "string"):
            return ""
        self._rest += piece
        if self._state == "head" and not self._read_head():
            return ""
        return self._send(self._read_string())

    def finish(self) -> str:
        """The rest of the text. The arguments are complete, or will never be."""
        if self._state in ("head", "other"):
            return self._sent_now(unwrapped(_text_of(self.arguments)))
        rest = ""
        if self._state == "string" and len(self._rest) >= 6:  # half of a pair
            rest = "\ufffd"
        self._state = "end"
        if self._beginning is not None:
            return self._sent_now(unwrapped(self._beginning + rest))
        if self._held is not None:
            return self._sent_now(unwrapped("".join(self._held) + rest))
        return self._sent_now(rest)

    def _read_head(self) -> bool:
        found = _HEAD.match(self._rest)
        if found is not None:
            self._state, self._rest = "string", self._rest[found.end():]
        elif len(self._rest) >= _LONGEST_HEAD or not _may_become_head(self._rest):
            self._state, self._rest = "other", ""
        return self._state == "string"

    def _read_string(self) -> str:
        """Decodes what is whole."""
        decoded: list[str] = []
        while True:
            units = _UNITS.match(self._rest)
            assert units is not None
            if units.end():
                decoded.append(json.loads(f'"{units.group()}"', strict=False))
                self._rest = self._rest[units.end():]
            if not self._rest or _PIECE.fullmatch(self._rest):
                break
            if self._rest[0] == '"':
                self._state, self._rest = "end", ""
                break
            # Half of a pair, or an escape that JSON does not know.
            lone = re.match(r"\\u[dD][89abAB][0-9a-fA-F]{2}", self._rest)
            decoded.append("\ufffd" if lone else self._rest[:2])
            self._rest = self._rest[lone.end() if lone else 2:]
        return _HALF.sub("\ufffd", "".join(decoded))

    def _send(self, text: str) -> str:
        if self._held is not None:
            self._held.append(text)
            return ""
        if self._beginning is None:
            return self._sent_now(text)
        text = self._beginning + text
        stripped = text[:_WHITESPACE].lstrip()
        if len(stripped) < _LONGEST_BEGINNING and len(text) < _WHITESPACE:
            self._beginning = text
            return ""
        self._beginning = None
        if stripped.startswith(_WRAPPED):
            self._held = [text]
            return ""
        return self._sent_now(text)

    def _sent_now(self, text: str) -> str:
        if text:
            self._sent.append(text)
        return text


def custom_text(arguments: str) -> str:
    """The text of a call whose arguments are complete."""
    reader = CustomInput()
    return reader.feed(arguments) + reader.finish()


def unwrapped(text: str) -> str:
    """The text without one nested `{"input": ...}`, code fence or here-document around all of it."""
    if text.lstrip().startswith("{"):
        inner = _only_string(text)
        if inner is not None:
            return inner
    for form, group in ((_FENCE, 1), (_HERE_DOCUMENT, 3)):
        found = form.fullmatch(text)
        if found is not None:
            return str(found.group(group))
    return text


def _text_of(arguments: str) -> str:
    """The text in arguments of another form."""
    inner = _only_string(arguments)
    if inner is not None:
        return inner
    try:
        value = _decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return arguments
    return value if isinstance(value, str) else arguments


def _only_string(text: str) -> str | None:
    """`input` of a JSON object, or its only member, if that is a string."""
    try:
        value = _decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    inner = value.get("input", next(iter(value.values())) if len(value) == 1 else None)
    return inner if isinstance(inner, str) else None


_HEAD_TOKENS = ("{", '"input"', ":", '"')


def _may_become_head(text: str) -> bool:
    """True if more text could make it `{"input": "`."""
    for token in _HEAD_TOKENS:
        text = text.lstrip(" \t\r\n")
        if len(text) < len(token):
            return token.startswith(text)
        if not text.startswith(token):
            return False
        text = text[len(token):]
    return True
