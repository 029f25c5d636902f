"""The turns of a conversation as Gemini's contents.

What the format demands and this keeps: the first content is the user's; behind a model content with function calls at
once one user content that holds exactly their responses, in call order, and nothing else; no empty content and no
empty part; the first call of each step carries a signature where the model requires one; a signed part is never
merged with another. Called by the request encoder with turns whose calls are paired already.
"""

from __future__ import annotations

from functools import cached_property

import msgspec

from extproc.apis.gemini.provider import signatures
from extproc.apis.gemini.provider.media import MediaEncoder
from extproc.apis.gemini.provider.results import encode_result
from extproc.apis.gemini.provider.wire import Content, FunctionCall, Part
from extproc.apis.shared.media import lost_media, text_of_media
from extproc.conversation.ids import CLIENT_ID, ProviderIds
from extproc.conversation.model import CacheMark, Media, Opaque, Text, Thinking
from extproc.conversation.notes import CONTINUE
from extproc.conversation.past_arguments import arguments_text
from extproc.conversation.tool_names import NameMap
from extproc.conversation.tool_results import Exchange, Turn
from extproc.conversation.unsupported import Dropped
from extproc.profiles.gemini import GeminiEndpoint, GeminiModel
from extproc.profiles.target import Target

FIRST = "(The conversation begins with your message.)"
"""The user content before a conversation that the assistant begins."""


class Conversation(msgspec.Struct, frozen=True):
    """`system` is the text of the system messages at the head, "" for none."""

    system: str
    contents: list[Content]


def encode_contents(system: list[str], turns: list[Turn], names: NameMap, target: Target, model: GeminiModel,
                    door: GeminiEndpoint, dropped: Dropped) -> Conversation:
    """All contents of a request; `system` holds the texts that lead the system instruction."""
    return _Encoder(names, target, model, door, dropped).encode(system, turns)


