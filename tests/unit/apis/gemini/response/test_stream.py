"""Text, thoughts, signatures, and contents that no client API has a place for: chunks in, events out."""

from __future__ import annotations

import msgspec
import pytest

from extproc.apis.gemini.provider import signatures
from extproc.conversation.model import Finish, OutputFormat, Signature, SignatureDelta, Start, ToolCallStart, Usage
from extproc.conversation.signatures import embed_in_text, extract_from_text
from tests.playbook import call_ids, context, script
from tests.unit.apis.gemini.response.conversation import call, chunk, decode, script_of, sse, text, thought

TIDE = ["call lookup_tide", 'args: {"harbor": "Brest"}', "stop"]


def test_text() -> None:
    assert script_of(chunk(text("Hel")), chunk(text("lo")), chunk(text(""), finish="STOP")) == [
        "start", "text", "text: Hello", "stop", "finish stop"]


def test_the_start_event_has_the_response_id_and_model() -> None:
    assert decode(sse(chunk(text("x"), finish="STOP")))[0] == Start("r1", "gemini-3-pro")


def test_thoughts_become_thinking() -> None:
    assert script_of(chunk(thought("**Plan**\n\n")), chunk(thought("think"), text("say")), chunk(finish="STOP")) == [
        "start", "think", "think: **Plan**\n\nthink", "stop", "text", "text: say", "stop", "finish stop"]


def test_a_call_between_thoughts_and_text() -> None:
    assert script_of(chunk(thought("hm")), chunk(call("lookup_tide", {"harbor": "Brest"}, "U0lH")), chunk(text("done")),
                chunk(finish="STOP")) == [
        "start", "think", "think: hm", "stop", *TIDE, "text", "text: done", "stop", "finish tool_calls"]


def test_nulls_and_unknown_fields_are_tolerated() -> None:
    assert script_of(
        {"candidates": None, "usageMetadata": None, "promptFeedback": None, "error": None, "newField": [1]},
        {"candidates": [None, {"content": None, "finishReason": None, "index": None, "newField": {}}]},
        {"candidates": [{"content": {"parts": None, "role": None}, "groundingMetadata": None}]},
        {"candidates": [{"content": {"parts": [None, {}, {"text": None}, {"functionCall": None}, {"thought": None}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "hi", "thought": None, "thoughtSignature": None,
                                                "inlineData": None, "partMetadata": {"a": 1}}]}}]},
        chunk(text(""), finish="STOP", safetyRatings=[{"category": "X"}], avgLogprobs=-0.1),
    ) == ["start", "text", "text: hi", "stop", "finish stop"]


@pytest.mark.parametrize("candidate", [
    {"content": "hi", "finishReason": "STOP"},
    {"content": {"parts": {"text": "hi"}}, "finishReason": "STOP"},
    {"content": {"parts": ["hi"]}, "finishReason": "STOP"},
    {"content": [{"text": "hi"}], "finishReason": "STOP"},
    {"content": {"parts": [{"text": "hi", "functionCall": "none"}]}, "finishReason": "STOP"},
    {"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP", "index": "0"},
])
def test_a_field_of_another_shape_does_not_lose_the_response(candidate: dict[str, object]) -> None:
    assert script_of({"candidates": [candidate]}) == ["start", "text", "text: hi", "stop", "finish stop"]
    assert script_of({"candidates": candidate}) == ["start", "text", "text: hi", "stop", "finish stop"]


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    half = r'{"candidates": [{"content": {"parts": [{"text": "a\ud83d"}]}, "finishReason": "STOP"}]}'
    assert script_of(half) == ["start", "text", "text: a�", "stop", "finish stop"]


# --------------------------------------------------------------------------------------------------------- signatures


def the_signature(value: str) -> Signature:
    return Signature(value, signatures.origin(context().target))


def test_p8_only_the_signed_one_of_parallel_calls_carries_the_signature() -> None:
    events = decode(sse(chunk(call("lookup_tide", {}, "U0lH"), call("ping", {}))) + sse(chunk(finish="STOP")))
    assert [e.signature for e in events if isinstance(e, ToolCallStart)] == [the_signature("U0lH"), None]


def test_p8_any_signature_stays_byte_for_byte() -> None:
    for value in ("A" * 40_000, "not/base64 at all!", "YWI=", "ü"):
        events = decode(sse(chunk(call("ping", {}, value), finish="STOP")))
        assert [e.signature for e in events if isinstance(e, ToolCallStart)] == [the_signature(value)]


def test_p8_the_signature_of_a_text_is_embedded_in_the_thinking_block_before_it() -> None:
    events = decode(sse(chunk(thought("hm")), chunk({**text("so", "QUJD"), "thought": False}), chunk(finish="STOP")))
    assert script(events) == ["start", "think", "think: hm", f"signature {embed_in_text(the_signature('QUJD'))}",
                              "stop",
                              "text", "text: so", "stop", "finish stop"]
    [delta] = [e for e in events if isinstance(e, SignatureDelta)]
    assert extract_from_text(delta.signature) == the_signature("QUJD")


