"""Answers of providers: generated once, written in the wire of each provider API, heard by the official SDKs.

The SDKs read what the gateway writes through a transport that holds it: nothing touches a socket. Used by
`test_round_trips`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anthropic
import httpx2
import openai
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState

from tests.property.stories import ARGUMENTS, WORDS
from tests.providers import anthropic as claude
from tests.providers import gemini_wire
from tests.providers import openai as gpt
from tests.providers import responses as new
from tests.providers.http import Reply

Json = dict[str, Any]


@dataclass(frozen=True)
class Provider:
    """An API at one endpoint; `name` is the configuration's `provider`."""

    api: str
    model: str
    url: str
    name: str | None = None
    reasons: bool = True
    signs: bool = False
    samples: bool = True
    """It takes a temperature."""

    def __str__(self) -> str:
        return f"{self.api}-{self.name}" if self.name else self.api


PROVIDERS = (
    Provider("openai", "some-model", "http://127.0.0.1:8000/v1"),
    Provider("openai", "gpt-4o", "https://api.openai.com/v1", "openai", reasons=False),
    Provider("anthropic", "claude-sonnet-4-5", "https://api.anthropic.com/v1", signs=True),
    Provider("gemini", "gemini-3-pro-preview", "https://generativelanguage.googleapis.com/v1beta", signs=True),
    Provider("responses", "gpt-6-sol", "https://api.openai.com/v1", "openai", signs=True, samples=False),
    Provider("responses", "gpt-4o", "http://127.0.0.1:8000/v1", reasons=False),
)
"""The second one answers OpenAI clients byte for byte."""


@dataclass
class Answer:
    """Reasoning, text and calls in this order; `cuts` are the sizes of the pieces of a stream."""

    thinking: str
    text: str
    calls: list[tuple[str, Any]]
    stop: str
    signature: str | None = None
    size: int = 3


@st.composite
def answers(draw: st.DrawFn, provider: Provider, signed: bool = False) -> Answer:
    calls = draw(st.lists(st.tuples(st.sampled_from(["weather", "now"]), ARGUMENTS), min_size=int(signed), max_size=3))
    thinking = draw(WORDS if signed else st.just("") | WORDS) if provider.reasons else ""
    text = draw(st.just("") | WORDS) if calls else draw(WORDS)
    signature = draw(st.sampled_from(["c2lnbmVk", "QUJD/+==", "a-b_c" * 40])) if signed else None
    if provider.api == "gemini" and signature is not None:
        signature = signature.replace("-", "+").replace("_", "/") + "=" * (-len(signature) % 4)
    stop = "calls" if calls else draw(st.sampled_from(["end", "length"]))
    if stop == "length":  # what may be the beginning of a call that the limit cut off is not shown
        text += "."
    return Answer(thinking, text, calls, stop, signature, draw(st.integers(1, 9)))


# ------------------------------------------------------------------------------------------------------------- writers


def stream_of(provider: Provider, answer: Answer, *, ends: bool = True) -> bytes:
    """The provider's stream; without `ends` it breaks off before it tells why it ends."""
    reply = {"openai": _openai_stream, "anthropic": _anthropic_stream, "gemini": _gemini_stream,
             "responses": _responses_stream}[provider.api](answer, ends)
    return b"".join(piece for piece in reply.body if isinstance(piece, bytes))


def whole_of(provider: Provider, answer: Answer) -> bytes:
    """The same answer as one JSON body."""
    if provider.api == "openai":
        message: Json = {"role": "assistant", "content": answer.text or None, "refusal": None}
        if answer.thinking:
            message["reasoning_content"] = answer.thinking
        if answer.calls:
            message["tool_calls"] = [{"id": f"call_{at}", "type": "function", "function": {
                "name": name, "arguments": json.dumps(arguments)}} for at, (name, arguments) in enumerate(answer.calls)]
        reply = gpt.completion(message, finish=_STOPS["openai"][answer.stop])
    elif provider.api == "anthropic":
        reply = claude.json({**claude.head(), "content": _blocks(answer), "usage": claude.USAGE,
                             "stop_reason": _STOPS["anthropic"][answer.stop]})
    elif provider.api == "responses":
        reply = new.json(_response(answer))
    else:
        reply = gemini_wire.json(_gemini_chunk(_gemini_parts(answer, len(answer.text) or 1), answer, last=True))
    return b"".join(piece for piece in reply.body if isinstance(piece, bytes))


