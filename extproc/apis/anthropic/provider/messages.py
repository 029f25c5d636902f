"""The messages of a conversation in the order and the form of the Messages API.

The API requires: the first message is the user's; roles alternate; the results of all calls open the next user message
in call order; no text is blank; no assistant turn ends with thinking; a text to be continued does not end with white
space. Called by the request encoder with turns whose calls are already paired with results.
"""

from __future__ import annotations

from functools import cached_property

import msgspec

from extproc.apis.anthropic.provider.media import block_of_media, text_for_model_turn
from extproc.apis.anthropic.wire import (
    DocumentBlock,
    FileSource,
    ImageBlock,
    MarkableBlock,
    ProviderBlock,
    ProviderMessage,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from extproc.apis.shared.cache_marks import CacheControl, sent_mark
from extproc.conversation.ids import ProviderIds
from extproc.conversation.model import CacheMark, Media, Opaque, Text, Thinking, ToolCall, ToolResult, longest_mark
from extproc.conversation.notes import CONTINUE, NO_OUTPUT
from extproc.conversation.past_arguments import arguments_text
from extproc.conversation.signatures import extract_from_text, origin_of
from extproc.conversation.tool_names import NameMap
from extproc.conversation.tool_results import Exchange, Turn
from extproc.conversation.unsupported import Dropped
from extproc.profiles.anthropic import AnthropicEndpoint, AnthropicModel

OPENING = "(The conversation begins with the assistant's message.)"
"""The user's message before a conversation that begins with an assistant turn."""

_ID = r"[a-zA-Z0-9_-]+"
THINKING_BLOCKS = (ThinkingBlock, RedactedThinkingBlock)


class MessageWriter:
    """Writes one conversation. `keep_thinking`: the model may think, so past thinking is sent back. `prefill`: a final
    assistant turn may stay the last."""

    def __init__(self, names: NameMap, model: AnthropicModel, endpoint: AnthropicEndpoint, origin: str, *,
                 keep_thinking: bool, thinking_first: bool, prefill: bool, dropped: Dropped) -> None:
        self._names = names.to_provider
        self._model = model
        self._endpoint = endpoint
        self._origin = origin
        self._keep_thinking = keep_thinking
        self._thinking_first = thinking_first
        self._prefill = prefill
        self._dropped = dropped
        self._out: list[ProviderMessage] = []
        self._system: list[TextBlock] = []
        """System text from inside the conversation, held until the preceding user message is complete."""

    @cached_property
    def _ids(self) -> ProviderIds:
        """Created only if there is a call."""
        return ProviderIds(_ID, 64)

    def system(self, texts: list[Text], notes: list[str]) -> list[TextBlock]:
        """The system prompt. `notes` come last, so that they do not invalidate the cached prefix."""
        blocks = [self._text(text) for text in texts if text.text.strip()]
        return [*blocks, *map(TextBlock, notes)]

    def messages(self, turns: list[Turn]) -> list[ProviderMessage]:
        for turn in turns:
            if turn.role == "system":
                self._system += [self._text(text) for text in system_texts(turn, self._dropped) if text.text.strip()]
            elif turn.role == "user":
                self._append("user", self._user(turn))
            else:
                self._assistant(turn)
        self._place_system()
        if self._thinking_first:
            for message in self._out:
                _lead_with_thinking(message)
        if self._out and self._out[0].role != "user":
            self._out.insert(0, ProviderMessage("user", [TextBlock(OPENING)]))
        self._close_conversation()
        return self._out

    # ------------------------------------------------------------------------------------------------------- roles

    def _append(self, role: str, blocks: list[ProviderBlock]) -> None:
        """Merges consecutive messages of one role. System text comes before the assistant's reply."""
        if not blocks:
            return
        if role == "assistant":
            self._place_system()
        if self._out and self._out[-1].role == role:
            self._out[-1].content += blocks
        else:
            self._out.append(ProviderMessage("user" if role == "user" else "assistant", blocks))

    def _place_system(self) -> None:
        """Writes system text from inside the conversation: as a system message after the user's where the model takes
        one, else as user text."""
        if not self._system:
            return
        texts, self._system = self._system, []
        if self._model.system_turns and self._endpoint.signed and self._out and self._out[-1].role == "user":
            self._out.append(ProviderMessage("system", [*texts]))
            return
        self._append("user", [msgspec.structs.replace(block, text=f"[system message]\n{block.text}")
                              for block in texts])

    def _user(self, turn: Turn) -> list[ProviderBlock]:
        blocks: list[ProviderBlock] = []
        for block in turn.content:
            if type(block) is Text:
                if block.text.strip():
                    blocks.append(self._text(block))
            elif type(block) is Media:
                if (carried := self._media(block)) is not None:
                    blocks.append(carried)
            elif type(block) is Opaque:
                blocks += self._opaque(block)
        return blocks

    def _assistant(self, turn: Turn) -> None:
        blocks: list[ProviderBlock] = []
        results: list[ProviderBlock] = []
        for block in turn.in_order():
            if type(block) is Exchange:
                use = self._call(block.call)
                blocks.append(use)
                if block.result is not None:
                    results.append(self._result(block.result, use.id))
            else:
                blocks += self._encode_block(block)
        self._append("assistant", self._valid_order(blocks))
        self._append("user", results)

    def _encode_block(self, block: Text | Media | Thinking | Opaque) -> list[ProviderBlock]:
        """The wire blocks of any block of an assistant turn but a call."""
        if type(block) is Text:
            return [self._text(block)] if block.text.strip() else []
        if type(block) is Thinking:
            return self._thinking(block)
        if type(block) is Opaque:
            return self._opaque(block)
        text = text_for_model_turn(block, self._dropped).strip()
        return [TextBlock(text)] if text else []

    def _call(self, call: ToolCall) -> ToolUseBlock:
        name = self._names.get(call.name, call.name)
        call_id = self._ids.next_id(call.id, name)
        raw = msgspec.Raw(arguments_text(call.arguments).encode())
        return ToolUseBlock(call_id, name, raw, self._mark(call.cache))

    def _valid_order(self, blocks: list[ProviderBlock]) -> list[ProviderBlock]:
        """The blocks of a turn in a valid order: blocks after the last call move before the last calls, the turn
        does not end with thinking, no two signed thinking blocks are adjacent, and thinking is present where it is
        required."""
        if self._endpoint.signed:
            blocks = self._without_adjacent_thinking(blocks)
        last = len(blocks) - 1
        while last >= 0 and type(blocks[last]) is not ToolUseBlock:
            last -= 1
        if last < 0:
            while blocks and isinstance(blocks[-1], THINKING_BLOCKS):
                blocks.pop()
                self._dropped.hint("messages.thinking")
            return blocks
        if behind := blocks[last + 1:]:
            blocks = self._before_calls(blocks[:last + 1], behind)
        if self._endpoint.thinking_required and self._keep_thinking and not any(isinstance(b, THINKING_BLOCKS)
                                                                                for b in blocks):
            return [ThinkingBlock(" ", ""), *blocks]
        return blocks

    def _before_calls(self, blocks: list[ProviderBlock], behind: list[ProviderBlock]) -> list[ProviderBlock]:
        """`blocks` ends with calls. The blocks `behind` them move before them, without thinking."""
        moved = [block for block in behind if not isinstance(block, THINKING_BLOCKS)]
        if len(moved) < len(behind):
            self._dropped.hint("messages.thinking")
        first = len(blocks) - 1
        while first > 0 and isinstance(blocks[first - 1], ToolUseBlock):
            first -= 1
        return [*blocks[:first], *moved, *blocks[first:]]

    def _without_adjacent_thinking(self, blocks: list[ProviderBlock]) -> list[ProviderBlock]:
        """Keeps the last of adjacent thinking blocks. No response contains them, and the API treats them as edited;
        they come from clients that lose the position of thinking."""
        out: list[ProviderBlock] = []
        for block in blocks:
            if type(block) is ThinkingBlock and out and type(out[-1]) is ThinkingBlock:
                out.pop()
                self._dropped.hint("messages.thinking")
            out.append(block)
        return out

    # ------------------------------------------------------------------------------------------------------ blocks

    def _text(self, text: Text) -> TextBlock:
        return TextBlock(text.text, self._mark(text.cache))

    def _media(self, media: Media) -> TextBlock | ImageBlock | DocumentBlock | None:
        block = block_of_media(media, self._endpoint, self._dropped)
        if block is not None:
            block.cache_control = self._mark(media.cache)
        return block

    def _thinking(self, thinking: Thinking) -> list[ProviderBlock]:
        block = own_thinking(thinking, self._endpoint, self._origin)
        if block is None or not self._keep_thinking:
            self._dropped.hint("messages.thinking")
            return []
        return [block]

    def _opaque(self, block: Opaque) -> list[ProviderBlock]:
        if block.api == "anthropic" and self._endpoint.server_blocks:
            return [msgspec.Raw(block.raw)]
        if block.text is None:
            self._dropped.loss(f"messages.{block.type}")
        return [TextBlock(block.text)] if block.text and block.text.strip() else []

    def _result(self, result: ToolResult, call_id: str) -> ToolResultBlock:
        """A mark inside a result applies to the whole result."""
        content: list[TextBlock | ImageBlock | DocumentBlock] = []
        cache = result.cache
        for block in result.content:
            if block.cache:
                cache = longest_mark(cache, block.cache)
            if type(block) is Text:
                if block.text.strip():
                    content.append(TextBlock(block.text))
            elif (carried := block_of_media(block, self._endpoint, self._dropped)) is not None:
                content.append(carried)
        if not content and result.is_error:
            content.append(TextBlock(NO_OUTPUT))
        only = content[0] if len(content) == 1 else None
        # One string where possible: several compatible endpoints take nothing else.
        sent = only.text if isinstance(only, TextBlock) else content or None
        return ToolResultBlock(call_id, sent, result.is_error, self._mark(cache))

    def _mark(self, cache: CacheMark) -> CacheControl | None:
        if not cache:
            return None
        if not self._endpoint.cache_control:
            self._dropped.hint("cache_control")
            return None
        return sent_mark(cache)

    # --------------------------------------------------------------------------------------------------- the end

    def _close_conversation(self) -> None:
        """Ends with a user message. A final assistant turn is continued where that is possible, else a user message
        asks for the continuation."""
        last = self._out[-1] if self._out else None
        if last is None or last.role != "assistant":
            return
        if not self._prefill:
            self._dropped.loss("messages.prefill")
            self._append("user", [TextBlock(CONTINUE)])
            return
        last.content = [block for block in last.content if not isinstance(block, THINKING_BLOCKS)]
        final = last.content[-1] if last.content else None
        if isinstance(final, TextBlock):
            final.text = final.text.rstrip()


def _lead_with_thinking(message: ProviderMessage) -> None:
    """Moves the first thinking of a message with calls to its start."""
    blocks = message.content
    if isinstance(blocks[0], THINKING_BLOCKS) or not any(isinstance(b, ToolUseBlock) for b in blocks):
        return
    first = next((at for at, block in enumerate(blocks) if isinstance(block, THINKING_BLOCKS)), None)
    if first is not None:
        end = next((at for at in range(first, len(blocks)) if not isinstance(blocks[at], THINKING_BLOCKS)), len(blocks))
        message.content = [*blocks[first:end], *blocks[:first], *blocks[end:]]


def own_thinking(thinking: Thinking, endpoint: AnthropicEndpoint,
                 origin: str) -> ThinkingBlock | RedactedThinkingBlock | None:
    """The block that this endpoint takes back; None for another issuer's thinking, which is unsigned or names another
    issuer in its signature. An endpoint that checks no signature takes any thinking with text."""
    carried = extract_from_text(thinking.signature) if thinking.signature else None
    if not endpoint.signed:
        if not thinking.text.strip():
            return None
        own = carried is not None and carried.origin == origin
        return ThinkingBlock(thinking.text, carried.value if own and carried is not None else "")
    if thinking.redacted is not None:
        return RedactedThinkingBlock(thinking.redacted) if extract_from_text(thinking.redacted) is None else None
    if not thinking.signature or carried is not None:
        return None
    return ThinkingBlock(thinking.text, thinking.signature)


def origin_at(endpoint: str) -> str:
    """The issuer of signatures at this endpoint (host and port)."""
    return origin_of("anthropic", endpoint)


def system_texts(turn: Turn, dropped: Dropped) -> list[Text]:
    """The text of a system turn."""
    texts: list[Text] = []
    for block in turn.content:
        if isinstance(block, Text):
            texts.append(block)
        elif isinstance(block, Media):
            texts.append(Text(text_for_model_turn(block, dropped), block.cache))
        elif isinstance(block, Opaque):
            if block.text is None:
                dropped.loss(f"messages.{block.type}")
            texts.append(Text(block.text or ""))
    return texts


def loop_signed(turns: list[Turn], endpoint: AnthropicEndpoint, origin: str) -> bool:
    """True if the open tool loop began with thinking that the endpoint takes back, if no loop is open, or if the
    endpoint checks no signature. To the API a loop is one assistant turn with all its results. Where the user spoke
    between two results, the part after that counts as a loop, too."""
    if not endpoint.signed:
        return True
    starts: list[Turn] = []
    start: Turn | None = None
    seen_calls = False
    for turn in reversed(turns):
        if turn.role == "assistant":
            if not turn.exchanges:
                if _says_something(turn, endpoint):
                    break
                continue  # it is not sent: the loop before it is still the last assistant turn
            seen_calls = True
            start = turn
        elif turn.role == "user" and seen_calls and start is not None:
            starts.append(start)
            start = None
    if start is not None:
        starts.append(start)
    return all(any(isinstance(block, Thinking) and own_thinking(block, endpoint, origin) is not None
                   for block in turn.content) for turn in starts)


def _says_something(turn: Turn, endpoint: AnthropicEndpoint) -> bool:
    """True if anything of a turn without calls is sent. Turns of thinking or blank text only are not."""
    return any(
        block.text.strip() if isinstance(block, Text)
        else bool(block.text) or (block.api == "anthropic" and endpoint.server_blocks) if isinstance(block, Opaque)
        else isinstance(block, Media) for block in turn.content)


def ends_with_prefill(turns: list[Turn]) -> bool:
    """True if the conversation ends with an assistant turn to be continued."""
    last = turns[-1] if turns else None
    return (last is not None and last.role == "assistant" and not last.exchanges
            and any(isinstance(block, Text) and block.text.strip() for block in last.content))


def holds_thinking(messages: list[ProviderMessage]) -> bool:
    return any(isinstance(block, THINKING_BLOCKS)
               for message in messages for block in message.content)


def holds_files(messages: list[ProviderMessage]) -> bool:
    """True if a message refers to the Files API."""
    inner = [block for message in messages for block in message.content]
    inner += [part for block in inner if type(block) is ToolResultBlock and isinstance(block.content, list)
              for part in block.content]
    return any((type(block) is ImageBlock or type(block) is DocumentBlock) and isinstance(block.source, FileSource)
               for block in inner)


def marked_blocks(messages: list[ProviderMessage]) -> list[MarkableBlock]:
    """The blocks with a cache mark, in order."""
    return [block for message in messages for block in message.content
            if getattr(block, "cache_control", None) is not None and isinstance(block, MarkableBlock)]
