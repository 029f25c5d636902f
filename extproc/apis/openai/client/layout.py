"""The parts of an assistant message in the order in which the model wrote them.

A message of this API tells reasoning, text and calls in fields of their own. Thinking that went out through this
gateway says where it stood (`riding`); other thinking stands before everything. Called by `messages`; loses nothing and
invents nothing.
"""

from __future__ import annotations

import msgspec

from extproc.apis.openai.client.signatures import Place, Placed, is_rider, ridden
from extproc.conversation.model import Block, Text, Thinking, ToolCall

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
