"""P9: a model content with calls is followed by one content with exactly their responses, in call order."""

from __future__ import annotations

import json

import pytest

from extproc.conversation.model import Media, Request
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.translation.exchange import Translation
from tests.unit.apis.gemini.request.helpers import (
    FLASH_25,
    OLD,
    PDF,
    PNG,
    PRO_3,
    VERTEX,
    assistant,
    call,
    encode,
    responses,
    result,
    roles,
    sent,
    system,
    target,
    texts,
    user,
)

CALLS = [call("a", "read"), call("b", "write"), call("c", "list")]
IMAGE = Media("image", media_type="image/png", data=PNG)


def outputs(body, at=2):
    return [(one["name"], one["response"]) for one in responses(body["contents"][at])]


def test_p9_results_are_sent_in_call_order():
    body = encode(user("go"), assistant(*CALLS), user(result("c", "C"), result("a", "A"), result("b", "B")))
    assert roles(body) == ["user text", "model functionCall functionCall functionCall",
                           "user functionResponse functionResponse functionResponse"]
    assert outputs(body) == [("read", {"output": "A"}), ("write", {"output": "B"}), ("list", {"output": "C"})]
    assert [one["id"] for one in responses(body["contents"][2])] == ["a", "b", "c"]


def test_p9_results_in_two_user_messages_are_one_content():
    body = encode(user("go"), assistant(*CALLS), user(result("b", "B")), user(result("a", "A"), result("c", "C")))
    assert roles(body)[2:] == ["user functionResponse functionResponse functionResponse"]
    assert outputs(body) == [("read", {"output": "A"}), ("write", {"output": "B"}), ("list", {"output": "C"})]


def test_p9_a_missing_result_becomes_an_error_result():
    dropped = Dropped()
    body = encode(user("go"), assistant(*CALLS), user(result("c", "C"), result("a", "A")), dropped=dropped)
    assert outputs(body) == [("read", {"output": "A"}), ("write", {"error": "no result was returned for this call"}),
                             ("list", {"output": "C"})]
    assert dropped.hints == ["tool_result.missing"]


def test_p9_text_between_results_follows_all_of_them():
    body = encode(user("go"), assistant(*CALLS),
                  user("before", result("a", "A"), "between", result("b", "B")), user(result("c", "C"), "after"))
    assert roles(body)[2:] == ["user functionResponse functionResponse functionResponse", "user text text text"]
    assert texts(body["contents"][3]) == ["before", "between", "after"]


def test_p9_the_whole_case_through_an_anthropic_client():
    """Three calls; results out of order, in two messages, one missing, one a reference, with text between."""
    uses = [{"type": "tool_use", "id": f"t{n}", "name": name, "input": {}}
            for n, name in enumerate(("Read", "ToolSearch", "Bash"))]
    body = json.dumps({"model": "claude", "max_tokens": 4000, "messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": uses},
        {"role": "user", "content": [
            {"type": "text", "text": "wait"},
            {"type": "tool_result", "tool_use_id": "t1",
             "content": [{"type": "tool_reference", "tool_name": "Grep"}]}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t0", "is_error": True, "content": "gone"}]},
    ]}).encode()
    exchange = Translation(client="anthropic", upstream="gemini", model=PRO_3)
    sent_body = json.loads(exchange.request(body).body)
    assert roles(sent_body)[1:] == ["model functionCall functionCall functionCall",
                                    "user functionResponse functionResponse functionResponse", "user text"]
    assert outputs(sent_body) == [("Read", {"error": "gone"}), ("ToolSearch", {"output": "loaded tool: Grep"}),
                                  ("Bash", {"error": "no result was returned for this call"})]


def test_p9_calls_without_any_result_at_the_end_of_the_conversation():
    body = encode(user("go"), assistant("I look", *CALLS))
    assert roles(body) == ["user text", "model text functionCall functionCall functionCall",
                           "user functionResponse functionResponse functionResponse"]


def test_p9_a_result_without_a_call_is_refused_by_its_id():
    with pytest.raises(BadRequest, match="'zz'"):
        encode(user("go"), assistant(call("a")), user(result("a", "A"), result("zz", "Z")))


def test_p9_an_id_used_twice_belongs_to_both_calls():
    body = encode(user("go"), assistant(call("a")), user(result("a", "1")), assistant(call("a")),
                  user(result("a", "2")))
    first, second = responses(body["contents"][2])[0], responses(body["contents"][4])[0]
    assert (first["response"], second["response"]) == ({"output": "1"}, {"output": "2"})
    assert first["id"] != second["id"]


@pytest.mark.parametrize(("settings", "model"), [({}, FLASH_25), ({}, OLD), (VERTEX, PRO_3), (VERTEX, FLASH_25)])
def test_ids_are_omitted_on_both_sides_if_they_are_not_taken(settings, model):
    body = encode(user("go"), assistant(call("a")), user(result("a", "A")), model=model, settings=settings)
    assert "id" not in body["contents"][1]["parts"][0]["functionCall"]
    assert "id" not in responses(body["contents"][2])[0]


