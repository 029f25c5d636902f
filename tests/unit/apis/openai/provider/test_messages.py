"""Messages: conversations in, Chat Completions messages out."""

from __future__ import annotations

import base64
import json

import pytest
from msgspec.structs import replace

from extproc.conversation.model import Media, Opaque, Text, Thinking, ToolResult
from extproc.conversation.past_arguments import arguments_text
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from tests.unit.apis.openai.provider.helpers import (
    GENERIC,
    assert_strictly_paired,
    assistant,
    call,
    encode,
    result,
    system,
    user,
)

PNG = Media("image", media_type="image/png", data="iVBORw0KGgo=")
PNG_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
PDF = Media("document", media_type="application/pdf", data="JVBERi0=", title="tide table")


def roles(body):
    return [message["role"] for message in body["messages"]]


def test_system_blocks_become_one_leading_message():
    body = encode(user("hi"), system=[Text("one"), Text(""), Text("two")])
    assert body["messages"] == [{"role": "system", "content": "one\n\ntwo"}, {"role": "user", "content": "hi"}]


def test_p23_system_before_the_first_turn_joins_the_leading_message():
    body = encode(system("b"), system("c"), user("hi"), system=[Text("a")])
    assert body["messages"][0] == {"role": "system", "content": "a\n\nb\n\nc"}
    assert roles(body) == ["system", "user"]


def test_p23_system_inside_the_conversation_is_sent_in_place():
    body = encode(user("hi"), system("environment"), assistant("yes"), user("go"))
    assert roles(body) == ["user", "system", "assistant", "user"]
    assert body["messages"][1]["content"] == "environment"


def test_p23_system_between_calls_and_results_moves_after_the_results():
    body = encode(user("hi"), assistant(call("a")), system("note"), user(result("a", "ok"), "next"))
    assert roles(body) == ["user", "assistant", "tool", "system", "user"]
    assert_strictly_paired(body["messages"])


def test_p23_where_system_must_be_first_later_ones_become_user_text():
    profile = replace(GENERIC, system_anywhere=False)
    body = encode(system("early"), user("hi"), system("late"), assistant("yes"), user("go"), profile=profile,
                  system=[Text("head")])
    assert body["messages"] == [
        {"role": "system", "content": "head\n\nearly"},
        {"role": "user", "content": "hi\n\n[system message]\nlate"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "go"},
    ]


def test_text_only_user_content_is_a_plain_string():
    assert encode(user("a", "", "b"))["messages"] == [{"role": "user", "content": "a\n\nb"}]


def test_images_are_data_urls_or_urls():
    url = Media("image", url="https://example.com/a.png", detail="low")
    assert encode(user("see", PNG, url))["messages"][0]["content"] == [
        {"type": "text", "text": "see"}, PNG_PART,
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}}]


@pytest.mark.parametrize(("data", "kind"), [("/9j/4AAQ", "jpeg"), ("R0lGODlh", "gif"), ("UklGRg", "webp")])
def test_an_image_without_a_type_is_recognised_by_its_first_bytes(data, kind):
    content = encode(user(Media("image", data=data)))["messages"][0]["content"]
    assert content[0]["image_url"]["url"] == f"data:image/{kind};base64,{data}"


def test_a_pdf_is_a_file_part_with_a_safe_file_name():
    content = encode(user(replace(PDF, title="tides/2026", context="spring")))["messages"][0]["content"]
    assert content == [{"type": "text", "text": "spring"},
                       {"type": "file", "file": {"filename": "tides_2026.pdf",
                                                 "file_data": "data:application/pdf;base64,JVBERi0="}}]


def test_text_documents_are_text_with_title_and_context():
    plain = Media("document", media_type="text/plain", text="high at noon", title="tides", context="Brest")
    coded = Media("document", media_type="text/csv", data=base64.b64encode(b"a;b").decode())
    assert encode(user(plain, coded))["messages"][0]["content"] == "Document: tides\n\nBrest\n\nhigh at noon\n\na;b"


