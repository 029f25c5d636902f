"""The turns of a conversation as input items of the Responses API.

The leading system text becomes `instructions`. An assistant turn becomes reasoning, messages and calls in the order in
which the model wrote them; the outputs of its calls follow in call order. No item has an id: ids belong to stored
responses, and an incomplete set of them is refused. Reasoning is sent only to its issuer, and only if an item of the
same turn follows; otherwise the API answers 400 ("'reasoning' was provided without its required following item").
Called by the request encoder with turns whose calls are already paired with results.
"""

from __future__ import annotations

from functools import cached_property

import msgspec

from extproc.apis.responses.provider.media import parts_of_media
from extproc.apis.responses.provider.signatures import own_reasoning
from extproc.apis.responses.wire_request import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputItem,
    InputPart,
    InputText,
    Message,
    OutputText,
    Reasoning,
)
from extproc.apis.shared.media import text_of_foreign
from extproc.conversation.ids import ProviderIds
from extproc.conversation.model import Media, Opaque, Text, Thinking, ToolResult
from extproc.conversation.notes import ERROR_PREFIX, NO_OUTPUT
from extproc.conversation.past_arguments import arguments_text, free_text
from extproc.conversation.tool_names import NameMap
from extproc.conversation.tool_results import Exchange, Turn
from extproc.conversation.unsupported import Dropped
from extproc.profiles.target import Target

_encode = msgspec.json.Encoder().encode


class EncodedInput(msgspec.Struct, frozen=True):
    """The two fields of a request that hold the conversation."""

    instructions: str | None
    items: list[InputItem]


def encode_input(system: list[Text], turns: list[Turn], names: NameMap, target: Target, dropped: Dropped,
                 custom: frozenset[str]) -> EncodedInput:
    """`system`: the texts of the leading system prompt. `custom`: the names of the tools that take free text at this
    endpoint."""
    return _Encoder(names, target, dropped, custom).encode(system, turns)


