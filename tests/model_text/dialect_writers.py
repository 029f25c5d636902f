"""Calls as the models of each dialect write them: the forms that `extproc.dialects.writing` does not write."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Call = tuple[str, dict[str, Any]]


def objects(calls: list[Call], key: str = "arguments") -> list[str]:
    return [json.dumps({"name": name, key: arguments}, ensure_ascii=False) for name, arguments in calls]


def pythonic(calls: list[Call]) -> list[str]:
    return [f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})" for name, arguments in calls]


def gemma_value(value: Any) -> str:
    if isinstance(value, str):
        return f'<|"|>{value}<|"|>'
    if isinstance(value, list):
        return "[" + ",".join(map(gemma_value, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{gemma_value(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)


def step3_call(call: Call) -> str:
    name, arguments = call
    pairs = "".join(f'<steptml:parameter name="{key}">{value if isinstance(value, str) else json.dumps(value)}'
                    "</steptml:parameter>" for key, value in arguments.items())
    return (f'<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">{pairs}</steptml:invoke>'
            "<｜tool_call_end｜>")


def plain(value: Any) -> str:
    """Strings as they are, all other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def pairs(call: Call, prefix: str = "", suffix: str = "") -> str:
    """The name and the pairs of a call as GLM writes them."""
    key, value = f"{prefix}arg_key{suffix}", f"{prefix}arg_value{suffix}"
    return call[0] + "\n" + "".join(f"<{key}>{name}</{key}>\n<{value}>{plain(text)}</{value}>\n"
                                    for name, text in call[1].items())


def solar_call(call: Call) -> str:
    return f"<|tool_call:start|>{call[0]}\n" + "".join(
        f"<|tool_arg:start|>{key}<|tool_arg:value|>{plain(value)}<|tool_arg:end|>\n" for key, value in call[1].items()
    ) + "<|tool_call:end|>"


def atem(call: Call) -> str:
    inner = "".join(f'<atem:parameter name="{key}">{plain(value)}</atem:parameter>\n' for key, value in call[1].items())
    return (f'<|start|>assistant to={call[0]}<|message|><atem:function_calls>\n<atem:invoke name="{call[0]}">\n{inner}'
            "</atem:invoke>\n</atem:function_calls><|eom|>")


def gcml(call: Call) -> str:
    return f'<｜GCML｜invoke name="{call[0]}">' + "".join(
        f'<｜GCML｜parameter name="{key}" string="{str(isinstance(value, str)).lower()}">'
        f"{plain(value)}</｜GCML｜parameter>"
        for key, value in call[1].items()) + "</｜GCML｜invoke>"


def cdata(text: str) -> str:
    return "<![CDATA[" + text.replace("]]>", "]]]]><![CDATA[>") + "]]>"


def param(call: Call) -> str:
    return f'<function name="{call[0]}">' + "".join(
        f'<param name="{key}">{cdata(value) if isinstance(value, str) else repr(value)}</param>'
        for key, value in call[1].items()) + "</function>"


def cohere(calls: list[Call]) -> str:
    return json.dumps([{"tool_call_id": str(number), "tool_name": name, "parameters": arguments}
                       for number, (name, arguments) in enumerate(calls)], indent=1)


