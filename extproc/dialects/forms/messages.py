"""Responses made of messages whose header names the recipient: the user, the model itself (reasoning), or a tool.

Muse Glimmer (ATEM): ` to=self<|message|>...<|eom|>`, `<|start|>assistant to=user<|message|>...<|eot|>`, and calls as
`<|start|>assistant to=NAME<|message|><atem:function_calls><atem:invoke name="NAME"><atem:parameter name="K">value`.
Functionary v2: `<|from|>assistant\\n<|recipient|>NAME\\n<|content|>{...}`, v3.2: `>>>NAME\\n{...}`, both with the
recipient `all` for text. Inkling: `<|message_model|>NAME<|content_invoke_tool_json|>{"name": ..., "args": {...}}
<|end_message|>`, with other tokens for text and reasoning.

The prompt contains the beginning of the first header, so a response begins inside one. An invalid header is text. A
message to a tool that is not offered is text as a whole. Sources: the models' chat templates and the parsers of vLLM,
SGLang and llama.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from string import ascii_letters
from typing import Literal

import msgspec

from extproc.dialects.buffer import Marks, Steps, discard
from extproc.dialects.dialect import Dialect
from extproc.dialects.json.body import read_arguments, read_call
from extproc.dialects.parse_context import NoMatch, ParseContext, PlainText
from extproc.dialects.tags.body import TaggedCall, TagGrammar
from extproc.dialects.tags.headers import read_attribute
from extproc.dialects.text_marks import read_turn_end

_MAX_HEADER = 256
_MAX_WAIT = 1024
"""Most white space after a token that may end a message."""

Body = Literal["addressed", "text", "reasoning", "call"]
"""The content of a message. "addressed": the recipient decides. A "call" body is an object with the tool's name."""


