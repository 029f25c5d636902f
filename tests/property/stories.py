"""Conversations as stories: generated once, written in either client API, and read back from any provider's wire.

A story holds what every API can carry. OpenAI's and Anthropic's wires are read with the decoders of the client APIs, as
if they were a client's; Gemini's has a small reader here. Used by `test_round_trips`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from extproc.apis import CLIENT_APIS
from extproc.bounds import Limits
from extproc.conversation.model import Media, Request, Text, ToolCall, ToolResult
from extproc.conversation.unsupported import Dropped

Json = dict[str, Any]
MOVED = "Attached to the result of "
"""Begins the note before media that a tool message cannot hold."""


@dataclass
class Story:
    """`said` and `answered` are the texts of user and assistant, `calls` (tool, arguments), `results` (number of the
    call, text, whether it is an error); media are base64, in order."""

    system: str = ""
    said: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    results: list[tuple[int, str, bool]] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    tools: dict[str, tuple[str, Any]] = field(default_factory=dict)
    """Name -> (description, properties)."""
    settings: Json = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    """Who speaks: user, assistant, results; neighbours of one kind count once."""

    def speaks(self, who: str) -> None:
        if not self.order or self.order[-1] != who:
            self.order.append(who)


# --------------------------------------------------------------------------------------------------------- generation

WORDS = st.text(st.sampled_from('aeiou nrst.,:;!?"\\/{}[]()\n\t 0123456789äßé漢字🎈\u200d'), min_size=1,
                max_size=16).map(str.strip).filter(bool)
"""Texts without the openers of dialects, which are read as calls where a model writes such."""
VALUES = st.recursive(st.none() | st.booleans() | st.integers(-9, 9**9) | WORDS,
                      lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
                      max_leaves=4)
ARGUMENTS = st.dictionaries(st.sampled_from(["town", "days", "what"]), VALUES, max_size=3)
IMAGES = st.sampled_from(["iVBORw0KGgo=", "iVBORw0KGgoAAAAN", "iVBORw0KGgoBBBBN"])
TOOLS = {
    "weather": ("The weather", {"town": {"type": "string"}, "days": {"type": "integer"}}),
    "read_file": ("Reads", {"what": {"type": "array", "items": {"type": "string"}}}),
    "now": ("The time", {}),
}


@dataclass
class Step:
    """A turn of the user and one of the assistant, with the results of its calls as (text, image, error)."""

    text: str
    image: str | None
    answer: str
    calls: list[tuple[str, Any]]
    results: list[tuple[str, str | None, bool]]


@st.composite
def steps(draw: st.DrawFn, errors: bool) -> list[Step]:
    made = []
    for _ in range(draw(st.integers(1, 3))):
        calls = draw(st.lists(st.tuples(st.sampled_from(sorted(TOOLS)), ARGUMENTS), max_size=3))
        results = [(draw(WORDS), draw(st.none() | st.none() | IMAGES), errors and draw(st.booleans())) for _ in calls]
        made.append(Step(draw(WORDS), draw(st.none() | IMAGES), draw(WORDS), calls, results))
    return made


SETTINGS = st.fixed_dictionaries({}, optional={
    "temperature": st.sampled_from([0.0, 0.5, 1.0]), "limit": st.integers(2000, 8000),
    "stop": st.lists(st.sampled_from(["END", "\n\nHuman:", "✂"]), min_size=1, max_size=3, unique=True)})


def story_of(system: str, made: list[Step], settings: Json) -> Story:
    """What a reader of any wire should find."""
    story = Story(system, tools=dict(TOOLS), settings=settings)
    for step in made:
        story.speaks("user")
        story.said.append(step.text)
        story.images += [step.image] if step.image else []
        story.speaks("assistant")
        story.answered.append(step.answer)
        for (name, arguments), (text, image, error) in zip(step.calls, step.results, strict=True):
            story.results.append((len(story.calls), text, error))
            story.calls.append((name, arguments))
            story.images += [image] if image else []
        if step.calls:
            story.speaks("results")
    story.speaks("user")
    story.said.append("last")
    return story


# ------------------------------------------------------------------------------------------------------ clients' wires


def as_openai(system: str, made: list[Step], settings: Json) -> Json:
    """POST /v1/chat/completions."""
    def image(data: str) -> Json:
        return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}

    messages: list[Json] = [{"role": "system", "content": system}] if system else []
    number = 0
    for step in made:
        parts: list[Json] = [{"type": "text", "text": step.text}]
        messages.append({"role": "user", "content": [*parts, image(step.image)] if step.image else step.text})
        ids = [f"call_{number + at}" for at in range(len(step.calls))]
        number += len(ids)
        message: Json = {"role": "assistant", "content": step.answer}
        if ids:
            message["tool_calls"] = [{"id": id_, "type": "function", "function": {
                "name": name, "arguments": json.dumps(arguments)}}
                for id_, (name, arguments) in zip(ids, step.calls, strict=True)]
        messages.append(message)
        for id_, (text, data, _) in zip(ids, step.results, strict=True):
            content = [{"type": "text", "text": text}, image(data)] if data else text
            messages.append({"role": "tool", "tool_call_id": id_, "content": content})
    named = {"temperature": "temperature", "limit": "max_tokens", "stop": "stop"}
    return {"model": "m", "messages": [*messages, {"role": "user", "content": "last"}],
            "tools": [{"type": "function", "function": {"name": name, "description": about, "parameters": {
                "type": "object", "properties": properties}}} for name, (about, properties) in TOOLS.items()],
            **{named[name]: value for name, value in settings.items()}}


def as_anthropic(system: str, made: list[Step], settings: Json) -> Json:
    """POST /v1/messages."""
    def image(data: str) -> Json:
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}

    messages: list[Json] = []
    results: list[Json] = []
    number = 0
    for step in made:
        content = [*results, {"type": "text", "text": step.text}, *([image(step.image)] if step.image else [])]
        messages.append({"role": "user", "content": content})
        calls = [{"type": "tool_use", "id": f"toolu_{number + at}", "name": name, "input": arguments}
                 for at, (name, arguments) in enumerate(step.calls)]
        messages.append({"role": "assistant", "content": [{"type": "text", "text": step.answer}, *calls]})
        results = [{"type": "tool_result", "tool_use_id": f"toolu_{number + at}",
                    "content": [{"type": "text", "text": text}, *([image(data)] if data else [])],
                    **({"is_error": True} if error else {})}
                   for at, (text, data, error) in enumerate(step.results)]
        number += len(calls)
    named = {"temperature": "temperature", "limit": "max_tokens", "stop": "stop_sequences"}
    last = {"role": "user", "content": [*results, {"type": "text", "text": "last"}]}
    return {"model": "m", "max_tokens": 4096, **({"system": system} if system else {}), "messages": [*messages, last],
            "tools": [{"name": name, "description": about, "input_schema": {"type": "object", "properties": properties}}
                      for name, (about, properties) in TOOLS.items()],
            **{named[name]: value for name, value in settings.items()}}


def as_responses(system: str, made: list[Step], settings: Json) -> Json:
    """POST /v1/responses."""
    def content(text: str, data: str | None) -> Any:
        image = {"type": "input_image", "image_url": f"data:image/png;base64,{data}", "detail": "auto"}
        return [{"type": "input_text", "text": text}, image] if data else text

    items: list[Json] = []
    number = 0
    for step in made:
        items.append({"type": "message", "role": "user", "content": content(step.text, step.image)})
        items.append({"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": step.answer, "annotations": []}]})
        items += [{"type": "function_call", "call_id": f"call_{number + at}", "name": name,
                   "arguments": json.dumps(arguments)} for at, (name, arguments) in enumerate(step.calls)]
        items += [{"type": "function_call_output", "call_id": f"call_{number + at}", "output": content(text, data)}
                  for at, (text, data, _) in enumerate(step.results)]
        number += len(step.calls)
    named = {"temperature": "temperature", "limit": "max_output_tokens"}
    return {"model": "m", **({"instructions": system} if system else {}),
            "input": [*items, {"role": "user", "content": "last"}],
            "tools": [{"type": "function", "name": name, "description": about, "strict": False, "parameters": {
                "type": "object", "properties": properties}} for name, (about, properties) in TOOLS.items()],
            **{named[name]: value for name, value in settings.items()}}


WRITERS = {"openai": as_openai, "anthropic": as_anthropic, "responses": as_responses}

# ---------------------------------------------------------------------------------------------------- providers' wires


def read(api: str, body: bytes) -> Story:
    """The story of a provider's request."""
    if api == "gemini":
        return of_gemini(json.loads(body))
    return of_request(CLIENT_APIS[api].decode_request(body, {}, Dropped(), Limits()))


