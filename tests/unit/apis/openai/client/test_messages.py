"""Messages of chat clients in every role and with every part, and the blocks they become."""

from __future__ import annotations

from typing import Any

import pytest

from extproc.apis.openai.client import API
from extproc.bounds import Limits
from extproc.conversation.model import Media, Opaque, Signature, Text, Thinking, ToolCall, ToolResult
from extproc.conversation.signatures import embed_in_id, origin_of
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from tests.unit.apis.openai.client.helpers import USER, blocks, calls, decode, results, with_calls


def refusal(*messages: dict[str, Any], **fields: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        decode(*messages, **fields)
    return str(caught.value)


# --------------------------------------------------------------------------------------------------------------- roles


def test_leading_system_messages_are_the_prompt_and_later_ones_keep_their_position() -> None:
    marked = {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}
    request = decode({"role": "system", "content": "a"}, {"role": "developer", "content": [marked]}, USER,
                     {"role": "system", "content": "c"})
    assert request.system == [Text("a"), Text("b", cache=True)]
    assert blocks(request) == [("user", [Text("hi")]), ("system", [Text("c")])]


def test_a_text_of_null_is_none() -> None:
    assert blocks(decode(USER, {"role": "assistant", "content": [{"type": "text", "text": None}]}))[1][1] == []


def test_null_empty_and_plain_string_contents() -> None:
    request = decode(USER, {"role": "assistant", "content": None}, {"role": "assistant", "content": ""},
                     {"role": "user", "content": ["a", {"type": "text", "text": ""}, {"type": "text", "text": "b"}]})
    assert blocks(request) == [("user", [Text("hi")]), ("assistant", []), ("assistant", []),
                               ("user", [Text("a"), Text("b")])]


def test_think_tags_in_the_history_stay_text() -> None:
    request = decode(USER, {"role": "assistant", "content": "<think>a</think>b"})
    assert blocks(request)[1] == ("assistant", [Text("<think>a</think>b")])


def test_a_past_refusal_is_assistant_text() -> None:
    request = decode(USER, {"role": "assistant", "content": None, "refusal": "no"}, USER,
                     {"role": "assistant", "content": [{"type": "refusal", "refusal": "never"}], "refusal": None})
    assert [content for role, content in blocks(request) if role == "assistant"] == [[Text("no")], [Text("never")]]


@pytest.mark.parametrize(("content", "kept"), [
    ("Sure, first", ["Sure, first", "no"]), ("no", ["no"]), ("", ["no"]),
    ([{"type": "text", "text": "Sure"}, {"type": "refusal", "refusal": "no"}], ["Sure", "no"])])
def test_a_refusal_beside_content_follows_it_once(content: object, kept: list[str]) -> None:
    request = decode(USER, {"role": "assistant", "content": content, "refusal": "no"}, USER)
    assert blocks(request)[1] == ("assistant", [Text(text) for text in kept])


def test_audio_of_messages_is_a_loss_and_echoed_nulls_are_not() -> None:
    dropped = Dropped()
    decode(USER, {"role": "assistant", "audio": {"id": "a1"}},
           {"role": "assistant", "content": "x", "audio": None, "function_call": None, "annotations": [],
            "tool_calls": None, "name": None}, dropped=dropped)
    assert dropped.losses == ["messages.audio"]
    assert dropped.hints == []


def named(role: str, name: str | None, content: Any = "hi") -> dict[str, Any]:
    return {"role": role, "content": content, "name": name}


def test_the_name_of_a_single_speaker_is_dropped() -> None:
    dropped = Dropped()
    request = decode(named("system", "rules"), named("user", "ann"), named("assistant", "bot"), named("user", None),
                     dropped=dropped)
    assert blocks(request) == [("user", [Text("hi")]), ("assistant", [Text("hi")]), ("user", [Text("hi")])]
    assert (dropped.losses, dropped.hints) == ([], ["messages.name"])


def test_names_of_several_speakers_go_into_the_text() -> None:
    dropped = Dropped()
    image = {"type": "image_url", "image_url": {"url": "https://x/a.png"}}
    request = decode(named("system", "example_user", "2+2?"), named("system", "example_assistant", "4"),
                     named("user", "ann"), named("user", "bob", [image]), named("user", None), dropped=dropped)
    assert request.system == [Text("example_user: 2+2?"), Text("example_assistant: 4")]
    assert blocks(request) == [("user", [Text("ann: hi")]), ("user", [Text("bob:"), Media("image", url="https://x/a.png")]),
                               ("user", [Text("hi")])]
    assert (dropped.losses, dropped.hints) == ([], [])


def test_names_of_several_assistants_are_lost_and_named() -> None:
    dropped = Dropped()
    request = decode(USER, named("assistant", "planner"), named("assistant", "critic"), USER, dropped=dropped)
    assert [content for role, content in blocks(request) if role == "assistant"] == [[Text("hi")], [Text("hi")]]
    assert (dropped.losses, dropped.hints) == (["messages.name"], [])


@pytest.mark.parametrize(("message", "place"), [
    ({"role": "robot", "content": "x"}, "messages[0].role"),
    ({"content": "x"}, "messages[0].role"),
    ({"role": "user", "content": 5}, "messages[0].content"),
    ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0].text"),
    ({"role": "user", "content": [{"text": "x"}]}, "messages[0].content[0].type"),
    ({"role": "user", "content": [{"type": "image_url"}]}, "messages[0].content[0].image_url"),
    ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64"}}]},
     "messages[0].content[0].image_url.url"),
    ({"role": "user", "content": [{"type": "file", "file": {"filename": "x"}}]}, "messages[0].content[0].file"),
    ({"role": "user", "content": [{"type": "thinking", "thinking": "x"}]}, "messages[0].content[0]"),
    ({"role": "user", "content": "x", "tool_calls": [{}]}, "messages[0].tool_calls"),
    ({"role": "assistant", "tool_calls": [{"id": "a", "function": {}}]}, "messages[0].tool_calls[0].function.name"),
    ({"role": "assistant", "tool_calls": [{"id": "a", "type": "x"}]}, "messages[0].tool_calls[0].type"),
    ({"role": "function", "content": "x"}, "messages[0].name"),
])
def test_an_error_names_its_place(message: dict[str, Any], place: str) -> None:
    assert refusal(message).startswith(f"{place}: ")


