"""Models that write their calls as text, through Envoy: the SDK sees tool_use blocks, and what it sends back is a
request that the strict provider takes."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from tests.e2e.gateway import Gateway
from tests.e2e.wire import payload, post
from tests.model_text.prompted_reader import parse_prompted_calls, parse_prompted_results
from tests.providers.openai import OpenAIProvider, text

WEATHER: Any = {
    "name": "weather", "description": "The weather of a town",
    "input_schema": {"type": "object", "required": ["town"],
                     "properties": {"town": {"type": "string"}, "days": {"type": "integer"}}}}
NOW: Any = {"name": "now", "description": "The time", "input_schema": {"type": "object", "properties": {}}}
TOOLS: list[Any] = [WEATHER, NOW]
CALLED = [("weather", {"town": "Ulm an der Donau", "days": 3}), ("now", {})]

ANSWERS = {
    "qwen/qwen2.5-72b-instruct": """Looking.
<tool_call>
{"name": "weather", "arguments": {"town": "Ulm an der Donau", "days": 3}}
</tool_call>
<tool_call>
{"name": "now", "arguments": {}}
</tool_call>""",
    "qwen/qwen3-coder": """Looking.
<tool_call>
<function=weather>
<parameter=town>
Ulm an der Donau
</parameter>
<parameter=days>
3
</parameter>
</function>
</tool_call>
<tool_call>
<function=now>
</function>
</tool_call>""",
    "moonshotai/kimi-k2": "Looking.<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
                          '<|tool_call_argument_begin|>{"town": "Ulm an der Donau", "days": 3}<|tool_call_end|>'
                          "<|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
                          "<|tool_calls_section_end|>",
    "deepseek/deepseek-v3.1": "Looking.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>"
                              '{"town": "Ulm an der Donau", "days": 3}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now'
                              "<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek/deepseek-v3.2": """Looking.

<｜DSML｜function_calls>
<｜DSML｜invoke name="weather">
<｜DSML｜parameter name="town" string="true">Ulm an der Donau</｜DSML｜parameter>
<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>
</｜DSML｜invoke>
<｜DSML｜invoke name="now">
</｜DSML｜invoke>
</｜DSML｜function_calls>""",
    "z-ai/glm-4.6": """Looking.
