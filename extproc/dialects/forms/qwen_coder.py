"""Qwen3-Coder XML: `<tool_call><function=NAME><parameter=KEY>text</parameter></function></tool_call>`.

Qwen3-Coder, Qwen3.5 and 3.6, Step 3.5. The outer tag is very often missing. A value loses exactly one newline at each
end, all other white space is data. `<function=NAME>{json}</function>`, with or without the outer tag, is the form of
custom tools of Llama 3.1 (Meta's prompt format page), and what damaged Qwen and Nemotron write.

Seed-OSS has the same body between tags of its own, but its template puts values straight behind the `>`: a newline at
the end of a value is framing only where one stands at its beginning as well.
"""

from __future__ import annotations

from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.hermes import HERMES
from extproc.dialects.forms.roo import make_line_forms
from extproc.dialects.headers import read_name, read_plain
from extproc.dialects.tags.body import Grammar, TaggedCall

QWEN_CODER = TaggedCall(Grammar(
    regions=(("<tool_call>", "</tool_call>"),), call="<function=", call_end="</function>", name=read_name,
    parameter="<parameter=", parameter_end="</parameter>", key=read_plain, framing="newline"))
SEED = TaggedCall(Grammar(
    regions=(("<seed:tool_call>", "</seed:tool_call>"), ("<tool_call>", "</tool_call>")),
    call="<function=", call_end="</function>", name=read_name,
    parameter="<parameter=", parameter_end="</parameter>", key=read_plain, framing="newlines"))

DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="qwen3-coder", forms=(QWEN_CODER, HERMES), makers=(make_line_forms,), ends=("<|im_end|>",)),
    Dialect(name="seed-oss", forms=(SEED,), ends=("<seed:eos>",),
            think=(("<seed:think>", "</seed:think>"), ("<think>", "</think>"))),
)
