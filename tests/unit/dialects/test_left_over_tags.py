"""A server that removes a call from the text leaves a tag: it is dropped beside native calls, and text elsewhere."""

from __future__ import annotations

import pytest

from tests.model_text.text_and_calls import UPSTREAMS, NativeCall, begin_exchange, hermes_call, received
from tests.playbook import delta, sse

READ: NativeCall = ("read", {"path": "a"})

every_api = pytest.mark.parametrize("upstream", UPSTREAMS)
both_tags = pytest.mark.parametrize("tag", ["<tool_call>", "</tool_call>"])
any_size = pytest.mark.parametrize("size", [1, 4, 500])


@every_api
@both_tags
@any_size
@pytest.mark.parametrize("items", [
    ["Look.\nTAG", READ], ["Look.\n  TAG \n\n", READ], ["Look.", READ, "TAG"], ["Look.", READ, "\nTAG\n"],
    ["Look.\nTAG\n", READ, "\nTAG\n", READ, "TAG"],
])
def test_a_tag_alone_on_its_line(upstream: str, tag: str, size: int, items: list[str | NativeCall]) -> None:
    answer = received(upstream, [item.replace("TAG", tag) if isinstance(item, str) else item for item in items], size=size)
    assert answer.text.strip() == "Look."
    assert answer.calls == [item for item in items if not isinstance(item, str)]
    assert answer.stop == "tool_use"


@every_api
@any_size
def test_an_empty_pair(upstream: str, size: int) -> None:
    for pair in ("<tool_call></tool_call>", "<tool_call>\n</tool_call>"):
        assert received(upstream, ["Look.\n" + pair, READ, pair], size=size).text.strip() == "Look."
    assert received(upstream, ["Look.", READ, "</tool_call>\n<tool_call>"], size=size).text.strip() == "Look."


@every_api
@any_size
def test_a_written_call_behind_it_counts(upstream: str, size: int) -> None:
    call = ("read", {"path": "b"})
    answer = received(upstream, [READ, "</tool_call>\n" + hermes_call(*call), READ], size=size)
    assert (answer.calls, answer.text.strip()) == ([READ, call, READ], "")


@every_api
@both_tags
@any_size
@pytest.mark.parametrize("text", [
    "I write TAG at", "at the end: TAG", "- TAG", "TAG begins a call.", "```\nTAG\n```", "~~~xml\nTAG\n~~~\nas shown", "Use `TAG`.",
    "So:\n\n    TAG\n\nis it.", "So:\n\tTAG\nis it.",
])
def test_in_prose_and_in_code_it_is_text(upstream: str, tag: str, size: int, text: str) -> None:
    text = text.replace("TAG", tag)
    assert received(upstream, [READ, text], size=size).text == text
    assert received(upstream, [text, READ], size=size).text == text


@both_tags
@any_size
@pytest.mark.parametrize("behind", ["", "\n", "\nmore"])
def test_without_native_calls_it_is_text(tag: str, size: int, behind: str) -> None:
    text = f"The tag is\n{tag}{behind}"
    assert received("openai", [text], size=size).text == text


@pytest.mark.parametrize("model", ["qwen/qwen3-32b", "qwen/qwen3-coder", "z-ai/glm-4.6"])
@both_tags
def test_of_models_that_write_these_tags(model: str, tag: str) -> None:
    assert received("openai", ["Look.\n" + tag, READ, tag], model=model).text.strip() == "Look."


def test_what_follows_on_its_line_makes_it_text_at_once() -> None:
    assert b"</tool_call>" in begin_exchange("openai").feed(sse(delta(content="See\n</tool_call> is"), done=False))


@any_size
def test_a_pair_that_holds_text_is_text(size: int) -> None:
    text = "<tool_call>\n</tool_call> is a pair"
    assert received("openai", [READ, text], size=size).text == text
