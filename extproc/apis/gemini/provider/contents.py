"""The turns of a conversation as Gemini's contents.

The rules of the format: the first content is the user's; a model content with function calls is followed by one user
content with exactly their responses, in call order, and nothing else; no content and no part is empty; the first call
of each step carries a signature if the model requires one; a signed part is never merged with another. Called by the
request encoder with turns whose calls and results are paired already.
"""

from __future__ import annotations

from functools import cached_property

import msgspec

from extproc.apis.gemini.provider import signatures
from extproc.apis.gemini.provider.media import MediaEncoder
from extproc.apis.gemini.wire import (
    FunctionResponse,
    RequestCall,
    RequestContent,
    RequestPart,
    ResultObject,
    ResultPart,
)
from extproc.apis.shared.media import lost_media, text_of_foreign, text_of_media
from extproc.conversation.ids import CLIENT_ID, ProviderIds
from extproc.conversation.model import CacheMark, Media, Opaque, Text, Thinking, ToolResult
from extproc.conversation.notes import CONTINUE, NO_OUTPUT
from extproc.conversation.past_arguments import arguments_text
from extproc.conversation.tool_names import NameMap
from extproc.conversation.tool_results import Exchange, Turn
from extproc.conversation.unsupported import Dropped
from extproc.profiles.gemini import GeminiEndpoint, GeminiModel
from extproc.profiles.target import Target

FIRST_USER_TEXT = "(The conversation begins with your message.)"
"""The user content in front of a conversation that the assistant begins."""


class EncodedConversation(msgspec.Struct, frozen=True):
    """`system`: the text of the system messages at the start, "" for none."""

    system: str
    contents: list[RequestContent]


def encode_contents(system: list[str], turns: list[Turn], names: NameMap, target: Target, model: GeminiModel,
                    endpoint: GeminiEndpoint, dropped: Dropped) -> EncodedConversation:
    """All contents of a request. `system`: texts that begin the system instruction."""
    return _ContentsEncoder(names, target, model, endpoint, dropped).encode(system, turns)


