"""Messages requests: what was written comes back as it was meant, and nothing makes the reader stumble."""

from __future__ import annotations

import contextlib
import json
import re

from hypothesis import given
from hypothesis import strategies as st

from extproc.apis.anthropic.client import API
from extproc.bounds import Limits
from extproc.conversation.model import (
    Block,
    Media,
    Message,
    OutputFormat,
    Request,
    Text,
    Thinking,
    ThinkingConfig,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest

WORD = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
JSON = st.recursive(st.none() | st.booleans() | st.integers(-10**9, 10**9) | WORD,
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORD, inner, max_size=3), max_leaves=6)
OBJECT = st.dictionaries(WORD, JSON, max_size=3)

TEXT = st.builds(Text, WORD, st.booleans())
IMAGE = (st.builds(Media, st.just("image"), media_type=st.just("image/png"), data=WORD, cache=st.booleans())
         | st.builds(Media, st.just("image"), url=WORD) | st.builds(Media, st.just("image"), file_id=WORD))
DOCUMENT = (st.builds(Media, st.just("document"), media_type=st.just("application/pdf"), data=WORD, title=WORD)
            | st.builds(Media, st.just("document"), media_type=st.just("text/plain"), text=WORD, context=WORD))
CALL = st.builds(ToolCall, WORD, WORD, OBJECT.map(json.dumps), st.booleans())
RESULT = st.builds(ToolResult, WORD, st.lists(TEXT | IMAGE | DOCUMENT, max_size=3), st.booleans(),
                   cache=st.booleans())
THINKING = st.builds(Thinking, WORD, st.none() | WORD) | st.builds(Thinking, st.just(""), redacted=WORD)
MESSAGE = (st.builds(Message, st.just("user"), st.lists(TEXT | IMAGE | DOCUMENT | RESULT, max_size=4))
           | st.builds(Message, st.just("assistant"), st.lists(TEXT | CALL | THINKING, max_size=4))
           | st.builds(Message, st.just("system"), st.lists(TEXT, max_size=2)))
REQUEST = st.builds(
    Request, model=WORD, messages=st.lists(MESSAGE, min_size=1, max_size=4), system=st.lists(TEXT, max_size=2),
    tools=st.lists(st.builds(Tool, WORD, st.none() | WORD, OBJECT, st.none() | st.booleans(), st.booleans(),
                             cache=st.booleans()), max_size=3, unique_by=lambda tool: tool.name),
    tool_choice=st.none() | st.builds(ToolChoice, st.sampled_from(["auto", "required", "none"]))
    | st.builds(ToolChoice, st.just("tool"), WORD),
    max_output_tokens=st.integers(1, 10**6), temperature=st.none() | st.floats(0, 1), top_p=st.none() | st.floats(0, 1),
    top_k=st.none() | st.integers(1, 100), stop=st.lists(WORD, max_size=2), stream=st.booleans(),
    thinking=st.none() | st.builds(ThinkingConfig, st.just("enabled"), st.integers(1024, 9999))
    | st.builds(ThinkingConfig, st.sampled_from([None, "adaptive", "disabled"]),
                effort=st.sampled_from(["low", "medium", "high", "xhigh", "max"])),
    output_format=st.none() | st.builds(OutputFormat, OBJECT), user=st.none() | WORD)


def marked(fields: dict[str, object], cache: bool) -> dict[str, object]:
    return {**fields, "cache_control": {"type": "ephemeral"}} if cache else fields


def media(block: Media) -> dict[str, object]:
    if block.text is not None:
        source: dict[str, object] = {"type": "text", "media_type": block.media_type, "data": block.text}
    elif block.data is not None:
        source = {"type": "base64", "media_type": block.media_type, "data": block.data}
    elif block.url is not None:
        source = {"type": "url", "url": block.url}
    else:
        source = {"type": "file", "file_id": block.file_id}
    about = {name: value for name, value in (("title", block.title), ("context", block.context)) if value is not None}
    return marked({"type": block.kind, "source": source, **about}, block.cache)


