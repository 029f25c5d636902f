"""Tokens that end a turn are dropped at the end of the text; before more text they are text."""

from __future__ import annotations

import pytest

from extproc.dialects.registry import DIALECTS
from tests.model_text.checks import assert_reads, assert_stays_text

ENDS = [(name, token) for name, dialect in sorted(DIALECTS.items()) for token in dialect.turn_ends]
MODELS = [("LiquidAI/LFM2-1.2B", "<|im_end|>"), ("allenai/Olmo-3-7B-Instruct", "<|im_end|>"),
          ("Qwen/Qwen3-8B", "<|im_end|>"), ("moonshotai/kimi-k2", "<|im_end|>"),
          ("ibm-granite/granite-4.0-h-small", "<|end_of_text|>"), ("ibm-granite/granite-3.1-8b", "<|end_of_text|>"),
          ("meta-llama/llama-3.1-8b", "<|eot_id|>"), ("nobody/knows-it", "<|im_end|>")]


@pytest.mark.parametrize(("dialect", "token"), ENDS)
class TestEveryDialect:
    """One rule for all dialects."""

    def test_at_the_end_it_is_dropped(self, dialect: str, token: str) -> None:
        assert_reads(dialect, f"Done.{token}", text="Done.", exact=True)
        assert_reads(dialect, f"Done.\n{token}\n{token}\n", text="Done.")
        assert_reads(dialect, f"Done.{token}", text="Done.", upstream="length", finish="length", exact=True)
        assert_reads(dialect, token)

    def test_in_a_text_it_is_text(self, dialect: str, token: str) -> None:
        assert_stays_text(dialect, f"The token {token} ends a turn.")
        assert_stays_text(dialect, f"{token} and {token}{token}\n\n is what it writes")
        assert_stays_text(dialect, f"It writes `{token}`.")
        assert_stays_text(dialect, f"```\n{token}\n```")
        assert_reads(dialect, f"The token {token} ends it.{token}", text=f"The token {token} ends it.", exact=True)

    def test_in_reasoning(self, dialect: str, token: str) -> None:
        opener, closer = DIALECTS[dialect].think[0]
        assert_reads(dialect, f"{opener}Is it {token} or not?{token}\n{closer}Yes.{token}",
              text="Yes.", reasoning=f"Is it {token} or not?")


@pytest.mark.parametrize(("model", "token"), MODELS)
def test_models(model: str, token: str) -> None:
    assert_reads(None, f"Done.{token}", text="Done.", exact=True, model=model)
    assert_stays_text(None, f"The token {token} ends a turn.", model=model)


def test_before_a_call_it_is_dropped() -> None:
    call = '<tool_call>\n{"name": "tide", "arguments": {"harbor": "Brest"}}\n</tool_call>'
    brest = ("tide", {"harbor": "Brest"})
    assert_reads("hermes", f"I look.<|im_end|>\n{call}<|im_end|>", brest, text="I look.")
    assert_reads("hermes", f"{call}<|im_end|>\n{call}<|im_end|>\n", brest, brest)
    assert_stays_text(None, "So <|im_end|> {or so}.")


def test_white_space_behind_it_belongs_to_the_text() -> None:
    assert_stays_text("hermes", "a <|im_end|>\n\n  b <|im_end|> \n <|im_end|> \n c")
    assert_stays_text("hermes", "a <|im_end|>" + " " * 70_000 + "b")
