"""Arguments of a function call that Vertex AI streams in pieces (`partialArgs`) -> one JSON text.

Each piece names a place by a JSONPath (`$.edits[0].text`, `$['a key']`) and holds a value, or the next part of a
string. Pieces may come in any order and go back to objects that seemed complete, so the text is put together when the
call ends: what went out as JSON could not be taken back. The order of members is that of their first pieces; numbers
keep the digits they came with. Pieces that contradict each other raise `PieceError`; nothing is guessed.

Source: Vertex AI, "Function calling", streaming of arguments; FunctionCall and PartialArg of the v1 reference.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import Any, NamedTuple

import msgspec

from extproc.apis.gemini.provider.chunks import PartialArg
from extproc.bounds import JSON_DEPTH

_STEP = re.compile(r"""\.?(?:([^.\[\]'"]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\])""")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_WIDEST_GAP = 1024
"""Elements of an array that may be missing before one that came: they are null until they come."""


class PieceError(Exception):
    """A piece cannot be put into its place; the text says why."""


class _Text:
    """A string while its pieces arrive."""

    __slots__ = ("open", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.open = False


class _Place(NamedTuple):
    """A member of an object or an element of an array."""

    holder: Any
    key: Any

    def get(self) -> object:
        if isinstance(self.holder, dict):
            return self.holder.get(self.key)
        return self.holder[self.key] if self.key < len(self.holder) else None

    def put(self, value: object) -> None:
        if isinstance(self.holder, dict):
            self.holder[self.key] = value
        else:
            while len(self.holder) <= self.key:
                self.holder.append(None)
            self.holder[self.key] = value


class PartialArguments:
    """The arguments of one call. `size`: characters that came so far."""

    def __init__(self) -> None:
        self.size = 0
        self._root: dict[str, Any] = {}
        self._path = ""
        self._string: _Text | None = None
        """The string that the last piece belonged to, at `_path`."""
        self._open = 0
        """Strings that were promised to continue."""

    def add(self, piece: PartialArg) -> None:
        """Puts one piece into its place. Raises PieceError."""
        path = piece.json_path if isinstance(piece.json_path, str) else ""
        text = piece.string_value if isinstance(piece.string_value, str) else None
        if path == self._path and self._string is not None and _value(piece) is None:
            string = self._string
        else:
            place = self._place(path, piece)
            if place is None:
                return
            found = place.get()
            if text is None and isinstance(found, _Text) and _value(piece) is None:
                string = found  # only says that the string has ended
            elif text is None:
                self._put_value(place, _value(piece))
                return
            elif isinstance(found, _Text):
                string = found
            elif isinstance(found, (dict, list)) and found:
                raise PieceError(f"a string came for {path[:100]!r}, which holds other values")
            else:
                string = _Text()
                place.put(string)
            self._path, self._string = path, string
        if text:
            string.pieces.append(text)
            self.size += len(text)
        still_open = bool(piece.will_continue)
        self._open += still_open - string.open
        string.open = still_open

    @property
    def complete(self) -> bool:
        """No string was promised to continue."""
        return self._open == 0

    def text(self) -> str:
        """The arguments as JSON."""
        return msgspec.json.encode(self._root, enc_hook=_joined).decode()

    def truncated_text(self) -> str:
        """The arguments as far as they came, for a call that broke off: no JSON value, as its end is missing."""
        text = self.text().rstrip("}]")
        return text[:-1] if self._string is not None and self._string.open else text

    # --------------------------------------------------------------------------------------------------- mechanics

    def _put_value(self, place: _Place, value: msgspec.Raw | None) -> None:
        self._path, self._string = "", None
        if value is None:  # a place without a value: an object, an array or null, as later pieces tell
            if place.get() is None:
                place.put(None)
            return
        found = place.get()
        if isinstance(found, _Text):
            self._open -= found.open
        elif isinstance(found, (dict, list)) and found:
            raise PieceError("a value came for a place that holds other values")
        self.size += len(bytes(value))
        place.put(value)

    def _place(self, path: str, piece: PartialArg) -> _Place | None:
        """Where a path leads; objects and arrays on the way are made. None: the piece was for the whole arguments."""
        steps = _steps(path)
        if not steps:
            self._whole(piece)
            return None
        holder: Any = self._root
        for step, following in itertools.pairwise(steps):
            place = _checked(holder, step, path)
            inner = place.get()
            if inner is None:
                inner = [] if isinstance(following, int) else {}
                place.put(inner)
            elif isinstance(inner, msgspec.Raw):
                inner = _opened(inner, path)
                place.put(inner)
            holder = inner
        return _checked(holder, steps[-1], path)

    def _whole(self, piece: PartialArg) -> None:
        value = _value(piece)
        if piece.string_value:
            raise PieceError("a string came for the whole of the arguments")
        if value is None:
            return
        decoded = msgspec.json.decode(value, type=dict[str, msgspec.Raw]) if bytes(value)[:1] == b"{" else None
        if decoded is None or self._root:
            raise PieceError("a value came for the whole of the arguments")
        self.size += len(bytes(value))
        self._root = dict(decoded)


def _checked(holder: Any, step: str | int, path: str) -> _Place:
    fits = isinstance(holder, list) if isinstance(step, int) else isinstance(holder, dict)
    if not fits:
        raise PieceError(f"the path {path[:100]!r} leads through a value of another kind")
    if isinstance(step, int) and step > len(holder) + _WIDEST_GAP:
        raise PieceError(f"the path {path[:100]!r} leads far behind the end of an array")
    return _Place(holder, step)


def _opened(value: msgspec.Raw, path: str) -> Any:
    """A value that came whole and gets further members: taken apart by one level."""
    raw = bytes(value)
    if raw[:1] == b"{":
        return msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    if raw[:1] == b"[":
        return msgspec.json.decode(raw, type=list[msgspec.Raw])
    if raw == b"null":
        raise PieceError(f"the path {path[:100]!r} leads through null")
    raise PieceError(f"the path {path[:100]!r} leads through a value of another kind")


def _value(piece: PartialArg) -> msgspec.Raw | None:
    """The value of a piece that is no string, as it came; None for none."""
    for value in (piece.number_value, piece.bool_value, piece.struct_value, piece.list_value):
        if bytes(value) not in (b"", b"null"):
            return value
    return msgspec.Raw(b"null") if bytes(piece.null_value) else None  # the wire says "NULL_VALUE" or null


def _steps(path: str) -> list[str | int]:
    """`$.a[0]['b c']` -> ["a", 0, "b c"]. Raises PieceError."""
    rest = path.strip().removeprefix("$")
    steps: list[str | int] = []
    at = 0
    while at < len(rest):
        found = _STEP.match(rest, at)
        if found is None or len(steps) >= JSON_DEPTH:
            raise PieceError(f"the path {path[:100]!r} cannot be read")
        plain, index, single, double = found.groups()
        if index is not None:
            steps.append(int(index))
        elif double is not None:
            steps.append(_unquoted(double))
        else:
            steps.append(plain if plain is not None else _ESCAPED.sub(r"\1", single))
        at = found.end()
    return steps


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return _ESCAPED.sub(r"\1", text)


def _joined(value: object) -> str:
    assert isinstance(value, _Text)
    return "".join(value.pieces)
