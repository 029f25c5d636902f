"""Gemma 4 and FunctionGemma: `call:NAME{key:value,...}` with bare keys and strings between tokens of their own.

Gemma 4: `<|tool_call>call:N{k:<|"|>text<|"|>,n:4,l:[...],o:{...}}<tool_call|>`; `:N{` without `call` occurs. Its
reasoning stands between `<|channel>thought` and `<channel|>`. FunctionGemma has other tokens around the same grammar.
Values without quotes are typed by the tool's schema. The closer may be missing.
"""

from __future__ import annotations

from extproc.dialects.coercion import json_or_text
from extproc.dialects.dialect import Dialect
from extproc.dialects.literals import read_string
from extproc.dialects.reading import MAX_VALUE, CallWriter, NotACall, Reading, unclosed
from extproc.dialects.tape import Marks, Steps, Tape

_MAX_DEPTH = 64


class _CutOff(Exception):  # noqa: N818
    """The text ended inside a value."""


class _Unclosed(Exception):  # noqa: N818
    """The text ended where only the closing brace is missing."""


class BareKeys:
    """Calls between an opener and a closer, strings between quotes that are tokens."""

    def __init__(self, opener: str, closer: str, quote: str) -> None:
        self.openers: tuple[str, ...] = (opener,)
        self.blocks = ((opener, closer),)
        self._closer = closer
        self._quote = quote
        self._quotes = Marks([quote])
        self._key_ends = Marks([":", ",", "}", closer, opener])
        self._scalar_ends = Marks([",", "}", "]", closer, opener])
        self._longest_tag = max(len(closer), len(opener))

    def read(self, opener: str, io: Reading) -> Steps[None]:
        tape = io.tape
        yield from tape.space()
        yield from tape.literal("call")
        yield from tape.space()
        if not (yield from tape.literal(":")):
            raise NotACall
        yield from tape.space()
        name = yield from tape.run(lambda char: char.isalnum() or char in "_-.:/", 256)
        if io.offered(name) is None:
            raise NotACall
        yield from tape.space()
        if not (yield from tape.literal("{")):
            raise NotACall
        writer = io.call(name)
        try:
            yield from self._members(writer, tape)
        except _CutOff:
            writer.break_off(unclosed(""))
            return
        except _Unclosed:
            return
        writer.close()
        yield from self._end(tape)

    def _end(self, tape: Tape) -> Steps[None]:
        """The closer, behind brackets too many; text that follows instead is content."""
        blank = yield from tape.space()
        while (yield from tape.literal("}", "]")):
            blank = yield from tape.space()
        if not (yield from tape.literal(self._closer)):
            tape.push_back(blank)

    def _members(self, writer: CallWriter, tape: Tape) -> Steps[None]:
        """The members of the arguments through the closing brace. A missing brace ends with the region."""
        key: str | None = None
        while True:
            key = yield from self._key(tape, complete=key != "")
            if key is None:
                return
            if not key:
                continue
            yield from tape.space()
            if not (yield from self._is_quote(tape)):
                mark = yield from tape.peek()
                if mark in ("[", "{"):
                    writer.value(key, (yield from self._value(tape, 0)))
                else:
                    writer.text(key, (yield from self._scalar(tape)))
            elif writer.streams(key):
                writer.begin(key)
                if not (yield from tape.until(self._quotes, writer.piece)):
                    raise _CutOff
                writer.end()
            else:
                writer.value(key, (yield from self._string(tape)))

    def _is_quote(self, tape: Tape) -> Steps[bool]:
        return bool((yield from tape.literal(self._quote)))

    def _key(self, tape: Tape, *, complete: bool = False) -> Steps[str | None]:
        """A key, its colon consumed; "" where there is none, None when the object ended (its brace is consumed).
        `complete`: of a call, and no comma stands before it, so that the call may end here."""
        yield from tape.space()
        if (yield from self._is_quote(tape)):
            key = yield from self._string(tape)
            yield from tape.space()
            yield from tape.literal(":")
            return key
        raw, mark = yield from tape.collect(self._key_ends, MAX_VALUE)
        if mark == ":":
            return raw.strip().strip("\"'")
        if mark == ",":
            return ""
        if not mark and not tape.clean:
            raise _Unclosed if complete and not raw.strip() and not tape.half_mark(self._key_ends) else _CutOff
        if mark != "}":
            tape.at -= len(mark)
        return None

    def _value(self, tape: Tape, depth: int) -> Steps[object]:
        yield from tape.space()
        if (yield from self._is_quote(tape)):
            return (yield from self._string(tape))
        mark = yield from tape.peek()
        if depth > _MAX_DEPTH or mark not in ("[", "{"):
            return json_or_text((yield from self._scalar(tape)))
        tape.at += 1
        if mark == "[":
            return (yield from self._list(tape, depth))
        found: dict[str, object] = {}
        while (key := (yield from self._key(tape))) is not None:
            if key:
                found[key] = yield from self._value(tape, depth + 1)
        return found

    def _list(self, tape: Tape, depth: int) -> Steps[object]:
        items: list[object] = []
        while True:
            mark = yield from tape.behind_commas()
            if mark == "]":
                tape.at += 1
                return items
            if mark == "}" or (yield from self._at_tag(tape)):
                return items
            elif not mark:
                raise _CutOff
            else:
                items.append((yield from self._value(tape, depth + 1)))

    def _at_tag(self, tape: Tape) -> Steps[bool]:
        """Whether the region ends here, in the middle of a value."""
        if (yield from tape.peek()) != self._closer[0]:
            return False
        text = yield from tape.peek(self._longest_tag)
        return text.startswith((self._closer, *self.openers))

    def _string(self, tape: Tape) -> Steps[str]:
        text, mark = yield from tape.collect(self._quotes, MAX_VALUE)
        if not mark:
            raise _CutOff
        return text

    def _scalar(self, tape: Tape) -> Steps[str]:
        """A value without quotes of the dialect, up to what ends it (not consumed). JSON's quotes are understood."""
        if (yield from tape.literal('"')):
            pieces: list[str] = []
            if not (yield from read_string(tape, '"', pieces.append, ",}]")):
                raise _CutOff
            return "".join(pieces)
        text, mark = yield from tape.collect(self._scalar_ends, MAX_VALUE)
        if not mark and not tape.clean:
            raise _CutOff
        tape.at -= len(mark)
        return text.strip()


DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="gemma-4", forms=(BareKeys("<|tool_call>", "<tool_call|>", '<|"|>'),),
            think=(("<|channel>thought\n", "<channel|>"), ("<think>", "</think>")), think_anywhere=True,
            ends=("<|tool_response>", "<turn|>")),
    Dialect(name="functiongemma",
            forms=(BareKeys("<start_function_call>", "<end_function_call>", "<escape>"),),
            ends=("<end_of_turn>", "<start_function_response>")),
)
