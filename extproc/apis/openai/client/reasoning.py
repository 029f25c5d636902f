"""Reasoning in assistant messages of the history, in every spelling -> `Thinking` blocks.

Plain text: `reasoning_content` (DeepSeek, Moonshot, SGLang, Z.AI), `reasoning` (OpenRouter, Groq, vLLM), `thinking`
(Ollama). With signatures and encrypted data: `reasoning_details` (OpenRouter, this gateway), `thinking_blocks`
(LiteLLM), thinking parts inside the content (Mistral, Anthropic's blocks). Servers repeat the same text in several
fields; it counts once. `<think>` inside text is left alone. Called by `messages` and `parts`. No signature is forged.
"""

from __future__ import annotations

import msgspec

from extproc.apis.openai.client.signatures import PositionedThinking, position_of_id
from extproc.apis.openai.wire_messages import AnyMessage, ClientThinkingPart, ReasoningItem, RedactedPart
from extproc.apis.shared.wire import Shape, first_byte, given, type_of
from extproc.conversation.model import Thinking
from extproc.conversation.signatures import extract_from_text
from extproc.conversation.unsupported import Dropped

SIGNED_FORMAT = "anthropic-claude-v1"
"""OpenRouter's name of the only format whose signatures and encrypted blocks Messages providers take back."""
OTHER_FORMAT = "unknown"
"""The format of a signature that another provider issued and that names its issuer (`signatures.embed_in_text`)."""

_thinking = Shape(ClientThinkingPart)
_redacted = Shape(RedactedPart)
_item: msgspec.json.Decoder[ReasoningItem] = msgspec.json.Decoder(ReasoningItem)
_list: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])
_any = msgspec.json.Decoder()


def read_reasoning(turn: AnyMessage, path: str, dropped: Dropped) -> list[PositionedThinking]:
    """The thinking in the fields of an assistant message, in order."""
    blocks = _reasoning_details(turn.reasoning_details, dropped) or _thinking_blocks(turn.thinking_blocks, path,
                                                                                     dropped)
    plain = _plain_text(turn.reasoning_content) or _plain_text(turn.reasoning) or _plain_text(turn.thinking)
    return _add_plain_rest(blocks, plain) if plain else blocks


def read_thinking_part(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[Thinking]:
    """Reads a part of the type `thinking`."""
    part, unknown = _thinking.read(raw, path)
    for field in unknown:
        dropped.hint(f"thinking.{field}")
    text = part.thinking if isinstance(part.thinking, str) else "".join(map(_plain_text, part.thinking))
    return [Thinking(text, signature=part.signature or None)] if text or part.signature else []


def read_redacted_part(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[Thinking]:
    """Reads a part of the type `redacted_thinking`."""
    part, unknown = _redacted.read(raw, path)
    for field in unknown:
        dropped.hint(f"redacted_thinking.{field}")
    return [Thinking("", redacted=part.data)] if part.data else []


def _plain_text(raw: msgspec.Raw) -> str:
    """The text of a string, or of an object with text in it; "" for anything else."""
    if not given(raw):
        return ""
    value = _any.decode(raw)
    if isinstance(value, dict):
        value = value.get("content") or value.get("text") or value.get("summary")
    return value if isinstance(value, str) else ""


def _thinking_blocks(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[PositionedThinking]:
    blocks: list[Thinking] = []
    for position, item in enumerate(_object_items(raw)):
        place = f"{path}.thinking_blocks[{position}]"
        read = read_redacted_part if type_of(item, place) == "redacted_thinking" else read_thinking_part
        blocks += read(item, place, dropped)
    return [PositionedThinking(block) for block in blocks]


def _object_items(raw: msgspec.Raw) -> list[msgspec.Raw]:
    """The objects of a list; none for any other value."""
    if not given(raw) or first_byte(raw) != b"[":
        return []
    return [item for item in _list.decode(raw) if first_byte(item) == b"{"]


def _reasoning_details(raw: msgspec.Raw, dropped: Dropped) -> list[PositionedThinking]:
    """Reads OpenRouter's items. Pieces of one item (a stream's deltas, echoed unchanged) share its index and are
    joined."""
    blocks: list[PositionedThinking] = []
    last: tuple[str, int] | None = None
    for piece in _object_items(raw):
        try:
            item = _item.decode(piece)
        except msgspec.ValidationError:
            dropped.hint("messages.reasoning_details")
            continue
        block = _block_of_item(item, dropped)
        if block is None:
            continue
        key = None if item.index is None else (item.type, item.index)
        if blocks and key is not None and key == last and block.redacted is None:
            before = blocks[-1].block
            joined = Thinking(before.text + block.text, signature=block.signature or before.signature)
            blocks[-1] = PositionedThinking(joined, blocks[-1].position)
        else:
            blocks.append(PositionedThinking(block, position_of_id(item.id)))
        last = key
    return [placed for placed in blocks if placed.block.text or placed.opaque]


def _block_of_item(item: ReasoningItem, dropped: Dropped) -> Thinking | None:
    if item.type == "reasoning.encrypted":
        if item.data and _may_be_own(item.data, item.format):
            return Thinking("", redacted=item.data)
        dropped.hint("messages.reasoning_details.encrypted")
        return None
    if item.type not in ("reasoning.text", "reasoning.summary"):
        dropped.hint(f"messages.reasoning_details.{item.type}")
        return None
    signature = item.signature or None
    if signature is not None and not _may_be_own(signature, item.format):
        dropped.hint("messages.reasoning_details.signature")  # no provider behind this gateway issued it
        signature = None
    return Thinking(item.text or item.summary or "", signature=signature)


def _may_be_own(opaque: str, made_by: str | None) -> bool:
    """True if a provider behind this gateway may have issued it."""
    return made_by in (SIGNED_FORMAT, None) or extract_from_text(opaque) is not None


def _add_plain_rest(blocks: list[PositionedThinking], plain: str) -> list[PositionedThinking]:
    """The blocks, and the rest of the plain text as thinking without a signature. If the plain text does not contain
    the blocks' texts, the client changed it, and only the blocks count."""
    out: list[PositionedThinking] = []
    at = 0
    for placed in blocks:
        text = placed.block.text
        if text:
            found = plain.find(text, at)
            if found < 0:
                return blocks
            if plain[at:found].strip():
                out.append(PositionedThinking(Thinking(plain[at:found])))
            at = found + len(text)
        out.append(placed)
    if plain[at:].strip():
        out.append(PositionedThinking(Thinking(plain[at:])))
    return out