def test_p8_the_signature_of_a_thought_closes_its_block() -> None:
    signature = Signature("QUJD", signatures.origin(context().target, thought=True))
    assert script_of(chunk(thought("hm", "QUJD")), chunk(text("so"), finish="STOP")) == [
        "start", "think", "think: hm", f"signature {embed_in_text(signature)}", "stop",
        "text", "text: so", "stop", "finish stop"]


@pytest.mark.parametrize("chunks", [
    pytest.param([chunk(text("so")), chunk(text("", "QUJD"), finish="STOP")], id="empty final part"),
    pytest.param([chunk(text("so", "QUJD"), finish="STOP")], id="text without thoughts"),
    pytest.param([chunk(text("so")), chunk({"thoughtSignature": "QUJD"}, finish="STOP")], id="part of a signature"),
])
def test_p8_a_signature_without_an_open_block_is_named_and_adds_no_block(chunks: list[object]) -> None:
    ctx = context()
    assert script_of(*chunks, ctx=ctx) == ["start", "text", "text: so", "stop", "finish stop"]
    assert ctx.dropped.hints == ["response.thoughtSignature"]


# ----------------------------------------------------------------------------------------------- other kinds of parts


def test_code_that_the_provider_ran_is_fenced_text() -> None:
    assert script_of(chunk(text("Let me see.")),
                chunk({"executableCode": {"language": "PYTHON", "code": "print('```')"}}),
                chunk({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "```\n"}}),
                chunk(text("Done.")), chunk(finish="STOP")) == [
        "start", "text", "text: Let me see.\n\n````python\nprint('```')\n````\n"
        "\n````output\n```\n````\nDone.", "stop", "finish stop"]


def test_code_that_failed_says_so() -> None:
    lines = script_of(chunk({"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "Boom"}},
                       {"codeExecutionResult": {"outcome": "OUTCOME_DEADLINE_EXCEEDED"}}), chunk(finish="STOP"))
    assert lines[2] == "text: The code failed:\n```output\nBoom\n```\n\nThe code ran out of time.\n"


def test_images_in_the_response_become_a_note() -> None:
    ctx = context()
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    assert script_of(chunk(text("Look:")), chunk(image, image), chunk(finish="STOP"), ctx=ctx) == [
        "start", "text", "text: Look:\n\n[image (image/png): cannot be shown by this API]\n"
        "\n[image (image/png): cannot be shown by this API]\n", "stop", "finish stop"]
    assert ctx.dropped.losses == ["response.image"]


def test_audio_in_many_pieces_becomes_one_note_and_files_show_their_address() -> None:
    ctx = context()
    sound = chunk({"inlineData": {"mimeType": "audio/L16;rate=24000", "data": "AAAA"}})
    file = chunk({"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v.mp4"}})
    assert script_of(sound, sound, sound, file, chunk(finish="STOP"), ctx=ctx)[2] == (
        "text: [audio (audio/L16;rate=24000): cannot be shown by this API]\n"
        "\n[video (video/mp4) at gs://b/v.mp4: cannot be shown by this API]\n")
    assert ctx.dropped.losses == ["response.audio", "response.video"]


def test_an_image_in_a_thought_is_only_named() -> None:
    ctx = context()
    draft = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thought": True}
    assert script_of(chunk(draft), chunk(text("x"), finish="STOP"), ctx=ctx) == [
        "start", "text", "text: x", "stop", "finish stop"]
    assert ctx.dropped.losses == ["response.image"]


@pytest.mark.parametrize("name", ["toolCall", "toolResponse", "functionResponse", "hologram"])
def test_parts_that_cannot_be_carried_are_named(name: str) -> None:
    ctx = context()
    assert script_of(chunk({name: {"id": "1", "toolType": "GOOGLE_SEARCH_WEB"}}), chunk(text("x"), finish="STOP"),
                ctx=ctx) == ["start", "text", "text: x", "stop", "finish stop"]
    assert ctx.dropped.losses == [f"response.{name}"]


def test_only_the_first_candidate_counts() -> None:
    ctx = context()
    chunks = [{"candidates": [{"index": 0, "content": {"parts": [text("a")]}},
                              {"index": 1, "content": {"parts": [text("b")]}, "finishReason": "SAFETY"}]},
              {"candidates": [{"index": 1, "finishReason": "OTHER"}]},
              {"candidates": [{"content": {"parts": [text("c")]}, "finishReason": "STOP"}]}]
    assert script_of(*chunks, ctx=ctx) == ["start", "text", "text: ac", "stop", "finish stop"]
    assert ctx.dropped.losses == ["response.candidates"]


# ------------------------------------------------------------------------------------------------------------ sources

GROUNDED = {"groundingChunks": [{"web": {"uri": "https://a.example/x", "title": "A [1]\nsite", "domain": "a.example"}},
                                {"web": {"uri": "https://a.example/x"}}, None, {"web": None},
                                {"retrievedContext": {"uri": "gs://b/c (d)", "title": ""}}],
            "searchEntryPoint": {"renderedContent": "<div>"}, "webSearchQueries": ["q"]}
