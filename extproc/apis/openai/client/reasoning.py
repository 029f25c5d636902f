"""Reasoning that an assistant message of the history brings back, in every spelling -> `Thinking` blocks.

Plain text: `reasoning_content` (DeepSeek, Moonshot, SGLang, Z.AI), `reasoning` (OpenRouter, Groq, vLLM), `thinking`
(Ollama). With signatures and encrypted data: `reasoning_details` (OpenRouter, and our own answers), `thinking_blocks`
(LiteLLM), thinking parts inside the content (Mistral, Anthropic's blocks). Servers mirror the same words in several
fields: they count once. `<think>` inside text is left alone. Called by `messages` and `parts`; it forges no signature.
"""

from __future__ import annotations

import msgspec

from extproc.apis.openai.client.signatures import Placed, place_of
from extproc.apis.openai.wire_messages import AnyMessage, ClientThinkingPart, ReasoningItem, RedactedPart
from extproc.apis.shared.wire import Shape, first_byte, given, type_of
from extproc.conversation.model import Thinking
from extproc.conversation.signatures import extract_from_text
from extproc.conversation.unsupported import Dropped

SIGNED_FORMAT = "anthropic-claude-v1"
"""OpenRouter's name of the only format whose signatures and encrypted blocks Messages providers take back."""
OTHER_FORMAT = "unknown"
"""The same for a signature that another provider issued and that says so itself (`carrying.embed_in_text`)."""

_thinking = Shape(ClientThinkingPart)
_redacted = Shape(RedactedPart)
_item: msgspec.json.Decoder[ReasoningItem] = msgspec.json.Decoder(ReasoningItem)
_list: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])
_any = msgspec.json.Decoder()


def reasoning_of(turn: AnyMessage, path: str, dropped: Dropped) -> list[Placed]:
    """The thinking in the fields of an assistant message, in order."""
    blocks = _details(turn.reasoning_details, dropped) or _blocks(turn.thinking_blocks, path, dropped)
    plain = _plain(turn.reasoning_content) or _plain(turn.reasoning) or _plain(turn.thinking)
    return _with_rest(blocks, plain) if plain else blocks


def read_thinking_part(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[Thinking]:
    """A part of the type `thinking`."""
    part, unknown = _thinking.read(raw, path)
    for field in unknown:
        dropped.hint(f"thinking.{field}")
    text = part.thinking if isinstance(part.thinking, str) else "".join(map(_plain, part.thinking))
    return [Thinking(text, signature=part.signature or None)] if text or part.signature else []


def read_redacted_part(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[Thinking]:
    """A part of the type `redacted_thinking`."""
    part, unknown = _redacted.read(raw, path)
    for field in unknown:
        dropped.hint(f"redacted_thinking.{field}")
    return [Thinking("", redacted=part.data)] if part.data else []


def _plain(raw: msgspec.Raw) -> str:
    """The text of a string or of an object with text in it; "" for anything else."""
    if not given(raw):
        return ""
    value = _any.decode(raw)
    if isinstance(value, dict):
        value = value.get("content") or value.get("text") or value.get("summary")
    return value if isinstance(value, str) else ""


def _blocks(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[Placed]:
    blocks: list[Thinking] = []
    for position, item in enumerate(_items(raw)):
        place = f"{path}.thinking_blocks[{position}]"
        read = read_redacted_part if type_of(item, place) == "redacted_thinking" else read_thinking_part
        blocks += read(item, place, dropped)
    return [Placed(block) for block in blocks]


def _items(raw: msgspec.Raw) -> list[msgspec.Raw]:
    """The objects of a list; nothing for what is no list."""
    if not given(raw) or first_byte(raw) != b"[":
        return []
    return [item for item in _list.decode(raw) if first_byte(item) == b"{"]


def _details(raw: msgspec.Raw, dropped: Dropped) -> list[Placed]:
    """OpenRouter's items. Pieces of one item (a stream's deltas, echoed as they came) share its index: they are
    joined."""
    blocks: list[Placed] = []
    last: tuple[str, int] | None = None
    for piece in _items(raw):
        try:
            item = _item.decode(piece)
        except msgspec.ValidationError:
            dropped.hint("messages.reasoning_details")
            continue
        block = _block(item, dropped)
        if block is None:
            continue
        key = None if item.index is None else (item.type, item.index)
        if blocks and key is not None and key == last and block.redacted is None:
            before = blocks[-1].block
            joined = Thinking(before.text + block.text, signature=block.signature or before.signature)
            blocks[-1] = Placed(joined, blocks[-1].place)
        else:
            blocks.append(Placed(block, place_of(item.id)))
        last = key
    return [placed for placed in blocks if placed.block.text or placed.opaque]


def _block(item: ReasoningItem, dropped: Dropped) -> Thinking | None:
    if item.type == "reasoning.encrypted":
        if item.data and _usable(item.data, item.format):
            return Thinking("", redacted=item.data)
        dropped.hint("messages.reasoning_details.encrypted")
        return None
    if item.type not in ("reasoning.text", "reasoning.summary"):
        dropped.hint(f"messages.reasoning_details.{item.type}")
        return None
    signature = item.signature or None
    if signature is not None and not _usable(signature, item.format):
        dropped.hint("messages.reasoning_details.signature")  # nobody behind this gateway issued it
        signature = None
    return Thinking(item.text or item.summary or "", signature=signature)


def _usable(opaque: str, made_by: str | None) -> bool:
    """Whether some provider behind this gateway may have issued it."""
    return made_by in (SIGNED_FORMAT, None) or extract_from_text(opaque) is not None


def _with_rest(blocks: list[Placed], plain: str) -> list[Placed]:
    """The blocks, and what the plain text holds besides them: thinking that had no signature. A plain text that does
    not hold the blocks' texts was changed by the client: then the blocks are the truth."""
    out: list[Placed] = []
    at = 0
    for placed in blocks:
        text = placed.block.text
        if text:
            found = plain.find(text, at)
            if found < 0:
                return blocks
            if plain[at:found].strip():
                out.append(Placed(Thinking(plain[at:found])))
            at = found + len(text)
        out.append(placed)
    if plain[at:].strip():
        out.append(Placed(Thinking(plain[at:])))
    return out
