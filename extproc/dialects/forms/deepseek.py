"""DeepSeek: the section tokens of V3, R1 and V3.1, and the markup language (DSML) of V3.2, V4 and V4.1.

V3 and R1: `call begin`, the word `function`, separator, NAME, newline, the JSON in a fence marked json, `call end`.
V3.1: `call begin`, NAME, separator, JSON, `call end`. One parser reads both, also the fence without the word and the
word without a fence. The tokens have full-width bars (U+FF5C) and lower blocks (U+2581). R1 also opens the section with
other spellings.

Solar Open 100B writes an id, the name and the JSON between other tokens: `<|tool_calls|><|tool_call:begin|>ID
<|tool_call:name|>NAME<|tool_call:args|>{...}<|tool_call:end|><|calls|>`; its visible text begins with `<|content|>`.

DSML: `<｜DSML｜function_calls>`, `<｜DSML｜invoke name="NAME">`, `<｜DSML｜parameter name="K" string="true">raw text
</｜DSML｜parameter>`, `</｜DSML｜invoke>`, `</｜DSML｜function_calls>`. `string="false"`, or no such attribute, means
JSON. V4 calls the wrapper `tool_calls`, with variants seen in production, and lets a call without parameters close
itself. V4.1 puts a space before every tag name and calls the wrapper `calls`. Plain bars are read as well. The block
should end the turn; text after it is content. GigaChat 3.5 writes the same language, with GCML for DSML.
Source: the chat templates.
"""

from __future__ import annotations

from extproc.dialects.buffer import Marks, Steps, TooMuch
from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.elements import ElementCalls, ElementGrammar
from extproc.dialects.forms.sections import SectionTokens, TokenSections
from extproc.dialects.parse_context import ParseContext

END_OF_SENTENCE = "<｜end▁of▁sentence｜>"

TOKENS = SectionTokens(
    sections=("<｜tool▁calls▁begin｜>", "<｜tool▁calls｜>", "<｜tool_calls_begin｜>", "<｜tool calls begin｜>"),
    section_ends=("<｜tool▁calls▁end｜>", "<｜tool_calls_end｜>", "<｜tool calls end｜>"),
    calls=("<｜tool▁call▁begin｜>", "<｜tool_call_begin｜>"),
    separators=("<｜tool▁sep｜>", "<｜tool_sep｜>"),
    call_ends=("<｜tool▁call▁end｜>", "<｜tool_call_end｜>"),
)
_FENCES = ("```json", "```JSON", "```")


class DeepSeekSections(TokenSections):
    """The header is a name, or the word `function` (Solar: an id) with the name after the separator."""

    def __init__(self, tokens: SectionTokens) -> None:
        super().__init__(tokens)
        self._name_ends = Marks([*tokens.structure, *tokens.separators, "\n", "\r", "{", "`"])

    def title(self, io: ParseContext, header: str) -> Steps[str]:
        buffer = io.buffer
        yield from buffer.space()
        if io.find_tool(header) is None:
            try:
                name, mark = yield from buffer.collect(self._name_ends, 256)
            except TooMuch:
                name, mark = "", ""
            if mark not in self.tokens.separators:
                buffer.push_back(mark)
            header = name.strip() or header
            yield from buffer.space()
        if (yield from buffer.literal(*_FENCES)):
            yield from buffer.space()
        return header


DEEPSEEK_SECTIONS = DeepSeekSections(TOKENS)

SOLAR_OPEN = SectionTokens(
    sections=("<|tool_calls|>",), section_ends=("<|calls|>",), calls=("<|tool_call:begin|>",),
    separators=("<|tool_call:name|>", "<|tool_call:args|>"), call_ends=("<|tool_call:end|>",))


WRAPPERS = ("function_calls", "tool_calls", "toolcalls", "tool", "calls")



def markup(mark: str) -> ElementCalls:
    """The parser of the markup language with this word in its tags."""
    return ElementCalls(ElementGrammar(
        open=(f"<｜{mark}｜", f"<|{mark}|"), close=(f"</｜{mark}｜", f"</|{mark}|"), tag_end=">",
        wrappers=frozenset(WRAPPERS), call="invoke", call_name="name", parameter="parameter", parameter_name="name",
        marks_string=("string", "true")))


def closing_tags(mark: str) -> tuple[str, ...]:
    """All closing tags. Outside a call they mean nothing."""
    return tuple(f"</{bar}{mark}{bar}{blank}{name}>" for bar in ("｜", "|") for blank in ("", " ")
                 for name in (*WRAPPERS, "invoke", "parameter"))


DSML = markup("DSML")


DIALECTS: tuple[Dialect, ...] = (
    *(Dialect(name=name, forms=(DEEPSEEK_SECTIONS,), strays=TOKENS.strays, turn_ends=(END_OF_SENTENCE,))
      for name in ("deepseek-v3", "deepseek-r1", "deepseek-v3.1")),
    Dialect(name="solar-open", forms=(DeepSeekSections(SOLAR_OPEN),), strays=SOLAR_OPEN.strays,
            think=(("<|think|>", "<|end|>"), ("<think>", "</think>")), think_anywhere=True,
            text_openers=("<|content|>",),
            template_tokens=("<|begin|>assistant",), turn_ends=("<|flush|>",)),
    *(Dialect(name=name, forms=(DSML,), strays=closing_tags("DSML"), turn_ends=(END_OF_SENTENCE,))
      for name in ("deepseek-v3.2", "deepseek-v4", "deepseek-v4.1")),
    Dialect(name="gigachat-3.5", forms=(markup("GCML"),), strays=closing_tags("GCML"),
            turn_ends=("</s>", "<|message_sep|>")),
)
