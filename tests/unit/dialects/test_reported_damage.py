"""Damage that the test suites of inference servers and public issues report, family by family (see
docs/dialects.md)."""

from __future__ import annotations

import json

import pytest

from tests.model_text.checks import assert_reads, assert_stays_text, read_calls
from tests.model_text.exchange import send_text, tool

BREST = ("tide", {"harbor": "Brest"})
PING = ("ping", {})
UNKNOWN = None

K3_CALL = ('<|open|>tools<|sep|><|open|>call tool="ping" index="1"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>')
K3_END = "<|close|>message<|sep|><|end_of_msg|>"


@pytest.mark.parametrize("dialect", ["kimi-k3", UNKNOWN])
def test_kimi_k3_ends_its_turn(dialect: str | None) -> None:
    assert_reads(dialect, f"Hi<|close|>response<|sep|>{K3_END}", text="Hi", exact=True)
    assert_reads(dialect, f"Hi {K3_END}\n", text="Hi")
    assert_reads(dialect, K3_CALL + K3_END, PING)
    assert_reads(dialect, f"<|open|>response<|sep|>Hi<|close|>response<|sep|>{K3_CALL}{K3_END}", PING, text="Hi")


def test_kimi_k3_ends_its_turn_without_tools() -> None:
    assert_reads("kimi-k3", "<|open|>response<|sep|>Hi<|close|>response<|sep|><|close|> message <|sep|><|end_of_msg|>", text="Hi")


@pytest.mark.parametrize("settings", [{"dialect": "kimi-k2"}, {"model": "moonshotai/kimi-vl-a3b-thinking"}, {}])
def test_kimi_vl_reasons(settings: dict[str, str]) -> None:
    dialect = settings.get("dialect")
    assert_reads(dialect, "◁think▷Hm.\n◁/think▷Hi", text="Hi", reasoning="Hm.", model=settings.get("model", "m"))


LONGCAT = ("<longcat_tool_call>tide\n<longcat_arg_key>harbor</longcat_arg_key>\n"
           "<longcat_arg_value>Brest</longcat_arg_value>\n</longcat_tool_call>")


@pytest.mark.parametrize("dialect", ["longcat", UNKNOWN])
@pytest.mark.parametrize("raw", [
    LONGCAT, LONGCAT.replace("tide", "functions.tide"), LONGCAT.replace("\n", ""),
    LONGCAT.replace("</longcat_arg_key>", ""), LONGCAT.removesuffix("</longcat_tool_call>"), LONGCAT + "</longcat_s>",
    '<longcat_tool_call>tide\n<longcat_arg_key>{"harbor": "Brest"}</longcat_tool_call>',
    '<longcat_tool_call>tide\n<longcat_arg_key>{"harbor": "Brest"}',
    '<longcat_tool_call>tide\n<longcat_arg_key>{harbor: "Brest"}</longcat_tool_call>',
    '<longcat_tool_call>functions.tide({harbor: "Brest"})</longcat_tool_call>',
    '<longcat_tool_call>{"name": "tide", "arguments": {"harbor": "Brest"}}</longcat_tool_call>',
])
def test_longcat_writes_tag_pairs(dialect: str | None, raw: str) -> None:
    assert_reads(dialect, raw, BREST)


@pytest.mark.parametrize("dialect", ["llama3-json", "qwen3-coder", "prompted", UNKNOWN])
@pytest.mark.parametrize("raw", [
    '<function=tide>{"harbor": "Brest"}</function>', '<function=tide>\n{"harbor": "Brest"}\n</function>',
    '<function=tide>{"harbor": "Brest"}', '<function=tide{"harbor": "Brest"}</function>',
    '<tool_call><function=tide>{"harbor": "Brest"}</function></tool_call>',
    '<tool_call>\n<function=tide>\n{"harbor": "Brest"}\n</function>\n</tool_call>',
    "<function=tide>{'harbor': 'Brest'}</function>",
])
def test_a_function_tag_around_json(dialect: str | None, raw: str) -> None:
    assert_reads(dialect, raw, BREST)
    assert_reads(dialect, f"I look. {raw}\n\n{raw}", BREST, BREST, text="I look.")


