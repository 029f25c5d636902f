"""Qwen3-Coder XML and Seed-OSS: each rule of the format and each damage seen in the wild."""

from __future__ import annotations

import pytest

from tests.model_text.checks import TOOLS, assert_stays_text, read_calls, read_text
from tests.model_text.exchange import send_text, tool

QWEN = "qwen3-coder"
KIEL = "<tool_call>\n<function=lookup>\n<parameter=harbor>\nKiel\n</parameter>\n</function>\n</tool_call>"
KIEL_CALL = ("lookup", {"harbor": "Kiel"})


def save(content: str, tail: str = "\n</parameter>\n</function>\n</tool_call>") -> str:
    return ("<tool_call>\n<function=save_file>\n<parameter=path>\na.md\n</parameter>\n<parameter=content>\n"
            f"{content}{tail}")


def saved(raw: str, **options: str) -> str:
    [(name, arguments)] = read_calls(QWEN, raw, **options)
    assert (name, arguments["path"]) == ("save_file", "a.md")
    return str(arguments["content"])


# ------------------------------------------------------------------------------------------------ names and values


@pytest.mark.parametrize(("text", "value"), [
    ("a", "a"),
    ("\n  a\n\n b  \n", "\n  a\n\n b  \n"),
    ("a\r\nb\r\n", "a\r\nb\r\n"),
    ("null", "null"),
    ("42", "42"),
    ('{"k": "v\\n"} & <b>"x"</b> \\', '{"k": "v\\n"} & <b>"x"</b> \\'),
    ("größe \U0001f600", "größe \U0001f600"),
    ("", ""),
])
def test_one_newline_at_each_end_is_framing(text: str, value: str) -> None:
    assert saved(save(text)) == value


def test_windows_newlines_frame_values_too() -> None:
    assert read_calls(QWEN, KIEL.replace("\n", "\r\n")) == [KIEL_CALL]
    assert saved(save("a\nb").replace("\n", "\r\n")) == "a\r\nb"


def test_a_lone_carriage_return_is_data() -> None:
    assert saved(save("a\r", "</parameter></function></tool_call>")) == "a\r"


def test_inline_values_keep_their_spaces() -> None:
    raw = "<tool_call><function=lookup><parameter=harbor>  Kiel  </parameter></function></tool_call>"
    assert read_calls(QWEN, raw) == [("lookup", {"harbor": "  Kiel  "})]


def test_an_empty_inline_value() -> None:
    assert read_calls(QWEN, "<function=lookup><parameter=harbor></parameter></function>") == [("lookup", {"harbor": ""})]


def test_types_come_from_the_schema() -> None:
    raw = ("<tool_call>\n<function=set_valve>\n<parameter=valve_id>\n3\n</parameter>\n<parameter=opening>\n0.5\n"
           "</parameter>\n<parameter=locked>\nTrue\n</parameter>\n<parameter=tags>\n[\"a\", \"</parameter> b\"]\n"
           "</parameter>\n<parameter=limits>\n{\"min\": 1}\n</parameter>\n<parameter=operator>\nnull\n</parameter>\n"
           "</function>\n</tool_call>")
    assert read_calls(QWEN, raw) == [("set_valve", {"valve_id": 3, "opening": 0.5, "locked": True,
                                               "tags": ["a", "</parameter> b"], "limits": {"min": 1},
                                               "operator": None})]


def test_no_parameters() -> None:
    assert read_calls(QWEN, "<tool_call>\n<function=ping>\n</function>\n</tool_call>") == [("ping", {})]


def test_names_with_dots_and_hyphens() -> None:
    raw = KIEL.replace("lookup", "mcp__atlas__find-docs.v2").replace("harbor", "q")
    assert read_calls(QWEN, raw) == [("mcp__atlas__find-docs.v2", {"q": "Kiel"})]


def test_of_a_repeated_key_the_last_value_counts() -> None:
    raw = KIEL.replace("</function>", "<parameter=harbor>\nOban\n</parameter>\n</function>")
    assert read_calls(QWEN, raw) == [("lookup", {"harbor": "Oban"})]


def test_undeclared_parameters_are_strings() -> None:
    raw = "<function=ping>\n<parameter=n>\n4\n</parameter>\n<parameter=m>\n5\n</parameter>\n</function>"
    assert read_calls(QWEN, raw) == [("ping", {"n": "4", "m": "5"})]


# ---------------------------------------------------------------------------------------------------- several calls


@pytest.mark.parametrize("between", ["\n", "", "\n\n", "\r\n"])
def test_several_blocks(between: str) -> None:
    assert read_calls(QWEN, KIEL + between + KIEL) == [KIEL_CALL, KIEL_CALL]


def test_several_functions_in_one_block() -> None:
    inner = KIEL.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>")
    assert read_calls(QWEN, f"<tool_call>\n{inner}\n{inner}\n</tool_call>") == [KIEL_CALL, KIEL_CALL]


def test_text_before_between_and_after_is_kept() -> None:
    content, found, _ = read_text(QWEN, f"Let me see.\n{KIEL}\nAnd then\n{KIEL}\nAll done!")
    assert content.split() == ["Let", "me", "see.", "And", "then", "All", "done!"]
    assert found == [KIEL_CALL, KIEL_CALL]


