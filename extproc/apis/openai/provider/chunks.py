"""The wire records of Chat Completions answers, read leniently: JSON bytes -> typed chunks, and field readers.

One record serves chunks of a stream (`delta`) and whole answers (`message`), since servers mix them up. Leaf fields are
untyped on purpose: a server that sends an object where a string belongs must not cost the whole answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from extproc.apis.openai.provider.signatures import ANTHROPIC, GOOGLE_MEMBERS
from extproc.apis.shared.json_text import HalfPair, ends_in_half
from extproc.conversation.model import Usage


class JsonChunk(Exception):  # noqa: N818
    """The bytes are no chunk: not JSON, or JSON of another shape. The text says what and where."""


def _argument_text(value: object) -> str | None:
    """Arguments are JSON text; some servers send the object itself (Ollama, Mistral)."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


class FunctionDelta(msgspec.Struct):
    name: Any = None
    arguments: Any = None

    @property
    def name_text(self) -> str | None:
        return self.name if isinstance(self.name, str) else None

    @property
    def arguments_text(self) -> str | None:
        return _argument_text(self.arguments)


class CustomDelta(msgspec.Struct):
    """A call of a tool that takes free text: `input` is that text, or a piece of it."""

    name: Any = None
    input: Any = None


class CallDelta(msgspec.Struct):
    index: Any = None
    id: Any = None
    function: FunctionDelta | None = None
    custom: CustomDelta | None = None
    extra_content: Any = None

    @property
    def is_custom(self) -> bool:
        """A call of a tool that takes free text. An empty `custom` says nothing: servers that write the format anew
        from typed records put one beside every function."""
        return self.custom is not None and bool(self.custom.name or self.custom.input)

    @property
    def holds_nothing_else(self) -> bool:
        """Besides index, id, name and arguments."""
        return self.extra_content is None and not self.is_custom

    @property
    def function_name(self) -> str | None:
        if self.custom is not None and self.is_custom:
            return self.custom.name if isinstance(self.custom.name, str) else None
        return self.function.name_text if self.function is not None else None

    @property
    def arguments_text(self) -> str | None:
        if self.function is None:
            return None
        value = self.function.arguments
        return value if isinstance(value, str) else _argument_text(value)

    @property
    def free_text(self) -> str | None:
        """The input of a tool that takes free text; None for a function."""
        return self.custom.input if self.custom is not None and isinstance(self.custom.input, str) else None

    @property
    def thought_signature(self) -> tuple[str, str] | None:
        """What Google's endpoints want back with this call, and the member of `extra_content` that it stands in."""
        for member, fields in _google(self.extra_content):
            value = fields.get("thought_signature")
            if isinstance(value, str) and value:
                return member, value
        return None


