"""Forms with arguments as one JSON object: Hermes, Kimi K2, DeepSeek V3 and V3.1, Llama, Mistral, Apertus.

Calls and results are byte for byte the text that the models were trained on; the words that introduce the tools are
this project's. Special tokens are written as text, since the servers for these forms accept nothing else. Families with
a special role for results (tool, ipython, observation) get them in the user turn.
"""

from __future__ import annotations

from extproc.dialects.writing.form import (
    OfferedTool,
    PastCall,
    PastResult,
    escape_marks,
    json_text,
    tool_signature,
    tool_signatures,
)


class Hermes:
    """`<tool_call>` around {"name", "arguments"}; results in `<tool_response>` blocks."""

    gap = "\n"
    _marks = ("</tools>", "<tools>", "</tool_call>", "<tool_call>")

    def tools(self, tools: list[OfferedTool]) -> str:
        return ("# Tools\n\nThese functions can be called to help with what the user asks. Each line between <tools> "
                "and </tools> is the JSON signature of one:\n<tools>\n" + tool_signatures(tools, self._marks)
                + "\n</tools>\n\nTo call a function, write a JSON object with its name and its arguments inside "
                "<tool_call> tags, one such block for each call:\n<tool_call>\n"
                '{"name": <name of the function>, "arguments": <JSON object of the arguments>}\n</tool_call>')

    def calls(self, calls: list[PastCall]) -> str:
        return "\n".join(f'<tool_call>\n{{"name": {json_text(call.name)}, '
                         f'"arguments": {escape_marks(call.arguments, self._marks)}}}\n</tool_call>' for call in calls)

    def results(self, results: list[PastResult]) -> str:
        return "\n".join(f"<tool_response>\n{result.marked_text}\n</tool_response>" for result in results)


class KimiK2:
    """Section tokens. Ids are `functions.NAME:N` with N counted over the conversation: the model copies the ids of the
    history, and no parser accepts other ids."""

    gap = ""
    _marks = ("<|tool_call", "<|im_")

    def tools(self, tools: list[OfferedTool]) -> str:
        return ("# Tools\n\nThe functions that can be called, as a JSON list:\n"
                + json_text([tool_signature(tool) for tool in tools], self._marks)
                + "\n\nAll calls of an answer stand in one section at its end, with nothing between them:\n"
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:N<|tool_call_argument_begin|>"
                "JSON object of the arguments<|tool_call_end|><|tool_calls_section_end|>\n"
                "NAME is the name of the function. N counts the calls of the whole conversation, from 0. The result "
                "of a call comes back under the heading `## Return of functions.NAME:N`.")

    def calls(self, calls: list[PastCall]) -> str:
        inner = "".join(f"<|tool_call_begin|>{_kimi_id(call)}<|tool_call_argument_begin|>"
                        f"{escape_marks(call.arguments, self._marks)}<|tool_call_end|>" for call in calls)
        return f"<|tool_calls_section_begin|>{inner}<|tool_calls_section_end|>"

    def results(self, results: list[PastResult]) -> str:
        return "\n\n".join(f"## Return of {_kimi_id(result.call)}\n{result.marked_text}" for result in results)


def _kimi_id(call: PastCall) -> str:
    return f"functions.{call.name}:{call.ordinal}"


_DEEPSEEK_MARKS = ("<｜tool", "<｜end▁of▁sentence｜>")


