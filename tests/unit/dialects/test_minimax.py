"""MiniMax M2 (invokes with attributes) and M3 (nested elements after a mark)."""

from __future__ import annotations

import pytest

from tests.model_text.checks import TOOLS, assert_stays_text, read_calls, read_text
from tests.model_text.exchange import send_text, tool

M2, M3 = "minimax-m2", "minimax-m3"


def invoke(name: str, **arguments: str) -> str:
    pairs = "".join(f'<parameter name="{key}">{text}</parameter>\n' for key, text in arguments.items())
    return f'<invoke name="{name}">\n{pairs}</invoke>\n'


def block(*invokes: str) -> str:
    return "<minimax:tool_call>\n" + "".join(invokes) + "</minimax:tool_call>"


KIEL = block(invoke("lookup", harbor="Kiel"))
KIEL_CALL = ("lookup", {"harbor": "Kiel"})


@pytest.mark.parametrize("quote", ['"', "'", ""])
def test_attributes_are_quoted_or_not(quote: str) -> None:
    assert read_calls(M2, KIEL.replace('"', quote)) == [KIEL_CALL]


def test_several_invokes_and_several_blocks() -> None:
    raw = block(invoke("lookup", harbor="Kiel"), invoke("ping"))
    assert read_calls(M2, raw + "\n" + raw) == [KIEL_CALL, ("ping", {})] * 2


def test_an_invoke_without_its_block() -> None:
    assert read_calls(M2, invoke("lookup", harbor="Kiel")) == [KIEL_CALL]
    assert read_calls(M2, KIEL.removeprefix("<minimax:tool_call>\n")) == [KIEL_CALL]


@pytest.mark.parametrize("tag", ["dots_function_call", "function_calls"])
def test_tags_that_other_models_put_around_invokes_do_not_leak(tag: str) -> None:
    inner = invoke("lookup", harbor="Kiel") + invoke("ping")
    got = read_text(None, f"One\n<{tag}>\n{inner}</{tag}>\nDone.", model="nobody-knows-1")
    assert got == ("One\nDone.", [KIEL_CALL, ("ping", {})], "tool_calls")
    assert_stays_text(None, f"The tag <{tag}> opens, </{tag}> closes.", model="nobody-knows-1")
    assert_stays_text(None, f"<{tag}>\n{invoke('nobody')}</{tag}>", model="nobody-knows-1")


def test_types_come_from_the_schema() -> None:
    raw = block(invoke("set_valve", valve_id="3", opening="1e1", locked="false", tags='["a"]', operator="null"))
    assert read_calls(M2, raw) == [("set_valve", {"valve_id": 3, "opening": 10, "locked": False, "tags": ["a"],
                                             "operator": None})]


@pytest.mark.parametrize("text", [
    "", "\na\n", " a ", 'multi\nline <x> "q" & é', "a </parameter> b", '<parameter name="x">1</parameter> b',
    "</invoke> or </minimax:tool_call> here", KIEL, f"x {KIEL} y", invoke("ping") + "end", '<invoke name="ping"> alone',
])
def test_values_are_verbatim_and_markup_in_them_is_text(text: str) -> None:
    raw = block(invoke("save_file", path="a", content=text))
    assert read_calls(M2, raw) == [("save_file", {"path": "a", "content": text})]
    assert read_calls(M2, raw + KIEL) == [("save_file", {"path": "a", "content": text}), KIEL_CALL]


@pytest.mark.parametrize("end", ["</invoke>\n</minimax:tool_call>", "</minimax:tool_call>", "</invoke>"])
def test_closing_tags_are_missing(end: str) -> None:
    raw = KIEL.removesuffix("</parameter>\n</invoke>\n</minimax:tool_call>") + end
    assert read_calls(M2, raw) == [KIEL_CALL]


def test_a_value_that_nothing_closes_is_cut_off() -> None:
    raw = KIEL.removesuffix("</parameter>\n</invoke>\n</minimax:tool_call>")
    assert read_text(M2, raw, finish="tool_calls") == ("", [("lookup", ("unfinished", '{"harbor": "Kiel'))], "length")


def test_text_around_blocks_is_kept() -> None:
    content, found, _ = read_text(M2, f"First.\n{KIEL}\nDone.")
    assert (content.split(), found) == (["First.", "Done."], [KIEL_CALL])


@pytest.mark.parametrize("raw", [
    block(invoke("unknown", a="1")), "Use <minimax:tool_call> or <invoke name= here.", '<invoke name="ping"> is prose',
    "ends in <minimax:to", f"```\n{KIEL}\n```",
])
def test_what_is_no_call_stays_text(raw: str) -> None:
    assert_stays_text(M2, raw)