def test_a_request_needs_messages() -> None:
    with pytest.raises(BadRequest, match=r"^messages: "):
        API.decode_request(b'{"model":"m","messages":[]}', {}, Dropped(), Limits())


# --------------------------------------------------------------------------------------------------------------- parts


@pytest.mark.parametrize(("part", "media"), [
    ({"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "high"}},
     Media("image", url="https://a/b.png", detail="high")),
    ({"type": "image_url", "image_url": "data:image/png;base64,AAAA"},
     Media("image", media_type="image/png", data="AAAA")),
    ({"type": "image_url", "image_url": {"url": "data:image/svg+xml,%3Csvg/%3E"}},
     Media("image", media_type="image/svg+xml", data="PHN2Zy8+")),
    ({"type": "image_url", "image_url": {"url": "data:application/pdf;base64,JVBE"}},
     Media("document", media_type="application/pdf", data="JVBE")),
    ({"type": "input_image", "image_url": "https://a/b.png", "detail": "low"},
     Media("image", url="https://a/b.png", detail="low")),
    ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
     Media("audio", media_type="audio/mpeg", data="AAAA")),
    ({"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBE", "filename": "a.pdf"}},
     Media("document", media_type="application/pdf", data="JVBE", title="a.pdf")),
    ({"type": "file", "file": {"file_data": "JVBE", "filename": "a.PDF"}},
     Media("document", media_type="application/pdf", data="JVBE", title="a.PDF")),
    ({"type": "file", "file": {"file_id": "file-1"}}, Media("document", file_id="file-1")),
    ({"type": "file", "file": {"file_data": "https://a/b.pdf", "filename": "b.pdf"}},
     Media("document", url="https://a/b.pdf", title="b.pdf")),
    ({"type": "video_url", "video_url": {"url": "https://a/b.mp4"}}, Media("video", url="https://a/b.mp4")),
    ({"type": "image_url", "image_url": {"url": "https://a/b.png"}, "cache_control": {"type": "ephemeral"}},
     Media("image", url="https://a/b.png", cache=True)),
])
def test_media_parts(part: dict[str, Any], media: Media) -> None:
    dropped = Dropped()
    assert blocks(decode({"role": "user", "content": [part]}, dropped=dropped)) == [("user", [media])]
    assert dropped == Dropped()