class _Encoder:
    """Builds the list. `_parts` collects the open user content: it is written when the model's turn follows, so that
    all that the user says between two model turns shares one content."""

    def __init__(self, names: NameMap, target: Target, model: GeminiModel, door: GeminiEndpoint,
                 dropped: Dropped) -> None:
        self._names = names.to_provider
        self._target = target
        self._model = model
        self._signs = model.signatures != "none"
        self._media = MediaEncoder(model, door, target, dropped)
        self._dropped = dropped
        self._has_ids = door.call_ids and model.call_ids
        self._out: list[Content] = []
        self._parts: list[Part] = []

    @cached_property
    def _ids(self) -> ProviderIds:
        """Asked for only where there is a call."""
        return ProviderIds(CLIENT_ID, 64)

    def encode(self, system: list[str], turns: list[Turn]) -> Conversation:
        leading = next((at for at, turn in enumerate(turns) if turn.role != "system"), len(turns))
        head = "\n\n".join(text for text in (*system, *map(self._words, turns[:leading])) if text)
        rest = turns[leading:]
        if head and (not self._model.system_instruction or not rest):
            # Without any other content the system text is all there is to answer.
            self._parts.append(Part(text=head))
            head = ""
        for turn in rest:
            if turn.role == "system":
                text = self._words(turn)
                if text:
                    self._parts.append(Part(text=f"[system message]\n{text}"))
            elif turn.role == "user":
                self._user(turn)
            else:
                self._assistant(turn)
        self._close_user()
        self._close_conversation()
        return Conversation(head, self._out)

    # ------------------------------------------------------------------------------------------------------- roles

    def _user(self, turn: Turn) -> None:
        for block in turn.content:
            if type(block) is Text:
                self._note_cache(block.cache)
                if block.text:
                    self._parts.append(Part(text=block.text))
            elif isinstance(block, Media):
                self._note_cache(block.cache)
                self._parts.extend(self._media.parts(block))
            elif text := self._other(block):
                self._parts.append(Part(text=text))

    def _assistant(self, turn: Turn) -> None:
        parts = self._model_parts(turn)
        if not turn.exchanges and all(part.thought for part in parts):
            return
        self._close_user()
        last = self._out[-1] if self._out else None
        if last is not None and last.role == "model":  # nothing was left of the user's turn between them
            last.parts.extend(parts)
        else:
            self._append(Content("model", parts))
        if turn.exchanges:
            self._results(turn.exchanges, [part.function_call for part in parts if part.function_call is not None])

    def _model_parts(self, turn: Turn) -> list[Part]:
        """Text and calls in their order, each with its own signature: that of a text rode in the thinking before it.
        Thinking stays away, because signatures stand for it, but for a thought that is signed itself."""
        parts: list[Part] = []
        signature: str | None = None
        first = True
        for block in turn.in_order():
            if type(block) is Thinking:
                thought = self._thought(block)
                if thought is not None:
                    parts.append(thought)
                else:
                    signature = signatures.of_text(block, self._target) or signature
            elif type(block) is Exchange:
                parts.append(self._call(block, first))
                first, signature = False, None
            elif text := self._said(block):
                parts.append(Part(text=text, thought_signature=signature if self._signs else None))
                signature = None
        return parts

    def _thought(self, block: Thinking) -> Part | None:
        """A thought as the part that it was, with the signature that it came with; else its loss is named."""
        signature = signatures.of_thought(block, self._target) if self._signs else None
        if signature is not None and block.text:
            return Part(text=block.text, thought=True, thought_signature=signature)
        if block.text or block.redacted:
            self._dropped.hint("messages.thinking")
        return None

    def _said(self, block: Text | Media | Opaque) -> str:
        if type(block) is Text:
            self._note_cache(block.cache)
            return block.text
        return self._media_in_words(block) if isinstance(block, Media) else self._other(block)

    def _call(self, exchange: Exchange, first: bool) -> Part:
        call = exchange.call
        self._note_cache(call.cache)
        name = self._names.get(call.name, call.name)
        signature = signatures.of_call(call, self._target) if self._signs else None
        if signature is None and first and self._model.signatures == "required":
            signature = signatures.BYPASS
        call_id = self._ids.next(call.id, name) if self._has_ids else None
        args = msgspec.Raw(arguments_text(call.arguments).encode("utf-8", "replace"))
        return Part(function_call=FunctionCall(name, args, call_id), thought_signature=signature)

    def _results(self, exchanges: list[Exchange], calls: list[FunctionCall]) -> None:
        responses: list[Part] = []
        for at, exchange in enumerate(exchanges):
            assert exchange.result is not None, "pair() answers every call"
            self._note_cache(exchange.result.cache)
            found = encode_result(exchange.result, calls[at].name, calls[at].id, self._media, self._dropped)
            responses.append(Part(function_response=found.response))
            self._parts.extend(found.moved)
        self._out.append(Content("user", responses))

    # ------------------------------------------------------------------------------------------------------- words

    def _words(self, turn: Turn) -> str:
        """The text of a turn that may hold nothing but text."""
        texts: list[str] = []
        for block in turn.content:
            if isinstance(block, Text):
                self._note_cache(block.cache)
                texts.append(block.text)
            elif isinstance(block, Media):
                texts.append(self._media_in_words(block))
            else:
                texts.append(self._other(block))
        return "\n\n".join(filter(None, texts))

    def _media_in_words(self, media: Media) -> str:
        text = text_of_media(media)
        return lost_media(media, self._dropped) if text is None else text

    def _other(self, block: Thinking | Opaque) -> str:
        """A foreign block in words, "" (and named) where there are none. Thinking never turns into text."""
        if isinstance(block, Thinking):
            return ""
        if block.text is None:
            self._dropped.loss(f"messages.{block.type}")
        return block.text or ""

    def _note_cache(self, cache: CacheMark) -> None:
        if cache:
            self._dropped.hint("cache_control")

    # -------------------------------------------------------------------------------------------------- the ends

    def _close_user(self) -> None:
        if self._parts:
            self._out.append(Content("user", self._parts))
            self._parts = []

    def _append(self, content: Content) -> None:
        if not self._out:
            self._out.append(Content("user", [Part(text=FIRST)]))
        self._out.append(content)

    def _close_conversation(self) -> None:
        if self._out and self._out[-1].role == "model" and not self._model.prefill:
            self._out.append(Content("user", [Part(text=CONTINUE)]))
