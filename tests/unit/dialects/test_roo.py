"""The XML tools of RooCode and Cline: tags are the names of the tools that are offered."""

from __future__ import annotations

import pytest

from tests.model_text.checks import assert_stays_text, read_calls, read_text
from tests.model_text.exchange import send_text, tool

ROO = "roo-xml"
TOOLS = [
    tool("read_file", path="string", args="string"),
    tool("write_to_file", path="string", content="string", line_count="integer"),
    tool("use_mcp_tool", server_name="string", arguments="string"),
    tool("switch-mode", mode="string"),
    tool("list_modes"),
    tool("form", path="string"),
]
READ = "<read_file>\n<path>src/main.rs</path>\n</read_file>"
READ_CALL = ("read_file", {"path": "src/main.rs"})


def write(content: str, rest: str = "\n<line_count>3</line_count>") -> str:
    return f"<write_to_file>\n<path>a.xml</path>\n<content>\n{content}\n</content>{rest}\n</write_to_file>"


@pytest.mark.parametrize("raw", [READ, READ.replace("\n", ""), READ.replace("\n", "\r\n"),
                                 READ.replace("src/main.rs", "\n  src/main.rs \n")])
def test_values_are_trimmed(raw: str) -> None:
    assert read_calls(ROO, raw, tools=TOOLS) == [READ_CALL]


@pytest.mark.parametrize("text", [
    "", "  indented\n\n  text  ", "<doc>\n<content>inner</content>\n</doc>", "a</content>b", "<path>x</path>",
    "<line_count>9</line_count>", READ, "</write_to_file> mentioned", "é \U0001f600 \"q\" \\ & &amp;",
    "<content>1</content><path>p</path><content>2</content>",
])
def test_content_keeps_its_white_space_and_ends_at_its_last_closing_tag(text: str) -> None:
    for rest, more in (("", {}), ("\n<line_count>3</line_count>", {"line_count": 3})):
        assert read_calls(ROO, write(text, rest), tools=TOOLS) == \
            [("write_to_file", {"path": "a.xml", "content": text, **more})]


def test_markup_in_a_value_stays_as_it_is() -> None:
    inner = "<file>\n    <path>a.ts</path>\n  </file>\n  <file>\n    <path>b.ts</path>\n  </file>"
    raw = f"<read_file>\n<args>\n  {inner}\n</args>\n</read_file>"
    assert read_calls(ROO, raw, tools=TOOLS) == [("read_file", {"args": inner})]


def test_json_in_a_string_parameter_stays_text() -> None:
    raw = '<use_mcp_tool>\n<server_name>s</server_name>\n<arguments>\n{"a": 1}\n</arguments>\n</use_mcp_tool>'
    assert read_calls(ROO, raw, tools=TOOLS) == [("use_mcp_tool", {"server_name": "s", "arguments": '{"a": 1}'})]


def test_only_declared_parameters_are_tags() -> None:
    raw = READ.replace("</read_file>", "<unknown>x</unknown> stray\n</read_file>")
    assert read_calls(ROO, raw, tools=TOOLS) == [READ_CALL]


def test_tools_without_parameters_and_names_with_hyphens() -> None:
    assert read_calls(ROO, "<list_modes>\n</list_modes>", tools=TOOLS) == [("list_modes", {})]
    assert read_calls(ROO, "<switch-mode><mode>x</mode></switch-mode>", tools=TOOLS) == [("switch-mode", {"mode": "x"})]


def test_several_calls_and_the_text_around_them() -> None:
    content, found, _ = read_text(ROO, f"I look.\n\n{READ}\n\nThen\n{READ}\nDone.", tools=TOOLS)
    assert (content.split(), found) == (["I", "look.", "Then", "Done."], [READ_CALL, READ_CALL])


def test_thinking_is_text_for_the_client() -> None:
    got = send_text(list(f"<thinking>\nplan\n</thinking>\n\n{READ}"), TOOLS, dialect=ROO)
    assert (got["content"], got["reasoning"], len(got["tool_calls"])) == ("<thinking>\nplan\n</thinking>", "", 1)


@pytest.mark.parametrize("raw", [
    "<read_file>\n<path>src/main.rs</path>", "<read_file>\n<path>src/main.rs\n</read_file>",
])
def test_closing_tags_are_missing(raw: str) -> None:
    assert read_calls(ROO, raw, tools=TOOLS) == [READ_CALL]
    if raw.endswith(">"):
        assert read_calls(ROO, raw + "\n" + READ, tools=TOOLS)[0] == READ_CALL


