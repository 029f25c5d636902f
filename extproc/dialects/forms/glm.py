"""GLM: `<tool_call>NAME<arg_key>KEY</arg_key><arg_value>text</arg_value>...</tool_call>`, one call per block.

GLM-4.5 and 4.6 write newlines between the tags, 4.7 and 5 none; both are read by one form. Values are verbatim.
Poolside Laguna writes the same and ends its turn with `</assistant>`. LongCat writes it with tags of its own, and at
times one JSON object behind the first `<longcat_arg_key>`. GLM falls back into Hermes JSON, so that is looked for as
well.
"""

from __future__ import annotations

from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.hermes import HERMES, LONGCAT
from extproc.dialects.headers import MAX_NAME
from extproc.dialects.tape import Marks, Steps, Tape, TooMuch
from extproc.dialects.xmlbody import Grammar, Header, TaggedCall
from extproc.dialects.xmlvalue import skip_newline


def _name(tape: Tape) -> Steps[tuple[str | None, str]]:
    """The word behind the opening tag."""
    blank = yield from tape.space()
    name = yield from tape.run(lambda char: not char.isspace() and char not in "<{(", MAX_NAME)
    return name or None, blank + name


def _key_reader(prefix: str) -> Header:
    """Reads `KEY</arg_key> <arg_value>`, each tag with `prefix`; one of the two tags may be missing. A key without a
    value is none."""
    key_end, value, value_end = f"</{prefix}arg_key>", f"<{prefix}arg_value>", f"</{prefix}arg_value>"
    next_tags = (f"<{prefix}arg_key>", f"</{prefix}tool_call>", f"<{prefix}tool_call>")
    ends = Marks([key_end, value, value_end, *next_tags, "\n", "\r"])

    def read(tape: Tape) -> Steps[tuple[str | None, str]]:
        try:
            key, mark = yield from tape.collect(ends, MAX_NAME)
        except TooMuch:
            return None, ""
        raw = key + mark
        if mark in ("\n", "\r"):
            blank = mark + (yield from tape.space())
            mark = yield from tape.literal(key_end, value)
            raw = key + blank + mark
            if not mark:
                tape.push_back(blank)
                raw = key
        elif mark not in (key_end, value):
            tape.at -= len(mark)
            raw = key
        if mark not in (key_end, value):
            return None, "" if not mark and tape.ended and not tape.clean else raw
        if mark == key_end:
            blank = yield from tape.space()
            opened = yield from tape.literal(value)
            if opened:
                raw += blank + opened
            else:
                if tape.ended and not tape.clean:
                    tape.at = len(tape.buffer)
                    return None, ""
                following = yield from tape.literal(*next_tags)
                tape.push_back(blank + following)
                if following:  # the key has no value
                    return None, raw
                raw += yield from skip_newline(tape)  # the line end that stands between the two tags
        name = key.strip()
        return name or None, raw

    return read


def _grammar(prefix: str) -> Grammar:
    return Grammar(
        regions=((f"<{prefix}tool_call>", f"</{prefix}tool_call>"),), call_end=f"</{prefix}tool_call>", name=_name,
        parameter=f"<{prefix}arg_key>", parameter_end=f"</{prefix}arg_value>", key=_key_reader(prefix))


GLM = TaggedCall(_grammar(""))
LONGCAT_PAIRS = TaggedCall(_grammar("longcat_"))

_ENDS = ("<|observation|>", "<|user|>", "<|endoftext|>", "</assistant>")

DIALECTS: tuple[Dialect, ...] = (
    *(Dialect(name=name, forms=(GLM, HERMES), ends=_ENDS) for name in ("glm-4.5", "glm-4.6", "glm-4.7")),
    Dialect(name="longcat", forms=(LONGCAT, LONGCAT_PAIRS), ends=("</longcat_s>",),
            think=(("<longcat_think>", "</longcat_think>"), ("<think>", "</think>"))),
)