WRITERS: dict[str, Callable[[list[Call]], str]] = {
    "llama3-json": lambda calls: "; ".join(objects(calls, "parameters")),
    "llama-pythonic": lambda calls: "[" + ", ".join(pythonic(calls)) + "]",
    "llama4-pythonic": lambda calls: "<|python_start|>[" + ", ".join(pythonic(calls)) + "]<|python_end|>",
    "olmo3": lambda calls: "<function_calls>\n" + "\n".join(pythonic(calls)) + "\n</function_calls>",
    "mistral": lambda calls: "".join(f"[TOOL_CALLS]{name}[ARGS]{json.dumps(arguments)}" for name, arguments in calls),
    "gpt-oss": lambda calls: "<|start|>assistant".join(
        f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{json.dumps(arguments)}<|call|>"
        for name, arguments in calls),
    "gemma-4": lambda calls: "".join(f"<|tool_call>call:{name}{gemma_value(arguments)}<tool_call|>"
                                     for name, arguments in calls),
    "xlam": lambda calls: "[" + ", ".join(objects(calls)) + "]",
    "phi-4-mini": lambda calls: "functools[" + ",".join(objects(calls)) + "]",
    "granite-3.1": lambda calls: "<tool_call>[" + ",".join(objects(calls)) + "]",
    "granite-20b-fc": lambda calls: " ".join(f"<function_call> {call}" for call in objects(calls)),
    "apertus": lambda calls: "<|tools_prefix|>" + json.dumps([{name: arguments} for name, arguments in calls])
    + "<|tools_suffix|>",
    "step3": lambda calls: "<｜tool_calls_begin｜>" + "".join(map(step3_call, calls)) + "<｜tool_calls_end｜>",
    "internlm2": lambda calls: "".join(f"<|action_start|><|plugin|>{call}<|action_end|>" for call in objects(calls)),
    "command-a": lambda calls: f"<|START_ACTION|>{cohere(calls)}<|END_ACTION|><|END_OF_TURN_TOKEN|>",
    "command-r": lambda calls: f"Action: ```json\n{cohere(calls)}\n```",
    "nemotron": lambda calls: "<TOOLCALL>[" + ", ".join(objects(calls)) + "]</TOOLCALL>",
    "minimax-m1": lambda calls: "<tool_calls>\n" + "\n".join(objects(calls)) + "\n</tool_calls>",
    "hunyuan-a13b": lambda calls: "<answer>\n<tool_calls>[" + ", ".join(objects(calls)) + "]</tool_calls>\n</answer>",
    "gigachat-3": lambda calls: "".join(f"<|message_sep|>\n\nfunction call<|role_sep|>\n{call}"
                                        for call in objects(calls)) + "<|message_sep|>",
    "sarashina": lambda calls: "<|tool_calls|>" + repr([{"name": name, "arguments": arguments}
                                                       for name, arguments in calls]),
    "muse-glimmer": lambda calls: " to=self<|message|><|eom|>" + "".join(map(atem, calls)),
    "functionary-v2": lambda calls: "<|from|>assistant\n<|recipient|>".join(
        f"{name}\n<|content|>{json.dumps(arguments)}" for name, arguments in calls) + "<|stop|>",
    "functionary-v3.2": lambda calls: ">>>".join(f"{name}\n{json.dumps(arguments)}"
                                                 for name, arguments in calls) + "<|eot_id|>",
    "inkling": lambda calls: "<|message_model|>".join(
        name + "<|content_invoke_tool_json|>" + json.dumps({"name": name, "args": arguments}) + "<|end_message|>"
        for name, arguments in calls) + "<|content_model_end_sampling|>",
    "solar-open": lambda calls: "<|begin|>assistant<|tool_calls|>" + "".join(
        f"<|tool_call:begin|>{number}<|tool_call:name|>{name}<|tool_call:args|>{json.dumps(arguments)}<|tool_call:end|>"
        for number, (name, arguments) in enumerate(calls)) + "<|calls|>",
    "minicpm5": lambda calls: "\n".join(map(param, calls)),
}
TAGGED: dict[str, Callable[[list[Call]], str]] = {
    "hy3": lambda calls: "<tool_calls:opensource>\n" + "\n".join(
        f"<tool_call:opensource>{pairs(call, suffix=':opensource')}</tool_call:opensource>" for call in calls)
    + "\n</tool_calls:opensource><｜hy_eos:opensource｜>",
    "iquest": lambda calls: "".join(f"<iquest_tool_call>{pairs(call)}</iquest_tool_call>" for call in calls),
    "k2-horizon": lambda calls: "<ifm|tool_calls>\n" + "\n".join(
        f"<ifm|tool_call>{pairs(call, prefix='ifm|')}</ifm|tool_call>" for call in calls) + "\n</ifm|tool_calls>",
    "solar-open-2": lambda calls: "\n".join(map(solar_call, calls)),
    "poolside": lambda calls: "".join(f"<tool_call>{pairs(call)}</tool_call>" for call in calls) + "</assistant>",
    "gigachat-3.5": lambda calls: f"<｜GCML｜tool_calls>{''.join(map(gcml, calls))}</｜GCML｜tool_calls>",
}
"""Forms without escapes: not every value can be written in them."""
