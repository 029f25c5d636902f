"""Arrays of call objects (xLAM, Phi-4-mini, Jamba, Granite) and InternLM2's single ones."""

from __future__ import annotations

import pytest

from tests.model_text.checks import assert_breaks_off, assert_reads, assert_stays_text

BREST = ("tide", {"harbor": "Brest"})
PING = ("ping", {})
ONE = '{"name": "tide", "arguments": {"harbor": "Brest"}}'
TWO = f'[{ONE}, {{"name": "ping", "arguments": {{}}}}]'
NOBODY = '[{"name": "nobody", "arguments": {}}]'
FRAMES = [("xlam", "", ""), ("xlam", "```json\n", "\n```"), ("xlam", "```\n", "\n```"), ("xlam", "[TOOL_CALLS]", ""),
          ("xlam", "<tool_call>", "</tool_call>"), ("phi-4-mini", "functools", ""),
          ("phi-4-mini", "<|tool_call|>", "<|/tool_call|>"),
          ("jamba", "<tool_calls>", "</tool_calls>"), ("granite-3.0", "<|tool_call|>", ""),
          ("granite-3.1", "<tool_call>", ""), ("granite-3.1", "<|tool_call|> ", "<|end_of_text|>")]


@pytest.mark.parametrize(("dialect", "opener", "closer"), FRAMES)
class TestArrays:
    """Rules that do not depend on the text around the array."""

    def test_calls(self, dialect: str, opener: str, closer: str) -> None:
        assert_reads(dialect, f"{opener}[{ONE}]{closer}", BREST)
        assert_reads(dialect, f"{opener}{TWO}{closer}", BREST, PING)
        assert_reads(dialect, f"{opener}[\n {ONE.replace('arguments', 'parameters')}\r\n]{closer}", BREST)

    def test_text_after_is_content(self, dialect: str, opener: str, closer: str) -> None:
        assert_reads(dialect, f"{opener}{TWO}{closer}\nSo be it [1].", BREST, PING, text="So be it [1].")

    def test_nested_brackets(self, dialect: str, opener: str, closer: str) -> None:
        raw = '[{"name": "valve", "arguments": {"id": 1, "tags": ["a]", "}b"], "limits": {"x": [[1], {"y": []}]}}}]'
        assert_reads(dialect, f"{opener}{raw}{closer}",
              ("valve", {"id": 1, "tags": ["a]", "}b"], "limits": {"x": [[1], {"y": []}]}}))

    def test_unknown_names_stay_text(self, dialect: str, opener: str, closer: str) -> None:
        if "<|end_of_text|>" not in closer:
            assert_stays_text(dialect, f"{opener}{NOBODY}{closer}")

    def test_cut_off(self, dialect: str, opener: str, closer: str) -> None:
        assert_breaks_off(dialect, f"{opener}[{ONE[:-5]}", "tide")
        assert_breaks_off(dialect, f"{opener}[{ONE[:-2]}", "tide")

    def test_reasoning_before(self, dialect: str, opener: str, closer: str) -> None:
        assert_reads(dialect, f"<think>\nBrest.\n</think>\n{opener}[{ONE}]{closer}", BREST, reasoning="Brest.")


@pytest.mark.parametrize("raw", [
    "[1, 2, 3]", "[a](b) link", "[", '["tide"]', '[{"title": "x"}]', "See:\n```json\n[1]\n```\nand\n```\n[2]\n```\n",
    "```json\n" + NOBODY + "\n```\nText [1].\n```python\nfunctools.reduce\n```", "Later: " + TWO,
])
def test_other_lists_stay_text(raw: str) -> None:
    assert_stays_text("xlam", raw)


def test_xlam_behind_text() -> None:
    assert_reads("xlam", f"I look.\n```json\n{TWO}\n```\nDone.", BREST, PING, text="I look.\nDone.")


@pytest.mark.parametrize(("dialect", "raw"), [
    ("phi-4-mini", "functools[0] and functools.reduce"), ("phi-4-mini", "the functools[partial] module"),
    ("granite-3.0", "The token <|tool_call|> opens."), ("granite-3.1", "A <tool_call> without a list."),
    ("granite-3.1", "<tool_call>" + ONE), ("jamba", "The tag <tool_calls> opens."),
    ("jamba", "```\n<tool_calls>" + TWO + "</tool_calls>\n```"), ("internlm2", "<|action_start|> begins an action."),
    ("internlm2", "<|action_start|><|interpreter|>print(1)<|action_end|>"),
    ("granite-20b-fc", "The <function_call> tag."),
    ("granite-20b-fc", '<function_call> {"name": "nobody", "arguments": {}}'),
])
def test_markers_without_calls_stay_text(dialect: str, raw: str) -> None:
    assert_stays_text(dialect, raw)


def test_granite_20b_repeats_its_marker() -> None:
    raw = f'<function_call> {ONE} <function_call> {{"name": "ping", "arguments": {{}}}}'
    assert_reads("granite-20b-fc", raw, BREST, PING)
    assert_reads("granite-20b-fc", "First. " + raw, BREST, PING, text="First.")
    assert_breaks_off("granite-20b-fc", raw[:40], "tide")


