"""The scripted Gemini provider itself, with plain requests: keys, forms of an answer, signatures, breaks as told."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.providers.gemini import (
    KEY,
    STUDIO_BASE,
    TOKEN,
    VERTEX_BASE,
    GeminiProvider,
    blocked,
    call,
    calls,
    partial_call,
    parts,
    stopped,
    text,
)
from tests.providers.gemini_wire import FINISH_REASONS, USAGE, error_body, overloaded, quota, response, sse
from tests.providers.http import Gate

PRO = "gemini-3-pro-preview"
USER: dict[str, Any] = {"role": "user", "parts": [{"text": "hi"}]}
THINKING: dict[str, Any] = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
STUDIO_KEY = {"x-goog-api-key": KEY}
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def provider() -> Iterator[GeminiProvider]:
    server = GeminiProvider()
    server.start()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def clean(provider: GeminiProvider) -> None:
    provider.clear()


def ask(provider: GeminiProvider, *contents: Any, model: str = PRO, verb: str = "generateContent", query: str = "",
        base: str = STUDIO_BASE, headers: Any = STUDIO_KEY, **fields: Any) -> tuple[int, bytes]:
    body = {"contents": list(contents) or [USER], **fields}
    connection = http.client.HTTPConnection("127.0.0.1", provider.port, timeout=10)
    connection.request("POST", f"{base}/models/{model}:{verb}{query}", json.dumps(body),
                       {"content-type": "application/json", **headers})
    answer = connection.getresponse()
    try:
        return answer.status, answer.read()
    finally:
        connection.close()


def stream(provider: GeminiProvider, *contents: Any, **how: Any) -> list[Any]:
    status, data = ask(provider, *contents, verb="streamGenerateContent", query="?alt=sse", **how)
    assert status == 200, data
    lines = data.decode().replace("\r", "").split("\n\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line]


def parts_of(*responses: Any) -> list[Any]:
    return [part for one in responses for part in one["candidates"][0]["content"].get("parts", ())]


def test_one_script_in_three_forms(provider: GeminiProvider) -> None:
    provider.always(text("hello you", thoughts="hmm", pieces=4, usage_every=True))
    events = stream(provider, **THINKING)
    assert parts_of(*events) == [{"text": "hmm", "thought": True}, {"text": "hell"}, {"text": "o yo"}, {"text": "u"}]
    assert [e["candidates"][0].get("finishReason") for e in events] == [None, None, None, "STOP"]
    assert [e["usageMetadata"]["candidatesTokenCount"] for e in events] == [0, 1, 2, USAGE["candidatesTokenCount"]]
    array = json.loads(ask(provider, verb="streamGenerateContent", **THINKING)[1])
    assert array == events
    whole = json.loads(ask(provider, **THINKING)[1])
    assert parts_of(whole) == parts_of(*events)
    assert parts_of(json.loads(ask(provider)[1])) == parts_of(*events)[1:], "thoughts only for who asks for them"
    assert provider.violations == []


def test_cut_anywhere_it_is_the_same(provider: GeminiProvider) -> None:
    provider.script(text("grün"), text("grün", split=1, newline="\n"))
    assert stream(provider) == stream(provider)
    assert len(provider.seen) == 2


@pytest.mark.parametrize("together", [True, False])
def test_calls_with_a_signature_on_the_first(provider: GeminiProvider, together: bool) -> None:
    provider.script(calls(("f", {"a": 1}), ("g", {}), together=together))
    events = stream(provider)
    first, second = parts_of(*events)
    assert len(events) == (1 if together else 2)
    assert first["functionCall"] == {"name": "f", "args": {"a": 1}}
    assert second == {"functionCall": {"name": "g"}}, "args of {} are absent, parallel calls have no signature"
    assert provider.issued[PRO][first["thoughtSignature"]] == call("f", {"a": 1})


def test_signatures_come_back_as_they_went(provider: GeminiProvider) -> None:
    provider.script(calls(("f", {"a": 1})), text("done"), text("done"))
    said = parts_of(*stream(provider))
    result = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "1"}}}]}

    def again(signature: str, **how: Any) -> tuple[int, bytes]:
        return ask(provider, USER, {"role": "model", "parts": [{**said[0], "thoughtSignature": signature}]}, result,
                   **how)

    own = said[0]["thoughtSignature"]
    assert again(own)[0] == 200
    changed = own[:-6] + ("A" if own[-6] != "A" else "B") + own[-5:]
    for status, body in (again(changed), again(own, model="gemini-3-flash-preview"),
                         again(own, base=VERTEX_BASE, headers=BEARER)):
        assert (status, json.loads(body)["error"]["message"]) == (400, "Corrupted thought signature.")
    assert provider.violations == ["Corrupted thought signature."] * 3


def test_signatures_are_new_each_time_and_sometimes_long(provider: GeminiProvider) -> None:
    provider.always(calls(("f", {})))
    found = [parts_of(*stream(provider))[0]["thoughtSignature"] for _ in range(4)]
    assert len(set(found)) == 4
    assert max(map(len, found)) > 3000


def test_signatures_of_texts(provider: GeminiProvider) -> None:
    provider.script(text("hello", signature="empty"), text("hello", pieces=9, signature="last"))
    *_, last = parts_of(*stream(provider))
    assert last["text"] == ""
    assert last["thoughtSignature"] in provider.issued[PRO]
    assert parts_of(*stream(provider))[0].keys() == {"text", "thoughtSignature"}


def test_older_models_sign_nothing(provider: GeminiProvider) -> None:
    provider.script(calls(("f", {})))
    assert parts_of(*stream(provider, model="gemini-2.0-flash")) == [{"functionCall": {"name": "f"}}]


def test_partial_arguments(provider: GeminiProvider) -> None:
    provider.script(parts(partial_call("f", {"a": "xy"}, [
        {"jsonPath": "$.a", "stringValue": "x", "willContinue": True}, {"jsonPath": "$.a", "stringValue": "y"}])))
    said = parts_of(*stream(provider, base=VERTEX_BASE, headers=BEARER))
    assert said[0]["functionCall"] == {"name": "f", "willContinue": True}
    assert said[-1] == {"functionCall": {}}
    assert provider.issued[f"vertex/{PRO}"][said[0]["thoughtSignature"]] == call("f", {"a": "xy"})


@pytest.mark.parametrize("reason", FINISH_REASONS)
def test_every_finish_reason(provider: GeminiProvider, reason: str) -> None:
    provider.script(stopped(reason, "because"))
    (event,) = stream(provider)
    assert event["candidates"] == [{"finishReason": reason, "finishMessage": "because", "index": 0}]


def test_a_blocked_prompt_has_no_candidates(provider: GeminiProvider) -> None:
    provider.script(blocked("JAILBREAK"))
    (event,) = stream(provider)
    assert "candidates" not in event
    assert event["promptFeedback"] == {"blockReason": "JAILBREAK"}


@pytest.mark.parametrize(("base", "headers", "status", "name"), [
    (STUDIO_BASE, {}, 403, "PERMISSION_DENIED"), (STUDIO_BASE, {"x-goog-api-key": "x"}, 400, "INVALID_ARGUMENT"),
    (STUDIO_BASE, BEARER, 403, "PERMISSION_DENIED"), (VERTEX_BASE, {}, 401, "UNAUTHENTICATED"),
    (VERTEX_BASE, STUDIO_KEY, 401, "UNAUTHENTICATED"), ("/v1/openai", STUDIO_KEY, 404, "NOT_FOUND"),
])
def test_keys_and_paths(provider: GeminiProvider, base: str, headers: Any, status: int, name: str) -> None:
    found, body = ask(provider, base=base, headers=headers)
    assert (found, json.loads(body)["error"]["status"]) == (status, name)
    assert len(provider.violations) == 1


@pytest.mark.parametrize(("base", "headers"), [
    (STUDIO_BASE, {**STUDIO_KEY, "authorization": "Bearer x"}), (STUDIO_BASE, {**STUDIO_KEY, "x-api-key": "k"}),
    (STUDIO_BASE, {**STUDIO_KEY, "anthropic-version": "2023-06-01"}), (STUDIO_BASE, {**STUDIO_KEY, "cookie": "a=b"}),
    (VERTEX_BASE, {**BEARER, **STUDIO_KEY}), (STUDIO_BASE, {**STUDIO_KEY, "content-type": "text/plain"}),
])
def test_headers_that_do_not_belong_here(provider: GeminiProvider, base: str, headers: Any) -> None:
    assert ask(provider, base=base, headers=headers)[0] == 400


def test_refusals_are_recorded_and_answered_in_googles_shape(provider: GeminiProvider) -> None:
    provider.script(text("never"))
    status, body = ask(provider, max_tokens=5)
    error = json.loads(body)["error"]
    assert (status, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert error["details"][0]["fieldViolations"][0]["field"] == ""
    assert provider.violations == [error["message"]]
    provider.strict = False
    assert ask(provider, max_tokens=5)[0] == 200, "not strict: recorded and answered all the same"


def test_vertex_refuses_ids(provider: GeminiProvider) -> None:
    provider.script(calls(("f", {}), ids=["c1"]), text("done"))
    said = [{key: value for key, value in part.items() if key != "thoughtSignature"}
            for part in parts_of(*stream(provider, model="gemini-2.5-pro"))]
    history = [USER, {"role": "model", "parts": said},
               {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "f", "response": {}}}]}]
    assert ask(provider, *history, model="gemini-2.5-pro", base=VERTEX_BASE, headers=BEARER)[0] == 400
    assert ask(provider, *history, model="gemini-2.5-pro")[0] == 200


def test_errors_as_google_sends_them(provider: GeminiProvider) -> None:
    provider.script(quota("34s"), overloaded())
    status, body = ask(provider)
    assert (status, json.loads(body)["error"]["details"][-1]["retryDelay"]) == (429, "34s")
    assert ask(provider)[0] == 503
    assert ask(provider)[0] == 500, "the script has ended"


@pytest.mark.parametrize("end", ["cut", "reset"])
def test_it_breaks_as_told(provider: GeminiProvider, end: Any) -> None:
    gate = Gate()
    provider.script(parts([[{"text": "a"}], gate, [{"text": "b"}]], end=end))
    connection = http.client.HTTPConnection("127.0.0.1", provider.port, timeout=10)
    connection.request("POST", f"{STUDIO_BASE}/models/{PRO}:streamGenerateContent?alt=sse",
                       json.dumps({"contents": [USER]}), {"content-type": "application/json", **STUDIO_KEY})
    answer = connection.getresponse()
    assert b'"a"' in answer.read1(65536)
    gate.open()
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        answer.read()
    connection.close()


def test_an_end_without_a_finish_and_an_error_in_the_stream(provider: GeminiProvider) -> None:
    provider.script(parts([[{"text": "a"}]], finish=None),
                    sse([response([{"text": "a"}]), error_body(503, "overloaded")]))
    assert "finishReason" not in stream(provider)[-1]["candidates"][0]
    assert stream(provider)[-1]["error"]["status"] == "UNAVAILABLE"


def test_counting_tokens(provider: GeminiProvider) -> None:
    assert json.loads(ask(provider, verb="countTokens")[1])["totalTokens"] > 0
