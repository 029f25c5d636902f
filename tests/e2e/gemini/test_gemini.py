"""Gemini behind the real Envoy, the official anthropic SDK before it: turns with tools, thinking, images, signatures.

The provider refuses what Google refuses, and checks that each signature comes back on its own call, byte for byte.
"""

from __future__ import annotations

import re
from typing import Any

import anthropic
import pytest

from tests.e2e.gateway import CLIENT_KEY, Gateway
from tests.e2e.gemini.talk import (
    BYPASS,
    IMAGE,
    PNG,
    PRO,
    QUESTION,
    THINKING,
    TOOLS,
    Conversation,
    calls_of,
    outputs,
    said,
    thought,
)
from tests.e2e.wire import payload, post, stream
from tests.providers.gemini import KEY, TOKEN, VERTEX_BASE, GeminiProvider, calls, partial_call, parts, text

LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]+")


# ------------------------------------------------------------------------------------------------- the whole cycle
@pytest.mark.parametrize("streamed", [True, False])
def test_three_turns_with_parallel_calls_thinking_and_an_image(client: anthropic.Anthropic, gemini: GeminiProvider,
                                                               streamed: bool) -> None:
    gemini.script(
        calls(("weather", {"town": "Ulm"}), ("weather", {"town": "Jena", "days": 2}), content="Looking.",
              thoughts="Two towns."),
        calls(("now", {}), thoughts="And the time."),
        text("Sunny in both, at noon.", thoughts="Done.", signature="empty"))
    talk = Conversation(client, "three", streamed, thinking=THINKING)
    first = talk.turn("18 degrees", [{"type": "text", "text": "See:"}, IMAGE])
    assert (thought(first), said(first)) == ("Two towns.", "Looking.")
    assert [(block.name, block.input) for block in calls_of(first)] == [
        ("weather", {"town": "Ulm"}), ("weather", {"town": "Jena", "days": 2})]
    assert all(LEGAL_ID.fullmatch(block.id) for block in calls_of(first))
    second = talk.turn({})
    assert [(block.name, block.input) for block in calls_of(second)] == [("now", {})]
    last = talk.turn()
    assert [block.type for block in last.content] == ["thinking", "text"], "nothing after the text"
    assert (thought(last), said(last)) == ("Done.", "Sunny in both, at noon.")
    assert last.usage.input_tokens + (last.usage.cache_read_input_tokens or 0) == 21
    assert last.usage.output_tokens == 7 + 5

    asked, answered, third = gemini.seen
    assert all(seen.streamed == streamed and seen.sse == streamed for seen in gemini.seen)
    assert asked.thoughts
    assert answered.roles() == ["user", "model", "user"]
    results = answered.held("functionResponse")
    assert [output.partition("\n")[0] for output in outputs(results)] == ["18 degrees", "See:"]
    (image,) = results[1]["parts"]
    assert image["inlineData"] == {"mimeType": "image/png", "data": PNG} | {
        key: value for key, value in image["inlineData"].items() if key == "displayName"}
    assert third.roles() == ["user", "model", "user", "model", "user"]
    assert outputs(third.held("functionResponse"))[2], "an empty result needs words"
    assert third.signatures() == list(gemini.issued[PRO])[-3:-1], "one for each step; none of the text's is needed"
    assert answered.contents == third.contents[:3], "what was said does not change from turn to turn"


def test_same_conversation_same_bytes(client: anthropic.Anthropic, gemini: GeminiProvider) -> None:
    gemini.script(calls(("weather", {"town": "Ulm"})), text("done"), text("done"))
    talk = Conversation(client, "three", thinking=THINKING)
    talk.turn("18 degrees")
    talk.turn()
    talk.messages.pop()
    talk.turn()
    assert gemini.seen[1].raw == gemini.seen[2].raw


