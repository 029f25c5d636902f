"""Dialects whose calls are tags with plain text between them, one `TagGrammar` each.

- Qwen3-Coder, Qwen3.5 and 3.6, Step 3.5:
  `<tool_call><function=NAME><parameter=KEY>text</parameter></function></tool_call>`. The outer tag is very often
  missing. A value loses exactly one newline at each end; all other white space is data.
  `<function=NAME>{json}</function>` is the format of custom tools of Llama 3.1 (Meta's prompt format page) and of
  Functionary v3.1. Qwen and Nemotron write it by mistake.
- Seed-OSS: the same body between other tags. Its template puts values right after the `>`: a newline at the end of a
  value is framing only if there is one at its beginning.
- MiniMax M2: `<minimax:tool_call><invoke name="N"><parameter name="K">text</parameter></invoke>...`, attributes quoted
  or not, the outer tag sometimes missing. dots writes M2's invokes in `<dots_function_call>`, imitators of older Claude
  models in `<function_calls>`. MiniMax M3: `minimax_m3.py`.
- Step3: `<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="N"><steptml:parameter
  name="K">text </steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>` (bars U+FF5C, plain
  underscores). The word, the separator and the tokens around an invoke may be missing. DeepSeek's models misspell their
  tokens in the same way, so this parser is tried before theirs and finds no match without an invoke. The prompt opens
  the reasoning.
- GLM: `<tool_call>NAME<arg_key>KEY</arg_key><arg_value>text</arg_value>...</tool_call>`, one call per block. 4.5 and
  4.6 write newlines between the tags. GLM also falls back to Hermes JSON. Poolside Laguna: the same, `<user>` for
  `<tool_call>`, or a JSON object after the name. LongCat: other tags, sometimes one JSON object after the first
  `<longcat_arg_key>`.
- Hunyuan Hy3 and Hy4: `<tool_calls><tool_call>NAME<tool_sep><arg_key>K</arg_key><arg_value>text</arg_value></tool_call>
  </tool_calls>`. Hy4 omits `<tool_sep>`. A checkpoint may add a suffix to every tag (`<tool_call:opensource>`).
- IQuest: GLM's pairs in `<iquest_tool_call>` and `<iquestcoder_tool_call>`. K2 Horizon: `<ifm|tool_call>` with
  `<ifm|arg_key>`, an optional `<ifm|arg_type>`, and `<ifm|arg_value>`; the body may be a JSON object.
- Solar Open 2: `<|tool_call:start|>NAME` and a newline, then
  `<|tool_arg:start|>K<|tool_arg:value|>text<|tool_arg:end|>`. The first value of a repeated key counts; in all other
  dialects the last one.

Sources: the models' chat templates, and the parsers of vLLM, SGLang and ollama with their tests.
"""

from __future__ import annotations

from extproc.bounds import bounded_cache
from extproc.dialects.buffer import Marks, Steps, TextBuffer, TooMuch
from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.roo import make_line_forms
from extproc.dialects.forms.tagged_json import HERMES, LONGCAT, TaggedJson
from extproc.dialects.parse_context import EmptyBlock, NoMatch, ParseContext
from extproc.dialects.tags.body import ReadHeader, TaggedCall, TagGrammar
from extproc.dialects.tags.headers import MAX_NAME, read_attribute, read_name, read_plain
from extproc.dialects.tags.value import skip_newline

QWEN_CODER = TaggedCall(TagGrammar(
    regions=(("<tool_call>", "</tool_call>"),), call="<function=", call_end="</function>", name=read_name,
    parameter="<parameter=", parameter_end="</parameter>", key=read_plain, framing="newline"))
SEED = TaggedCall(TagGrammar(
    regions=(("<seed:tool_call>", "</seed:tool_call>"), ("<tool_call>", "</tool_call>")),
    call="<function=", call_end="</function>", name=read_name,
    parameter="<parameter=", parameter_end="</parameter>", key=read_plain, framing="newlines"))


MINIMAX_M2 = TaggedCall(TagGrammar(
    regions=(("<minimax:tool_call>", "</minimax:tool_call>"), ("<dots_function_call>", "</dots_function_call>"),
             ("<function_calls>", "</function_calls>")),
    call="<invoke name=", call_end="</invoke>", name=read_attribute,
    parameter="<parameter name=", parameter_end="</parameter>", key=read_attribute))


