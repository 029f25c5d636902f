"""Step3: `<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="N"><steptml:parameter
name="K">text</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>`.

The bars are U+FF5C, the underscores plain. The word and the separator may be missing, and so may the tokens around an
invoke; a separator may stand between two calls. DeepSeek's models misspell their own tokens in this way, so this form
is tried before theirs and gives up where no invoke follows. The reasoning has no opening tag: the prompt holds it.
Source: the parsers that vLLM and SGLang ship for stepfun-ai/step3, and their tests.
"""

from __future__ import annotations

from extproc.dialects.dialect import Dialect
from extproc.dialects.headers import read_attribute
from extproc.dialects.tags.body import Grammar, TaggedCall

_CALL_END = "<｜tool_call_end｜>"
_SECTION_END = "<｜tool_calls_end｜>"

STEP3 = TaggedCall(Grammar(
    regions=(("<｜tool_calls_begin｜>", _SECTION_END), ("<｜tool_call_begin｜>", _CALL_END)),
    lead="function<｜tool_sep｜>",  # no part of an opener: the longest one counts, and DeepSeek's is the shorter
    call="<steptml:invoke name=", call_end="</steptml:invoke>", name=read_attribute,
    parameter="<steptml:parameter name=", parameter_end="</steptml:parameter>", key=read_attribute))

DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="step3", forms=(STEP3,), strays=(_CALL_END, "<｜tool_sep｜>", _SECTION_END)),
)