def of_request(request: Request) -> Story:
    """The story of a decoded request."""
    story = Story("\n\n".join(text.text for text in request.system))
    story.tools = {tool.name: (tool.description or "", tool.schema.get("properties", {})) for tool in request.tools}
    story.settings = {name: value for name, value in (
        ("temperature", request.temperature), ("limit", request.max_output_tokens), ("stop", request.stop)) if
        value not in (None, [])}
    numbers: dict[str, int] = {}
    for message in request.messages:
        for block in message.content:
            if isinstance(block, ToolCall):
                numbers[block.id] = len(story.calls)
                story.calls.append((block.name, json.loads(block.arguments or "{}")))
                story.speaks("assistant")
            elif isinstance(block, ToolResult):
                _result(story, numbers[block.call_id], block)
            elif isinstance(block, Media):
                story.images.append(block.data or "")
            elif isinstance(block, Text) and not block.text.startswith(MOVED):
                story.speaks(message.role)
                (story.said if message.role == "user" else story.answered).append(block.text)
    return story


def _result(story: Story, number: int, block: ToolResult) -> None:
    text = "".join(part.text for part in block.content if isinstance(part, Text))
    error = block.is_error or text.startswith("[tool error]")
    story.results.append((number, text.removeprefix("[tool error]").lstrip() if error else text, error))
    story.images += [part.data or "" for part in block.content if isinstance(part, Media)]
    story.speaks("results")


