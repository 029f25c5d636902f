"""GLM: `<tool_call>NAME<arg_key>KEY</arg_key><arg_value>text</arg_value>...</tool_call>`, one call per block.

GLM-4.5 and 4.6 write newlines between the tags, 4.7 and 5 none; both are read by one form. Values are verbatim.
"""

from __future__ import annotations

from extproc.dialects.dialect import Dialect
from extproc.dialects.headers import MAX_NAME
from extproc.dialects.tape import Steps, Tape
from extproc.dialects.xmlbody import Grammar, TaggedCall


def _name(tape: Tape) -> Steps[tuple[str | None, str]]:
    """The word behind the opening tag."""
    blank = yield from tape.space()
    name = yield from tape.run(lambda char: not char.isspace() and char != "<", MAX_NAME)
    return name or None, blank + name


def _key(tape: Tape) -> Steps[tuple[str | None, str]]:
    """`KEY</arg_key> <arg_value>`; one of the two tags may be missing."""
    key = yield from tape.run(lambda char: char not in "<>\r\n", MAX_NAME)
    closed = yield from tape.literal("</arg_key>")
    blank = yield from tape.space()
    opened = yield from tape.literal("<arg_value>")
    if not opened:
        if tape.ended and not tape.clean:
            tape.at = len(tape.buffer)
            return None, ""
        tape.push_back(blank)
        blank = ""
    name = key.strip()
    return name if name and (closed or opened) else None, key + closed + blank + opened


GLM = TaggedCall(Grammar(
    regions=(("<tool_call>", "</tool_call>"),), call_end="</tool_call>", name=_name,
    parameter="<arg_key>", parameter_end="</arg_value>", key=_key))

_ENDS = ("<|observation|>", "<|user|>", "<|endoftext|>")

DIALECTS: tuple[Dialect, ...] = tuple(
    Dialect(name=name, forms=(GLM,), ends=_ENDS) for name in ("glm-4.5", "glm-4.6", "glm-4.7"))