def test_long_conversations_keep_every_signature(client: anthropic.Anthropic, gemini: GeminiProvider) -> None:
    """Eight steps in one turn of the user: all lengths of signatures, each on its own step."""
    gemini.script(*[calls(("now", {"n": n}), ("now", {"n": -n}), together=n % 2 == 0) for n in range(8)], text("done"))
    before = len(gemini.issued.get(PRO, ()))
    talk = Conversation(client, "three")
    for _ in range(8):
        talk.turn("1", "2")
    talk.turn()
    assert gemini.last.signatures() == list(gemini.issued[PRO])[before:before + 8]
    assert max(map(len, gemini.last.signatures())) > 3000


def test_ids_of_the_provider(client: anthropic.Anthropic, gemini: GeminiProvider) -> None:
    gemini.script(calls(("now", {}), ("now", {"z": 1}), ids=["c1", "c2"]), calls(("now", {}), ids=["c1"]), text("done"))
    talk = Conversation(client, "three")
    ids = [block.id for block in (*calls_of(talk.turn("1", "2")), *calls_of(talk.turn("3")))]
    assert len(set(ids)) == 3, "a repeated id becomes a new one"
    talk.turn()
    assert outputs(gemini.last.held("functionResponse")) == ["1", "2", "3"]


@pytest.mark.parametrize("split", [1, 7])
def test_cut_at_any_byte(client: anthropic.Anthropic, gemini: GeminiProvider, split: int) -> None:
    how: Any = {"split": split, "usage_every": True, "newline": "\n" if split == 1 else "\r\n"}
    gemini.script(calls(("weather", {"town": "Köln 🎭"}), content="Grüß dich 🎈", thoughts="Äh", together=False, **how))
    message = Conversation(client, "three", thinking=THINKING).turn("18 degrees")
    assert (thought(message), said(message)) == ("Äh", "Grüß dich 🎈")
    assert calls_of(message)[0].input == {"town": "Köln 🎭"}


def test_a_stream_as_json_array(client: anthropic.Anthropic, gemini: GeminiProvider) -> None:
    """Some proxies lose `alt=sse`."""
    wanted = calls(("now", {"a": [1]}), content="So.")

    def answer(seen: Any) -> Any:
        seen.sse = False
        return wanted(seen)

    gemini.script(answer)
    message = Conversation(client, "three").turn("1")
    assert said(message) == "So."
    assert calls_of(message)[0].input == {"a": [1]}


# ------------------------------------------------------------------------------------------------ P8 and P9 as a client
def test_p8_an_id_that_a_client_damaged(client: anthropic.Anthropic, gemini: GeminiProvider) -> None:
    gemini.script(calls(("now", {})), text("done"))
    talk = Conversation(client, "three")
    talk.turn("1")
    for block in talk.messages[1]["content"] + talk.messages[2]["content"]:
        for key in ("id", "tool_use_id"):
            if key in block:
                block[key] = block[key][:40]
    talk.turn()
    assert gemini.last.signatures() == [BYPASS]


def test_p8_a_client_that_keeps_id_name_and_input_only(client: anthropic.Anthropic, gemini: GeminiProvider) -> None:
    """Claude Code without thinking blocks, in a session that was resumed."""
    gemini.script(calls(("now", {}), ("weather", {"town": "Ulm"}), thoughts="Hm.", content="So."), text("done"))
    talk = Conversation(client, "three", thinking=THINKING)
    used = calls_of(talk.turn("1", "2"))
    talk.messages[1]["content"] = [{"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
                                   for block in used]
    talk.turn()
    assert gemini.last.signatures() == [list(gemini.issued[PRO])[-1]]


def test_p8_history_of_another_model(client: anthropic.Anthropic, gemini: GeminiProvider) -> None:
    """Calls that never had a signature; and those of 2.5, which 3 would refuse."""
    gemini.script(calls(("now", {})), text("done"))
    talk = Conversation(client, "flash")
    talk.turn("1")
    own: Any = {"type": "tool_use", "id": "toolu_01A", "name": "now", "input": {}}
    talk.messages += [{"role": "assistant", "content": [own]}, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "toolu_01A", "content": "2"}]}]
    talk.fields["model"] = "three"
    talk.turn()
    assert set(gemini.last.signatures()) == {BYPASS}


