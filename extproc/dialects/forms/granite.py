"""Granite 3 and 20B: arrays behind `<|tool_call|>` or `<tool_call>` without a closer; `<function_call>` and one object.

Granite 3.2 reasons between two sentences. The closing bracket ends the region; a marker that no bracket follows is
text. Granite 20B repeats its marker before each call. Granite 4 writes Hermes' form.
"""

from __future__ import annotations

from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.hermes import TaggedJson
from extproc.dialects.forms.lists import TaggedArray
from extproc.dialects.forms.opening import OpeningReasoning

_REASONING = OpeningReasoning(
    [f"Here{verb} my thought process:" for verb in (" is", "'s")],
    [f"Here{verb} my response:" for verb in (" is", "'s")], ["<|tool_call|>", "<tool_call>"])

DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="granite-3.0", forms=(TaggedArray(["<|tool_call|>"]),), spoken=(_REASONING,),
            ends=("<|end_of_text|>",)),
    Dialect(name="granite-3.1", forms=(TaggedArray(["<|tool_call|>", "<tool_call>"]),), spoken=(_REASONING,),
            ends=("<|end_of_text|>",)),
    Dialect(name="granite-20b-fc", forms=(TaggedJson("<function_call>", "</function_call>"),),
            ends=("<|endoftext|>",)),
)