def of_gemini(body: Json) -> Story:
    """The story of a generateContent request. Results belong to the calls of the content before, in order."""
    config = body.get("generationConfig", {})
    story = Story("".join(part["text"] for part in body.get("systemInstruction", {"parts": []})["parts"]))
    story.tools = {one["name"]: (one["description"], one.get("parametersJsonSchema", {}).get("properties", {}))
                   for tool in body["tools"] for one in tool["functionDeclarations"]}
    story.settings = {told: config[name] for name, told in (
        ("temperature", "temperature"), ("maxOutputTokens", "limit"), ("stopSequences", "stop")) if name in config}
    waiting: list[int] = []
    for content in body["contents"]:
        for part in content["parts"]:
            if "functionCall" in part:
                waiting.append(len(story.calls))
                story.calls.append((part["functionCall"]["name"], part["functionCall"].get("args", {})))
                story.speaks("assistant")
            elif "functionResponse" in part:
                _response(story, waiting.pop(0), part["functionResponse"])
            elif "inlineData" in part:
                story.images.append(part["inlineData"]["data"])
            elif not part["text"].startswith(MOVED):
                user = content["role"] == "user"
                story.speaks("user" if user else "assistant")
                (story.said if user else story.answered).append(part["text"])
    return story


def _response(story: Story, number: int, response: Json) -> None:
    assert story.calls[number][0] == response["name"]
    (kind, text), = response["response"].items()
    story.results.append((number, text, kind == "error"))
    story.images += [part["inlineData"]["data"] for part in response.get("parts", [])]
    story.speaks("results")
