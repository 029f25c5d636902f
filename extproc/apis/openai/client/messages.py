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

from extproc.apis.openai.client.parts import note, read_content
from extproc.apis.openai.client.reasoning import reasoning_of
from extproc.apis.openai.client.signatures import Place, Placed, is_rider, ridden
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
from extproc.apis.shared.tool_results import Sent, matched
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
"""Ids that are none (in lower case): servers without ids send these words, and clients echo them."""


def decode_messages(messages: Sequence[KnownMessage | msgspec.Raw], dropped: Dropped, *,
                    strays: bool = False) -> tuple[list[Text], list[Message]]:
    """The system texts and the rest of the conversation. `strays`: results that no call can be found for stay, instead
    of being refused here. Raises BadRequest with the place."""
    if not messages:
        raise refused("messages", "expected at least one message")
    turns: list[AnyMessage] = []
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


def _read(raw: msgspec.Raw, path: str, dropped: Dropped) -> AnyMessage:
    """One message of a body that was checked. Only what is odd about it is read part by part."""
    try:
        return _known_turn.decode(raw)
    except msgspec.ValidationError:
        turn, unknown = _turn.read(raw, path)
    note(dropped, "messages", unknown)
    return turn


def _message(turn: AnyMessage, at: int, dropped: Dropped) -> Message:
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


def _marked(blocks: list[Block], turn: AnyMessage) -> list[Block]:
    """A cache mark on the message is one on its last block."""
    mark = read_mark(turn.cache_control)
    if mark and blocks and isinstance(last := blocks[-1], Text | Media | ToolCall):
        blocks[-1] = msgspec.structs.replace(last, cache=longest_mark(mark, last.cache))
    return blocks


# ------------------------------------------------------------------------------------------------------------- results


def _sent(turn: AnyMessage, at: int, dropped: Dropped) -> Sent:
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


def _assistant(turn: AnyMessage, at: int, dropped: Dropped) -> list[Block]:
    raw_fields = turn.raw_fields
    if raw_fields:
        _note_lost(turn, dropped)
    content = read_content(turn.content, "assistant", at, dropped)
    if turn.refusal and not any(type(block) is Text and block.text == turn.refusal for block in content):
        content.append(Text(turn.refusal))  # some servers say it as the content, too
    thoughts = (reasoning_of(turn, _place(at), dropped)
                if raw_fields and not any(isinstance(block, Thinking) for block in content) else [])
    called: Sequence[msgspec.Raw | KnownCall] = turn.tool_calls or ()
    calls = [_read_call(raw, at, number, dropped) for number, raw in enumerate(called)]
    if given(turn.function_call):
        calls.append(_function_call(turn.function_call, f"{_place(at)}.function_call", _minted(f"{at}"), dropped))
    return laid_out(thoughts, content, calls)


def _note_lost(turn: AnyMessage, dropped: Dropped) -> None:
    if given(turn.audio):
        dropped.loss("messages.audio")
    if given(turn.annotations) and bytes(turn.annotations).strip() != b"[]":
        dropped.hint("messages.annotations")


def _read_call(raw: msgspec.Raw | KnownCall, at: int, number: int, dropped: Dropped) -> ToolCall:
    """The call `number` of the message `at`."""
    if isinstance(raw, KnownCall):
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


_FRONT = Place()


def laid_out(thoughts: list[Placed], content: list[Block], calls: list[ToolCall]) -> list[Block]:
    """The blocks of the message. `thoughts` came in fields, `content` may hold thinking as well; what rode in the ids
    of `calls` counts where nothing else brought it back."""
    if not thoughts and not any(call.signature for call in calls):
        return [*content, *calls]
    riders = [rider for at, call in enumerate(calls) for rider in ridden(call.signature, at)]
    if riders:
        thoughts, content = _with_riders(thoughts, content, riders)
    placed = _in_order(thoughts, len(calls))
    out = _between_texts([thought for thought in placed if thought.place.calls == 0 or not calls], content)
    for at, call in enumerate(calls):
        if at:
            out += [thought.block for thought in placed if thought.place.calls == at]
        out.append(msgspec.structs.replace(call, signature=None) if is_rider(call.signature) else call)
    if calls:
        out += [thought.block for thought in placed if thought.place.calls >= len(calls)]
    return out


def _with_riders(thoughts: list[Placed], content: list[Block],
                 riders: list[Placed]) -> tuple[list[Placed], list[Block]]:
    """What rode tells the place of a block that came back otherwise, is one itself, or is the signature of the one
    plain reasoning of the message: then they belong together."""
    places = {rider.opaque: rider.place for rider in riders}
    found = [Placed(thought.block, thought.place or places.get(thought.opaque)) for thought in thoughts]
    inline = [block for block in content if isinstance(block, Thinking)]
    seen = {thought.opaque for thought in found} | {block.signature or block.redacted for block in inline}
    new = [rider for rider in riders if rider.opaque not in seen]
    if len(found) + len(inline) == 1 and seen == {None} and len(new) == 1 and new[0].block.signature is not None:
        text = (found[0].block if found else inline[0]).text
        whole = msgspec.structs.replace(new[0].block, text=text)
        return [Placed(whole, new[0].place)], [block for block in content if not isinstance(block, Thinking)]
    return [*found, *new], content


class _Fixed(msgspec.Struct, frozen=True):
    block: Thinking
    place: Place


def _in_order(thoughts: list[Placed], calls: int) -> list[_Fixed]:
    """By place. One without a place stands behind the one that it came after."""
    fixed: list[_Fixed] = []
    last = _FRONT
    for thought in thoughts:
        last = last if thought.place is None else thought.place
        fixed.append(_Fixed(thought.block, last))
    return sorted(fixed, key=lambda thought: (min(thought.place.calls, calls), thought.place.said))


def _between_texts(thoughts: list[_Fixed], content: list[Block]) -> list[Block]:
    """The content with each thought behind as many characters of text as its place says."""
    out: list[Block] = []
    waiting = list(reversed(thoughts))
    said = 0
    for block in content:
        rest: Block | None = block
        while waiting and rest is not None:
            cut = waiting[-1].place.said - said
            if cut > 0:
                if not isinstance(rest, Text) or cut >= len(rest.text):
                    break
                out.append(Text(rest.text[:cut]))
                rest = msgspec.structs.replace(rest, text=rest.text[cut:])
                said += cut
            out.append(waiting.pop().block)
        if rest is not None:
            out.append(rest)
            said += len(rest.text) if isinstance(rest, Text) else 0
    return [*out, *(thought.block for thought in reversed(waiting))]
