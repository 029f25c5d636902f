"""Results of tools whose ids match no call: given the call that they must mean, or refused with a code.

Clients write ids anew when they change the provider, and some lose them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc import Translation
from extproc.errors import RequestError
from tests.providers import anthropic_rules, gemini_rules, openai_rules

Json = dict[str, Any]
PROVIDERS = [("openai", "http://127.0.0.1:9/v1", "some-model"), ("openai", "https://api.openai.com/v1", "gpt-4o"),
             ("anthropic", "https://api.anthropic.com/v1", "claude-sonnet-4-5"),
             ("anthropic", "https://api.deepseek.com/anthropic", "deepseek-chat"),
             ("gemini", "https://generativelanguage.googleapis.com/v1beta", "gemini-2.5-flash")]


def history(client: str, calls: list[tuple[str, str]], results: list[tuple[str, str | None]]) -> Json:
    """A turn with these calls (id, name) and these results (id, name of the tool where the client says it)."""
    body: Json = {"model": "m" if client == "openai" else "claude-sonnet-4-5", "max_tokens": 100}
    if client == "anthropic":
        body["tools"] = [{"name": name, "input_schema": {"type": "object", "properties": {}}} for name in ("f", "g")]
        body["messages"] = [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": id_, "name": name, "input": {}}
                                              for id_, name in calls]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": id_, "content": f"result {at}",
                 **({"name": name} if name else {})} for at, (id_, name) in enumerate(results)]}]
        return body
    nothing = {"type": "object", "properties": {}}
    body["tools"] = [{"type": "function", "function": {"name": name, "parameters": nothing}} for name in ("f", "g")]
    body["messages"] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": "{}"}} for id_, name in calls]},
        *({"role": "tool", "tool_call_id": id_, "content": f"result {at}", **({"name": name} if name else {})}
          for at, (id_, name) in enumerate(results))]
    return body


def sent(client: str, provider: tuple[str, str, str], body: Json) -> Json:
    upstream, url, model = provider
    talk = Translation(client, upstream, url=url, model=model)
    out: Json = json.loads(talk.request(json.dumps(body).encode()).body)
    assert "tool_result.id" in talk.dropped.hints
    if upstream == "openai":
        assert openai_rules.refusal(out) is None
    elif url == "https://api.anthropic.com/v1":
        assert anthropic_rules.refusal(out) is None
    elif upstream == "gemini":
        assert gemini_rules.refusal(out, model) is None
    return out


def order(out: Json) -> list[str]:
    """The texts of the results in the order of their calls, which every provider gets."""
    text = json.dumps(out)
    return [f"result {at}" for at in sorted((0, 1), key=lambda at: text.find(f"result {at}")) if f"result {at}" in text]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("client", ["anthropic", "openai"])
def test_3_11_one_result_and_one_call_that_waits_belong_together(client: str, provider: tuple[str, str, str]) -> None:
    out = sent(client, provider, history(client, [("toolu_1", "f")], [("call_of_another", None)]))
    assert order(out) == ["result 0"]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("client", ["anthropic", "openai"])
def test_3_11_results_that_say_their_tool_are_matched_by_name(client: str, provider: tuple[str, str, str]) -> None:
    out = sent(client, provider, history(client, [("toolu_1", "f"), ("toolu_2", "g")], [("x", "g"), ("y", "f")]))
    assert order(out) == ["result 1", "result 0"]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("client", ["anthropic", "openai"])
def test_3_11_the_one_that_is_left_goes_to_the_call_that_is_left(client: str, provider: tuple[str, str, str]) -> None:
    calls = [("toolu_1", "f"), ("toolu_2", "g")]
    out = sent(client, provider, history(client, calls, [("toolu_2", None), ("x", None)]))
    assert order(out) == ["result 1", "result 0"]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("client", ["anthropic", "openai"])
@pytest.mark.parametrize(("calls", "results"), [
    ([("toolu_1", "f"), ("toolu_2", "g")], [("x", None), ("y", None)]),
    ([("toolu_1", "f")], [("x", None), ("y", None)]),
    ([("toolu_1", "f")], [("toolu_1", None), ("x", None)])])
def test_3_11_what_could_mean_several_calls_or_none_is_refused_with_a_code(
        client: str, provider: tuple[str, str, str], calls: list[tuple[str, str]],
        results: list[tuple[str, str | None]]) -> None:
    """Sent on as text it could be taken for the user's words; guessed it could be another call's."""
    upstream, url, model = provider
    talk = Translation(client, upstream, url=url, model=model)
    with pytest.raises(RequestError) as refused:
        talk.request(json.dumps(history(client, calls, results)).encode())
    assert refused.value.status == 400
    error = json.loads(refused.value.body)["error"]
    assert error["code"] == "invalid_tool_results"
    assert error["type"] == "invalid_request_error"
    assert "'x'" in error["message"]


def test_3_11_a_result_without_an_id_has_the_code_as_well() -> None:
    body = history("openai", [("a", "f"), ("b", "g")], [("", None)])
    with pytest.raises(RequestError) as refused:
        Translation("openai", "gemini", model="gemini-2.5-flash").request(json.dumps(body).encode())
    assert json.loads(refused.value.body)["error"]["code"] == "invalid_tool_results"


def test_3_11_results_that_have_their_calls_pass_untouched() -> None:
    body = history("anthropic", [("toolu_1", "f"), ("toolu_2", "g")], [("toolu_2", None), ("toolu_1", None)])
    talk = Translation("anthropic", "anthropic", url=PROVIDERS[2][1], model="claude-sonnet-4-5")
    assert json.loads(talk.request(json.dumps(body).encode()).body) == body
