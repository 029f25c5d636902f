"""The headers of tag dialects: what stands behind `<function=` or `<invoke name=`, up to the closing `>`.

Each reader returns (the name, or None when the header never ends; what was consumed). Names have no angle brackets and
no line breaks, so a header that is none is known at once.
"""

from __future__ import annotations

from extproc.dialects.buffer import Steps, TextBuffer

MAX_NAME = 512


def read_plain(buffer: TextBuffer) -> Steps[tuple[str | None, str]]:
    """`NAME>`; quotes that some models put around it are not part of the name."""
    raw, closed = yield from _to_bracket(buffer)
    name = raw.strip().strip("\"'")
    return (name, raw + ">") if closed and name else (None, raw + ">" * closed)


def read_name(buffer: TextBuffer) -> Steps[tuple[str | None, str]]:
    """As `read_plain`. A JSON object may follow a name without a `>` between them: the object is not consumed."""
    raw = yield from buffer.take_while(lambda char: char not in "<>\r\n{", MAX_NAME)
    name = raw.strip().strip("\"'")
    if name and (yield from buffer.peek()) == "{":
        return name, raw
    rest, closed = yield from _to_bracket(buffer)
    name = (raw + rest).strip().strip("\"'")
    return (name, raw + rest + ">") if closed and name else (None, raw + rest + ">" * closed)


def read_attribute(buffer: TextBuffer) -> Steps[tuple[str | None, str]]:
    """`"NAME">`, `'NAME'>` or `NAME>`, also with further attributes behind it."""
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
