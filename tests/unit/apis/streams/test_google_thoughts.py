"""Thoughts at Google's endpoints in the OpenAI format: marked content is reasoning, with or without tags, and the text
behind it is never lost with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.playbook import delta, sse
from tests.unit.apis.streams.exchanges import every_way

STUDIO: dict[str, Any] = {"url": "https://generativelanguage.googleapis.com/v1beta/openai",
                          "model": "gemini-3-pro-preview"}
VERTEX: dict[str, Any] = {"url": "https://aiplatform.googleapis.com/v1/projects/p/locations/global/endpoints/openapi",
                          "model": "google/gemini-3-pro-preview"}
RELAY: dict[str, Any] = {"url": "http://127.0.0.1:8000/v1", "model": "gemini-2.5-flash"}
SPLIT = ("Hm, so.", "Low tide.", (), "stop", None, ("thinking", "text"))


def thought(content: str, member: str = "google") -> dict[str, Any]:
    return delta(content=content, extra_content={member: {"thought": True}})


@pytest.mark.parametrize("where", [STUDIO, VERTEX, RELAY], ids=["studio", "vertex", "relay"])
@pytest.mark.parametrize("member", ["google", "vertex"])
@pytest.mark.parametrize(("thoughts", "texts"), [
    (["Hm,", " so."], ["Low", " tide."]),
    (["<thought>Hm,", " so."], ["</thought>Low", " tide."]),
    (["<thought>Hm,", " so.</thought>"], ["Low", " tide."]),
    (["<thought>", "Hm, so.", "</thought>"], ["Low tide."]),
    (["<thou", "ght>Hm, so."], ["</tho", "ught>", "Low tide."]),
])
def test_marked_content_is_reasoning(where: dict[str, Any], member: str, thoughts: list[str], texts: list[str]) -> None:
    chunks = [*(thought(piece, member) for piece in thoughts), *(delta(content=piece) for piece in texts)]
    assert every_way(sse(*chunks, delta("stop")), **where) == SPLIT


@pytest.mark.parametrize("where", [STUDIO, VERTEX, RELAY], ids=["studio", "vertex", "relay"])
@pytest.mark.parametrize("mark", [{}, {"extra_content": {"google": {"thought": True}}}], ids=["plain", "marked"])
@pytest.mark.parametrize("content", ["<thought>Hm, so.</thought>Low tide.",
                                     "<thought>\nHm, so.\n</thought>\n\nLow tide."])
def test_a_whole_response_holds_both_in_one_text(where: dict[str, Any], mark: dict[str, Any], content: str) -> None:
    whole = {"id": "g", "choices": [{"index": 0, "finish_reason": "stop",
                                     "message": {"role": "assistant", "content": content, **mark}}]}
    heard = every_way(json.dumps(whole).encode(), **where, sizes=(None,))
    assert (heard.thinking.strip(), heard.text.strip()) == ("Hm, so.", "Low tide.")


def test_content_that_says_it_is_no_thought_is_text() -> None:
    body = sse(delta(content="Low tide.", extra_content={"google": {"thought": False}}), delta("stop"))
    assert every_way(body, **STUDIO)[:2] == ("", "Low tide.")


def test_the_tags_inside_of_a_text_are_text() -> None:
    body = sse(delta(content="Write <thought>x</thought> so."), delta("stop"))
    assert every_way(body, **STUDIO)[:2] == ("", "Write <thought>x</thought> so.")
