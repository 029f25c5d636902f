"""Call objects between tags and tokens: Cohere, Nemotron, MiniMax M1, Hunyuan A13B, Apriel, ERNIE, GigaChat, Solar Open
100B, Sarashina; MiniCPM5's elements."""

from __future__ import annotations

import json

import pytest

from tests.model_text.checks import assert_breaks_off, assert_reads, assert_stays_text

BREST = ("tide", {"harbor": "Brest"})
JSON = '{"name": "tide", "arguments": {"harbor": "Brest"}}'
PING = '{"name": "ping", "arguments": {}}'


class TestCommandA:
    ONE = '{"tool_call_id": "0", "tool_name": "tide", "parameters": {"harbor": "Brest"}}'
    TWO = '{"tool_call_id": "1", "tool_name": "ping", "parameters": {}}'

    @pytest.mark.parametrize("model", ["CohereLabs/c4ai-command-r7b-12-2024", "CohereLabs/command-a-reasoning-08-2025",
                                       "nobody/knows-it"])
    def test_actions(self, model: str) -> None:
        thought = "<|START_THINKING|> I look.<|END_THINKING|>"
        for body in (f"\n[\n    {self.ONE},\n    {self.TWO}\n]\n", f"[{self.ONE}, {self.TWO}]"):
            assert_reads(None, f"{thought}<|START_ACTION|>{body}<|END_ACTION|><|END_OF_TURN_TOKEN|>", BREST, ("ping", {}),
                  reasoning="I look.", model=model)
        assert_reads(None, f"{thought}<|START_ACTION|>{self.ONE}<|END_ACTION|>", BREST, reasoning="I look.", model=model)

    @pytest.mark.parametrize("kind", ["RESPONSE", "TEXT"])
    def test_responses(self, kind: str) -> None:
        said = f"<|START_{kind}|>High.<|END_{kind}|><|END_OF_TURN_TOKEN|>"
        assert_reads("command-a", said, text="High.", exact=True)
        assert_reads("command-a", f"<|START_THINKING|>Hm.<|END_THINKING|>\n{said}", reasoning="Hm.", text="High.", exact=True)
        assert_reads(None, f"Hm.<|END_THINKING|>{said}", reasoning="Hm.", text="High.", model="command-a-reasoning-08-2025")
        assert_reads(None, f"Hm.{said}", reasoning="Hm.", text="High.", model="command-a-reasoning-08-2025")
        assert_reads(None, said, text="High.", model="command-a-reasoning-08-2025")
        assert_reads("command-a", f"<|START_THINKING|>Hm.{said}", reasoning="Hm.", text="High.")

    def test_no_call(self) -> None:
        assert_stays_text("command-a", '<|START_ACTION|>[{"tool_name": "exec", "parameters": {}}]<|END_ACTION|>')
        assert_breaks_off("command-a", '<|START_ACTION|>[{"tool_name": "tide", "parameters": {"harbor": "Br', "tide")


class TestCommandR:
    def action(self, *calls: tuple[str, dict[str, object]], gap: str = " ") -> str:
        listed = json.dumps([{"tool_name": name, "parameters": values} for name, values in calls], indent=4)
        return f"Action:{gap}```json\n{listed}\n```"

    @pytest.mark.parametrize("gap", [" ", "", "\n"])
    def test_actions(self, gap: str) -> None:
        raw = self.action(("tide", {"harbor": "Brest"}), ("ping", {}), gap=gap)
        assert_reads(None, f"Plan: look.\n{raw}<|END_OF_TURN_TOKEN|>", BREST, ("ping", {}), text="Plan: look.",
              model="CohereForAI/c4ai-command-r-plus")

    def test_it_answers_by_itself(self) -> None:
        assert_reads("command-r", self.action(("directly-answer", {})) + "\nHigh.", text="High.")
        assert_reads("command-r", self.action(("directly_answer", {"answer": "High."})), text="High.")

    def test_citations(self) -> None:
        for model in ("CohereLabs/c4ai-command-r7b-12-2024", "command-a-03-2025", "command-r-plus"):
            assert_reads(None, "<|START_THINKING|>A <co>rainbow</co: 0:[1]>.<|END_THINKING|>\n<|START_RESPONSE|>foo <co>bar"
                  "</co: 0:[1,2],1:[3,4]> and <co: 0>baz</co: 0>.<|END_RESPONSE|>", reasoning="A rainbow.",
                  text="foo bar and baz.", exact=True, model=model)
        assert_stays_text("command-r", "The company Acme </co: x> and `<co>` too")

    def test_text(self) -> None:
        assert_stays_text("command-r", self.action(("exec", {"cmd": "ls"})))
        assert_stays_text("command-r", "Action: ```json\n[1, 2]\n``` and so on")
        assert_stays_text("command-r", "Action: take the boat")