class _Encoder:
    def __init__(self, names: NameMap, target: Target, dropped: Dropped, custom: frozenset[str]) -> None:
        self._names = names.to_provider
        self._target = target
        self._profile = target.profile
        self._dropped = dropped
        self._custom = custom
        self._items: list[InputItem] = []

    @cached_property
    def _ids(self) -> ProviderIds:
        """Created only if there is a call."""
        profile = self._profile
        return ProviderIds(profile.tool_call_id_pattern, profile.tool_call_id_max, profile.tool_call_id_form)

    def encode(self, system: list[Text], turns: list[Turn]) -> EncodedInput:
        leading = 0
        while leading < len(turns) and turns[leading].role == "system":
            leading += 1
        texts = [*(text.text for text in system if text.text),
                 *(text for turn in turns[:leading] for text in self._texts(turn))]
        if any(text.cache for text in system):
            self._lose_mark()
        for turn in turns[leading:]:
            if turn.role == "system":
                self._system(turn)
            elif turn.role == "user":
                self._user(turn)
            else:
                self._assistant(turn)
        instructions = "\n\n".join(texts) or None
        if instructions is not None and not self._items:  # the API demands an item
            return EncodedInput(None, [Message("developer", instructions)])
        return EncodedInput(instructions, self._items)

    # ------------------------------------------------------------------------------------------------------- roles

    def _system(self, turn: Turn) -> None:
        text = "\n\n".join(self._texts(turn))
        if not text:
            return
        if self._profile.system_anywhere:
            self._items.append(Message("developer", text))
        else:
            self._items.append(Message("user", f"[system message]\n{text}"))

    def _user(self, turn: Turn) -> None:
        parts: list[InputPart] = []
        for block in turn.content:
            if type(block) is Text:
                parts += [InputText(block.text)] if block.text else []
            elif isinstance(block, Media):
                parts += parts_of_media(block, self._profile, self._dropped)
            elif text := text_of_foreign(block, self._dropped):
                parts.append(InputText(text))
            self._note_mark(block)
        if parts:
            self._items.append(Message("user", _one_text(parts) or parts))

    def _assistant(self, turn: Turn) -> None:
        """Texts without anything between them become the parts of one message."""
        first = len(self._items)
        phase = None
        if self._profile.message_phase:
            phase = "commentary" if turn.exchanges else "final_answer"
        outputs: list[InputItem] = []
        for block in turn.in_order():
            if type(block) is Exchange:
                self._items.append(self._call(block, outputs))
            elif type(block) is Thinking:
                self._reasoning(block)
            elif text := self._assistant_text(block):
                last = self._items[-1] if len(self._items) > first else None
                if type(last) is Message and isinstance(last.content, list):
                    last.content.append(OutputText(text))
                else:
                    self._items.append(Message("assistant", [OutputText(text)], phase))
        while len(self._items) > first and type(self._items[-1]) is Reasoning:
            self._items.pop()
            self._dropped.hint("messages.thinking")
        self._items += outputs

    def _assistant_text(self, block: Text | Media | Thinking | Opaque | Exchange) -> str:
        if type(block) is Text:
            self._note_mark(block)
            return block.text
        if isinstance(block, Media):
            return "\n\n".join(part.text for part in parts_of_media(block, self._profile, self._dropped)
                               if isinstance(part, InputText))
        return text_of_foreign(block, self._dropped) if isinstance(block, Opaque) else ""

    def _reasoning(self, block: Thinking) -> None:
        encrypted = own_reasoning(block, self._target)
        if encrypted is None:
            if block.text or block.signature or block.redacted:
                self._dropped.hint("messages.thinking")
            return
        summary = [msgspec.Raw(_encode({"type": "summary_text", "text": block.text}))] if block.text else []
        self._items.append(Reasoning(encrypted, summary))

    # ------------------------------------------------------------------------------------------------------- calls

    def _call(self, exchange: Exchange, outputs: list[InputItem]) -> FunctionCall | CustomToolCall:
        """The item of a call; its output is added to `outputs`."""
        call, result = exchange.call, exchange.result
        if call.cache:
            self._lose_mark()
        name = self._names.get(call.name, call.name)
        call_id = self._ids.next_id(call.id, name)
        output = NO_OUTPUT if result is None else self._output(result)
        if call.name in self._custom:
            outputs.append(CustomToolCallOutput(call_id, output))
            return CustomToolCall(call_id, name, free_text(call.arguments))
        outputs.append(FunctionCallOutput(call_id, output))
        return FunctionCall(call_id, name, arguments_text(call.arguments))

    def _output(self, result: ToolResult) -> str | list[InputPart]:
        parts: list[InputPart] = [InputText(ERROR_PREFIX.strip())] if result.is_error else []
        if result.cache:
            self._lose_mark()
        for block in result.content:
            if type(block) is Text:
                parts += [InputText(block.text)] if block.text else []
            else:
                parts += parts_of_media(block, self._profile, self._dropped)
        texts = [part.text for part in parts if isinstance(part, InputText)]
        if len(texts) < len(parts):
            return parts
        if not result.is_error:
            return "\n".join(texts) or NO_OUTPUT
        return ERROR_PREFIX + ("\n".join(texts[1:]) or NO_OUTPUT)

    # ------------------------------------------------------------------------------------------------------- words

    def _texts(self, turn: Turn) -> list[str]:
        """The texts of a system turn."""
        texts: list[str] = []
        for block in turn.content:
            self._note_mark(block)
            text = block.text if type(block) is Text else self._assistant_text(block)
            texts += [text] if text else []
        return texts

    def _note_mark(self, block: Text | Media | Thinking | Opaque) -> None:
        if isinstance(block, Text | Media) and block.cache:
            self._lose_mark()

    def _lose_mark(self) -> None:
        """The API caches prefixes by itself."""
        self._dropped.hint("cache_control")


def _one_text(parts: list[InputPart]) -> str | None:
    """The only part as a string, if it is text."""
    only = parts[0]
    return only.text if len(parts) == 1 and isinstance(only, InputText) else None