@pytest.mark.parametrize(("media", "loss"), [
    (Media("document", url="https://example.com/t.pdf"), "messages.document.url"),
    (Media("document", file_id="file_1", title="tides"), "messages.document.file_id"),
    (Media("image", media_type="image/tiff", data="SUkq"), "messages.image"),
    (Media("image", file_id="file_2"), "messages.image.file_id"),
    (Media("audio", media_type="audio/wav", data="UklG"), "messages.audio"),
])
def test_rule_4_media_that_cannot_be_carried_are_named_to_the_model_and_in_dropped(media, loss):
    dropped = Dropped()
    content = encode(user(media), dropped=dropped)["messages"][0]["content"]
    assert content.startswith(f"[{media.kind}")
    assert content.endswith("not available to this model]")
    assert (media.url or media.file_id or media.media_type) in content
    assert dropped.losses == [loss]


def test_rule_4_a_foreign_block_is_sent_as_its_text_or_named():
    dropped = Dropped()
    blocks = [Opaque("anthropic", "search_result", b"{}", text="found it"), Opaque("anthropic", "container", b"{}")]
    assert encode(user(*blocks), dropped=dropped)["messages"][0]["content"] == "found it"
    assert dropped.losses == ["messages.container"]


# ------------------------------------------------------------------------------------------------------------ thinking


def test_p11_past_thinking_is_not_sent_and_an_empty_turn_is_removed():
    body = encode(user("hi"), assistant(Thinking("hmm", "sig")), user("so?"),
                  assistant(Thinking("", redacted="xx"), "yes"), user("go"))
    assert body["messages"] == [{"role": "user", "content": "hi"}, {"role": "user", "content": "so?"},
                                {"role": "assistant", "content": "yes"}, {"role": "user", "content": "go"}]


def test_p10_thinking_goes_back_with_tool_calls_where_the_profile_says_so():
    profile = replace(GENERIC, reasoning_history="with_tool_calls", reasoning_placeholder=" ")
    body = encode(user("hi"), assistant(Thinking("why", "sig"), call("a")), user(result("a", "ok")),
                  assistant(call("b")), user(result("b", "ok")), assistant(Thinking("done"), "yes"), user("go"),
                  profile=profile)
    sent = [message.get("reasoning_content") for message in body["messages"] if message["role"] == "assistant"]
    assert sent == ["why", " ", None]
    assert "sig" not in json.dumps(body)


def test_p10_thinking_goes_back_always_in_the_field_of_the_profile():
    profile = replace(GENERIC, reasoning_history="always", reasoning_field="reasoning")
    body = encode(user("hi"), assistant(Thinking("why"), "yes"), user("go"), profile=profile)
    assert body["messages"][1] == {"role": "assistant", "content": "yes", "reasoning": "why"}


# --------------------------------------------------------------------------------------------------------------- tools


def test_past_calls_have_null_or_empty_content_by_profile():
    turns = (user("hi"), assistant(call("a", arguments="")), user(result("a", "ok")))
    expected = {"role": "assistant", "content": None, "tool_calls": [
        {"type": "function", "id": "a", "function": {"name": "read", "arguments": "{}"}}]}
    assert encode(*turns)["messages"][1] == expected
    assert encode(*turns, profile=replace(GENERIC, empty_content="empty"))["messages"][1] == {**expected, "content": ""}


@pytest.mark.parametrize(("arguments", "sent"), [
    ('{"a": 1}', '{"a": 1}'), ("", "{}"), ("  ", "{}"), ("null", "{}"), ("[1]", '{"arguments":[1]}'),
    ('"{\\"a\\":1}"', '{"a":1}'), ('"x"', '{"arguments":"x"}'), ('{"a": "cut', '{"INVALID_JSON":"{\\"a\\": \\"cut"}'),
    ('{"a": NaN}', '{"INVALID_JSON":"{\\"a\\": NaN}"}'),
])
def test_p24_past_arguments_are_always_a_json_object(arguments, sent):
    assert arguments_text(arguments) == sent
    assert isinstance(json.loads(sent), dict)


