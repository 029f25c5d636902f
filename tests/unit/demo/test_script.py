"""The demo's script: which text or tool call follows a request."""

from __future__ import annotations

import json

import pytest

from extproc.demo.checks import check_request
from extproc.demo.script import ScriptOutput, run_script
from tests.unit.demo.requests import BASH, GLOB, READ, WEATHER, ask, call, tool


@pytest.mark.parametrize("text", ["hi", "Hello!", "Good morning, how are you?", "What is the meaning of life?"])
def test_small_talk_gets_a_text_without_a_tool(text: str) -> None:
    output = run_script(ask(text, BASH, READ, GLOB, WEATHER))
    assert output.tool is None
    assert text in output.text


def test_list_the_files_here_runs_ls() -> None:
    """People try this first with Claude Code."""
    expected = ScriptOutput(tool="Bash", arguments='{"command": "ls"}')
    assert run_script(ask("list the files here", GLOB, READ, BASH)) == expected


@pytest.mark.parametrize(("text", "name", "arguments"), [
    ("What's the weather in Paris?", "get_weather", {"location": "Paris"}),
    ("weather for New York please", "get_weather", {"location": "New York"}),
    ("read README.md", "Read", {"file_path": "README.md"}),
    ("run the command `git status`", "Bash", {"command": "git status"}),
    ("use a tool", "Bash", {"command": "pwd"}),
])
def test_a_suitable_tool_is_called_with_the_users_words(text: str, name: str, arguments: dict[str, str]) -> None:
    output = run_script(ask(text, BASH, READ, GLOB, WEATHER))
    assert (output.tool, json.loads(output.arguments)) == (name, arguments)


def test_notes_of_the_client_are_not_the_users_words() -> None:
    note = "<system-reminder>\nThe weather tool and Bash are there.\n</system-reminder>\nhello"
    assert run_script(ask(note, BASH, WEATHER)).tool is None


def test_the_tool_choice_is_obeyed() -> None:
    assert run_script(ask("weather in Rome", WEATHER, tool_choice="none")).tool is None
    assert run_script(ask("hello", READ, WEATHER, tool_choice="required")).tool == "Read"
    named = {"type": "function", "function": {"name": "get_weather"}}
    assert run_script(ask("hello", BASH, WEATHER, tool_choice=named)).tool == "get_weather"


def test_arguments_fit_any_schema() -> None:
    output = run_script(ask("make 3 things tool, blue", tool(
        "maker", "", count={"type": "integer", "minimum": 1}, color={"enum": ["red", "blue"]},
        deep={"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]},
        several={"type": "array", "items": {"type": "string"}, "minItems": 2}, fixed={"const": 7},
        maybe={"anyOf": [{"type": "null"}, {"type": "number"}]}, kinds={"type": ["null", "string"]},
        again={"$ref": "#/properties/deep"}, loop={"$ref": "#/properties/loop"}, free={})))
    arguments = json.loads(output.arguments)
    assert arguments["count"] == 3
    assert arguments["color"] == "blue"
    assert arguments["deep"] == arguments["again"] == {"on": False}
    assert len(arguments["several"]) == 2
    assert arguments["fixed"] == 7
    assert arguments["maybe"] == 1
    assert isinstance(arguments["kinds"], str)
    assert isinstance(arguments["loop"], str)


def test_the_text_after_results_quotes_them() -> None:
    request = ask("list the files here", BASH)
    request["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": [call("Bash"), call("Bash", call_id="c2")]},
        {"role": "tool", "tool_call_id": "c1", "content": "README.md"},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "LICENSE"}]},
        {"role": "user", "content": "<system-reminder>be brief</system-reminder>"}]
    check_request(request)
    output = run_script(request)
    assert output.tool is None
    assert output.text.index("README.md") < output.text.index("LICENSE")


def test_a_later_question_is_a_new_one() -> None:
    request = ask("list the files here", BASH)
    request["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": [call("Bash")]},
        {"role": "tool", "tool_call_id": "c1", "content": "README.md"},
        {"role": "assistant", "content": "There is a README.md."},
        {"role": "user", "content": "show the files again"}]
    assert run_script(request).tool == "Bash"


def test_structured_output_fits_its_schema() -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    output = run_script(ask("name this", response_format={"type": "json_schema", "json_schema": {"schema": schema}}))
    assert set(json.loads(output.text)) == {"title"}
