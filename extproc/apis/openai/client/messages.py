"""The messages of a chat request -> the system texts and the messages of the conversation model.

Called by `request`. Leading system messages become the system prompt, later ones keep their position. An assistant
message has separate fields for reasoning, text and calls. Thinking that went out through this gateway carries its
position (`signatures`); other thinking comes first. `tool_results` matches results with calls; the provider side checks
that each call has exactly one result, for every client API. The `name` of a message has no field in the model: where
several users (or several system speakers, as in OpenAI's examples) speak, it goes into the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from extproc.apis.openai.client.parts import note_unknown, read_content
from extproc.apis.openai.client.reasoning import read_reasoning
from extproc.apis.openai.client.signatures import BlockPosition, PositionedThinking, extract_blocks, holds_blocks
from extproc.apis.openai.wire_messages import (
    AnyMessage,
    ClientCall,
    ClientFunctionCall,
    ClientMessage,
    CustomInput,
    KnownCall,
    KnownMessage,
)
from extproc.apis.shared.cache_marks import read_mark
from extproc.apis.shared.tool_results import SentResult, match_results
from extproc.apis.shared.wire import Shape, given, is_string, refused
from extproc.conversation.model import Block, Media, Message, Opaque, Text, Thinking, ToolCall, longest_mark
from extproc.conversation.signatures import extract_from_id
from extproc.conversation.unsupported import Dropped

_turn = Shape(ClientMessage[msgspec.Raw, msgspec.Raw])
_known_turn: msgspec.json.Decoder[KnownMessage] = msgspec.json.Decoder(KnownMessage)
_call = Shape(ClientCall)
_function = Shape(ClientFunctionCall)
_custom = Shape(CustomInput)
_string = msgspec.json.Decoder(str)
_encode = msgspec.json.Encoder().encode

_LOST = frozenset({"", "null", "none", "undefined"})
"""Words that are no ids (in lower case): servers without ids send them, and clients echo them."""


def decode_messages(messages: Sequence[KnownMessage | msgspec.Raw], dropped: Dropped, *,
                    strays: bool = False) -> tuple[list[Text], list[Message]]:
    """The system texts and the rest of the conversation. `strays`: keep results for which no call is found, instead of
    refusing them. Raises BadRequest with the place."""
    if not messages:
        raise refused("messages", "expected at least one message")
    turns: list[AnyMessage] = []
    voices: dict[str, set[str]] = {}
    for at, sent in enumerate(messages):
        turn = _read_message(sent, _path(at), dropped) if isinstance(sent, msgspec.Raw) else sent
        turns.append(turn)
        if turn.name:
            voices.setdefault(turn.role, set()).add(turn.name)
    system: list[Text] = []
    entries: list[Message | list[SentResult]] = []
    for at, turn in enumerate(turns):
        if turn.role in ("tool", "function"):
            _add_result(entries, _read_result(turn, at, dropped))
            continue
        message = _decode_message(turn, at, dropped)
        if turn.name:
            message = _with_name(message, turn.name, len(voices[turn.role]), dropped)
        if message.role == "system" and not entries:
            texts = [block for block in message.content if isinstance(block, Text)]
            if len(texts) == len(message.content):
                system += texts
                continue
        entries.append(message)
    return system, match_results(entries, dropped, strays=strays)


def _path(at: int) -> str:
    """The path of a message. Built only when needed, since most messages are valid."""
    return f"messages[{at}]"


def _read_message(raw: msgspec.Raw, path: str, dropped: Dropped) -> AnyMessage:
    """One message of a checked body. Only a message with an unusual part is read part by part."""
    try:
        return _known_turn.decode(raw)
    except msgspec.ValidationError:
        turn, unknown = _turn.read(raw, path)
    note_unknown(dropped, "messages", unknown)
    return turn


def _decode_message(turn: AnyMessage, at: int, dropped: Dropped) -> Message:
    if turn.role == "assistant":
        extra = {"reasoning_details": turn.reasoning_details} if given(turn.reasoning_details) else {}
        return Message("assistant", _with_mark(_read_assistant(turn, at, dropped), turn), extra)
    if turn.tool_calls:
        raise refused(f"{_path(at)}.tool_calls", f"a message of the role {turn.role} cannot call tools")
    content = _with_mark(read_content(turn.content, turn.role, at, dropped), turn)
    if turn.role == "user":
        return Message("user", content)
    if turn.role in ("system", "developer"):
        return Message("system", content)
    raise refused(f"{_path(at)}.role", f"unknown role {turn.role!r}: expected system, developer, user, assistant, "
                                        "tool or function")


def _with_name(message: Message, name: str, voices: int, dropped: Dropped) -> Message:
    """A name carries no information while there is only one speaker. Names of several assistants are dropped: a model
    would imitate the names in its own turns."""
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


def _with_mark(blocks: list[Block], turn: AnyMessage) -> list[Block]:
    """A cache mark on the message applies to its last block."""
    mark = read_mark(turn.cache_control)
    if mark and blocks and isinstance(last := blocks[-1], Text | Media | ToolCall):
        blocks[-1] = msgspec.structs.replace(last, cache=longest_mark(mark, last.cache))
    return blocks


# ------------------------------------------------------------------------------------------------------------- results


def _read_result(turn: AnyMessage, at: int, dropped: Dropped) -> SentResult:
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
        raise refused(f"{_path(at)}.name", "this field is required in a message of the role function")
    call_id = "" if legacy else _id_or_empty(extract_from_id(turn.tool_call_id or "")[0])
    return SentResult(at, call_id, turn.name or None, content, cache=cache, legacy=legacy)


def _add_result(entries: list[Message | list[SentResult]], sent: SentResult) -> None:
    if entries and isinstance(entries[-1], list):
        entries[-1].append(sent)
    else:
        entries.append([sent])


def _id_or_empty(call_id: str) -> str:
    return "" if call_id.lower() in _LOST else call_id


# ----------------------------------------------------------------------------------------------------------- assistant


def _read_assistant(turn: AnyMessage, at: int, dropped: Dropped) -> list[Block]:
    raw_fields = turn.raw_fields
    if raw_fields:
        _note_lost(turn, dropped)
    content = read_content(turn.content, "assistant", at, dropped)
    if turn.refusal and not any(type(block) is Text and block.text == turn.refusal for block in content):
        content.append(Text(turn.refusal))  # some servers repeat it as content
    thoughts = (read_reasoning(turn, _path(at), dropped)
                if raw_fields and not any(isinstance(block, Thinking) for block in content) else [])
    called: Sequence[msgspec.Raw | KnownCall] = turn.tool_calls or ()
    calls = [_read_call(raw, at, number, dropped) for number, raw in enumerate(called)]
    if given(turn.function_call):
        calls.append(_function_call(turn.function_call, f"{_path(at)}.function_call", _minted(f"{at}"), dropped))
    return order_blocks(thoughts, content, calls)


def _note_lost(turn: AnyMessage, dropped: Dropped) -> None:
    if given(turn.audio):
        dropped.loss("messages.audio")
    if given(turn.annotations) and bytes(turn.annotations).strip() != b"[]":
        dropped.hint("messages.annotations")


def _read_call(raw: msgspec.Raw | KnownCall, at: int, number: int, dropped: Dropped) -> ToolCall:
    """Call number `number` of message number `at`."""
    if isinstance(raw, KnownCall):
        call_id, signature = extract_from_id(raw.id)
        return ToolCall(_id_or_empty(call_id) or _minted(f"{at}.{number}"), raw.function.name, raw.function.arguments,
                        signature=signature)
    path = f"{_path(at)}.tool_calls[{number}]"
    call, unknown = _call.read(raw, path)
    note_unknown(dropped, "tool_calls", unknown)
    call_id, signature = extract_from_id(call.id or "")
    call_id = _id_or_empty(call_id) or _minted(f"{at}.{number}")
    cache = read_mark(call.cache_control)
    if given(call.extra_content):
        # Google's endpoint signs calls here. This gateway embeds its signatures in ids; the model and project that
        # issued this one are unknown, and Gemini refuses foreign signatures. A call without one is accepted, with a
        # placeholder where one is required.
        dropped.hint("tool_calls.extra_content")
    if call.type == "custom" or (not call.type and given(call.custom) and not given(call.function)):
        if not given(call.custom):
            raise refused(f"{path}.custom", "this field is required")
        custom, unknown = _custom.read(call.custom, f"{path}.custom")
        note_unknown(dropped, "tool_calls.custom", unknown)
        return ToolCall(call_id, custom.name, _encode({"input": custom.input}).decode(), cache, signature)
    if call.type not in ("function", None, ""):
        raise refused(f"{path}.type", f"unknown type {call.type!r}: expected function or custom")
    if not given(call.function):
        raise refused(f"{path}.function", "this field is required")
    read = _function_call(call.function, f"{path}.function", call_id, dropped)
    return msgspec.structs.replace(read, cache=cache, signature=signature)


def _function_call(raw: msgspec.Raw, path: str, call_id: str, dropped: Dropped) -> ToolCall:
    """The arguments stay the client's own text, so that prompt caches and models see the same text again."""
    function, unknown = _function.read(raw, path)
    note_unknown(dropped, "tool_calls.function", unknown)
    arguments = ""
    if given(function.arguments):
        arguments = (_string.decode(function.arguments) if is_string(function.arguments)
                     else bytes(function.arguments).decode())
    return ToolCall(call_id, function.name, arguments)