def test_granite_4_may_write_arguments_as_a_string() -> None:
    assert_reads("granite4", '<tool_call>\n{"name": "tide", "arguments": "{\\"harbor\\": \\"Brest\\"}"}\n</tool_call>', BREST)


@pytest.mark.parametrize("raw", [
    '<|action_start|><|plugin|>{"name": "tide", "parameters": {"harbor": "Brest"}}<|action_end|>',
    'I look.<|action_start|> <|plugin|>\n{"name": "tide", "arguments": {"harbor": "Brest"}}\n<|action_end|><|im_end|>',
    '<|action_start|><|plugin|>{"name": "tide", "parameters": {"harbor": "Brest"}}',
])
def test_internlm_2(raw: str) -> None:
    assert_reads("internlm2", raw, BREST, text="I look." if raw[0] == "I" else "")


@pytest.mark.parametrize("raw", ["functools" + TWO, "<|tool_call|>" + TWO, "<tool_calls>" + TWO + "</tool_calls>",
                                 "<tool_call>" + TWO + "</tool_call>"])
def test_models_that_nobody_knows(raw: str) -> None:
    assert_reads(None, raw, BREST, PING)


def test_bare_and_fenced_arrays_of_such_models_are_text() -> None:
    assert_stays_text(None, TWO)
    assert_stays_text(None, f"```json\n{TWO}\n```")


# ------------------------------------------------------------------------------------------------------------- Apertus


def apertus(array: str) -> str:
    return f"<|tools_prefix|>{array}<|tools_suffix|>"


KEYED = apertus('[{"tide": {"harbor": "Brest"}}, {"ping": {}}]')


@pytest.mark.parametrize(("dialect", "model"), [("apertus", "m"), (None, "m"), (None, "swiss-ai/Apertus-8B-Instruct-2509")])
class TestNamesAsKeys:
    """Apertus: the name is the key of the arguments."""

    def test_calls(self, dialect: str | None, model: str) -> None:
        assert_reads(dialect, KEYED, BREST, PING, model=model)
        assert_reads(dialect, f"I look.\n{KEYED}\nDone.", BREST, PING, text="I look.\nDone.", model=model)
        assert_reads(dialect, KEYED + KEYED, BREST, PING, BREST, PING, model=model)
        assert_reads(dialect, apertus('[ {\n"tide" : {"harbor": "Brest"}} ,\n{"ping": null} ]\n'), BREST, PING, model=model)

    def test_values_are_data(self, dialect: str | None, model: str) -> None:
        raw = '[{"tide": {"harbor": "}]<|tools_suffix|> <|tools_prefix|>[{"}}, {"valve": {"id": "3", "tags": ["]"]}}]'
        assert_reads(dialect, apertus(raw), ("tide", {"harbor": "}]<|tools_suffix|> <|tools_prefix|>[{"}),
              ("valve", {"id": 3, "tags": ["]"]}), model=model)

    def test_damage(self, dialect: str | None, model: str) -> None:
        assert_reads(dialect, KEYED.removesuffix("<|tools_suffix|>"), BREST, PING, model=model)
        assert_reads(dialect, apertus('[{"tide": {"harbor": "Brest"}, "ping": {}}]'), BREST, PING, model=model)
        assert_reads(dialect, apertus('[{"tide": {"harbor": "Brest"}, "nobody": {"a": 1}}]'), BREST, model=model)
        assert_reads(dialect, apertus('[{"tide": {\'harbor\': \'Brest\'}}]'), BREST, model=model)
        assert_reads(dialect, apertus('[{"ping": {}}, {"nobody": {}}]'), PING, text='{"nobody": {}}', model=model)

    @pytest.mark.parametrize("raw", [
        "The token <|tools_prefix|> opens.", "<|tools_prefix|>[1, 2]", "<|tools_prefix|>[invalid json", "<|tools_prefix|>[{}]",
        '<|tools_prefix|>[{"nobody": {"harbor": "Brest"}}]', f"```\n{KEYED}\n```", "<|tools_prefix|>[]"])
    def test_other_text_stays(self, dialect: str | None, model: str, raw: str) -> None:
        assert_stays_text(dialect, raw, model=model)

    def test_thoughts(self, dialect: str | None, model: str) -> None:
        thought = "<|inner_prefix|>Brest, then.<|inner_suffix|>"
        assert_reads(dialect, thought + KEYED, BREST, PING, reasoning="Brest, then.", model=model)
        assert_reads(dialect, thought + "High.<|assistant_end|>", text="High.", reasoning="Brest, then.", model=model)
        assert_reads(dialect, "<|inner_prefix|>Brest, then." + KEYED, BREST, PING, reasoning="Brest, then.", model=model)


def test_names_as_keys_cut_off() -> None:
    for end in range(len("<|tools_prefix|>[{\"tide\": {"), KEYED.index("}}, ")):
        assert_breaks_off("apertus", KEYED[:end], "tide")
