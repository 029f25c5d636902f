"""PDFs, sound and video in the form that each endpoint of the OpenAI format reads; elsewhere a note, and named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc import Translation
from tests.providers import openai_rules

Json = dict[str, Any]
PDF = "JVBERi0xLjQK"
SOUND = "UklGRiQAAABXQVZF"
LINK = "https://example.com/a.pdf"
MISTRAL = ("https://api.mistral.ai/v1", "mistral-large-latest", "mistral")
VOXTRAL = ("https://api.mistral.ai/v1", "voxtral-small-latest", "mistral")
OPENROUTER = ("https://openrouter.ai/api/v1", "google/gemini-2.5-pro", "openrouter")
KILO = ("https://api.kilo.ai/api/openrouter", "google/gemini-2.5-pro", "openrouter")
PERPLEXITY = ("https://api.perplexity.ai", "sonar-pro", "perplexity")
GENERIC = ("http://127.0.0.1:9/v1", "some-model", "openai")
Endpoint = tuple[str, str, str]


def sent(client: str, endpoint: Endpoint, *content: Json, messages: list[Json] | None = None) -> tuple[Any, list[str]]:
    """The content of the last user message, and what was lost."""
    url, model, rules = endpoint
    talk = Translation(client, "openai", url=url, model=model)
    body = {"model": "m", "max_tokens": 10, "messages": messages or [{"role": "user", "content": list(content)}]}
    out = json.loads(talk.request(json.dumps(body).encode()).body)
    assert openai_rules.refusal(out, rules) is None
    return out["messages"][-1]["content"], talk.dropped.losses


def pdf(client: str, *, link: bool = False, title: str = "paper.pdf") -> Json:
    if client == "anthropic":
        data_source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
        source = {"type": "url", "url": LINK} if link else data_source
        return {"type": "document", "title": title, "source": source}
    data = LINK if link else f"data:application/pdf;base64,{PDF}"
    return {"type": "file", "file": {"filename": title, "file_data": data}}


@pytest.mark.parametrize("client", ["anthropic", "openai"])
def test_3_6_a_pdf_at_mistral_is_a_document_url(client: str) -> None:
    content, lost = sent(client, MISTRAL, pdf(client))
    assert content == [{"type": "document_url", "document_url": f"data:application/pdf;base64,{PDF}",
                        "document_name": "paper.pdf"}]
    assert lost == []
    content, lost = sent(client, MISTRAL, pdf(client, link=True))
    assert content[0]["document_url"] == LINK
    assert lost == []


def test_3_6_a_pdf_that_claude_code_read_reaches_mistral() -> None:
    """It stands in the result of the tool Read, which takes text only."""
    messages: list[Json] = [
        {"role": "user", "content": "read it"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [pdf("anthropic")]}]}]
    content, lost = sent("anthropic", MISTRAL, messages=messages)
    assert content[-1]["type"] == "document_url"
    assert lost == []


@pytest.mark.parametrize("client", ["anthropic", "openai"])
@pytest.mark.parametrize("endpoint", [OPENROUTER, KILO])
def test_3_6_a_pdf_at_openrouter_may_be_a_url(client: str, endpoint: Endpoint) -> None:
    content, lost = sent(client, endpoint, pdf(client, link=True))
    assert content == [{"type": "file", "file": {"filename": "paper.pdf", "file_data": LINK}}]
    assert lost == []


@pytest.mark.parametrize("client", ["anthropic", "openai"])
def test_3_6_a_pdf_at_perplexity_is_a_file_url(client: str) -> None:
    content, lost = sent(client, PERPLEXITY, pdf(client))
    assert content == [{"type": "file_url", "file_url": {"url": PDF}, "file_name": "paper.pdf"}]
    content, lost = sent(client, PERPLEXITY, pdf(client, link=True))
    assert content[0]["file_url"] == {"url": LINK}
    assert lost == []


@pytest.mark.parametrize("given", [{"data": SOUND, "format": "wav"}, SOUND, "https://example.com/a.mp3"])
def test_3_6_sound_reaches_voxtral(given: Any) -> None:
    content, lost = sent("openai", VOXTRAL, {"type": "input_audio", "input_audio": given})
    assert content == [{"type": "input_audio", "input_audio": given["data"] if isinstance(given, dict) else given}]
    assert lost == []


@pytest.mark.parametrize(("form", "name"), [("wav", "wav"), ("mp3", "mp3"), ("m4a", "m4a"), ("flac", "flac")])
def test_3_6_sound_reaches_openrouter_in_its_own_form(form: str, name: str) -> None:
    content, lost = sent("openai", OPENROUTER, {"type": "input_audio", "input_audio": {"data": SOUND, "format": form}})
    assert content == [{"type": "input_audio", "input_audio": {"data": SOUND, "format": name}}]
    assert lost == []


@pytest.mark.parametrize("url", ["https://example.com/a.mp4", "data:video/mp4;base64,AAAAIGZ0"])
@pytest.mark.parametrize("endpoint", [OPENROUTER, KILO])
def test_3_6_video_reaches_openrouter(url: str, endpoint: Endpoint) -> None:
    part = {"type": "video_url", "video_url": {"url": url}}
    assert sent("openai", endpoint, part) == ([part], [])


@pytest.mark.parametrize("part", [
    {"type": "document_url", "document_url": LINK, "document_name": "paper.pdf"},
    {"type": "document_url", "document_url": {"url": LINK}, "document_name": "paper.pdf"},
    {"type": "file_url", "file_url": {"url": LINK}, "file_name": "paper.pdf"}])
@pytest.mark.parametrize(("endpoint", "kind"), [
    (MISTRAL, "document_url"), (PERPLEXITY, "file_url"), (OPENROUTER, "file")])
def test_3_6_clients_may_write_a_document_as_any_of_these_endpoints_does(part: Json, endpoint: Endpoint,
                                                                        kind: str) -> None:
    content, lost = sent("openai", endpoint, part)
    assert content[0]["type"] == kind
    assert LINK in json.dumps(content)
    assert "paper.pdf" in json.dumps(content)
    assert lost == []


@pytest.mark.parametrize(("endpoint", "part", "name"), [
    (MISTRAL, {"type": "input_audio", "input_audio": {"data": SOUND, "format": "wav"}}, "messages.audio"),
    (MISTRAL, {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}}, "messages.video.url"),
    (GENERIC, {"type": "file", "file": {"file_data": LINK}}, "messages.document.url"),
    (GENERIC, {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}}, "messages.video.url"),
    (PERPLEXITY, {"type": "input_audio", "input_audio": {"data": SOUND, "format": "wav"}}, "messages.audio")])
def test_3_6_what_an_endpoint_does_not_read_stays_a_named_loss(endpoint: Endpoint, part: Json, name: str) -> None:
    content, lost = sent("openai", endpoint, part)
    assert "not available to this model" in json.dumps(content)
    assert lost == [name]
