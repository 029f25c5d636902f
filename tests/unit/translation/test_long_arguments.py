"""`limits.tool_arguments`: a call with more than that ends the response with an error, however the response travels."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc import Translation
from extproc.bounds import Limits
from tests.model_text.text_and_calls import UPSTREAMS, NativeCall, hermes_call, provider_body

MOST = 100
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
FITS: NativeCall = ("read", {"path": "x" * (MOST - len('{"path": ""}'))})
TOO_LONG: NativeCall = ("read", {"path": FITS[1]["path"] + "y"})
UMLAUTS: NativeCall = ("read", {"path": "\u00fc" * 40})
"""In their JSON these are escapes of six characters each; as text they would fit."""
FAITHFUL = {"anthropic": ("claude-sonnet-4-5", "https://api.anthropic.com/v1"),
            "openai": ("gpt-4o", "https://api.openai.com/v1"),
            "gemini": ("gemini-2.5-pro", "https://generativelanguage.googleapis.com/v1beta")}
PAIRS = [(client, upstream) for client in ("anthropic", "openai", "events") for upstream in UPSTREAMS]

both_ways = pytest.mark.parametrize("stream", [True, False])


def answered(client: str, upstream: str, items: list[str | NativeCall], *, stream: bool = True, most: int = MOST,
             cut: int = 1000, **settings: Any) -> tuple[Translation, bytes]:
    model, url = FAITHFUL[upstream]
    talk = Translation(client, upstream, **{"model": model, "url": url, "limits": Limits(tool_arguments=most),
                                            **settings})
    tool = {"name": "read", "input_schema": SCHEMA} if client == "anthropic" else {
        "type": "function", "function": {"name": "read", "parameters": SCHEMA}}
    asked = {"model": FAITHFUL.get(client, ("gpt-4o",))[0], "max_tokens": 9, "stream": stream, "tools": [tool],
             "messages": [{"role": "user", "content": "hi"}]}
    talk.request(json.dumps(asked).encode())
    body = provider_body(upstream, items, stream=stream)
    talk.start(200, {"content-type": "text/event-stream" if stream else "application/json"})
    out = b"".join(talk.feed(body[at:at + cut]) for at in range(0, len(body), cut)) + talk.finish()
    return talk, out


@both_ways
@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_a_call_up_to_the_bound_goes_out(client: str, upstream: str, stream: bool) -> None:
    talk, out = answered(client, upstream, ["Hm.", FITS], stream=stream, most=MOST + 2)
    assert talk.failure is None
    assert (FITS[1]["path"].encode() in out) or stream
    assert talk.tool_calls == 1


@both_ways
@pytest.mark.parametrize("cut", [7, 100_000])
@pytest.mark.parametrize("call", [TOO_LONG, UMLAUTS], ids=["letters", "escapes"])
@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_a_longer_one_is_an_error_in_the_clients_shape(client: str, upstream: str, stream: bool, cut: int,
                                                       call: NativeCall) -> None:
    if upstream == "gemini" and call is UMLAUTS:
        return  # its arguments come as an object and go out as text without escapes: 40 characters
    talk, out = answered(client, upstream, ["Hm.", call], stream=stream, cut=cut, most=MOST - 1)
    assert talk.failure is not None
    assert "limits.tool_arguments" in talk.failure.message
    assert "'read'" in talk.failure.message
    assert b"limits.tool_arguments" in out
    assert b"[DONE]" not in out
    assert b"message_stop" not in out
    assert b'"done":true' not in out
    assert talk.head is not None
    if not stream and client != "events":
        assert talk.head.status == 502
        error = json.loads(out)["error"]
        assert error["type"] == ("api_error" if client == "anthropic" else "server_error")


@pytest.mark.parametrize("arguments", [None, "repair", "strict"])
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_so_is_one_that_the_model_wrote_as_text(upstream: str, arguments: str | None) -> None:
    settings: dict[str, Any] = {"model": "m", "url": "http://127.0.0.1:8000/v1", "dialect": "hermes",
                                "arguments": arguments}
    talk, out = answered("anthropic", upstream, [hermes_call(*TOO_LONG)], most=MOST - 1, **settings)
    assert talk.failure is not None
    assert "limits.tool_arguments" in talk.failure.message
    assert out.endswith(b"}\n\n")
    assert out.count(b"event: error") == 1
    assert b"message_stop" not in out
    assert answered("anthropic", upstream, [hermes_call(*FITS)], **settings)[0].failure is None


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_each_call_has_the_bound_for_itself(upstream: str) -> None:
    talk, _ = answered("anthropic", upstream, [FITS, FITS, FITS])
    assert (talk.failure, talk.tool_calls) == (None, 3)
