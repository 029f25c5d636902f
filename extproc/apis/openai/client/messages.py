"""The messages of a chat request -> the system texts and the messages of the conversation model.

Called by `request`. Leading system messages become the system prompt, later ones keep their place. Assistant messages
bring thinking, text and calls; `layout` knows their order. Results get their calls in `tool_results`; whether each call
has exactly one result the provider side looks at, for every client API. The `name` of a message has no place of its
own: where several users (or several voices of the system, as in OpenAI's examples) speak, it goes into the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from extproc.apis.openai.client import wire
from extproc.apis.openai.client.layout import laid_out
from extproc.apis.openai.client.parts import note, read_content
from extproc.apis.openai.client.reasoning import reasoning_of
from extproc.apis.shared.cache_marks import read_mark
from extproc.apis.shared.tool_results import Sent, matched
from extproc.apis.shared.wire import Shape, given, is_string, refused
from extproc.conversation.model import Block, Media, Message, Opaque, Text, Thinking, ToolCall, longest_mark
from extproc.conversation.signatures import extract_from_id
from extproc.conversation.unsupported import Dropped

_turn = Shape(wire.Turn[msgspec.Raw, msgspec.Raw])
_known_turn: msgspec.json.Decoder[wire.KnownTurn] = msgspec.json.Decoder(wire.KnownTurn)
_call = Shape(wire.Call)
_function = Shape(wire.CalledFunction)
_custom = Shape(wire.CalledCustom)
_string = msgspec.json.Decoder(str)
_encode = msgspec.json.Encoder().encode

_LOST = frozenset({"", "null", "none", "undefined"})
"""Ids that are none (in lower case): servers without ids send these words, and clients echo them."""


def decode_messages(messages: Sequence[wire.KnownTurn | msgspec.Raw], dropped: Dropped, *,
                    strays: bool = False) -> tuple[list[Text], list[Message]]:
    """The system texts and the rest of the conversation. `strays`: results that no call can be found for stay, instead
    of being refused here. Raises BadRequest with the place."""
    if not messages:
        raise refused("messages", "expected at least one message")
    turns: list[wire.AnyTurn] = []
    voices: dict[str, set[str]] = {}
    for at, sent in enumerate(messages):
        turn = _read(sent, _place(at), dropped) if isinstance(sent, msgspec.Raw) else sent
        turns.append(turn)
        if turn.name:
            voices.setdefault(turn.role, set()).add(turn.name)
    system: list[Text] = []
    entries: list[Message | list[Sent]] = []
    for at, turn in enumerate(turns):
        if turn.role in ("tool", "function"):
            _add_result(entries, _sent(turn, at, dropped))
            continue
        message = _message(turn, at, dropped)
        if turn.name:
            message = _named(message, turn.name, len(voices[turn.role]), dropped)
        if message.role == "system" and not entries:
            texts = [block for block in message.content if isinstance(block, Text)]
            if len(texts) == len(message.content):
                system += texts
                continue
        entries.append(message)
    return system, matched(entries, dropped, strays=strays)


def _place(at: int) -> str:
    """Of a message: written only where something needs it, since most messages are in order."""
    return f"messages[{at}]"


def _read(raw: msgspec.Raw, path: str, dropped: Dropped) -> wire.AnyTurn:
    """One message of a body that was checked. Only what is odd about it is read part by part."""
    try:
        return _known_turn.decode(raw)
    except msgspec.ValidationError:
        turn, unknown = _turn.read(raw, path)
    note(dropped, "messages", unknown)
    return turn


def _message(turn: wire.AnyTurn, at: int, dropped: Dropped) -> Message:
    if turn.role == "assistant":
        extra = {"reasoning_details": turn.reasoning_details} if given(turn.reasoning_details) else {}
        return Message("assistant", _marked(_assistant(turn, at, dropped), turn), extra)
    if turn.tool_calls:
        raise refused(f"{_place(at)}.tool_calls", f"a message of the role {turn.role} cannot call tools")
    content = _marked(read_content(turn.content, turn.role, at, dropped), turn)
    if turn.role == "user":
        return Message("user", content)
    if turn.role in ("system", "developer"):
        return Message("system", content)
    raise refused(f"{_place(at)}.role", f"unknown role {turn.role!r}: expected system, developer, user, assistant, "
                                        "tool or function")


def _named(message: Message, name: str, voices: int, dropped: Dropped) -> Message:
    """A name tells nothing while there is one voice. Of several assistants it is lost: a model would write the names
    that it finds in its own turns."""
    if voices < 2:
        dropped.hint("messages.name")
        return message
    if message.role == "assistant":
        dropped.loss("messages.name")
        return message
    first = message.content[0] if message.content else None
    if not isinstance(first, Text):
        return Message(message.role, [Text(f"{name}:"), *message.content])
    return Message(message.role, [msgspec.structs.replace(first, text=f"{name}: {first.text}"), *message.content[1:]])


def _marked(blocks: list[Block], turn: wire.AnyTurn) -> list[Block]:
    """A cache mark on the message is one on its last block."""
    mark = read_mark(turn.cache_control)
    if mark and blocks and isinstance(last := blocks[-1], Text | Media | ToolCall):
        blocks[-1] = msgspec.structs.replace(last, cache=longest_mark(mark, last.cache))
    return blocks


# ------------------------------------------------------------------------------------------------------------- results


def _sent(turn: wire.AnyTurn, at: int, dropped: Dropped) -> Sent:
    content: list[Text | Media] = []
    cache = read_mark(turn.cache_control)
    for block in read_content(turn.content, "tool", at, dropped):
        if type(block) is Text or type(block) is Media:
            content.append(block)
            if block.cache:
                cache = longest_mark(cache, block.cache)
        elif isinstance(block, Opaque):
            dropped.loss(f"tool_result.{block.type}")
    legacy = turn.role == "function"
    if legacy and not turn.name:
        raise refused(f"{_place(at)}.name", "this field is required in a message of the role function")
    call_id = "" if legacy else _usable(extract_from_id(turn.tool_call_id or "")[0])
    return Sent(at, call_id, turn.name or None, content, cache=cache, legacy=legacy)


def _add_result(entries: list[Message | list[Sent]], sent: Sent) -> None:
    if entries and isinstance(entries[-1], list):
        entries[-1].append(sent)
    else:
        entries.append([sent])


def _usable(call_id: str) -> str:
    return "" if call_id.lower() in _LOST else call_id


# ----------------------------------------------------------------------------------------------------------- assistant


def _assistant(turn: wire.AnyTurn, at: int, dropped: Dropped) -> list[Block]:
    further = turn.further
    if further:
        _note_lost(turn, dropped)
    content = read_content(turn.content, "assistant", at, dropped)
    if turn.refusal and not any(type(block) is Text and block.text == turn.refusal for block in content):
        content.append(Text(turn.refusal))  # some servers say it as the content, too
    thoughts = (reasoning_of(turn, _place(at), dropped)
                if further and not any(isinstance(block, Thinking) for block in content) else [])
    called: Sequence[msgspec.Raw | wire.KnownCall] = turn.tool_calls or ()
    calls = [_read_call(raw, at, number, dropped) for number, raw in enumerate(called)]
    if given(turn.function_call):
        calls.append(_function_call(turn.function_call, f"{_place(at)}.function_call", _minted(f"{at}"), dropped))
    return laid_out(thoughts, content, calls)


def _note_lost(turn: wire.AnyTurn, dropped: Dropped) -> None:
    if given(turn.audio):
        dropped.loss("messages.audio")
    if given(turn.annotations) and bytes(turn.annotations).strip() != b"[]":
        dropped.hint("messages.annotations")


def _read_call(raw: msgspec.Raw | wire.KnownCall, at: int, number: int, dropped: Dropped) -> ToolCall:
    """The call `number` of the message `at`."""
    if isinstance(raw, wire.KnownCall):
        call_id, signature = extract_from_id(raw.id)
        return ToolCall(_usable(call_id) or _minted(f"{at}.{number}"), raw.function.name, raw.function.arguments,
                        signature=signature)
    path = f"{_place(at)}.tool_calls[{number}]"
    call, unknown = _call.read(raw, path)
    note(dropped, "tool_calls", unknown)
    call_id, signature = extract_from_id(call.id or "")
    call_id = _usable(call_id) or _minted(f"{at}.{number}")
    cache = read_mark(call.cache_control)
    if given(call.extra_content):
        # Of Google's own endpoint. Ours came in ids; of this one nobody knows which model and project issued it, and a
        # Gemini refuses one of another: a call without a signature is taken, with a placeholder where one is needed.
        dropped.hint("tool_calls.extra_content")
    if call.type == "custom" or (not call.type and given(call.custom) and not given(call.function)):
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


def _minted(ordinal: str) -> str:
    """An id for a call that came without one: the same in every later request, since a message keeps its place."""
    return "call_" + blake2b(ordinal.encode(), digest_size=12, person=b"lost id").hexdigest()
