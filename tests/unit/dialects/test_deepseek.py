"""DeepSeek V3, R1 and V3.1: calls between full-width tokens; every text at every cut, streamed and whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.model_text.checks import BREST, PING, TIDE_TOOLS, assert_stays_text, read_with_reasoning
from tests.model_text.exchange import client_response, send_every_cut, sse_bytes, text_chunks

BEGIN, END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, SEPARATOR, CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
END_OF_SENTENCE = "<｜end▁of▁sentence｜>"
V3, R1, V31 = "deepseek-v3", "deepseek-r1", "deepseek-v3.1"


def fenced(name: str, arguments: str) -> str:
    return f"{CALL}function{SEPARATOR}{name}\n```json\n{arguments}\n```{CALL_END}"


def bare(name: str, arguments: str) -> str:
    return f"{CALL}{name}{SEPARATOR}{arguments}{CALL_END}"


STYLES = pytest.mark.parametrize(("dialect", "write"), [(V3, fenced), (R1, fenced), (V31, bare)])


@STYLES
def test_calls_and_the_text_around(dialect: str, write: Any) -> None:
    raw = "Hi.\n" + BEGIN + write("lookup_tide", '{\n  "harbor": "Brest"\n}') + "\n" + write("ping", "{}") + END
    assert read_with_reasoning(dialect, raw + " After." + END_OF_SENTENCE) == ("Hi. After.", "", [BREST, PING], "tool_calls")


@STYLES
def test_lost_outer_tokens(dialect: str, write: Any) -> None:
    both = write("lookup_tide", '{"harbor": "Brest"}') + "\n" + write("ping", "{}")
    for raw in (both, BEGIN + both, both + END):
        assert read_with_reasoning(dialect, raw) == ("", "", [BREST, PING], "tool_calls")
    assert read_with_reasoning(dialect, BEGIN + both.removesuffix(CALL_END))[2] == [BREST, PING]
    assert read_with_reasoning(dialect, BEGIN + both.replace(CALL_END, "") + END)[2] == [BREST, PING]


@pytest.mark.parametrize("begin", ["<｜tool▁calls｜>", "<｜tool_calls_begin｜>", "<｜tool calls begin｜>"])
def test_other_spellings_of_the_section(begin: str) -> None:
    assert read_with_reasoning(R1, begin + fenced("ping", "{}") + END) == ("", "", [PING], "tool_calls")


@pytest.mark.parametrize("call", [
    f'{CALL}function{SEPARATOR}lookup_tide\r\n```json\r\n{{"harbor": "Brest"}}\r\n```{CALL_END}',
    f'{CALL}function{SEPARATOR}lookup_tide```json\n{{"harbor": "Brest"}}```{CALL_END}',
    f'{CALL}function{SEPARATOR}lookup_tide\n{{"harbor": "Brest"}}{CALL_END}',
    f'{CALL}lookup_tide{SEPARATOR}\n```json\n{{"harbor": "Brest"}}\n```\n{CALL_END}',
    f'{CALL}lookup_tide{{"harbor": "Brest"}}{CALL_END}'])
def test_what_lies_between_the_two_forms(call: str) -> None:
    for dialect in (V3, V31):
        assert read_with_reasoning(dialect, BEGIN + call + END + "Bye.") == ("Bye.", "", [BREST], "tool_calls")


@STYLES
@pytest.mark.parametrize(("arguments", "expected"), [
    ("", {}), ("null", {}), ("{'harbor': 'Brest'}", {"harbor": "Brest"}), ('{"harbor": "Brest"', {"harbor": "Brest"}),
    ('{"harbor": "Brest', {"harbor": "Brest"}), ('{"harbor": "Brest"}}', {"harbor": "Brest"}),
    ('{"harbor": "a｜▁b"}', {"harbor": "a｜▁b"})])
def test_damaged_arguments(dialect: str, write: Any, arguments: str, expected: dict[str, Any]) -> None:
    raw = BEGIN + write("lookup_tide", arguments) + write("ping", "{}") + END + "."
    assert read_with_reasoning(dialect, raw) == (".", "", [("lookup_tide", expected), PING], "tool_calls")


@STYLES
@pytest.mark.parametrize("content", ["```json\nnot the end\n```", f"a {CALL_END} b", fenced("ping", "{}") + END, "ünï 😀"])
def test_tokens_and_fences_in_strings_are_data(dialect: str, write: Any, content: str) -> None:
    arguments = json.dumps({"path": "a", "content": content}, ensure_ascii=False)
    assert read_with_reasoning(dialect, BEGIN + write("save_file", arguments) + END)[2] == [
        ("save_file", {"path": "a", "content": content})]


@STYLES
def test_a_tool_that_is_not_offered(dialect: str, write: Any) -> None:
    raw = BEGIN + write("format_disk", '{"now": true}') + END
    assert read_with_reasoning(dialect, raw) == (raw, "", [], "stop")
    assert read_with_reasoning(dialect, BEGIN + write("format_disk", "{}") + write("ping", "{}") + END)[2] == [PING]


@pytest.mark.parametrize("raw", [
    f"The token {BEGIN} begins and {END} ends.", f"```\n{BEGIN}{bare('ping', '{}')}{END}\n```\nSo.", "a<｜tool▁c",
    "Use ```python\nprint(1)\n``` here.", "a ｜ b ▁ c"])
def test_prose_and_fences_stay_text(raw: str) -> None:
    for dialect in (V3, V31):
        assert read_with_reasoning(dialect, raw) == (raw, "", [], "stop")


def test_stray_tokens_are_never_shown() -> None:
    assert read_with_reasoning(V31, f"Hello.{END}{CALL_END}{END_OF_SENTENCE}") == ("Hello.", "", [], "stop")


@pytest.mark.parametrize("raw", ["<think>\nHm.\n</think>\n\n" + BEGIN + fenced("ping", "{}") + END,
                                 "<think>Hm.\n\n" + BEGIN + fenced("ping", "{}") + END])
def test_reasoning(raw: str) -> None:
    assert read_with_reasoning(R1, raw) == ("", "Hm.", [PING], "tool_calls")
    opened = raw.removeprefix("<think>").lstrip()
    assert read_with_reasoning(R1, opened, reasoning_open=True) == ("", "Hm.", [PING], "tool_calls")


@STYLES
def test_a_truncated_call_is_never_whole(dialect: str, write: Any) -> None:
    raw = BEGIN + write("lookup_tide", '{"harbor": "Brest"}')
    for size in range(len(BEGIN), raw.index(CALL_END) + 1):
        got = send_every_cut(raw[:size], TIDE_TOOLS, finish="length", dialect=dialect)
        assert (got["content"].strip(), got["finish_reason"]) == ("", "length")
        for name, arguments in got["tool_calls"]:
            assert (name, '{"harbor": "Brest"'.startswith(arguments)) == ("lookup_tide", True)


@pytest.mark.parametrize("model", ["deepseek/deepseek-chat-v3.1", "deepseek-ai/DeepSeek-R1-0528", "unheard-of-model"])
def test_the_model_or_the_marks_tell_the_dialect(model: str) -> None:
    body = sse_bytes(text_chunks(list("<think>x</think>" + BEGIN + bare("ping", "{}") + END)))
    got = client_response(body, TIDE_TOOLS, model=model)
    assert (got["content"], got["reasoning"], got["tool_calls"]) == ("", "x", [["ping", "{}"]])


@pytest.mark.parametrize("end", [" too.", " too"])
def test_prose_about_several_markers_stays_text(end: str) -> None:
    assert_stays_text("deepseek-v3", "The token <｜tool▁calls▁begin｜> starts; <｜tool▁call▁begin｜>" + end)
