"""MiniMax: M2 writes `<minimax:tool_call><invoke name="N"><parameter name="K">text</parameter></invoke>...`, with
attributes quoted or not, and sometimes without the outer tag; M3 writes nested elements (`minimax_elements.py`).
Other models write M2's invokes between tags of their own: dots `<dots_function_call>`, imitators of older Claudes
`<function_calls>`.
"""

from __future__ import annotations

from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.minimax_elements import PREFIX, NestedElements
from extproc.dialects.headers import read_attribute
from extproc.dialects.tags.body import Grammar, TaggedCall

MINIMAX_M2 = TaggedCall(Grammar(
    regions=(("<minimax:tool_call>", "</minimax:tool_call>"), ("<dots_function_call>", "</dots_function_call>"),
             ("<function_calls>", "</function_calls>")),
    call="<invoke name=", call_end="</invoke>", name=read_attribute,
    parameter="<parameter name=", parameter_end="</parameter>", key=read_attribute))
MINIMAX_M3 = NestedElements()

DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="minimax-m2", forms=(MINIMAX_M2,), ends=("[e~[",)),
    Dialect(name="minimax-m3", forms=(MINIMAX_M3,), noise=(PREFIX,), ends=("[e~[",),
            think=(("<mm:think>", "</mm:think>"), ("<think>", "</think>"))),
)
