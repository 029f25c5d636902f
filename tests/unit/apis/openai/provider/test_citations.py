"""Citations of models with search: an OpenAI client gets them in its API's fields, others at the end of the text; each
once, in any cut. Citations without a place are named.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc import Translation
from tests.playbook import call, delta, sse

HI = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}


def cited(url: str, title: str | None = None, start: int = 0, end: int = 2) -> dict[str, object]:
    titled = {} if title is None else {"title": title}
    return {"type": "url_citation", "url_citation": {"url": url, **titled, "start_index": start, "end_index": end}}


A, B = cited("https://a.example/", "A"), cited("https://b.example/", "B", 3, 5)
URLS = ["https://a.example/", "https://b.example/"]
RESULTS = [{"title": "B", "url": "https://b.example/", "date": "2026-01-02", "snippet": "it is"}]
WORDS = "\n\nSources:\n- [A](https://a.example/)\n- [B](https://b.example/)\n"


def outcome(client: str, *chunks: dict[str, object], stream: bool = True, **fields: Any) -> tuple[Any, list[str]]:
    """The client's text, and the named losses. The chunks may come in any cut."""
    if stream:
        body = sse(*chunks)
    else:
        body = json.dumps(chunks[0]).encode()
    outs = set()
    for size in (len(body), 1, 7):
        translation = Translation(client, "openai", "m")
        translation.request(json.dumps({**HI, "stream": stream, **fields}).encode())
        translation.start(200, {})
        out = b"".join([translation.feed(body[at:at + size]) for at in range(0, len(body), size)])
        outs.add(out + translation.finish())
    assert translation.failure is None
    assert len(outs) == 1
    received = outs.pop().decode()
    if not stream:
        return json.loads(received), translation.dropped.losses
    events = [json.loads(line[6:]) for line in received.splitlines() if line.startswith("data: {")]
    return events, translation.dropped.losses


def whole(finish: str = "stop", beside: dict[str, object] | None = None, **message: object) -> dict[str, object]:
    return {"id": "g", "choices": [{"index": 0, "message": message, "finish_reason": finish}], **(beside or {})}


def text_of_deltas(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")


def test_an_openai_client_gets_annotations_in_its_message() -> None:
    response, losses = outcome("openai", whole(content="So it is.", annotations=[A, B]), stream=False)
    assert response["choices"][0]["message"] == {"role": "assistant", "content": "So it is.", "refusal": None,
                                                 "annotations": [A, B]}
    assert not losses


def test_an_openai_client_gets_annotations_in_one_delta() -> None:
    """In every form: with text or alone, repeated in each chunk or one by one."""
    events, losses = outcome("openai", delta(content="So ", annotations=[A]), delta(content="it is."),
                              delta(annotations=[A, B]), delta("stop"))
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    assert [part["annotations"] for part in deltas if "annotations" in part] == [[A, B]]
    assert events[-1]["choices"][0]["finish_reason"] == "stop"
    assert not losses


def test_an_openai_client_gets_lists_beside_the_choices_unchanged() -> None:
    """`[1]` in the text is the first of `citations`: no annotation could give its position."""
    beside: dict[str, object] = {"citations": URLS, "search_results": RESULTS}
    response, _ = outcome("openai", whole(content="So [1].", beside=beside), stream=False)
    assert (response["citations"], response["search_results"]) == (URLS, RESULTS)
    assert "annotations" not in response["choices"][0]["message"]
    events, losses = outcome("openai", {**delta(content="So "), "citations": URLS[:1]},
                              {**delta(content="[1]."), **beside}, {**delta("stop"), **beside})
    assert [(event["citations"], event["search_results"]) for event in events if "citations" in event] == \
        [(URLS, RESULTS)]
    assert not losses


@pytest.mark.parametrize("stream", [True, False])
def test_an_anthropic_client_gets_a_list_at_the_end_of_the_text(stream: bool) -> None:
    chunks = [delta(content="So.", annotations=[A]), delta("stop", annotations=[A, B])] if stream else \
        [whole(content="So.", annotations=[A, B])]
    response, losses = outcome("anthropic", *chunks, stream=stream)
    assert (text_of_deltas(response) if stream else response["content"][0]["text"]) == "So." + WORDS
    assert not losses


def test_a_web_front_end_gets_the_list_in_the_text() -> None:
    translation = Translation("events", "openai", "m")
    translation.request(json.dumps({**HI, "stream": True}).encode())
    translation.start(200, {})
    out = translation.feed(sse(delta(content="So.", annotations=[A, B]), delta("stop"))) + translation.finish()
    events = [json.loads(line[6:]) for line in out.decode().splitlines() if line.startswith("data: {")]
    assert "".join(event.get("text", "") for event in events) == "So." + WORDS


def test_numbers_in_the_text_are_those_of_the_list() -> None:
    lists: dict[str, object] = {"citations": URLS, "search_results": RESULTS}
    events, losses = outcome("anthropic", {**delta(content="So [1]."), **lists}, {**delta("stop"), **lists})
    assert text_of_deltas(events) == "So [1].\n\nSources:\n1. https://a.example/\n2. [B](https://b.example/)\n"
    assert not losses


@pytest.mark.parametrize(("chunks", "fields"), [
    pytest.param([delta(content="{}", annotations=[A]), delta("stop")],
                 {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}, id="JSON"),
    pytest.param([delta(content="a", annotations=[A]), delta(tool_calls=[call(0, "c", "ping", "{}")]),
                  delta("tool_calls")], {"tools": [{"name": "ping", "input_schema": {"type": "object"}}]}, id="a call"),
    pytest.param([delta(content="a"), delta("stop", annotations=[{"type": "file", "file": {}}])], {}, id="no page"),
    pytest.param([delta(content="a"), {**delta("stop"), "citations": {"a": 1}}], {}, id="no list"),
    pytest.param([delta(content="a"), delta("stop", annotations=["a"])], {}, id="no annotation")])
def test_sources_without_a_place_are_named(chunks: list[dict[str, object]], fields: dict[str, Any]) -> None:
    events, losses = outcome("anthropic", *chunks, **fields)
    assert "Sources" not in text_of_deltas(events)
    assert losses == ["response.citations"]


def test_no_sources_add_nothing() -> None:
    for client in ("openai", "anthropic"):
        events, losses = outcome(client, {**delta(content="a", annotations=[]), "citations": None},
                                  {**delta("stop", annotations=None), "citations": [], "search_results": []})
        assert not losses
        assert "annotations" not in json.dumps(events)
        assert "Sources" not in json.dumps(events)


def test_a_flood_of_annotations_is_bounded_and_named() -> None:
    many = [cited(f"https://a.example/{number}") for number in range(1001)]
    response, losses = outcome("openai", whole(content="a", annotations=many), stream=False)
    assert len(response["choices"][0]["message"]["annotations"]) == 1000
    assert losses == ["response.citations"]
