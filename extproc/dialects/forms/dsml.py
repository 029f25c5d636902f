"""DeepSeek's markup language: V3.2, V4 and V4.1.

`<｜DSML｜function_calls>`, `<｜DSML｜invoke name="NAME">`, `<｜DSML｜parameter name="K" string="true">raw text
</｜DSML｜parameter>`, `</｜DSML｜invoke>`, `</｜DSML｜function_calls>`. `string="false"`, or no such attribute, means
JSON. V4 calls the wrapper `tool_calls`, with variants that occur in production, and lets a call without parameters
close itself; V4.1 puts a space before every tag name and calls the wrapper `calls`. The bars are U+FF5C; plain ones are
read as well. The block ends the turn by rule; text that follows all the same is content.

GigaChat 3.5 writes the same language, with GCML for DSML. Source: its chat template.
"""

from __future__ import annotations

from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.deepseek import END_OF_SENTENCE
from extproc.dialects.forms.elements import ElementCalls, Grammar

WRAPPERS = ("function_calls", "tool_calls", "toolcalls", "tool", "calls")



def markup(mark: str) -> ElementCalls:
    """The form of the language whose tags are marked like this."""
    return ElementCalls(Grammar(
        open=(f"<｜{mark}｜", f"<|{mark}|"), close=(f"</｜{mark}｜", f"</|{mark}|"), tag_end=">",
        wrappers=frozenset(WRAPPERS), call="invoke", call_name="name", parameter="parameter", parameter_name="name",
        marks_string=("string", "true")))


def closing_tags(mark: str) -> tuple[str, ...]:
    """All closing tags: left over where a call is, they mean nothing."""
    return tuple(f"</{bar}{mark}{bar}{blank}{name}>" for bar in ("｜", "|") for blank in ("", " ")
                 for name in (*WRAPPERS, "invoke", "parameter"))


DSML = markup("DSML")

DIALECTS: tuple[Dialect, ...] = (
    *(Dialect(name=name, forms=(DSML,), strays=closing_tags("DSML"), ends=(END_OF_SENTENCE,))
      for name in ("deepseek-v3.2", "deepseek-v4", "deepseek-v4.1")),
    Dialect(name="gigachat-3.5", forms=(markup("GCML"),), strays=closing_tags("GCML"),
            ends=("</s>", "<|message_sep|>")),
)
