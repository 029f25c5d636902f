"""The messages of a conversation in the order and the words of the Messages API.

What the API demands and this keeps: the first message is the user's, roles alternate, the results of all calls open
the next user message in call order, no text is blank, no turn of the model ends with thinking, and what the model is to
continue does not end with white space. Called by the request encoder with turns whose calls are paired already.
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
"""The user's message before a conversation that begins with the model's."""

_ID = r"[a-zA-Z0-9_-]+"
THOUGHT = (ThinkingBlock, RedactedThinkingBlock)


class Writer:
    """Writes one conversation. `keep_thinking`: the model may think, so that its thinking of the past goes back.
    `prefill`: a last turn of the model may stay the last."""

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
        """System text of the middle, until the user's message before it is complete."""

    @cached_property
    def _ids(self) -> ProviderIds:
        """Asked for only where there is a call."""
        return ProviderIds(_ID, 64)

    def system(self, texts: list[Text], notes: list[str]) -> list[TextBlock]:
        """The system prompt; `notes` come last, so that they do not disturb what is cached."""
        blocks = [self._text(text) for text in texts if text.text.strip()]
        return [*blocks, *map(TextBlock, notes)]

    def messages(self, turns: list[Turn]) -> list[ProviderMessage]:
        for turn in turns:
            if turn.role == "system":
                self._system += [self._text(text) for text in words(turn, self._dropped) if text.text.strip()]
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
        self._end()
        return self._out

    # ------------------------------------------------------------------------------------------------------- roles

    def _append(self, role: str, blocks: list[ProviderBlock]) -> None:
        """Consecutive messages of one role are one message. What the system said comes before the model's answer."""
        if not blocks:
            return
        if role == "assistant":
            self._place_system()
        if self._out and self._out[-1].role == role:
            self._out[-1].content += blocks
        else:
            self._out.append(ProviderMessage("user" if role == "user" else "assistant", blocks))

    def _place_system(self) -> None:
        """System text of the middle: a system message behind the user's where the model takes one, else user text."""
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
                blocks += self._said(block)
        self._append("assistant", self._in_order(blocks))
        self._append("user", results)

    def _said(self, block: Text | Media | Thinking | Opaque) -> list[ProviderBlock]:
        """A block of the model's turn that is no call."""
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
        call_id = self._ids.next(call.id, name)
        raw = msgspec.Raw(arguments_text(call.arguments).encode())
        return ToolUseBlock(call_id, name, raw, self._mark(call.cache))

    def _in_order(self, blocks: list[ProviderBlock]) -> list[ProviderBlock]:
        """The blocks of a turn: what stands behind its last call comes before its last calls, it never ends with
        thinking, no two signed thoughts stand side by side, and it has some where it must."""
        if self._endpoint.signed:
            blocks = self._apart(blocks)
        last = len(blocks) - 1
        while last >= 0 and type(blocks[last]) is not ToolUseBlock:
            last -= 1
        if last < 0:
            while blocks and isinstance(blocks[-1], THOUGHT):
                blocks.pop()
                self._dropped.hint("messages.thinking")
            return blocks
        if behind := blocks[last + 1:]:
            blocks = self._before_calls(blocks[:last + 1], behind)
        if self._endpoint.thinking_required and self._keep_thinking and not any(isinstance(b, THOUGHT) for b in blocks):
            return [ThinkingBlock(" ", ""), *blocks]
        return blocks

    def _before_calls(self, blocks: list[ProviderBlock], behind: list[ProviderBlock]) -> list[ProviderBlock]:
        """`blocks` ends with calls: what stands behind them comes before them, without thinking."""
        said = [block for block in behind if not isinstance(block, THOUGHT)]
        if len(said) < len(behind):
            self._dropped.hint("messages.thinking")
        first = len(blocks) - 1
        while first > 0 and isinstance(blocks[first - 1], ToolUseBlock):
            first -= 1
        return [*blocks[:first], *said, *blocks[first:]]

    def _apart(self, blocks: list[ProviderBlock]) -> list[ProviderBlock]:
        """Of thoughts side by side, which no answer has and the API takes for edited ones, the last stays: clients put
        them there that do not tell what stood between."""
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
        if block.api == "anthropic" and self._endpoint.own_blocks:
            return [msgspec.Raw(block.raw)]
        if block.text is None:
            self._dropped.loss(f"messages.{block.type}")
        return [TextBlock(block.text)] if block.text and block.text.strip() else []

    def _result(self, result: ToolResult, call_id: str) -> ToolResultBlock:
        """A mark inside a result holds for the whole of it."""
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
        # One string where that is possible: several compatible endpoints take nothing else.
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

    def _end(self) -> None:
        """A last turn of the model: continued as it stands where that is possible, else the user asks for it."""
        last = self._out[-1] if self._out else None
        if last is None or last.role != "assistant":
            return
        if not self._prefill:
            self._dropped.loss("messages.prefill")
            self._append("user", [TextBlock(CONTINUE)])
            return
        last.content = [block for block in last.content if not isinstance(block, THOUGHT)]
        final = last.content[-1] if last.content else None
        if isinstance(final, TextBlock):
            final.text = final.text.rstrip()


