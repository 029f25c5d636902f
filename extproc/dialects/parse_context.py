"""What a reader of a dialect gets to work with, and the calls it makes.

A *form* reads one way of writing calls. It begins right behind its opener, under a hold. Until it has called
`ParseContext.call` it may raise `NoMatch`: everything since the opener is text then. From the first call on it is
committed.
`CallWriter` turns a call's parameters into the JSON text of its arguments and sends it as far as it is certain.
Nothing here knows markers or wire formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from extproc.bounds import TOOL_ARGUMENTS
from extproc.conversation.call_counts import CallCounts, CallTally
from extproc.conversation.model import Tool
from extproc.conversation.pending_call import JsonBalance, PendingCall, Place
from extproc.conversation.sequencer import BlockSequencer
from extproc.dialects.buffer import Steps, TextBuffer
from extproc.dialects.coercion import Parameter, ToolShape, coerce_text, coerce_value, parameter, tool_shape
from extproc.dialects.json.lenient import decode_json
from extproc.dialects.json.repair import problems, read_object
from extproc.errors import Failure

_encode = msgspec.json.Encoder().encode

MAX_VALUE = TOOL_ARGUMENTS
"""Characters of one value that are collected before it can be sent."""

LOOK_AHEAD = 1024 * 1024
"""Characters of one answer that may be read twice to tell markup that is data from markup that counts."""

_MAX_BLANK = 1024
"""White space at the beginning of a string that waits for what follows it."""

ArgumentsMode = Literal["as-is", "repair", "strict"]


class Repair(msgspec.Struct, frozen=True):
    """Something that was wrong with a call and was put right: the tool ("" where it is not known), the place in its
    arguments ("$" is the whole of them), and what it was."""

    tool: str
    path: str
    reason: str


LeftOut = Literal["skipped_call", "dropped_call"]
"""Why a call does not go out: no offered tool is meant; not even that could be read."""


class NoMatch(Exception):  # noqa: N818
    """What looked like a call is text."""


class PlainText(NoMatch):
    """All that was consumed since the opener is text and is not looked at again (a whole region that calls a tool
    which is not offered, say: none of its marks is dropped)."""


class EmptyBlock(NoMatch):
    """What was consumed since the opener is a block that holds no call: it is dropped."""


class ToolCallParser(Protocol):
    """One way of writing calls. `openers`: the marks it begins with; several forms may share one. A form with `inline`
    reads marks inside a text, no calls: a reasoning goes on behind it.

    A form may also have `blocks`, pairs of an opener and the token that closes it: the scanner drops blocks that hold
    nothing. Behind a call it also drops these tokens, and the further `closers` of a form, however many there are."""

    openers: tuple[str, ...]

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        """Reads from behind the opener to the end of the region. May raise NotACall before its first call."""


ParserFactory = Callable[[Sequence[str]], tuple[ToolCallParser, ...]]
"""Makes the forms that depend on the names of the tools that are offered."""


class ParseContext:
    """One answer as a form sees it: the tape, the tools, and where calls go."""

    def __init__(self, buffer: TextBuffer, sequencer: BlockSequencer, tools: Mapping[str, Tool],
                 mode: ArgumentsMode = "repair", tally: CallTally | None = None) -> None:
        self.buffer = buffer
        self.dialect: Callable[[], str] = lambda: "other"
        """The name of the dialect whose form reads."""
        self.mode: ArgumentsMode = mode
        self.calls = 0
        self.look_ahead = LOOK_AHEAD
        self.at_line_start = True
        """Nothing but white space stands before the opener on its line."""
        self.repairs: list[Repair] = []
        self.emit_text: Callable[[str], None] = sequencer.text
        self.begin_thinking: Callable[[], None] = lambda: None
        """A piece of reasoning begins: a line of its own."""
        self.emit_thinking: Callable[[str], None] = sequencer.thinking
        self.before_call: Callable[[], None] = lambda: None
        self.call_over: Callable[[str, int], None] = lambda text, at: None
        """Called when a call is closed, with the text at hand and where what follows the call begins in it."""
        self.place: Place = "text"
        """Where the calls stand that are read."""
        self._sequencer = sequencer
        self._tools = tools
        self._tally = tally or CallTally()
        self._writer: CallWriter | None = None
        """Of the call that has begun last."""

    def offered(self, name: str) -> str | None:
        """The offered tool that `name` means, also with the namespace some models put before it; None: no such."""
        if name in self._tools:
            return name
        plain = name.removeprefix("functions.")
        space, dot, inner = plain.partition(".")
        if dot and space == inner:  # a prompt that shows each tool as a namespace
            plain = inner
        if plain in self._tools:
            return plain
        # the provider's name may be a spelling that its API takes; the model may know the client's own
        return next((key for key, tool in self._tools.items() if tool.name in (name, plain)), None)

    def note(self, reason: str, tool: str = "", path: str = "$") -> None:
        """Notes a repair."""
        self.repairs.append(Repair(tool, path, reason))

    def left_out(self, reason: LeftOut) -> None:
        """Notes a call that does not go out."""
        self.note(reason)
        if not self.buffer.broke_off:
            self.call_over(self.buffer.buffer, self.buffer.at)
        counts = self.counts
        counts.total += 1
        if reason == "skipped_call":
            counts.unoffered += 1
            if self.mode == "strict":
                counts.refused += 1
                self._sequencer.fail(Failure("server", "The model called a tool that the request does not offer."))
        else:
            counts.unreadable += 1

    @property
    def counts(self) -> CallCounts:
        """Of the dialect that is read."""
        return self._tally.of(self.dialect())

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._tools

    def call(self, name: str) -> CallWriter:
        """A call begins for certain; the hold ends. Raises NotACall when no such tool is offered."""
        known = self.offered(name)
        if known is None:
            raise NoMatch
        self.settle()
        self.buffer.commit()
        self.before_call()
        self.calls += 1
        self.counts.total += 1
        self.buffer.in_call = True
        self._writer = writer = CallWriter(self, self._sequencer, known, tool_shape(self._tools[known].schema))
        return writer

    def settle(self) -> None:
        """The form is done with the call that it began last. One that it did not close is complete only where nothing
        but closing markup is missing."""
        writer, self._writer = self._writer, None
        if writer is not None and not writer.closed:
            writer.settle()
        self.buffer.in_call = False

    def shape(self, name: str) -> ToolShape:
        return tool_shape(self._tools[name].schema)


class CallWriter:
    """The arguments of one call, parameter by parameter. Strings of string parameters may go out in pieces (`piece`
    between `begin` and `end`), everything else when it is whole. What went out is never taken back. In strict mode
    nothing goes out before `close`, and only what validates.

    A form calls `close` where it read what closes the call, never because the text ended: then the form just returns,
    and `ParseContext.settle` decides. A value that the text broke off in is left open (`begin` without `end`), or told
    with `break_off`."""

    def __init__(self, io: ParseContext, sequencer: BlockSequencer, name: str, shape: ToolShape) -> None:
        self.name = name
        self.closed = False
        self.whole = False
        """The text closed the arguments itself: where it runs out behind them, nothing of them is missing."""
        self._io = io
        self._sequencer = sequencer
        self._shape = shape
        self._begun: PendingCall | None = None
        self._strict = io.mode == "strict"
        self._held: list[str] = []
        self._held_size = 0
        self._tail: list[str] = []
        """What was made of the end of a text that ran out: the sequencer says whether it counts."""
        self._keys: set[str] = set()
        self._unsaid: str | None = None
        """The key of the string value that has begun, while only white space of it came."""
        self._blank = ""
        self._unclosed = self._broken_off = False
        self._raw = False
        self._path = "$"
        self._place = io.place
        self._counts = io.counts
        self._flawed = False

    def parameter(self, key: str) -> Parameter:
        return parameter(self._shape, key)

    def knows(self, key: str) -> bool:
        """Whether the tool's schema names this parameter."""
        return key in self._shape.parameters

    def has(self, key: str) -> bool:
        """Whether the call has this parameter already."""
        return key in self._keys or key == self._unsaid

    def streams(self, key: str) -> bool:
        """Whether pieces of this parameter's text may go out before its end is known."""
        return key not in self._keys and self.parameter(key).streams

    def begin(self, key: str) -> None:
        """A string value begins. Its key waits for the first piece that is not blank."""
        self._path = f"$.{key[:64]}"  # before its key: one that never ends is a truncated call, at the end as well
        self._unsaid, self._blank = key, ""

    def piece(self, text: str) -> None:
        """A piece of the string's text (not JSON)."""
        if self._unsaid is not None:
            if not text.strip() and len(self._blank) < _MAX_BLANK:
                self._blank += text
                return
            self._say_key()
        if text:
            self._send(_encode(text)[1:-1].decode())

    def json_piece(self, text: str) -> None:
        """A piece of the string as it stands between the quotes of JSON."""
        self._say_key()
        self._send(text)

    def end(self, *, closed: bool = True) -> None:
        """`closed`: what closes the value was read, else something behind it. A blank value that nothing closes was
        never written: it is left out."""
        if not closed and self._unsaid is not None:
            self._unsaid = None
            self.repaired("dropped_parameter")
            self._path = "$"
            return
        self._say_key()
        self._path = "$"
        self._send('"')

    def _say_key(self) -> None:
        if self._unsaid is not None:
            key, self._unsaid = self._unsaid, None
            self._key(key)
            self._send('"')
            if self._blank:
                self._send(_encode(self._blank)[1:-1].decode())

    def text(self, key: str, text: str) -> None:
        """A whole value that came as text: typed by the schema."""
        self._value(key, coerce_text(text, self.parameter(key)))

    def value(self, key: str, value: object) -> None:
        """A whole value that came as JSON."""
        self._value(key, coerce_value(value, self.parameter(key)))

    def arguments(self, raw: str) -> None:
        """All arguments at once as they came, an object or what is left of one: repaired as far as the mode allows.
        Parameters that went out before stay as they are. An object that the end of the text left open breaks off."""
        text = raw.strip()
        self.whole = self.whole or (text[:1] in ("{", "[", '"') and is_closed(text))
        if self._io.buffer.ran_out and not self.whole:
            if text in ("", "null"):
                self.text_ends()
            else:
                self.break_off(text)
            return
        if text in ("", "null", '""') or (text == "{" and self._keys):
            return
        if text == "[]" and self._io.mode != "as-is":  # how servers in some languages write an empty object
            self.repaired("empty_list")
            return
        found = read_object(text) if self._io.mode != "as-is" or self._keys else None
        if found is None:
            if self._io.mode != "as-is":
                self.repaired("unreadable")
            self._say_raw(text)
            return
        for what in found.repairs:
            self.repaired(what)
        for key, value in found.value.items():
            if key not in self._keys:
                self.value(key, value)

    def text_ends(self) -> None:
        """The text ended between two values, or before the first one: what a form closes now, it did not read."""
        self._unclosed = True

    def break_off(self, text: str = "") -> None:
        """The text of the model ended inside of the arguments, and the call stays open, as a truncated one. `text` is
        what is left of their object: it goes out, unless a string is going out already or a limit cut the text off."""
        self._broken_off = True
        if text.startswith("{") and self._path == "$" and self._io.buffer.finished:
            self._tail.append(self._raw_text(text))

    def _say_raw(self, text: str) -> None:
        """An object, or what is left of one, as it stands: nobody can read it, and what is left out would be missed."""
        self._send(self._raw_text(text))
        self._raw = True

    def _raw_text(self, text: str) -> str:
        return ", " + text[1:].lstrip() if self._keys else text

    def repaired(self, what: str) -> None:
        """Something was wrong with this call, or the value at hand, and was put right."""
        self._io.note(what, self.name, self._path)
        if not self._flawed:
            self._flawed = True
            if what == "unreadable":
                self._counts.unreadable += 1
            else:
                self._counts.repaired += 1

    def close(self) -> None:
        """The call is complete. One whose string value never ended is not: it stays open, as a truncated one."""
        if self.closed or self._unclosed or self._broken_off or self._path != "$":
            return
        self.closed = True
        self._io.buffer.in_call = False
        end = "" if self._raw else "}" if self._keys else "{}"
        if end:
            self._send(end)
        if self._strict and not self._validates():
            return
        self._sequencer.end_call(self._call, "".join(self._tail))
        self._io.call_over(self._io.buffer.buffer, self._io.buffer.at)

    def settle(self) -> None:
        """The form is done, and did not close the call: the text ended before, or goes on with prose. The call is
        complete where nothing but closing markup is missing: its arguments are closed, or every value is and no
        required parameter is missing. A call of which no value came is not, as its parameters may have been about to
        begin."""
        whole = self.whole or (self._keys and self._shape.required <= self._keys)
        if whole and self._path == "$" and not self._broken_off and self._io.buffer.finished:
            if not self.whole:
                self.repaired("missing_end")
            self._unclosed = False
            self.close()
        else:
            self._say_key()
            self._sequencer.break_off(self._call, "".join(self._held), "".join(self._tail), self._given_up)

    def _given_up(self) -> Failure | None:
        """The call was cut off for good (it is no beginning of a native one). Returns why the answer fails."""
        if self._strict and self._io.buffer.finished:
            self._counts.refused += 1
            return refusal(self.name, "$: the text ends inside of the call")
        self._io.note("unreadable", self.name, self._path)
        self._counts.unreadable += 1
        return None

    # --------------------------------------------------------------------------------------------------- mechanics

    def _key(self, key: str) -> None:
        self._send((', ' if self._keys else '{') + _encode(key).decode() + ": ")
        self._keys.add(key)

    def _value(self, key: str, value: object) -> None:
        self._key(key)
        self._send(_encode(value).decode())

    @property
    def _call(self) -> PendingCall:
        """Begins with the first thing to send: a call that is cut off before its arguments could pass for one without
        arguments."""
        if self._begun is None:
            self._begun = self._sequencer.new_call(told_end=True, written=self._place)
            self._begun.counts = self._counts
            self._sequencer.call_delta(self._begun, self.name, None)
        return self._begun

    def _send(self, text: str) -> None:
        if self._tail or (self._path == "$" and self._io.buffer.ran_out and not self.whole):
            self._tail.append(text)
        elif self._strict:
            self._held.append(text)
            self._held_size += len(text)
            if self._held_size > self._sequencer.most_arguments:
                self._sequencer.fail_too_long(self.name)
        else:
            self._sequencer.call_delta(self._call, None, text)

    def _validates(self) -> bool:
        """Whether the call, which waited to be checked, goes out. Else the answer fails."""
        text = "".join(self._held)
        self._held.clear()
        reason = self._why_invalid(text + "".join(self._tail))
        if reason is not None:
            self._counts.refused += 1
            self._sequencer.fail(refusal(self.name, reason))
            return False
        self._sequencer.call_delta(self._call, None, text)
        return True

    def _why_invalid(self, text: str) -> str | None:
        try:
            value = decode_json(text)
        except ValueError as problem:
            return f"$: not valid JSON ({problem})"
        found = problems(self._io.tools[self.name].schema, value)
        return found[0] if found else None


def refusal(name: str, reason: str) -> Failure:
    """A call that does not validate, in words: the tool, the path, the reason."""
    return Failure("server", f"The model's call of the tool {name!r} does not match the tool's schema: {reason}.",
                   tool=name)


def is_closed(text: str) -> bool:
    """Whether the brackets and quotes of a JSON text are closed."""
    balance = JsonBalance()
    balance.feed(text)
    return balance.complete


def unclosed(text: str, key: str | None = None) -> str:
    """The beginning of an object that breaks off inside of a string: of the value of `key`, or of a key."""
    before = "" if key is None else f"{_encode(key).decode()}: "
    return f"{{{before}{_encode(text).decode()[:-1]}"
