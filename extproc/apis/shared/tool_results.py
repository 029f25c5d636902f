"""Matches tool results to calls if their ids are missing or unknown: by tool name, by order, or not at all.

Called by the client APIs when all messages are decoded. Clients lose ids: legacy functions have none, some servers send
none, and some clients write new ids for another provider. A result is matched to a call that has no result yet:

* by the id, if the history has it (also to a later call: `conversation.tool_results` reorders these);
* else by the name of the tool, in the nearest turn first, in call order;
* else by order, if ids are missing (not foreign) and the number of results is the number of open calls in the last
  turn; or if there is one result and one open call.

A result without an id that matches no call is refused with its place. One with an unknown id stays unchanged, and
`conversation.tool_results` refuses it by that id. Both refusals have the code `INVALID_TOOL_RESULTS`.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from extproc.conversation.model import CacheMark, Media, Message, Text, ToolCall, ToolResult
from extproc.conversation.unsupported import Dropped
from extproc.errors import INVALID_TOOL_RESULTS, BadRequest


class SentResult(msgspec.Struct):
    """A tool message, number `at` of the request. `call_id` is "" if the client sent none. `legacy`: the result of a
    `function_call`."""

    at: int
    call_id: str
    name: str | None
    content: list[Text | Media]
    cache: CacheMark = False
    legacy: bool = False

    def result(self) -> ToolResult:
        return ToolResult(self.call_id, self.content, name=self.name, cache=self.cache)


def match_results(entries: list[Message | list[SentResult]], dropped: Dropped, *,
                  strays: bool = False) -> list[Message]:
    """The conversation, with each run of tool messages as one user message of results. `strays`: a result without an id
    that matches no call is kept without one. Raises BadRequest."""
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


def match_result_blocks(messages: list[Message], dropped: Dropped) -> list[Message]:
    """The same for a client API whose results are blocks of user messages, with ids that are never empty. Returns the
    same list object if every result has its call."""
    known = {block.id for message in messages for block in message.content if type(block) is ToolCall}
    if all(block.call_id in known for message in messages for block in message.content if type(block) is ToolResult):
        return messages
    waiting: list[list[ToolCall]] = []
    out: list[Message] = []
    for at, message in enumerate(messages):
        group = [SentResult(at, block.call_id, block.name, block.content) for block in message.content
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


def _match(group: list[SentResult], known: set[str], waiting: list[list[ToolCall]], dropped: Dropped, *,
           strays: bool) -> None:
    """Sets the ids of the results in one run of tool messages. `waiting`: the calls of each turn without a result."""
    stray: list[SentResult] = []
    for sent in group:
        if sent.call_id in known:
            _remove_call(sent.call_id, waiting)
        else:
            stray.append(sent)
    if not stray:
        return
    rest = [sent for sent in stray if not _match_by_name(sent, waiting, dropped)]
    if not rest:
        return
    last = next((calls for calls in reversed(waiting) if calls), [])
    nameless = all(sent.name is None for sent in rest)
    if nameless and len(rest) == len(last) and (len(rest) == 1 or not any(sent.call_id for sent in rest)):
        for sent, call in zip(rest, list(last), strict=True):
            _assign(sent, call, waiting, dropped)
        return
    for sent in rest:
        if not sent.call_id and not strays:
            raise BadRequest(f"messages[{sent.at}].tool_call_id: {_no_call(sent.name)}", code=INVALID_TOOL_RESULTS)


def _match_by_name(sent: SentResult, waiting: list[list[ToolCall]], dropped: Dropped) -> bool:
    if sent.name is None:
        return False
    for calls in reversed(waiting):
        for call in calls:
            if call.name == sent.name:
                _assign(sent, call, waiting, dropped)
                return True
    return False


def _assign(sent: SentResult, call: ToolCall, waiting: list[list[ToolCall]], dropped: Dropped) -> None:
    if not sent.legacy:
        dropped.hint("tool_result.id")
    sent.call_id = call.id
    _remove_call(call.id, waiting)


def _remove_call(call_id: str, waiting: list[list[ToolCall]]) -> None:
    for calls in reversed(waiting):
        for call in calls:
            if call.id == call_id:
                calls.remove(call)
                return


def _no_call(name: str | None) -> str:
    if name is None:
        return "this field is required: several calls, or none, could be meant"
    return f"this field is required: no call of the tool {name!r} waits for a result"