def test_the_answer_begins_inside_the_reasoning() -> None:
    got = send_text(list(f"plan\n</think>\n\n{KIEL}"), TOOLS, dialect=M2, reasoning_open=True)
    assert (got["reasoning"], got["content"], len(got["tool_calls"])) == ("plan", "", 1)


def test_a_call_that_a_limit_cut_off_is_never_whole() -> None:
    for size in range(KIEL.index("lookup") + 6, KIEL.index("</invoke>") + 8):
        _, found, finish = read_text(M2, KIEL[:size], finish="length")
        assert finish == "length"
        assert all(arguments == {} or '{"harbor": "Kiel"'.startswith(arguments[1]) for _, arguments in found)


@pytest.mark.parametrize("raw", [KIEL, invoke("lookup", harbor="Kiel")])
def test_an_unknown_model_may_write_it(raw: str) -> None:
    assert read_calls(None, raw, model="nobody-knows-1") == [KIEL_CALL]


# ---------------------------------------------------------------------------------------------------------------- M3

NESTED = [tool("plan", title="string", count="integer", tags={"type": "array", "items": {"type": "string"}},
               sizes={"type": "array", "items": {"type": "integer"}}, options="object",
               steps={"type": "array", "items": {"type": "object", "properties": {
                   "what": {"type": "string"}, "minutes": {"type": "integer"}, "notes": {"type": "array"}}}}),
          tool("ping")]


def elements(body: str, name: str = "plan") -> str:
    """`body` with plain tags -> the same with M3's mark before each tag."""
    inner = f'<invoke name="{name}">{body}</invoke>'
    return f"<tool_call>\n{inner}\n</tool_call>".replace("<", "]<]minimax[>[<")


@pytest.mark.parametrize(("body", "arguments"), [
    ("", {}),
    ("<title>Kiel</title>\n<count>4</count>", {"title": "Kiel", "count": 4}),
    ("<title> a\nb </title>", {"title": " a\nb "}),
    ("<tags><item>a</item>\n<item>b</item></tags>", {"tags": ["a", "b"]}),
    ("<tags><item>a</item></tags>", {"tags": ["a"]}),
    ("<sizes><item>1</item><item>2</item></sizes>", {"sizes": [1, 2]}),
    ("<tags>a</tags><tags>b</tags>", {"tags": ["a", "b"]}),
    ("<tags></tags><options></options><title></title>", {"tags": [], "options": {}, "title": ""}),
    ('<tags>["a"]</tags>', {"tags": ["a"]}),
    ("<steps><item><what>go</what><minutes>5</minutes><notes></notes></item></steps>",
     {"steps": [{"what": "go", "minutes": 5, "notes": []}]}),
    ("<options><a>1</a><b><c>x</c></b></options>", {"options": {"a": "1", "b": {"c": "x"}}}),
])
def test_elements_nest(body: str, arguments: dict[str, object]) -> None:
    assert read_calls(M3, elements(body), tools=NESTED) == [("plan", arguments)]


def test_plain_markup_in_an_element_is_text() -> None:
    raw = elements("<title>X</title>").replace("X", "<b>a</b> </title> </tool_call>")
    assert read_calls(M3, raw, tools=NESTED) == [("plan", {"title": "<b>a</b> </title> </tool_call>"})]


def test_several_invokes_and_missing_ends() -> None:
    raw = elements("<title>a</title></invoke>\n<invoke name=\"ping\">")
    assert read_calls(M3, raw, tools=NESTED) == [("plan", {"title": "a"}), ("ping", {})]
    short = elements("<title>a</title>").partition("]<]minimax[>[</invoke")[0]
    assert read_calls(M3, short, tools=NESTED) == [("plan", {"title": "a"})]
    assert read_text(M3, short.replace("]<]minimax[>[</title>", ""), tools=NESTED) == ("", [], "length")


def test_an_unknown_tool_is_no_call() -> None:
    content, found, finish = read_text(M3, "See " + elements("<a>1</a>", "unknown"), tools=NESTED)
    assert (found, finish) == ([], "stop")
    assert content.startswith("See ")
    assert content.endswith("</tool_call>")


def test_a_stray_mark_is_not_shown() -> None:
    assert read_text(M3, "a ]<]minimax[>[b", tools=NESTED) == ("a b", [], "stop")


def test_nothing_of_an_invoke_that_a_limit_cut_off_is_whole() -> None:
    raw = elements("<title>a</title>").partition("</invoke")[0]
    _, found, finish = read_text(M3, raw, tools=NESTED, finish="length")
    assert (found, finish) in (([], "length"), ([("plan", {})], "length"))