# ----------------------------------------------------------------------------------------------------------- damage


def test_the_outer_tag_is_missing() -> None:
    bare = KIEL.removeprefix("<tool_call>\n")
    assert read_calls(QWEN, bare) == [KIEL_CALL]
    assert read_calls(QWEN, bare.removesuffix("\n</tool_call>")) == [KIEL_CALL]
    assert read_calls(QWEN, bare + "\n" + bare) == [KIEL_CALL, KIEL_CALL]


@pytest.mark.parametrize("tail", ["\n</parameter>", "\n</function>", "\n</tool_call>", "\n</function>\n</tool_call>",
                                  "\n</parameter>\n</tool_call>", "\n</parameter>\n</function>"])
def test_closing_tags_are_missing_at_the_end(tail: str) -> None:
    assert saved(save("text", tail)) == "text"


@pytest.mark.parametrize("tail", ["\n</parameter>", "\n</function>", "\n</tool_call>", "\n</function>\n</tool_call>",
                                  "\n</parameter>\n</tool_call>", "\n</parameter>\n</function>", ""])
def test_closing_tags_are_missing_before_the_next_call(tail: str) -> None:
    assert read_calls(QWEN, save("text", tail) + "\n" + KIEL) == \
        [("save_file", {"path": "a.md", "content": "text"}), KIEL_CALL]


@pytest.mark.parametrize("tail", ["\n</function>", "\n</tool_call>", "\n</function>\n</tool_call>"])
def test_closing_tags_are_missing_before_prose(tail: str) -> None:
    content, found, _ = read_text(QWEN, save("text", tail) + "\nAll done.")
    assert (content, found) == ("All done.", [("save_file", {"path": "a.md", "content": "text"})])


def test_the_next_function_begins_in_an_open_value() -> None:
    raw = ("<tool_call>\n<function=lookup>\n<parameter=harbor>\nOban\n<function=lookup>\n<parameter=harbor>\nKiel\n"
           "</parameter>\n</function>\n</tool_call>")
    assert read_calls(QWEN, raw) == [("lookup", {"harbor": "Oban"}), KIEL_CALL]


def test_the_next_parameter_ends_a_value() -> None:
    raw = "<tool_call>\n<function=lookup>\n<parameter=harbor>\nKiel\n<parameter=day>\nMon\n</function>\n</tool_call>"
    assert read_calls(QWEN, raw) == [("lookup", {"harbor": "Kiel", "day": "Mon"})]


@pytest.mark.parametrize("damaged", [
    "<tool_call>\n<function=lookup\n<parameter=harbor>\nOban\n</parameter>\n</function>\n</tool_call>\n",
    "<tool_call>\n<function=bad_one\n</function>\n</tool_call>\n",
    "<tool_call>\n<function=bad_one\n</tool_call>\n",
    "<function=lookup\n<parameter=harbor>\nOban\n</parameter>\n</function>\n",
])
def test_a_call_whose_header_never_ends_is_dropped(damaged: str) -> None:
    assert read_calls(QWEN, damaged + KIEL) == [KIEL_CALL]


def test_text_behind_a_call_that_is_dropped_is_kept() -> None:
    raw = "<tool_call>\n<function=bad\n<parameter=a>\n1\n</parameter>\n\nSorry, I could not do it."
    assert read_text(QWEN, raw) == ("Sorry, I could not do it.", [], "stop")


def test_text_behind_a_damaged_end_of_a_call_is_kept() -> None:
    for text in ("Done.", "I have looked it up. " * 1000):
        raw = f"<tool_call>\n<function=set_valve>\n<parameter=valve_id>\n3\n</parameter>\n/function>\n{text}"
        assert read_text(QWEN, raw) == (f"/function>\n{text}".strip(), [("set_valve", {"valve_id": 3})], "tool_calls")


def test_a_key_that_a_pattern_of_the_schema_declares_is_no_text() -> None:
    open_ended = tool("f", a="string")
    open_ended["function"]["parameters"]["patternProperties"] = {"^x_": {"type": "string"}}
    raw = ("<tool_call>\n<function=f>\n<parameter=a>\nq\n</parameter>\n<parameter=x_1>\n3\n</parameter>\n</function>\n"
           "</tool_call>")
    assert read_calls(QWEN, raw, tools=[open_ended]) == [("f", {"a": "q", "x_1": "3"})]


def test_a_parameter_header_without_its_bracket() -> None:
    assert read_calls(QWEN, KIEL.replace("=harbor>", "=harbor")) == [KIEL_CALL]


def test_stray_closing_tags_of_values_that_can_be_no_text() -> None:
    raw = "<tool_call>\n<function=set_valve>\n<parameter=valve_id>\n3\n</parameter>\n</parameter>\n</function></tool_call>"
    assert read_calls(QWEN, raw) == [("set_valve", {"valve_id": 3})]