def test_p9_results_in_any_order_missing_and_with_text(gateway: Gateway, gemini: GeminiProvider) -> None:
    gemini.script(text("done"))
    used = [{"type": "tool_use", "id": f"toolu_{n}", "name": "now", "input": {"n": n}} for n in range(3)]
    results = [{"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": str(n)} for n in (2, 0)]
    answer = post(gateway.base_url, payload("three", tools=TOOLS, messages=[
        QUESTION, {"role": "assistant", "content": used},
        {"role": "user", "content": [results[0], {"type": "text", "text": "wait"}]},
        {"role": "user", "content": [results[1], {"type": "text", "text": "go on"}]}]))
    assert answer.status == 200, answer.body
    contents = gemini.last.contents
    assert gemini.last.roles() == ["user", "model", "user", "user"]
    found = [part["functionResponse"] for part in contents[2]["parts"]]
    assert outputs(found) == ["0", None, "2"]
    assert outputs(found, "error")[1], "the missing one is an error"
    assert [part["text"] for part in contents[3]["parts"]] == ["wait", "go on"]


@pytest.mark.parametrize("model", ["flash", "two", "vertex", "vertex-two"])
def test_images_in_results_of_models_that_take_none(client: anthropic.Anthropic, gemini: GeminiProvider,
                                                    model: str) -> None:
    gemini.script(calls(("now", {})), text("done"))
    talk = Conversation(client, model)
    talk.turn([IMAGE])
    talk.turn()
    inside = [part for response in gemini.last.held("functionResponse") for part in response.get("parts", ())]
    beside = gemini.last.held("inlineData")
    assert (len(inside), len(beside)) == ((1, 0) if model == "vertex" else (0, 1))


# ------------------------------------------------------------------------------------------------------------ requests
def test_errors_of_tools(client: anthropic.Anthropic, gemini: GeminiProvider) -> None:
    gemini.script(calls(("now", {})), text("done"))
    talk = Conversation(client, "three")
    talk.turn({"content": "no clock", "is_error": True})
    talk.turn()
    assert outputs(gemini.last.held("functionResponse"), "error") == ["no clock"]


@pytest.mark.parametrize(("choice", "expected"), [
    ({"type": "auto"}, {"mode": "AUTO"}), ({"type": "any"}, {"mode": "ANY"}), ({"type": "none"}, {"mode": "NONE"}),
    ({"type": "tool", "name": "now"}, {"mode": "ANY", "allowedFunctionNames": ["now"]}),
])
def test_tool_choice(gateway: Gateway, gemini: GeminiProvider, choice: Any, expected: Any) -> None:
    gemini.script(text("ok"))
    answer = post(gateway.base_url, payload("three", tools=TOOLS, tool_choice=choice))
    assert answer.status == 200, answer.body
    config = (gemini.last.body.get("toolConfig") or {}).get("functionCallingConfig", {"mode": "AUTO"})
    assert config == expected
    assert len(gemini.last.body["tools"][0]["functionDeclarations"]) == 2


