"""Events of the conversation model -> one whole `chat.completion`.

The content is that of the stream (`response`), collected. Calls of custom tools have a form of their own here. A
failure writes nothing: the caller sends `API.error` instead.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from extproc.apis.openai.client.request import ChatRequest
from extproc.apis.openai.client.response import (
    CREATED,
    completion_id,
    finish_reason,
    reasoning_detail,
    usage_fields,
    whole_calls,
)
from extproc.apis.openai.client.signatures import BlockPosition, PendingSignatures
from extproc.apis.shared.client_responses import Estimate, WholeResponse, call_input
from extproc.conversation.model import (
    ArgumentsDelta,
    Citations,
    Event,
    Finish,
    RedactedThinking,
    Request,
    SignatureDelta,
    TextDelta,
    TextStart,
    Thinking,
    ThinkingDelta,
    ThinkingStart,
    ToolCallStart,
)
from extproc.errors import Failure

_encode = msgspec.json.Encoder().encode
_object: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])


class _OpenBlock(msgspec.Struct):
    """A block that is being collected. `call_id` is the id for the client."""

    event: TextStart | ThinkingStart | ToolCallStart
    call_id: str = ""
    pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class CompletionEncoder(WholeResponse):
    """Writes one JSON object at the end of the response."""

    content_type = "application/json"

    def __init__(self, request: Request, message_id: str, prompt_estimate: Callable[[], int]) -> None:
        chat = request if isinstance(request, ChatRequest) else None
        self._legacy = chat is not None and chat.legacy_functions
        self._shown = chat is None or chat.show_reasoning
        self._custom = frozenset(tool.name for tool in request.tools if tool.custom)
        self._model = request.model
        self._id = completion_id(message_id)
        self._estimate = Estimate(prompt_estimate)
        self._blocks: list[_OpenBlock] = []
        self._cited = Citations([], {})
        self._details: list[dict[str, object]] = []
        self._signatures = PendingSignatures()
        self._characters = self._calls = 0
        """Characters of text and number of calls so far: the position of reasoning among them."""

    def _event(self, event: Event) -> bytes:
        match event:
            case TextDelta():
                self._blocks[-1].pieces.append(event.text)
                self._characters += len(event.text)
            case ThinkingDelta():
                self._blocks[-1].pieces.append(event.text)
            case ArgumentsDelta():
                self._blocks[-1].pieces.append(event.json)
            case TextStart() | ThinkingStart():
                self._blocks.append(_OpenBlock(event))
            case ToolCallStart():
                self._blocks.append(_OpenBlock(event, self._signatures.id_with_signature(event)))
                self._calls += 1
            case SignatureDelta():
                if event.signature:
                    self._add_signed_block(Thinking(self._blocks[-1].text, signature=event.signature))
            case RedactedThinking():
                self._add_signed_block(Thinking("", redacted=event.data))
            case Citations():
                self._cited = event
            case Finish():
                self._ended = True
                return self._completion(event)
            case Failure():
                self._ended = True
            case _:
                pass
        return b""

    def _add_signed_block(self, block: Thinking) -> None:
        self._signatures.add(block, self._characters)
        self._details.append(reasoning_detail(block, len(self._details), BlockPosition(self._calls, self._characters)))

    def _completion(self, finish: Finish) -> bytes:
        calls = [call for call in (self._call(block, finish) for block in self._blocks) if call is not None]
        word = finish_reason(finish.reason, bool(calls))
        message = self._message(calls)
        if finish.refusal is not None and finish.refusal.explanation:
            message["refusal"] = finish.refusal.explanation
            message["content"] = message["content"] or None
        if word == "tool_calls" and self._legacy:
            word = "function_call"
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": word}
        return _encode({
            "id": self._id, "object": "chat.completion", "created": CREATED, "model": self._model, "choices": [choice],
            "usage": usage_fields(finish.usage, self._estimate), "system_fingerprint": None, **self._cited.extra})

    def _message(self, calls: list[dict[str, object]]) -> dict[str, object]:
        text = self._joined(TextStart)
        message: dict[str, object] = {"role": "assistant", "content": text or (None if calls else ""), "refusal": None}
        if self._cited.annotations:
            message["annotations"] = self._cited.annotations
        if self._shown:
            if reasoning := self._joined(ThinkingStart):
                message["reasoning_content"] = reasoning
            if self._details:
                message["reasoning_details"] = self._details
        if calls and self._legacy:
            message["function_call"] = calls[0]["function"]
        elif calls:
            message["tool_calls"] = calls
        return message

    def _joined(self, kind: type) -> str:
        return "".join(block.text for block in self._blocks if isinstance(block.event, kind))

    def _call(self, block: _OpenBlock, finish: Finish) -> dict[str, object] | None:
        """None for other blocks and for a call that a limit truncated."""
        if not isinstance(block.event, ToolCallStart):
            return None
        name, arguments = block.event.name, block.text
        if call_input(arguments, not whole_calls(finish.reason), last=block is self._blocks[-1]) is None:
            return None
        if name in self._custom and not self._legacy:
            return {"id": block.call_id, "type": "custom",
                    "custom": {"name": name, "input": custom_input(arguments)}}
        return {"id": block.call_id, "type": "function",
                "function": {"name": name, "arguments": arguments if arguments.strip() else "{}"}}


def custom_input(arguments: str) -> str:
    """The free text of a custom tool's call, from `{"input": ...}`. Arguments of another form are returned
    unchanged."""
    try:
        value = _object.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments
    text = value.get("input")
    return text if isinstance(text, str) else arguments
