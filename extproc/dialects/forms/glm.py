"""GLM: `<tool_call>NAME<arg_key>KEY</arg_key><arg_value>text</arg_value>...</tool_call>`, one call per block.

GLM-4.5 and 4.6 write newlines between the tags, 4.7 and 5 none; both are read by one form. Values are verbatim.
Poolside Laguna writes the same and ends its turn with `</assistant>`. LongCat writes it with tags of its own, and at
times one JSON object behind the first `<longcat_arg_key>`. GLM falls back into Hermes JSON, so that is looked for as
well.
"""

from __future__ import annotations

from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.hermes import HERMES, LONGCAT
from extproc.dialects.forms.pairs import pairs

GLM = pairs("tool_call")
LONGCAT_PAIRS = pairs("tool_call", prefix="longcat_")

_ENDS = ("<|observation|>", "<|user|>", "<|endoftext|>", "</assistant>")

DIALECTS: tuple[Dialect, ...] = (
    *(Dialect(name=name, forms=(GLM, HERMES), ends=_ENDS) for name in ("glm-4.5", "glm-4.6", "glm-4.7")),
    Dialect(name="longcat", forms=(LONGCAT, LONGCAT_PAIRS), ends=("</longcat_s>",),
            think=(("<longcat_think>", "</longcat_think>"), ("<think>", "</think>"))),
)