def test_p21_images_follow_all_tool_messages_and_the_users_text_follows_them():
    body = encode(user("hi"), assistant(call("a", "shoot"), call("b", "read")),
                  user(result("a", "taken", PNG), result("b", PDF), "what is it?"))
    assert roles(body) == ["user", "assistant", "tool", "tool", "user"]
    first, second, last = body["messages"][2:]
    assert first == {"role": "tool", "tool_call_id": "a", "content": "taken\n[image attached in the next user message]"}
    assert second["content"] == "[document attached in the next user message]"
    assert last["content"][:2] == [{"type": "text", "text": "Attached to the result of shoot (a):"}, PNG_PART]
    assert last["content"][2] == {"type": "text", "text": "Attached to the result of read (b):"}
    assert last["content"][3]["type"] == "file"
    assert last["content"][4] == {"type": "text", "text": "what is it?"}


def test_p21_an_error_stays_visible_and_an_empty_result_has_a_placeholder():
    body = encode(user("hi"), assistant(call("a"), call("b"), call("c"), call("d")),
                  user(result("a", "no such file", is_error=True), result("b"), result("c", "", ""),
                       result("d", is_error=True)))
    assert [message["content"] for message in body["messages"][2:]] == [
        "[tool error] no such file", "(no output)", "(no output)", "[tool error] (no output)"]


def test_p21_media_of_a_result_without_a_part_become_a_note_in_the_result():
    dropped = Dropped()
    body = encode(user("hi"), assistant(call("a")),
                  user(result("a", PNG, Media("document", text="plain"))), dropped=dropped,
                  profile=replace(GENERIC, images=False))
    assert body["messages"][2:] == [{"role": "tool", "tool_call_id": "a",
                                     "content": "[image (image/png): not available to this model]\nplain"}]
    assert dropped.losses == ["messages.image"]


def test_a_server_that_refuses_user_after_tool_gets_an_assistant_message_between():
    profile = replace(GENERIC, bridge_after_tools="Noted.")
    body = encode(user("hi"), assistant(call("a")), user(result("a", "ok"), "next"), profile=profile)
    assert roles(body) == ["user", "assistant", "tool", "assistant", "user"]
    assert body["messages"][3]["content"] == "Noted."


@pytest.mark.parametrize("mark", ["prefix", "partial"])
def test_a_last_assistant_message_is_marked_as_prefill_by_profile(mark):
    turns = (user("hi"), assistant("The answer is"))
    assert encode(*turns, profile=replace(GENERIC, prefill=mark))["messages"][-1][mark] is True
    assert encode(*turns)["messages"][-1] == {"role": "assistant", "content": "The answer is"}


# ----------------------------------------------------------------------------------------------------------------- ids


def test_p22_an_illegal_id_becomes_the_same_hash_in_call_and_result():
    long = "toolu_" + "a" * 60
    body = encode(user("hi"), assistant(call(long), call("fine-1")), user(result("fine-1", "2"), result(long, "1")))
    ids = [entry["id"] for entry in body["messages"][1]["tool_calls"]]
    assert ids[1] == "fine-1"
    assert ids[0].startswith("call_")
    assert len(ids[0]) == len("call_") + 24
    assert [(m["tool_call_id"], m["content"]) for m in body["messages"][2:]] == [(ids[0], "1"), (ids[1], "2")]


def test_p22_ids_of_nine_alphanumerics_and_ids_by_function_and_count():
    turns = (user("hi"), assistant(call("toolu_01"), call("abcdefgh9")), user(result("toolu_01"), result("abcdefgh9")))
    nine = replace(GENERIC, tool_call_id_pattern="[a-zA-Z0-9]{9}", tool_call_id_max=9, tool_call_id_form="nine")
    ids = [entry["id"] for entry in encode(*turns, profile=nine)["messages"][1]["tool_calls"]]
    assert ids[0].isalnum()
    assert len(ids[0]) == 9
    assert ids[1] == "abcdefgh9"
    kimi = replace(GENERIC, tool_call_id_form="functions")
    body = encode(*turns, profile=kimi)
    assert [entry["id"] for entry in body["messages"][1]["tool_calls"]] == ["functions.read:0", "functions.read:1"]
    assert_strictly_paired(body["messages"])


