"""Qwen3-Coder XML: `<tool_call><function=NAME><parameter=KEY>text</parameter></function></tool_call>`.

Qwen3-Coder, Qwen3.5 and 3.6, Step 3.5; Seed-OSS has the same body between tags of its own. The outer tag is very often
missing. A value loses exactly one newline at each end, all other white space is data.
"""

from __future__ import annotations

from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.hermes import HERMES
from extproc.dialects.headers import read_plain
from extproc.dialects.xmlbody import Grammar, TaggedCall

QWEN_CODER = TaggedCall(Grammar(
    regions=(("<tool_call>", "</tool_call>"), ("<seed:tool_call>", "</seed:tool_call>")),
    call="<function=", call_end="</function>", name=read_plain,
    parameter="<parameter=", parameter_end="</parameter>", key=read_plain, framing="newline"))

DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="qwen3-coder", forms=(QWEN_CODER, HERMES), ends=("<|im_end|>",)),
    Dialect(name="seed-oss", forms=(QWEN_CODER,), ends=("<seed:eos>",),
            think=(("<seed:think>", "</seed:think>"), ("<think>", "</think>"))),
)
