"""DeepSeek V3, R1 and V3.1: calls between tokens with full-width bars (U+FF5C) and lower blocks (U+2581).

V3, R1: `call begin`, the word `function`, separator, NAME, newline, the JSON in a fence marked json, `call end`.
V3.1: `call begin`, NAME, separator, JSON, `call end`; no word, no fence. One reader takes both and what lies between
(a fence without the word, the word without a fence). R1 also opens the section in other spellings.

Solar Open 100B writes an id, the name and the JSON between tokens of its own: `<|tool_calls|><|tool_call:begin|>ID
<|tool_call:name|>NAME<|tool_call:args|>{...}<|tool_call:end|><|calls|>`; its visible text begins with `<|content|>`.
Source: its chat template.
"""

from __future__ import annotations

from extproc.dialects.buffer import Marks, Steps, TooMuch
from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.sections import Tokens, TokenSections
from extproc.dialects.parse_context import ParseContext

END_OF_SENTENCE = "<｜end▁of▁sentence｜>"

TOKENS = Tokens(
    sections=("<｜tool▁calls▁begin｜>", "<｜tool▁calls｜>", "<｜tool_calls_begin｜>", "<｜tool calls begin｜>"),
    section_ends=("<｜tool▁calls▁end｜>", "<｜tool_calls_end｜>", "<｜tool calls end｜>"),
    calls=("<｜tool▁call▁begin｜>", "<｜tool_call_begin｜>"),
    separators=("<｜tool▁sep｜>", "<｜tool_sep｜>"),
    call_ends=("<｜tool▁call▁end｜>", "<｜tool_call_end｜>"),
)
_FENCES = ("```json", "```JSON", "```")


class DeepSeekSections(TokenSections):
    """The header is a name, or the word `function` (Solar: an id) and the name behind the separator."""

    def __init__(self, tokens: Tokens) -> None:
        super().__init__(tokens)
        self._name_ends = Marks([*tokens.structure, *tokens.separators, "\n", "\r", "{", "`"])

    def title(self, io: ParseContext, header: str) -> Steps[str]:
        buffer = io.buffer
        yield from buffer.space()
        if io.offered(header) is None:
            try:
                name, mark = yield from buffer.collect(self._name_ends, 256)
            except TooMuch:
                name, mark = "", ""
            if mark not in self.tokens.separators:
                buffer.at -= len(mark)
            header = name.strip() or header
            yield from buffer.space()
        if (yield from buffer.literal(*_FENCES)):
            yield from buffer.space()
        return header


DEEPSEEK_SECTIONS = DeepSeekSections(TOKENS)

SOLAR_OPEN = Tokens(
    sections=("<|tool_calls|>",), section_ends=("<|calls|>",), calls=("<|tool_call:begin|>",),
    separators=("<|tool_call:name|>", "<|tool_call:args|>"), call_ends=("<|tool_call:end|>",))

DIALECTS: tuple[Dialect, ...] = (
    *(Dialect(name=name, forms=(DEEPSEEK_SECTIONS,), strays=TOKENS.strays, ends=(END_OF_SENTENCE,))
      for name in ("deepseek-v3", "deepseek-r1", "deepseek-v3.1")),
    Dialect(name="solar-open", forms=(DeepSeekSections(SOLAR_OPEN),), strays=SOLAR_OPEN.strays,
            think=(("<|think|>", "<|end|>"), ("<think>", "</think>")), think_anywhere=True, answers=("<|content|>",),
            noise=("<|begin|>assistant",), ends=("<|flush|>",)),
)
