"""Marks in the text of a model that are no calls: code fences, code spans, tokens that end a turn, tags left over from
native calls, empty tool blocks. Also `TrailingText`, the text behind the last call.

The scanner calls these functions where such a mark stands. They consume text of the buffer and return what of it is
visible; they emit nothing and decide nothing about calls. `limit` is the number of characters that may wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping

from extproc.dialects.buffer import Marks, Steps, TextBuffer, TooMuch
from extproc.dialects.parse_context import PlainText

FENCES = ("```", "~~~")
"""Marks of code fences."""
FENCE_MARKS = {fence: Marks((fence,)) for fence in FENCES}


def whole_run(buffer: TextBuffer, mark: str) -> Steps[str]:
    """The marks behind the first three, which were consumed, and those three."""
    return mark + (yield from buffer.take_while(lambda char: char == mark[0]))


def through_fence(buffer: TextBuffer, mark: str, info: str, on_blank_line: Callable[[], bool],
                  out: Callable[[str], None]) -> Steps[None]:
    """A code fence begins at the start of a line and ends with the next such line of at least as many marks.
    `info`: what of the line behind the marks was read already."""
    if not on_blank_line():
        out(mark + info)
        return
    width = len(mark)
    if not info:
        width = len((yield from whole_run(buffer, mark)))
    out(mark[0] * width + info)
    while True:
        found = yield from buffer.until(FENCE_MARKS[mark], out)
        if not found:
            return
        run = yield from whole_run(buffer, found)
        at_start = on_blank_line()
        out(run)
        if at_start and len(run) >= width:
            return


def opened_or_closed(fence: str, run: str) -> str:
    """The fence that is open behind a `run` of marks at the start of a line, "" for none; `fence` was open before.
    For reasoning, where a call in a fence is text, too, but where the reasoning's closing tag counts."""
    if not fence:
        return run
    return "" if run.startswith(fence) else fence


_RUN = re.compile("`+")
_SPAN_ENDS = Marks(("`", "\n"))
_QUOTES = re.compile(r'\\.|"')


class CodeSpan:
    """`opens`: the text so far ends with backticks that begin a span."""

    __slots__ = ("_odd", "_ticks", "opens")

    def __init__(self) -> None:
        self._odd = False
        """An odd number of runs of backticks stands on this line."""
        self._ticks = False
        """The text so far ends with a backtick."""
        self.opens = False

    def note(self, text: str) -> None:
        """More of the text. Spans of earlier lines are over."""
        if "\n" in text:
            self._odd = False
            text = text[text.rfind("\n"):]
        if "`" in text:
            runs = len(_RUN.findall(text)) - (self._ticks and text[0] == "`")
            self._odd ^= runs % 2 == 1
        if text:
            self._ticks = text[-1] == "`"
            self.opens = self._odd and self._ticks


def rest_of_span(buffer: TextBuffer, limit: int) -> Steps[str]:
    """Consumes what is left of a span that has begun, through its backtick; "" when it does not end on this line. A
    backtick in a JSON string of what is quoted is not its end."""
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


def end_of_turn(buffer: TextBuffer, token: str, ends: Collection[str], behind: Collection[str],
                limit: int) -> Steps[str]:
    """`token` was consumed: "" where it, and further `ends`, are the end of the text or stand before one of `behind`
    (a call); else the text that they are. White space behind them stays on the tape. `limit`: characters that wait."""
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
"""More makes a line code."""


def alone_on_line(buffer: TextBuffer, mark: str, line: str, limit: int) -> Steps[tuple[str, bool]]:
    """`mark` was consumed, `line` stands before it: (the mark and the closers behind it, whether nothing else stands on
    their lines). White space behind them stays on the tape. `limit`: characters that wait."""
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
"""The closer of openers that only a list follows."""
_MAX_OPEN_BLOCKS = 8
"""Blocks that stand open inside each other."""
_CONTINUES = ",.;:!?)"
_SENTENCE_ENDS = (".", "!", "?", ":", ";", "…", "。", "！", "？", "：")


def rest_of_empty_block(buffer: TextBuffer, opener: str, blocks: Mapping[str, tuple[str, ...]], before: str,
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
    """Whether a sentence goes on behind a pair of tags: `following` is the next character on the line."""
    return following.islower() or following in _CONTINUES or (
        bool(before.strip()) and not before.rstrip().endswith(_SENTENCE_ENDS))


def _is_token(mark: str) -> bool:
    """Whether a mark is a special token of a chat template rather than a tag."""
    return "|" in mark or "｜" in mark or mark[:1] != "<"


_LONGEST = 4096
"""Characters behind a call, white space left out: what closes it is shorter."""

_BLANK = re.compile(r"\s+")
_END_OF_ELEMENT = re.compile(r"<\|close\|>[^<>]*(?:<\|sep\|>|\Z)")
"""Kimi K3's closing tags, which a form looks for as it does for openers."""
_TOKEN = re.compile(r"<[^<>=]*>|\[/?[A-Z_]+\]")
"""What is no opener and has no attributes closes something."""
_CLOSES = re.compile(r"[\s\])}`,;.]*+(?:</[^<>]*)?\Z")
"""What is left without the tokens; the last tag may be cut off."""


class TrailingText:
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
