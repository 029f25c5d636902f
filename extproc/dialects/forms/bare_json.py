"""Call objects without any mark, or after one token that is never closed: Llama 3, Mistral, xLAM, unknown models.

- Llama 3.1 to 3.3: `{"name": ..., "parameters": {...}}` at the start of the response or of a line, several joined by `;
  ` or in an array, or anywhere after `<|python_tag|>`. Built-in tools are called there in Python's syntax
  (`search.call(query=...)`), custom tools also as `<function=NAME>{...}</function>` (`tagged_text.py`).
- Mistral: `[TOOL_CALLS]`. Up to v7 an array of call objects follows. From v11 on each call has a marker and its name
  before the arguments: `[TOOL_CALLS]NAME{...}`, `NAME[ARGS]{...}`, `NAME[CALL_ID]id[ARGS]{...}`. Servers remove the
  marker of v3, so the array is the whole response. Reasoning is between `[THINK]` and `[/THINK]`.
- Any model whose marks a server removed: one call, or an array, that is the whole response or its last lines.

The name must be the name of an offered tool. An object without a marker must have arguments.
"""

from __future__ import annotations

from extproc.dialects.buffer import Marks, Steps
from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.pythonic import read_python_calls
from extproc.dialects.forms.tagged_json import HERMES, TaggedArray
from extproc.dialects.forms.tagged_text import QWEN_CODER
from extproc.dialects.json.body import ARGUMENT_KEYS, NAME_KEYS, read_arguments, read_array, read_call
from extproc.dialects.json.value import raw_value, short_string
from extproc.dialects.parse_context import NoMatch, ParseContext

ENDS = ("<|eom_id|>", "<|eot_id|>", "<|eot|>", "<|eom|>", "<|im_end|>", "<|end|>", "</s>")
"""Tokens that end a message in the templates of several families."""