def _minted(ordinal: str) -> str:
    """An id for a call without one. It is made of the position and so is the same in every later request."""
    return "call_" + blake2b(ordinal.encode(), digest_size=12, person=b"lost id").hexdigest()


_FRONT = BlockPosition()


def order_blocks(thoughts: list[PositionedThinking], content: list[Block], calls: list[ToolCall]) -> list[Block]:
    """The blocks of the message in the order in which the model wrote them. `thoughts`: thinking from separate fields;
    `content` may hold thinking, too. Thinking embedded in the ids of `calls` is used where no field brought it back."""
    if not thoughts and not any(call.signature for call in calls):
        return [*content, *calls]
    embedded = [block for at, call in enumerate(calls) for block in extract_blocks(call.signature, at)]
    if embedded:
        thoughts, content = _with_embedded(thoughts, content, embedded)
    placed = _sorted_by_position(thoughts, len(calls))
    out = _insert_between_texts([thought for thought in placed if thought.position.calls == 0 or not calls], content)
    for at, call in enumerate(calls):
        if at:
            out += [thought.block for thought in placed if thought.position.calls == at]
        out.append(msgspec.structs.replace(call, signature=None) if holds_blocks(call.signature) else call)
    if calls:
        out += [thought.block for thought in placed if thought.position.calls >= len(calls)]
    return out


