"""Responses made of addressed messages: Muse Glimmer (ATEM), Functionary, Inkling."""

from __future__ import annotations

import pytest

from tests.model_text.checks import assert_breaks_off, assert_reads, assert_stays_text
from tests.model_text.exchange import cuts, send_text, tool

BREST = ("tide", {"harbor": "Brest"})
JSON = '{"harbor": "Brest"}'
MUSE_MODELS = [("muse-glimmer", "m"), (None, "meta/muse-glimmer-2"), (None, "nobody/knows-it")]


def atem(name: str, **parameters: str) -> str:
    inner = "".join(f'<atem:parameter name="{key}">{value}</atem:parameter>\n' for key, value in parameters.items())
    return (f'<atem:function_calls>\n<atem:invoke name="{name}">\n{inner}</atem:invoke>\n</atem:function_calls>')


def muse_call(name: str, **parameters: str) -> str:
    return f"<|start|>assistant to={name}<|message|>{atem(name, **parameters)}"


@pytest.mark.parametrize(("dialect", "model"), MUSE_MODELS)
class TestMuse:
    """Also as an unknown model, whose marks look like gpt-oss's."""

    def test_reasoning_and_calls(self, dialect: str | None, model: str) -> None:
        raw = (" to=self<|message|>I check both.<|eom|>" + muse_call("tide", harbor="Brest") + "<|eom|>"
               + muse_call("valve", id="3", locked="true", tags='["a"]') + "<|eot|>")
        assert_reads(dialect, raw, BREST, ("valve", {"id": 3, "locked": True, "tags": ["a"]}), reasoning="I check both.",
              model=model)

    def test_reasoning_and_text(self, dialect: str | None, model: str) -> None:
        raw = " to=self<|message|>Hm.<|eom|><|start|>assistant to=user<|message|>High at 6.<|eot|>"
        assert_reads(dialect, raw, reasoning="Hm.", text="High at 6.", exact=True, model=model)
        assert_reads(dialect, "to=user<|message|>High at 6.<|eot|>", text="High at 6.", exact=True, model=model)

    def test_a_message_without_its_end(self, dialect: str | None, model: str) -> None:
        raw = " to=self<|message|>Hm." + muse_call("tide", harbor="Brest") + "<|start|>assistant to=user<|message|>So."
        assert_reads(dialect, raw, BREST, reasoning="Hm.", text="So.", model=model)

    def test_markup_of_calls_for_the_user_or_in_reasoning_is_text(self, dialect: str | None, model: str) -> None:
        block = atem("tide", harbor="Brest")
        assert_reads(dialect, f"<|start|>assistant to=user<|message|>So: {block} is a call.<|eot|>",
              text=f"So: {block} is a call.", exact=True, model=model)
        assert_reads(dialect, f"<|start|>assistant to=user<|message|>{block}<|eot|>", text=block, exact=True, model=model)
        assert_reads(dialect, f" to=self<|message|>I could {block} but no.<|eom|><|start|>assistant to=user<|message|>42<|eot|>",
              reasoning=f"I could {block} but no.", text="42", model=model)
        assert_reads(dialect, f" to=self<|message|>Maybe {block} but wait", reasoning=f"Maybe {block} but wait", model=model)

    def test_a_tool_that_was_not_offered(self, dialect: str | None, model: str) -> None:
        assert_stays_text(dialect, muse_call("exec", cmd="ls") + "<|eom|>", model=model)

    def test_without_the_header_a_block_is_a_call(self, dialect: str | None, model: str) -> None:
        assert_reads(dialect, "Let me look.\n" + atem("tide", harbor="Brest"), BREST, text="Let me look.", model=model)

    def test_doubled_names(self, dialect: str | None, model: str) -> None:
        assert_reads(dialect, muse_call("tide.tide", harbor="Brest"), BREST, model=model)
        assert_stays_text(dialect, muse_call("sea.tide", harbor="Brest"), model=model)

    def test_markup_in_a_value(self, dialect: str | None, model: str) -> None:
        value = 'see </atem:parameter> and <atem:parameter name="x">'
        assert_reads(dialect, muse_call("tide", harbor=value) + "<|eot|>", ("tide", {"harbor": value}), model=model)


