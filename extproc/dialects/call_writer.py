"""The arguments of a tool call: written as JSON while a parser reads them, repaired or validated as the mode says.

`CallWriter` is for calls in the text, `NativeArguments` for calls in a field of the provider's API. The mode
(`tools.arguments`): `as-is` sends the JSON text of the model, `repair` repairs damage with one possible meaning,
`strict` keeps a call back until it is whole and refuses it if it does not validate. Nothing here knows the marks of a
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
"""Most characters of a value that is sent as a whole."""

_MAX_BLANK = 1024
"""Most white space at the beginning of a string that waits for other characters."""

ArgumentsMode = Literal["as-is", "repair", "strict"]


class Repair(msgspec.Struct, frozen=True):
    """A repair of a call."""

    tool: str
    """Empty if the tool is not known."""
    path: str
    """The place in the arguments; `$` for all of them."""
    reason: str


class CallSettings:
    """What the calls of one response share: the buffer, the offered tools, the sequencer, the counts."""

    def __init__(self, buffer: TextBuffer, sequencer: BlockSequencer, tools: Mapping[str, Tool],
                 mode: ArgumentsMode = "repair", tally: CallTally | None = None) -> None:
        self.buffer = buffer
        self.sequencer = sequencer
        self.tools = tools
        """The offered tools by their names at the provider."""
        self.mode: ArgumentsMode = mode
        self.place: TextPlace = "text"
        """Where the current call stands."""
        self.dialect: Callable[[], str] = lambda: "other"
        """Returns the name of the current parser's dialect."""
        self.repairs: list[Repair] = []
        self.call_ended: Callable[[str, int], None] = lambda text, at: None
        """Called when a call is closed, with the buffer's text and the index after the call."""
        self._tally = tally or CallTally()

    @property
    def counts(self) -> CallCounts:
        """The counts of the current parser's dialect."""
        return self._tally.of(self.dialect())

    def note_repair(self, reason: str, tool: str = "", path: str = "$") -> None:
        self.repairs.append(Repair(tool, path, reason))