class BareCallAtEnd:
    """One bare call, or an array of them, that is the whole response or its last lines. That is known only at the end,
    so nothing is sent before. Text that cannot be a call is sent at its first unknown member."""

    def __init__(self, opener: str) -> None:
        self.openers: tuple[str, ...] = (opener,)

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        buffer.push_back(opener[-1])
        buffer.mark()
        try:
            yield from self._read(io)
        except NoMatch:
            if len(opener) > 1:  # the scanner expects the mark after the opener
                buffer.rewind()
                buffer.at += 1
                buffer.mark()
            raise

    def _read(self, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        is_array = (yield from buffer.literal("{", "[")) == "["
        if is_array:
            yield from self._check_array(io)
        else:
            yield from self._check(io)
        yield from buffer.space()
        while (yield from buffer.literal(*ENDS)):
            yield from buffer.space()
        if (yield from buffer.peek()) or not buffer.clean:
            raise NoMatch
        buffer.rewind()
        if is_array:
            yield from buffer.literal("[")
            yield from read_array(io)
        else:
            yield from read_call(io, needs_arguments=True)
        buffer.at = len(buffer.buffer)

    def _check_array(self, io: ParseContext) -> Steps[None]:
        """Checks an array of call objects, through its closing bracket. Raises NoMatch."""
        found = False
        while (mark := (yield from io.buffer.skip_commas())) == "{":
            io.buffer.at += 1
            yield from self._check(io)
            found = True
        if mark != "]" or not found:
            raise NoMatch
        io.buffer.at += 1

    def _check(self, io: ParseContext) -> Steps[None]:
        """Checks one object: the name of an offered tool, arguments, and no unknown members. Raises NoMatch."""
        buffer = io.buffer
        seen: set[str] = set()
        while True:
            mark = yield from buffer.skip_commas()
            if mark == "}":
                buffer.at += 1
                break
            if mark != '"':
                raise NoMatch
            key = yield from short_string(buffer)
            kind = "name" if key in NAME_KEYS else "arguments" if key in ARGUMENT_KEYS else key
            yield from buffer.space()
            if kind not in ("name", "arguments", "type", "id") or kind in seen or not (yield from buffer.literal(":")):
                raise NoMatch
            seen.add(kind)
            yield from buffer.space()
            mark = yield from buffer.peek()
            if kind == "name" and (mark != '"' or io.find_tool((yield from short_string(buffer))) is None):
                raise NoMatch
            if (kind == "arguments" and mark not in ("{", '"')) or (kind in ("type", "id") and mark != '"'):
                raise NoMatch
            if kind != "name":
                yield from raw_value(io)
        if not {"name", "arguments"} <= seen:
            raise NoMatch


BARE_CALL_ONLY = BareCallAtEnd("{")
BARE_ARRAY_ONLY = BareCallAtEnd("[")
LAST_LINE_CALL = BareCallAtEnd("\n{")


_STOP = Marks(["<|eom_id|>", "<|eot_id|>", "<|python_tag|>"])


class BareJson:
    """Call objects without a marker, at the start of the response or of a line."""

    def __init__(self, *openers: str) -> None:
        self.openers = openers

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        yield from read_objects(io, needs_arguments=True, opened=True)


class PythonTag:
    """`<|python_tag|>` and a call object, an array of them, or a call in Python's syntax."""

    openers: tuple[str, ...] = ("<|python_tag|>",)

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        yield from buffer.space()
        mark = yield from buffer.peek()
        if mark == "{":
            yield from read_objects(io)
        elif mark == "[":
            buffer.at += 1
            yield from buffer.space()
            if (yield from buffer.peek()) == "{":
                yield from read_array(io, _STOP)
            else:
                yield from read_python_calls(io, "]")
        else:
            yield from read_python_calls(io, "")


def read_objects(io: ParseContext, *, needs_arguments: bool = False, opened: bool = False) -> Steps[None]:
    """Reads call objects that are separated by semicolons, commas or white space. `opened`: the `{` of the first one
    was consumed."""
    buffer = io.buffer
    yield from read_call(io, _STOP, needs_arguments=needs_arguments, opened=opened)
    while True:
        yield from buffer.literal("}")
        buffer.mark()
        yield from buffer.space()
        yield from buffer.literal(";", ",", "<|python_tag|>")
        yield from buffer.space()
        if (yield from buffer.peek()) == "{":
            try:
                yield from read_call(io, _STOP, needs_arguments=needs_arguments)
                continue
            except NoMatch:
                pass
        buffer.rewind()
        buffer.commit()
        return


BARE_JSON = BareJson("{")
LINE_JSON = BareJson("\n{")
PYTHON_TAG = PythonTag()


_MISTRAL_STOP = Marks(["[TOOL_CALLS]", "</s>"])
_NAME_MARKS = Marks(["[CALL_ID]", "[ARGS]"])


class ToolCalls:
    """After the marker: an array, an object, or a name with its arguments."""

    openers: tuple[str, ...] = ("[TOOL_CALLS]",)
    blocks = (("[TOOL_CALLS]", "[/TOOL_CALLS]"), ("[TOOL_CALLS]", "[]"))

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        yield from buffer.space()
        mark = yield from buffer.peek()
        if mark == "[":
            buffer.at += 1
            yield from read_array(io, _MISTRAL_STOP)
        elif mark == "{":
            yield from read_call(io, _MISTRAL_STOP)
        else:
            yield from self._named(opener, io)
        yield from buffer.literal("[/TOOL_CALLS]", "</s>")

    def _named(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        name = yield from buffer.take_while(lambda char: char.isalnum() or char in "_-.:", 256)
        if io.find_tool(name) is None:
            raise NoMatch
        yield from buffer.space()
        marked = yield from buffer.literal("[CALL_ID]", "[ARGS]")
        if marked == "[CALL_ID]":
            yield from buffer.space()
            yield from buffer.take_while(lambda char: char.isalnum() or char in "_-.:", 256)
            yield from buffer.space()
            marked = yield from buffer.literal("[ARGS]")
        yield from buffer.space()
        mark = yield from buffer.peek()
        # without `[ARGS]` only an object is certainly no ordinary text; a name alone must end the response or the call
        if not marked and mark not in ("{", "") and (yield from buffer.peek(len(opener))) != opener:
            buffer.drop_truncated_mark(_NAME_MARKS)
            raise NoMatch
        if not mark and not buffer.clean:
            raise NoMatch
        writer = io.begin_call(name)
        if mark and (mark not in ("{", '"') or (yield from read_arguments(io, writer, _MISTRAL_STOP))):
            writer.close()


TOOL_CALLS = ToolCalls()


BARE_ARRAY = TaggedArray(["["])
FENCED = TaggedArray(["```json", "```"], "```", single=True)
FENCED_JSON = TaggedArray(["```json"], "```")

DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="llama3-json", forms=(PYTHON_TAG, QWEN_CODER), loose=(LINE_JSON,),
            opening_forms=(BARE_JSON, BARE_ARRAY),
            turn_ends=("<|eom_id|>", "<|eot_id|>")),
    Dialect(name="mistral", forms=(TOOL_CALLS,), opening_forms=(BARE_ARRAY_ONLY,),
            think=(("[THINK]", "[/THINK]"), ("<think>", "</think>"))),
    Dialect(name="xlam", forms=(TOOL_CALLS, HERMES), loose=(FENCED_JSON,), opening_forms=(BARE_ARRAY, FENCED)),
)
