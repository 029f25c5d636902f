"""The headers of tag dialects: the text after `<function=` or `<invoke name=`, up to the closing `>`.

Each function returns (name, or None if the header never ends; consumed text). Names have neither angle brackets nor
line breaks, so a false header is recognised at once.
"""

from __future__ import annotations

from extproc.dialects.buffer import Steps, TextBuffer

MAX_NAME = 512


def read_plain(buffer: TextBuffer) -> Steps[tuple[str | None, str]]:
    """Reads `NAME>`. Quotes that some models put around the name are removed."""
    raw, closed = yield from _to_bracket(buffer)
    name = raw.strip().strip("\"'")
    return (name, raw + ">") if closed and name else (None, raw + ">" * closed)


def read_name(buffer: TextBuffer) -> Steps[tuple[str | None, str]]:
    """As `read_plain`. A JSON object may follow the name without a `>`; it is not consumed."""
    raw = yield from buffer.take_while(lambda char: char not in "<>\r\n{", MAX_NAME)
    name = raw.strip().strip("\"'")
    if name and (yield from buffer.peek()) == "{":
        return name, raw
    rest, closed = yield from _to_bracket(buffer)
    name = (raw + rest).strip().strip("\"'")
    return (name, raw + rest + ">") if closed and name else (None, raw + rest + ">" * closed)


def read_attribute(buffer: TextBuffer) -> Steps[tuple[str | None, str]]:
    """Reads `"NAME">`, `'NAME'>` or `NAME>`, also with further attributes."""
    raw, closed = yield from _to_bracket(buffer)
    text = raw.strip()
    if text[:1] in ("'", '"') and text:
        name, _, _ = text[1:].partition(text[0])
    else:
        name, _, _ = text.partition(" ")
    return (name, raw + ">") if closed and name else (None, raw + ">" * closed)


def _to_bracket(buffer: TextBuffer) -> Steps[tuple[str, bool]]:
    raw = yield from buffer.take_while(lambda char: char not in "<>\r\n", MAX_NAME)
    return raw, bool((yield from buffer.literal(">")))
