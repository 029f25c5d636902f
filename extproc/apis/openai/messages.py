"""The messages of a conversation in the order and the words of the OpenAI format.

What the format demands and this keeps: the system text first; behind an assistant message with `tool_calls` at once
one `tool` message per call, in call order; tool messages hold text only, so images of results move to a user message
behind all of them; no empty message. Called by the request encoder with turns whose calls are paired already.
"""

from __future__ import annotations

from extproc.apis.base import Dropped, NameMap
from extproc.apis.media import lost_media, text_of_media
from extproc.apis.openai.media import carried_parts, parts_of_media
from extproc.apis.openai.wire import (
    AssistantMessage,
    Call,
    FunctionCall,
    Part,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    WireMessage,
)
from extproc.arguments import arguments_text
from extproc.conversation import Media, Opaque, Text, Thinking, ToolResult
from extproc.ids import ProviderIds
from extproc.pairing import Exchange, Turn
from extproc.profiles.profile import Profile

NO_OUTPUT = "(no output)"
"""Stands for an empty tool result: an empty string is refused or puzzles the model."""
ERROR_PREFIX = "[tool error] "
"""Begins the text of a result with `is_error`: the format has no field for it."""


def encode_messages(system: list[str], turns: list[Turn], names: NameMap, profile: Profile,
                    dropped: Dropped) -> list[WireMessage]:
    """All messages of a request; `system` holds the texts of the system message at the head."""
    return _Encoder(names, profile, dropped).encode(system, turns)


