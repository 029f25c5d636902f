"""Tool blocks that hold nothing: `<tool_call></tool_call>`, `<|tool_calls_section_begin|><|tool_calls_section_end|>`.

Models open a block and close it again when they decide against a call. Such a block carries nothing, so the scanner
drops it. The exception is a pair of tags in the middle of a sentence ("inside <tool_call></tool_call> tags", as the
prompts of several model families say): that is prose about the format. Special tokens (`<|...|>`, `[...]`) are dropped
there as well.
The scanner calls this after every parser of the opener has failed. Nothing here emits text.
"""

from __future__ import annotations

from collections.abc import Mapping

from extproc.dialects.buffer import Steps, TextBuffer
from extproc.dialects.parse_context import PlainText

_EMPTY_LIST = "[]"
"""The closer of openers that only a list follows."""
_MAX_DEPTH = 8
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
        elif mark in blocks and len(open_blocks) < _MAX_DEPTH:
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
