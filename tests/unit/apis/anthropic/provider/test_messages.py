"""The rules of the Messages API for messages, one by one (dialects 9.7, P15, P22). `encode` checks all of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from extproc.apis.anthropic.provider.messages import OPENING
from extproc.conversation.model import Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from extproc.conversation.notes import CONTINUE, NO_OUTPUT
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from tests.unit.apis.anthropic.provider.helpers import assistant, call, encode, result, system, tool, user

TOOLS = [tool("read")]
PNG = Media("image", media_type="image/png", data="iVBOR1==")
PDF = Media("document", media_type="application/pdf", data="JVBE", title="Report", context="of May")
SIGNED = Thinking("hm", signature="c2ln")


def block_types(body: dict[str, Any]) -> list[tuple[str, list[str]]]:
    return [(message["role"], [block["type"] for block in message["content"]]) for message in body["messages"]]


def first_block(body: dict[str, Any]) -> Any:
    return body["messages"][0]["content"][0]


def test_consecutive_messages_of_a_role_are_one() -> None:
    body = encode(user("a"), user("b"), assistant("c"), assistant("d"), user("e"))
    assert block_types(body) == [("user", ["text", "text"]), ("assistant", ["text", "text"]), ("user", ["text"])]


def test_the_first_message_is_the_users() -> None:
    body = encode(assistant("Hello!"), user("hi"))
    assert first_block(body)["text"] == OPENING
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]


def test_results_open_the_next_user_message_in_call_order() -> None:
    body = encode(user("go"), assistant("ok", call("a"), call("b")), user(result("b", "2"), result("a", "1"), "and"),
                  tools=TOOLS)
    assert block_types(body)[1:] == [("assistant", ["text", "tool_use", "tool_use"]),
                               ("user", ["tool_result", "tool_result", "text"])]
    assert [block["content"] for block in body["messages"][2]["content"][:2]] == ["1", "2"]


def test_a_call_without_a_result_is_answered_by_an_error() -> None:
    dropped = Dropped()
    body = encode(user("go"), assistant(call("a")), user("never mind"), tools=TOOLS, dropped=dropped)
    assert body["messages"][2]["content"][0]["is_error"] is True
    assert dropped.hints == ["tool_result.missing"]


def test_p22_a_result_without_a_call_is_refused_by_its_id() -> None:
    with pytest.raises(BadRequest, match="'lost'"):
        encode(user("go"), user(result("lost", "1")), tools=TOOLS)


@pytest.mark.parametrize("call_id", ["functions.read:0", "call é", "x" * 100, "a.b"])
def test_p22_ids_of_other_alphabets_are_replaced_the_same_way_in_call_and_result(call_id: str) -> None:
    messages = (user("go"), assistant(call(call_id)), user(result(call_id, "1")))
    body = encode(*messages, tools=TOOLS)
    sent = body["messages"][1]["content"][0]["id"]
    assert body["messages"][2]["content"][0]["tool_use_id"] == sent != call_id
    assert encode(*messages, user("more"), tools=TOOLS)["messages"][1]["content"][0]["id"] == sent


def test_an_id_used_twice_becomes_unique() -> None:
    body = encode(user("go"), assistant(call("a")), user(result("a", "1")), assistant(call("a")),
                  user(result("a", "2")), tools=TOOLS)
    results = [block for message in body["messages"] for block in message["content"] if block["type"] == "tool_result"]
    assert [block["content"] for block in results] == ["1", "2"]
    assert len({block["tool_use_id"] for block in results}) == 2


def test_blank_text_is_left_out_everywhere() -> None:
    body = encode(user("", " \n", "hi"), assistant("", call("a")), user(result("a", " ")), assistant(" "), user("x"),
                  system=[Text(" ")], tools=TOOLS)
    assert block_types(body) == [("user", ["text"]), ("assistant", ["tool_use"]), ("user", ["tool_result", "text"])]
    assert "content" not in body["messages"][2]["content"][0]
    assert "system" not in body


def test_an_error_without_text_gets_one() -> None:
    body = encode(user("go"), assistant(call("a")), user(result("a", is_error=True)), tools=TOOLS)
    assert body["messages"][2]["content"][0] == {"type": "tool_result", "tool_use_id": "a", "content": NO_OUTPUT,
                                                 "is_error": True}


def test_arguments_keep_their_bytes_and_are_always_an_object() -> None:
    def sent(arguments: str) -> Any:
        body = encode(user("go"), assistant(ToolCall("a", "read", arguments)), user(result("a", "1")), tools=TOOLS)
        return body["messages"][1]["content"][0]["input"]
    assert [sent(text) for text in ("", "null", "[1]", "{broken")] == [
        {}, {}, {"arguments": [1]}, {"INVALID_JSON": "{broken"}]
    assert list(sent('{"b": 1.0, "a": 2}')) == ["b", "a"]


def test_illegal_names_are_mapped_in_history_and_choice() -> None:
    long = "mcp__" + "x" * 150
    body = encode(user("go"), assistant(call("a", long)), user(result("a", "1")), tools=[tool(long), tool("a.b")])
    assert body["messages"][1]["content"][0]["name"] == body["tools"][0]["name"]
    assert len(body["tools"][0]["name"]) == 128
    assert encode(tools=[tool("y" * 128)])["tools"][0]["name"] == "y" * 128


# ------------------------------------------------------------------------------------------------------ system messages


def test_system_text_at_the_head_is_the_system_prompt() -> None:
    body = encode(system("one"), system("two"), user("hi"), system=[Text("zero")])
    assert [block["text"] for block in body["system"]] == ["zero", "one", "two"]
    assert block_types(body) == [("user", ["text"])]


def test_later_system_text_becomes_user_text_for_older_models() -> None:
    body = encode(user("hi"), assistant("yes"), system("be brief"), user("go"))
    assert [block["text"] for block in body["messages"][2]["content"]] == ["go", "[system message]\nbe brief"]


def test_p23_newer_models_get_system_messages_after_user_messages() -> None:
    body = encode(user("hi"), system("be brief"), assistant("yes"), system("later"), user("go"),
                  model="claude-opus-4-8")
    assert [message["role"] for message in body["messages"]] == ["user", "system", "assistant", "user", "system"]
    assert encode(user("hi"), system("x"), assistant(" "), user("go"), model="claude-opus-4-8")["messages"][1] == {
        "role": "system", "content": [{"type": "text", "text": "x"}]}


def test_a_request_of_system_text_alone_is_answered() -> None:
    dropped = Dropped()
    body = encode(system("Write a haiku."), dropped=dropped)
    assert block_types(body) == [("user", ["text"])]
    assert "system" not in body
    assert dropped.hints == ["messages.system"]


def test_an_empty_conversation_is_refused() -> None:
    with pytest.raises(BadRequest, match="add a user message"):
        encode(user(" "))


# ------------------------------------------------------------------------------------------------------------- prefill


def test_a_prefill_loses_trailing_white_space() -> None:
    body = encode(user("name?"), assistant("My name is \n"))
    assert body["messages"][-1] == {"role": "assistant", "content": [{"type": "text", "text": "My name is"}]}


@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-5-5", "claude-next-9"])
def test_newer_models_are_asked_to_continue(model: str) -> None:
    dropped = Dropped()
    body = encode(user("name?"), assistant("My name is "), model=model, dropped=dropped)
    assert body["messages"][-1]["content"] == [{"type": "text", "text": CONTINUE}]
    assert dropped.losses == ["messages.prefill"]


def test_a_prefill_loses_its_thinking() -> None:
    body = encode(user("name?"), assistant(SIGNED, "My name"))
    assert block_types(body)[-1] == ("assistant", ["text"])


# --------------------------------------------------------------------------------------------------------------- media


@pytest.mark.parametrize(("media", "source"), [
    (PNG, {"type": "base64", "media_type": "image/png", "data": "iVBOR1=="}),
    (Media("image", data="/9j/1234"), {"type": "base64", "media_type": "image/jpeg", "data": "/9j/1234"}),
    (Media("image", url="https://x/a.png"), {"type": "url", "url": "https://x/a.png"}),
    (Media("image", url="data:image/webp;base64,UklGR1=="),
     {"type": "base64", "media_type": "image/webp", "data": "UklGR1=="}),
    (Media("document", url="https://x/a.pdf"), {"type": "url", "url": "https://x/a.pdf"}),
    (Media("image", file_id="file_011"), {"type": "file", "file_id": "file_011"}),
])
def test_images_and_documents_keep_their_source(media: Media, source: dict[str, str]) -> None:
    assert first_block(encode(user(media)))["source"] == source


def test_documents_keep_title_and_context() -> None:
    assert first_block(encode(user(PDF))) == {
        "type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
        "title": "Report", "context": "of May"}
    text = first_block(encode(user(Media("document", media_type="text/markdown", data="IyBIaQ==", title="T"))))
    assert text == {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "# Hi"},
                    "title": "T"}


@pytest.mark.parametrize("media", [
    Media("audio", media_type="audio/wav", data="AAAA"), Media("video", url="https://x/v.mp4"),
    Media("image", media_type="image/tiff", data="AAAA"), Media("image", url="http://x/a.png"),
    Media("document", file_id="file-openai"),
])
def test_rule_4_media_that_cannot_be_sent_become_a_note_and_are_named(media: Media) -> None:
    dropped = Dropped()
    body = encode(user("see", media), dropped=dropped)
    assert "not available to this model" in body["messages"][0]["content"][1]["text"]
    assert dropped.losses[0].startswith(f"messages.{media.kind}")


def test_p9_media_stay_inside_results() -> None:
    body = encode(user("go"), assistant(call("a")), user(result("a", "here", PNG, PDF)), tools=TOOLS)
    assert [part["type"] for part in body["messages"][2]["content"][0]["content"]] == ["text", "image", "document"]


def test_assistant_turns_hold_no_media() -> None:
    dropped = Dropped()
    body = encode(user("draw"), Message("assistant", [PNG]), user("nice"), dropped=dropped)
    assert body["messages"][1]["content"][0]["type"] == "text"
    assert dropped.losses == ["messages.image"]


# ------------------------------------------------------------------------------------------------------ foreign blocks


def test_blocks_of_anthropics_servers_go_back_unchanged() -> None:
    raw = b'{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"tide"}}'
    message = Message("assistant", [Opaque("anthropic", "server_tool_use", raw, "Web search: tide"), Text("low")])
    body = encode(user("tide?"), message, user("ok"))
    assert body["messages"][1]["content"][0]["id"] == "srvtoolu_1"
    other = encode(user("tide?"), message, user("ok"), model="glm-5", settings={"endpoint": "api.z.ai"}, checked=False)
    assert other["messages"][1]["content"][0]["text"] == "Web search: tide"


def test_blocks_of_other_apis_are_named() -> None:
    dropped = Dropped()
    encode(user("a"), Message("assistant", [Opaque("openai", "custom_thing", b"{}"), Text("b")]), user("c"),
           dropped=dropped)
    assert dropped.losses == ["messages.custom_thing"]


# ---------------------------------------------------------------------------------------------------------- cache marks


def test_p17_cache_marks_are_kept() -> None:
    body = encode(Message("user", [Text("long", cache=True)]), Message("assistant", [ToolCall("a", "read", "{}")]),
                  Message("user", [ToolResult("a", [Text("x", cache=True)])]), tools=TOOLS,
                  system=[Text("rules", cache=True)])
    assert body["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert first_block(body)["cache_control"] == {"type": "ephemeral"}
    assert body["messages"][2]["content"][0]["cache_control"] == {"type": "ephemeral"}


def test_p17_cache_marks_keep_their_lifetime() -> None:
    """A mark inside a result applies to the whole result, with the longest lifetime."""
    body = encode(Message("user", [Text("long", cache="1h")]), Message("assistant", [ToolCall("a", "read", "{}")]),
                  Message("user", [ToolResult("a", [Text("x", cache="5m")], cache=True)]),
                  tools=[msgspec.structs.replace(TOOLS[0], cache="1h")], system=[Text("rules", cache="1h")])
    for_long = {"type": "ephemeral", "ttl": "1h"}
    assert [body[place][0]["cache_control"] for place in ("tools", "system")] == [for_long, for_long]
    assert [block.get("cache_control") for message in body["messages"] for block in message["content"]] == [
        for_long, None, {"type": "ephemeral", "ttl": "5m"}]


def test_p17_no_mark_outlives_one_before_it() -> None:
    """Tools come first on the wire, whatever the client's order: Anthropic refuses a long lifetime after a short
    one."""
    dropped = Dropped()
    body = encode(Message("user", [Text("long", cache="1h")]), system=[Text("rules", cache="1h")],
                  tools=[msgspec.structs.replace(TOOLS[0], cache=True)], dropped=dropped)
    assert [block["cache_control"] for block in (*body["tools"], *body["system"], first_block(body))] == \
        [{"type": "ephemeral"}] * 3
    assert dropped.hints == ["cache_control.ttl"]


def test_p17_of_more_than_four_marks_the_longest_prefixes_win() -> None:
    dropped = Dropped()
    texts = [Text(str(number), cache=True) for number in range(5)]
    body = encode(Message("user", [*texts]), system=[Text("a", cache=True), Text("b", cache=True)], dropped=dropped)
    assert ["cache_control" in block for block in body["system"]] == [False, True]
    assert ["cache_control" in block for block in body["messages"][0]["content"]] == [False, False, True, True, True]
    assert dropped.hints == ["cache_control"]
