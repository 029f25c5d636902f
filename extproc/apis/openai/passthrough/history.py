"""Whether the messages of a chat request can reach their provider as the client wrote them.

Clients echo what their SDK accumulated (`index` in calls, `parsed`), put names and images into tool messages, lose ids
and leave calls without a result: OpenAI takes none of these. Such a request is written anew from the conversation,
which mends them or says what is wrong. The order of results is the client's own: OpenAI takes any. Called by the relay
for every request that would pass; it changes nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from extproc.profiles.profile import Profile

Raw = msgspec.Raw


class _Function(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: str


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    type: str
    function: _Function | None = None
    custom: Raw = Raw()


class Turn(msgspec.Struct, forbid_unknown_fields=True):
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


_parts = msgspec.json.Decoder(str | list[_Part])


def may_pass(turns: list[Turn], profile: Profile) -> bool:
    """Whether every message has a place that the profile takes, every tool message the text and every call the one
    result that OpenAI wants."""
    waiting: set[str] = set()
    used: set[str] = set()
    spoken = False
    for turn in turns:
        if turn.role == "tool":
            if turn.tool_call_id not in waiting or turn.name != Raw() or not _is_text(turn.content):
                return False
            waiting.remove(turn.tool_call_id)
            continue
        if waiting:
            return False
        if turn.role == "system" and spoken and not profile.system_anywhere:
            return False
        spoken = spoken or turn.role != "system"
        calls = turn.tool_calls or ()
        if calls and _wants_more_of_calls(profile):
            return False
        waiting = {call.id for call in calls if _legal(call.id, profile)} - used
        if len(waiting) < len(calls):
            return False
        used |= waiting
    last = turns[-1].role if turns else ""
    return not waiting and (last != "assistant" or profile.prefill == "plain")


def ids_of(turns: list[Turn]) -> frozenset[str]:
    """Of all calls."""
    return frozenset(call.id for turn in turns for call in turn.tool_calls or ())


def _wants_more_of_calls(profile: Profile) -> bool:
    """Whether turns with calls have another form at this endpoint, or hold what no plain client sends back."""
    return (profile.tool_call_id_form == "functions" or profile.reasoning_history != "drop"
            or profile.call_signature_placeholder is not None or profile.bridge_after_tools is not None
            or profile.empty_content != "null")


def _legal(call_id: str, profile: Profile) -> bool:
    return (0 < len(call_id) <= profile.tool_call_id_max
            and _pattern(profile.tool_call_id_pattern).fullmatch(call_id) is not None)


@lru_cache(maxsize=64)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _is_text(content: Raw) -> bool:
    try:
        found = _parts.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(found, str) or all(part.type == "text" for part in found)