class MessageGrammar(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of one family."""

    openers: tuple[str, ...]
    """The beginning of a message that is not the first."""
    header: re.Pattern[str]
    """Matches a header between its opener and the mark that ends it. The group `to` is the recipient."""
    bodies: dict[str, Body]
    """The marks that end a header, each with the content after it."""
    text: frozenset[str] = frozenset()
    """Recipients of visible text. A message without a recipient is text as well."""
    reasoning: frozenset[str] = frozenset()
    ends: tuple[str, ...]
    """Tokens that end a message."""
    calls: TaggedCall | None = None
    """Reads the calls; None if the message is the JSON of the arguments."""


class AddressedMessage:
    """Reads a message."""

    def __init__(self, family: MessageGrammar) -> None:
        self.openers: tuple[str, ...] = family.openers
        self._family = family
        self._header_ends = Marks([*family.bodies, *family.openers, *(end for end in family.ends if end != "\n")])
        self._next = (*family.openers, *(family.bodies if len(family.bodies) > 1 else ()))
        """The beginning of the next message. If each kind of message has a token, the header may be missing."""
        self._ends = Marks([*family.ends, *self._next])

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        yield from self._message(io)

    def _message(self, io: ParseContext, begun: str = "") -> Steps[None]:
        to, body = yield from self._header(io, begun)
        if body == "text":
            io.buffer.commit()
            if self._family.calls is not None:  # markup of calls in it is text
                yield from self._text(io)
        elif body == "reasoning":
            io.buffer.commit()
            io.begin_thinking()
            yield from self._until_end(io, io.emit_thinking)
        else:
            yield from self._call(io, to)

    def _header(self, io: ParseContext, begun: str = "") -> Steps[tuple[str, Body]]:
        """Reads the header: (recipient, content). `begun`: the consumed beginning of the header, or the consumed mark
        that ends an empty header. Raises NoMatch for anything but a header."""
        family, pieces = self._family, [begun]

        def keep(piece: str) -> None:
            pieces.append(piece)
            if sum(map(len, pieces)) > _MAX_HEADER:
                raise NoMatch

        if begun in family.bodies:
            mark = pieces.pop()
        else:
            mark = yield from io.buffer.until(self._header_ends, keep)
        found = family.header.fullmatch("".join(pieces))
        if found is None or mark not in family.bodies:
            raise NoMatch
        to, body = found["to"] or "", family.bodies[mark]
        if body == "addressed":
            body = "reasoning" if to in family.reasoning else "text" if not to or to in family.text else "call"
        return to, body

    def _until_end(self, io: ParseContext, out: Callable[[str], None]) -> Steps[None]:
        """Passes a message to `out`, through its closing token or up to the next message."""
        mark = yield from io.buffer.until(self._ends, out)
        if mark in self._next:
            io.buffer.push_back(mark)

    def _text(self, io: ParseContext) -> Steps[None]:
        """Reads visible text. A closing token before more text is text."""
        ends, buffer = self._family.ends, io.buffer
        while True:
            mark = yield from buffer.until(self._ends, io.emit_text)
            if mark not in ends:
                buffer.push_back(mark)
                return
            shown = yield from read_turn_end(buffer, mark, ends, self._next, _MAX_WAIT)
            if not shown:
                return
            io.emit_text(shown)

    def _call(self, io: ParseContext, to: str) -> Steps[None]:
        """Reads a message to a tool, through its closing token. All of it is text if it calls no offered tool."""
        buffer, family, before = io.buffer, self._family, io.calls
        yield from buffer.space()
        if family.calls is None and to and "call" not in family.bodies.values():
            yield from self._arguments(io, to)
        else:
            opener = ""
            if family.calls is not None and not (opener := (yield from buffer.literal(*family.calls.openers))):
                raise NoMatch
            try:
                yield from family.calls.read(opener, io) if family.calls is not None else read_call(io, self._ends)
            except NoMatch:
                if io.calls == before:
                    yield from self._until_end(io, discard)
                    raise PlainText from None
        blank = yield from buffer.space(_MAX_WAIT)
        if not (yield from buffer.literal(*family.ends)):
            buffer.push_back(blank)

    def _arguments(self, io: ParseContext, to: str) -> Steps[None]:
        """Reads arguments as JSON. Other text is the value of a tool's only parameter, for example the code to run."""
        buffer = io.buffer
        name = io.find_tool(to)
        if name is None:
            raise NoMatch
        first = yield from buffer.peek()
        if first in ("{", '"'):
            writer = io.begin_call(name)
            if (yield from read_arguments(io, writer, self._ends)):
                writer.close()
            return
        declared = list(io.shape(name).parameters)
        if not first or len(declared) != 1 or not io.shape(name).parameters[declared[0]].streams:
            raise NoMatch
        writer = io.begin_call(name)
        writer.begin_string(declared[0])
        mark = yield from buffer.until(self._ends, writer.write_piece)
        if mark:  # without a mark the text may be incomplete, and half a program must not run
            buffer.push_back(mark)
            writer.end_string()
            writer.close()


class FirstAddressedMessage(AddressedMessage):
    """Reads the first message of a response. `begins`: the words or letters that may begin its header. If any letter
    may, the first word is the recipient."""

    def __init__(self, family: MessageGrammar, begins: tuple[str, ...]) -> None:
        super().__init__(family)
        self.openers = begins

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        begun = opener
        if len(opener) == 1:
            begun += yield from buffer.take_while(lambda char: char.isalnum() or char in "_-.:/", _MAX_HEADER)
            if begun not in self._family.text and begun not in self._family.reasoning and io.find_tool(begun) is None:
                buffer.rewind()
                raise NoMatch
        try:
            yield from self._message(io, begun)
        except PlainText:
            raise
        except NoMatch:
            if len(opener) == 1:  # a word alone is no part of a call, even if the response was cut off after it
                buffer.rewind()
            raise


ATEM = TaggedCall(TagGrammar(
    regions=(("<atem:function_calls>", "</atem:function_calls>"),),
    call="<atem:invoke name=", call_end="</atem:invoke>", name=read_attribute,
    parameter="<atem:parameter name=", parameter_end="</atem:parameter>", key=read_attribute))

MUSE = MessageGrammar(
    openers=("<|start|>",), header=re.compile(r"\s*(?:assistant)?\s*(?:to=(?P<to>[\w.:/-]+))?\s*"),
    bodies={"<|message|>": "addressed"}, text=frozenset({"user"}), reasoning=frozenset({"self"}),
    ends=("<|eom|>", "<|eot|>"), calls=ATEM)

FUNCTIONARY_2 = MessageGrammar(
    openers=("<|from|>assistant\n<|recipient|>", "<|recipient|>"), header=re.compile(r"\s*(?P<to>[\w.:/-]+)\s*"),
    bodies={"<|content|>": "addressed"}, text=frozenset({"all"}), ends=("<|stop|>",))

FUNCTIONARY_3 = MessageGrammar(
    openers=(">>>",), header=re.compile(r"(?P<to>[\w.:/-]+)"), bodies={"\n": "addressed"}, text=frozenset({"all"}),
    ends=("<|eot_id|>", "<|eom_id|>"))

INKLING = MessageGrammar(
    openers=("<|message_model|>",), header=re.compile(r"\s*(?P<to>[^\s<]*)\s*"),
    bodies={"<|content_text|>": "text", "<|content_thinking|>": "reasoning", "<|content_invoke_tool_json|>": "call"},
    ends=("<|end_message|>",))

_WORD = (*ascii_letters, "_")

DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="muse-glimmer", frames=(AddressedMessage(MUSE),), forms=(ATEM,),
            opening_frames=(FirstAddressedMessage(MUSE, ("to=", "assistant to=", "<|message|>")),),
            turn_ends=MUSE.ends),
    Dialect(name="functionary-v2", frames=(AddressedMessage(FUNCTIONARY_2),),
            opening_frames=(FirstAddressedMessage(FUNCTIONARY_2, _WORD),), turn_ends=FUNCTIONARY_2.ends,
            unambiguous=False),
    Dialect(name="functionary-v3.2", frames=(AddressedMessage(FUNCTIONARY_3),),
            opening_frames=(FirstAddressedMessage(FUNCTIONARY_3, _WORD),), turn_ends=FUNCTIONARY_3.ends,
            unambiguous=False),
    Dialect(name="inkling", frames=(AddressedMessage(INKLING), FirstAddressedMessage(INKLING, tuple(INKLING.bodies))),
            opening_forms=(FirstAddressedMessage(INKLING, _WORD),),
            think=(("<|content_thinking|>", "<|end_message|>"), ("<think>", "</think>")),
            text_openers=("<|content_text|>",), template_tokens=INKLING.ends,
            turn_ends=("<|content_model_end_sampling|>",)),
)
