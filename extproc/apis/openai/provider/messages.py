"""The messages of a conversation in the order and the form of the OpenAI format.

The format requires: the system text first; directly after an assistant message with `tool_calls` one `tool` message per
call, in call order; only text in tool messages, so images of results move to a user message after them; no empty
message. Called by the request encoder with turns whose calls are already paired with results.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from extproc.apis.openai.provider.media import carried_parts, parts_of_media
from extproc.apis.openai.provider.past_reasoning import put_reasoning_back
from extproc.apis.openai.wire_messages import (
    AnyCall,
    AssistantMessage,
    Call,
    CustomCall,
    CustomInput,
    FunctionCall,
    Part,
    ProviderMessage,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)
from extproc.apis.openai.wire_request import FunctionTool
from extproc.apis.shared.cache_marks import CacheControl, put_in_order, sent_mark
from extproc.apis.shared.media import lost_media, text_of_foreign, text_of_media
from extproc.conversation.ids import ProviderIds
from extproc.conversation.model import CacheMark, Media, Text, ToolCall, ToolResult, longest_mark
from extproc.conversation.notes import ERROR_PREFIX, NO_OUTPUT
from extproc.conversation.past_arguments import arguments_text, free_text
from extproc.conversation.tool_names import NameMap
from extproc.conversation.tool_results import Exchange, Turn
from extproc.conversation.unsupported import Dropped
from extproc.profiles.profile import Profile
from extproc.profiles.target import Target

Marked = Part | FunctionTool
MOST_MARKS = 4
"""The most cache marks of a request at Anthropic and DashScope. Of more marks the last ones stay, which mark the
longest prefixes."""


def encode_messages(system: list[Text], turns: list[Turn], names: NameMap, target: Target, dropped: Dropped,
                    custom: frozenset[str] = frozenset(), marked: Sequence[Marked] = ()) -> list[ProviderMessage]:
    """All messages of a request. `system`: the texts of the leading system message. `custom`: the names of the tools
    that take free text at this endpoint. `marked`: cache-marked records before the messages."""
    return _Encoder(names, target, dropped, custom, marked).encode(system, turns)


class _Encoder:
    """Builds the list. `_parts` collects the open user message: it is written when another role follows, so that moved
    media and the text after them share one message."""

    def __init__(self, names: NameMap, target: Target, dropped: Dropped, custom: frozenset[str],
                 marked: Sequence[Marked]) -> None:
        self._names = names.to_provider
        self._target = target
        self._profile = target.profile
        self._dropped = dropped
        self._custom = custom
        self._marked: list[Marked] = [*marked]
        self._out: list[ProviderMessage] = []
        self._parts: list[Part] = []

    @cached_property
    def _ids(self) -> ProviderIds:
        """Created only if there is a call."""
        profile = self._profile
        return ProviderIds(profile.tool_call_id_pattern, profile.tool_call_id_max, profile.tool_call_id_form)

    def encode(self, system: list[Text], turns: list[Turn]) -> list[ProviderMessage]:
        # System messages before the first turn join the leading one: many chat templates take only one.
        leading = 0
        while leading < len(turns) and turns[leading].role == "system":
            leading += 1
        if leading:
            system = [*system, *(text for turn in turns[:leading] for text in self._texts(turn))]
        if system:
            self._system_message(system)
        for turn in turns[leading:]:
            if turn.role == "system":
                self._system(turn)
            elif turn.role == "user":
                self._user(turn)
            else:
                self._assistant(turn)
        self._close_user()
        self._mark_prefill()
        if self._marked:
            for part in self._marked[:-MOST_MARKS]:
                part.cache_control = None
            if put_in_order(self._marked[-MOST_MARKS:]):
                self._lose_time()
        return self._out

    # ------------------------------------------------------------------------------------------------------- roles

    def _system(self, turn: Turn) -> None:
        texts = self._texts(turn)
        if self._profile.system_anywhere:
            if any(text.text for text in texts):
                self._close_user()
                self._system_message(texts)
        elif text := "\n\n".join(text.text for text in texts if text.text):
            self._parts.append(self._part(f"[system message]\n{text}", cache=longest_mark(*(text.cache
                                                                                            for text in texts))))

    def _system_message(self, texts: list[Text]) -> None:
        parts = [self._part(text.text, cache=text.cache) for text in texts if text.text]
        if parts:
            self._out.append(SystemMessage(self._one_text(parts) or parts))

    def _user(self, turn: Turn) -> None:
        for block in turn.content:
            if type(block) is Text:
                if block.text:
                    self._parts.append(self._part(block.text, cache=block.cache))
            elif isinstance(block, Media):
                parts = parts_of_media(block, self._profile, self._dropped)
                self._parts.extend(parts)
                if block.cache:
                    self._mark(parts[-1], block.cache)
            elif text := text_of_foreign(block, self._dropped):
                self._parts.append(TextPart(text))
        if self._profile.system_anywhere:
            self._close_user()

    def _assistant(self, turn: Turn) -> None:
        message = AssistantMessage(self._text(turn), tool_calls=[self._call(one.call) for one in turn.exchanges])
        put_reasoning_back(message, turn, self._target, self._dropped)
        if not (message.content or message.tool_calls or message.reasoning_content or message.reasoning
                or message.reasoning_details):
            return
        if not message.content and message.tool_calls and self._profile.empty_content == "null":
            message.content = None
        self._close_user()
        self._out.append(message)
        if self._profile.never_parallel and len(turn.exchanges) > 1:
            self._one_by_one(message, turn.exchanges)
        else:
            self._results(turn.exchanges, message.tool_calls)

    def _one_by_one(self, message: AssistantMessage, exchanges: list[Exchange]) -> None:
        """Splits a turn with several calls into turns of one call each; the content of the turn precedes the first."""
        calls = message.tool_calls
        message.tool_calls = calls[:1]
        self._results(exchanges[:1], calls[:1])
        content = None if self._profile.empty_content == "null" else ""
        for exchange, call in zip(exchanges[1:], calls[1:], strict=True):
            self._out.append(AssistantMessage(content, tool_calls=[call]))
            self._results([exchange], [call])

    def _text(self, turn: Turn) -> str:
        """The text of an assistant turn. The format has no place for its cache marks."""
        if not turn.content:
            return ""
        only = turn.content[0]
        if len(turn.content) == 1 and type(only) is Text:
            if only.cache:
                self._lose_mark()
            return only.text
        return "\n\n".join(text.text for text in self._texts(turn, marks=False) if text.text)

    def _call(self, call: ToolCall) -> AnyCall:
        if call.cache:
            self._lose_mark()
        name = self._names.get(call.name, call.name)
        call_id = self._ids.next_id(call.id, name)
        if call.name in self._custom:
            return CustomCall(call_id, CustomInput(name, free_text(call.arguments)))
        return Call(call_id, FunctionCall(name, arguments_text(call.arguments)))

    # ----------------------------------------------------------------------------------------------------- results

    def _results(self, exchanges: list[Exchange], calls: list[AnyCall]) -> None:
        moved: list[Part] = []
        for at, exchange in enumerate(exchanges):
            result, call = exchange.result, calls[at]
            if result is None:
                continue
            text, parts = self._result(result)
            marked = self._part(text, cache=result.cache) if result.cache else None
            self._out.append(ToolMessage(call.id, text if marked is None or marked.cache_control is None else [marked]))
            if parts:
                moved += [TextPart(f"Attached to the result of {call.name} ({call.id}):"), *parts]
        self._parts.extend(moved)

    def _result(self, result: ToolResult) -> tuple[str, list[Part]]:
        """The text of a tool message, and the parts that must move to a user message."""
        moved: list[Part] = []
        if len(result.content) == 1 and type(only := result.content[0]) is Text:  # the usual case
            joined = only.text or NO_OUTPUT
            return (ERROR_PREFIX + joined if result.is_error else joined), moved
        texts: list[str] = []
        for block in result.content:
            if type(block) is Text:
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

    def _texts(self, turn: Turn, *, marks: bool = True) -> list[Text]:
        """The texts of a turn that may hold only text. `marks`: its cache marks can be carried."""
        texts: list[Text] = []
        for block in turn.content:
            if type(block) is Text:
                texts.append(block)
            elif isinstance(block, Media):
                text = text_of_media(block)
                texts.append(Text(lost_media(block, self._dropped) if text is None else text, cache=block.cache))
            else:
                texts.append(Text(text_of_foreign(block, self._dropped)))
        if not marks and any(text.cache for text in texts):
            self._lose_mark()
        return texts

    # -------------------------------------------------------------------------------------------------------- marks

    def _part(self, text: str, *, cache: CacheMark) -> TextPart:
        part = TextPart(text)
        if cache:
            self._mark(part, cache)
        return part

    def _mark(self, part: Part, cache: CacheMark) -> None:
        """Marks the prefix up to this part for caching."""
        if not self._profile.cache_marks:
            self._lose_mark()
            return
        part.cache_control = allowed_mark(cache, self._profile, self._dropped)
        self._marked.append(part)

    def _lose_mark(self) -> None:
        self._dropped.hint("cache_control")

    def _lose_time(self) -> None:
        self._dropped.hint("cache_control.ttl")

    def _one_text(self, parts: Sequence[Part]) -> str | None:
        """The parts as one string, which is all that several hosts take; None where that is not possible. At endpoints
        with cache marks several texts stay separate: the mark moves on with the conversation, and a text that is joined
        in one request and separate in the next would break the cache."""
        if len(parts) == 1:
            only = parts[0]
            return only.text if type(only) is TextPart and only.cache_control is None else None
        if self._profile.cache_marks:
            return None
        texts = [part.text for part in parts if isinstance(part, TextPart)]
        return "\n\n".join(texts) if len(texts) == len(parts) else None

    # -------------------------------------------------------------------------------------------------- the ends

    def _close_user(self) -> None:
        parts = self._parts
        if not parts:
            return
        self._parts = []
        bridge = self._profile.bridge_after_tools
        if bridge is not None and self._out and isinstance(self._out[-1], ToolMessage):
            self._out.append(AssistantMessage(content=bridge))
        self._out.append(UserMessage(self._one_text(parts) or parts))

    def _mark_prefill(self) -> None:
        last = self._out[-1] if self._out else None
        if type(last) is not AssistantMessage or last.tool_calls:
            return
        last.prefix = self._profile.prefill == "prefix"
        last.partial = self._profile.prefill == "partial"


def allowed_mark(cache: CacheMark, profile: Profile, dropped: Dropped) -> CacheControl:
    """A mark in the form that the endpoint takes."""
    if not profile.cache_ttl and cache is not True:
        if cache == "1h":
            dropped.hint("cache_control.ttl")
        cache = True  # a plain mark lives five minutes
    return sent_mark(cache)