_STOPS = {
    "openai": {"end": "stop", "calls": "tool_calls", "length": "length"},
    "anthropic": {"end": "end_turn", "calls": "tool_use", "length": "max_tokens"},
    "gemini": {"end": "STOP", "calls": "STOP", "length": "MAX_TOKENS"},
}


def _openai_stream(answer: Answer, ends: bool) -> Reply:
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in gpt.cut(answer.thinking, answer.size)]
    deltas += [{"content": piece} for piece in gpt.cut(answer.text, answer.size)]
    for at, (name, arguments) in enumerate(answer.calls):
        deltas.append(gpt.call_start(at, f"call_{at}", name))
        deltas += [gpt.call_arguments(at, piece) for piece in gpt.cut(json.dumps(arguments), answer.size)]
    if not ends:
        return gpt.stream(deltas, finish=None, usage=None, done=False)
    return gpt.stream(deltas, finish=_STOPS["openai"][answer.stop])


def _blocks(answer: Answer) -> list[Json]:
    blocks = [claude.thinking_block(answer.thinking, answer.signature or claude.SIGNATURE)] if answer.thinking else []
    blocks += [claude.text_block(answer.text)] if answer.text else []
    return [*blocks, *(claude.tool_use_block(f"toolu_{at}", *call) for at, call in enumerate(answer.calls))]


def _anthropic_stream(answer: Answer, ends: bool) -> Reply:
    stop = _STOPS["anthropic"][answer.stop] if ends else None
    return claude.sse(claude.events(_blocks(answer), stop=stop, pieces=answer.size))


def _gemini_parts(answer: Answer, size: int) -> list[Json]:
    parts: list[Json] = [{"text": piece, "thought": True} for piece in gpt.cut(answer.thinking, size)]
    parts += [{"text": piece} for piece in gpt.cut(answer.text, size)]
    for at, (name, arguments) in enumerate(answer.calls):
        part: Json = {"functionCall": {"name": name, "args": arguments}}
        if at == 0 and answer.signature:
            part["thoughtSignature"] = answer.signature
        parts.append(part)
    return parts


def _gemini_chunk(parts: Sequence[Json], answer: Answer, *, last: bool) -> Json:
    usage = {"promptTokenCount": 21, "candidatesTokenCount": 7, "totalTokenCount": 28}
    return gemini_wire.response(parts, finish=_STOPS["gemini"][answer.stop] if last else None,
                                usage=usage if last else None)


def _gemini_stream(answer: Answer, ends: bool) -> Reply:
    chunks = [_gemini_chunk([part], answer, last=False) for part in _gemini_parts(answer, answer.size)]
    return gemini_wire.sse([*chunks, *([_gemini_chunk([], answer, last=True)] if ends else [])])


def _response(answer: Answer) -> Json:
    items: list[Json] = []
    if answer.thinking or answer.signature:
        items.append(new.reasoning(*([answer.thinking] if answer.thinking else []), encrypted=answer.signature))
    items += [new.message(answer.text)] if answer.text else []
    items += [new.function_call(f"call_{at}", name, arguments, number=at)
              for at, (name, arguments) in enumerate(answer.calls)]
    usage = {"input_tokens": 21, "output_tokens": 7, "total_tokens": 28}
    if answer.stop == "length":
        return new.response(items, state="incomplete", incomplete="max_output_tokens", usage=usage)
    return new.response(items, usage=usage)