@pytest.mark.parametrize("dialect", ["llama3-json", "qwen3-coder", UNKNOWN])
def test_a_function_tag_around_json_and_its_limits(dialect: str | None) -> None:
    assert_reads(dialect, '<function=tide>{"harbor": "a</function>b"}</function> Done.', ("tide", {"harbor": "a</function>b"}),
          text="Done.")
    assert_reads(dialect, "<function=ping>{}</function>", PING)
    assert_stays_text(dialect, '<function=nobody>{"harbor": "Brest"}</function>')
    assert_stays_text(dialect, "<function=tide>{ is how it begins.")
    assert_stays_text(dialect, "Write <function=tide> and JSON.")


def test_a_tag_with_json_in_other_families() -> None:
    assert_reads("minimax-m2", '<minimax:tool_call><invoke name="tide">{"harbor": "Brest"}</invoke></minimax:tool_call>', BREST)
    assert_reads("glm-4.6", '<tool_call>tide\n{"harbor": "Brest"}\n</tool_call>', BREST)


@pytest.mark.parametrize("dialect", ["glm-4.6", UNKNOWN])
def test_glm_falls_back_and_damages_pairs(dialect: str | None) -> None:
    assert_reads(dialect, '<tool_call>\n{"name": "tide", "arguments": {"harbor": "Brest"}}\n</tool_call>', BREST)
    for key in ("<arg_key>harbor</arg_key>", "<arg_key>harbor", "<arg_key>harbor</arg_key>\n"):
        assert_reads(dialect, f"<tool_call>tide\n{key}</tool_call>", ("tide", {}))
    assert_reads(dialect, "<tool_call>tide\n<arg_key>day</arg_key>\n<arg_key>harbor</arg_key>\n<arg_value>Brest</arg_value>\n"
                   "</tool_call>", BREST)
    assert_reads(dialect, "<tool_call>tide\n<arg_key>harbor</arg_key>\nNew York</arg_value>\n</tool_call>",
          ("tide", {"harbor": "New York"}))
    assert_reads(dialect, "<tool_call>tide\n<arg_key>harbor\n<arg_value>Brest</arg_value>\n</tool_call>", BREST)
    assert_stays_text(dialect, "A <tool_call>tide is none.")


@pytest.mark.parametrize("dialect", ["glm-4.6", UNKNOWN])
def test_glm_keys_may_hold_angle_brackets(dialect: str | None) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"param<1>": {"type": "string"}, "b": {"type": "string"}}}}}]
    one, two = "<arg_key>param<1></arg_key>\n<arg_value>x</arg_value>\n", "<arg_key>b</arg_key>\n<arg_value>y</arg_value>\n"
    for raw in (f"<tool_call>f\n{one}{two}</tool_call>", f"<tool_call>f\n{two}{one}</tool_call>"):
        assert read_calls(dialect, raw, tools=tools) == [("f", {"param<1>": "x", "b": "y"})]


def test_poolside_ends_its_turn() -> None:
    for dialect in ("glm-4.6", UNKNOWN):
        assert_reads(dialect, "Hello.</assistant>\n", text="Hello.")
        assert_reads(dialect, "<tool_call>ping\n</tool_call></assistant>", PING)
        assert_stays_text(dialect, "It ends with </assistant> there.")


@pytest.mark.parametrize("dialect", ["seed-oss", UNKNOWN])
@pytest.mark.parametrize(("written", "value"), [
    ("a\n", "a\n"), ("\na\n", "a"), ("a", "a"), ("a\r\n", "a\r\n"), ("\n\na\n\n", "\na\n"), ("a\n\n", "a\n\n"), ("", ""),
])
def test_a_last_newline_belongs_to_a_value_of_seed_oss(dialect: str | None, written: str, value: str) -> None:
    raw = f"<seed:tool_call><function=tide><parameter=harbor>{written}</parameter></function></seed:tool_call>"
    assert_reads(dialect, raw, ("tide", {"harbor": value}))


def test_qwen_frames_values_with_a_newline_at_each_end() -> None:
    assert_reads("qwen3-coder", "<tool_call><function=tide><parameter=harbor>a\n</parameter></function></tool_call>",
          ("tide", {"harbor": "a"}))


