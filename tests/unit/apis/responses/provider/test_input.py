"""Conversations as input items: turns, calls and their outputs, media."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.apis.responses.provider.helpers import PARAMETERS, said, sent, talk

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TOOLS = [{"name": name, "input_schema": PARAMETERS} for name in ("weather", "now")]


def use(call_id: str, name: str = "weather", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_a_turn_keeps_its_order_and_its_outputs_follow() -> None:
    got = sent(said("anthropic", "hi", assistant(text("First."), use("a", town="Ulm"), text("Then."), use("b", "now")),
                    user(result("b", "noon"), result("a", "sunny"), text("Thanks.")), tools=TOOLS))
    assert [(item["type"], item.get("call_id"), item.get("content") or item.get("output") or item.get("arguments"))
            for item in got["input"]] == [
        ("message", None, "hi"),
        ("message", None, [{"type": "output_text", "text": "First."}]),
        ("function_call", "a", '{"town": "Ulm"}'),
        ("message", None, [{"type": "output_text", "text": "Then."}]),
        ("function_call", "b", "{}"),
        ("function_call_output", "a", "sunny"),
        ("function_call_output", "b", "noon"),
        ("message", None, "Thanks."),
    ]


def test_the_phase_is_commentary_before_calls_and_else_the_final_answer() -> None:
    got = sent(said("anthropic", "hi", assistant(text("Looking."), use("a")), user(result("a")),
                    assistant(text("Done.")), "more", tools=TOOLS))
    assert [item["phase"] for item in got["input"] if item.get("role") == "assistant"] == ["commentary", "final_answer"]


def test_older_models_get_no_phase() -> None:
    got = sent(said("anthropic", "hi", assistant(text("Done.")), "more"), model="gpt-5.1", endpoint="responses")
    assert "phase" not in got["input"][1]


def test_system_messages_stand_where_they_stood() -> None:
    got = sent(said("openai", {"role": "system", "content": "First."}, {"role": "developer", "content": "Second."},
                    "hi", {"role": "system", "content": "Now in French."}, "go on"), "openai")
    assert got["instructions"] == "First.\n\nSecond."
    assert [(item["role"], item["content"]) for item in got["input"]] == [
        ("user", "hi"), ("developer", "Now in French."), ("user", "go on")]


def test_a_request_of_system_text_only_has_an_item() -> None:
    got = sent({"messages": [{"role": "system", "content": "Say hello."}]}, "openai")
    assert got["input"] == [{"type": "message", "role": "developer", "content": "Say hello."}]


def test_an_error_of_a_tool_is_said_in_words() -> None:
    got = sent(said("anthropic", "hi", assistant(use("a")), user(result("a", "no such town", is_error=True)),
                    tools=TOOLS))
    assert got["input"][-1]["output"] == "[tool error] no such town"


def test_r21_images_of_users_and_of_tools() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    got = sent(said("anthropic", user(text("What is this?"), image), assistant(use("a")),
                    user(result("a", [text("a picture"), image])), tools=TOOLS))
    part = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
    assert got["input"][0]["content"] == [{"type": "input_text", "text": "What is this?"}, part]
    assert got["input"][-1]["output"] == [{"type": "input_text", "text": "a picture"}, part]


@pytest.mark.parametrize(("source", "part"), [
    ({"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
     {"filename": "My_paper.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}),
    ({"type": "url", "url": "https://a.example/x.pdf"}, {"file_url": "https://a.example/x.pdf"})])
def test_documents(source: dict[str, Any], part: dict[str, Any]) -> None:
    document = {"type": "document", "source": source, "title": "My/paper"}
    assert sent(said("anthropic", user(document, text("Read."))))["input"][0]["content"][0] == {
        "type": "input_file", **part}


def test_r28_ids_that_come_twice_are_made_unique() -> None:
    got = sent(said("anthropic", "hi", assistant(use("a")), user(result("a", "1")), assistant(use("a")),
                    user(result("a", "2")), tools=TOOLS))
    ids = [item["call_id"] for item in got["input"] if item["type"] == "function_call"]
    assert len(set(ids)) == 2
    assert [item["output"] for item in got["input"] if item["type"] == "function_call_output"] == ["1", "2"]


def test_ids_of_other_providers_fit_into_64_characters() -> None:
    got = sent(said("anthropic", "hi", assistant(use("t" * 100)), user(result("t" * 100)), tools=TOOLS))
    assert len(got["input"][1]["call_id"]) <= 64
    assert got["input"][1]["call_id"] == got["input"][2]["call_id"]


def test_a_call_of_a_custom_tool_returns_as_free_text() -> None:
    call = {"id": "c1", "type": "custom", "custom": {"name": "patch", "input": 'say "hi"'}}
    got = sent(said("openai", "hi", {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "c1", "content": "done"},
                    tools=[{"type": "custom", "custom": {"name": "patch"}}]), "openai")
    assert got["input"][1:] == [
        {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": 'say "hi"'},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"}]


def test_cache_marks_are_named_as_ignored() -> None:
    translation = talk()
    sent(said("anthropic", user({**text("hi"), "cache_control": {"type": "ephemeral"}})), translation=translation)
    assert translation.dropped.hints == ["cache_control"]
