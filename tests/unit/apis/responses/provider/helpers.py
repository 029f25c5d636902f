"""One exchange of a client with the Responses API, held against the strict rules of the scripted provider."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from extproc import Translation
from extproc.conversation.model import Event
from tests.playbook import context
from tests.providers import responses as api
from tests.providers.responses_rules import Item, refusal

OPENAI = "https://api.openai.com/v1"
MODEL = "gpt-6-sol"
PARAMETERS = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}


def talk(client: str = "anthropic", *, model: str = MODEL, url: str | None = OPENAI, **settings: Any) -> Translation:
    return Translation(client, "openai", model, url=url, **settings)


def sent(body: Mapping[str, Any], client: str = "anthropic", *, issued: Collection[str] = (),
         translation: Translation | None = None, **settings: Any) -> dict[str, Any]:
    """The body at the provider, which the provider accepts."""
    translation = translation or talk(client, **settings)
    request = translation.request(json.dumps({"model": "m", "max_tokens": 1000, **body}).encode())
    assert request.path.partition("?")[0].endswith("/responses")
    got: dict[str, Any] = json.loads(request.body)
    refused = refusal(got, issued)
    assert refused is None, refused
    return got


def said(client: str, *messages: Any, **fields: Any) -> dict[str, Any]:
    """A request of these messages; a text is one of the user."""
    return {"messages": [{"role": "user", "content": one} if isinstance(one, str) else one for one in messages],
            **fields}


def answered(translation: Translation, events: Sequence[Mapping[str, Any] | str], *, finish: bool = True) -> bytes:
    """The client's bytes for this stream."""
    translation.start(200, {"content-type": "text/event-stream"})
    out = b"".join(translation.feed(api.written(event)) for event in events)
    return out + translation.finish() if finish else out


def decode(*events: Mapping[str, Any] | str, tools: Collection[str] = ("lookup_tide", "ping")) -> list[Event]:
    """The conversation events of a stream."""
    from extproc.apis import PROVIDER_APIS

    decoder = PROVIDER_APIS["responses"].make_response_decoder(context(tools))
    return [*decoder.feed(b"".join(api.written(event) for event in events)), *decoder.finish()]


def decode_whole(body: Mapping[str, Any] | bytes) -> list[Event]:
    """The conversation events of a whole response."""
    from extproc.apis import PROVIDER_APIS

    decoder = PROVIDER_APIS["responses"].make_response_decoder(context())
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return [*decoder.feed(data), *decoder.finish()]


def events_of(*items: Item, **more: Any) -> list[dict[str, Any]]:
    """The events of a complete response with these items."""
    return api.events_of(api.response(items, **more))


def blocks(out: bytes) -> list[dict[str, Any]]:
    """The content blocks of a streamed Messages response, with the deltas put together."""
    found: list[dict[str, Any]] = []
    for part in out.decode().split("\n\n"):
        if not part:
            continue
        event = json.loads(part.split("data: ", 1)[1])
        if event["type"] == "content_block_start":
            found.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            for name in ("text", "thinking", "signature"):
                if name in delta:
                    found[-1][name] += delta[name]
            if "partial_json" in delta:
                found[-1]["partial_json"] = found[-1].get("partial_json", "") + delta["partial_json"]
    for block in found:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block.pop("partial_json", "") or "{}")
    return found


def stop_reason(out: bytes) -> Any:
    """The stop reason of a streamed Messages response."""
    events = [json.loads(part.split("data: ", 1)[1]) for part in out.decode().split("\n\n") if part]
    return next((event["delta"]["stop_reason"] for event in events if event["type"] == "message_delta"), None)