class _ContentsEncoder:
    """Builds the list of contents. `_user_parts` collects the open user content until a model turn follows, so that
    everything between two model turns shares one content."""

    def __init__(self, names: NameMap, target: Target, model: GeminiModel, endpoint: GeminiEndpoint,
                 dropped: Dropped) -> None:
        self._names = names.to_provider
        self._target = target
        self._model = model
        self._sends_signatures = model.signatures != "none"
        self._media = MediaEncoder(model, endpoint, target, dropped)
        self._dropped = dropped
        self._has_ids = endpoint.call_ids and model.call_ids
        self._out: list[RequestContent] = []
        self._user_parts: list[RequestPart] = []

    @cached_property
    def _ids(self) -> ProviderIds:
        """Made only if there is a call."""
        return ProviderIds(CLIENT_ID, 64)

    def encode(self, system: list[str], turns: list[Turn]) -> EncodedConversation:
        leading = next((at for at, turn in enumerate(turns) if turn.role != "system"), len(turns))
        head = "\n\n".join(text for text in (*system, *map(self._text_of_turn, turns[:leading])) if text)
        rest = turns[leading:]
        if head and (not self._model.system_instruction or not rest):
            # Without any other content the system text is all there is to respond to.
            self._user_parts.append(RequestPart(text=head))
            head = ""
        for turn in rest:
            if turn.role == "system":
                text = self._text_of_turn(turn)
                if text:
                    self._user_parts.append(RequestPart(text=f"[system message]\n{text}"))
            elif turn.role == "user":
                self._add_user_turn(turn)
            else:
                self._add_model_turn(turn)
        self._close_user()
        self._close_conversation()
        return EncodedConversation(head, self._out)

    # ------------------------------------------------------------------------------------------------------- roles

    def _add_user_turn(self, turn: Turn) -> None:
        for block in turn.content:
            if type(block) is Text:
                self._note_cache(block.cache)
                if block.text:
                    self._user_parts.append(RequestPart(text=block.text))
            elif isinstance(block, Media):
                self._note_cache(block.cache)
                self._user_parts.extend(self._media.encode_in_turn(block))
            elif text := text_of_foreign(block, self._dropped):
                self._user_parts.append(RequestPart(text=text))

    def _add_model_turn(self, turn: Turn) -> None:
        parts = self._model_parts(turn)
        if not turn.exchanges and all(part.thought for part in parts):
            return
        self._close_user()
        last = self._out[-1] if self._out else None
        if last is not None and last.role == "model":  # the user's turn between them was empty
            last.parts.extend(parts)
        else:
            self._append_model_content(RequestContent("model", parts))
        if turn.exchanges:
            self._add_results(turn.exchanges, [part.function_call for part in parts if part.function_call is not None])

    def _model_parts(self, turn: Turn) -> list[RequestPart]:
        """Text and calls in their order, each with its own signature; the signature of a text is embedded in the
        thinking before it. Thinking is not sent, because signatures stand for it, unless it is signed itself."""
        parts: list[RequestPart] = []
        signature: str | None = None
        first = True
        for block in turn.in_order():
            if type(block) is Thinking:
                thought = self._thought_part(block)
                if thought is not None:
                    parts.append(thought)
                else:
                    signature = signatures.signature_of_text(block, self._target) or signature
            elif type(block) is Exchange:
                parts.append(self._call_part(block, first))
                first, signature = False, None
            elif text := self._text_of_block(block):
                parts.append(RequestPart(text=text, thought_signature=signature if self._sends_signatures else None))
                signature = None
        return parts

    def _thought_part(self, block: Thinking) -> RequestPart | None:
        """A thought with the signature that it came with; None, and named, if it has none of this target."""
        signature = signatures.signature_of_thought(block, self._target) if self._sends_signatures else None
        if signature is not None and block.text:
            return RequestPart(text=block.text, thought=True, thought_signature=signature)
        if block.text or block.redacted:
            self._dropped.hint("messages.thinking")
        return None

    def _text_of_block(self, block: Text | Media | Opaque) -> str:
        if type(block) is Text:
            self._note_cache(block.cache)
            return block.text
        return self._text_of_media(block) if isinstance(block, Media) else text_of_foreign(block, self._dropped)

    def _call_part(self, exchange: Exchange, first: bool) -> RequestPart:
        call = exchange.call
        self._note_cache(call.cache)
        name = self._names.get(call.name, call.name)
        signature = signatures.signature_of_call(call, self._target) if self._sends_signatures else None
        if signature is None and first and self._model.signatures == "required":
            signature = signatures.BYPASS
        call_id = self._ids.next_id(call.id, name) if self._has_ids else None
        args = msgspec.Raw(arguments_text(call.arguments).encode("utf-8", "replace"))
        return RequestPart(function_call=RequestCall(name, args, call_id), thought_signature=signature)

    def _add_results(self, exchanges: list[Exchange], calls: list[RequestCall]) -> None:
        responses: list[RequestPart] = []
        for at, exchange in enumerate(exchanges):
            assert exchange.result is not None, "pair() gives every call a result"
            self._note_cache(exchange.result.cache)
            encoded = _encode_result(exchange.result, calls[at].name, calls[at].id, self._media, self._dropped)
            responses.append(RequestPart(function_response=encoded.response))
            self._user_parts.extend(encoded.moved)
        self._out.append(RequestContent("user", responses))

    # -------------------------------------------------------------------------------------------------------- text

    def _text_of_turn(self, turn: Turn) -> str:
        """A system turn as text: it can carry nothing else."""
        texts: list[str] = []
        for block in turn.content:
            if isinstance(block, Text):
                self._note_cache(block.cache)
                texts.append(block.text)
            elif isinstance(block, Media):
                texts.append(self._text_of_media(block))
            else:
                texts.append(text_of_foreign(block, self._dropped))
        return "\n\n".join(filter(None, texts))

    def _text_of_media(self, media: Media) -> str:
        text = text_of_media(media)
        return lost_media(media, self._dropped) if text is None else text

    def _note_cache(self, cache: CacheMark) -> None:
        if cache:
            self._dropped.hint("cache_control")

    # ------------------------------------------------------------------------------------------------------ contents

    def _close_user(self) -> None:
        if self._user_parts:
            self._out.append(RequestContent("user", self._user_parts))
            self._user_parts = []

    def _append_model_content(self, content: RequestContent) -> None:
        if not self._out:
            self._out.append(RequestContent("user", [RequestPart(text=FIRST_USER_TEXT)]))
        self._out.append(content)

    def _close_conversation(self) -> None:
        if self._out and self._out[-1].role == "model" and not self._model.prefill:
            self._out.append(RequestContent("user", [RequestPart(text=CONTINUE)]))


# ------------------------------------------------------------------------------------------------------- tool results


class _EncodedResult(msgspec.Struct, frozen=True):
    """`moved`: media that a function response cannot hold, for the user content behind all responses."""

    response: FunctionResponse
    moved: list[RequestPart]


def _encode_result(result: ToolResult, name: str, call_id: str | None, media: MediaEncoder,
                   dropped: Dropped) -> _EncodedResult:
    """A tool result as a function response: one object, with the media that it may hold. `name`: the provider's name of
    the function. `call_id`: the id that the call was sent with."""
    content = result.content
    if len(content) == 1 and type(only := content[0]) is Text:  # the usual case
        return _EncodedResult(FunctionResponse(name, _result_object(only.text, result), call_id), [])
    texts: list[str] = []
    inside: list[ResultPart] = []
    moved: list[RequestPart] = []
    for block in content:
        if type(block) is Text:
            texts.append(block.text)
        elif (text := text_of_media(block)) is not None:
            texts.append(text)
        elif (blob := media.encode_in_result(block)) is not None:
            texts.append(f"[{block.kind} attached]")
            inside.append(ResultPart(blob))
        elif parts := media.encode_media(block):
            texts.append(f"[{block.kind} attached in the next user message]")
            moved += parts
        else:
            texts.append(lost_media(block, dropped))
    if moved:
        about = f"Attached to the result of {name}" + (f" ({call_id})" if call_id is not None else "")
        moved.insert(0, RequestPart(text=f"{about}:"))
    response = _result_object("\n".join(filter(None, texts)), result)
    return _EncodedResult(FunctionResponse(name, response, call_id, inside), moved)


def _result_object(text: str, result: ToolResult) -> ResultObject:
    text = text or NO_OUTPUT
    return ResultObject(error=text) if result.is_error else ResultObject(output=text)