class _Encoder:
    """Builds the list. `_parts` collects the open user message: it is written when another role follows, so that
    moved media and the text behind them share one message."""

    def __init__(self, names: NameMap, profile: Profile, dropped: Dropped) -> None:
        self._names = names
        self._profile = profile
        self._dropped = dropped
        self._ids = ProviderIds(profile.tool_call_id_pattern, profile.tool_call_id_max, profile.tool_call_id_form)
        self._out: list[WireMessage] = []
        self._parts: list[Part] = []

    def encode(self, system: list[str], turns: list[Turn]) -> list[WireMessage]:
        # System messages before the first turn join the head: many chat templates take one system message only.
        leading = next((at for at, turn in enumerate(turns) if turn.role != "system"), len(turns))
        head = [text for text in (*system, *map(self._words, turns[:leading])) if text]
        if head:
            self._out.append(SystemMessage("\n\n".join(head)))
        for turn in turns[leading:]:
            if turn.role == "system":
                self._system(turn)
            elif turn.role == "user":
                self._user(turn)
            else:
                self._assistant(turn)
        self._close_user()
        self._mark_prefill()
        return self._out

    # ------------------------------------------------------------------------------------------------------- roles

    def _system(self, turn: Turn) -> None:
        text = self._words(turn)
        if not text:
            return
        if self._profile.system_anywhere:
            self._close_user()
            self._out.append(SystemMessage(text))
        else:
            self._parts.append(TextPart(f"[system message]\n{text}"))

    def _user(self, turn: Turn) -> None:
        for block in turn.content:
            if isinstance(block, Text):
                self._note_cache(block.cache)
                if block.text:
                    self._parts.append(TextPart(block.text))
            elif isinstance(block, Media):
                self._note_cache(block.cache)
                self._parts.extend(parts_of_media(block, self._profile, self._dropped))
            elif text := self._other(block):
                self._parts.append(TextPart(text))
        if self._profile.system_anywhere:
            self._close_user()

    def _assistant(self, turn: Turn) -> None:
        text = self._words(turn)
        thinking = "\n\n".join(block.text for block in turn.content if isinstance(block, Thinking) and block.text)
        message = AssistantMessage(content=text)
        for exchange in turn.exchanges:
            self._note_cache(exchange.call.cache)
            name = self._names.to_provider.get(exchange.call.name, exchange.call.name)
            message.tool_calls.append(Call(self._ids.next(exchange.call.id, name),
                                           FunctionCall(name, arguments_text(exchange.call.arguments))))
        self._reasoning(message, thinking, any(isinstance(block, Thinking) for block in turn.content))
        if not text and not message.tool_calls and not message.reasoning_content and not message.reasoning:
            return
        if not text and message.tool_calls and self._profile.empty_content == "null":
            message.content = None
        self._close_user()
        self._out.append(message)
        self._results(turn.exchanges, message.tool_calls)

    def _reasoning(self, message: AssistantMessage, thinking: str, present: bool) -> None:
        """Thinking of the past, where the endpoint wants it back."""
        wanted = self._profile.reasoning_history
        if wanted == "drop" or (wanted == "with_tool_calls" and not message.tool_calls):
            if present:
                self._dropped.hint("messages.thinking")
            return
        value = thinking or (self._profile.reasoning_placeholder if message.tool_calls else None)
        if value is None:
            return
        if self._profile.reasoning_field == "reasoning":
            message.reasoning = value
        else:
            message.reasoning_content = value

    # ----------------------------------------------------------------------------------------------------- results

    def _results(self, exchanges: list[Exchange], calls: list[Call]) -> None:
        moved: list[Part] = []
        for exchange, call in zip(exchanges, calls, strict=True):
            if exchange.result is None:
                continue
            text, parts = self._result(exchange.result)
            self._out.append(ToolMessage(call.id, text))
            if parts:
                moved += [TextPart(f"Attached to the result of {call.function.name} ({call.id}):"), *parts]
        self._parts.extend(moved)

    def _result(self, result: ToolResult) -> tuple[str, list[Part]]:
        """The text of a tool message, and the parts that must move to a user message."""
        self._note_cache(result.cache)
        texts: list[str] = []
        moved: list[Part] = []
        for block in result.content:
            if isinstance(block, Text):
                texts.append(block.text)
            elif (text := text_of_media(block)) is not None:
                texts.append(text)
            elif parts := carried_parts(block, self._profile):
                texts.append(f"[{block.kind} attached in the next user message]")
                moved += parts
            else:
                texts.append(lost_media(block, self._dropped))
        joined = "\n".join(filter(None, texts)) or NO_OUTPUT
        return (ERROR_PREFIX + joined if result.is_error else joined), moved

    # ------------------------------------------------------------------------------------------------------- words

    def _words(self, turn: Turn) -> str:
        """The text of a turn that may hold nothing but text."""
        texts: list[str] = []
        for block in turn.content:
            if isinstance(block, Text):
                self._note_cache(block.cache)
                texts.append(block.text)
            elif isinstance(block, Media):
                text = text_of_media(block)
                texts.append(lost_media(block, self._dropped) if text is None else text)
            else:
                texts.append(self._other(block))
        return "\n\n".join(filter(None, texts))

    def _other(self, block: Thinking | Opaque) -> str:
        """A foreign block in words, "" (and named) where there are none. Thinking never turns into text."""
        if isinstance(block, Thinking):
            return ""
        if block.text is None:
            self._dropped.loss(f"messages.{block.type}")
        return block.text or ""

    def _note_cache(self, cache: bool) -> None:
        if cache:
            self._dropped.hint("cache_control")

    # -------------------------------------------------------------------------------------------------- the ends

    def _close_user(self) -> None:
        parts = self._parts
        if not parts:
            return
        self._parts = []
        bridge = self._profile.bridge_after_tools
        if bridge is not None and self._out and isinstance(self._out[-1], ToolMessage):
            self._out.append(AssistantMessage(content=bridge))
        texts = [part.text for part in parts if isinstance(part, TextPart)]
        # One string where that is possible: several hosts take nothing else.
        self._out.append(UserMessage("\n\n".join(texts) if len(texts) == len(parts) else parts))

    def _mark_prefill(self) -> None:
        last = self._out[-1] if self._out else None
        if not isinstance(last, AssistantMessage) or last.tool_calls:
            return
        last.prefix = self._profile.prefill == "prefix"
        last.partial = self._profile.prefill == "partial"