@pytest.mark.parametrize("text", [
    "<tool_call>\n<function={{ name }}>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
    "<tool_call>\n<function=unknown>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
    "<tool_call>example</tool_call> is how it looks.",
    "Write <tool_call> and then <function=NAME>, <parameter=KEY> and </parameter>.",
    "Write <function=NAME, then <parameter=KEY>. This is the rest.\n\nReally.",
    "I call <function=ping> when bored.",
    "It ends in <function=pi",
    "It ends in <tool_call>\n<function=ping",
    "It ends in <tool_c",
    f"```xml\n{KIEL}\n```",
    f"~~~\n{KIEL}\n~~~\nthat is all",
])
def test_what_is_no_call_stays_text(text: str) -> None:
    assert_stays_text(QWEN, text)


def test_without_tools_nothing_is_looked_for() -> None:
    assert_stays_text(QWEN, KIEL, tools=[])


def test_an_unknown_function_behind_a_known_one_stays_text() -> None:
    raw = KIEL.replace("\n</tool_call>", "\n<function=unknown>\n</function>")
    content, found, _ = read_text(QWEN, raw)
    assert (content, found) == ("<function=unknown>\n</function>", [KIEL_CALL])


# -------------------------------------------------------------------------------------------------- literal markup


@pytest.mark.parametrize("text", [
    "close it with </parameter> as usual",
    "a\n</parameter>\nb",
    "<parameter=x>\n1\n</parameter>\n<parameter=y>\n2\n</parameter>\nend",
    "the keys <parameter=path> and <parameter=content> of this tool",
    "</function> and </tool_call> are closing tags",
    "a\n</function>\nb\n</tool_call>\nc",
    "a <tool_call> mentioned",
    "a <function=ping> mentioned",
    KIEL,
    KIEL + "\nend",
    "x\n" + KIEL + "\n" + KIEL + "\ny",
    KIEL.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>") + "\nend",
    KIEL.replace("lookup", "unknown") + "\nend",
    save("deep\n" + KIEL) + "\nend",
    "<think>no</think> ```\nfence",
])
def test_markup_in_a_value_is_text(text: str) -> None:
    assert saved(save(text)) == text
    content, found, _ = read_text(QWEN, save(text) + "\nDone.\n" + KIEL)
    assert content == "Done."
    assert found == [("save_file", {"path": "a.md", "content": text}), KIEL_CALL]


def test_a_long_example_in_a_value_is_text() -> None:
    text = save("x" * 40_000) + "\nend"
    for pieces in ([save(text)], [save(text)[i:i + 999] for i in range(0, len(save(text)), 999)]):
        got = send_text(pieces, TOOLS, dialect=QWEN)
        assert len(got["tool_calls"]) == 1
        assert "x" * 40_000 in got["tool_calls"][0][1]


# ------------------------------------------------------------------------------------------- streaming, truncation


def arguments_after(raw: str) -> str:
    """The part of the first call that was sent before the text ended."""
    got = send_text(list(raw), TOOLS, finish="length", dialect=QWEN)
    return str(got["tool_calls"][0][1]) if got["tool_calls"] else ""


def test_only_strings_stream_and_their_end_is_held_back() -> None:
    assert arguments_after(save("line 1\nline 2\n</para", "")) == '{"path": "a.md", "content": "line 1\\nline 2'
    assert arguments_after("<function=set_valve>\n<parameter=valve_id>\n31") == ""


@pytest.mark.parametrize("raw", [KIEL, KIEL.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>")])
def test_a_call_that_a_limit_cut_off_is_never_whole(raw: str) -> None:
    shown = []
    for size in range(1, len(raw)):
        content, found, finish = read_text(QWEN, raw[:size], finish="length")
        assert finish == "length"
        shown.append(content)
        for name, arguments in found:
            assert name == "lookup"
            if size < raw.index("</function>") + len("</function>"):
                assert arguments == {} or '{"harbor": "Kiel"'.startswith(arguments[1])
    assert not any(text.strip() for text in shown[raw.index("<parameter"):])


# -------------------------------------------------------------------------------------------- reasoning and families


def test_a_call_ends_reasoning() -> None:
    got = send_text(list(f"<think>\nplan\n{KIEL}"), TOOLS, dialect=QWEN)
    assert (got["reasoning"], got["content"], len(got["tool_calls"])) == ("plan", "", 1)


def test_seed_has_tags_of_its_own() -> None:
    raw = "<seed:think>plan</seed:think>" + KIEL.replace("tool_call>", "seed:tool_call>")
    got = send_text(list(raw), TOOLS, dialect="seed-oss")
    assert (got["reasoning"], got["content"]) == ("plan", "")
    assert read_calls("seed-oss", raw) == [KIEL_CALL]


def test_an_unknown_model_may_write_it() -> None:
    assert read_calls(None, KIEL, model="nobody-knows-1") == [KIEL_CALL]
    assert_stays_text(None, "<tool_call>example</tool_call>", model="nobody-knows-1")


def test_strict_arguments_name_what_is_wrong() -> None:
    tools = [tool("set", ("n",), n="integer")]
    raw = "<function=set>\n<parameter=n>\nmany\n</parameter>\n</function>"
    assert read_text(QWEN, raw, tools=tools, arguments="strict")[2] == "error"
