"""A Responses request that can reach its provider in the client's own bytes, and the changes that are made to it.

Changed are the model's name, the output limit, `store` (false, always) and `include` (the encrypted reasoning, always).
Reasoning is unwrapped (`reasoning`). Removed are the ids of items (nothing is stored; ids of calls stay), what names
the client's machine, and what the API would refuse: reasoning of other providers, and reasoning that stands alone. A
request that needs any other change is re-encoded from the conversation: signatures in ids, torn calls, compaction,
settings of the attempt, and what the profile does not have.
"""

from __future__ import annotations

import re

import msgspec

from extproc.apis.base import PatchedRequest, ProviderRequest, request_headers
from extproc.apis.responses.client.request import ResponsesRequest, decode_request
from extproc.apis.responses.passthrough.reasoning import unwrap_reasoning
from extproc.apis.responses.provider.parameters import ENCRYPTED_REASONING, LEAST_OUTPUT
from extproc.apis.responses.provider.request import responses_path
from extproc.apis.shared.body import checked
from extproc.apis.shared.efforts import limit_at, reasoning_effort
from extproc.apis.shared.json_fields import Fields, elements_of, encode_fields, encode_raw, fields_of, has_value
from extproc.bounds import Limits
from extproc.conversation.ids import history_ids
from extproc.conversation.model import ToolCall
from extproc.conversation.signatures import MARK
from extproc.conversation.tool_results import pair
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.profiles.target import Target

_LONGEST_ID = 64
_REASONING = encode_raw(ENCRYPTED_REASONING)
_PRIVATE = ("client_metadata",)
"""Fields of Codex that name the machine."""
_NOTES = "internal_chat_message_metadata_passthrough"
"""Codex's notes on an item, which belong to its own service."""

_OTHERS = re.compile(rb'"xc1\.|%b' % MARK.encode())
"""Summaries of this gateway, and signatures of another provider in the ids of calls."""
_WITHOUT_ID = frozenset({"message", "reasoning", "function_call", "function_call_output", "custom_tool_call",
                         "custom_tool_call_output", "tool_search_call", "tool_search_output"})
"""Items whose `id` refers to something stored. Without it the API checks no order of items."""
_TORN = ("tool_result.",)
"""Names of repairs of calls and results: they change the order or the content of items."""
_COMBINATIONS = frozenset({"oneOf", "anyOf", "allOf", "enum", "not"})
"""Keywords that the API refuses at the top of a function's parameters."""


class _ItemHead(msgspec.Struct):
    type: str = "message"
    role: str = ""


_head = msgspec.json.Decoder(_ItemHead)


def patch_request(body: bytes, target: Target, limits: Limits, dropped: Dropped) -> PatchedRequest | None:
    """See `PassThrough.patch_request`."""
    if not _is_plain(target) or _OTHERS.search(body):
        return None
    body = checked(body, limits.json_depth)
    fields = fields_of(body)
    try:
        repairs = Dropped()
        request = decode_request(body, repairs, limits)
        if fields is None or not _fits(request, target, repairs):
            return None
    except BadRequest:
        return None  # decoding it again says what is wrong with it
    _change(fields, request, target, dropped)
    head = request_headers(stream=request.stream)
    sent = ProviderRequest(method="POST", path=responses_path(target), headers=head, body=encode_fields(fields))
    return PatchedRequest(sent, request, history_ids(request.messages))


def _is_plain(target: Target) -> bool:
    """True if endpoint and attempt change nothing in a request."""
    profile = target.profile
    return (profile.faithful and profile.native_tools and target.tool_style in ("auto", "native")
            and target.tool_choice is None and target.parallel_tool_calls is None)


def _fits(request: ResponsesRequest, target: Target, repairs: Dropped) -> bool:
    """`repairs`: what was repaired in the history."""
    profile = target.profile
    ids = [block.id for message in request.messages for block in message.content if type(block) is ToolCall]
    pair(request.messages, repairs)
    if request.compaction or any(name.startswith(_TORN) for name in repairs.hints):
        return False
    if request.summary is not None and not target.reasoning_summaries:
        return False
    thinking = request.thinking
    if thinking is not None and (profile.reasoning == "none" or (
            thinking.effort is not None and reasoning_effort(thinking, profile, Dropped()) != thinking.effort)):
        return False
    return (len(set(ids)) == len(ids) and all(len(call_id) <= _LONGEST_ID for call_id in ids)
            and (profile.custom_tools or not any(tool.custom for tool in request.tools))
            and not any(getattr(request, name, None) is not None for name in profile.refuses & {"temperature", "top_p"})
            and len(request.tools) <= target.max_tools
            and all(map(target.permits_tool, (tool.name for tool in request.tools)))
            and not any(_COMBINATIONS & tool.schema.keys() for tool in request.tools)
            and (target.only_tools is None or not request.server_tools))


def _change(fields: Fields, request: ResponsesRequest, target: Target, dropped: Dropped) -> None:
    fields["model"] = encode_raw(target.model)
    fields["store"] = encode_raw(False)
    fields["include"] = _included(fields.get("include"), reasons=target.profile.reasoning != "none")
    for name in _PRIVATE:
        fields.pop(name, None)
    limit = limit_at(request.max_output_tokens, target, dropped)
    if limit is not None:
        fields["max_output_tokens"] = encode_raw(max(LEAST_OUTPUT, limit))
    items = elements_of(fields["input"])
    if items is not None:
        fields["input"] = encode_raw(_items(items, target, dropped))


def _included(include: msgspec.Raw | None, *, reasons: bool) -> msgspec.Raw:
    """With the encrypted reasoning, which a model that does not reason refuses."""
    wanted = (elements_of(include) or []) if include is not None and has_value(include) else []
    others = [one for one in wanted if one != _REASONING]
    return encode_raw([*others, _REASONING] if reasons else others)


def _items(items: list[msgspec.Raw], target: Target, dropped: Dropped) -> list[msgspec.Raw]:
    """The items without ids and notes, with the provider's own reasoning if an item of the model follows."""
    kept: list[msgspec.Raw] = []
    follows = False     # an item of the model comes next
    for raw in reversed(items):
        head = _head.decode(raw)
        members = fields_of(raw) or {}
        changed = members.pop(_NOTES, None) is not None
        if head.type in _WITHOUT_ID:
            changed = members.pop("id", None) is not None or changed
        if head.type == "reasoning":
            if not follows or not unwrap_reasoning(members, target):
                dropped.hint("input.reasoning")
                continue
            members.pop("content", None)
            changed = True
        else:
            follows = head.type.endswith("_call") or (head.type == "message" and head.role == "assistant")
        kept.append(msgspec.Raw(encode_fields(members)) if changed else raw)
    return kept[::-1]