class CallWriter:
    """Writes the arguments of one call, parameter by parameter. Strings of string parameters may be sent in pieces
    (`write_piece` between `begin_string` and `end_string`), other values when they are whole. Nothing that was sent is
    taken back. In strict mode nothing is sent before `close`, and only if it validates.

    A parser calls `close` after it read the end of the call, never because the text ended: then it just returns, and
    `ParseContext.settle_call` decides. A value that is cut off stays open (`begin_string` without `end_string`), or the
    parser calls `break_off`."""

    def __init__(self, settings: CallSettings, name: str, shape: ToolShape) -> None:
        self.name = name
        self.closed = False
        self.whole = False
        """The text closed the arguments: if it ends after them, nothing of them is missing."""
        self._settings = settings
        self._sequencer = settings.sequencer
        self._shape = shape
        self._pending: PendingCall | None = None
        self._strict = settings.mode == "strict"
        self._kept: list[str] = []
        self._kept_size = 0
        self._tail: list[str] = []
        """JSON made of the end of a text that ran out. The sequencer decides whether it is sent."""
        self._keys: set[str] = set()
        self._waiting_key: str | None = None
        """The key of a string value of which only white space came."""
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
        """True if the tool's schema names this parameter."""
        return key in self._shape.parameters

    def has(self, key: str) -> bool:
        """True if the call has this parameter already."""
        return key in self._keys or key == self._waiting_key

    def streams(self, key: str) -> bool:
        """True if pieces of this parameter's text may go out before its end is known."""
        return key not in self._keys and self.parameter(key).streams

    def begin_string(self, key: str) -> None:
        """Starts a string value. Its key is sent with the first piece that is not blank."""
        self._path = f"$.{key[:64]}"  # a value that never ends makes a truncated call
        self._waiting_key, self._blank = key, ""

    def write_piece(self, text: str) -> None:
        """Adds text to the string value."""
        if self._waiting_key is not None:
            if not text.strip() and len(self._blank) < _MAX_BLANK:
                self._blank += text
                return
            self._send_key()
        if text:
            self._send(_encode(text)[1:-1].decode())

    def write_json_piece(self, text: str) -> None:
        """Adds text to the string value that is already escaped for JSON."""
        self._send_key()
        self._send(text)

    def end_string(self, *, closed: bool = True) -> None:
        """Ends the string value. `closed`: its closing mark was read. A blank value without one is left out."""
        if not closed and self._waiting_key is not None:
            self._waiting_key = None
            self.note_repair("dropped_parameter")
            self._path = "$"
            return
        self._send_key()
        self._path = "$"
        self._send('"')

    def _send_key(self) -> None:
        if self._waiting_key is not None:
            key, self._waiting_key = self._waiting_key, None
            self._key(key)
            self._send('"')
            if self._blank:
                self._send(_encode(self._blank)[1:-1].decode())

    def write_text(self, key: str, text: str) -> None:
        """Adds a whole value that came as text. The schema gives its type."""
        self._value(key, coerce_text(text, self.parameter(key)))

    def write_value(self, key: str, value: object) -> None:
        """Adds a whole value that came as JSON."""
        self._value(key, coerce_value(value, self.parameter(key)))

    def write_arguments(self, raw: str) -> None:
        """Adds all arguments as one text: an object, or the rest of one. The mode says whether it is repaired.
        Parameters that were sent before stay. An object that the end of the text left open is broken off."""
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
            self._send_raw(text)
            return
        for what in found.repairs:
            self.note_repair(what)
        for key, value in found.value.items():
            if key not in self._keys:
                self.write_value(key, value)

    def note_text_end(self) -> None:
        """The text ended before or between values. The parser cannot have read the end of the call."""
        self._unclosed = True

    def break_off(self, text: str = "") -> None:
        """The text ended inside the arguments: the call stays open, as a truncated one. `text`: the rest of their
        object. It is sent unless a string is open or a limit cut the text off."""
        self._broken_off = True
        if text.startswith("{") and self._path == "$" and self._settings.buffer.finished:
            self._tail.append(self._raw_text(text))

    def _send_raw(self, text: str) -> None:
        """Sends an unreadable object, or the rest of one, as it is, so that nothing is lost."""
        self._send(self._raw_text(text))
        self._raw = True

    def _raw_text(self, text: str) -> str:
        return ", " + text[1:].lstrip() if self._keys else text

    def note_repair(self, what: str) -> None:
        """Notes a repair of this call or its current value."""
        self._settings.note_repair(what, self.name, self._path)
        if not self._flawed:
            self._flawed = True
            if what == "unreadable":
                self._counts.unreadable += 1
            else:
                self._counts.repaired += 1

    def close(self) -> None:
        """Ends a complete call. A call whose string value never ended stays open, as a truncated one."""
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
        """Decides about a call that the parser did not close: the text ended, or ordinary text follows. The call is
        complete if only closing markup is missing: its arguments are closed, or all its values are and no required
        parameter is missing. A call without values is not complete, since its parameters may have been about to
        begin."""
        whole = self.whole or (self._keys and self._shape.required <= self._keys)
        if whole and self._path == "$" and not self._broken_off and self._settings.buffer.finished:
            if not self.whole:
                self.note_repair("missing_end")
            self._unclosed = False
            self.close()
        else:
            self._send_key()
            self._sequencer.break_off(self._call, "".join(self._kept), "".join(self._tail), self._count_cut_off)

    def _count_cut_off(self) -> Failure | None:
        """Counts a call that was cut off and is not the beginning of a native one. Returns why the response fails, if
        it does."""
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
        """Begins with the first text to send: a call that is cut off before its arguments would look like one without
        arguments."""
        if self._pending is None:
            self._pending = self._sequencer.new_call(explicit_end=True, text_place=self._place)
            self._pending.counts = self._counts
            self._sequencer.call_delta(self._pending, self.name, None)
        return self._pending

    def _send(self, text: str) -> None:
        if self._tail or (self._path == "$" and self._settings.buffer.ran_out and not self.whole):
            self._tail.append(text)
        elif self._strict:
            self._kept.append(text)
            self._kept_size += len(text)
            if self._kept_size > self._sequencer.most_arguments:
                self._sequencer.fail_too_long(self.name)
        else:
            self._sequencer.call_delta(self._call, None, text)

    def _validates(self) -> bool:
        """Sends a call that was kept back if it validates. If it does not, fails the response and returns False."""
        text = "".join(self._kept)
        self._kept.clear()
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
    """Repairs or validates the arguments of native calls. `tools`: by their names at the client."""

    def __init__(self, tools: Mapping[str, Tool], mode: ArgumentsMode, counts: CallCounts | None = None) -> None:
        self._counts = counts or CallCounts()
        self._tools = tools
        self._mode = mode
        self.repairs: list[Repair] = []

    def __call__(self, name: str, text: str) -> str | Failure:
        """The arguments to send, or why strict mode refuses the call. Calls of tools that are not offered pass."""
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
    """The failure of a call that does not validate. `reason`: with the path in the arguments."""
    return Failure("server", f"The model's call of the tool {name!r} does not match the tool's schema: {reason}.",
                   tool=name)


def is_closed(text: str) -> bool:
    """True if all brackets and quotes of a JSON text are closed."""
    balance = JsonBalance()
    balance.feed(text)
    return balance.complete


def unclosed(text: str, key: str | None = None) -> str:
    """The beginning of a JSON object that breaks off inside a string: the value of `key`, or a key."""
    before = "" if key is None else f"{_encode(key).decode()}: "
    return f"{{{before}{_encode(text).decode()[:-1]}"
