"""Whether the messages of a chat request can reach OpenAI as the client wrote them.

Clients echo what their SDK accumulated (`index` in calls, `parsed`), put names and images into tool messages, lose ids
and leave calls without a result: OpenAI takes none of these. Such a request is written anew from the conversation,
which mends them or says what is wrong. The order of results is the client's own: OpenAI takes any. Called by the relay
for every request that would pass; it changes nothing.
"""

from __future__ import annotations

import msgspec

Raw = msgspec.Raw


class _Function(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: str


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    type: str
    function: _Function | None = None
    custom: Raw = Raw()


class _Turn(msgspec.Struct, forbid_unknown_fields=True):
    """A message with the fields of the API reference, and `annotations`, which answers hold."""

    role: str
    content: Raw = Raw()
    name: Raw = Raw()
    tool_call_id: str | None = None
    tool_calls: list[_Call] | None = None
    refusal: Raw = Raw()
    audio: Raw = Raw()
    annotations: Raw = Raw()
    function_call: Raw = Raw()


class _Part(msgspec.Struct):
    type: str


_turns = msgspec.json.Decoder(list[_Turn])
_parts = msgspec.json.Decoder(str | list[_Part])


def may_pass(messages: Raw, longest_id: int) -> bool:
    """Whether every message has the fields, every tool message the text and every call the one result that OpenAI
    wants. `longest_id`: characters of a tool call id."""
    try:
        turns = _turns.decode(messages)
        waiting: set[str] = set()
        used: set[str] = set()
        for turn in turns:
            if turn.role == "tool":
                if turn.tool_call_id not in waiting or turn.name != Raw() or not _is_text(turn.content):
                    return False
                waiting.remove(turn.tool_call_id)
                continue
            if waiting:
                return False
            calls = turn.tool_calls or ()
            waiting = {call.id for call in calls if 0 < len(call.id) <= longest_id} - used
            if len(waiting) < len(calls):
                return False
            used |= waiting
    except (msgspec.DecodeError, RecursionError):
        return False
    return not waiting


def _is_text(content: Raw) -> bool:
    found = _parts.decode(content)
    return isinstance(found, str) or all(part.type == "text" for part in found)
