"""The one place that sequences an answer: pieces of text, reasoning and calls -> events in strict order.

Every provider's decoder calls the methods of a `BlockSequencer` in the order in which things arrive; what comes out
are conversation events in which blocks never overlap. While a call is open everything that follows it waits: further
calls (parallel calls may interleave), text, reasoning. White space between blocks is framing of the model's template,
not content. The sequencer knows no wire format and no markers of dialects.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from extproc.bounds import Limits
from extproc.conversation.call_counts import CallTally
from extproc.conversation.deferred_text import DeferredText
from extproc.conversation.duplicate_calls import DuplicateCallDetector
from extproc.conversation.model import (
    ArgumentsDelta,
    BlockStop,
    Citations,
    Event,
    Finish,
    FinishReason,
    RedactedThinking,
    Refusal,
    Signature,
    SignatureDelta,
    Start,
    TextDelta,
    TextStart,
    ThinkingDelta,
    ThinkingStart,
    ToolCallStart,
    Usage,
)
from extproc.conversation.pending_call import PendingCall, Place
from extproc.errors import Failure

_TEXT, _THINKING, _CALL = "text", "thinking", "call"
_STOP = BlockStop()
_TEXT_START = TextStart()
_THINKING_START = ThinkingStart()

_MAX_CALL_BUFFER = Limits().sse_line


class BlockSequencer:
    """Collects events; `take` hands them over. `call_id(ordinal, provider_id)` gives the id a call goes out with,
    `client_name(name)` restores a tool's name, `offered` are the provider-side names of the request's tools.
    `most_arguments`: characters of the arguments of one call; all of them are kept until their end, so that repetitions
    can be told."""

    def __init__(self, call_id: Callable[[int, str | None], str], client_name: Callable[[str], str],
                 offered: frozenset[str] | dict[str, str], held_back: int = Limits().held_back,
                 most_arguments: int = Limits().tool_arguments) -> None:
        self._call_id = call_id
        self._client_name = client_name
        self._offered = offered
        self._held_back = held_back
        self.most_arguments = most_arguments
        self._out: list[Event] = []
        self._open: str | None = None
        self._live: PendingCall | None = None
        self._waiting: deque[PendingCall | DeferredText] = deque()
        self._waiting_text = 0
        self._waiting_calls = 0
        self._blank_text = ""
        self._blank_thinking = ""
        self._blocks = 0
        self._reasoned = False
        self._ends_with_call = self._cut_off = False
        """What came last is a call; a written call was left truncated."""
        self.before_fail: Callable[[], None] = lambda: None
        """Called before a failure goes out: whoever holds text back releases it then."""
        self.hand_on: Callable[[], None] | None = None
        """Called before that, once: a decoder hands on what it keeps from the scanner."""
        self.heal: Callable[[str, str], str | Failure] | None = None
        """Repairs or checks the whole arguments of a native call: (name, text) -> text or why it is refused."""
        self.twins: DuplicateCallDetector | None = None
        """Knows the calls that repeat another; set where calls are read from text, too."""
        self.lost_signature: Callable[[], None] = lambda: None
        """Called when a call that was signed does not go out, as its twin did."""
        self.refuse_unoffered = False
        """A native call of a tool that was not offered ends the answer."""
        self.lost_call: Callable[[str], None] = lambda name: None
        """Called with the name of what is lost when a call does not go out that the client would have run."""
        self.one_call = False
        """Calls behind the first do not go out."""
        self.tally = CallTally()
        """Takes what is wrong with native calls."""
        self._failed_at: int | None = None
        """So many events end with the failure: nothing follows it."""
        self.started = False
        self.closed = False
        self.calls = 0
        self.unoffered = 0
        self.characters = 0

    def take(self) -> list[Event]:
        out, self._out = self._out, []
        if self._failed_at is not None:  # whoever reads on has not noticed yet
            out, self._failed_at = out[:self._failed_at], 0
        return out

    # ------------------------------------------------------------------------------------------------ what arrives

    def start(self, id: str | None, model: str | None) -> None:
        self.started = True
        self._out.append(Start(id, model))

    def text(self, text: str) -> None:
        self.characters += len(text)
        if self._open is _TEXT:
            self._out.append(TextDelta(text))
        elif self._live is not None:
            self._prose_after_call(_TEXT, text)
        elif text.isspace():
            self._hold_blank(text)
        else:
            self._open_block(_TEXT, _TEXT_START)
            self._out.append(TextDelta(self._blank_text + text if self._blank_text else text))
            self._blank_text = self._blank_thinking = ""

    def thinking(self, text: str) -> None:
        self._reasoned = True
        self.characters += len(text)
        if self._open is _THINKING:
            self._out.append(ThinkingDelta(text))
        elif self._live is not None:
            self._prose_after_call(_THINKING, text)
        elif text.isspace():
            self._blank_thinking = (self._blank_thinking + text)[:self._held_back]
        else:
            self._open_block(_THINKING, _THINKING_START)
            self._out.append(ThinkingDelta(self._blank_thinking + text if self._blank_thinking else text))
            self._blank_text = self._blank_thinking = ""

    def signature(self, signature: str) -> bool:
        """The signature of the reasoning block that is open. Returns whether one is; else there is no place for it."""
        if self._open is not _THINKING:
            return False
        self._out.append(SignatureDelta(signature))
        self._close_block()
        return True

    def redacted_thinking(self, data: str) -> None:
        if self._live is None:
            self._open_block(_THINKING, RedactedThinking(data))
            self._close_block()

    def new_call(self, id: str | None = None, *, told_end: bool = False,
                 signature: Signature | None = None, written: Place | None = None) -> PendingCall:
        """A further tool call begins; fragments of it go to `call_delta`. `told_end`: it is whole only once `end_call`
        said so. `written`: where in the model's text it was read; None: it is native."""
        call = PendingCall(id, told_end=told_end, signature=signature, written=written)
        if self._live is None:
            self._live = call
        else:
            self._waiting.append(call)
            self._advance()
        return call

    def call_delta(self, call: PendingCall, name: str | None, arguments: str | None) -> None:
        if call.ended:
            return  # its block went out whole; what still comes repeats it
        if name:
            call.add_name(name, self._offered)
        before = call.buffered
        if arguments:
            self.characters += len(arguments)
            call.add_arguments(arguments)
            if call.size > self.most_arguments:
                self.fail_too_long(self._client_name(call.name))
                return
        if call is self._live:
            self._flush_live(call)
            if self._waiting:
                self._advance()
        else:
            self._waiting_calls += call.buffered - before
            if self._waiting_calls > _MAX_CALL_BUFFER:
                self.fail(Failure("server", "The provider interleaved more parallel tool call data than can be "
                                            "held back."))

    def end_call(self, call: PendingCall, closing: str = "") -> None:
        """Nothing of this call comes any more. `closing`: its text ran out, and this would make it whole."""
        call.finished, call.closing = True, closing
        self.characters += len(closing)
        if call is self._live:
            self._next_call()

    def break_off(self, call: PendingCall, held: str, rest: str, give_up: Callable[[], Failure | None]) -> None:
        """The text of this written call ended inside of it. `held`: arguments that were not sent yet, as the call is
        sent only when it is whole; `rest`: what goes out behind them, and `give_up` is called, unless the call is the
        beginning of a native one, which is known only at the end of the answer."""
        call.give_up = give_up
        call.add_arguments(held)
        call.closing = rest
        self.characters += len(held) + len(rest)
        if call.size + len(rest) > self.most_arguments:
            self.fail_too_long(self._client_name(call.name))

    @property
    def has_reasoned(self) -> bool:
        """Reasoning came already."""
        return self._reasoned

    # ---------------------------------------------------------------------------------------------------- the end

    def flush(self, clean: bool) -> bool:
        """Sends all that waits and closes the open block: the provider says that its content is complete. `clean`:
        it finished of its own accord. Returns whether a call was left truncated."""
        truncated = self._cut_off
        while self._live is not None or self._waiting:
            if self._live is not None:
                if (self._live.closing or not self._live.finished) and self._is_beginning(self._live):
                    continue
                self._live.end(clean)
                truncated = truncated or self._live.truncated
                if not self._end_live():
                    return truncated
            else:
                self._promote()
        if self._blocks == 0 and self._blank_text:
            self._open_block(_TEXT, _TEXT_START)
            self._out.append(TextDelta(self._blank_text))
        self._close_block()
        self._blank_text = self._blank_thinking = ""
        return truncated

    @property
    def incomplete_call(self) -> bool:
        """A call is open whose JSON is not a whole value."""
        calls = [c for c in (self._live, *self._waiting) if isinstance(c, PendingCall)]
        return self._cut_off or any(c.truncated for c in calls)

    @property
    def ends_with_whole_calls(self) -> bool:
        """The last thing that came is a call (or several) with whole JSON arguments: nothing seems to be missing."""
        if self._live is None:
            return self._ends_with_call and not self._waiting
        return all(isinstance(item, PendingCall) and item.whole for item in (self._live, *self._waiting))

    @property
    def received_output(self) -> bool:
        """Anything came, shown or held back."""
        return self.characters > 0 or self.has_calls

    @property
    def has_calls(self) -> bool:
        return self.calls > 0 or self._live is not None or any(isinstance(c, PendingCall) for c in self._waiting)

    def finish(self, reason: FinishReason, usage: Usage, stop_sequence: str | None = None,
               citations: Citations | None = None, refusal: Refusal | None = None) -> None:
        """The response is complete; `flush` was called before."""
        if self.closed:
            return
        self.closed = True
        if citations is not None:
            self._out.append(citations)
        self._out.append(Finish(reason, usage, stop_sequence, refusal))

    def fail(self, failure: Failure) -> None:
        """Nothing more can be trusted: no block is closed, nothing follows."""
        if self.hand_on is not None:
            hand_on, self.hand_on = self.hand_on, None
            hand_on()
        if not self.closed:
            self.closed = True  # first: what is released now may fail too, and one failure is told
            self.before_fail()
            self._live = None
            self._waiting.clear()
            self._out.append(failure)
            self._failed_at = len(self._out)

    def fail_too_long(self, tool: str) -> None:
        """A call of this tool has more arguments than one may have."""
        self.fail(too_long_call(tool, self.most_arguments))

    # --------------------------------------------------------------------------------------------------- mechanics

    def _hold_blank(self, text: str) -> None:
        self._blank_text += text
        if len(self._blank_text) > self._held_back:
            blank, self._blank_text = self._blank_text, ""
            self._open_block(_TEXT, _TEXT_START)
            self._out.append(TextDelta(blank))

    def _open_block(self, kind: str, start: Event) -> None:
        if self._open is not None:
            self._out.append(_STOP)
        self._open, self._ends_with_call = kind, kind is _CALL
        self._blocks += 1
        self._out.append(start)

    def _close_block(self) -> None:
        if self._open is not None:
            self._open = None
            self._out.append(_STOP)

    def _prose_after_call(self, kind: str, text: str) -> None:
        last = self._waiting[-1] if self._waiting else None
        if isinstance(last, DeferredText) and last.kind is kind:
            last.pieces.append(text)
        elif text.isspace():
            return  # the newline that templates put between calls
        else:
            self._waiting.append(DeferredText(kind, text))
        self._waiting_text += len(text)
        self._advance()
        if self._waiting_text > self._held_back and self._live is not None and self._live.give_up is not None:
            self._next_call()  # no native call that it begins came by now
        if self._waiting_text > self._held_back:
            self.fail(Failure("server", "The provider sent more text inside an unfinished tool call than can be "
                                        f"held back ({self._held_back} characters)."))

    def _flush_live(self, call: PendingCall) -> None:
        """Sends what the live call may send; its block opens with the first piece of arguments, once the name is
        known."""
        if not call.has_arguments or (not call.ended and (
                call.give_up is not None or self._heals(call) or self._may_repeat(call))):
            return
        if self._is_surplus(call):
            return
        if not call.opened and ((not call.ended and call.may_grow(self._offered)) or not self._open_call(call)):
            return
        self._out.append(ArgumentsDelta(call.take()))

    def _heals(self, call: PendingCall) -> bool:
        """Whether the arguments of this call wait for its end to be repaired or checked."""
        return self.heal is not None and not call.told_end

    def _may_repeat(self, call: PendingCall) -> bool:
        """Whether this call waits for its end, as it may be one that went out already."""
        return self.twins is not None and not call.opened and self.twins.awaits(self._client_name(call.name), call)

    def _repeats(self, call: PendingCall, healed: str | None) -> bool:
        """Whether this call, which has ended, is one that went out already; then it does not."""
        if self.twins is None or call.truncated:
            return False
        found = self.twins.repeats(self._client_name(call.name), call, healed)
        if found == "twin":
            self._merge(call)
        elif found == "repeated":
            self._drop(call, "answer.tool_calls.repeated")
        return found is not None

    def _is_surplus(self, call: PendingCall) -> bool:
        """Whether this is a call behind the only one that may go out."""
        return self.one_call and self.calls > 0 and not call.opened

    def _is_beginning(self, call: PendingCall) -> bool:
        """Whether this call, whose text ran out, is the beginning of a native one. Then it goes out as that one; or not
        at all, where nothing of it did."""
        twins = self.twins if call.written is not None else None
        found = twins and twins.begun(self._client_name(call.name), call, self._waiting, self.heal)
        if not found:
            return False
        native, rest = found
        if native is not None and call.opened:
            self._waiting.remove(native)
            self._waiting_calls -= native.buffered
            native.ended = True
            self._out.append(ArgumentsDelta(call.take() + rest))
        self._merge(native if call.opened else call)
        return True

    def _merge(self, call: PendingCall | None) -> None:
        """This call does not go out, as its twin does."""
        self.tally.native_twins += call is not None and call.written is None
        self._pass_over(call)

    def _drop(self, call: PendingCall, loss: str) -> None:
        """This call does not go out, and that is a loss of this name."""
        (call.counts or self.tally.native).dropped += 1
        self.lost_call(loss)
        self._pass_over(call)

    def _pass_over(self, call: PendingCall | None) -> None:
        """This call does not go out, and the live one is done."""
        if call is not None and call.signature is not None:
            self.lost_signature()
        self._close_block()  # what follows stands behind a call
        self._ends_with_call = True
        self._blank_text = self._blank_thinking = ""
        self._live = None

    def _open_call(self, call: PendingCall) -> bool:
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
        self.tally.written += call.written is not None
        self._open_block(_CALL, ToolCallStart(self._call_id(self.calls, call.id), name, call.signature))
        self._blank_text = self._blank_thinking = ""
        self.calls += 1
        return True

    def _end_live(self) -> bool:
        call = self._live
        assert call is not None
        if not call.ended and (call.closing or call.give_up is not None) and self._is_beginning(call):
            return True
        if not call.ended:
            call.end(clean=False)
        if self._is_surplus(call) and (call.name or call.has_arguments):
            if not self._repeats(call, None):
                self._drop(call, "answer.parallel_tool_calls")
            return True
        if call.give_up is not None:
            self._cut_off = True
            if (failure := call.give_up()) is not None:
                self.fail(failure)
                return False
        if not call.opened and not call.has_arguments and (not call.name or call.give_up is not None):
            # an empty entry that some servers send along; or one that was cut off before its arguments: a client could
            # take it for a call without arguments
            self._live = None
            return True
        if not call.told_end:
            if not call.readable:
                self.tally.native.unreadable += 1
                self.tally.note_bad(self._client_name(call.name), "unreadable")
            self.tally.native.repaired += call.mended
        arguments = call.take() if self._heals(call) and not call.truncated else None
        if arguments is not None:
            assert self.heal is not None
            healed = self.heal(self._client_name(call.name), arguments)
            if isinstance(healed, Failure):
                self.fail(healed)
                return False
            arguments = healed
        if self._repeats(call, arguments):
            return True
        if not call.opened and not self._open_call(call):
            return False
        if arguments:
            self._out.append(ArgumentsDelta(arguments))
        self._flush_live(call)
        self._close_block()
        self._live = None
        return True

    def _advance(self) -> None:
        """Lets what waits go out as far as the calls before it are complete."""
        while self._waiting and self._live is not None and self._live.complete and self._live.name:
            if not self._next_call():
                return

    def _next_call(self) -> bool:
        """The live call is done: what waits goes on. False: the answer failed."""
        if not self._end_live():
            return False
        while self._waiting and self._live is None:
            self._promote()
        return True

    def _promote(self) -> None:
        """The first that waits takes its turn (no call is live)."""
        item = self._waiting.popleft()
        if isinstance(item, PendingCall):
            self._waiting_calls -= item.buffered
            self._live = item
            self._flush_live(item)
            return
        text = "".join(item.pieces)
        self._waiting_text -= len(text)
        self.characters -= len(text)
        (self.text if item.kind is _TEXT else self.thinking)(text)


def too_long_call(tool: str, most: int) -> Failure:
    """A call with more than `most` characters of arguments, in words."""
    return Failure("server", f"The model's call of the tool {tool[:64]!r} has arguments of more than {most} "
                             "characters, the most that this gateway takes (limits.tool_arguments).")
