"""Pairs tool calls with their results.

Clients send results in any order, twice, late or not at all; providers demand that every call is followed at once by
exactly one result. `pair` converts the messages of a conversation to turns in which each call has its one result.
Called by the request encoders of provider APIs and of dialects; knows no API. It repairs what can be repaired without
guessing:

* results out of order, in a later message, or after user text: moved to their call;
* a call without a result: gets an error result that says so;
* a result sent twice: the repetition is dropped. Two different results of one call: joined, so that nothing is lost;
* an id used by several calls: each further call gets its own id, and results go to the nearest call before them;
* a last message of the user that is empty then, after a turn of the model: replaced by a request to go on, or the model
  would continue its own turn.

A result without a call raises `BadRequest` with the ids: as text it could be taken for the user's words.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal, final

import msgspec

from extproc.conversation.ids import history_ids, repeated_id
from extproc.conversation.model import Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from extproc.conversation.unsupported import Dropped
from extproc.errors import INVALID_TOOL_RESULTS, BadRequest

NO_RESULT = "no result was returned for this call"
"""The content of the result that replaces a missing one."""
GO_ON = "Please go on."
"""Replaces a last message of the user that was empty, or held nothing but results of earlier calls."""


@final
class Exchange(msgspec.Struct):
    """A call and its result. The call's id is unique in the conversation. `at`: the number of blocks of the turn's
    content before the call."""

    call: ToolCall
    result: ToolResult | None = None
    at: int = 0


class Turn(msgspec.Struct):
    """One turn: its content without tool blocks, and the exchanges of an assistant turn in the order of the calls."""

    role: Literal["system", "user", "assistant"]
    content: list[Text | Media | Thinking | Opaque]
    exchanges: list[Exchange] = []
    extras: list[dict[str, msgspec.Raw]] = []
    """`Message.extra` of its messages."""

    def in_order(self) -> list[Text | Media | Thinking | Opaque | Exchange]:
        """The content, with each exchange at the place of its call."""
        whole: list[Text | Media | Thinking | Opaque | Exchange] = []
        done = 0
        for exchange in self.exchanges:
            whole += self.content[done:exchange.at]
            whole.append(exchange)
            done = exchange.at
        whole += self.content[done:]
        return whole


def pair(messages: list[Message], dropped: Dropped) -> list[Turn]:
    """The turns of a conversation. Consecutive assistant messages become one turn; turns of nothing but results and
    empty text are left out. Repairs are named in `dropped`. Raises `BadRequest`."""
    return _Pairing(messages).paired_turns(dropped)


class _Pairing:
    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages
        self._turns: list[Turn] = []
        self._calls: dict[str, list[tuple[int, Exchange]]] = {}
        """The client's id -> (position of the turn, exchange) of its calls, in order."""
        self._results_before_calls: list[ToolResult] = []
        self._repairs: set[str] = set()

    @cached_property
    def _taken(self) -> set[str]:
        """All ids of the conversation. Needed only if an id comes twice."""
        return set(history_ids(self._messages))

    def _read_messages(self) -> None:
        """Puts the blocks of all messages into turns."""
        turn: Turn | None = None
        for message in self._messages:
            if turn is None or message.role != "assistant" or turn.role != "assistant":
                turn = Turn(message.role, [], [])
                self._turns.append(turn)
            if message.extra:
                turn.extras = [*turn.extras, message.extra]
            position = len(self._turns) - 1
            for block in message.content:
                if type(block) is ToolResult:
                    self._attach_result(block, position)
                elif type(block) is ToolCall:
                    self._add_call(block, turn, position)
                else:
                    turn.content.append(block)

    def _add_call(self, call: ToolCall, turn: Turn, position: int) -> None:
        if turn.role != "assistant":
            raise BadRequest(f"the tool call {call.id!r} stands in a {turn.role} message; only assistant messages "
                             "call tools")
        earlier = self._calls.setdefault(call.id, [])
        unique = call
        if earlier:
            number = len(earlier)
            new = repeated_id(call.id, number)
            while new in self._taken:
                number += 1
                new = repeated_id(new, number)
            self._taken.add(new)
            unique = msgspec.structs.replace(call, id=new)
        exchange = Exchange(unique, None, len(turn.content))
        earlier.append((position, exchange))
        turn.exchanges.append(exchange)

    def _attach_result(self, result: ToolResult, position: int) -> None:
        calls = self._calls.get(result.call_id, [])
        if len(calls) == 1:
            at, exchange = calls[0]
            if at == position - 1 and exchange.result is None:
                exchange.result = result  # the usual case
                return
        calls = [entry for entry in calls if entry[0] < position]
        if not calls:
            self._results_before_calls.append(result)
            return
        unanswered = [entry for entry in calls if entry[1].result is None]
        if not unanswered:
            self._merge_result(calls[-1][1], result)
            return
        nearest = max(at for at, _ in unanswered)
        exchange = next(exchange for at, exchange in unanswered if at == nearest)
        exchange.result = result
        if nearest != position - 1:
            self._repairs.add("tool_result.moved")

    def _merge_result(self, exchange: Exchange, result: ToolResult) -> None:
        first = exchange.result
        if first is None or (first.content == result.content and first.is_error == result.is_error):
            self._repairs.add("tool_result.repeated")
            return
        exchange.result = ToolResult(call_id=first.call_id, content=[*first.content, *result.content],
                                     is_error=first.is_error or result.is_error, name=first.name)
        self._repairs.add("tool_result.joined")

    def paired_turns(self, dropped: Dropped) -> list[Turn]:
        self._read_messages()
        if self._results_before_calls:
            self._attach_early_results()
        turns: list[Turn] = []
        for turn in self._turns:
            for exchange in turn.exchanges:
                if exchange.result is None:
                    exchange.result = ToolResult(exchange.call.id, [Text(NO_RESULT)], is_error=True)
                    self._repairs.add("tool_result.missing")
            if turn.exchanges or _holds_content(turn.content):
                turns.append(turn)
        if self._repairs:
            for name in sorted(self._repairs):
                dropped.hint(name)
        if turns and self._turns[-1].role != "assistant" and turns[-1].role == "assistant" and not turns[-1].exchanges:
            turns.append(Turn(role="user", content=[Text(GO_ON)], exchanges=[]))
        return turns

    def _attach_early_results(self) -> None:
        """Attaches results that came before their call, if the call has no other. Raises `BadRequest` if there is no
        such call."""
        orphans: list[str] = []
        for result in self._results_before_calls:
            exchange = next((entry for _, entry in self._calls.get(result.call_id, []) if entry.result is None), None)
            if exchange is None:
                orphans.append(result.call_id)
                continue
            exchange.result = result
            self._repairs.add("tool_result.moved")
        if orphans:
            ids = ", ".join(repr(call_id) for call_id in dict.fromkeys(orphans))
            raise BadRequest(f"tool results without a tool call before them: {ids}. Send the assistant message that "
                             "made these calls, or leave the results out", code=INVALID_TOOL_RESULTS)


def _holds_content(content: list[Text | Media | Thinking | Opaque]) -> bool:
    """True if there is anything but empty text."""
    for block in content:  # noqa: SIM110 - a generator for each turn takes as long as the rest
        if type(block) is not Text or block.text:
            return True
    return False
