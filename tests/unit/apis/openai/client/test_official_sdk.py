"""The official SDK as the client, with a provider of each API behind the translation: its stream helpers assemble
responses, `parse` returns typed ones, a broken stream raises, an error has its class.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest
from pydantic import BaseModel

from extproc.translation.exchange import Translation
from tests.playbook import call, delta, sse
from tests.unit.apis.anthropic.provider.helpers import stream, thinking, tool_use
from tests.unit.apis.gemini.response.conversation import sse as gemini_sse

QUESTION: list[Any] = [{"role": "user", "content": "hi"}]
MODELS = {"openai": "qwen3", "anthropic": "claude-haiku-4-5", "gemini": "gemini-2.5-pro"}


class Tide(BaseModel):
    """When the tide is high."""

    harbor: str
    hours: list[int]


TEXT = '{"harbor": "Brest", "hours": [3, 15]}'
ANSWERS = {
    "openai": sse(*(delta(content=piece) for piece in (TEXT[:9], TEXT[9:])), delta("stop")),
    "anthropic": stream(TEXT),
    "gemini": gemini_sse({"candidates": [{"content": {"parts": [{"text": TEXT}]}, "finishReason": "STOP"}]}),
}
CALLS = {
    "openai": sse(delta(reasoning_content="Hm."), delta(content="Look."),
                  delta(tool_calls=[call(0, "a", "Tide", TEXT[:5])]), delta(tool_calls=[call(0, None, None, TEXT[5:])]),
                  delta(tool_calls=[call(1, "b", "Tide", TEXT)]), delta("tool_calls")),
    "anthropic": stream(thinking("Hm."), "Look.", tool_use("a", "Tide", TEXT[:5], TEXT[5:]),
                        tool_use("b", "Tide", TEXT), stop="tool_use"),
    "gemini": gemini_sse({"candidates": [{"content": {"parts": [
        {"text": "Hm.", "thought": True}, {"text": "Look."},
        *({"functionCall": {"name": "Tide", "args": json.loads(TEXT)}} for _ in range(2))]}, "finishReason": "STOP"}]}),
}


def client(upstream: str, response: bytes, status: int = 200, content_type: str = "text/event-stream") -> openai.OpenAI:
    def handle(request: httpx2.Request) -> httpx2.Response:
        talk = Translation("openai", upstream, MODELS[upstream])
        talk.request(request.read(), dict(request.headers))
        talk.start(status, {"content-type": content_type})
        body = b"".join(talk.feed(response[at:at + 41]) for at in range(0, len(response), 41)) + talk.finish()
        assert talk.head is not None
        return httpx2.Response(talk.head.status, headers=talk.head.headers, content=body)

    return openai.OpenAI(api_key="k", base_url="http://gateway/v1", max_retries=0,
                         http_client=httpx2.Client(transport=httpx2.MockTransport(handle)))


@pytest.mark.parametrize("upstream", ANSWERS)
def test_a_structured_response_is_parsed(upstream: str) -> None:
    completions = client(upstream, ANSWERS[upstream]).chat.completions
    parsed = completions.parse(model="m", messages=QUESTION, response_format=Tide).choices[0].message.parsed
    assert parsed == Tide(harbor="Brest", hours=[3, 15])
    options: Any = {"include_usage": True}
    with completions.stream(model="m", messages=QUESTION, response_format=Tide, stream_options=options) as events:
        kinds = {event.type for event in events}
        final = events.get_final_completion()
    assert {"content.delta", "content.done"} <= kinds
    assert final.choices[0].message.parsed == parsed
    assert final.usage is not None


@pytest.mark.parametrize("upstream", CALLS)
def test_parallel_calls_with_reasoning_are_assembled(upstream: str) -> None:
    completions = client(upstream, CALLS[upstream]).chat.completions
    tools = [openai.pydantic_function_tool(Tide)]
    whole = completions.parse(model="m", messages=QUESTION, tools=tools).choices[0].message
    with completions.stream(model="m", messages=QUESTION, tools=tools) as events:
        kinds = [event.type for event in events]
        choice = events.get_final_completion().choices[0]
    assert kinds.count("tool_calls.function.arguments.done") == 2
    assert choice.finish_reason == "tool_calls"
    for message in (whole, choice.message):
        assert message.content == "Look."
        assert (message.model_extra or {})["reasoning_content"] == "Hm."
        calls = message.tool_calls or []
        assert [one.function.parsed_arguments for one in calls] == [Tide(harbor="Brest", hours=[3, 15])] * 2
        assert len({one.id for one in calls}) == 2


@pytest.mark.parametrize(("upstream", "complete"), [
    ("openai", b'"tool_calls"'),  # a stream that ends after a whole call counts as complete without its last chunk
    ("anthropic", b"event: message_delta"), ("gemini", b'"finishReason"')])
def test_p1_a_stream_that_breaks_off_raises(upstream: str, complete: bytes) -> None:
    def read(body: bytes, finished: list[str]) -> None:
        for chunk in client(upstream, body).chat.completions.create(model="m", messages=QUESTION, stream=True):
            finished += [choice.finish_reason for choice in chunk.choices if choice.finish_reason]

    body = CALLS[upstream]
    for cut in range(0, body.index(complete), 13):
        finished: list[str] = []
        with pytest.raises(openai.APIError):
            read(body[:cut], finished)
        assert finished == [], cut


@pytest.mark.parametrize(("status", "kind"), [
    (400, openai.BadRequestError), (401, openai.AuthenticationError), (403, openai.PermissionDeniedError),
    (404, openai.NotFoundError), (409, openai.ConflictError), (422, openai.UnprocessableEntityError),
    (429, openai.RateLimitError), (500, openai.InternalServerError), (503, openai.InternalServerError),
    (529, openai.InternalServerError), (402, openai.APIStatusError), (413, openai.APIStatusError)])
@pytest.mark.parametrize("upstream", ANSWERS)
@pytest.mark.parametrize("body", [b'{"error": {"message": "No \\"luck\\""}}', b"<html>No &quot;luck&quot;</html>", b""])
def test_p14_an_error_has_its_class(upstream: str, status: int, kind: Callable[..., Exception], body: bytes) -> None:
    for streamed in (True, False):
        with pytest.raises(openai.APIStatusError) as caught:
            client(upstream, body, status, "application/json").chat.completions.create(
                model="m", messages=QUESTION, stream=streamed)
        assert type(caught.value) is kind
        assert caught.value.status_code == status
        error: Any = caught.value.body
        assert set(error) == {"message", "type", "param", "code"}
        assert error["message"]