READ = {"urlMetadata": [{"retrievedUrl": "https://c.example/", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"},
                        {"retrievedUrl": "https://d.example/", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_ERROR"}]}
SOURCES = ("Sources:\n- [A (1) site](https://a.example/x)\n- gs://b/c%20(d%29\n- https://c.example/\n")


def test_sources_of_a_search_are_listed_at_the_end_of_the_text() -> None:
    assert script_of(chunk(text("So it is.")), chunk(text(""), finish="STOP", groundingMetadata=GROUNDED,
                                                urlContextMetadata=READ)) == [
        "start", "text", f"text: So it is.\n\n{SOURCES}", "stop", "finish stop"]


def test_sources_are_not_listed_in_structured_output_or_after_calls() -> None:
    ctx = context()
    structured = msgspec.structs.replace(ctx, request=msgspec.structs.replace(
        ctx.request, output_format=OutputFormat(None)))
    assert script_of(chunk(text("{}"), finish="STOP", groundingMetadata=GROUNDED), ctx=structured)[2] == "text: {}"
    assert structured.dropped.hints == ["response.groundingMetadata"]
    other = context()
    assert script_of(chunk(text("a"), call("ping")), chunk(finish="STOP", groundingMetadata=GROUNDED),
                ctx=other)[-2:] == ["stop", "finish tool_calls"]
    assert other.dropped.hints == ["response.groundingMetadata"]


def test_an_empty_grounding_is_ignored_and_citations_are_named() -> None:
    ctx = context()
    assert script_of(chunk(text("x"), finish="STOP", groundingMetadata={}, urlContextMetadata={}, citationMetadata={}),
                ctx=ctx)[2] == "text: x"
    assert ctx.dropped.hints == []
    script_of(chunk(text("x"), finish="STOP", citationMetadata={"citations": [{"uri": "https://e.example"}]}), ctx=ctx)
    assert ctx.dropped.hints == ["response.citationMetadata"]


# -------------------------------------------------------------------------------------------------------------- usage


def usage_of_stream(*chunks: object) -> Usage:
    last = decode(sse(*chunks))[-1]
    assert isinstance(last, Finish)
    return last.usage


def test_p15_p16_usage_of_the_last_chunk_counts_with_thoughts_and_cache() -> None:
    assert usage_of_stream(
        chunk(text("a"), usage={"promptTokenCount": 1000, "totalTokenCount": 1000}),
        chunk(text("b"), usage={"promptTokenCount": 1000, "candidatesTokenCount": 2, "totalTokenCount": 1002}),
        chunk(finish="STOP", usage={"promptTokenCount": 1000, "cachedContentTokenCount": 800,
                                    "candidatesTokenCount": 10, "thoughtsTokenCount": 30,
                                    "toolUsePromptTokenCount": 50, "totalTokenCount": 1090,
                                    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1000}]}),
    ) == Usage(input=1050, output=40, cached=800, reasoning=30)


def test_p15_usage_after_the_finish_reason_counts() -> None:
    assert usage_of_stream(chunk(text("a"), finish="STOP"),
                           {"usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": "3"}}) == Usage(7, 3)


def test_p15_usage_without_the_candidates_is_the_rest_of_the_total() -> None:
    assert usage_of_stream(chunk(text("a"), finish="STOP", usage={
        "promptTokenCount": 7, "thoughtsTokenCount": 2, "totalTokenCount": 12})) == Usage(7, 5, reasoning=2)


@pytest.mark.parametrize("odd", [{}, {"trafficType": "ON_DEMAND"}, {"promptTokenCount": None},
                                 {"promptTokenCount": -4, "totalTokenCount": True}, "none"])
def test_p15_usage_without_figures_is_estimated(odd: object) -> None:
    assert usage_of_stream({**chunk(text("12345678"), finish="STOP"), "usageMetadata": odd}) == Usage(
        input=42, output=2, estimated=True)


def test_p16_cached_tokens_are_never_more_than_the_prompt() -> None:
    assert usage_of_stream(chunk(finish="STOP", usage={
        "promptTokenCount": 5, "cachedContentTokenCount": 9, "candidatesTokenCount": -3})) == Usage(5, 0, cached=5)


def test_provider_ids_pass_if_they_are_new_and_legal() -> None:
    events = decode(sse(chunk(call("ping", {}, id="fc-1"), call("ping", {}, id="fc-1"), call("ping", {}, id="a b"),
                              call("ping", {}, id=None), finish="STOP")))
    ids = call_ids(events)
    assert ids[0] == "fc-1"
    assert len(set(ids)) == 4
    assert all(id.startswith("toolu_") for id in ids[1:])


def test_an_id_of_the_history_is_replaced() -> None:
    assert call_ids(decode(sse(chunk(call("ping", {}, id="fc-1"), finish="STOP")), context(seen={"fc-1"}))) != ["fc-1"]


def test_after_the_end_nothing_is_read() -> None:
    assert script_of("{", chunk(text("x"), finish="STOP")) == ["failure server"]