def write_block(block: Block) -> dict[str, object]:
    match block:
        case Text(text, cache):
            return marked({"type": "text", "text": text}, cache)
        case Media():
            return media(block)
        case ToolCall(call_id, name, arguments, cache):
            return marked({"type": "tool_use", "id": call_id, "name": name, "input": json.loads(arguments)}, cache)
        case ToolResult():
            return marked({"type": "tool_result", "tool_use_id": block.call_id, "is_error": block.is_error,
                           "content": [write_block(part) for part in block.content]}, block.cache)
        case Thinking(redacted=str(data)):
            return {"type": "redacted_thinking", "data": data}
        case Thinking(text, signature):
            return {"type": "thinking", "thinking": text, "signature": signature or ""}
    raise AssertionError(block)


def write(request: Request) -> bytes:
    """A body that means this request, written plainly."""
    body: dict[str, object] = {
        "model": request.model, "max_tokens": request.max_output_tokens, "stream": request.stream,
        "messages": [{"role": m.role, "content": [write_block(b) for b in m.content]} for m in request.messages],
        "system": [write_block(text) for text in request.system], "stop_sequences": request.stop,
        "temperature": request.temperature, "top_p": request.top_p, "top_k": request.top_k,
        "metadata": {"user_id": request.user},
        "tools": [marked({"name": tool.name, "description": tool.description, "input_schema": tool.schema,
                          "strict": tool.strict, "defer_loading": tool.deferred}, tool.cache)
                  for tool in request.tools]}
    if request.tool_choice:
        mode = {"required": "any"}.get(request.tool_choice.mode, request.tool_choice.mode)
        body["tool_choice"] = {"type": mode, **({"name": request.tool_choice.tool} if mode == "tool" else {})}
    output: dict[str, object] = {}
    if request.thinking and request.thinking.mode:
        body["thinking"] = {"type": request.thinking.mode, **(
            {"budget_tokens": request.thinking.budget} if request.thinking.budget else {})}
    if request.thinking and request.thinking.effort:
        output["effort"] = request.thinking.effort
    if request.output_format:
        output["format"] = {"type": "json_schema", "schema": request.output_format.schema}
    return json.dumps({**body, "output_config": output}).encode()


@given(REQUEST)
def test_a_request_is_read_as_it_was_meant(request: Request) -> None:
    dropped = Dropped()
    assert API.decode_request(write(request), {}, dropped, Limits()) == request
    assert dropped == Dropped()


@given(REQUEST, st.dictionaries(WORD.map("x-".__add__), JSON, min_size=1, max_size=3))
def test_unknown_fields_change_nothing_but_are_named(request: Request, extra: dict[str, object]) -> None:
    dropped = Dropped()
    body = json.dumps({**extra, **json.loads(write(request))}).encode()
    assert API.decode_request(body, {}, dropped, Limits()) == request
    assert dropped == Dropped(hints=list(extra))


@given(REQUEST, st.data())
def test_a_damaged_body_is_a_400_and_nothing_worse(request: Request, data: st.DataObject) -> None:
    body = bytearray(write(request))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BadRequest):
        API.decode_request(bytes(body), {}, Dropped(), Limits())


@given(st.dictionaries(st.sampled_from(["model", "messages", "max_tokens", "system", "tools", "tool_choice", "thinking",
                                        "output_config", "metadata", "stop_sequences"]), JSON))
def test_fields_of_any_type_are_read_or_refused_with_their_place(fields: dict[str, object]) -> None:
    body = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}], **fields}
    places = re.compile("|".join(body))
    try:
        API.decode_request(json.dumps(body).encode(), {}, Dropped(), Limits())
    except BadRequest as error:
        refusal = error.failure.message
    else:
        refusal = None
    assert refusal is None or places.match(refusal)
