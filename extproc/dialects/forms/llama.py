"""Bare JSON calls of Llama 3.1 to 3.3 (those of unknown models: `whole_answer.py`).

`{"name": ..., "parameters": {...}}` at the start of the answer or of a line, several joined by `; ` or in an array, or
anywhere behind `<|python_tag|>`. Llama's built-in tools are called there in Python's syntax (`search.call(query=...)`).
Custom tools are called as `<function=NAME>{...}</function>` as well (`qwen_coder.py`). The name must be that of an
offered tool and, where no marker says that it is a call, arguments must be there; else the JSON is text.
"""

from __future__ import annotations

from extproc.dialects.buffer import Marks, Steps
from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.lists import BARE_ARRAY
from extproc.dialects.forms.pythonic import read_python_calls
from extproc.dialects.forms.qwen_coder import QWEN_CODER
from extproc.dialects.json.body import read_array, read_call
from extproc.dialects.parse_context import NoMatch, ParseContext

_STOP = Marks(["<|eom_id|>", "<|eot_id|>", "<|python_tag|>"])


class BareJson:
    """Call objects without any marker, at the start of the answer or of a line."""

    def __init__(self, *openers: str) -> None:
        self.openers = openers

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        io.buffer.at -= 1
        yield from read_objects(io, needs_arguments=True)


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


def read_objects(io: ParseContext, *, needs_arguments: bool = False) -> Steps[None]:
    """A call object and those that follow it, joined by semicolons, commas or only white space."""
    buffer = io.buffer
    yield from read_call(io, _STOP, needs_arguments=needs_arguments)
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

DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="llama3-json", forms=(PYTHON_TAG, QWEN_CODER), loose=(LINE_JSON,), first=(BARE_JSON, BARE_ARRAY),
            ends=("<|eom_id|>", "<|eot_id|>")),
)