<tool_call>weather
<arg_key>town</arg_key>
<arg_value>Ulm an der Donau</arg_value>
<arg_key>days</arg_key>
<arg_value>3</arg_value>
</tool_call>
<tool_call>now
</tool_call>""",
}
PROMPTED = """Looking.
<tool_call name="weather">
<parameter name="town">Ulm an der Donau</parameter>
<parameter name="days">3</parameter>
</tool_call>
<tool_call name="now">
</tool_call>"""


def ask(sdk: anthropic.Anthropic, streamed: bool, model: str, messages: list[Any], **fields: Any) -> Any:
    asked: dict[str, Any] = {"model": model, "max_tokens": 500, "messages": messages, "tools": TOOLS, **fields}
    if not streamed:
        return sdk.messages.create(**asked)
    with sdk.messages.stream(**asked) as answer:
        return answer.get_final_message()


def used(message: Any) -> list[tuple[str, Any]]:
    return [(block.name, block.input) for block in message.content if block.type == "tool_use"]


def with_results(messages: list[Any], message: Any, *results: str) -> list[Any]:
    """The conversation with the answer and the results of its calls."""
    ids = [block.id for block in message.content if block.type == "tool_use"]
    assert len(set(ids)) == len(results)
    return [*messages, {"role": "assistant", "content": message.model_dump(exclude_none=True)["content"]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id_, "content": text_}
                                         for id_, text_ in zip(ids, results, strict=True)]}]


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_a_lost_quote_costs_neither_the_text_nor_the_next_call(sdk: anthropic.Anthropic, provider: OpenAIProvider,
                                                               streamed: bool) -> None:
    provider.script(text("""<tool_call>
{"name": "weather", "arguments": {"town": "Ulm", "days": 3"}}
</tool_call>
And:
<tool_call>
{"name": "now", "arguments": {}}
</tool_call>"""))
    message = ask(sdk, streamed, "any/qwen/qwen2.5-72b-instruct", [{"role": "user", "content": "Go."}])
    assert used(message) == [("weather", {"town": "Ulm", "days": 3}), ("now", {})]
    assert [block.text.strip() for block in message.content if block.type == "text"] == ["And:"]
    assert message.stop_reason == "tool_use"


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("model", sorted(ANSWERS))
def test_a_cycle_of_three_turns(sdk: anthropic.Anthropic, provider: OpenAIProvider, model: str,
                                streamed: bool) -> None:
    provider.script(text(ANSWERS[model], pieces=3), text(ANSWERS[model]), text("Sunny."))
    messages: list[Any] = [{"role": "user", "content": "Weather?"}]
    for _ in range(2):
        message = ask(sdk, streamed, f"any/{model}", messages)
        assert message.stop_reason == "tool_use"
        assert used(message) == CALLED
        assert [block.text for block in message.content if block.type == "text"] == ["Looking."]
        messages = with_results(messages, message, "18 degrees", "noon")
    last = ask(sdk, streamed, f"any/{model}", messages)
    assert (last.stop_reason, [block.text for block in last.content]) == ("end_turn", ["Sunny."])
    third = provider.last
    assert third.roles() == ["user", *["assistant", "tool", "tool"] * 2]
    called = [call["id"] for entry in third.messages for call in entry.get("tool_calls", ())]
    assert called == [entry["tool_call_id"] for entry in third.messages if entry["role"] == "tool"]
    assert len(set(called)) == 4


@pytest.mark.parametrize("said", sorted(ANSWERS.values()))
def test_an_unknown_model(sdk: anthropic.Anthropic, provider: OpenAIProvider, said: str) -> None:
    provider.script(text(said, pieces=1))
    message = ask(sdk, True, "any/nobody/knows-it", [{"role": "user", "content": "Weather?"}])
    assert used(message) == CALLED


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_without_tools_nothing_is_looked_for(sdk: anthropic.Anthropic, provider: OpenAIProvider,
                                             streamed: bool) -> None:
    said = ANSWERS["qwen/qwen3-coder"]
    provider.script(text(said))
    message = ask(sdk, streamed, "any/nobody/knows-it", [{"role": "user", "content": "Show me a call"}], tools=[])
    assert [block.text for block in message.content] == [said]


def test_reasoning_and_a_fence(sdk: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    fenced = "So it looks:\n```\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n```\n"
    provider.script(text(f"<think>\nAn example, then the call.\n</think>\n\n{fenced}"
                         f"{ANSWERS['qwen/qwen2.5-72b-instruct']}", pieces=2))
    message = ask(sdk, True, "any/qwen/qwen3-8b", [{"role": "user", "content": "Weather?"}])
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert message.content[0].thinking == "An example, then the call."
    assert message.content[1].text == fenced + "Looking."


def test_a_named_dialect_is_read_from_any_model(sdk: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    provider.script(text(ANSWERS["z-ai/glm-4.6"]))
    assert used(ask(sdk, True, "reads-glm", [{"role": "user", "content": "Weather?"}])) == CALLED


def test_strict_arguments(sdk: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    provider.script(text(ANSWERS["qwen/qwen3-coder"].replace("\n3\n", "\nsoon\n")))
    with pytest.raises(anthropic.APIError, match=r"weather.*days"):
        ask(sdk, True, "strict", [{"role": "user", "content": "Weather?"}])


@pytest.mark.parametrize(("model", "headers"), [
    ("prompted", {}), ("any/nobody/knows-it", {"x-extproc-tools": "prompted"})], ids=["configured", "by header"])
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_prompted_tools(sdk: anthropic.Anthropic, provider: OpenAIProvider, model: str, headers: dict[str, str],
                        streamed: bool) -> None:
    provider.script(text(PROMPTED, pieces=2), text("Sunny."))
    messages: list[Any] = [{"role": "user", "content": "Weather?"}]
    message = ask(sdk, streamed, model, messages, system="Be brief.", extra_headers=headers)
    assert used(message) == CALLED
    messages = with_results(messages, message, "18 <b>degrees</b>", "noon")
    last = ask(sdk, streamed, model, messages, system="Be brief.", extra_headers=headers)
    assert [block.text for block in last.content] == ["Sunny."]
    second = provider.last
    assert "tools" not in second.body
    assert second.roles() == ["system", "user", "assistant", "user"]
    system, _, said, got = (entry["content"] for entry in second.messages)
    assert system.startswith("Be brief.")
    assert system.count('<tool name="weather">') == 1
    assert parse_prompted_calls(said, {tool["name"]: tool["input_schema"] for tool in TOOLS})[1] == CALLED
    assert parse_prompted_results(got) == [("weather", "1", False, "18 <b>degrees</b>"), ("now", "2", False, "noon")]
    assert second.messages[0] == provider.seen[0].messages[0], "the prefix must not change between turns"


def test_a_dialect_that_is_written_and_read(sdk: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    said = ANSWERS["moonshotai/kimi-k2"]
    provider.script(text(said), text("Sunny."))
    messages: list[Any] = [{"role": "user", "content": "Weather?"}]
    message = ask(sdk, True, "written/kimi", messages)
    assert used(message) == CALLED
    ask(sdk, True, "written/kimi", with_results(messages, message, "18 degrees", "noon"))
    assert "tools" not in provider.last.body
    assert "<|tool_call_begin|>functions.now:1" in provider.last.messages[2]["content"]


def test_tools_off_by_header(sdk: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    provider.script(text("Fine."))
    ask(sdk, True, "prompted", [{"role": "user", "content": "Hi"}], extra_headers={"x-extproc-tools": "off"})
    assert "tools" not in provider.last.body
    assert [entry["content"] for entry in provider.last.messages] == ["Hi"]


def test_more_tools_than_the_prompt_takes(gateway: Gateway, provider: OpenAIProvider) -> None:
    answer = post(gateway.base_url, payload("prompted", tools=[*TOOLS, {**NOW, "name": "third"}]))
    assert answer.status == 400
    assert "at most 2" in answer.error()[1]
    assert provider.seen == []