@pytest.mark.parametrize("raw", [
    "The tool <read_file> reads.", "half a tag <read_fil", "<unknown_tool>\n<path>x</path>\n</unknown_tool>",
    "<path>x</path>", "<read_file>some text</read_file>", f"```xml\n{READ}\n```", "<read_file",
])
def test_what_is_no_call_stays_text(raw: str) -> None:
    assert_stays_text(ROO, raw, tools=TOOLS)


def test_a_call_that_a_limit_cut_off_is_never_whole() -> None:
    for size in range(len("<read_file>\n<path>"), len(READ)):
        _, found, finish = read_text(ROO, READ[:size], tools=TOOLS, finish="length")
        assert finish == "length"
        assert all(arguments == {} or '{"path": "src/main.rs"'.startswith(arguments[1]) for _, arguments in found)


def test_for_an_unknown_model_a_tag_must_be_a_line_of_its_own_and_no_word_of_html() -> None:
    model = "nobody-knows-1"
    assert read_calls(None, READ, model=model, tools=TOOLS) == [READ_CALL]
    content, found, _ = read_text(None, f"I look.\n{READ}", model=model, tools=TOOLS)
    assert (content, found) == ("I look.", [READ_CALL])
    assert_stays_text(None, f"You would write {READ}", model=model, tools=TOOLS)
    assert_stays_text(None, "<form><path>x</path></form>", model=model, tools=TOOLS)


def test_elements_that_the_tool_does_not_declare_may_come_first() -> None:
    odd = "<start_line>1</start_line>\n<end_line>9</end_line>\n"
    assert read_calls(ROO, READ.replace("<path>", f"{odd}<path>"), tools=TOOLS) == [READ_CALL]
    for text in (f"<read_file>\n{odd}</read_file>", f"<read_file>\n{odd}lines", "<read_file>\n<start_line>1 <path>a</path>",
                 "<list_modes>\n<reason>x</reason>\n</list_modes>"):
        assert_stays_text(ROO, text, tools=TOOLS)


def test_text_behind_a_call_that_was_not_closed_is_kept() -> None:
    for text in ("Now I wait.", "Now I wait. " * 3000):
        raw = READ.replace("</read_file>", f"\n{text}")
        assert read_text(ROO, raw, tools=TOOLS) == (text.strip(), [READ_CALL], "tool_calls")


AGENT = [tool("read", filePath="string", limit="integer"), tool("edit", filePath="string", oldString="string"),
         tool("list"), tool("search", query="string")]
READ_TS = "<read><filePath>src/a.ts</filePath></read>"


@pytest.mark.parametrize("settings", [
    {"dialect": "prompted"}, {"dialect": "qwen3-coder"}, {"dialect": "qwen3-hermes"}, {"model": "qwen/qwen3-32b"},
    {"model": "nobody-knows-1"}])
def test_models_that_are_asked_for_another_form(settings: dict[str, str]) -> None:
    dialect, model = settings.get("dialect"), settings.get("model", "m")
    assert read_calls(dialect, READ_TS, model=model, tools=AGENT) == [("read", {"filePath": "src/a.ts"})]
    raw = "I look:\n<read>\n<filePath>\nsrc/a.ts\n</filePath>\n<limit>5</limit>\n</read>\n\n" + READ_TS + "\nDone."
    assert read_text(dialect, raw, model=model, tools=AGENT) == (
        "I look:\nDone.", [("read", {"filePath": "src/a.ts", "limit": 5}), ("read", {"filePath": "src/a.ts"})], "tool_calls")
    raw = "<edit>\n<filePath>a</filePath>\n<oldString>  x\n  y\n\n</oldString>\n</edit>"
    assert read_calls(dialect, raw, model=model, tools=AGENT) == [("edit", {"filePath": "a", "oldString": "  x\n  y\n"})]
    for text in (f"The tool {READ_TS} reads.", f"```\n{READ_TS}\n```", "<list></list>", "<read>a book</read>",
                 "<filePath>a</filePath>"):
        assert_stays_text(dialect, text, model=model, tools=AGENT)


def test_words_of_html_count_only_for_models_that_are_known() -> None:
    raw = "<search><query>x</query></search>"
    assert read_calls("prompted", raw, tools=AGENT) == [("search", {"query": "x"})]
    assert_stays_text(None, raw, model="nobody-knows-1", tools=AGENT)


@pytest.mark.parametrize("value", [" a ", "a]]>b", "</path>", "]]>", "\n\na\n", "<![CDATA[", ""])
def test_a_value_in_sections_is_exact(value: str) -> None:
    section = "<![CDATA[" + value.replace("]]>", "]]]]><![CDATA[>") + "]]>"
    for raw in (f"<read_file>\n<path>{section}</path>\n</read_file>", f"<read_file><path>{section}\n</path></read_file>"):
        assert read_calls(ROO, raw, tools=TOOLS) == [("read_file", {"path": value})]