def _lead_with_thinking(message: ProviderMessage) -> None:
    """A message with calls begins with its first thinking, if it has any."""
    blocks = message.content
    if isinstance(blocks[0], THOUGHT) or not any(isinstance(b, ToolUseBlock) for b in blocks):
        return
    first = next((at for at, block in enumerate(blocks) if isinstance(block, THOUGHT)), None)
    if first is not None:
        end = next((at for at in range(first, len(blocks)) if not isinstance(blocks[at], THOUGHT)), len(blocks))
        message.content = [*blocks[first:end], *blocks[:first], *blocks[end:]]


def own_thinking(thinking: Thinking, endpoint: AnthropicEndpoint,
                 origin: str) -> ThinkingBlock | RedactedThinkingBlock | None:
    """The block that this endpoint takes back, None for thinking of somebody else: an unsigned one, or one whose
    signature names another issuer. Where no signature is checked, every thinking with a text is taken."""
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
    """Who issues signatures at this endpoint (host and port)."""
    return origin_of("anthropic", endpoint)


def words(turn: Turn, dropped: Dropped) -> list[Text]:
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
    """Whether the tool loop that is open began with thinking that the endpoint takes back; True when none is open or
    when it checks no signature. A loop is one turn of the model to the API, with all results in between; where the user
    said something between two results, the part behind it counts as well."""
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
                continue  # nothing of it is sent: the loop before it is still the model's last turn
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
    """Whether anything of a turn without calls is sent: one that holds thinking alone, or blank text, vanishes."""
    return any(block.text.strip() if isinstance(block, Text)
               else bool(block.text) or (block.api == "anthropic" and endpoint.own_blocks) if isinstance(block, Opaque)
               else isinstance(block, Media) for block in turn.content)


def continues(turns: list[Turn]) -> bool:
    """Whether the conversation ends with a turn of the model that it is to continue."""
    last = turns[-1] if turns else None
    return (last is not None and last.role == "assistant" and not last.exchanges
            and any(isinstance(block, Text) and block.text.strip() for block in last.content))


def holds_thinking(messages: list[ProviderMessage]) -> bool:
    return any(isinstance(block, THOUGHT)
               for message in messages for block in message.content)


def holds_files(messages: list[ProviderMessage]) -> bool:
    """Whether a file of the Files API is named."""
    inner = [block for message in messages for block in message.content]
    inner += [part for block in inner if type(block) is ToolResultBlock and isinstance(block.content, list)
              for part in block.content]
    return any((type(block) is ImageBlock or type(block) is DocumentBlock) and isinstance(block.source, FileSource)
               for block in inner)


def marked(messages: list[ProviderMessage]) -> list[MarkableBlock]:
    """The blocks that carry a cache mark, in order."""
    return [block for message in messages for block in message.content
            if getattr(block, "cache_control", None) is not None and isinstance(block, MarkableBlock)]
