"""Roles, system text, and the two ends of a conversation."""

from __future__ import annotations

import pytest

from extproc.apis.gemini.provider.contents import FIRST_USER_TEXT
from extproc.conversation.model import Media, Message, Opaque, Request, Text, Tool
from extproc.conversation.notes import CONTINUE
from extproc.conversation.tool_results import GO_ON
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from tests.unit.apis.gemini.request.helpers import (
    FLASH_25,
    GEMMA,
    LATEST,
    PRO_3,
    assistant,
    call,
    encode,
    result,
    roles,
    sent,
    system,
    target,
    texts,
    user,
)


def test_system_text_and_leading_system_messages_are_the_system_instruction():
    body = encode(system("second"), user("hi"), system=[Text("first", cache=True), Text("")])
    assert body["systemInstruction"] == {"parts": [{"text": "first\n\nsecond"}]}
    assert roles(body) == ["user text"]


def test_a_later_system_message_is_user_text():
    body = encode(user("hi"), assistant("yes"), system("now in French"), user("go"))
    assert texts(body["contents"][2]) == ["[system message]\nnow in French", "go"]
    assert "systemInstruction" not in body


def test_a_model_without_system_instruction_reads_it_in_front_of_the_first_user_turn():
    body = encode(user("hi"), model=GEMMA, system=[Text("be kind")])
    assert texts(body["contents"][0]) == ["be kind", "hi"]
    assert "systemInstruction" not in body


def test_system_text_alone_becomes_the_user_content():
    body = encode(system("say hi"))
    assert body["contents"] == [{"role": "user", "parts": [{"text": "say hi"}]}]
    assert "systemInstruction" not in body


def test_user_turns_in_a_row_are_one_content_and_keep_their_parts():
    assert texts(encode(user("a", "b"), user("c"))["contents"][0]) == ["a", "b", "c"]


def test_consecutive_assistant_turns_are_one_content():
    body = encode(user("hi"), assistant("a"), user(""), assistant("b", call("x")), user(result("x", "X")))
    assert roles(body) == ["user text", "model text text functionCall", "user functionResponse"]


def test_a_conversation_that_begins_with_the_assistant():
    body = encode(assistant("Hello!"), user("hi"))
    assert roles(body) == ["user text", "model text", "user text"]
    assert texts(body["contents"][0]) == [FIRST_USER_TEXT]


@pytest.mark.parametrize("model", [PRO_3, LATEST, "gemini-3.5-flash-lite"])
def test_a_prefill_becomes_a_request_to_continue_if_the_model_refuses_it(model):
    body = encode(user("write JSON"), assistant("{"), model=model)
    assert [texts(content) for content in body["contents"]] == [["write JSON"], ["{"], [CONTINUE]]


def test_a_prefill_stays_if_the_model_continues_it():
    body = encode(user("write JSON"), assistant("{"), model=FLASH_25)
    assert roles(body) == ["user text", "model text"]


@pytest.mark.parametrize("model", [PRO_3, FLASH_25])
@pytest.mark.parametrize("last", [user(result("x", "late")), user(""), system("")],
                         ids=["late result", "empty", "system"])
def test_an_empty_last_message_is_no_prefill(model, last):
    """The result stands with its call further up; the model must respond, not continue its last text."""
    body = encode(user("hi"), assistant(call("x")), user("quick"), assistant("I am on it"), last, model=model)
    assert roles(body)[3:] == ["user text", "model text", "user text"]
    assert texts(body["contents"][-1]) == [GO_ON]


def test_text_and_calls_of_a_turn_keep_their_order():
    body = encode(user("hi"), assistant("a", call("x"), "b", call("y"), "c"), user(result("y", "Y"), result("x", "X")))
    assert roles(body) == ["user text", "model text functionCall text functionCall text",
                           "user functionResponse functionResponse"]
    assert [part.get("text") for part in body["contents"][1]["parts"]] == ["a", None, "b", None, "c"]
    assert [part["functionResponse"]["id"] for part in body["contents"][2]["parts"]] == ["x", "y"]


@pytest.mark.parametrize("messages", [[user("")], [assistant("")], [Message("user", [])]])
def test_nothing_to_send_is_refused(messages):
    with pytest.raises(BadRequest, match="add a user message"):
        sent(Request(model="m", messages=messages), target())


def test_a_foreign_block_is_sent_as_text_or_named():
    dropped = Dropped()
    body = encode(user(Opaque("anthropic", "web_search_tool_result", b"{}", text="found it"),
                       Opaque("anthropic", "container_upload", b"{}"), "hi"), dropped=dropped)
    assert texts(body["contents"][0]) == ["found it", "hi"]
    assert dropped.losses == ["messages.container_upload"]


def test_media_of_the_assistant_become_a_note_and_are_named():
    dropped = Dropped()
    body = encode(user("draw"), assistant(Media("image", media_type="image/png", data="iVBORw0KGgo=")), user("more"),
                  dropped=dropped)
    assert texts(body["contents"][1]) == ["[image (image/png): not available to this model]"]
    assert dropped.losses == ["messages.image"]


def test_cache_marks_are_named_once():
    dropped = Dropped()
    encode(user(Text("a", cache=True)), assistant(Text("b", cache=True)), user("c"), system=[Text("s", cache=True)],
           tools=[Tool("read", None, {}, cache=True)], dropped=dropped)
    assert dropped.hints == ["cache_control"]