class DeepSeekV3:
    """V3, V3-0324, R1: the word `function`, the name, and the arguments in a fence."""

    gap = ""

    def tools(self, tools: list[OfferedTool]) -> str:
        return ("## Tools\n\nThe functions that can be called, one JSON signature a line:\n"
                + tool_signatures(tools, _DEEPSEEK_MARKS)
                + "\n\nTo call functions, end the answer with this block, with one inner part for each call:\n"
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\n"
                "JSON object of the arguments\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>")

    def calls(self, calls: list[PastCall]) -> str:
        inner = "\n".join(f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{call.name}\n```json\n"
                          f"{escape_marks(call.arguments, _DEEPSEEK_MARKS)}\n```<｜tool▁call▁end｜>" for call in calls)
        return f"<｜tool▁calls▁begin｜>{inner}<｜tool▁calls▁end｜>"

    def results(self, results: list[PastResult]) -> str:
        inner = "\n".join(_deepseek_output(result) for result in results)
        return f"<｜tool▁outputs▁begin｜>{inner}<｜tool▁outputs▁end｜>"


class DeepSeekV31:
    """V3.1, V3.1-Terminus, V3.2-Exp: only name and arguments, nothing between calls; each result on its own."""

    gap = ""

    def tools(self, tools: list[OfferedTool]) -> str:
        return ("## Tools\n\nThe functions that can be called, one JSON signature a line:\n"
                + tool_signatures(tools, _DEEPSEEK_MARKS)
                + "\n\nTo call functions, end the answer with this block, with one inner part for each call and "
                "nothing between the parts:\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>NAME<｜tool▁sep｜>"
                "JSON object of the arguments<｜tool▁call▁end｜><｜tool▁calls▁end｜>")

    def calls(self, calls: list[PastCall]) -> str:
        inner = "".join(f"<｜tool▁call▁begin｜>{call.name}<｜tool▁sep｜>{escape_marks(call.arguments, _DEEPSEEK_MARKS)}"
                        "<｜tool▁call▁end｜>" for call in calls)
        return f"<｜tool▁calls▁begin｜>{inner}<｜tool▁calls▁end｜>"

    def results(self, results: list[PastResult]) -> str:
        return "".join(map(_deepseek_output, results))


def _deepseek_output(result: PastResult) -> str:
    return f"<｜tool▁output▁begin｜>{result.marked_text}<｜tool▁output▁end｜>"


class LlamaJson:
    """Llama 3.1 to 3.3: bare objects with `parameters`, several joined by a semicolon. After text a call begins with
    `<|python_tag|>`, or it would look like a part of that text. Results have no form outside the ipython role, so they
    follow a heading."""

    gap = "\n\n<|python_tag|>"

    def tools(self, tools: list[OfferedTool]) -> str:
        return ("The functions that can be called, one JSON signature a line:\n\n" + tool_signatures(tools)
                + "\n\nTo call a function, let the answer be nothing but this JSON object, or several of them joined "
                'by "; ":\n{"name": <name of the function>, "parameters": <JSON object of the arguments>}\n'
                "Write values, not variables. The results come back in the next message.")

    def calls(self, calls: list[PastCall]) -> str:
        return "; ".join(f'{{"name": {json_text(call.name)}, "parameters": {call.arguments}}}' for call in calls)

    def results(self, results: list[PastResult]) -> str:
        return "\n\n".join(f"Result of {result.call.name}:\n{result.marked_text}" for result in results)


class Mistral:
    """`[TOOL_CALLS]NAME[ARGS]{...}` for each call (tokenizer 11 and later)."""

    gap = ""
    _marks = ("[TOOL_CALLS]", "[ARGS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]")

    def tools(self, tools: list[OfferedTool]) -> str:
        return ("[AVAILABLE_TOOLS]" + json_text([tool_signature(tool) for tool in tools], self._marks)
                + "[/AVAILABLE_TOOLS]\n\nTo call functions, end the answer with this for each call, without anything "
                "between: [TOOL_CALLS]NAME[ARGS]JSON object of the arguments")

    def calls(self, calls: list[PastCall]) -> str:
        return "".join(f"[TOOL_CALLS]{call.name}[ARGS]{escape_marks(call.arguments, self._marks)}" for call in calls)

    def results(self, results: list[PastResult]) -> str:
        return "".join(f"[TOOL_RESULTS]{result.marked_text}[/TOOL_RESULTS]" for result in results)


class Apertus:
    """One array at the end of the response, each call an object with the name as its key; results in brackets, not
    quoted."""

    gap = ""
    _marks = ("<|tools_", "<|inner_", "<|assistant_")

    def tools(self, tools: list[OfferedTool]) -> str:
        return ("Tool Capabilities:\n" + tool_signatures(tools, self._marks)
                + "\n\nTo call tools, end the answer with one array, with one object for each call whose key is the "
                'name of the tool:\n<|tools_prefix|>[{"NAME": JSON object of the arguments}]<|tools_suffix|>\n'
                "The results come back in the same order, in brackets.")

    def calls(self, calls: list[PastCall]) -> str:
        inner = ", ".join(f"{{{json_text(call.name)}: {escape_marks(call.arguments, self._marks)}}}" for call in calls)
        return f"<|tools_prefix|>[{inner}]<|tools_suffix|>"

    def results(self, results: list[PastResult]) -> str:
        return "[" + ", ".join(result.marked_text for result in results) + "]"