@pytest.mark.parametrize("model", ["three", "flash", "two", "vertex", "vertex-two"])
def test_a_request_with_everything(gateway: Gateway, gemini: GeminiProvider, model: str) -> None:
    gemini.script(text("ok"))
    schema = {"$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}}, "type": "object",
              "properties": {"type": {"enum": ["a", 1, None]}, "n": {"$ref": "#/$defs/n"}, "l": {"type": "array"},
                             "u": {"type": "string", "format": "uri", "const": "x"}, "any": {}, "o": {"type": "object"},
                             "c": {"oneOf": [{"type": "string"}, {"type": "null"}], "description": "either"}},
              "required": ["type", "absent"], "additionalProperties": {"type": "string"}}
    answer = post(gateway.base_url, payload(
        model, max_tokens=100_000, temperature=1, top_p=0.9, top_k=400, stop_sequences=["END"],
        system=[{"type": "text", "text": "Be good.", "cache_control": {"type": "ephemeral"}}],
        metadata={"user_id": "u"}, thinking={"type": "disabled"},
        tools=[*TOOLS, {"name": "odd", "input_schema": schema}, {"name": "a" * 90, "input_schema": {"type": "object"}}],
        tool_choice={"type": "auto", "disable_parallel_tool_use": True},
        messages=[{"role": "user", "content": [
            {"type": "text", "text": "See"}, IMAGE,
            {"type": "image", "source": {"type": "url", "url": "https://example.com/a.jpg"}},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}}]}]))
    assert answer.status == 200, answer.body
    sent = gemini.last.body
    assert "Be good." in sent["systemInstruction"]["parts"][0]["text"]
    assert sent["generationConfig"]["stopSequences"] == ["END"]
    declared = sent["tools"][0]["functionDeclarations"][2]
    properties = (declared.get("parametersJsonSchema") or declared["parameters"])["properties"]
    assert list(properties) == ["type", "n", "l", "u", "any", "o", "c"]
    assert "parallel_tool_calls" in answer.headers["x-extproc-dropped"]


@pytest.mark.parametrize("model", ["three", "flash"])
@pytest.mark.parametrize("thinking", [THINKING, {"type": "adaptive"}, {"type": "disabled"}, None])
def test_thinking_by_generation(gateway: Gateway, gemini: GeminiProvider, model: str, thinking: Any) -> None:
    gemini.script(text("ok", thoughts="hm"))
    asked = payload(model, max_tokens=4096, **({"thinking": thinking} if thinking else {}))
    kinds = [block["type"] for block in post(gateway.base_url, asked).json()["content"]]
    wanted = thinking is not None and thinking["type"] != "disabled"
    assert kinds == (["thinking", "text"] if wanted else ["text"])


def test_names_that_google_would_refuse(client: anthropic.Anthropic, gemini: GeminiProvider) -> None:
    prefix = "mcp__server__" + "x" * 64
    names = [f"{prefix}_one", f"{prefix}_two", "1st", "plain"]
    gemini.always(lambda seen: (calls(*[(tool["name"], {}) for tool in seen.body["tools"][0]["functionDeclarations"]])
                                if len(seen.contents) == 1 else text("done"))(seen))
    talk = Conversation(client, "three", tools=[{"name": name, "input_schema": {"type": "object"}} for name in names])
    assert [block.name for block in calls_of(talk.turn("1", "2", "3", "4"))] == names
    talk.turn()
    declared = [tool["name"] for tool in gemini.last.body["tools"][0]["functionDeclarations"]]
    assert [call["name"] for call in gemini.last.held("functionCall")] == declared
    assert declared[3] == "plain"


def test_a_model_without_functions_is_asked_in_words(client: anthropic.Anthropic, gemini: GeminiProvider) -> None:
    """Gemma 3 behind this API has neither functions nor a system instruction."""
    gemini.script(text("Hello."))
    assert said(Conversation(client, "gemma", system="Be good.").turn()) == "Hello."
    sent = gemini.last.contents[0]["parts"][0]["text"]
    assert sent.startswith("Be good.")
    assert "weather" in sent


def test_the_web_search_of_claude_code(gateway: Gateway, gemini: GeminiProvider) -> None:
    found = {"web": {"uri": "https://example.com/a", "title": "A page"}}
    gemini.script(text("Found it.", candidate={"groundingMetadata": {"groundingChunks": [found]}}))
    answer = post(gateway.base_url, payload("three", tools=[{"type": "web_search_20250305", "name": "web_search"}]))
    assert answer.status == 200, answer.body
    assert gemini.last.body["tools"] == [{"googleSearch": {}}]
    words = "".join(block["text"] for block in answer.json()["content"])
    assert words.startswith("Found it.")
    assert "https://example.com/a" in words