UNOFFERED = "<|start|>assistant to=container.exec<|channel|>commentary<|message|>ls -l<|call|>"


@pytest.mark.parametrize("dialect", ["gpt-oss", UNKNOWN])
def test_a_harmony_message_to_a_tool_that_is_not_offered_is_text_to_the_letter(dialect: str | None) -> None:
    assert_stays_text(dialect, UNOFFERED)
    assert_reads(dialect, f"<|channel|>analysis<|message|>hm<|end|>{UNOFFERED}", text=UNOFFERED, reasoning="hm")
    other = '<|start|>assistant<|channel|>commentary to=functions.nobody <|constrain|>json<|message|>{"a": 1}<|call|>'
    assert_stays_text(dialect, other)
    assert_reads(dialect, f"{other}<|start|>assistant<|channel|>final<|message|>Hi<|return|>", text=f"{other}Hi")


def test_a_first_harmony_header_to_a_tool_that_is_not_offered_is_text() -> None:
    assert_stays_text("gpt-oss", "to=functions.nobody<|channel|>commentary json<|message|>{}<|call|>")
    assert_reads("gpt-oss", "to=assistant<|channel|>final<|message|>Hello", text="Hello")


@pytest.mark.parametrize("dialect", ["gpt-oss", UNKNOWN])
def test_a_harmony_message_to_the_assistant_is_its_text(dialect: str | None) -> None:
    assert_reads(dialect, "<|start|>assistant<|channel|>commentary to=assistant<|channel|>final<|message|>Hello", text="Hello")
    assert_reads(dialect, "<|channel|>commentary to=assistant<|message|>Hello<|end|><|start|>assistant to=functions.ping"
                   "<|channel|>commentary<|message|>{}<|call|>", PING, text="Hello")
    assert_reads(dialect, "<|channel|>analysis to=assistant<|message|>Hm<|end|><|start|>assistant to=user<|message|>Hi",
          text="Hi", reasoning="Hm")


GRANITE = "ibm-granite/granite-3.2-8b-instruct"


@pytest.mark.parametrize("dialect", ["granite-3.1", UNKNOWN])
def test_granite_reasons_between_two_sentences(dialect: str | None) -> None:
    for one, two in (("Here is", "Here is"), ("Here's", "Here's"), ("Here is", "Here's")):
        assert_reads(dialect, f"{one} my thought process: A\n\n{two} my response: B", text="B", reasoning="A", model=GRANITE)
    assert_reads(dialect, 'Here is my thought process:\nA <tool_call>[{"name": "ping", "arguments": {}}]', PING,
          reasoning="A", model=GRANITE)
    raw = "So. Here is my thought process: A Here is my response: B"
    assert_stays_text(dialect, raw, model=GRANITE)
    assert_reads(dialect, "Here is my thought process: A", text="Here is my thought process: A", reasoning="A", model=GRANITE)


ARRAY = '[{"name": "tide", "arguments": {"harbor": "Brest"}}, {"name": "ping", "arguments": {}}]'


@pytest.mark.parametrize("settings", [{"dialect": "mistral"}, {"model": "mistralai/Mistral-7B-Instruct-v0.3"}])
def test_mistral_writes_a_bare_array_as_its_whole_answer(settings: dict[str, str]) -> None:
    dialect, model = settings.get("dialect"), settings.get("model", "m")
    for raw in (" " + ARRAY, ARRAY + "\n", ARRAY + "</s>"):
        assert_reads(dialect, raw, BREST, PING, model=model)
    for raw in (ARRAY + " is the list.", "So: " + ARRAY, ARRAY[:-1], '[{"name": "tide"}]', "[1, 2]", "[]",
                ARRAY.replace("ping", "nobody")):
        assert_stays_text(dialect, raw, model=model)


@pytest.mark.parametrize("dialect", ["phi-4-mini", UNKNOWN])
def test_phi_4_mini_writes_one_object(dialect: str | None) -> None:
    raw = 'functools{"name": "tide", "arguments": {"harbor": "Brest"}}'
    assert_reads(dialect, raw, BREST)
    assert_reads(dialect, f"I look.\n{raw}<|end|>", BREST, text="I look.")
    assert_reads(dialect, raw + raw, BREST, BREST)
    assert_stays_text(dialect, "import functools{x}")
    assert_stays_text(dialect, "the module `functools{x")


