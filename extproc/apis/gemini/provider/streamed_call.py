"""A function call whose arguments come in pieces (`partialArgs` of Vertex AI) -> one whole call.

`StreamedCall` knows the habits of the servers: the name only in the first piece or in each, pieces without values, an
empty part as the end, all arguments repeated as `args`. `PartialArguments` assembles the JSON: each piece names a place
by a JSONPath (`$.edits[0].text`, `$['a key']`) and holds a value, or the next part of a string. Pieces may come in any
order and return to objects that seemed complete, so the JSON is written when the call ends: what went out could not be
taken back. The order of members is that of their first pieces; numbers keep their digits. Pieces that contradict each
other raise `PieceError`; nothing is guessed.

Source: Vertex AI, "Function calling", streaming of arguments (`streamFunctionCallArguments`); FunctionCall and
PartialArg of the v1 reference.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import Any, NamedTuple

import msgspec

from extproc.apis.gemini.wire import PartialArg, ResponseCall
from extproc.bounds import JSON_DEPTH
from extproc.errors import Failure

_STEP = re.compile(r"""\.?(?:([^.\[\]'"]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\])""")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MAX_GAP = 1024
"""Elements of an array that may be missing before a received one: they are null until they arrive."""


class StreamedCall:
    """One call. `limit`: maximum length of its arguments, in characters."""

    def __init__(self, limit: int) -> None:
        self.id: str | None = None
        self.name = ""
        self.signature: str | None = None
        self._limit = limit
        self._pieces = PartialArguments()
        self._args = ""

    def continues_with(self, call: ResponseCall) -> bool:
        """True if this part belongs to the call: it has no other name and no other id."""
        if call.id_text is not None and self.id is not None and call.id_text != self.id:
            return False
        return not self.name or call.name_text in ("", self.name)

    def add_part(self, call: ResponseCall, signature: str | None) -> Failure | None:
        """Adds a part of the call. Returns a Failure if the pieces do not fit together."""
        self.name = self.name or call.name_text
        self.id = self.id or call.id_text
        self.signature = self.signature or signature
        arguments = call.arguments
        if arguments not in ("", "{}"):
            self._args = arguments
        try:
            for piece in call.partial_args or ():
                if piece is not None:
                    self._pieces.add_piece(piece)
        except (PieceError, msgspec.DecodeError, RecursionError) as problem:
            return Failure("server", f"The provider streamed arguments of the tool {self.name[:100]!r} that cannot be "
                                     f"put together: {problem}.")
        if self._pieces.size > self._limit:
            return Failure("server", "The provider sent a tool call with arguments of more than "
                                     f"{self._limit} characters.")
        return None

    @property
    def is_whole(self) -> bool:
        """True if every string that began has ended."""
        return bool(self._args) or self._pieces.complete

    @property
    def arguments(self) -> str:
        return self._args or self._pieces.text()

    @property
    def truncated_arguments(self) -> str:
        """The arguments received so far, for a truncated call. Not valid JSON."""
        return self._pieces.truncated_text()


# ---------------------------------------------------------------------------------------------------------- arguments


class PieceError(Exception):
    """A piece does not fit into its place; the text says why."""


class _StringPieces:
    """A string while its pieces arrive."""

    __slots__ = ("open", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.open = False


class _Member(NamedTuple):
    """A member of an object or an element of an array."""

    holder: Any
    key: Any

    def get_value(self) -> object:
        if isinstance(self.holder, dict):
            return self.holder.get(self.key)
        return self.holder[self.key] if self.key < len(self.holder) else None

    def set_value(self, value: object) -> None:
        if isinstance(self.holder, dict):
            self.holder[self.key] = value
        else:
            while len(self.holder) <= self.key:
                self.holder.append(None)
            self.holder[self.key] = value


class PartialArguments:
    """The arguments of one call. `size`: characters received so far."""

    def __init__(self) -> None:
        self.size = 0
        self._root: dict[str, Any] = {}
        self._path = ""
        self._string: _StringPieces | None = None
        """The string of the last piece, at `_path`."""
        self._open_strings = 0
        """Strings whose last piece said that more follows."""

    def add_piece(self, piece: PartialArg) -> None:
        """Sets or continues the value at the piece's path. Raises PieceError."""
        path = piece.json_path if isinstance(piece.json_path, str) else ""
        text = piece.string_value if isinstance(piece.string_value, str) else None
        if path == self._path and self._string is not None and _raw_value(piece) is None:
            string = self._string
        else:
            place = self._find_member(path, piece)
            if place is None:
                return
            found = place.get_value()
            if text is None and isinstance(found, _StringPieces) and _raw_value(piece) is None:
                string = found  # it only ends the string
            elif text is None:
                self._set_value(place, _raw_value(piece))
                return
            elif isinstance(found, _StringPieces):
                string = found
            elif isinstance(found, (dict, list)) and found:
                raise PieceError(f"a string came for {path[:100]!r}, which holds other values")
            else:
                string = _StringPieces()
                place.set_value(string)
            self._path, self._string = path, string
        if text:
            string.pieces.append(text)
            self.size += len(text)
        still_open = bool(piece.will_continue)
        self._open_strings += still_open - string.open
        string.open = still_open

    @property
    def complete(self) -> bool:
        """True if no string is open."""
        return self._open_strings == 0

    def text(self) -> str:
        """The arguments as JSON."""
        return msgspec.json.encode(self._root, enc_hook=_join_pieces).decode()

    def truncated_text(self) -> str:
        """The arguments received so far, for a truncated call: JSON without its end."""
        text = self.text().rstrip("}]")
        return text[:-1] if self._string is not None and self._string.open else text

    # ---------------------------------------------------------------------------------------------------- places

    def _set_value(self, place: _Member, value: msgspec.Raw | None) -> None:
        self._path, self._string = "", None
        if value is None:  # an object, an array or null: later pieces decide
            if place.get_value() is None:
                place.set_value(None)
            return
        found = place.get_value()
        if isinstance(found, _StringPieces):
            self._open_strings -= found.open
        elif isinstance(found, (dict, list)) and found:
            raise PieceError("a value came for a place that holds other values")
        self.size += len(bytes(value))
        place.set_value(value)

    def _find_member(self, path: str, piece: PartialArg) -> _Member | None:
        """The place that a path leads to; creates objects and arrays on the way. If the piece holds all arguments, sets
        them and returns None."""
        steps = _steps(path)
        if not steps:
            self._set_all(piece)
            return None
        holder: Any = self._root
        for step, following in itertools.pairwise(steps):
            place = _member(holder, step, path)
            inner = place.get_value()
            if inner is None:
                inner = [] if isinstance(following, int) else {}
                place.set_value(inner)
            elif isinstance(inner, msgspec.Raw):
                inner = _decode_one_level(inner, path)
                place.set_value(inner)
            holder = inner
        return _member(holder, steps[-1], path)

    def _set_all(self, piece: PartialArg) -> None:
        value = _raw_value(piece)
        if piece.string_value:
            raise PieceError("a string came for the whole of the arguments")
        if value is None:
            return
        decoded = msgspec.json.decode(value, type=dict[str, msgspec.Raw]) if bytes(value)[:1] == b"{" else None
        if decoded is None or self._root:
            raise PieceError("a value came for the whole of the arguments")
        self.size += len(bytes(value))
        self._root = dict(decoded)


def _member(holder: Any, step: str | int, path: str) -> _Member:
    fits = isinstance(holder, list) if isinstance(step, int) else isinstance(holder, dict)
    if not fits:
        raise PieceError(f"the path {path[:100]!r} leads through a value of another kind")
    if isinstance(step, int) and step > len(holder) + _MAX_GAP:
        raise PieceError(f"the path {path[:100]!r} leads far behind the end of an array")
    return _Member(holder, step)


def _decode_one_level(value: msgspec.Raw, path: str) -> Any:
    """A whole value that gets further members, decoded by one level."""
    raw = bytes(value)
    if raw[:1] == b"{":
        return msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    if raw[:1] == b"[":
        return msgspec.json.decode(raw, type=list[msgspec.Raw])
    if raw == b"null":
        raise PieceError(f"the path {path[:100]!r} leads through null")
    raise PieceError(f"the path {path[:100]!r} leads through a value of another kind")


def _raw_value(piece: PartialArg) -> msgspec.Raw | None:
    """The value of a piece, as it came, unless it is a string; None if there is none."""
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


def _join_pieces(value: object) -> str:
    assert isinstance(value, _StringPieces)
    return "".join(value.pieces)
