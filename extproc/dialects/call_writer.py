"""The arguments of a tool call: written as JSON while a parser reads them, repaired or checked as the mode asks.

`CallWriter` serves calls that were read from text, `NativeArguments` calls that came in a field of the provider's API.
`mode` (`tools.arguments`): `as-is` sends the JSON text of the model, `repair` mends damage with one plain reading,
`strict` holds the call until it is whole and refuses one that does not validate. Nothing here knows the marks of a
dialect or a wire format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from extproc.bounds import TOOL_ARGUMENTS
from extproc.conversation.call_counts import CallCounts, CallTally
from extproc.conversation.model import Tool
from extproc.conversation.pending_call import JsonBalance, PendingCall, TextPlace
from extproc.conversation.sequencer import BlockSequencer
from extproc.dialects.buffer import TextBuffer
from extproc.dialects.coercion import Parameter, ToolShape, coerce_text, coerce_value, parameter
from extproc.dialects.json.lenient import decode_json
from extproc.dialects.json.repair import problems, read_object
from extproc.errors import Failure

_encode = msgspec.json.Encoder().encode

MAX_VALUE = TOOL_ARGUMENTS
"""Characters of one value that are collected before it can be sent."""

_MAX_BLANK = 1024
"""White space at the beginning of a string that waits for what follows it."""

ArgumentsMode = Literal["as-is", "repair", "strict"]


class Repair(msgspec.Struct, frozen=True):
    """Something that was wrong with a call and was put right: the tool ("" where it is not known), the place in its
    arguments ("$" is the whole of them), and what it was."""

    tool: str
    path: str
    reason: str


class CallSettings:
    """What the calls of one response share: the buffer that is read, the offered tools, where calls go, the counts."""

    def __init__(self, buffer: TextBuffer, sequencer: BlockSequencer, tools: Mapping[str, Tool],
                 mode: ArgumentsMode = "repair", tally: CallTally | None = None) -> None:
        self.buffer = buffer
        self.sequencer = sequencer
        self.tools = tools
        """The offered tools by their names at the provider."""
        self.mode: ArgumentsMode = mode
        self.place: TextPlace = "text"
        """Where the calls stand that are read."""
        self.dialect: Callable[[], str] = lambda: "other"
        """The name of the dialect whose parser reads."""
        self.repairs: list[Repair] = []
        self.call_ended: Callable[[str, int], None] = lambda text, at: None
        """Called when a call is closed, with the text at hand and the index in it of what follows the call."""
        self._tally = tally or CallTally()

    @property
    def counts(self) -> CallCounts:
        """The counts of the dialect whose parser reads."""
        return self._tally.of(self.dialect())

    def note_repair(self, reason: str, tool: str = "", path: str = "$") -> None:
        self.repairs.append(Repair(tool, path, reason))


class CallWriter:
    """The arguments of one call, parameter by parameter. Strings of string parameters may go out in pieces (`piece`
    between `begin` and `end`), everything else when it is whole. What went out is never taken back. In strict mode
    nothing goes out before `close`, and only what validates.

    A form calls `close` where it read what closes the call, never because the text ended: then the form just returns,
    and `ParseContext.settle` decides. A value that the text broke off in is left open (`begin` without `end`), or told
    with `break_off`."""

    def __init__(self, settings: CallSettings, name: str, shape: ToolShape) -> None:
        self.name = name
        self.closed = False
        self.whole = False
        """The text closed the arguments itself: where it runs out behind them, nothing of them is missing."""
        self._settings = settings
        self._sequencer = settings.sequencer
        self._shape = shape
        self._begun: PendingCall | None = None
        self._strict = settings.mode == "strict"
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
        self._place = settings.place
        self._counts = settings.counts
        self._flawed = False

    def parameter(self, key: str) -> Parameter:
        return parameter(self._shape, key)

    def declares(self, key: str) -> bool:
        """Whether the tool's schema names this parameter."""
        return key in self._shape.parameters

    def has(self, key: str) -> bool:
        """Whether the call has this parameter already."""
        return key in self._keys or key == self._unsaid

    def streams(self, key: str) -> bool:
        """Whether pieces of this parameter's text may go out before its end is known."""
        return key not in self._keys and self.parameter(key).streams

    def begin_string(self, key: str) -> None:
        """A string value begins. Its key waits for the first piece that is not blank."""
        self._path = f"$.{key[:64]}"  # before its key: one that never ends is a truncated call, at the end as well
        self._unsaid, self._blank = key, ""

    def write_piece(self, text: str) -> None:
        """A piece of the string's text (not JSON)."""
        if self._unsaid is not None:
            if not text.strip() and len(self._blank) < _MAX_BLANK:
                self._blank += text
                return
            self._say_key()
        if text:
            self._send(_encode(text)[1:-1].decode())

    def write_json_piece(self, text: str) -> None:
        """A piece of the string as it stands between the quotes of JSON."""
        self._say_key()
        self._send(text)

    def end_string(self, *, closed: bool = True) -> None:
        """`closed`: what closes the value was read, else something behind it. A blank value that nothing closes was
        never written: it is left out."""
        if not closed and self._unsaid is not None:
            self._unsaid = None
            self.note_repair("dropped_parameter")
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

    def write_text(self, key: str, text: str) -> None:
        """A whole value that came as text: typed by the schema."""
        self._value(key, coerce_text(text, self.parameter(key)))

    def write_value(self, key: str, value: object) -> None:
        """A whole value that came as JSON."""
        self._value(key, coerce_value(value, self.parameter(key)))

    def write_arguments(self, raw: str) -> None:
        """All arguments at once as they came, an object or what is left of one: repaired as far as the mode allows.
        Parameters that went out before stay as they are. An object that the end of the text left open breaks off."""
        text = raw.strip()
        self.whole = self.whole or (text[:1] in ("{", "[", '"') and is_closed(text))
        if self._settings.buffer.ran_out and not self.whole:
            if text in ("", "null"):
                self.note_text_end()
            else:
                self.break_off(text)
            return
        if text in ("", "null", '""') or (text == "{" and self._keys):
            return
        if text == "[]" and self._settings.mode != "as-is":  # how servers in some languages write an empty object
            self.note_repair("empty_list")
            return
        found = read_object(text) if self._settings.mode != "as-is" or self._keys else None
        if found is None:
            if self._settings.mode != "as-is":
                self.note_repair("unreadable")
            self._say_raw(text)
            return
        for what in found.repairs:
            self.note_repair(what)
        for key, value in found.value.items():
            if key not in self._keys:
                self.write_value(key, value)

    def note_text_end(self) -> None:
        """The text ended between two values, or before the first one: what a form closes now, it did not read."""
        self._unclosed = True

    def break_off(self, text: str = "") -> None:
        """The text of the model ended inside of the arguments, and the call stays open, as a truncated one. `text` is
        what is left of their object: it goes out, unless a string is going out already or a limit cut the text off."""
        self._broken_off = True
        if text.startswith("{") and self._path == "$" and self._settings.buffer.finished:
            self._tail.append(self._raw_text(text))

    def _say_raw(self, text: str) -> None:
        """An object, or what is left of one, as it stands: nobody can read it, and what is left out would be missed."""
        self._send(self._raw_text(text))
        self._raw = True

    def _raw_text(self, text: str) -> str:
        return ", " + text[1:].lstrip() if self._keys else text

    def note_repair(self, what: str) -> None:
        """Something was wrong with this call, or the value at hand, and was put right."""
        self._settings.note_repair(what, self.name, self._path)
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
        self._settings.buffer.in_call = False
        end = "" if self._raw else "}" if self._keys else "{}"
        if end:
            self._send(end)
        if self._strict and not self._validates():
            return
        self._sequencer.end_call(self._call, "".join(self._tail))
        self._settings.call_ended(self._settings.buffer.buffer, self._settings.buffer.at)

    def settle(self) -> None:
        """The form is done, and did not close the call: the text ended before, or goes on with prose. The call is
        complete where nothing but closing markup is missing: its arguments are closed, or every value is and no
        required parameter is missing. A call of which no value came is not, as its parameters may have been about to
        begin."""
        whole = self.whole or (self._keys and self._shape.required <= self._keys)
        if whole and self._path == "$" and not self._broken_off and self._settings.buffer.finished:
            if not self.whole:
                self.note_repair("missing_end")
            self._unclosed = False
            self.close()
        else:
            self._say_key()
            self._sequencer.break_off(self._call, "".join(self._held), "".join(self._tail), self._given_up)

    def _given_up(self) -> Failure | None:
        """The call was cut off for good (it is no beginning of a native one). Returns why the answer fails."""
        if self._strict and self._settings.buffer.finished:
            self._counts.refused += 1
            return refusal(self.name, "$: the text ends inside of the call")
        self._settings.note_repair("unreadable", self.name, self._path)
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
            self._begun = self._sequencer.new_call(explicit_end=True, text_place=self._place)
            self._begun.counts = self._counts
            self._sequencer.call_delta(self._begun, self.name, None)
        return self._begun

    def _send(self, text: str) -> None:
        if self._tail or (self._path == "$" and self._settings.buffer.ran_out and not self.whole):
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
        found = problems(self._settings.tools[self.name].schema, value)
        return found[0] if found else None


class NativeArguments:
    """`tools` by the names the client knows. `repairs` collects what was repaired, `counts` how many calls."""

    def __init__(self, tools: Mapping[str, Tool], mode: ArgumentsMode, counts: CallCounts | None = None) -> None:
        self._counts = counts or CallCounts()
        self._tools = tools
        self._mode = mode
        self.repairs: list[Repair] = []

    def __call__(self, name: str, text: str) -> str | Failure:
        """The arguments to send, or why the call is refused (strict). Calls of tools that were not offered pass."""
        tool = self._tools.get(name)
        if tool is None or (not text.strip() and self._mode != "strict"):
            return text
        found = read_object(text.strip() or "{}")
        if self._mode == "strict":
            reason = "$: not a JSON object" if found is None else next(iter(problems(tool.schema, found.value)), None)
            if reason is not None:
                self._counts.refused += 1
                return refusal(name, reason)
        if found is None or not found.repairs:
            return text
        self._counts.repaired += 1
        self.repairs.extend(Repair(name, "$", what) for what in found.repairs)
        return _encode(found.value).decode()


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