_STEP_CALL_END = "<｜tool_call_end｜>"
_STEP_SECTION_END = "<｜tool_calls_end｜>"

STEP3 = TaggedCall(TagGrammar(
    regions=(("<｜tool_calls_begin｜>", _STEP_SECTION_END), ("<｜tool_call_begin｜>", _STEP_CALL_END)),
    lead="function<｜tool_sep｜>",  # as part of an opener it would hide DeepSeek's shorter opener
    call="<steptml:invoke name=", call_end="</steptml:invoke>", name=read_attribute,
    parameter="<steptml:parameter name=", parameter_end="</steptml:parameter>", key=read_attribute))


def name_until_tag(separator: str = "") -> ReadHeader:
    """A reader of the word after an opening tag and the optional `separator` after it."""

    def read(buffer: TextBuffer) -> Steps[tuple[str | None, str]]:
        raw = yield from buffer.space()
        name = yield from buffer.take_while(lambda char: not char.isspace() and char not in "<{(", MAX_NAME)
        raw += name
        if separator:
            blank = yield from buffer.space()
            found = yield from buffer.literal(separator)
            if not found:
                buffer.push_back(blank)
            raw += blank + found if found else ""
        return name or None, raw

    return read


def key_until_value(key_end: str, value: str, others: tuple[str, ...],
                    kind: tuple[str, str] | None = None) -> ReadHeader:
    """A reader of a key and the tag `value` that opens its value. One of these tags may be missing if `key_end` is a
    tag. A key before one of `others` (tags that may follow a whole pair) has no value and does not count. `kind`: tags
    of an element between key and value with the value's type, which is ignored: the schema has it."""
    wanted = tuple(mark for mark in (key_end, value, *(kind or ())[:1]) if mark)
    ends = Marks([*wanted, *others, "\n", "\r"])

    def read(buffer: TextBuffer) -> Steps[tuple[str | None, str]]:
        try:
            key, mark = yield from buffer.collect(ends, MAX_NAME)
        except TooMuch:
            return None, ""
        buffer.push_back(mark)
        blank = yield from buffer.space()
        mark = yield from buffer.literal(*wanted)
        if not mark:
            buffer.push_back(blank)
            return None, key if not buffer.ran_out or buffer.clean else ""
        raw = key + blank + mark
        if mark == value:
            return key.strip() or None, raw
        if mark != key_end:
            buffer.push_back(mark)
            raw = key + blank
        blank = yield from buffer.space()
        if kind is not None and (yield from buffer.literal(kind[0])):
            text = yield from buffer.take_while(lambda char: char not in "<>\r\n", MAX_NAME)
            raw += blank + kind[0] + text + (yield from buffer.literal(kind[1]))
            blank = yield from buffer.space()
        if (yield from buffer.literal(value)):
            return key.strip() or None, raw + blank + value
        if buffer.broke_off and (buffer.ran_out or buffer.truncated_mark(ends)):
            buffer.at = len(buffer.buffer)
            return None, ""
        following = yield from buffer.literal(*others)
        buffer.push_back(blank + following)
        if following or mark != key_end:
            return None, raw
        raw += yield from skip_newline(buffer)  # the newline between the two tags
        return key.strip() or None, raw

    return read


def pairs(region: str, call: str | None = None, *, prefix: str = "", suffix: str = "", separator: str = "",
          typed: bool = False) -> TaggedCall:
    """A parser of calls in elements `region`, or in elements `call` inside it. `prefix` and `suffix`: parts of every
    tag. `separator`: an optional tag after the name."""

    def begin(tag: str) -> str:
        return f"<{prefix}{tag}{suffix}>"

    def end(tag: str) -> str:
        return f"</{prefix}{tag}{suffix}>"

    return TaggedCall(TagGrammar(
        regions=((begin(region), end(region)),), call=begin(call) if call else None, call_end=end(call or region),
        name=name_until_tag(begin(separator) if separator else ""), parameter=begin("arg_key"),
        parameter_end=end("arg_value"),
        key=key_until_value(end("arg_key"), begin("arg_value"), (begin("arg_key"), end(call or region), end(region)),
                            (begin("arg_type"), end("arg_type")) if typed else None)))


@bounded_cache(entries=32, longest=65)
def _hunyuan(suffix: str) -> TaggedCall:
    return pairs("tool_calls", "tool_call", suffix=suffix, separator="tool_sep")