# ------------------------------------------------------------------------------------------------------------- pairing


def test_p9_results_of_several_messages_are_put_in_call_order():
    dropped = Dropped()
    body = encode(user("hi"), assistant(call("a"), call("b"), call("c")), user("wait", result("c", "3")),
                  user(result("a", "1"), "more"), dropped=dropped)
    assert [message["content"] for message in body["messages"]] == [
        "hi", None, "1", "[tool error] no result was returned for this call", "3", "wait", "more"]
    assert dropped.hints == ["tool_result.missing", "tool_result.moved"]
    assert_strictly_paired(body["messages"])


def test_a_final_call_without_a_result_gets_one():
    body = encode(user("hi"), assistant(call("a")))
    assert body["messages"][-1] == {"role": "tool", "tool_call_id": "a",
                                    "content": "[tool error] no result was returned for this call"}


def test_a_result_without_a_call_is_refused_by_name():
    with pytest.raises(BadRequest, match=r"'lost-1', 'lost-2'.*Send the assistant message") as refused:
        encode(user("hi"), assistant(call("a")), user(result("a"), result("lost-1"), result("lost-2")))
    assert refused.value.failure.status == 400
    assert refused.value.failure.kind == "invalid_request"


def test_a_repeated_result_is_sent_once_and_two_different_ones_are_joined():
    dropped = Dropped()
    body = encode(user("hi"), assistant(call("a"), call("b")),
                  user(result("a", "1"), result("a", "1"), result("b", "interrupted", is_error=True), result("b", "2")),
                  dropped=dropped)
    assert [message["content"] for message in body["messages"][2:]] == ["1", "[tool error] interrupted\n2"]
    assert dropped.hints == ["tool_result.joined", "tool_result.repeated"]


def test_rule_5_a_repeated_id_becomes_unique_and_results_belong_to_the_nearest_call():
    body = encode(user("hi"), assistant(call("call_0", "first")), user("no result came"),
                  assistant(call("call_0", "second")), user(result("call_0", "two")),
                  assistant(call("call_0", "third"), call("call_0", "fourth")),
                  user(result("call_0", "three"), result("call_0", "four")))
    assert_strictly_paired(body["messages"])
    assert body["messages"][1]["tool_calls"][0]["id"] == "call_0"
    results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
    assert results == ["[tool error] no result was returned for this call", "two", "three", "four"]


def test_p17_later_turns_do_not_change_the_bytes_of_earlier_ones():
    turns = [user("hi"), assistant(call("call_0")), user(result("call_0", "1")), assistant(call("call_0")),
             user(result("call_0", "2", PNG), "go")]
    short = encode(*turns[:3])["messages"]
    assert encode(*turns)["messages"][: len(short)] == short


def test_consecutive_assistant_messages_are_one_turn():
    body = encode(user("hi"), assistant("let me", call("a")), assistant(call("b")), user(result("a"), result("b")))
    assert roles(body) == ["user", "assistant", "tool", "tool"]


def test_a_tool_call_of_the_user_is_refused():
    with pytest.raises(BadRequest, match="'a' stands in a user message"):
        encode(user(call("a")))


def test_an_empty_conversation_is_refused():
    with pytest.raises(BadRequest, match="nothing that can be sent"):
        encode(assistant(Thinking("hmm")))


def test_cache_marks_are_named_as_a_hint():
    dropped = Dropped()
    encode(user(Text("hi", cache=True)), assistant(call("a")), user(ToolResult("a", [], cache=True)), dropped=dropped)
    assert dropped == Dropped(hints=["cache_control"])
