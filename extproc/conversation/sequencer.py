"""The one place that puts a response in order: pieces of text, reasoning and calls -> events in strict order.

Every provider's decoder calls the methods of a `BlockSequencer` in the order in which things arrive. While a call is
open, all output after it is deferred: further calls (parallel calls may interleave), text, reasoning. The base
`BlockWriter` writes the blocks. The sequencer knows no wire format and no dialect.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from extproc.bounds import Limits
from extproc.conversation.block_writer import CALL, TEXT, BlockWriter, TextKind
from extproc.conversation.call_counts import CallTally
from extproc.conversation.duplicate_calls import DuplicateCallDetector
from extproc.conversation.model import ArgumentsDelta, Signature, ToolCallStart
from extproc.conversation.pending_call import DeferredText, PendingCall, TextPlace
from extproc.errors import Failure

_MOST_DEFERRED_ARGUMENTS = Limits().sse_line
"""Characters of arguments of calls that wait for the current one."""


class BlockSequencer(BlockWriter):
    """Adds tool calls to the blocks, one at a time.

    `call_id(ordinal, provider_id)` gives the id that a call gets for the client, `client_name(name)` the client's name
    of a tool; `offered` are the provider's names of the request's tools. `held_back`: most characters of deferred text.
    `most_arguments`: most characters of the arguments of one call; all of them are kept until its end, to recognise
    repetitions.
    """

    def __init__(self, call_id: Callable[[int, str | None], str], client_name: Callable[[str], str],
                 offered: frozenset[str] | dict[str, str], held_back: int = Limits().held_back,
                 most_arguments: int = Limits().tool_arguments) -> None:
        super().__init__(held_back)
        self.most_arguments = most_arguments
        self.calls = 0
        """Calls that were sent."""
        self.unoffered = 0
        """Calls that were sent, of tools that were not offered."""
        self.repair_arguments: Callable[[str, str], str | Failure] | None = None
        """Repairs or checks the whole arguments of a native call: (name, text) -> text, or why it is refused."""
        self.duplicates: DuplicateCallDetector | None = None
        """Recognises calls that repeat another; set where calls are also read from text."""
        self.refuse_unoffered = False
        """A native call of a tool that was not offered ends the response."""
        self.one_call = False
        """Calls after the first are dropped."""
        self.tally = CallTally()
        """Counts what is wrong with native calls."""
        self.report_lost_signature: Callable[[], None] = lambda: None
        """Called when a signed call is not sent because its duplicate was."""
        self.report_dropped_call: Callable[[str], None] = lambda name: None
        """Called with the name of the loss when a call is dropped that the client would have run."""
        self._call_id = call_id
        self._client_name = client_name
        self._offered = offered
        self._current: PendingCall | None = None
        """The call that is being sent, or will be once its name is certain."""
        self._deferred: deque[PendingCall | DeferredText] = deque()
        """The output after it, in order."""
        self._deferred_text = 0
        """Characters in it."""
        self._deferred_arguments = 0
        """Characters in it."""
        self._cut_off = False
        """A written call was left truncated."""

    # ------------------------------------------------------------------------------------------------- what arrives

    def redacted_thinking(self, data: str) -> None:
        """A whole block of encrypted reasoning. Inside a call there is no place for it."""
        if self._current is None:
            super().redacted_thinking(data)

    def new_call(self, id: str | None = None, *, explicit_end: bool = False, signature: Signature | None = None,
                 text_place: TextPlace | None = None) -> PendingCall:
        """Begins a further tool call; its fragments go to `call_delta`. `explicit_end`: it is complete only after
        `end_call`. `text_place`: where in the model's text it was read; None: it is native."""
        call = PendingCall(id, explicit_end=explicit_end, signature=signature, text_place=text_place)
        if self._current is None:
            self._current = call
        else:
            self._deferred.append(call)
            self._send_complete_calls()
        return call

    def call_delta(self, call: PendingCall, name: str | None, arguments: str | None) -> None:
        """Adds a fragment of the name or of the arguments."""
        if call.ended:
            return  # the whole block was sent; what still comes repeats it
        if name:
            call.add_name(name, self._offered)
        before = call.unsent_size
        if arguments:
            self.characters += len(arguments)
            call.add_arguments(arguments)
            if call.size > self.most_arguments:
                self.fail_too_long(self._client_name(call.name))
                return
        if call is self._current:
            self._send_arguments(call)
            if self._deferred:
                self._send_complete_calls()
        else:
            self._deferred_arguments += call.unsent_size - before
            if self._deferred_arguments > _MOST_DEFERRED_ARGUMENTS:
                self.fail(Failure("server", "The provider interleaved more parallel tool call data than can be "
                                            "held back."))

    def end_call(self, call: PendingCall, closing: str = "") -> None:
        """No more fragments of this call follow. `closing`: the text ended inside the call, and this completes it."""
        call.finished, call.closing = True, closing
        self.characters += len(closing)
        if call is self._current:
            self._end_current_and_go_on()

    def break_off(self, call: PendingCall, held: str, rest: str, on_truncated: Callable[[], Failure | None]) -> None:
        """The model's text ended inside this call. Only the end of the response tells whether the call is the beginning
        of a native one.

        `held`: arguments that were not sent yet, because the call is sent only when it is complete. If it is no such
        beginning, `rest` is sent after them and `on_truncated` is called.
        """
        call.on_truncated = on_truncated
        call.add_arguments(held)
        call.closing = rest
        self.characters += len(held) + len(rest)
        if call.size + len(rest) > self.most_arguments:
            self.fail_too_long(self._client_name(call.name))

    # ---------------------------------------------------------------------------------------------------- the end

    def flush(self, clean: bool) -> bool:
        """The provider's content is complete: sends all that is deferred and closes the open block. `clean`: the model
        finished of its own accord. Returns True if a call was left truncated."""
        truncated = self._cut_off
        while self._current is not None or self._deferred:
            if self._current is not None:
                if (self._current.closing or not self._current.finished) and self._merge_into_native(self._current):
                    continue
                self._current.end(clean)
                truncated = truncated or self._current.truncated
                if not self._end_current():
                    return truncated
            else:
                self._send_first_deferred()
        self._close_last_block()
        return truncated

    def fail(self, failure: Failure) -> None:
        super().fail(failure)
        self._current = None
        self._deferred.clear()

    def fail_too_long(self, tool: str) -> None:
        """A call of this tool has more arguments than `most_arguments`."""
        self.fail(too_long_call(tool, self.most_arguments))

    @property
    def incomplete_call(self) -> bool:
        """The JSON of an open call is not a whole value."""
        calls = [item for item in (self._current, *self._deferred) if isinstance(item, PendingCall)]
        return self._cut_off or any(call.truncated for call in calls)

    @property
    def ends_with_whole_calls(self) -> bool:
        """The last thing that came is a call, or several, with complete JSON: nothing seems to be missing."""
        if self._current is None:
            return self._ends_with_call and not self._deferred
        return all(isinstance(item, PendingCall) and item.whole for item in (self._current, *self._deferred))

    @property
    def received_output(self) -> bool:
        """Anything came, sent or held back."""
        return self.characters > 0 or self.has_calls

    @property
    def has_calls(self) -> bool:
        """A call came, sent or held back."""
        return (self.calls > 0 or self._current is not None
                or any(isinstance(item, PendingCall) for item in self._deferred))

    # ------------------------------------------------------------------------------------------- what is deferred

    def _defer(self, kind: TextKind, text: str) -> bool:
        """Text after an open call waits for its end."""
        if self._current is None:
            return False
        last = self._deferred[-1] if self._deferred else None
        if isinstance(last, DeferredText) and last.kind is kind:
            last.pieces.append(text)
        elif text.isspace():
            return True  # the line end that templates put between calls
        else:
            self._deferred.append(DeferredText(kind, text))
        self._deferred_text += len(text)
        self._send_complete_calls()
        if self._deferred_text > self._held_back and self._current is not None \
                and self._current.on_truncated is not None:
            self._end_current_and_go_on()  # no native call that it begins came by now
        if self._deferred_text > self._held_back:
            self.fail(Failure("server", "The provider sent more text inside an unfinished tool call than can be "
                                        f"held back ({self._held_back} characters)."))
        return True

    def _send_complete_calls(self) -> None:
        """Sends what is deferred as far as the calls before it are complete."""
        while self._deferred and self._current is not None and self._current.complete and self._current.name:
            if not self._end_current_and_go_on():
                return

    def _end_current_and_go_on(self) -> bool:
        """Ends the current call and sends what is deferred up to the next call. False: the response failed."""
        if not self._end_current():
            return False
        while self._deferred and self._current is None:
            self._send_first_deferred()
        return True

    def _send_first_deferred(self) -> None:
        """Requires that no call is current."""
        item = self._deferred.popleft()
        if isinstance(item, PendingCall):
            self._deferred_arguments -= item.unsent_size
            self._current = item
            self._send_arguments(item)
            return
        text = "".join(item.pieces)
        self._deferred_text -= len(text)
        self.characters -= len(text)
        (self.text if item.kind is TEXT else self.thinking)(text)

    # ------------------------------------------------------------------------------------------- the current call

    def _send_arguments(self, call: PendingCall) -> None:
        """Sends what may be sent of the current call. Its block opens with the first piece of arguments, once the name
        is certain."""
        if not call.has_unsent or (not call.ended and (
                call.on_truncated is not None or self._waits_for_repair(call) or self._may_be_duplicate(call))):
            return
        if self._is_surplus(call):
            return
        if not call.opened and ((not call.ended and call.may_grow(self._offered)) or not self._open_call(call)):
            return
        self._out.append(ArgumentsDelta(call.take_unsent()))

    def _waits_for_repair(self, call: PendingCall) -> bool:
        """The arguments of this call are held back until its end, to be repaired or checked."""
        return self.repair_arguments is not None and not call.explicit_end

    def _may_be_duplicate(self, call: PendingCall) -> bool:
        """The call is held back until its end because it may repeat one that was sent."""
        return (self.duplicates is not None and not call.opened
                and self.duplicates.may_be_duplicate(self._client_name(call.name), call))

    def _is_surplus(self, call: PendingCall) -> bool:
        """The call comes after the only one that may be sent."""
        return self.one_call and self.calls > 0 and not call.opened

    def _open_call(self, call: PendingCall) -> bool:
        """Starts the block of a call. False: the response failed."""
        if not call.name:
            self.fail(Failure("server", "The provider sent a tool call without a name."))
            return False
        name = self._client_name(call.name)
        if call.name not in self._offered and name not in self._offered:
            self.unoffered += 1
            if self.refuse_unoffered:
                self.tally.native.refused += 1
                self.fail(Failure("server", f"The model called the tool {name[:64]!r}, which the request does not "
                                            "offer.", tool=name))
                return False
            self.tally.note_bad(name, "unoffered")
        call.opened = True
        self.tally.written += call.text_place is not None
        self._open_block(CALL, ToolCallStart(self._call_id(self.calls, call.id), name, call.signature))
        self._forget_blanks()
        self.calls += 1
        return True

    def _end_current(self) -> bool:
        """Sends the rest of the current call and closes its block. False: the response failed."""
        call = self._current
        assert call is not None
        if not call.ended and (call.closing or call.on_truncated is not None) and self._merge_into_native(call):
            return True
        if not call.ended:
            call.end(clean=False)
        if self._is_surplus(call) and (call.name or call.has_unsent):
            if not self._skip_if_duplicate(call, None):
                self._drop(call, "response.parallel_tool_calls")
            return True
        if call.on_truncated is not None:
            self._cut_off = True
            if (failure := call.on_truncated()) is not None:
                self.fail(failure)
                return False
        if not call.opened and not call.has_unsent and (not call.name or call.on_truncated is not None):
            # An empty entry that some servers send along, or a call that was cut off before its arguments: a client
            # could take it for a call without arguments.
            self._current = None
            return True
        if not call.explicit_end:
            self._count_damage(call)
        arguments = call.take_unsent() if self._waits_for_repair(call) and not call.truncated else None
        if arguments is not None:
            assert self.repair_arguments is not None
            repaired = self.repair_arguments(self._client_name(call.name), arguments)
            if isinstance(repaired, Failure):
                self.fail(repaired)
                return False
            arguments = repaired
        if self._skip_if_duplicate(call, arguments):
            return True
        if not call.opened and not self._open_call(call):
            return False
        if arguments:
            self._out.append(ArgumentsDelta(arguments))
        self._send_arguments(call)
        self._close_block()
        self._current = None
        return True

    def _count_damage(self, call: PendingCall) -> None:
        if not call.readable:
            self.tally.native.unreadable += 1
            self.tally.note_bad(self._client_name(call.name), "unreadable")
        self.tally.native.repaired += call.brackets_added

    # ---------------------------------------------------------------------------------------- calls that are not sent

    def _skip_if_duplicate(self, call: PendingCall, repaired: str | None) -> bool:
        """Skips a call that has ended if it repeats one that was sent. `repaired`: its arguments as they would be
        sent, where they differ from those that came."""
        if self.duplicates is None or call.truncated:
            return False
        found = self.duplicates.check_and_remember(self._client_name(call.name), call, repaired)
        if found == "duplicate":
            self._skip_as_duplicate(call)
        elif found == "repeated":
            self._drop(call, "response.tool_calls.repeated")
        return found is not None

    def _merge_into_native(self, call: PendingCall) -> bool:
        """If this call, whose text ended inside it, is the beginning of a native one, only one of the two is sent: this
        one with the rest of the native arguments if its block is open, else the native one. False: it is not."""
        if self.duplicates is None or call.text_place is None:
            return False
        found = self.duplicates.find_native(self._client_name(call.name), call, self._deferred, self.repair_arguments)
        if found is None:
            return False
        native, rest = found
        if native is not None and call.opened:
            self._deferred.remove(native)
            self._deferred_arguments -= native.unsent_size
            native.ended = True
            self._out.append(ArgumentsDelta(call.take_unsent() + rest))
        self._skip_as_duplicate(native if call.opened else call)
        return True

    def _skip_as_duplicate(self, call: PendingCall | None) -> None:
        """This call is not sent, because its duplicate was."""
        self.tally.native_duplicates += call is not None and call.text_place is None
        self._skip(call)

    def _drop(self, call: PendingCall, loss: str) -> None:
        """This call is not sent, which changes what the client does; `loss` names it."""
        (call.counts or self.tally.native).dropped += 1
        self.report_dropped_call(loss)
        self._skip(call)

    def _skip(self, call: PendingCall | None) -> None:
        """`call` is not sent, and the current call is done."""
        if call is not None and call.signature is not None:
            self.report_lost_signature()
        self._close_block()  # the next output follows a call
        self._ends_with_call = True
        self._forget_blanks()
        self._current = None


def too_long_call(tool: str, most: int) -> Failure:
    """A call with more than `most` characters of arguments."""
    return Failure("server", f"The model's call of the tool {tool[:64]!r} has arguments of more than {most} "
                             "characters, the most that this gateway takes (limits.tool_arguments).")