@pytest.mark.parametrize(("sent", "data"), [
    ("JVBE\r\nRi0x\n", "JVBERi0x"), ("-_8", "+/8="), ("YQ", "YQ=="), ("YQ==", "YQ=="), ("AAAA", "AAAA")])
def test_base64_gets_the_form_that_every_provider_takes(sent: str, data: str) -> None:
    parts = [{"type": "file", "file": {"file_data": sent, "filename": "a.pdf"}},
             {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{sent}"}},
             {"type": "input_audio", "input_audio": {"data": sent, "format": "wav"}}]
    ((_, media),) = blocks(decode({"role": "user", "content": parts}))
    assert [block.data for block in media if isinstance(block, Media)] == [data] * 3


def test_base64_in_place_of_a_url_is_an_image() -> None:
    part = {"type": "image_url", "image_url": {"url": "iVBORw0KGgo"}}
    ((_, media),) = blocks(decode({"role": "user", "content": [part]}))
    assert media == [Media("image", media_type="image/png", data="iVBORw0KGgo=")]


def test_an_unknown_part_keeps_its_bytes() -> None:
    (_, [block]), = blocks(decode({"role": "user", "content": [{"type": "hologram", "x": 1}]}))
    assert isinstance(block, Opaque)
    assert (block.api, block.type) == ("openai", "hologram")


def test_a_cache_mark_on_a_message_applies_to_its_last_block() -> None:
    mark = {"type": "ephemeral"}
    request = decode({"role": "user", "content": ["a", "b"], "cache_control": mark}, with_calls(("c", "f")),
                     {"role": "tool", "tool_call_id": "c", "content": "x", "cache_control": mark})
    assert blocks(request)[0][1] == [Text("a"), Text("b", cache=True)]
    assert results(request) == [ToolResult("c", [Text("x")], cache=True)]
    for_long = {"type": "ephemeral", "ttl": "1h"}
    marked = {"type": "text", "text": "b", "cache_control": mark}
    request = decode({"role": "user", "content": [marked], "cache_control": for_long}, with_calls(("c", "f")),
                     {"role": "tool", "tool_call_id": "c", "content": [marked], "cache_control": for_long})
    assert blocks(request)[0][1] == [Text("b", cache="1h")]
    assert results(request) == [ToolResult("c", [Text("b", cache=True)], cache="1h")]


# --------------------------------------------------------------------------------------------------- calls and results


def test_calls_of_functions_and_custom_tools() -> None:
    request = decode(USER, {"role": "assistant", "content": "now", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
        {"id": "b", "function": {"name": "g", "arguments": {"y": 2}}, "index": 1},
        {"id": "c", "type": "custom", "custom": {"name": "h", "input": 'say "x"'}},
        {"id": "d", "type": "function", "function": {"name": "i", "arguments": None}}]})
    assert blocks(request)[1][1] == [
        Text("now"), ToolCall("a", "f", '{"x": 1}'), ToolCall("b", "g", '{"y": 2}'),
        ToolCall("c", "h", '{"input":"say \\"x\\""}'), ToolCall("d", "i", "")]