class Delta(msgspec.Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    thinking: Any = None
    """Ollama's own API, and proxies before it."""
    reasoning_text: Any = None
    """GitHub Copilot."""
    reasoning_details: list[Any] | None = None
    thinking_blocks: list[Any] | None = None
    """LiteLLM: Anthropic's blocks."""
    extra_content: Any = None
    tool_calls: list[CallDelta | None] | None = None
    function_call: FunctionDelta | None = None
    refusal: Any = None
    audio: Any = None
    images: Any = None
    annotations: Any = None
    """Sources of what the text says."""

    @property
    def holds_something(self) -> bool:
        """Whether there is more in it than a role."""
        return bool(self.content or self.reasons or self.tool_calls or self.function_call or self.refusal
                    or self.audio or self.images or self.annotations)

    @property
    def reasons(self) -> bool:
        """Whether any field of reasoning holds something."""
        return bool(self.reasoning_content or self.reasoning or self.reasoning_details or self.thinking
                    or self.reasoning_text or self.thinking_blocks)

    @property
    def transcript(self) -> str:
        """The words of a spoken answer, which comes without `content`."""
        words = self.audio.get("transcript") if isinstance(self.audio, dict) else None
        return words if isinstance(words, str) else ""


class Choice(msgspec.Struct):
    index: Any = 0
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: Any = None
    error: Any = None
    """OpenRouter: why this choice broke off."""
    stop_reason: Any = None
    """vLLM: the stop string that matched."""
    matched_stop: Any = None
    """SGLang: the same."""
    usage: Any = None

    @property
    def finish_word(self) -> str:
        """The finish reason in lower case, "" for none. Google's endpoint puts its own behind that of the format:
        `content_filter: RECITATION`, `function_call_filter: MALFORMED_FUNCTION_CALL`."""
        word, _, own = self.finish_reason.lower().partition(": ") if isinstance(self.finish_reason, str) else ("",) * 3
        return own if word == "function_call_filter" else word

    def stop_sequence(self, asked: list[str]) -> str | None:
        """The client's stop sequence that ended the answer, where the server tells."""
        for value in (self.stop_reason, self.matched_stop):
            if isinstance(value, str) and value in asked:
                return value
        return None


class Chunk(msgspec.Struct):
    id: Any = None
    object: Any = None
    model: Any = None
    choices: list[Choice | None] | None = None
    usage: Any = None
    x_groq: Any = None
    citations: Any = None
    """Perplexity, xAI: URLs."""
    search_results: Any = None
    """Perplexity: the same with titles."""
    error: Any = None

    @property
    def is_error(self) -> bool:
        """An error instead of an answer. Some servers send an empty `error` along with every chunk."""
        return bool(self.error) or self.object == "error" or (self.error is not None and not self.choices)


_decoder = msgspec.json.Decoder(Chunk)


def _google(extra: object) -> list[tuple[str, dict[str, Any]]]:
    """Google's members of an `extra_content`, by their names: `google`, and `vertex` at Vertex AI's endpoint."""
    if not isinstance(extra, dict):
        return []
    return [(member, extra[member]) for member in GOOGLE_MEMBERS if isinstance(extra.get(member), dict)]


def is_thought(extra: object) -> bool:
    """Whether the content beside this `extra_content` is a thought: Google's endpoints mark those that were asked
    for."""
    return any(fields.get("thought") is True for _, fields in _google(extra))


def decode_chunk(payload: bytes, *, alone: bool = False) -> Chunk | None:
    """None: `null`, which some proxies send as a filler. Raises JsonChunk, and HalfPair where the next
    event may go on with this one (it does not stand `alone`)."""
    try:
        return _decoder.decode(payload)
    except RecursionError:
        raise JsonChunk("nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:  # a wrong shape is a DecodeError, too
        if not alone and ends_in_half(payload):
            raise HalfPair from None
        return _decode_oddity(payload, problem)


def _decode_oddity(payload: bytes, problem: Exception) -> Chunk | None:
    """The standard library's parser also takes NaN, lone surrogates and broken UTF-8; lone surrogates become U+FFFD.
    Google's endpoint wraps errors in an array. Fields of a wrong shape are put right or left out: they must not cost
    the rest."""
    try:
        value = json.loads(payload.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise JsonChunk(str(problem)) from None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None:
        return None
    if not isinstance(value, dict):
        raise JsonChunk("it is no JSON object")
    if value.get("error"):  # whatever else is odd about it, it is an error
        return Chunk(error=value["error"])
    try:
        return msgspec.convert(_shaped(_without_surrogates(value)), Chunk)
    except (msgspec.ValidationError, RecursionError) as shape:
        raise JsonChunk(str(shape)) from None


def _shaped(chunk: object) -> object:
    """A decoded chunk with its lists and objects where they belong."""
    if not isinstance(chunk, dict) or not isinstance(chunk.get("choices"), (list, dict)):
        return chunk
    choices = [
        {**choice, "delta": _shaped_delta(choice.get("delta")), "message": _shaped_delta(choice.get("message"))}
        for choice in _objects(chunk.get("choices"))]
    return {**chunk, "choices": choices}


def _shaped_delta(delta: object) -> object:
    if isinstance(delta, str) and delta:
        return {"content": delta}
    if not isinstance(delta, dict):
        return None
    calls = [{**call, "function": _object_or_none(call.get("function")), "custom": _object_or_none(call.get("custom"))}
             for call in _objects(delta.get("tool_calls"))]
    return {**delta, "tool_calls": calls, "reasoning_details": _objects(delta.get("reasoning_details")),
            "thinking_blocks": _objects(delta.get("thinking_blocks")),
            "function_call": _object_or_none(delta.get("function_call"))}


def _objects(value: object) -> list[dict[str, object]]:
    """The objects of a list, or the one that stands there without a list."""
    found = value if isinstance(value, list) else [value]
    return [item for item in found if isinstance(item, dict)]


def _object_or_none(value: object) -> dict[str, object] | None:
    return value if isinstance(value, dict) else None


def _without_surrogates(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {str(_without_surrogates(key)): _without_surrogates(item) for key, item in value.items()}
    return value


Thought = tuple[Literal["text", "signature", "redacted"], str] | tuple[Literal["item"], dict[str, Any]]
"""A piece of reasoning: its text, Anthropic's signature of it, Anthropic's encrypted block, or an item of
`reasoning_details` that somebody else signed or encrypted."""


def reasoning_of(delta: Delta) -> Iterator[Thought]:
    """The reasoning of a delta or message, each text once: servers mirror the same words in several fields
    (`reasoning_content`, `reasoning`, `reasoning_details`)."""
    plain = delta.reasoning_content or delta.reasoning or delta.thinking or delta.reasoning_text
    if isinstance(plain, dict):
        plain = plain.get("content") or plain.get("text")
    told = isinstance(plain, str) and plain != ""
    if isinstance(plain, str) and plain:
        yield "text", plain
    for detail in delta.reasoning_details or ():
        if isinstance(detail, dict):
            yield from _item(detail, told=told)
    if not delta.reasoning_details:
        for block in delta.thinking_blocks or ():
            if isinstance(block, dict):
                yield from _block(block, told=told)


def _item(detail: dict[str, Any], *, told: bool) -> Iterator[Thought]:
    """`told`: its text came in another field already."""
    text = detail.get("text") or detail.get("summary")
    if not told and isinstance(text, str) and text:
        yield "text", text
    data, signature = detail.get("data"), detail.get("signature")
    encrypted = detail.get("type") == "reasoning.encrypted" and isinstance(data, str) and data != ""
    signed = isinstance(signature, str) and signature != ""
    if not encrypted and not signed:
        return
    if detail.get("format") != ANTHROPIC:
        yield "item", detail
    elif signed:
        yield "signature", str(signature)
    else:
        yield "redacted", str(data)


def _block(block: dict[str, Any], *, told: bool) -> Iterator[Thought]:
    text, data, signature = block.get("thinking"), block.get("data"), block.get("signature")
    if not told and isinstance(text, str) and text:
        yield "text", text
    if isinstance(signature, str) and signature:
        yield "signature", signature
    if block.get("type") == "redacted_thinking" and isinstance(data, str) and data:
        yield "redacted", data


_REASONING_PARTS = frozenset({"reasoning", "reasoning_text", "summary_text", "thought"})


def content_parts(content: object) -> Iterator[tuple[str, str]]:
    """("text" | "thinking" | "signature", text) of a content list: Mistral sends blocks, with reasoning as nested text
    blocks, proxies Anthropic's blocks or their deltas, Databricks `reasoning` with a summary. A part that holds none of
    these is ("other", its type)."""
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return
    for part in content:
        if isinstance(part, str) and part:
            yield "text", part
        elif isinstance(part, dict):
            inner = part.get("thinking")
            if inner is None and part.get("type") in _REASONING_PARTS:
                inner = part.get("summary") or part.get("content") or part.get("text")
            if isinstance(inner, str) and inner:
                yield "thinking", inner
            elif isinstance(inner, list):
                for kind, text in content_parts(inner):
                    yield kind if kind in ("other", "signature") else "thinking", text
            signature = part.get("signature")
            if isinstance(signature, str) and signature:
                yield "signature", signature
            if inner or signature:
                continue
            if isinstance(part.get("text"), str) and part["text"]:
                yield "text", part["text"]
            elif isinstance(part.get("refusal"), str) and part["refusal"]:
                yield "text", part["refusal"]
            elif part.get("type") not in ("text", "thinking", "refusal", *_REASONING_PARTS, None):
                yield "other", str(part["type"])


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0
    return max(0, int(value)) if value == value and abs(value) < 1e15 else 0


def usage_of(value: object, *, reasoning_outside: bool = False) -> Usage | None:
    """OpenAI's usage object with the names other servers use for cached tokens; None when it holds no figures.
    `reasoning_outside`: the tokens of reasoning are not among those of the completion."""
    if not isinstance(value, dict) or not ({"prompt_tokens", "completion_tokens", "total_tokens"} & value.keys()):
        return None
    prompt_details = value.get("prompt_tokens_details")
    output_details = value.get("completion_tokens_details")
    prompt = prompt_details if isinstance(prompt_details, dict) else {}
    output = output_details if isinstance(output_details, dict) else {}
    # DeepSeek: prompt_cache_hit_tokens; Moonshot: cached_tokens; Mistral: num_cached_tokens
    cached = next(filter(None, (_count(count) for count in (
        prompt.get("cached_tokens"), value.get("prompt_cache_hit_tokens"), value.get("cached_tokens"),
        value.get("num_cached_tokens")))), 0)
    # DashScope: cache_creation_input_tokens; LiteLLM: cache_creation_tokens
    written = next(filter(None, (_count(count) for count in (
        prompt.get("cache_write_tokens"), prompt.get("cache_creation_input_tokens"),
        prompt.get("cache_creation_tokens")))), 0)
    total_input = _count(value.get("prompt_tokens"))
    cached = min(cached, total_input)
    completion = _count(value.get("completion_tokens"))
    reasoning = _count(output.get("reasoning_tokens"))
    if reasoning_outside:
        # The total tells it best: some endpoints count the reasoning there and nowhere else.
        rest = max(reasoning, _count(value.get("total_tokens")) - total_input - completion)
        completion, reasoning = completion + rest, rest
    return Usage(
        input=total_input,
        output=completion,
        cached=cached,
        cache_write=min(written, total_input - cached),
        reasoning=reasoning,
    )
