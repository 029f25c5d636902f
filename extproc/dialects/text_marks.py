"""Marks in the text of a model that are no calls: code fences, code spans, tokens that end a turn, tags left over from
native calls, empty tool blocks. Also `TrailingText`, the text after the last call.

The text reader calls these functions at such a mark. They consume text and return the visible part of it; they decide
nothing about calls. `limit` is the number of characters that may wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping

from extproc.dialects.buffer import Marks, Steps, TextBuffer, TooMuch
from extproc.dialects.parse_context import PlainText

FENCES = ("```", "~~~")
"""Marks of code fences."""
FENCE_MARKS = {fence: Marks((fence,)) for fence in FENCES}


def read_run(buffer: TextBuffer, mark: str) -> Steps[str]:
    """Reads the rest of a run of fence characters, whose first three (`mark`) were consumed. Returns all of them."""
    return mark + (yield from buffer.take_while(lambda char: char == mark[0]))


def read_fence(buffer: TextBuffer, mark: str, info: str, on_blank_line: Callable[[], bool],
               out: Callable[[str], None]) -> Steps[None]:
    """Passes a code fence to `out`. It begins at the start of a line and ends at the next line that starts with at
    least as many fence characters. `info`: the part of the first line after `mark` that was already consumed."""
    if not on_blank_line():
        out(mark + info)
        return
    width = len(mark)
    if not info:
        width = len((yield from read_run(buffer, mark)))
    out(mark[0] * width + info)
    while True:
        found = yield from buffer.until(FENCE_MARKS[mark], out)
        if not found:
            return
        run = yield from read_run(buffer, found)
        at_start = on_blank_line()
        out(run)
        if at_start and len(run) >= width:
            return


def fence_after(fence: str, run: str) -> str:
    """The open fence after a `run` of fence characters at the start of a line; "" for none. `fence`: the open fence
    before. For reasoning: a call in a fence is text there, too, but the closing tag of the reasoning counts."""
    if not fence:
        return run
    return "" if run.startswith(fence) else fence


_RUN = re.compile("`+")
_SPAN_ENDS = Marks(("`", "\n"))
_QUOTES = re.compile(r'\\.|"')


class CodeSpan:
    """Tracks code spans between backticks. `opens`: the text so far ends with backticks that begin a span."""

    __slots__ = ("_odd", "_ticks", "opens")

    def __init__(self) -> None:
        self._odd = False
        """This line has an odd number of runs of backticks."""
        self._ticks = False
        """The text so far ends with a backtick."""
        self.opens = False

    def note(self, text: str) -> None:
        """Adds text. A span ends with its line."""
        if "\n" in text:
            self._odd = False
            text = text[text.rfind("\n"):]
        if "`" in text:
            runs = len(_RUN.findall(text)) - (self._ticks and text[0] == "`")
            self._odd ^= runs % 2 == 1
        if text:
            self._ticks = text[-1] == "`"
            self.opens = self._odd and self._ticks


def read_span_rest(buffer: TextBuffer, limit: int) -> Steps[str]:
    """Consumes and returns the rest of an open code span through its closing backtick. Returns "" and consumes nothing
    if the span does not end on this line. A backtick inside a JSON string in the span does not end it."""
    buffer.mark()
    text, in_string, ends = "", False, False
    try:
        while True:
            piece, end = yield from buffer.collect(_SPAN_ENDS, limit - len(text))
            text += piece + end
            in_string ^= _QUOTES.findall(piece).count('"') % 2 == 1
            if end != "`" or not in_string:
                ends = end == "`"
                break
    except (TooMuch, PlainText):
        pass
    if not ends:
        buffer.rewind()
    buffer.commit()
    return text if ends else ""


def read_turn_end(buffer: TextBuffer, token: str, ends: Collection[str], behind: Collection[str],
                  limit: int) -> Steps[str]:
    """Reads further `ends` after `token`, which was consumed. Returns "" if the text ends there or one of `behind` (a
    call) follows, else the tokens as text. White space after them is not consumed."""
    text = token
    while True:
        blank = yield from buffer.space(limit)
        following = yield from buffer.literal(*ends, *behind)
        if following not in ends or len(text) > limit:
            break
        text += blank + following
    goes_on = not following and bool((yield from buffer.peek()))
    buffer.push_back(blank + following)
    return text if goes_on else ""


OPENER, CLOSER = "<tool_call>", "</tool_call>"

_MAX_INDENT = 3
"""Most columns of indentation; Markdown takes more for code."""


def read_lone_tag(buffer: TextBuffer, mark: str, line: str, limit: int) -> Steps[tuple[str, bool]]:
    """Reads closing tags after `mark`, which was consumed. `line`: the text before it on its line. Returns the tags,
    and True if their lines hold nothing else. White space after them is not consumed."""
    if line.strip() or len(line.expandtabs(4)) > _MAX_INDENT:
        return mark, False
    text = mark
    while True:
        blank = yield from buffer.space(limit)
        if len(text) > limit or not (yield from buffer.literal(CLOSER)):
            break
        text += blank + CLOSER
    alone = "\n" in blank or not (yield from buffer.peek())
    buffer.push_back(blank)
    return text, alone


_EMPTY_LIST = "[]"
"""The closer of openers that only an empty list follows."""
_MAX_OPEN_BLOCKS = 8
"""Most nested open blocks."""
_CONTINUES = ",.;:!?)"
_SENTENCE_ENDS = (".", "!", "?", ":", ";", "…", "。", "！", "？", "：")


def skip_empty_block(buffer: TextBuffer, opener: str, blocks: Mapping[str, tuple[str, ...]], before: str,
                     limit: int) -> Steps[bool]:
    """True if an empty block was consumed. `opener` was consumed before the call, `before` is the text in front of it
    on its line, `blocks` maps each opener to its closers. At most `limit` characters wait. If the result is False,
    nothing is consumed."""
    buffer.mark()
    try:
        empty = yield from _is_empty(buffer, opener, blocks, limit)
        if empty and not _is_token(opener):
            blank = yield from buffer.space(limit)
            following = "" if "\n" in blank else (yield from buffer.peek())
            empty = not following or not _in_sentence(before, following)
            buffer.push_back(blank)
    except PlainText:
        empty = False
    if not empty:
        buffer.rewind()
    buffer.commit()
    return empty


def _is_empty(buffer: TextBuffer, opener: str, blocks: Mapping[str, tuple[str, ...]], limit: int) -> Steps[bool]:
    """Consumes white space, empty lists and further empty blocks up to the closer of `opener`."""
    open_blocks = [blocks[opener]]
    while open_blocks:
        yield from buffer.space(limit)
        mark = yield from buffer.literal(*open_blocks[-1], *blocks, "[")
        if mark in open_blocks[-1]:
            closers = open_blocks.pop()
            if mark == _EMPTY_LIST and len(closers) > 1:  # the block may have a closing token as well
                blank = yield from buffer.space(limit)
                if not (yield from buffer.literal(*closers)):
                    buffer.push_back(blank)
        elif mark in blocks and len(open_blocks) < _MAX_OPEN_BLOCKS:
            open_blocks.append(blocks[mark])
        elif mark == "[":
            yield from buffer.space(limit)
            if not (yield from buffer.literal("]")):
                return False
        else:
            return False
    return True


def _in_sentence(before: str, following: str) -> bool:
    """True if a pair of tags stands inside a sentence. `following`: the next character on the line."""
    return following.islower() or following in _CONTINUES or (
        bool(before.strip()) and not before.rstrip().endswith(_SENTENCE_ENDS))


def _is_token(mark: str) -> bool:
    """True for a special token of a chat template, False for a tag."""
    return "|" in mark or "｜" in mark or mark[:1] != "<"


_LONGEST = 4096
"""Characters after a call without white space. Closing markup is shorter."""

_BLANK = re.compile(r"\s+")
_END_OF_ELEMENT = re.compile(r"<\|close\|>[^<>]*(?:<\|sep\|>|\Z)")
"""Closing tags of Kimi K3, whose parser treats `<|close|>` as an opener."""
_TOKEN = re.compile(r"<[^<>=]*>|\[/?[A-Z_]+\]")
"""A tag or token without attributes. Unless it is an opener, it closes something."""
_CLOSES = re.compile(r"[\s\])}`,;.]*+(?:</[^<>]*)?\Z")
"""Closing markup without its tokens; the last tag may be cut off."""


class TrailingText:
    """The text after the last call. `openers`: marks that begin a further call. `known`: further tokens without
    meaning."""

    __slots__ = ("_known", "_open", "_openers", "_text")

    def __init__(self, openers: Collection[str] = (), known: Collection[str] = ()) -> None:
        self._openers = openers
        self._known = known
        self._text: str | None = None
        self._open = False
        """A written call has begun and is not over."""

    def feed(self, text: str) -> None:
        if self._text is not None:
            self._keep(self._text, text, 0)

    def begin_call(self) -> None:
        """A written call begins."""
        self._open = True

    def end_call(self, text: str, at: int = 0) -> None:
        """The written call is over. `text[at:]` follows it."""
        self._open = False
        self._keep("", text, at)

    def note_native_call(self) -> None:
        """A native call came, possibly inside a written one."""
        self._text = ""

    def _keep(self, had: str, text: str, at: int) -> None:
        """Keeps a bounded text. Long runs of white space count as one space."""
        while at < len(text) and len(had) <= _LONGEST:
            had += text[at:at + _LONGEST]
            at += _LONGEST
            if len(had) > _LONGEST:
                had = _BLANK.sub(" ", had)
        self._text = had

    @property
    def closes(self) -> bool:
        """True if there was no call, or the last one is over and only closing markup follows."""
        text = self._text or ""
        if self._open or len(text) > _LONGEST:
            return False
        text = _END_OF_ELEMENT.sub("", _BLANK.sub(" ", text))
        text = text.replace(f"{OPENER} {CLOSER}", "").replace(OPENER + CLOSER, "")  # left over from a native call
        if any(opener in text for opener in self._openers) or text.rstrip().endswith(tuple(self._half_openers())):
            return False
        for token in self._known:
            text = text.replace(token, "")
        return not text.rstrip().endswith((",", ";")) and _CLOSES.match(_TOKEN.sub("", text)) is not None

    def _half_openers(self) -> Iterator[str]:
        """Tokens that may precede a closing tag as well as begin a call."""
        return (token for token in self._known if any(opener.startswith(token) for opener in self._openers))
