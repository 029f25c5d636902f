"""Structured answers as libraries ask for them: `instructor` forces a tool and reads its arguments while they grow, the
Vercel AI SDK sends a strict JSON schema; both ask again when an answer does not fit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_core import from_json

from tests.e2e.matrix.backends import BACKENDS, Backend
from tests.e2e.matrix.clients import AnthropicClient, Client, OpenAIClient

PROVIDERS = [kind.name for kind in BACKENDS]


class Person(BaseModel):
    """Correctly extracted `Person` with all the required parameters with correct types"""

    name: str
    age: int
    towns: list[str]


MINA: dict[str, Any] = {"name": "Mina Größe", "age": 41, "towns": ["Köln", "Jena"]}
ASKED: list[Any] = [{"role": "user", "content": "Mina is 41 and lives in Köln and Jena."}]
FUNCTION: dict[str, Any] = {"name": "Person", "description": Person.__doc__, "parameters": Person.model_json_schema()}
TOOL: dict[str, Any] = {"type": "function", "function": FUNCTION}
FORCED: Any = {"type": "function", "function": {"name": "Person"}}


def openai_sdk(clients: dict[str, Client]) -> Any:
    client = clients["openai"]
    assert isinstance(client, OpenAIClient)
    return client.sdk


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_forced_tool_read_while_it_grows(clients: dict[str, Client], backends: dict[str, Backend],
                                           provider: str) -> None:
    """instructor's `create_partial`: every prefix of the arguments is the beginning of one JSON object."""
    backend = backends[provider]
    backend.server(provider).script(backend.calls(("Person", MINA)))
    grown, seen = "", []
    for chunk in openai_sdk(clients).chat.completions.create(model=provider, messages=ASKED, tools=[TOOL],
                                                             tool_choice=FORCED, stream=True):
        for choice in chunk.choices:
            for call in choice.delta.tool_calls or ():
                assert call.index == 0
                grown += call.function.arguments or ""
                if grown.strip():
                    seen.append(from_json(grown.encode(), allow_partial="trailing-strings"))
    assert Person.model_validate_json(grown) == Person(**MINA)
    assert all(MINA[key] == value for one in seen for key, value in list(one.items())[:-1]), "only the last one grows"
    if provider != "gemini":  # sends arguments whole
        assert {len(one) for one in seen} == {0, 1, 2, 3}, "one field after the other"
    asked = backend.asked(backend.server(provider).last)
    assert (asked.tools, asked.forced) == (["Person"], "Person")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_asking_again_after_an_answer_that_does_not_fit(clients: dict[str, Client], backends: dict[str, Backend],
                                                        provider: str) -> None:
    """instructor answers the wrong call with the validation error and forces the tool once more."""
    backend = backends[provider]
    backend.server(provider).script(backend.calls(("Person", {**MINA, "age": "old"})), backend.calls(("Person", MINA)))
    completions = openai_sdk(clients).chat.completions
    wish: dict[str, Any] = {"model": provider, "tools": [TOOL], "tool_choice": FORCED}
    message = completions.create(messages=ASKED, **wish).choices[0].message
    (call,) = message.tool_calls
    with pytest.raises(ValueError, match="age") as caught:
        Person.model_validate_json(call.function.arguments)
    again = [*ASKED, message.model_dump(exclude_none=True),
             {"role": "tool", "tool_call_id": call.id, "name": "Person",
              "content": f"Validation Error found:\n{caught.value}\nRecall the function correctly, fix the errors"}]
    (second,) = completions.create(messages=again, **wish).choices[0].message.tool_calls
    assert Person.model_validate_json(second.function.arguments) == Person(**MINA)
    assert second.id != call.id
    asked = backend.asked(backend.server(provider).last)
    ((tool, result),) = asked.results
    assert tool == "Person"
    assert "Validation Error found" in result


@pytest.mark.parametrize("provider", PROVIDERS)
def test_several_objects_by_parallel_calls(clients: dict[str, Client], backends: dict[str, Backend],
                                           provider: str) -> None:
    """`Iterable[Person]` in parallel mode: the choice is `auto` or `required`, each call is one object."""
    backend = backends[provider]
    backend.server(provider).script(backend.calls(("Person", MINA), ("Person", {**MINA, "name": "Ole"})))
    completion = openai_sdk(clients).chat.completions.create(model=provider, messages=ASKED, tools=[TOOL],
                                                             tool_choice="required")
    people = [Person.model_validate_json(call.function.arguments)
              for call in completion.choices[0].message.tool_calls]
    assert [person.name for person in people] == ["Mina Größe", "Ole"]


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_strict_schema_as_the_ai_sdk_sends_it(clients: dict[str, Client], backends: dict[str, Backend],
                                                provider: str, streamed: bool) -> None:
    """`streamObject` and `generateObject`: the text grows into the object."""
    backend = backends[provider]
    backend.server(provider).script(backend.text(json.dumps(MINA, ensure_ascii=False)))
    schema = {**Person.model_json_schema(), "additionalProperties": False,
              "$schema": "http://json-schema.org/draft-07/schema#"}
    asked: dict[str, Any] = {"model": provider, "messages": ASKED, "response_format": {
        "type": "json_schema", "json_schema": {"schema": schema, "strict": True, "name": "response"}}}
    completions = openai_sdk(clients).chat.completions
    if streamed:
        content = "".join(choice.delta.content or "" for chunk in completions.create(**asked, stream=True)
                          for choice in chunk.choices)
    else:
        content = completions.create(**asked).choices[0].message.content
    assert Person.model_validate_json(content) == Person(**MINA)
    assert set(backend.asked(backend.server(provider).last).schema["properties"]) == {"name", "age", "towns"}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_json_mode(clients: dict[str, Client], backends: dict[str, Backend], provider: str) -> None:
    """`response_format: json_object` reaches a provider that has it; another one is told in words."""
    backend = backends[provider]
    server = backend.server(provider)
    server.script(backend.text(json.dumps(MINA)))
    completion = openai_sdk(clients).chat.completions.create(
        model=provider, response_format={"type": "json_object"},
        messages=[{"role": "system", "content": "Answer in JSON."}, *ASKED])
    assert json.loads(completion.choices[0].message.content) == MINA
    if provider == "openai":
        assert server.last.body["response_format"] == {"type": "json_object"}
    elif provider == "gemini":
        assert server.last.config["responseMimeType"] == "application/json"
    else:
        assert "JSON object" in backend.asked(server.last).system.removeprefix("Answer in JSON.")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_forced_tool_with_the_anthropic_sdk(clients: dict[str, Client], backends: dict[str, Backend],
                                              provider: str) -> None:
    """instructor's mode for Anthropic: `input_json` events with the object so far."""
    client = clients["anthropic"]
    assert isinstance(client, AnthropicClient)
    backend = backends[provider]
    backend.server(provider).script(backend.calls(("Person", MINA)))
    tool: Any = {"name": "Person", "description": "A person", "input_schema": Person.model_json_schema()}
    with client.sdk.messages.stream(model=provider, max_tokens=1000, messages=ASKED, tools=[tool],
                                    tool_choice={"type": "tool", "name": "Person"}) as stream:
        snapshots: list[Any] = [event.snapshot for event in stream if event.type == "input_json"]
        message = stream.get_final_message()
    assert snapshots[-1] == MINA
    (block,) = message.content
    assert block.type == "tool_use"
    assert (block.name, block.input, message.stop_reason) == ("Person", MINA, "tool_use")
