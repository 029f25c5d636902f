"""Kimi: K2's section tokens, and the elements of K3.

K2: `<|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:N<|tool_call_argument_begin|>{...}
<|tool_call_end|><|tool_calls_section_end|>`. N counts over the conversation. NAME is the id without `functions.` and
`:N`; it may contain dots and hyphens. Ids may be damaged: without the prefix, as a bare counter (then the arguments
show the tool), or without a name (the call is skipped).

K3: `<|open|>tools<|sep|><|open|>call tool="NAME" index="1"<|sep|><|open|>argument key="K" type="string"<|sep|>...
<|close|>argument<|sep|>...`. Visible text is in a `response` element, the whole turn in a `message` element before
`<|end_of_msg|>`. A detokeniser may put spaces around tokens.
"""

from __future__ import annotations

import re

from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.elements import ElementCalls, ElementGrammar
from extproc.dialects.forms.sections import SectionTokens, TokenSections
from extproc.dialects.json.lenient import decode_json
from extproc.dialects.parse_context import ParseContext

_NUMBERED = re.compile(r"(?:functions\.)?(\S+?)\s*:\s*\d*", re.ASCII)
_COUNTER = re.compile(r"(?:functions\.?)?:?\d*", re.ASCII)
_FOREIGN = re.compile(r"(?:call|toolu|tooluse|chatcmpl-tool|fc)[_-][\w-]+", re.ASCII)
"""Ids of other providers, which the model copies from the history."""

TOKENS = SectionTokens(
    sections=("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"),
    section_ends=("<|tool_calls_section_end|>", "<|tool_call_section_end|>"),
    calls=("<|tool_call_begin|>",),
    separators=("<|tool_call_argument_begin|>", "<|tool_arguments_begin|>", "<|tool_call_arguments_begin|>"),
    call_ends=("<|tool_call_end|>",),
)


class KimiSections(TokenSections):
    """K2: the header is the call's id."""

    def resolve(self, io: ParseContext, header: str) -> str | None:
        found = _NUMBERED.fullmatch(header)
        name = None
        if found is not None:
            name = io.find_tool(header[:found.end(1)]) or io.find_tool(found.group(1))
        return name or io.find_tool(header)

    def names_a_tool(self, header: str) -> bool:
        return _NUMBERED.fullmatch(header) is not None

    def infer(self, io: ParseContext, header: str, raw: str) -> str | None:
        counter = _COUNTER.fullmatch(header) is not None
        if not counter and _FOREIGN.fullmatch(header) is None:
            return None
        try:
            arguments = decode_json(raw or "{}")
        except ValueError:
            return None
        if not isinstance(arguments, dict):
            return None
        if counter and len(io.tools) == 1:
            return next(iter(io.tools))
        fitting = [name for name in io.tools if _fits(io, name, set(arguments))]
        if fitting or not counter:
            return fitting[0] if len(fitting) == 1 else None
        return _most_alike(io, set(arguments))


def _fits(io: ParseContext, name: str, keys: set[str]) -> bool:
    """True if these are valid names of the tool's arguments."""
    shape = io.shape(name)
    return shape.required <= keys <= shape.parameters.keys()


def _most_alike(io: ParseContext, keys: set[str]) -> str | None:
    """The tool that shares most of its parameters with `keys`; None if several do, or none does."""
    shared = sorted(((len(keys & io.shape(name).parameters.keys()), name) for name in io.tools), reverse=True)
    if not shared or not shared[0][0] or (len(shared) > 1 and shared[0][0] == shared[1][0]):
        return None
    return shared[0][1]


KIMI_SECTIONS = KimiSections(TOKENS)

K3 = ElementCalls(ElementGrammar(
    open=("<|open|>",), close=("<|close|>",), tag_end="<|sep|>",
    wrappers=frozenset({"tools"}), call="call", call_name="tool", parameter="argument", parameter_name="key",
    marks_string=("type", "string"), framing=frozenset({"response", "message"}), spaced=True, escaped=True))

_K3_FRAMING = tuple(f"<|{kind}|>{blank}{name}{blank}<|sep|>" for name in ("response", "message")
                    for kind in ("open", "close") for blank in ("", " "))
_K3_THINK = tuple((f"<|open|>{blank}think{blank}<|sep|>", f"<|close|>{blank}think{blank}<|sep|>")
                  for blank in ("", " "))

_VL_THINK = ("◁think▷", "◁/think▷")
"""Tags of Kimi-VL."""

DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="kimi-k2", forms=(KIMI_SECTIONS,), strays=TOKENS.strays, turn_ends=("<|im_end|>",),
            think=(("<think>", "</think>"), _VL_THINK)),
    Dialect(name="kimi-k3", forms=(K3,), think=(*_K3_THINK, ("<think>", "</think>")), think_anywhere=True,
            template_tokens=_K3_FRAMING, turn_ends=("<|end_of_msg|>", "<|im_end|>")),
)
