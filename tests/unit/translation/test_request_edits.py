"""An operator's changes of provider requests: what they do to a body and its headers, translated or forwarded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc import Translation
from extproc.apis.base import ProviderRequest
from extproc.config import Attempt, Backend, Config, ModelRule
from extproc.endpoints import ENDPOINT_OF
from extproc.ext_proc.attempt import ChosenAttempt, make_translation
from extproc.translation.request_edits import RequestEdits

HI: dict[str, Any] = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}


def edited(body: str, **edits: Any) -> str:
    return RequestEdits(**edits).edit_body(body.encode()).decode()


@pytest.mark.parametrize(("body", "edits", "result"), [
    ('{"a":1}', {"set": {"b": 2}}, '{"a":1,"b":2}'),
    ('{"a":1}', {"set": {"a": 2}}, '{"a":1}'),
    ('{"a":null}', {"set": {"a": 2}}, '{"a":2}'),
    ('{}', {"set": {"a.b.c": [1]}}, '{"a":{"b":{"c":[1]}}}'),
    ('{"a":{"b":1}}', {"set": {"a.b": 2, "a.c": 3}}, '{"a":{"b":1,"c":3}}'),
    ('{"a":"text"}', {"set": {"a.b": 2}}, '{"a":"text"}'),
    ('{"a":1,"b":2}', {"override": {"a": None}}, '{"a":null,"b":2}'),
    ('{"a":"text"}', {"override": {"a.b": {"c": True}}}, '{"a":{"b":{"c":true}}}'),
    ('{"a":{"b":1,"c":2}}', {"override": {"a": {"d": 1}}}, '{"a":{"d":1}}'),
    ('{"a":1,"b":{"c":2,"d":3}}', {"remove": ["a", "b.c", "x", "b.x.y", "b.d.e"]}, '{"b":{"d":3}}'),
    ('{"a":1}', {"remove": ["a"], "set": {"b": 1}, "override": {"c": 1}}, '{"c":1,"b":1}'),
])
def test_one_change(body: str, edits: dict[str, Any], result: str) -> None:
    assert edited(body, **edits) == result


def test_what_does_not_change_keeps_its_bytes() -> None:
    body = '{"z": 1.50 ,"a":[1e3, "\\u00e9"],"b":{"c":  12345678901234567890,"d":0}}'
    assert edited(body) == body
    assert edited(body, remove=["b.d"]) == '{"z":1.50,"a":[1e3, "\\u00e9"],"b":{"c":12345678901234567890}}'


def test_the_edits_of_an_attempt_win_at_their_paths() -> None:
    backend = RequestEdits(set={"a": 1, "b": 1}, override={"c": 1, "d": 1}, remove=["e", "f"],
                           headers={"X-One": "1", "X-Two": "1"})
    attempt = RequestEdits(set={"c": 2, "e": 2}, override={"a": 2}, remove=["d"], headers={"x-one": "2"})
    merged = attempt.over(backend)
    assert merged.edit_body(b'{"c":0,"d":0,"e":0,"f":0,"a":0}') == b'{"c":0,"e":0,"a":2,"b":1}'
    assert merged.headers == {"x-one": "2", "x-two": "1"}


@pytest.mark.parametrize("client", ["anthropic", "openai", "responses"])
@pytest.mark.parametrize("upstream", ["anthropic", "openai", "responses", "gemini"])
def test_every_pair_of_apis_sends_the_changed_request(client: str, upstream: str) -> None:
    edits = RequestEdits(set={"own.field": [1]}, remove=["max_tokens"], headers={"X-Title": "Our gateway"})
    body = {**HI, "input": "hi"} if client == "responses" else HI
    if client == "responses":
        body = {"model": "m", "input": "hi"}
    sent = []
    for _ in range(2):
        translation = Translation(client, upstream, "m", edits=edits)
        sent.append(translation.request(json.dumps(body).encode()))
    fields = json.loads(sent[0].body)
    assert fields["own"] == {"field": [1]}
    assert "max_tokens" not in fields
    assert sent[0].headers["x-title"] == "Our gateway"
    assert sent[0].body == sent[1].body, "equal requests give equal bytes"


def test_an_entry_of_a_list_header_joins_the_requests_own() -> None:
    headers = {"anthropic-beta": "a,b", "accept": "application/json"}
    request = ProviderRequest(method="POST", path="/v1/messages", headers=headers, body=b"{}")
    edits = RequestEdits(headers={"Anthropic-Beta": "b, c"})
    assert edits.edit_headers(request, "anthropic").headers["anthropic-beta"] == "a,b,c"
    assert edits.edit_headers(request, "openai").headers["anthropic-beta"] == "b, c"
    assert request.headers == headers


def made(path: str, backend: dict[str, Any], attempt: dict[str, Any]) -> Any:
    chosen = Attempt(backend="b", model="x", **attempt)
    of_file = Backend(api="openai", url="https://api.example/v1", **backend)
    rule = ModelRule(match="m", attempts=[chosen])
    config = Config(backends={"b": of_file}, models=[rule])
    return make_translation(config, "openai", of_file, ChosenAttempt(rule, chosen, 1, True), "m", "req_1",
                            ENDPOINT_OF[path])


def test_the_keys_of_a_file_reach_the_request() -> None:
    translation = made("/v1/chat/completions", {"set": {"temperature": 0.5, "seed": 1}, "headers": {"x-a": "b"}},
                       {"set": {"seed": 2}, "override": {"service_tier": "flex"}, "headers": {"x-c": "d"}})
    request = translation.request(json.dumps({**HI, "service_tier": "auto", "temperature": 0.1}).encode())
    fields = json.loads(request.body)
    assert (fields["temperature"], fields["seed"], fields["service_tier"]) == (0.1, 2, "flex")
    assert (request.headers["x-a"], request.headers["x-c"]) == ("b", "d")


def test_on_a_path_without_translation_only_headers_change() -> None:
    translation = made("/v1/embeddings", {"set": {"temperature": 0.5}, "headers": {"x-a": "b"}}, {})
    request = translation.request(b'{"model":"m","input":"hi"}')
    assert json.loads(request.body) == {"model": "x", "input": "hi"}
    assert request.headers["x-a"] == "b"
