"""The scripted providers behind one vocabulary: what a provider shall answer, and what it was asked.

A `Backend` holds the strict providers of one API (for `openai` also those of two endpoints that reason) and turns
`text`, `calls`, `fails`... into scripted answers of that API. Tests never see a wire format.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from tests.e2e.gateway import PROVIDER_KEY
from tests.e2e.matrix.asked import RoutingFields, of_anthropic, of_gemini, of_openai, of_responses
from tests.providers import anthropic, gemini, gemini_wire, openai, responses
from tests.providers.http import Reply
from tests.providers.openai_endpoints import OpenAIEndpoints

Wanted = tuple[str, Any]
"""A call: (tool, arguments)."""
Stop = Literal["end", "length", "refusal"]
Fault = Literal["key", "rate", "overflow", "overloaded"]
Break = Literal["ends early", "connection lost", "error inside"]

SAID = "said by the provider"
RETRY_AFTER = "34"
PROMPT, LIMIT = 1_200_000, 1_048_576
"""Tokens of a prompt that is too long, and what the model takes."""
SIGNATURE = "ErUBCkYIBxgCIkDh+8a/b64=="
HALF = "one two "
"""What a stream says before it breaks."""


class Backend(ABC):
    """A provider API. `model` is the name in the gateway's configuration, `thinker` and `signer` those of models that
    reason and that want a signature back."""

    name: str
    model: str
    thinker: str
    signer: str

    @property
    @abstractmethod
    def servers(self) -> dict[str, Any]:
        """The scripted providers by the name of the model they serve."""

    @abstractmethod
    def configuration(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """(backends, models) for the gateway."""

    @abstractmethod
    def text(self, content: str, *, thinking: str = "", stop: Stop = "end") -> Any:
        """A text answer, with usage figures of 21 tokens in (8 of them cached) and 12 out (5 of them reasoning)."""

    @abstractmethod
    def calls(self, *wanted: Wanted, content: str = "", thinking: str = "") -> Any:
        """Tool calls behind an optional text and reasoning, signed where the provider signs."""

    @abstractmethod
    def fails(self, fault: Fault) -> Any:
        """An error in place of an answer."""

    @abstractmethod
    def breaks(self, how: Break, *, streamed: bool) -> Any:
        """An answer that says `HALF` and breaks."""

    @abstractmethod
    def asked(self, seen: Any) -> RoutingFields:
        """What the request says."""

    def server(self, model: str) -> Any:
        return self.servers[model]

    def start(self) -> None:
        for server in dict.fromkeys(self.servers.values()):
            server.start()

    def stop(self) -> None:
        for server in dict.fromkeys(self.servers.values()):
            server.stop()

    def clear(self) -> None:
        for server in dict.fromkeys(self.servers.values()):
            server.clear()

    @property
    def violations(self) -> list[str]:
        return [violation for server in dict.fromkeys(self.servers.values()) for violation in server.violations]


def half_an_answer(head: dict[str, str], body: bytes) -> Reply:
    """A whole answer of which the connection brings only a part: its framing ends as if it were complete."""
    return Reply(200, dict(head), [body])


class OpenAI(Backend):
    """OpenAI itself for most abilities, DeepSeek for reasoning as text, OpenRouter for signed reasoning."""

    name = model = "openai"
    thinker, signer = "openai-thinker", "openai-signer"
    usage: ClassVar[dict[str, Any]] = {
        "prompt_tokens": 21, "completion_tokens": 12, "total_tokens": 33,
        "prompt_tokens_details": {"cached_tokens": 8}, "completion_tokens_details": {"reasoning_tokens": 5}}

    def __init__(self) -> None:
        self._servers: dict[str, openai.OpenAIProvider] = {
            self.model: OpenAIEndpoints(models=["gpt-4o"], key=PROVIDER_KEY),
            self.thinker: openai.OpenAIProvider(endpoint="deepseek"),
            self.signer: openai.OpenAIProvider(endpoint="openrouter")}

    @property
    def servers(self) -> dict[str, Any]:
        return self._servers

    def configuration(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        named = {self.model: ("openai", "gpt-4o"), self.thinker: ("deepseek", "deepseek-reasoner"),
                 self.signer: ("openrouter", "anthropic/claude-sonnet-4.5")}
        backends = {model: {"api": "openai", "url": server.url, "key": PROVIDER_KEY, "provider": named[model][0]}
                    for model, server in self._servers.items()}
        return backends, [{"match": model, "attempts": [{"backend": model, "model": provider_model}]}
                          for model, (_, provider_model) in named.items()]

    def text(self, content: str, *, thinking: str = "", stop: Stop = "end") -> Any:
        finish = {"end": "stop", "length": "length", "refusal": "content_filter"}[stop]
        return openai.text(content, reasoning=thinking, finish=finish, usage=self.usage)

    def calls(self, *wanted: Wanted, content: str = "", thinking: str = "") -> Any:
        def answer(seen: Any) -> Reply:
            deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
            if "reasoning" in seen.body:  # OpenRouter's way to ask for it
                deltas += [{"reasoning": piece, "reasoning_details": [
                    {"type": "reasoning.text", "text": piece, "format": "anthropic-claude-v1", "index": 0}]}
                    for piece in openai.cut(thinking, 4)]
                deltas.append({"reasoning_details": [{"type": "reasoning.text", "signature": SIGNATURE, "index": 0,
                                                      "format": "anthropic-claude-v1"}]})
            else:
                deltas += [{"reasoning_content": piece} for piece in openai.cut(thinking, 4)]
            deltas += [{"content": piece} for piece in openai.cut(content, 5)]
            for index, (name, arguments) in enumerate(wanted):
                deltas.append(openai.call_start(index, f"call_{len(seen.messages)}_{index}", name))
                deltas += [openai.call_arguments(index, piece) for piece in openai.cut(json.dumps(arguments), 7)]
            if seen.body.get("stream"):
                return openai.stream(deltas, finish="tool_calls", usage=self.usage)
            return openai.completion(whole_message(deltas), finish="tool_calls", usage=self.usage)
        return answer

    def fails(self, fault: Fault) -> Any:
        if fault == "key":
            return openai.status(401, openai.openai_error(f"Incorrect API key provided: {PROVIDER_KEY}. {SAID}",
                                                          code="invalid_api_key"))
        if fault == "rate":
            return openai.status(429, openai.openai_error(f"Rate limit reached. {SAID}", kind="requests",
                                                          code="rate_limit_exceeded"), {"retry-after": RETRY_AFTER})
        if fault == "overflow":
            return openai.status(400, openai.openai_error(
                f"This model's maximum context length is {LIMIT} tokens. However, your messages resulted in {PROMPT} "
                "tokens. Please reduce the length of the messages.", code="context_length_exceeded"))
        return openai.status(503, openai.openai_error(f"The engine is currently overloaded. {SAID}",
                                                      kind="server_error"))

    def breaks(self, how: Break, *, streamed: bool) -> Any:
        if not streamed:
            return half_an_answer(openai.JSON, b'{"id":"chatcmpl-1","object":"chat.completion","choices":[{"ind')
        items: list[Any] = [openai.chunk({"role": "assistant", "content": "one "}), openai.chunk({"content": "two "})]
        if how == "error inside":
            items.append({"error": {"message": SAID, "code": 503}})
        return openai.sse(items, done=False, end="cut" if how == "connection lost" else "end")

    def asked(self, seen: Any) -> RoutingFields:
        return of_openai(seen.body)


def whole_message(deltas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The message that these deltas amount to."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for delta in deltas:
        for name in ("content", "reasoning", "reasoning_content"):
            if delta.get(name):
                message[name] = (message.get(name) or "") + delta[name]
        for item in delta.get("reasoning_details", []):
            known = message.setdefault("reasoning_details", [{"text": ""}])[0]
            known.update({**item, "text": known["text"] + item.get("text", "")})
        for call in delta.get("tool_calls", []):
            calls = message.setdefault("tool_calls", [])
            if "id" in call:
                calls.append({"id": call["id"], "type": "function", "function": dict(call["function"])})
            else:
                calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    return message


class Anthropic(Backend):
    """Claude at Anthropic's rules."""

    name = model = thinker = signer = "anthropic"
    usage: ClassVar[dict[str, Any]] = {
        "input_tokens": 13, "cache_read_input_tokens": 8, "cache_creation_input_tokens": 0, "output_tokens": 12,
        "output_tokens_details": {"thinking_tokens": 5}}

    def __init__(self) -> None:
        self._server = anthropic.AnthropicProvider()

    @property
    def servers(self) -> dict[str, Any]:
        return {self.model: self._server}

    def configuration(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        return ({self.name: {"api": "anthropic", "url": self._server.url, "key": PROVIDER_KEY,
                             "provider": "anthropic"}},
                [{"match": self.model, "attempts": [{"backend": self.name, "model": "claude-sonnet-4-5"}]}])

    def text(self, content: str, *, thinking: str = "", stop: Stop = "end") -> Any:
        reason = {"end": "end_turn", "length": "max_tokens", "refusal": "refusal"}[stop]
        return self._message([*self._thought(thinking), anthropic.text_block(content)], reason)

    def calls(self, *wanted: Wanted, content: str = "", thinking: str = "") -> Any:
        def answer(seen: Any) -> Reply:
            blocks = [*self._thought(thinking), *([anthropic.text_block(content)] if content else [])]
            blocks += [anthropic.tool_use_block(f"toolu_{len(seen.messages)}_{index}", *call)
                       for index, call in enumerate(wanted)]
            reply: Reply = self._message(blocks, "tool_use")(seen)
            return reply
        return answer

    def _thought(self, thinking: str) -> list[anthropic.Block]:
        return [anthropic.thinking_block(thinking, SIGNATURE)] if thinking else []

    def _message(self, blocks: list[anthropic.Block], stop: str) -> Any:
        def answer(seen: Any) -> Reply:
            if not seen.body.get("stream"):
                made = anthropic.message(blocks, stop=stop, usage=self.usage)
                assert not isinstance(made, Reply)
                return made(seen)
            events = anthropic.events(blocks, stop=stop, usage=self.usage)
            events[-2]["usage"] = self.usage
            return anthropic.sse(events)
        return answer

    def fails(self, fault: Fault) -> Any:
        if fault == "key":
            return anthropic.status(401, anthropic.anthropic_error(
                "authentication_error", f"invalid x-api-key {PROVIDER_KEY} {SAID}"))
        if fault == "rate":
            return anthropic.status(429, anthropic.anthropic_error("rate_limit_error", SAID),
                                    {"retry-after": RETRY_AFTER})
        if fault == "overflow":
            return anthropic.status(400, anthropic.anthropic_error(
                "invalid_request_error", f"prompt is too long: {PROMPT} tokens > {LIMIT} maximum"))
        return anthropic.status(529, anthropic.anthropic_error("overloaded_error", f"Overloaded. {SAID}"))

    def breaks(self, how: Break, *, streamed: bool) -> Any:
        if not streamed:
            return half_an_answer(anthropic.JSON, b'{"id":"msg_1","type":"message","role":"assistant","content":[{"ty')
        items: list[Any] = anthropic.events([anthropic.text_block(HALF)], stop=None, pieces=4)[:-1]
        if how == "error inside":
            items.append(anthropic.error_event("overloaded_error", SAID))
        return anthropic.sse(items, end="cut" if how == "connection lost" else "end")

    def asked(self, seen: Any) -> RoutingFields:
        return of_anthropic(seen.body)


class Gemini(Backend):
    """Gemini 3 at AI Studio's rules. The provider signs calls itself and checks that its signatures come back."""

    name = model = thinker = signer = "gemini"

    def __init__(self) -> None:
        self._server = gemini.GeminiProvider()

    @property
    def servers(self) -> dict[str, Any]:
        return {self.model: self._server}

    def configuration(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        return ({self.name: {"api": "gemini", "url": self._server.url, "key": gemini.KEY}},
                [{"match": self.model, "attempts": [{"backend": self.name, "model": "gemini-3-pro-preview"}]}])

    def text(self, content: str, *, thinking: str = "", stop: Stop = "end") -> Any:
        finish = {"end": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}[stop]
        return gemini.text(content, thoughts=thinking, finish=finish)

    def calls(self, *wanted: Wanted, content: str = "", thinking: str = "") -> Any:
        return gemini.calls(*wanted, content=content, thoughts=thinking)

    def fails(self, fault: Fault) -> Any:
        return {
            "key": gemini_wire.error(400, f"API key not valid: {gemini.KEY}. {SAID}",
                                     [gemini_wire.error_info("API_KEY_INVALID")]),
            "rate": gemini_wire.error(429, f"You exceeded your current quota. {SAID}",
                                      [gemini_wire.retry_info(f"{RETRY_AFTER}s")]),
            "overflow": gemini_wire.error(400, f"The input token count ({PROMPT}) exceeds the maximum number of tokens "
                                          f"allowed ({LIMIT})."),
            "overloaded": gemini_wire.error(503, f"The model is overloaded. {SAID}"),
        }[fault]

    def breaks(self, how: Break, *, streamed: bool) -> Any:
        if not streamed:
            return half_an_answer(gemini_wire.JSON, b'{"candidates":[{"content":{"role":"model","parts":[{"text":"one')
        items: list[Any] = [gemini_wire.response([{"text": piece}]) for piece in ("one ", "two ")]
        if how == "error inside":
            items.append(gemini_wire.error_body(503, SAID))
        return gemini_wire.sse(items, end="cut" if how == "connection lost" else "end")

    def asked(self, seen: Any) -> RoutingFields:
        return of_gemini(seen.body)


class Responses(OpenAI):
    """OpenAI's Responses API. The provider issues encrypted reasoning and checks that it comes back."""

    name = model = "responses"
    thinker = signer = "responses-thinker"

    def __init__(self) -> None:
        self._server = responses.ResponsesProvider()

    @property
    def servers(self) -> dict[str, Any]:
        return {self.model: self._server, self.thinker: self._server}

    def configuration(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        backend = {"api": "openai", "endpoint": "responses", "url": self._server.url, "key": PROVIDER_KEY,
                   "provider": "openai"}
        return {self.name: backend}, [
            {"match": match, "attempts": [{"backend": self.name, "model": model}]}
            for match, model in ((self.model, "gpt-4o"), (self.thinker, "gpt-6-sol"))]

    def text(self, content: str, *, thinking: str = "", stop: Stop = "end") -> Any:
        incomplete = {"end": None, "length": "max_output_tokens", "refusal": "content_filter"}[stop]
        return responses.text(content, thinking=thinking, incomplete=incomplete,
                              state="completed" if incomplete is None else "incomplete")

    def calls(self, *wanted: Wanted, content: str = "", thinking: str = "") -> Any:
        def items(seen: Any) -> list[dict[str, Any]]:
            found = []
            if thinking:
                self._server.issued.append(SIGNATURE)
                found.append(responses.reasoning(thinking, encrypted=SIGNATURE))
            found += [responses.message(content)] if content else []
            return found + [responses.function_call(f"call_{len(seen.items)}_{index}", *call, number=index)
                            for index, call in enumerate(wanted)]
        return responses.respond(items)

    def breaks(self, how: Break, *, streamed: bool) -> Any:
        if not streamed:
            return half_an_answer(responses.JSON, b'{"id":"resp_1","object":"response","status":"completed","outp')
        items: list[Any] = responses.events_of(responses.response([responses.message(HALF)]), pieces=4)[:6]
        if how == "error inside":
            items.append(responses.error_event(SAID))
        return responses.sse(items, end="cut" if how == "connection lost" else "end")

    def asked(self, seen: Any) -> RoutingFields:
        return of_responses(seen.body)


BACKENDS: tuple[type[Backend], ...] = (OpenAI, Anthropic, Gemini, Responses)


def in_turn(first: Backend, second: Backend) -> str:
    """The name of the model with the signing models of these providers as its attempts."""
    return f"{first.name}-then-{second.name}"


def other_of(provider: str, backends: Mapping[str, Backend]) -> Backend:
    """The provider that stands before this one where failover is tried."""
    names = list(backends)
    return backends[names[names.index(provider) - 1]]