def test_an_id_that_is_too_long_or_odd_is_replaced_on_both_sides():
    for odd in ("x" * 200, "functions.read:0", "ü"):
        body = encode(user("go"), assistant(call(odd)), user(result(odd, "A")))
        new = body["contents"][1]["parts"][0]["functionCall"]["id"]
        assert new == responses(body["contents"][2])[0]["id"] != odd


@pytest.mark.parametrize("content", [[], [""]])
def test_an_empty_result_says_so(content):
    assert outputs(encode(user("go"), assistant(call("a")), user(result("a", *content)))) == [
        ("read", {"output": "(no output)"})]
    assert outputs(encode(user("go"), assistant(call("a")), user(result("a", *content, is_error=True)))) == [
        ("read", {"error": "(no output)"})]


def test_a_result_stays_a_string_whatever_json_it_holds():
    body = encode(user("go"), assistant(call("a")), user(result("a", '{"output": [1]}')))
    assert outputs(body) == [("read", {"output": '{"output": [1]}'})]


@pytest.mark.parametrize(("arguments", "args"), [("", {}), ("null", {}), ('{"a":{"b":[1]}}', {"a": {"b": [1]}}),
                                                 ("[1]", {"arguments": [1]}), ('{"a"', {"INVALID_JSON": '{"a"'})])
def test_arguments_are_always_an_object(arguments, args):
    body = encode(user("go"), assistant(call("a", arguments=arguments)), user(result("a", "A")))
    assert body["contents"][1]["parts"][0]["functionCall"]["args"] == args


def test_rule_6_arguments_keep_their_own_bytes():
    text = '{ "z" : 1.0, "a":12345678901234567890123 }'
    request = Request(model="m", messages=[user("go"), assistant(call("a", arguments=text)), user(result("a", "A"))])
    assert text.encode() in sent(request, target()).request.body


# --------------------------------------------------------------------------------------------------- media in results


def test_an_image_is_part_of_the_result_if_the_model_takes_it():
    body = encode(user("go"), assistant(call("a")), user(result("a", "look", IMAGE)))
    [response] = responses(body["contents"][2])
    assert response["response"] == {"output": "look\n[image attached]"}
    assert response["parts"] == [{"inlineData": {"mimeType": "image/png", "data": PNG}}]
    assert len(body["contents"]) == 3


def test_a_pdf_is_part_of_the_result_too():
    pdf = Media("document", media_type="application/pdf", data=PDF)
    [response] = responses(encode(user("go"), assistant(call("a")), user(result("a", pdf)))["contents"][2])
    assert response["response"] == {"output": "[document attached]"}
    assert response["parts"] == [{"inlineData": {"mimeType": "application/pdf", "data": PDF}}]


@pytest.mark.parametrize("model", [FLASH_25, OLD])
def test_older_models_get_the_image_in_the_user_content_after_all_responses(model):
    body = encode(user("go"), assistant(call("a"), call("b")),
                  user(result("a", "look", IMAGE), result("b", "B"), "and now?"), model=model)
    assert roles(body)[2:] == ["user functionResponse functionResponse", "user text inlineData text"]
    assert outputs(body)[0] == ("read", {"output": "look\n[image attached in the next user message]"})
    assert body["contents"][3]["parts"][0] == {"text": "Attached to the result of read:"}
    assert body["contents"][3]["parts"][2] == {"text": "and now?"}


@pytest.mark.parametrize("media", [
    Media("image", url="https://example.com/a.png"),
    Media("audio", media_type="audio/mp3", data="SUQz"),
    Media("image", media_type="image/heic", data="AAAA"),
])
def test_media_that_a_function_response_cannot_hold_follow_it(media):
    body = encode(user("go"), assistant(call("a")), user(result("a", media)))
    assert "parts" not in responses(body["contents"][2])[0]
    assert body["contents"][3]["parts"][0] == {"text": "Attached to the result of read (a):"}
    assert len(body["contents"][3]["parts"]) == 2


def test_media_that_cannot_be_carried_become_a_note_and_are_named():
    dropped = Dropped()
    gif = Media("image", media_type="image/gif", data="R0lGODlh")
    body = encode(user("go"), assistant(call("a")), user(result("a", gif)), dropped=dropped)
    assert outputs(body) == [("read", {"output": "[image (image/gif): not available to this model]"})]
    assert dropped.losses == ["messages.image"]


def test_a_system_message_between_call_and_result_follows_the_result():
    body = encode(user("go"), assistant(call("a")), system("be quick"), user(result("a", "A")))
    assert roles(body)[2:] == ["user functionResponse", "user text"]
    assert texts(body["contents"][3]) == ["[system message]\nbe quick"]