@pytest.mark.parametrize("settings", [{"dialect": "lfm2"}, {"model": "LiquidAI/LFM2-1.2B"}])
def test_lfm2_writes_a_bare_list(settings: dict[str, str]) -> None:
    dialect, model = settings.get("dialect"), settings.get("model", "m")
    assert_reads(dialect, '[tide(harbor="Brest")]', BREST, model=model)
    assert_stays_text(dialect, "[1, 2] and [tide](x)", model=model)


SAVE = [tool("save", ("path", "content", "force"), path="string", content="string", force="boolean")]
SAVED = {"path": "/tmp/a, b", "content": "x\n{y}", "force": True}
WHOLE = [
    ("qwen3-coder", '<function=save>{"path": "/tmp/a, b", "content": "x\\n{y}", "force": true}</function>'),
    ("qwen3-coder", '<tool_call><function=save{"path": "/tmp/a, b", "content": "x\\n{y}", "force": true}</function></tool_call>'),
    ("glm-4.6", '<tool_call>save\n{"path": "/tmp/a, b", "content": "x\\n{y}", "force": true}\n</tool_call>'),
    ("longcat", "<longcat_tool_call>save\n<longcat_arg_key>path</longcat_arg_key>\n<longcat_arg_value>/tmp/a, b</longcat_arg_value>\n"
                "<longcat_arg_key>content</longcat_arg_key>\n<longcat_arg_value>x\n{y}</longcat_arg_value>\n"
                "<longcat_arg_key>force</longcat_arg_key>\n<longcat_arg_value>true</longcat_arg_value>\n</longcat_tool_call>"),
    ("longcat", '<longcat_tool_call>save\n<longcat_arg_key>{"path": "/tmp/a, b", "content": "x\\n{y}", "force": true}'
                "</longcat_tool_call>"),
    ("seed-oss", "<seed:tool_call><function=save><parameter=path>/tmp/a, b</parameter><parameter=content>x\n{y}</parameter>"
                 "<parameter=force>true</parameter></function></seed:tool_call>"),
    ("roo-xml", "<save>\n<path><![CDATA[/tmp/a, b]]></path>\n<content>\nx\n{y}\n</content>\n<force>true</force>\n</save>"),
    ("prompted", "<save>\n<path>/tmp/a, b</path>\n<content><![CDATA[x\n{y}]]></content>\n<force>true</force>\n</save>"),
    ("gemma-4", '<|tool_call>call:save{path:<|"|>/tmp/a, b<|"|>,content:<|"|>x\n{y}<|"|>,force:true}<tool_call|>'),
    ("gemma-4", '<|tool_call>call:save{force:true,path:/tmp/a, b,content:x\n{y}}<tool_call|>'),
    ("phi-4-mini", 'functools{"name": "save", "arguments": {"path": "/tmp/a, b", "content": "x\\n{y}", "force": true}}'),
    ("mistral", '[{"name": "save", "arguments": {"path": "/tmp/a, b", "content": "x\\n{y}", "force": true}}]'),
    ("lfm2", '[save(path="/tmp/a, b", content="x\\n{y}", force=True)]'),
]


@pytest.mark.parametrize(("dialect", "raw"), WHOLE)
@pytest.mark.parametrize("finish", ["stop", "length"])
def test_half_a_call_is_never_whole(dialect: str, raw: str, finish: str) -> None:
    for size in range(len(raw) + 1):
        got = send_text(raw[:size], SAVE, finish=finish, dialect=dialect)
        if got["finish_reason"] == "tool_calls" or (size == len(raw) and finish == "stop"):
            assert [(name, json.loads(text)) for name, text in got["tool_calls"]] == [("save", SAVED)], raw[:size]
        for _, text in got["tool_calls"]:
            try:
                assert json.loads(text) == SAVED, raw[:size]
            except json.JSONDecodeError:
                assert got["finish_reason"] != "tool_calls"
