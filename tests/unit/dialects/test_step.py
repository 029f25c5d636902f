"""Step3: invokes between tokens with full-width bars, which DeepSeek also writes by mistake."""

from __future__ import annotations

import pytest

from tests.model_text.checks import assert_breaks_off, assert_reads, assert_stays_text

BREST = ("tide", {"harbor": "Brest"})
PING = ("ping", {})
BEGIN, END, SEP = "<｜tool_calls_begin｜>", "<｜tool_calls_end｜>", "<｜tool_sep｜>"


def invoke(name: str, **values: str) -> str:
    pairs = "".join(f'<steptml:parameter name="{key}">{text}</steptml:parameter>' for key, text in values.items())
    return f'<steptml:invoke name="{name}">{pairs}</steptml:invoke>'


def call(invoked: str, word: str = "function" + SEP) -> str:
    return f"<｜tool_call_begin｜>{word}{invoked}<｜tool_call_end｜>"


TIDE = invoke("tide", harbor="Brest")
ONE = BEGIN + call(TIDE) + END


@pytest.mark.parametrize("dialect", ["step3", None])
class TestCalls:
    """For a known and an unknown model."""

    def test_one_and_several(self, dialect: str | None) -> None:
        assert_reads(dialect, ONE, BREST)
        assert_reads(dialect, f"I look.\n{ONE}", BREST, text="I look.")
        assert_reads(dialect, BEGIN + call(TIDE) + call(invoke("ping")) + END + "\nDone.", BREST, PING, text="Done.")
        assert_reads(dialect, f"{BEGIN}\n{call(TIDE)}\n{call(invoke('ping'))}\n{END}", BREST, PING)
        assert_reads(dialect, ONE + ONE, BREST, BREST)

    def test_newlines_between_the_parameters(self, dialect: str | None) -> None:
        raw = invoke("tide", harbor="Brest", day="Mon").replace("><", ">\n<")
        assert_reads(dialect, BEGIN + "\n" + call("\n" + raw + "\n") + "\n" + END, ("tide", {"harbor": "Brest", "day": "Mon"}))

    def test_types_come_from_the_schema(self, dialect: str | None) -> None:
        raw = call(invoke("valve", id="3", opening="0.5", locked="true", tags='["a"]', operator="null"))
        assert_reads(dialect, BEGIN + raw + END,
              ("valve", {"id": 3, "opening": 0.5, "locked": True, "tags": ["a"], "operator": None}))

    @pytest.mark.parametrize("value", ["a < b", " a\n", "", "</steptml:invoke> is a tag", ONE + ".", "</steptml:x>"])
    def test_values_are_data(self, dialect: str | None, value: str) -> None:
        assert_reads(dialect, BEGIN + call(invoke("tide", harbor=value)) + END, ("tide", {"harbor": value}))

    @pytest.mark.parametrize("raw", [
        f"{BEGIN} opens a section.", f"```\n{ONE}\n```", "The tag <steptml:invoke name= begins a call.",
        invoke("nobody"), "<steptml:invoke name=tide", f"`{ONE}`",
    ])
    def test_other_text_stays(self, dialect: str | None, raw: str) -> None:
        assert_stays_text(dialect, raw)


@pytest.mark.parametrize("dialect", ["step3", None])
def test_tokens_are_missing(dialect: str | None) -> None:
    assert_reads(dialect, BEGIN + call(TIDE, "") + SEP + call(invoke("ping"), "") + END, BREST, PING)
    for raw in (call(TIDE), TIDE, BEGIN + TIDE + END, ONE.removesuffix(END),
                BEGIN + call(TIDE).removesuffix("</steptml:invoke><｜tool_call_end｜>")):
        assert_reads(dialect, raw, BREST)


def test_deepseeks_misspelt_tokens_are_still_read() -> None:
    raw = f'{BEGIN}<｜tool_call_begin｜>function{SEP}tide\n```json\n{{"harbor": "Brest"}}\n```<｜tool_call_end｜>{END}'
    assert_reads(None, raw, BREST)
    assert_reads("deepseek-v3", raw, BREST)
    for alone in (raw.removeprefix(BEGIN).removesuffix(END), raw.removeprefix(BEGIN)):  # without the section
        assert_reads(None, alone, BREST)
        assert_reads("deepseek-v3", alone, BREST)


def test_entries_that_call_nothing_are_text() -> None:
    raw = BEGIN + call("hmm", "thought" + SEP) + call(TIDE) + END
    assert_reads("step3", raw, BREST, text=f"{BEGIN}<｜tool_call_begin｜>thoughthmm")


def test_cut_off() -> None:
    assert_breaks_off("step3", ONE[:ONE.index("st</")], "tide")
    assert_breaks_off("step3", ONE[:ONE.index("</steptml:invoke")], "tide")
    assert_reads("step3", ONE[:30], upstream="length", finish="length")


def test_the_prompt_opened_the_reasoning_of_known_models() -> None:
    for model in ("stepfun-ai/step3", "step-3"):
        assert_reads(None, f"Brest.\n</think>\n{ONE}", BREST, reasoning="Brest.", model=model)
        assert_reads(None, "It is high.", text="It is high.", reasoning="It is high.", model=model)


def test_a_checkpoint_of_a_training_is_no_step3() -> None:
    for model in ("my-sft-step3000", "me/tuned-step-300"):
        assert_reads(None, "It is high.", text="It is high.", model=model)


def test_step_3_5_writes_as_qwen_coder() -> None:
    raw = "<tool_call>\n<function=tide>\n<parameter=harbor>\nBrest\n</parameter>\n</function>\n</tool_call>"
    assert_reads(None, raw, BREST, model="stepfun/step-3.5-flash")
