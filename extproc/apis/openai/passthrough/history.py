"""Decides whether the messages of a chat request can reach OpenAI in the client's own bytes.

Clients echo what their SDK accumulated (`index` in calls, `parsed`), put names and images into tool messages, lose ids
and leave calls without a result. OpenAI takes none of these. Such a request is re-encoded from the conversation, which
mends it or names the fault. The order of results is not checked: OpenAI takes any.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from extproc.apis.openai.wire_messages import NativeMessage
from extproc.conversation.signatures import MARK
from extproc.profiles.profile import Profile


class _Part(msgspec.Struct):
    type: str


_part = msgspec.json.Decoder(_Part)


def history_fits(messages: Sequence[NativeMessage], profile: Profile) -> bool:
    """True if every message has OpenAI's fields and a place that the profile takes, every tool message is text, and
    every call has exactly one result."""
    waiting: set[str] = set()
    used: set[str] = set()
    system_only = True
    for message in messages:
        if message.server_fields:
            return False
        if message.role == "tool":
            if message.tool_call_id not in waiting or message.name is not None or not _is_text(message.content):
                return False
            waiting.remove(message.tool_call_id)
            continue
        if waiting:
            return False
        if message.role == "system" and not system_only and not profile.system_anywhere:
            return False
        system_only = system_only and message.role == "system"
        calls = message.tool_calls or ()
        if calls and _changes_calls(profile):
            return False
        waiting = {call.id for call in calls if _is_legal(call.id, profile)} - used
        if len(waiting) < len(calls):
            return False
        used |= waiting
    last = messages[-1].role if messages else ""
    return not waiting and (last != "assistant" or profile.prefill == "plain")


def call_ids(messages: Sequence[NativeMessage]) -> frozenset[str]:
    """The ids of all calls."""
    return frozenset(call.id for message in messages for call in message.tool_calls or ())


def _changes_calls(profile: Profile) -> bool:
    """True if messages with calls have another form at this endpoint, or hold what no plain client sends back."""
    return (profile.tool_call_id_form == "functions" or profile.reasoning_history != "drop"
            or profile.call_signature_placeholder is not None or profile.bridge_after_tools is not None
            or profile.empty_content != "null")


def _is_legal(call_id: str, profile: Profile) -> bool:
    return (0 < len(call_id) <= profile.tool_call_id_max and MARK not in call_id
            and _pattern(profile.tool_call_id_pattern).fullmatch(call_id) is not None)


@lru_cache(maxsize=64)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _is_text(content: str | list[msgspec.Raw] | None) -> bool:
    if isinstance(content, str):
        return True
    try:
        return content is not None and all(_part.decode(part).type == "text" for part in content)
    except msgspec.ValidationError:
        return False
