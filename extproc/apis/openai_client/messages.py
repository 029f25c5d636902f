"""The messages of a chat request -> the system texts and the messages of the conversation model.

Called by `request`. Leading system messages become the system prompt, later ones keep their place. Assistant messages
bring thinking, text and calls, in this order (the format knows no other). Results get their calls in `matching`;
whether each call has exactly one result the provider side looks at, for every client API.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from extproc.apis.base import Dropped
from extproc.apis.openai_client import wire
from extproc.apis.openai_client.matching import Sent, matched
from extproc.apis.openai_client.parts import note, read_content
from extproc.apis.openai_client.reasoning import reasoning_of
from extproc.apis.openai_client.riding import is_rider, ridden
from extproc.apis.wire import Shape, given, is_string, refused
from extproc.carrying import origin_of, unloaded_id
from extproc.conversation import Block, Media, Message, Opaque, Signature, Text, Thinking, ToolCall

_turn = Shape(wire.Turn)
_call = Shape(wire.Call)
_function = Shape(wire.CalledFunction)
_custom = Shape(wire.CalledCustom)
_extra_content = msgspec.json.Decoder(wire.ExtraContent)
_string = msgspec.json.Decoder(str)
_encode = msgspec.json.Encoder().encode

GOOGLE = origin_of("google")
"""Origin of a signature that a client got from Google's own OpenAI-compatible endpoint."""

_LOST = frozenset({"", "null", "none", "undefined"})
"""Ids that are none (in lower case): servers without ids send these words, and clients echo them."""


def decode_messages(messages: list[msgspec.Raw], dropped: Dropped) -> tuple[list[Text], list[Message]]:
    """The system texts and the rest of the conversation. Raises BadRequest with the place."""
    if not messages:
        raise refused("messages", "expected at least one message")
    system: list[Text] = []
    entries: list[Message | list[Sent]] = []
    for position, raw in enumerate(messages):
        path = f"messages[{position}]"
        turn, unknown = _turn.read(raw, path)
        note(dropped, "messages", unknown)
        if turn.role in ("tool", "function"):
            _add_result(entries, _sent(turn, path, dropped))
            continue
        message = _message(turn, path, position, dropped)
        texts = [block for block in message.content if isinstance(block, Text)]
        if message.role == "system" and not entries and len(texts) == len(message.content):
            system += texts
        else:
            entries.append(message)
    return system, matched(entries, dropped)


def _message(turn: wire.Turn, path: str, position: int, dropped: Dropped) -> Message:
    if turn.name:
        dropped.loss("messages.name")
    if turn.role == "assistant":
        return Message("assistant", _marked(_assistant(turn, path, position, dropped), turn))
    if turn.tool_calls:
        raise refused(f"{path}.tool_calls", f"a message of the role {turn.role} cannot call tools")
    content = _marked(read_content(turn.content, turn.role, f"{path}.content", dropped), turn)
    if turn.role == "user":
        return Message("user", content)
    if turn.role in ("system", "developer"):
        return Message("system", content)
    raise refused(f"{path}.role", f"unknown role {turn.role!r}: expected system, developer, user, assistant, tool or "
                                  "function")


def _marked(blocks: list[Block], turn: wire.Turn) -> list[Block]:
    """A cache mark on the message is one on its last block."""
    if given(turn.cache_control) and blocks and isinstance(blocks[-1], Text | Media | ToolCall):
        blocks[-1] = msgspec.structs.replace(blocks[-1], cache=True)
    return blocks


# ------------------------------------------------------------------------------------------------------------- results


def _sent(turn: wire.Turn, path: str, dropped: Dropped) -> Sent:
    content: list[Text | Media] = []
    for block in read_content(turn.content, "tool", f"{path}.content", dropped):
        if isinstance(block, Text | Media):
            content.append(block)
        elif isinstance(block, Opaque):
            dropped.loss(f"tool_result.{block.type}")
    legacy = turn.role == "function"
    if legacy and not turn.name:
        raise refused(f"{path}.name", "this field is required in a message of the role function")
    call_id = "" if legacy else _usable(unloaded_id(turn.tool_call_id or "")[0])
    cache = given(turn.cache_control) or any(block.cache for block in content)
    return Sent(path, call_id, turn.name or None, content, cache=cache, legacy=legacy)


def _add_result(entries: list[Message | list[Sent]], sent: Sent) -> None:
    if entries and isinstance(entries[-1], list):
        entries[-1].append(sent)
    else:
        entries.append([sent])


