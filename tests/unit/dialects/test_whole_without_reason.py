"""Some servers send neither a finish reason nor `[DONE]`. A response with whole calls is then complete, whatever
closing markup is left. A response that breaks off after the start of more is not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model_text.exchange import client_response, tool
from tests.model_text.text_and_calls import client_bytes, parse_messages, provider_body
from tests.playbook import delta, sse

TOOLS = [tool(name, path="string", id="integer") for name in ("save", "ping")]
JSON = '{"name": "save", "arguments": {"path": "a"}}'
K2 = ("<|tool_calls_section_begin|><|tool_call_begin|>functions.save:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
      "<|tool_calls_section_end|>")
M3 = "]<]minimax[>["

WHOLE = {
    "hermes": [f"<tool_call>\n{JSON}\n</tool_call>\n", f"<tool_call>{JSON}", f"<tool_call>{JSON}</tool_call><|im_end|>",
               f"<tool_call>```json\n{JSON}\n```\n</tool_call></tool_call>", f"<tool_call>[{JSON}, ]</tool_call>",
               f"<tool_call>{JSON}</tool_call>" + "\n" * 5000, f"<tool_call>{JSON}</tool_call>" + "<|im_end|>" * 60],
    "lmstudio-default": [f"[TOOL_REQUEST]{JSON}[END_TOOL_REQUEST]"],
    "granite4": [f"<tool_call>{JSON}</tool_call><|end_of_text|>"],
    "qwen3-coder": ["<function=save>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>"],
    "seed-oss": ["<seed:tool_call><function=ping>\n</function></seed:tool_call><seed:eos>"],
    "glm-4.5": ["<tool_call>save\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call><|observation|>"],
    "minimax-m2": ['<minimax:tool_call>\n<invoke name="ping">\n</invoke>\n</minimax:tool_call>[e~['],
    "minimax-m3": [f'{M3}<tool_call>\n{M3}<invoke name="save">{M3}<path>a{M3}</path>{M3}</invoke>\n{M3}</tool_call>'],
    "kimi-k2": [K2, K2 + "<|im_end|>", K2.replace("<|tool_calls_section_end|>", ""),
                K2.replace("<|tool_calls_section_end|>", "<|tool_call_begin|>functions.gone:1"
                           "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>")],
    "kimi-k3": ['<|open|>tools<|sep|><|open|>call tool="save" index="1"<|sep|><|open|>argument key="path" type="string"'
                "<|sep|>a<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>"],
    "deepseek-v3.1": ["<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>save<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
                      "<｜tool▁calls▁end｜><｜end▁of▁sentence｜>"],
    "deepseek-v4": ['<｜DSML｜tool_calls>\n<｜DSML｜invoke name="ping"/>\n</｜DSML｜tool_calls>'],
    "mistral": [f"[TOOL_CALLS][{JSON}]</s>", "[TOOL_CALLS]save[ARGS]{}", f"[TOOL_CALLS][{JSON}, ]"],
    "gemma-4": ['<|tool_call>call:save{path:<|"|>a<|"|>}<tool_call|><turn|>', "<|tool_call>call:ping{}<tool_call|>"],
    "functiongemma": ["<start_function_call>call:save{id:4}<end_function_call><start_function_response>"],
    "phi-4-mini": [f"<|tool_call|>[{JSON}]<|/tool_call|><|end|>", f"functools[{JSON},]"],
    "llama4-pythonic": ['<|python_start|>[save(path="a"), ping()]<|python_end|><|eot|>'],
    "olmo3": ['<function_calls>\nsave(path="a");\n</function_calls><|im_end|>'],
    "apertus": ['<|tools_prefix|>[{"save": {}, "gone": {"a": 1}}]<|tools_suffix|><|assistant_end|>'],
}


@pytest.mark.parametrize(("dialect", "text"), [(name, text) for name, texts in WHOLE.items() for text in texts])
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_whole_calls_are_a_whole_answer(dialect: str, text: str, size: int) -> None:
    pieces = [text[at:at + size] for at in range(0, len(text), size)]
    got = client_response(sse(*(delta(content=piece) for piece in pieces), done=False), TOOLS, dialect=dialect)
    assert got["finish_reason"] == "tool_calls"
    assert got["tool_calls"][0][0] in ("save", "ping")


@pytest.mark.parametrize("items", [
    ["<tool_call>\n", ("read", {}), "\n</tool_call>\n<tool_call>\n", ("ping", {}), "\n</tool_call>"],
    [("read", {}), "\n<tool_call>\n</tool_call>\n"], [("read", {}), "\n" * 600], [("read", {}), "<|im_end|>"]])
def test_what_a_server_left_over_of_native_calls_is_no_further_one(items: list[Any]) -> None:
    got = parse_messages(client_bytes("openai", provider_body("openai", items, finish=None)))
    assert (len(got.calls), got.stop) == (sum(not isinstance(item, str) for item in items), "tool_use")


def test_reasoning_between_does_not_make_half_a_call_a_whole_one() -> None:
    body = sse(delta(content='<tool_call>\n{"name": "save", "arguments": {"path": "a"'), delta(reasoning_content="\n"),
               done=False)
    assert client_response(body, TOOLS, dialect="hermes")["finish_reason"] == "error"
