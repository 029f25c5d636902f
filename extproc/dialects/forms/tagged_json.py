"""Call objects, or arrays of them, between tags or tokens: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.

- Hermes 2 Pro to 4, Qwen2.5, QwQ, Qwen3, Granite 4, ERNIE 4.5: `<tool_call>`. LongCat and LM Studio's default have the
  same body between other tags. Several calls are several blocks, or an array in one block.
- xLAM: the bare array at the start of the response, in a code fence, or in the tags of other families (see
  `bare_json.py`). Phi-4-mini: `functools[...]`, at times with one object in place of the array.
- Apertus: `<|tools_prefix|>[{"NAME": {...}}]<|tools_suffix|>`, with the name as the key of the arguments.
- Granite 3: arrays after `<|tool_call|>` or `<tool_call>`, without a closing tag. Granite 20B: one object after each
  `<function_call>`. Granite 3.2 reasons between two sentences.
- Command R7B and A: `<|START_ACTION|>[{"tool_name": ..., "parameters": {...}}]<|END_ACTION|>`. Command R and R+: an
  array in a fence after `Action:`; the tool `directly-answer` means that no tool is called. Both mark cited spans.
- Nemotron Nano 2: `<TOOLCALL>[...]</TOOLCALL>`. Hunyuan A13B, Apriel, Jamba: `<tool_calls>[...]</tool_calls>`. MiniMax
  M1: the same with one object per line. GigaChat 3: `function call<|role_sep|>` and one object; 3.1:
  `<|function_call|>`.
- InternLM2: `<|action_start|><|plugin|>{...}<|action_end|>`.

The closing tag may be missing. Text after a region is content. A region without a call of an offered tool is text.
Sources: the models' chat templates and the parsers of vLLM and llama.cpp.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from extproc.dialects.buffer import Marks, Steps
from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.opening_reasoning import OpeningReasoning
from extproc.dialects.forms.roo import make_line_forms
from extproc.dialects.json.body import NAME_KEYS, ReadCall, read_array, read_call, read_keyed_call
from extproc.dialects.json.lenient import decode_json
from extproc.dialects.json.value import raw_value
from extproc.dialects.parse_context import NoMatch, ParseContext


class TaggedJson:
    """Reads call objects, or an array of them, between an opener and a closer. `others`: further pairs, or pairs of
    tags around several of these regions."""

    def __init__(self, opener: str, closer: str, *others: tuple[str, str]) -> None:
        pairs = ((opener, closer), *others)
        self.openers: tuple[str, ...] = tuple(dict.fromkeys(begin for begin, _ in pairs))
        self.blocks = pairs
        self._closers = tuple(dict.fromkeys(end for _, end in pairs))
        self._ends = Marks([*self._closers, *self.openers])

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        yield from buffer.space()
        if (yield from buffer.literal(*self.openers)):  # models double the tags
            yield from buffer.space()
        fenced = yield from buffer.literal("```json", "```")
        yield from buffer.space()
        first = yield from buffer.peek()
        if first == "[":
            buffer.at += 1
            yield from read_array(io, self._ends)
        else:
            yield from read_call(io, self._ends)
        yield from self._more(io)
        yield from self._close(io, fenced)

    def _more(self, io: ParseContext) -> Steps[None]:
        """Reads further call objects in the same tags, also after stray brackets."""
        buffer = io.buffer
        while True:
            buffer.mark()
            yield from buffer.space()
            while (yield from buffer.literal("}", "]")):
                yield from buffer.space()
                buffer.commit()
                buffer.mark()
            yield from buffer.literal(",", ";")
            yield from buffer.space()
            try:
                yield from read_call(io, self._ends)
            except NoMatch:
                buffer.rewind()
                buffer.commit()
                if not (yield from self._skips(io)):
                    return

    def _skips(self, io: ParseContext) -> Steps[bool]:
        """Passes an object that is no call of an offered tool as text if a further object follows. False: none does."""
        buffer = io.buffer
        buffer.mark()
        blank = yield from buffer.space()
        raw = ""
        if (yield from buffer.peek()) == "{":
            raw = yield from raw_value(io, self._ends)
            yield from buffer.space()
        if not raw or (yield from buffer.peek()) != "{":
            buffer.rewind()
            buffer.commit()
            return False
        buffer.commit()
        io.emit_text(blank + raw)
        return True

    def _close(self, io: ParseContext, fenced: str) -> Steps[None]:
        """Skips repeated closing tags."""
        buffer = io.buffer
        if fenced:
            blank = yield from buffer.space()
            if not (yield from buffer.literal("```")):
                buffer.push_back(blank)
        blank = yield from buffer.skip(*self._closers)
        buffer.drop_truncated_mark(self._ends)
        buffer.push_back(blank)


HERMES = TaggedJson("<tool_call>", "</tool_call>")
LONGCAT = TaggedJson("<longcat_tool_call>", "</longcat_tool_call>")
LM_STUDIO = TaggedJson("[TOOL_REQUEST]", "[END_TOOL_REQUEST]")


class TaggedArray:
    """An array of calls between one of several openers and its closer, if it has one. An opener that ends with the
    bracket has begun the array; one that ends with a brace has begun a single call object."""

    def __init__(self, openers: Iterable[str], closer: str = "", *, single: bool = False,
                 read: ReadCall = read_call) -> None:
        self.openers: tuple[str, ...] = tuple(openers)
        marks = [opener for opener in self.openers if opener[0] not in "[`"]
        self.blocks = tuple((opener, _CLOSING.get(opener[-1]) or closer or "[]") for opener in marks)
        self._closer = closer
        self._single = single
        self._read = read
        self._stop = Marks([*([closer] if closer else []), *(o for o in self.openers if len(o) > 1)])

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        if opener.endswith("{"):
            yield from read_call(io, self._stop, needs_arguments=True, opened=True)
            return
        if not opener.endswith("["):
            yield from buffer.space()
            mark = yield from buffer.peek()
            if mark == "{" and self._single:
                yield from read_call(io, self._stop, needs_arguments=True)
                yield from self._close(io)
                return
            if mark != "[":
                raise NoMatch
            buffer.at += 1
        yield from read_array(io, self._stop, self._read)
        yield from self._close(io)

    def _close(self, io: ParseContext) -> Steps[None]:
        if not self._closer:
            return
        yield from io.buffer.space()
        yield from io.buffer.literal(self._closer)


_CLOSING = {"[": "]", "{": "}"}


_GRANITE_REASONING = OpeningReasoning(
    [f"Here{verb} my thought process:" for verb in (" is", "'s")],
    [f"Here{verb} my response:" for verb in (" is", "'s")], ["<|tool_call|>", "<tool_call>"])


_NO_TOOL = ("directly-answer", "directly_answer")
_MAX_SOURCES = 256
_FENCED_ACTION = tuple(f"Action:{gap}```{word}" for gap in (" ", "", "\n") for word in ("json", ""))


class CommandRAction(TaggedJson):
    """An array of calls. A pseudo-tool means that the model responds without calling a tool."""

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        before = io.calls
        try:
            yield from super().read(opener, io)
        except NoMatch:
            if io.calls > before:
                raise
            io.buffer.rewind()
            yield from self._read_direct_response(io)

    def _read_direct_response(self, io: ParseContext) -> Steps[None]:
        """Reads an array that only names the pseudo-tool; its texts are the response. Raises NoMatch for anything
        else."""
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
    """Drops the marks around a cited span: `<co>span</co: 0:[1,2]>` or `<co: 0>span</co: 0>`."""

    openers: tuple[str, ...] = ("<co>", "<co:", "</co:")
    inline = True

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        if opener != "<co>":
            yield from io.buffer.take_while(lambda char: char in " 0123456789:,[]", _MAX_SOURCES)
            if not (yield from io.buffer.literal(">")):
                raise NoMatch
        io.buffer.commit()


COMMAND_R = CommandRAction(_FENCED_ACTION[0], "```", *((opener, "```") for opener in _FENCED_ACTION[1:]))
COMMAND_A = TaggedJson("<|START_ACTION|>", "<|END_ACTION|>")
NEMOTRON = TaggedJson("<TOOLCALL>", "</TOOLCALL>")
PLAIN_TOOL_CALLS = TaggedJson("<tool_calls>", "</tool_calls>")
GIGACHAT = TaggedJson("<|function_call|>", "<|message_sep|>", ("function call<|role_sep|>", "<|message_sep|>"))


_PLUGIN_STOP = Marks(["<|action_end|>", "<|action_start|>"])


class PluginAction:
    """One call object after two markers, which may be separated by white space."""

    openers: tuple[str, ...] = ("<|action_start|>",)
    blocks = (("<|action_start|>", "<|action_end|>"), ("<|action_start|>", "<|plugin|><|action_end|>"))

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        yield from buffer.space()
        if not (yield from buffer.literal("<|plugin|>")):
            raise NoMatch
        yield from buffer.space()
        yield from read_call(io, _PLUGIN_STOP)
        while True:
            yield from buffer.space()
            if not (yield from buffer.literal("}")):
                break
        yield from buffer.literal("<|action_end|>")


DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="hermes", forms=(HERMES,), turn_ends=("<|im_end|>",)),
    Dialect(name="qwen3-hermes", forms=(HERMES,), factories=(make_line_forms,), turn_ends=("<|im_end|>",)),
    Dialect(name="granite4", forms=(HERMES,), turn_ends=("<|end_of_text|>",)),
    Dialect(name="lmstudio-default", forms=(LM_STUDIO,)),
)

LATER_DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="granite-3.0", forms=(TaggedArray(["<|tool_call|>"]),), opening_reasoning=(_GRANITE_REASONING,),
            turn_ends=("<|end_of_text|>",)),
    Dialect(name="granite-3.1", forms=(TaggedArray(["<|tool_call|>", "<tool_call>"]),),
            opening_reasoning=(_GRANITE_REASONING,),
            turn_ends=("<|end_of_text|>",)),
    Dialect(name="granite-20b-fc", forms=(TaggedJson("<function_call>", "</function_call>"),),
            turn_ends=("<|endoftext|>",)),
    Dialect(name="phi-4-mini",
            forms=(TaggedArray(["functools[", "functools{"]), TaggedArray(["<|tool_call|>"], "<|/tool_call|>")),
            turn_ends=("<|end|>",)),
    Dialect(name="apertus", forms=(TaggedArray(["<|tools_prefix|>"], "<|tools_suffix|>", read=read_keyed_call),),
            think=(("<|inner_prefix|>", "<|inner_suffix|>"), ("<think>", "</think>")), strays=("<|tools_suffix|>",),
            turn_ends=("<|assistant_end|>",)),
    Dialect(name="command-a", forms=(COMMAND_A,), think=(("<|START_THINKING|>", "<|END_THINKING|>"),
                                                        ("<think>", "</think>")),
            text_openers=("<|START_RESPONSE|>", "<|START_TEXT|>"), template_tokens=("<|END_RESPONSE|>", "<|END_TEXT|>"),
            turn_ends=("<|END_OF_TURN_TOKEN|>",)),
    Dialect(name="command-r", frames=(Citation(),), forms=(COMMAND_R,), turn_ends=("<|END_OF_TURN_TOKEN|>",),
            unambiguous=False),
    Dialect(name="nemotron", forms=(NEMOTRON,), turn_ends=("<SPECIAL_12>", "<|eot_id|>")),
    Dialect(name="jamba", forms=(PLAIN_TOOL_CALLS,)),
    Dialect(name="minimax-m1", forms=(PLAIN_TOOL_CALLS,), turn_ends=("<end_of_sentence>",)),
    Dialect(name="hunyuan-a13b", forms=(PLAIN_TOOL_CALLS,), text_tags=(("<answer>", "</answer>"),),
            turn_ends=("<|eos|>",)),
    Dialect(name="apriel", forms=(PLAIN_TOOL_CALLS,), think=(("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
                                                      ("<thinking>", "</thinking>"), ("<think>", "</think>")),
            turn_ends=("[END FINAL RESPONSE]", "<|end|>"), unambiguous=False),
    Dialect(name="ernie-4.5", forms=(HERMES,), text_tags=(("<response>", "</response>"),), turn_ends=("</s>",)),
    Dialect(name="gigachat-3", forms=(GIGACHAT,), turn_ends=("<|message_sep|>", "</s>")),
    Dialect(name="internlm2", forms=(PluginAction(),), turn_ends=("<|im_end|>",)),
)