def test_p9_results_of_one_turn_are_one_message_and_keep_text_and_images() -> None:
    dropped = Dropped()
    request = decode(USER, with_calls(("a", "f"), ("b", "g")), {"role": "tool", "tool_call_id": "b", "content": [
        {"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
        {"role": "tool", "tool_call_id": "a", "content": ""}, dropped=dropped)
    assert blocks(request)[2] == ("user", [
        ToolResult("b", [Text("x"), Media("image", media_type="image/png", data="AAAA")]), ToolResult("a", [])])
    assert dropped == Dropped()


def test_legacy_function_calls_and_their_results() -> None:
    dropped = Dropped()
    request = decode(USER, {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
                     {"role": "function", "name": "f", "content": "1"},
                     {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
                     {"role": "function", "name": "f", "content": "2"}, dropped=dropped)
    first, second = calls(request)
    assert first.id != second.id
    assert results(request) == [ToolResult(first.id, [Text("1")], name="f"), ToolResult(second.id, [Text("2")],
                                                                                       name="f")]
    assert dropped == Dropped()


@pytest.mark.parametrize("lost", [{}, {"tool_call_id": None}, {"tool_call_id": ""}, {"tool_call_id": "null"}])
def test_p22_results_without_an_id_are_matched_by_name(lost: dict[str, Any]) -> None:
    dropped = Dropped()
    request = decode(USER, with_calls(("a", "f"), ("b", "g")), {"role": "tool", "name": "g", "content": "2", **lost},
                     {"role": "tool", "name": "f", "content": "1", **lost}, dropped=dropped)
    assert [result.call_id for result in results(request)] == ["b", "a"]
    assert dropped.hints == ["tool_result.id"]


def test_p22_several_calls_of_one_name_are_matched_in_order() -> None:
    request = decode(USER, with_calls(("a", "f"), ("b", "f")), {"role": "tool", "name": "f", "content": "1"},
                     {"role": "tool", "name": "f", "content": "2"})
    assert [result.call_id for result in results(request)] == ["a", "b"]


def test_p22_results_without_id_and_name_are_matched_in_order_when_all_are_there() -> None:
    tool = {"role": "tool", "content": "x"}
    two = with_calls(("a", "f"), ("b", "g"))
    assert [result.call_id for result in results(decode(USER, two, tool, tool))] == ["a", "b"]
    assert refusal(USER, two, tool).startswith("messages[2].tool_call_id: ")
    assert refusal(USER, tool).startswith("messages[1].tool_call_id: ")


def test_p22_an_unknown_id_is_matched_by_name_or_with_the_only_open_call() -> None:
    by_name = decode(USER, with_calls(("call_1", "f"), ("call_2", "g")),
                     {"role": "tool", "tool_call_id": "toolu_9", "name": "g", "content": "x"},
                     {"role": "tool", "tool_call_id": "call_1", "content": "y"})
    assert [result.call_id for result in results(by_name)] == ["call_2", "call_1"]
    one = decode(USER, with_calls(("call_1", "f")), {"role": "tool", "tool_call_id": "toolu_9", "content": "x"})
    assert [result.call_id for result in results(one)] == ["call_1"]


def test_p22_several_unknown_ids_are_refused_by_name() -> None:
    request = decode(USER, with_calls(("a", "f"), ("b", "g")), {"role": "tool", "tool_call_id": "x", "content": "1"},
                     {"role": "tool", "tool_call_id": "y", "content": "2"})
    assert [result.call_id for result in results(request)] == ["x", "y"]


def test_p22_a_name_that_nobody_called_is_refused_by_name() -> None:
    assert "'g'" in refusal(USER, with_calls(("a", "f")), {"role": "tool", "name": "g", "content": "x"})


def test_p22_calls_without_ids_get_the_same_ones_in_every_request() -> None:
    history: list[dict[str, Any]] = [USER, with_calls((None, "f"), ("", "g")), {"role": "tool", "content": "1"},
                                     {"role": "tool", "content": "2"}]
    request, later = decode(*history), decode(*history, USER)
    assert len({call.id for call in calls(request)}) == 2
    assert [result.call_id for result in results(request)] == [call.id for call in calls(request)]
    assert [call.id for call in calls(later)] == [call.id for call in calls(request)]


def test_p8_a_signature_comes_back_from_the_id_of_a_call_and_of_its_result() -> None:
    signature = Signature("c2ln", origin_of("gemini"))
    loaded = embed_in_id("call_1", signature)
    request = decode(USER, with_calls((loaded, "f")), {"role": "tool", "tool_call_id": loaded, "content": "x"})
    assert calls(request) == [ToolCall("call_1", "f", "{}", signature=signature)]
    assert results(request)[0].call_id == "call_1"


def test_p8_a_signature_of_googles_endpoint_is_not_used_for_another_model() -> None:
    message = with_calls(("a", "f"))
    message["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "c2ln"}}
    dropped = Dropped()
    (call,) = calls(decode(USER, message, dropped=dropped))
    assert call.signature is None
    assert dropped.hints == ["tool_calls.extra_content"]


# ----------------------------------------------------------------------------------------------------------- reasoning


SIGNED = {"type": "reasoning.text", "text": "ab", "signature": "S", "format": "anthropic-claude-v1", "index": 0}
SECRET = {"type": "reasoning.encrypted", "data": "D", "format": "anthropic-claude-v1", "index": 1}


@pytest.mark.parametrize(("fields", "expected"), [
    ({"reasoning_content": "ab"}, [Thinking("ab")]),
    ({"reasoning": "ab"}, [Thinking("ab")]),
    ({"reasoning": {"content": "ab"}}, [Thinking("ab")]),
    ({"thinking": "ab"}, [Thinking("ab")]),
    ({"reasoning_content": "ab", "reasoning": "ab"}, [Thinking("ab")]),
    ({"reasoning_content": "", "reasoning_details": []}, []),
    ({"reasoning_details": [SIGNED, SECRET]}, [Thinking("ab", "S"), Thinking("", redacted="D")]),
    ({"reasoning": "ab", "reasoning_details": [SIGNED]}, [Thinking("ab", "S")]),
    ({"reasoning_content": "1ab2", "reasoning_details": [SIGNED]},
     [Thinking("1"), Thinking("ab", "S"), Thinking("2")]),
    ({"reasoning_content": "changed", "reasoning_details": [SIGNED]}, [Thinking("ab", "S")]),
    ({"reasoning_details": [{"type": "reasoning.text", "text": "a", "index": 0},
                            {"type": "reasoning.text", "text": "b", "index": 0},
                            {"type": "reasoning.text", "signature": "S", "index": 0},
                            {"type": "reasoning.text", "text": "c", "index": 1}]},
     [Thinking("ab", "S"), Thinking("c")]),
    ({"reasoning_details": [{"type": "reasoning.summary", "summary": "short"}]}, [Thinking("short")]),
    ({"reasoning_details": [{**SIGNED, "format": "openai-responses-v1"}]}, [Thinking("ab")]),
    ({"reasoning_details": [{**SECRET, "format": "openai-responses-v1"}], "reasoning": "ab"}, [Thinking("ab")]),
    ({"reasoning_details": [{**SIGNED, "signature": "xs1.abcd.sig", "format": "unknown"}]},
     [Thinking("ab", "xs1.abcd.sig")]),
    ({"thinking_blocks": [{"type": "thinking", "thinking": "ab", "signature": "S"},
                          {"type": "redacted_thinking", "data": "D"}], "reasoning_content": "ab"},
     [Thinking("ab", "S"), Thinking("", redacted="D")]),
])
def test_past_reasoning_in_every_spelling(fields: dict[str, Any], expected: list[Thinking]) -> None:
    request = decode(USER, {"role": "assistant", "content": "x", **fields})
    assert blocks(request)[1][1] == [*expected, Text("x")]


def test_thinking_inside_the_content_counts_once() -> None:
    request = decode(USER, {"role": "assistant", "reasoning_content": "ab", "content": [
        {"type": "thinking", "thinking": [{"type": "text", "text": "ab"}]}, {"type": "text", "text": "x"}]}, USER,
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "c", "signature": "S"},
                                          {"type": "redacted_thinking", "data": "D"}]})
    assert blocks(request)[1][1] == [Thinking("ab"), Text("x")]
    assert blocks(request)[3][1] == [Thinking("c", "S"), Thinking("", redacted="D")]


def test_signatures_of_unknown_issuers_are_named() -> None:
    dropped = Dropped()
    decode(USER, {"role": "assistant", "content": "x", "reasoning_details": [
        {**SIGNED, "format": "openai-responses-v1"}, {"type": "reasoning.server_tool_call"}, {"type": 5}, "?"]},
           dropped=dropped)
    assert dropped.hints == ["messages.reasoning_details.signature",
                             "messages.reasoning_details.reasoning.server_tool_call", "messages.reasoning_details"]
