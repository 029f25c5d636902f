"""Python literals, whole or while a string arrives -> their values. Nothing is ever evaluated.

For calls in Python's syntax. Tuples and sets become lists; keys of dictionaries become text. Text that is no literal (a
name, an expression) raises ValueError.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Callable

from extproc.dialects.buffer import Marks, Steps, TextBuffer
from extproc.dialects.json.lenient import read_lenient

_MAX_PARSED = 64 * 1024
"""Longest text, in characters, for Python's own parser."""
_MAX_BITS = 14_000
"""Longest integer. Python writes at most 4300 digits but reads hexadecimal numbers of any length."""
_NAMES = {"true": True, "false": False, "null": None, "none": None}
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "0": "\0",
           "\\": "\\", "'": "'", '"': '"', "/": "/", "\n": ""}
_HEX = {"x": 2, "u": 4, "U": 8}
_LOW_SURROGATE = re.compile(r"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_STRING_MARKS = {quote: Marks([quote, "\\"]) for quote in ("'", '"', "'''", '"""')}


def read_literal(text: str) -> object:
    """The value of a literal, as JSON can carry it. Also reads text that Python refuses but that has only one possible
    meaning, such as raw newlines in strings. Raises ValueError."""
    try:
        return _parsed(text.strip())
    except ValueError:
        found = read_lenient(text)
        if found.unclosed or text[found.end:].strip():
            raise
        return found.value


def literal_of(node: ast.expr) -> object:
    """The value of a literal in Python's syntax tree. Raises ValueError for other expressions."""
    return _value(node)


def _parsed(text: str) -> object:
    if len(text) > _MAX_PARSED:
        raise ValueError("longer than what is parsed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(str(error)) from None


def _value(node: ast.expr) -> object:
    if isinstance(node, ast.Constant):
        return _constant(node.value)
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        return {_key(key): _value(value) for key, value in zip(node.keys, node.values, strict=True)}
    if isinstance(node, ast.Name) and node.id.lower() in _NAMES:
        return _NAMES[node.id.lower()]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        number = _value(node.operand)
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            return -number if isinstance(node.op, ast.USub) else number
    raise ValueError("no literal")


def _constant(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if value is None or (isinstance(value, int) and value.bit_length() <= _MAX_BITS) \
            or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise ValueError("nothing that JSON carries")


def _key(node: ast.expr | None) -> str:
    if node is None:
        raise ValueError("no key")
    key = _value(node)
    if isinstance(key, str):
        return key
    if isinstance(key, (list, dict)):
        raise ValueError("a key that is no text")
    return {True: "true", False: "false", None: "null"}[key] if key is None or isinstance(key, bool) else str(key)


def read_string(buffer: TextBuffer, quote: str, out: Callable[[str], None], after: str = ",)]}") -> Steps[bool]:
    """Decodes a string from after its opening quote while it arrives. Raw newlines are data. A quote without one of the
    characters `after` behind it is data, too. False if the text ended inside."""
    marks = _STRING_MARKS[quote]
    while True:
        mark = yield from buffer.until(marks, out)
        if not mark:
            return False
        if mark == "\\":
            piece = yield from _escape(buffer)
            if piece is None:
                return False
            out(piece)
        elif len(quote) > 1 or (yield from _value_ends(buffer, after)):
            return True
        else:
            out(mark)


def _escape(buffer: TextBuffer) -> Steps[str | None]:
    """Decodes an escape from after its backslash. Unknown escapes stay as they are. None if the text ended."""
    letter = yield from buffer.peek()
    if not letter:
        return None
    buffer.at += 1
    if letter in _SIMPLE:
        return _SIMPLE[letter]
    size = _HEX.get(letter)
    if size is None:
        return "\\" + letter
    code = yield from _hex(buffer, size)
    if code is None:
        return "\\" + letter
    if 0xD800 <= code < 0xDC00 and (yield from buffer.peek(2)) == "\\u":
        second = yield from buffer.peek(6)
        if _LOW_SURROGATE.fullmatch(second):
            buffer.at += len(second)
            return chr(0x10000 + ((code - 0xD800) << 10) + (int(second[2:], 16) - 0xDC00))
    return "\ufffd" if 0xD800 <= code < 0xE000 or code > 0x10FFFF else chr(code)


def _hex(buffer: TextBuffer, size: int) -> Steps[int | None]:
    digits = yield from buffer.peek(size)
    if len(digits) < size or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
        return None
    buffer.at += size
    return int(digits, 16)


def _value_ends(buffer: TextBuffer, after: str) -> Steps[bool]:
    size = 1
    while True:
        text = yield from buffer.peek(size)
        rest = text.lstrip()
        if rest:
            return rest[0] in after
        if len(text) < size or size > 256:
            return True
        size += 1