def test_nemotron() -> None:
    for model in ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", "nvidia/Llama-3_3-Nemotron-Super-49B-v1_5", "nobody/x"):
        for raw in (f"<TOOLCALL>[{JSON}, {PING}]</TOOLCALL>", f"<TOOLCALL>{JSON}</TOOLCALL>\n<TOOLCALL>[{PING}]</TOOLCALL>"):
            assert_reads(None, f"<think>\nHm.\n</think>\nI look.{raw}", BREST, ("ping", {}), reasoning="Hm.", text="I look.",
                  model=model)
    assert_stays_text("nemotron", '<TOOLCALL>[{"name": "exec", "arguments": {}}]</TOOLCALL>')
    assert_breaks_off("nemotron", '<TOOLCALL>[{"name": "tide", "arguments": {"harbor": "Br', "tide")


class TestToolCalls:
    """`<tool_calls>` and the tags around the text."""

    @pytest.mark.parametrize("dialect", ["minimax-m1", "hunyuan-a13b", "apriel", "jamba", None])
    def test_objects_and_arrays(self, dialect: str | None) -> None:
        for body in (f"[{JSON}, {PING}]", f"\n{JSON}\n{PING}\n", f"\n{JSON}\n{PING}"):
            closer = "" if body.endswith("}") else "</tool_calls>"
            assert_reads(dialect, f"I look. <tool_calls>{body}{closer}", BREST, ("ping", {}), text="I look.")

    def test_an_object_that_is_no_call_is_text(self) -> None:
        for other in ("{invalid json here}", '{"name": "exec", "arguments": {}}'):
            assert_reads("minimax-m1", f"<tool_calls>\n{JSON}\n{other}\n{PING}\n</tool_calls>", BREST, ("ping", {}), text=other)

    def test_hunyuan_wraps_its_answer(self) -> None:
        assert_reads("hunyuan-a13b", "<think>\nHm.\n</think>\n<answer>\nHigh.\n</answer>", reasoning="Hm.", text="High.",
              exact=True)
        assert_reads("hunyuan-a13b", f"<answer>I look. <tool_calls>[{JSON}]</tool_calls>\n</answer>", BREST, text="I look.")
        assert_reads("hunyuan-a13b", f"<tool_calls>[{JSON}]</tool_calls>\n</answer>", BREST)
        assert_reads("hunyuan-a13b", "<answer>\nIt is", text="It is", upstream="length", finish="length")

    def test_tags_in_the_text_are_text(self) -> None:
        assert_reads("hunyuan-a13b", "<answer>Write <answer>42</answer> here.</answer>", text="Write <answer>42</answer> here.")
        assert_stays_text("hunyuan-a13b", "Write <answer>42</answer>")
        assert_stays_text("ernie-4.5", "An <a> and a </response> tag")
        assert_stays_text(None, "<answer>42</answer>")

    def test_ernie(self) -> None:
        tagged = f"<tool_call>\n{JSON}\n</tool_call>"
        for model in ("baidu/ERNIE-4.5-21B-A3B-Thinking",):
            assert_reads(None, "Hm.\n</think>\n\n<response>\nHigh.\n</response>\n", reasoning="Hm.", text="High.", model=model,
                  exact=True)
            assert_reads(None, f"Hm.\n</think>\n\n{tagged}\n", BREST, reasoning="Hm.", model=model)
            assert_reads(None, f"Hm.\n</think>\n\n<response>\nI look.\n</response>\n{tagged}", BREST, reasoning="Hm.",
                  text="I look.", model=model)

    def test_apriel(self) -> None:
        model = "ServiceNow-AI/Apriel-1.6-15b-Thinker"
        for end in ("", "\n<|end|>", "\n[END FINAL RESPONSE]", "\n[END FINAL RESPONSE]\n<|end|>"):
            assert_reads(None, f"Hm.\n[BEGIN FINAL RESPONSE]\nHigh.{end}", reasoning="Hm.", text="High.", model=model)
        assert_reads(None, f"Here are my reasoning steps:\nHm.\n[BEGIN FINAL RESPONSE]\nI look.\n<tool_calls>[{JSON}]</tool_calls>"
              "\n<|end|>", BREST, reasoning="Hm.", text="I look.", model=model)
        assert_reads(None, f"Hm.\n<tool_calls>[{JSON}]</tool_calls>", BREST, reasoning="Hm.", model=model)