def _with_embedded(thoughts: list[PositionedThinking], content: list[Block],
                 embedded: list[PositionedThinking]) -> tuple[list[PositionedThinking], list[Block]]:
    """Uses thinking embedded in ids: for the position of a block that came back in a field, as a block of its own, or,
    where the message has exactly one reasoning text without a signature, as its signature."""
    positions = {block.opaque: block.position for block in embedded}
    found = [PositionedThinking(thought.block, thought.position or positions.get(thought.opaque))
             for thought in thoughts]
    inline = [block for block in content if isinstance(block, Thinking)]
    seen = {thought.opaque for thought in found} | {block.signature or block.redacted for block in inline}
    new = [block for block in embedded if block.opaque not in seen]
    if len(found) + len(inline) == 1 and seen == {None} and len(new) == 1 and new[0].block.signature is not None:
        text = (found[0].block if found else inline[0]).text
        whole = msgspec.structs.replace(new[0].block, text=text)
        rest: list[Block] = [block for block in content if not isinstance(block, Thinking)]
        return [PositionedThinking(whole, new[0].position)], rest
    return [*found, *new], content


class _PositionedBlock(msgspec.Struct, frozen=True):
    block: Thinking
    position: BlockPosition


def _sorted_by_position(thoughts: list[PositionedThinking], calls: int) -> list[_PositionedBlock]:
    """Sorts by position. Thinking without a position follows its predecessor."""
    fixed: list[_PositionedBlock] = []
    last = _FRONT
    for thought in thoughts:
        last = last if thought.position is None else thought.position
        fixed.append(_PositionedBlock(thought.block, last))
    return sorted(fixed, key=lambda thought: (min(thought.position.calls, calls), thought.position.characters))


def _insert_between_texts(thoughts: list[_PositionedBlock], content: list[Block]) -> list[Block]:
    """The content with each thought after as many characters of text as its position says."""
    out: list[Block] = []
    waiting = list(reversed(thoughts))
    characters = 0
    for block in content:
        rest: Block | None = block
        while waiting and rest is not None:
            cut = waiting[-1].position.characters - characters
            if cut > 0:
                if not isinstance(rest, Text) or cut >= len(rest.text):
                    break
                out.append(Text(rest.text[:cut]))
                rest = msgspec.structs.replace(rest, text=rest.text[cut:])
                characters += cut
            out.append(waiting.pop().block)
        if rest is not None:
            out.append(rest)
            characters += len(rest.text) if isinstance(rest, Text) else 0
    return [*out, *(thought.block for thought in reversed(waiting))]