def _usable(call_id: str) -> str:
    return "" if call_id.lower() in _LOST else call_id


# ----------------------------------------------------------------------------------------------------------- assistant


def _assistant(turn: wire.Turn, path: str, position: int, dropped: Dropped) -> list[Block]:
    if given(turn.audio):
        dropped.loss("messages.audio")
    if given(turn.annotations) and bytes(turn.annotations).strip() != b"[]":
        dropped.hint("messages.annotations")
    content = read_content(turn.content, "assistant", f"{path}.content", dropped)
    if turn.refusal and not content:
        content.append(Text(turn.refusal))
    thinking: list[Block] = []
    if not any(isinstance(block, Thinking) for block in content):
        thinking += reasoning_of(turn, path, dropped)
    calls = [_read_call(raw, f"{path}.tool_calls[{at}]", f"{position}.{at}", dropped)
             for at, raw in enumerate(turn.tool_calls or ())]
    if given(turn.function_call):
        calls.append(_function_call(turn.function_call, f"{path}.function_call", _minted(f"{position}"), dropped))
    return _with_riders([*thinking, *content], calls)


def _with_riders(content: list[Block], calls: list[ToolCall]) -> list[Block]:
    """The message with the blocks that rode in ids and that nothing else brought back. Those of the first call stood
    before all of it; where they are one signature and the message has one plain reasoning, they belong together."""
    seen = {block.signature or block.redacted for block in content if isinstance(block, Thinking)}
    ridden_by = [[block for block in ridden(call.signature) if (block.signature or block.redacted) not in seen]
                 for call in calls]
    first, *others = ridden_by or [[]]
    plain = [at for at, block in enumerate(content) if isinstance(block, Thinking)]
    if (len(plain) == 1 and seen == {None} and len(first) == 1 and first[0].signature is not None
            and not any(others)):
        content[plain[0]] = msgspec.structs.replace(content[plain[0]], signature=first[0].signature)
        first = []
    out: list[Block] = [*first, *content]
    for call, before in zip(calls, [[], *others], strict=False):
        out += before
        out.append(msgspec.structs.replace(call, signature=None) if is_rider(call.signature) else call)
    return out


def _read_call(raw: msgspec.Raw, path: str, ordinal: str, dropped: Dropped) -> ToolCall:
    call, unknown = _call.read(raw, path)
    note(dropped, "tool_calls", unknown)
    call_id, signature = unloaded_id(call.id or "")
    call_id = _usable(call_id) or _minted(ordinal)
    cache = given(call.cache_control)
    if signature is None:
        signature = _google_signature(call.extra_content, dropped)
    if call.type == "custom" or (call.type is None and given(call.custom)):
        if not given(call.custom):
            raise refused(f"{path}.custom", "this field is required")
        custom, unknown = _custom.read(call.custom, f"{path}.custom")
        note(dropped, "tool_calls.custom", unknown)
        return ToolCall(call_id, custom.name, _encode({"input": custom.input}).decode(), cache, signature)
    if call.type not in ("function", None, ""):
        raise refused(f"{path}.type", f"unknown type {call.type!r}: expected function or custom")
    if not given(call.function):
        raise refused(f"{path}.function", "this field is required")
    read = _function_call(call.function, f"{path}.function", call_id, dropped)
    return msgspec.structs.replace(read, cache=cache, signature=signature)


def _function_call(raw: msgspec.Raw, path: str, call_id: str, dropped: Dropped) -> ToolCall:
    """The arguments stay the client's own text: prompt caches and models see what they saw before."""
    function, unknown = _function.read(raw, path)
    note(dropped, "tool_calls.function", unknown)
    arguments = ""
    if given(function.arguments):
        arguments = (_string.decode(function.arguments) if is_string(function.arguments)
                     else bytes(function.arguments).decode())
    return ToolCall(call_id, function.name, arguments)


def _google_signature(raw: msgspec.Raw, dropped: Dropped) -> Signature | None:
    if not given(raw):
        return None
    try:
        google = _extra_content.decode(raw).google
    except msgspec.ValidationError:
        google = None
    if google is not None and google.thought_signature:
        return Signature(google.thought_signature, GOOGLE)
    dropped.hint("tool_calls.extra_content")
    return None


def _minted(ordinal: str) -> str:
    """An id for a call that came without one: the same in every later request, since a message keeps its place."""
    return "call_" + blake2b(ordinal.encode(), digest_size=12, person=b"lost id").hexdigest()