@pytest.mark.parametrize("model", ["ai-sage/GigaChat3-10B-A1.8B", "nobody/knows-it"])
def test_gigachat(model: str) -> None:
    for before in ("", "I look."):
        for raw in (f"<|message_sep|>\n\nfunction call<|role_sep|>\n{JSON}", f"<|function_call|>{JSON}"):
            for end in ("", "</s>", "<|message_sep|>", "<|message_sep|>\n\n"):
                assert_reads(None, before + raw + end, BREST, text=before, exact=True, model=model)
    assert_stays_text(None, '<|function_call|>{"name": "exec", "arguments": {}}', model=model)
    assert_breaks_off("gigachat-3", '<|function_call|>{"name": "tide", "arguments": {"harbor": "Br', "tide")


@pytest.mark.parametrize("model", ["ai-sage/GigaChat3.5-Ultra", "nobody/knows-it"])
def test_gigachat_3_5(model: str) -> None:
    raw = ('<｜GCML｜tool_calls><｜GCML｜invoke name="valve"><｜GCML｜parameter name="id" string="false">3</｜GCML｜parameter>'
           '<｜GCML｜parameter name="operator" string="true">Eve</｜GCML｜parameter></｜GCML｜invoke><｜GCML｜invoke name="ping">'
           "</｜GCML｜invoke></｜GCML｜tool_calls>")
    assert_reads(None, f"<think>Hm.</think>\n\nI look.\n\n{raw}<|message_sep|>\n\n", ("valve", {"id": 3, "operator": "Eve"}),
          ("ping", {}), reasoning="Hm.", text="I look.", model=model)
    assert_stays_text(None, raw.replace("valve", "exec").replace("ping", "exec"), model=model)


@pytest.mark.parametrize("model", ["upstage/Solar-Open-100B", "nobody/knows-it"])
def test_solar_open(model: str) -> None:
    def calls(*made: str) -> str:
        return "<|tool_calls|>" + "".join(f"<|tool_call:begin|>{call}<|tool_call:end|>" for call in made) + "<|calls|>"

    one = 'x1<|tool_call:name|>tide<|tool_call:args|>{"harbor": "Brest"}'
    two = "<|tool_call:name|>ping<|tool_call:args|>{}"
    assert_reads(None, f"<|think|>Hm.<|end|><|begin|>assistant{calls(one, two)}", BREST, ("ping", {}), reasoning="Hm.",
          model=model)
    assert_reads(None, "<|think|>Hm.<|end|><|begin|>assistant<|content|>High.<|flush|>", reasoning="Hm.", text="High.",
          exact=True, model=model)
    assert_reads(None, f"<|content|>I look.\n<|end|><|begin|>assistant{calls(one)}", BREST, text="I look.", model=model)
    assert_reads(None, "<|think|><|end|><|content|>Hi", text="Hi", model=model)
    assert_stays_text(None, calls(one.replace("tide", "exec")), model=model)


@pytest.mark.parametrize("mark", ["<|tool_calls|>", ""])
def test_sarashina(mark: str) -> None:
    raw = "[{'name': 'tide', 'arguments': {'harbor': \"it's ]} <|x|>\"}}, {'name': 'valve', 'arguments': {'locked': True}}]"
    calls = (("tide", {"harbor": "it's ]} <|x|>"}), ("valve", {"locked": True}))
    assert_reads(None, mark + raw, *calls, model="sbintuitions/sarashina2.2-3b-instruct-v0.1")
    assert_reads("sarashina", mark + json.dumps([{"name": name, "arguments": values} for name, values in calls]) + "</s>", *calls)
    assert_stays_text("sarashina", mark + "[{'name': 'exec', 'arguments': {}}]")
    assert_stays_text("sarashina", mark + "[1, 2]")


class TestMiniCPM5:
    def test_calls(self) -> None:
        raw = ('I look.\n<function name="tide"><param name="harbor"><![CDATA[a < b\n& c]]></param></function>\nand '
               '<function name="valve"><param name="id">3</param><param name="locked">True</param><param name="tags">'
               "['a', \"b\"]</param><param name=\"limits\">{'low': None}</param></function>\nSo.<|im_end|>")
        for model in ("openbmb/MiniCPM5-1B", "nobody/knows-it"):
            assert_reads(None, raw, ("tide", {"harbor": "a < b\n& c"}),
                  ("valve", {"id": 3, "locked": True, "tags": ["a", "b"], "limits": {"low": None}}),
                  text="I look.\nand\nSo.", model=model)
        assert_reads("minicpm5", '<function name="ping"></function>', ("ping", {}))

    def test_markup_in_a_value(self) -> None:
        value = '</param></function><function name="ping"></function>'
        assert_reads("minicpm5", f'<function name="tide"><param name="harbor"><![CDATA[{value}]]></param></function>',
              ("tide", {"harbor": value}))

    def test_text(self) -> None:
        assert_stays_text("minicpm5", '<function name="exec"><param name="x">1</param></function>')
        assert_stays_text("minicpm5", 'It writes <function name="tide"> first.')
        assert_breaks_off("minicpm5", '<function name="tide"><param name="harbor">Br', "tide")