def test_keys_and_headers(gateway: Gateway, gemini: GeminiProvider) -> None:
    """AI Studio's key in its own header, Vertex's token as bearer; nothing of the client's (the provider looks)."""
    gemini.always(text("ok"))
    headers = {"x-api-key": CLIENT_KEY, "anthropic-version": "2023-06-01", "content-type": "application/json",
               "cookie": "a=b", "x-goog-api-key": "mine"}
    for model in ("three", "vertex"):
        answer = post(gateway.base_url, payload(model), headers=headers)
        assert answer.status == 200, answer.body
        assert not {KEY, TOKEN} & set(answer.headers.values())
    studio, vertex = gemini.seen
    assert studio.path == f"/v1beta/models/{PRO}:generateContent"
    assert vertex.path == f"{VERTEX_BASE}/models/{PRO}:generateContent"
    assert (studio.headers["x-goog-api-key"], vertex.headers["authorization"]) == (KEY, f"Bearer {TOKEN}")


# -------------------------------------------------------------------------------------------------------------- Vertex
@pytest.mark.parametrize("streamed", [True, False])
def test_vertex_over_three_turns(client: anthropic.Anthropic, gemini: GeminiProvider, streamed: bool) -> None:
    gemini.script(calls(("weather", {"town": "Ulm"}), ("now", {}), thoughts="Hm."), calls(("now", {})), text("done"))
    talk = Conversation(client, "vertex", streamed, thinking=THINKING)
    talk.turn("18 degrees", [IMAGE])
    talk.turn("noon")
    assert said(talk.turn()) == "done"
    assert all("id" not in call for call in gemini.last.held("functionCall"))


def test_vertex_arguments_in_pieces(client: anthropic.Anthropic, gemini: GeminiProvider) -> None:
    whole = {"town": "Ulm am Rhein", "days": 2, "at": {"list": ["a", True, None]}}
    pieces: list[Any] = [
        {"jsonPath": "$.town", "stringValue": "Ulm ", "willContinue": True},
        {"jsonPath": "$.town", "stringValue": "am Rhein"}, {"jsonPath": "$.days", "numberValue": 2},
        {"jsonPath": "$.at.list[0]", "stringValue": "a"}, {"jsonPath": "$.at.list[1]", "boolValue": True},
        {"jsonPath": "$.at.list[2]", "nullValue": "NULL_VALUE"}]
    gemini.script(parts([*partial_call("weather", whole, pieces), [{"functionCall": {"name": "now"}}]]), text("done"))
    talk = Conversation(client, "vertex")
    first, second = calls_of(talk.turn("1", "2"))
    assert (first.name, first.input) == ("weather", whole)
    assert (second.name, second.input) == ("now", {})
    talk.turn()


def test_the_same_model_behind_another_door_has_other_signatures(client: anthropic.Anthropic,
                                                                gemini: GeminiProvider) -> None:
    """What AI Studio signed is not sent to Vertex."""
    gemini.script(calls(("now", {})), text("done"))
    talk = Conversation(client, "three")
    talk.turn("1")
    talk.fields["model"] = "vertex"
    talk.turn()
    assert gemini.last.signatures() == [BYPASS]


def test_a_stream_obeys_the_grammar(gateway: Gateway, gemini: GeminiProvider) -> None:
    gemini.script(calls(("now", {}), ("weather", {"town": "Ulm"}), content="So.", thoughts="Hm.", finish_alone=True))
    with stream(gateway.base_url, payload("three", tools=TOOLS, thinking=THINKING, max_tokens=4096)) as answer:
        events = answer.read()
    kinds = [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"]
    assert kinds == ["thinking", "text", "tool_use", "tool_use"]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
