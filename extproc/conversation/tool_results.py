"""Tool calls brought together with their results.

Clients send results in any order, twice, late or not at all; providers demand that every call is answered at once and
exactly once. `pair` turns the messages of a conversation into turns in which each call stands with its one result.
Called by the request encoders of the provider APIs and by the writers of dialects (it knows no API). It repairs what
can be repaired without guessing and raises `BadRequest`, naming the ids, for the rest:

* results out of order, in a later message, or behind user text: moved to their call;
* a call without a result: answered by an error result that says so;
* a result sent twice: the repetition is dropped; two different results of one call: joined, so that nothing is lost;
* an id used by several calls: each further call gets its own id, results go to the nearest call before them;
* a result without a call: refused. Sent on as text it could be taken for the user's words;
* a last message of the user of which nothing is left, behind a turn of the model: a wish to go on stands for it, or the
  model would take its own turn for one that it is to continue.
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
"""What the model reads where a result is missing."""
GO_ON = "Please go on."
"""Stands for a last message of the user that was empty, or held nothing but results of calls further up."""


@final
class Exchange(msgspec.Struct):
    """A call and its result. The call's id is unique in the conversation. `at`: so many blocks of the turn's content
    stand before the call."""

    call: ToolCall
    result: ToolResult | None = None
    at: int = 0


class Turn(msgspec.Struct):
    """One turn without tool blocks, and the exchanges of an assistant turn, in call order."""

    role: Literal["system", "user", "assistant"]
    content: list[Text | Media | Thinking | Opaque]
    exchanges: list[Exchange] = []
    extras: list[dict[str, msgspec.Raw]] = []
    """`Message.extra` of its messages."""

    def in_order(self) -> list[Text | Media | Thinking | Opaque | Exchange]:
        """The content with the exchanges where their calls stand."""
        whole: list[Text | Media | Thinking | Opaque | Exchange] = []
        done = 0
        for exchange in self.exchanges:
            whole += self.content[done:exchange.at]
            whole.append(exchange)
            done = exchange.at
        whole += self.content[done:]
        return whole


def pair(messages: list[Message], dropped: Dropped) -> list[Turn]:
    """The turns of a conversation; consecutive assistant messages become one turn, turns that held nothing but
    results and empty text vanish. What was repaired is named as a hint. Raises `BadRequest`."""
    return _Pairing(messages).turns(dropped)


class _Pairing:
    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages
        self._turns: list[Turn] = []
        self._calls: dict[str, list[tuple[int, Exchange]]] = {}
        """The client's id -> its calls with the position of their turn, in order."""
        self._early: list[ToolResult] = []
        self._repairs: set[str] = set()

    @cached_property
    def _taken(self) -> set[str]:
        """Asked for only where an id comes twice."""
        return set(history_ids(self._messages))

    def _read(self) -> None:
        """Calls, results and the rest of all messages, each in its turn."""
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
                    self._place(block, position)
                elif type(block) is ToolCall:
                    self._call(block, turn, position)
                else:
                    turn.content.append(block)

    def _call(self, call: ToolCall, turn: Turn, position: int) -> None:
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

    def _place(self, result: ToolResult, position: int) -> None:
        calls = self._calls.get(result.call_id, [])
        if len(calls) == 1:
            at, exchange = calls[0]
            if at == position - 1 and exchange.result is None:
                exchange.result = result  # nearly always
                return
        calls = [entry for entry in calls if entry[0] < position]
        if not calls:
            self._early.append(result)
            return
        waiting = [entry for entry in calls if entry[1].result is None]
        if not waiting:
            self._repeat(calls[-1][1], result)
            return
        nearest = max(at for at, _ in waiting)
        exchange = next(exchange for at, exchange in waiting if at == nearest)
        exchange.result = result
        if nearest != position - 1:
            self._repairs.add("tool_result.moved")

    def _repeat(self, exchange: Exchange, result: ToolResult) -> None:
        first = exchange.result
        if first is None or (first.content == result.content and first.is_error == result.is_error):
            self._repairs.add("tool_result.repeated")
            return
        exchange.result = ToolResult(call_id=first.call_id, content=[*first.content, *result.content],
                                     is_error=first.is_error or result.is_error, name=first.name)
        self._repairs.add("tool_result.joined")

    def turns(self, dropped: Dropped) -> list[Turn]:
        self._read()
        if self._early:
            self._place_early()
        turns: list[Turn] = []
        for turn in self._turns:
            for exchange in turn.exchanges:
                if exchange.result is None:
                    exchange.result = ToolResult(exchange.call.id, [Text(NO_RESULT)], is_error=True)
                    self._repairs.add("tool_result.missing")
            if turn.exchanges or _says(turn.content):
                turns.append(turn)
        if self._repairs:
            for name in sorted(self._repairs):
                dropped.hint(name)
        if turns and self._turns[-1].role != "assistant" and turns[-1].role == "assistant" and not turns[-1].exchanges:
            turns.append(Turn(role="user", content=[Text(GO_ON)], exchanges=[]))
        return turns

    def _place_early(self) -> None:
        """Results that stood before their call: taken when the call got no other, refused when there is no call."""
        orphans: list[str] = []
        for result in self._early:
            exchange = next((entry for _, entry in self._calls.get(result.call_id, []) if entry.result is None), None)
            if exchange is None:
                orphans.append(result.call_id)
                continue
            exchange.result = result
            self._repairs.add("tool_result.moved")
        if orphans:
            named = ", ".join(repr(call_id) for call_id in dict.fromkeys(orphans))
            raise BadRequest(f"tool results without a tool call before them: {named}. Send the assistant message that "
                             "made these calls, or leave the results out", code=INVALID_TOOL_RESULTS)


def _says(content: list[Text | Media | Thinking | Opaque]) -> bool:
    """Whether there is anything but empty text."""
    for block in content:  # noqa: SIM110 - a generator for each turn takes as long as the rest
        if type(block) is not Text or block.text:
            return True
    return False