def test_muse_cut_off() -> None:
    assert_breaks_off("muse-glimmer", muse_call("tide", harbor="Brest")[:-60], "tide")
    assert_reads("muse-glimmer", "to=user<|message|>The tide is", text="The tide is", upstream="length", finish="length")


@pytest.mark.parametrize("dialect", ["functionary-v2", "functionary-v3.2"])
def test_functionary(dialect: str) -> None:
    def message(to: str, body: str, first: bool = False) -> str:
        if dialect == "functionary-v3.2":
            return ("" if first else ">>>") + f"{to}\n{body}"
        return ("" if first else "<|from|>assistant\n<|recipient|>") + f"{to}\n<|content|>{body}"

    assert_reads(dialect, message("tide", JSON, first=True), BREST)
    assert_reads(dialect, message("tide", JSON, first=True) + "\n" + message("ping", "{}"), BREST, ("ping", {}))
    assert_reads(dialect, message("all", "I look.", first=True) + message("tide", JSON), BREST, text="I look.", exact=True)
    assert_reads(dialect, message("all", "It is high.", first=True), text="It is high.", exact=True)
    assert_stays_text(dialect, message("exec", JSON, first=True))
    assert_stays_text(dialect, "all is well, all is well")
    assert_stays_text(dialect, "tide tables are long")
    assert_stays_text(dialect, "Well.\ntide\nhigh")
    for text in ("Done", "tide", "all"):
        assert_reads(dialect, text, text=text, upstream="length", finish="length", exact=True)
    assert_breaks_off(dialect, message("tide", '{"harbor": "Bre', first=True), "tide")


def test_functionary_3_1() -> None:
    assert_reads("functionary-v3.1", f"I look.<function=tide>{JSON}</function><function=ping>{{}}</function><|eom_id|>", BREST,
          ("ping", {}), text="I look.")
    assert_stays_text("functionary-v3.1", f"<function=exec>{JSON}</function>")
    assert_stays_text("functionary-v3.1", "<function=tide> takes a harbor")
    assert_breaks_off("functionary-v3.1", '<function=tide>{"harbor": "Bre', "tide")


class TestInkling:
    def test_frames(self) -> None:
        call = 'tide<|content_invoke_tool_json|>{"name": "tide", "args": {"harbor": "Brest"}}<|end_message|>'
        end = "<|content_model_end_sampling|>"
        thought = "<|content_thinking|>Hm.<|end_message|>"
        assert_reads("inkling", call + end, BREST)
        assert_reads("inkling", f"{thought}<|message_model|>{call}<|message_model|>{call}{end}", BREST, BREST, reasoning="Hm.")
        assert_reads("inkling", f"<|content_text|>High.<|end_message|>{end}", text="High.", exact=True)
        assert_reads("inkling", f"{thought}<|message_model|><|content_text|>I look.<|end_message|><|message_model|>{call}{end}",
              BREST, reasoning="Hm.", text="I look.", exact=True)
        assert_reads("inkling", f"<|content_thinking|>Hm.<|content_text|>High.{end}", reasoning="Hm.", text="High.")
        assert_reads(None, f"{thought}<|message_model|>{call}{end}", BREST, reasoning="Hm.")

    def test_no_call(self) -> None:
        unknown = '<|message_model|>exec<|content_invoke_tool_json|>{"name": "exec", "args": {}}<|end_message|>'
        assert_stays_text("inkling", unknown)
        assert_breaks_off("inkling", 'tide<|content_invoke_tool_json|>{"name": "tide", "args": {"harbor": "Bre', "tide")
        assert_reads("inkling", "tide is high", text="tide is high", upstream="length", finish="length")


def test_functionary_gives_a_tool_its_code_as_it_is() -> None:
    """A tool with one string gets the text of the message; only a token shows that the text is complete."""
    tools = [tool("python", code="string")]
    code = 'python\nprint("a")\nx = {1}'
    for raw, stop in ((code, "<|eot_id|>"), (f"all\nSo.>>>{code}", "<|eot_id|>"), (code, "")):
        for pieces in cuts(raw + stop):
            got = send_text(pieces, tools, dialect="functionary-v3.2")
            if stop:
                assert got["tool_calls"] == [["python", '{"code": "print(\\"a\\")\\nx = {1}"}']]
            assert got["finish_reason"] == ("tool_calls" if stop else "length")
