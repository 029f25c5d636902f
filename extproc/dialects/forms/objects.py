"""Call objects between tags or tokens, of families that differ in nothing but these and in what stands around the text.

Command R7B and A write `<|START_ACTION|>[{"tool_call_id": ..., "tool_name": ..., "parameters": {...}}]<|END_ACTION|>`,
and text between `<|START_RESPONSE|>` (later `<|START_TEXT|>`) and its end; Command R and R+ an array in a fence behind
`Action:`, where the tool `directly-answer` means that no tool is called. Both mark what a source supports.
Nemotron Nano 2: `<TOOLCALL>[...]</TOOLCALL>`. Hunyuan A13B, Apriel, Jamba: `<tool_calls>[...]</tool_calls>`, MiniMax M1
the same with one object a line. GigaChat 3: `function call<|role_sep|>` and one object, 3.1: `<|function_call|>`. ERNIE
4.5 writes Hermes' form, and its text in a `response` element, as Hunyuan does in `answer`.
Sources: the models' chat templates, and the parsers that vLLM and llama.cpp ship for them.
"""

from __future__ import annotations

import msgspec

from extproc.dialects.buffer import Steps
from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.hermes import HERMES, TaggedJson
from extproc.dialects.json.body import NAME_KEYS
from extproc.dialects.json.lenient import decode_json
from extproc.dialects.json.value import raw_value
from extproc.dialects.parse_context import NoMatch, ParseContext

_NO_TOOL = ("directly-answer", "directly_answer")
_MAX_SOURCES = 256
_FENCED_ACTION = tuple(f"Action:{gap}```{word}" for gap in (" ", "", "\n") for word in ("json", ""))


class Action(TaggedJson):
    """An array of calls, one of which may say that the model answers by itself."""

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        before = io.calls
        try:
            yield from super().read(opener, io)
        except NoMatch:
            if io.calls > before:
                raise
            io.buffer.rewind()
            yield from self._answer(io)

    def _answer(self, io: ParseContext) -> Steps[None]:
        """An array that calls no tool: text that it holds is the answer. Raises NotACall for anything else."""
        buffer = io.buffer
        yield from buffer.space()
        try:
            actions = decode_json((yield from raw_value(io)))
            objects = msgspec.convert(actions, list[dict[str, object]])
        except (ValueError, msgspec.ValidationError):
            raise NoMatch from None
        if not objects or not all(any(one.get(key) in _NO_TOOL for key in NAME_KEYS) for one in objects):
            raise NoMatch
        yield from self._close(io, "")
        buffer.commit()
        parameters = [value for one in objects for value in one.values() if isinstance(value, dict)]
        io.emit_text("\n".join(text for found in parameters for text in found.values() if isinstance(text, str)))


class Citation:
    """The marks around a span that a source supports, `<co>span</co: 0:[1,2]>` or `<co: 0>span</co: 0>`: dropped."""

    openers: tuple[str, ...] = ("<co>", "<co:", "</co:")
    inline = True

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        if opener != "<co>":
            yield from io.buffer.run(lambda char: char in " 0123456789:,[]", _MAX_SOURCES)
            if not (yield from io.buffer.literal(">")):
                raise NoMatch
        io.buffer.commit()


COMMAND_R = Action(_FENCED_ACTION[0], "```", *((opener, "```") for opener in _FENCED_ACTION[1:]))
COMMAND_A = TaggedJson("<|START_ACTION|>", "<|END_ACTION|>")
NEMOTRON = TaggedJson("<TOOLCALL>", "</TOOLCALL>")
TOOL_CALLS = TaggedJson("<tool_calls>", "</tool_calls>")
GIGACHAT = TaggedJson("<|function_call|>", "<|message_sep|>", ("function call<|role_sep|>", "<|message_sep|>"))

DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="command-a", forms=(COMMAND_A,), think=(("<|START_THINKING|>", "<|END_THINKING|>"),
                                                        ("<think>", "</think>")),
            answers=("<|START_RESPONSE|>", "<|START_TEXT|>"), noise=("<|END_RESPONSE|>", "<|END_TEXT|>"),
            ends=("<|END_OF_TURN_TOKEN|>",)),
    Dialect(name="command-r", frames=(Citation(),), forms=(COMMAND_R,), ends=("<|END_OF_TURN_TOKEN|>",),
            unambiguous=False),
    Dialect(name="nemotron", forms=(NEMOTRON,), ends=("<SPECIAL_12>", "<|eot_id|>")),
    Dialect(name="jamba", forms=(TOOL_CALLS,)),
    Dialect(name="minimax-m1", forms=(TOOL_CALLS,), ends=("<end_of_sentence>",)),
    Dialect(name="hunyuan-a13b", forms=(TOOL_CALLS,), wraps=(("<answer>", "</answer>"),), ends=("<|eos|>",)),
    Dialect(name="apriel", forms=(TOOL_CALLS,), think=(("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
                                                      ("<thinking>", "</thinking>"), ("<think>", "</think>")),
            ends=("[END FINAL RESPONSE]", "<|end|>"), unambiguous=False),
    Dialect(name="ernie-4.5", forms=(HERMES,), wraps=(("<response>", "</response>"),), ends=("</s>",)),
    Dialect(name="gigachat-3", forms=(GIGACHAT,), ends=("<|message_sep|>", "</s>")),
)
