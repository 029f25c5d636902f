"""Tool results whose call is not named, or not by an id of the history: found by name, by order, or refused.

Called by the client APIs once all messages are read. Clients lose ids on the way: legacy functions have none, some
servers send none, and some clients write ids anew for another provider. A result goes to a call that still waits for
one:

* by the id, where the history has it (also of a call that comes later: `pairing` puts that right);
* else by the name of the tool, the nearest turn first, in call order;
* else by order, when ids are missing (not foreign) and exactly as many results came as calls wait in the last turn; or
  when one result came and one call waits.

A result without an id that fits nowhere is refused with its place. One with an unknown id stays as it is: `pairing`
refuses it by that id. Both refusals have the code `INVALID_TOOL_RESULTS`.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from extproc.conversation.model import CacheMark, Media, Message, Text, ToolCall, ToolResult
from extproc.conversation.unsupported import Dropped
from extproc.errors import INVALID_TOOL_RESULTS, BadRequest


class Sent(msgspec.Struct):
    """A tool message, number `at` of the request. `call_id` is "" where the client sent none; `legacy`: it answers a
    `function_call`."""

    at: int
    call_id: str
    name: str | None
    content: list[Text | Media]
    cache: CacheMark = False
    legacy: bool = False

    def result(self) -> ToolResult:
        return ToolResult(self.call_id, self.content, name=self.name, cache=self.cache)


def matched(entries: list[Message | list[Sent]], dropped: Dropped, *, strays: bool = False) -> list[Message]:
    """The conversation: each run of tool messages becomes one user message of results. `strays`: a result without an id
    that fits nowhere keeps none. Raises BadRequest."""
    known = {block.id for entry in entries if not isinstance(entry, list) for block in entry.content
             if type(block) is ToolCall}
    waiting: list[list[ToolCall]] = []
    messages: list[Message] = []
    for entry in entries:
        if not isinstance(entry, list):
            messages.append(entry)
            if calls := [block for block in entry.content if type(block) is ToolCall]:
                waiting.append(calls)
            continue
        _match(entry, known, waiting, dropped, strays=strays)
        messages.append(Message("user", [sent.result() for sent in entry]))
    return messages


def matched_in_place(messages: list[Message], dropped: Dropped) -> list[Message]:
    """The same for a client API whose results are blocks of user messages, with ids that are never empty. The very same
    list where every result has its call."""
    known = {block.id for message in messages for block in message.content if type(block) is ToolCall}
    if all(block.call_id in known for message in messages for block in message.content if type(block) is ToolResult):
        return messages
    waiting: list[list[ToolCall]] = []
    out: list[Message] = []
    for at, message in enumerate(messages):
        group = [Sent(at, block.call_id, block.name, block.content) for block in message.content
                 if type(block) is ToolResult]
        if group:
            _match(group, known, waiting, dropped, strays=True)
            found = iter(group)
            message = replace(message, content=[
                replace(block, call_id=next(found).call_id) if type(block) is ToolResult else block
                for block in message.content])
        out.append(message)
        if calls := [block for block in message.content if type(block) is ToolCall]:
            waiting.append(calls)
    return out


def _match(group: list[Sent], known: set[str], waiting: list[list[ToolCall]], dropped: Dropped, *,
           strays: bool) -> None:
    """Gives each result of one run of tool messages its id; `waiting` holds the unanswered calls of each turn."""
    stray: list[Sent] = []
    for sent in group:
        if sent.call_id in known:
            _answered(sent.call_id, waiting)
        else:
            stray.append(sent)
    if not stray:
        return
    rest = [sent for sent in stray if not _by_name(sent, waiting, dropped)]
    if not rest:
        return
    last = next((calls for calls in reversed(waiting) if calls), [])
    nameless = all(sent.name is None for sent in rest)
    if nameless and len(rest) == len(last) and (len(rest) == 1 or not any(sent.call_id for sent in rest)):
        for sent, call in zip(rest, list(last), strict=True):
            _take(sent, call, waiting, dropped)
        return
    for sent in rest:
        if not sent.call_id and not strays:
            raise BadRequest(f"messages[{sent.at}].tool_call_id: {_no_call(sent.name)}", code=INVALID_TOOL_RESULTS)


def _by_name(sent: Sent, waiting: list[list[ToolCall]], dropped: Dropped) -> bool:
    if sent.name is None:
        return False
    for calls in reversed(waiting):
        for call in calls:
            if call.name == sent.name:
                _take(sent, call, waiting, dropped)
                return True
    return False


def _take(sent: Sent, call: ToolCall, waiting: list[list[ToolCall]], dropped: Dropped) -> None:
    if not sent.legacy:
        dropped.hint("tool_result.id")
    sent.call_id = call.id
    _answered(call.id, waiting)


def _answered(call_id: str, waiting: list[list[ToolCall]]) -> None:
    for calls in reversed(waiting):
        for call in calls:
            if call.id == call_id:
                calls.remove(call)
                return


def _no_call(name: str | None) -> str:
    if name is None:
        return "this field is required: several calls, or none, could be meant"
    return f"this field is required: no call of the tool {name!r} waits for a result"