class Suffixed:
    """Hunyuan's form with a suffix on every tag. The first tag shows the suffix."""

    openers: tuple[str, ...] = ("<tool_calls:", "<tool_call:")

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        suffix = yield from io.buffer.take_while(lambda char: char.isalnum() or char in "_-.", 64)
        if not suffix or not (yield from io.buffer.literal(">")):
            raise NoMatch
        blank = yield from io.buffer.space()
        if (yield from io.buffer.literal(f"</{opener[1:]}{suffix}>")):
            raise EmptyBlock
        io.buffer.push_back(blank)
        yield from _hunyuan(f":{suffix}").read(f"{opener}{suffix}>", io)


POOLSIDE = TaggedCall(TagGrammar(
    regions=(("<tool_call>", "</tool_call>"), ("<user>", "</user>")), call_end="</tool_call>", name=name_until_tag(),
    parameter="<arg_key>", parameter_end="</arg_value>",
    key=key_until_value("</arg_key>", "<arg_value>", ("<arg_key>", "</tool_call>", "</user>"))))

SOLAR_OPEN_2 = TaggedCall(TagGrammar(
    regions=(("<|tool_call:start|>", "<|tool_call:end|>"),), call_end="<|tool_call:end|>", name=name_until_tag(),
    parameter="<|tool_arg:start|>", parameter_end="<|tool_arg:end|>",
    key=key_until_value("", "<|tool_arg:value|>", ("<|tool_arg:start|>", "<|tool_call:end|>")),
    first_wins=True))

_HY_ENDS = tuple(f"<｜hy_{token}{suffix}｜>" for token in ("eos", "user") for suffix in (":opensource", ""))


GLM = pairs("tool_call")
LONGCAT_PAIRS = pairs("tool_call", prefix="longcat_")

_GLM_ENDS = ("<|observation|>", "<|user|>", "<|endoftext|>", "</assistant>")


DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="qwen3-coder", forms=(QWEN_CODER, HERMES), factories=(make_line_forms,), turn_ends=("<|im_end|>",)),
    Dialect(name="seed-oss", forms=(SEED,), turn_ends=("<seed:eos>",),
            think=(("<seed:think>", "</seed:think>"), ("<think>", "</think>"))),
    *(Dialect(name=name, forms=(GLM, HERMES), turn_ends=_GLM_ENDS) for name in ("glm-4.5", "glm-4.6", "glm-4.7")),
    Dialect(name="longcat", forms=(LONGCAT, LONGCAT_PAIRS), turn_ends=("</longcat_s>",),
            think=(("<longcat_think>", "</longcat_think>"), ("<think>", "</think>"))),
    Dialect(name="minimax-m2", forms=(MINIMAX_M2,), turn_ends=("[e~[",)),
    Dialect(name="step3", forms=(STEP3,), strays=(_STEP_CALL_END, "<｜tool_sep｜>", _STEP_SECTION_END)),
)

LATER_DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="hy3", forms=(_hunyuan(""), Suffixed()), turn_ends=_HY_ENDS,
            think=(("<think>", "</think>"), ("<think:opensource>", "</think:opensource>"))),
    Dialect(name="iquest", forms=(pairs("iquest_tool_call"), pairs("iquestcoder_tool_call")),
            turn_ends=("<|im_end|>",)),
    Dialect(name="k2-horizon", turn_ends=("<|im_end|>", "<|ifm|end|>"),
            forms=(pairs("tool_calls", "tool_call", prefix="ifm|", typed=True),
                   TaggedJson("<ifm|tool_call>", "</ifm|tool_call>", ("<ifm|tool_calls>", "</ifm|tool_calls>"))),
            think=tuple((f"<ifm|{kind}>", f"</ifm|{kind}>") for kind in ("think", "think_fast", "think_faster"))),
    Dialect(name="solar-open-2", forms=(SOLAR_OPEN_2,), turn_ends=("<|im:end|>", "<|im_end|>"),
            think=(("<|think:start|>", "<|think:end|>"), ("<think>", "</think>"))),
    Dialect(name="functionary-v3.1", forms=(QWEN_CODER,),
            turn_ends=("<|eot_id|>", "<|eom_id|>")),
    Dialect(name="poolside", forms=(POOLSIDE,), turn_ends=("</assistant>",), unambiguous=False),
)