def _responses_stream(answer: Answer, ends: bool) -> Reply:
    events = new.events_of(_response(answer), pieces=answer.size)
    return new.sse(events if ends else events[:-1])


# ------------------------------------------------------------------------------------------------------------- hearing


@dataclass
class Heard:
    """What an SDK makes of an answer; `echo` is the message that goes into the next request, or the `items` are."""

    text: str
    thinking: str
    calls: list[tuple[str, Any]]
    ids: list[str]
    stop: str
    input: int
    output: int
    echo: Json = field(default_factory=dict)
    items: list[Json] = field(default_factory=list)


class _Held(httpx2.BaseTransport):
    """Answers every request with what it holds."""

    def __init__(self) -> None:
        self.body = b""
        self.kind = ""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": self.kind}, content=self.body)


_HELD = _Held()
_ANTHROPIC = anthropic.Anthropic(api_key="k", http_client=httpx2.Client(transport=_HELD), max_retries=0)
_OPENAI = openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=_HELD), max_retries=0)
_HI: list[Any] = [{"role": "user", "content": "hi"}]


def heard_by(client: str, body: bytes, *, stream: bool) -> Heard:
    """The answer as the client's official SDK reads it."""
    _HELD.body, _HELD.kind = body, "text/event-stream" if stream else "application/json"
    return {"anthropic": _by_anthropic, "openai": _by_openai, "responses": _by_responses}[client](stream)


def _by_anthropic(stream: bool) -> Heard:
    message: Any
    if stream:
        with _ANTHROPIC.messages.stream(model="m", max_tokens=9, messages=_HI) as events:
            message = events.get_final_message()
    else:
        message = _ANTHROPIC.messages.create(model="m", max_tokens=9, messages=_HI)
    used = [block for block in message.content if block.type == "tool_use"]
    return Heard(
        "".join(block.text for block in message.content if block.type == "text"),
        "".join(block.thinking for block in message.content if block.type == "thinking"),
        [(block.name, block.input) for block in used], [block.id for block in used],
        {"end_turn": "end", "tool_use": "calls", "max_tokens": "length"}[message.stop_reason],
        message.usage.input_tokens, message.usage.output_tokens,
        {"role": "assistant", "content": message.model_dump(exclude_none=True)["content"]})


def _by_openai(stream: bool) -> Heard:
    completion: Any
    if stream:
        state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
        for chunk in _OPENAI.chat.completions.create(model="m", messages=_HI, stream=True):
            state.handle_chunk(chunk)
        completion = state.current_completion_snapshot
    else:
        completion = _OPENAI.chat.completions.create(model="m", messages=_HI)
    (choice,) = completion.choices
    calls = choice.message.tool_calls or []
    return Heard(
        choice.message.content or "", getattr(choice.message, "reasoning_content", None) or "",
        [(call.function.name, json.loads(call.function.arguments)) for call in calls], [call.id for call in calls],
        {"stop": "end", "tool_calls": "calls", "length": "length"}[choice.finish_reason],
        completion.usage.prompt_tokens, completion.usage.completion_tokens,
        choice.message.model_dump(exclude_none=True))


def _by_responses(stream: bool) -> Heard:
    response: Any
    if stream:
        with _OPENAI.responses.stream(model="m", input="hi") as events:
            response = list(events)[-1].response  # type: ignore[union-attr]
            if response.status == "completed":
                response = events.get_final_response()
    else:
        response = _OPENAI.responses.create(model="m", input="hi")
    calls = [item for item in response.output if item.type == "function_call"]
    stop = {"max_output_tokens": "length"}[response.incomplete_details.reason] if response.incomplete_details else (
        "calls" if calls else "end")
    return Heard(
        response.output_text,
        "".join(part.text for item in response.output if item.type == "reasoning" for part in item.summary),
        [(call.name, json.loads(call.arguments)) for call in calls], [call.call_id for call in calls], stop,
        response.usage.input_tokens, response.usage.output_tokens,
        items=[item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in response.output])
