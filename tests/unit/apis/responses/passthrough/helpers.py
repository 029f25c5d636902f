"""One exchange of a Responses client with OpenAI's Responses API, held against the strict scripted provider."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from extproc import Translation
from tests.providers import responses as api
from tests.providers.responses_rules import refusal

Json = dict[str, Any]
MODEL = "gpt-6-sol"
TOOL: Json = {"type": "function", "name": "weather", "strict": False, "parameters": {
    "type": "object", "properties": {"town": {"type": "string"}}}}


def talk(*, model: str = MODEL, **settings: Any) -> Translation:
    return Translation("responses", "openai", model, url="https://api.openai.com/v1", endpoint="responses", **settings)


def written(body: Mapping[str, Any]) -> bytes:
    """A request in a form that no encoder of ours writes: a re-encoded one is told apart."""
    return json.dumps({"model": "mine", **body}, indent=1).encode()


def sent(body: Mapping[str, Any], translation: Translation | None = None, **settings: Any) -> Json:
    """What the provider gets."""
    request = (translation or talk(**settings)).request(written(body))
    assert request.path == "/v1/responses"
    got: Json = json.loads(request.body)
    return got


def accepted(body: Mapping[str, Any], issued: Collection[str] = (), translation: Translation | None = None,
             **settings: Any) -> Json:
    """What the provider gets and accepts."""
    got = sent(body, translation, **settings)
    refused = refusal(got, issued)
    assert refused is None, refused
    return got


def response_to(events: Sequence[Mapping[str, Any] | str], body: Mapping[str, Any] | None = None, *,
                translation: Translation | None = None, end: bool = True) -> tuple[Translation, bytes]:
    """The exchange and the client's bytes for this stream."""
    exchange = translation or talk()
    exchange.request(written({"stream": True, "input": "hi", "tools": [TOOL], **(body or {})}))
    exchange.start(200, {"content-type": "text/event-stream"})
    out = b"".join(exchange.feed(api.written(event)) for event in events)
    return exchange, out + exchange.finish() if end else out


def events_in(out: bytes) -> list[Json]:
    return [json.loads(block.split("data: ", 1)[1]) for block in out.decode().split("\n\n") if block]
