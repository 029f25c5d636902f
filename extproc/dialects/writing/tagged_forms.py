"""Forms with one element for each parameter: Qwen3-Coder, DeepSeek's DSML, GLM, MiniMax M2, Roo.

Strings are written as they are, other values as JSON. These forms have no escapes: if a string contains the closing tag
of its own element, only the text after it shows where the string ends. (DSML writes such a string as JSON.)
"""

from __future__ import annotations

import re

from extproc.dialects.writing.form import (
    OfferedTool,
    PastCall,
    PastResult,
    decode_members,
    json_text,
    tool_signatures,
    value_text,
)

_ANY_TAG = ("<",)
_KEYWORD = re.compile(r"[$\w-]+")


class QwenCoder:
    """`<function=NAME>` with `<parameter=KEY>`. Every value is written with one newline at each end, which is
    framing."""

    gap = "\n"
    _tags = ("tools", "function", "name", "description", "parameters", "parameter", "type", "required", "tool_call")
    _tag = re.compile(rf"<(?=/?(?:{'|'.join(_tags)})\b)")

    def tools(self, tools: list[OfferedTool]) -> str:
        return ("# Tools\n\nThese functions can be called:\n\n<tools>\n" + "\n".join(map(self._tool, tools))
                + "\n</tools>\n\nTo call a function, write this, with nothing behind it but further calls:\n\n"
                "<tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n</tool_call>\n\n"
                "NAME is the name of the function. Each required parameter has its own element; a VALUE may have "
                "many lines. Strings stand as they are, without quotes, all other values as JSON.")

    def _tool(self, tool: OfferedTool) -> str:
        lines = ["<function>", f"<name>{tool.name}</name>"]
        if tool.description:
            lines.append(f"<description>{self._safe(tool.description)}</description>")
        lines.append("<parameters>")
        properties = tool.parameters.get("properties")
        for name, schema in (properties.items() if isinstance(properties, dict) else ()):
            lines += ["<parameter>", f"<name>{self._safe(name)}</name>"]
            lines += self._keywords(schema if isinstance(schema, dict) else {}, ())
            lines.append("</parameter>")
        lines += self._keywords(tool.parameters, ("type", "properties"))
        return "\n".join([*lines, "</parameters>", "</function>"])

    def _keywords(self, schema: dict[str, object], done: tuple[str, ...]) -> list[str]:
        """Each keyword of a schema as an element of its name."""
        return [f"<{key}>{self._safe(value) if isinstance(value, str) else json_text(value, _ANY_TAG)}</{key}>"
                for key, value in schema.items() if key not in done and _KEYWORD.fullmatch(key)]

    def _safe(self, text: str) -> str:
        """Text without the section's tags."""
        return self._tag.sub("&lt;", text)

    def calls(self, calls: list[PastCall]) -> str:
        return "\n".join(f"<tool_call>\n<function={call.name}>\n{self._parameters(call)}</function>\n</tool_call>"
                         for call in calls)

    def _parameters(self, call: PastCall) -> str:
        return "".join(f"<parameter={key}>\n{value_text(value, ('</parameter', '<parameter='))}\n</parameter>\n"
                       for key, value in decode_members(call.arguments).items())

    def results(self, results: list[PastResult]) -> str:
        return "\n".join(f"<tool_response>\n{result.marked_text}\n</tool_response>" for result in results)


class Dsml:
    """DeepSeek V3.2, V4 and V4.1. `wrapper`: the element around all calls. V4.1 has a space before tag names."""

    gap = "\n\n"

    def __init__(self, wrapper: str, space: str = "") -> None:
        self._wrapper = wrapper
        self._open = f"<｜DSML｜{space}"
        self._close = f"</｜DSML｜{space}"
        self._marks = ("</functions>", "<functions>", "<｜DSML｜", "</｜DSML｜")

    def tools(self, tools: list[OfferedTool]) -> str:
        opened, closed = self._open, self._close
        return ("## Tools\n\nTo call functions, end the answer with one block of this form; it holds an invoke for "
                f"each call:\n\n{opened}{self._wrapper}>\n{opened}invoke name=\"NAME\">\n"
                f"{opened}parameter name=\"KEY\" string=\"true|false\">VALUE{closed}parameter>\n"
                f"{closed}invoke>\n{closed}{self._wrapper}>\n\n"
                'With string="true" VALUE is the text of a string as it is; with string="false" it is JSON (numbers, '
                "booleans, arrays, objects). The functions that can be called, one JSON signature a line:\n"
                f"<functions>\n{tool_signatures(tools, self._marks, wrapped=False)}\n</functions>")

    def calls(self, calls: list[PastCall]) -> str:
        inner = "".join(f"{self._open}invoke name=\"{call.name}\">\n{self._parameters(call)}{self._close}invoke>\n"
                        for call in calls)
        return f"{self._open}{self._wrapper}>\n{inner}{self._close}{self._wrapper}>"

    def _parameters(self, call: PastCall) -> str:
        return "".join(map(self._parameter, decode_members(call.arguments).items()))

    def _parameter(self, member: tuple[str, object]) -> str:
        key, value = member
        raw = isinstance(value, str) and "</｜DSML｜" not in value
        text = value_text(value, self._marks) if raw or not isinstance(value, str) else json_text(value, self._marks)
        return (f"{self._open}parameter name=\"{key}\" string=\"{'true' if raw else 'false'}\">"
                f"{text}{self._close}parameter>\n")

    def results(self, results: list[PastResult]) -> str:
        if self._wrapper == "function_calls":
            inner = "".join(f"<result>{result.marked_text}</result>\n" for result in results)
            return f"<function_results>\n{inner}</function_results>"
        return "\n".join(f"<tool_result>{result.marked_text}</tool_result>" for result in results)


class Glm:
    """Alternating `<arg_key>` and `<arg_value>`. `line` ends each part (4.5, 4.6: a newline; 4.7 and later:
    nothing)."""

    gap = "\n"
    _marks = ("</tools>", "<tools>", "</tool_call>", "<tool_call>")

    def __init__(self, line: str) -> None:
        self._line = line

    def tools(self, tools: list[OfferedTool]) -> str:
        shown = self._block("NAME", [("KEY", "VALUE"), ("KEY", "VALUE")])
        return ("# Tools\n\nThese functions can be called, one JSON signature a line:\n<tools>\n"
                + tool_signatures(tools, self._marks)
                + "\n</tools>\n\nTo call a function, write this, one block for each "
                f"call:\n{shown}\nStrings stand as they are, all other values as JSON.")

    def calls(self, calls: list[PastCall]) -> str:
        return "\n".join(self._block(call.name, [(key, value_text(value, ("</arg_value",)))
                                                 for key, value in decode_members(call.arguments).items()])
                         for call in calls)

    def _block(self, name: str, pairs: list[tuple[str, str]]) -> str:
        inner = "".join(f"<arg_key>{key}</arg_key>{self._line}<arg_value>{value}</arg_value>{self._line}"
                        for key, value in pairs)
        return f"<tool_call>{name}{self._line}{inner}</tool_call>"

    def results(self, results: list[PastResult]) -> str:
        return "\n".join(f"<tool_response>\n{result.marked_text}\n</tool_response>" for result in results)


class MiniMaxM2:
    """`<minimax:tool_call>` around one invoke per call, with verbatim values."""

    gap = "\n"
    _marks = ("</tools>", "</tool>", "<minimax:", "</minimax:")

    def tools(self, tools: list[OfferedTool]) -> str:
        listed = "\n".join(f"<tool>{line}</tool>"
                           for line in tool_signatures(tools, self._marks, wrapped=False).split("\n"))
        return ("# Tools\n\nThese tools can be called; each is described by its JSON signature:\n<tools>\n" + listed
                + "\n</tools>\n\nTo call tools, write one block of this form; it holds an invoke for each call:\n"
                '<minimax:tool_call>\n<invoke name="NAME">\n<parameter name="KEY">VALUE</parameter>\n</invoke>\n'
                "</minimax:tool_call>\nStrings stand as they are, all other values as JSON.")

    def calls(self, calls: list[PastCall]) -> str:
        return f"<minimax:tool_call>\n{''.join(map(self._invoke, calls))}</minimax:tool_call>"

    def _invoke(self, call: PastCall) -> str:
        inner = "".join(f'<parameter name="{key}">{value_text(value, ("</parameter",))}</parameter>\n'
                        for key, value in decode_members(call.arguments).items())
        return f'<invoke name="{call.name}">\n{inner}</invoke>\n'

    def results(self, results: list[PastResult]) -> str:
        return "\n".join(f"<response>{result.marked_text}</response>" for result in results)


_MAX_SUBJECT = 200
"""Most characters of the argument that the heading of a result repeats."""


class RooTags:
    """Calls as in Roo's prompts; results under Roo's headings."""

    gap = "\n\n"
    _marks = ("</tools>", "<tools>")

    def tools(self, tools: list[OfferedTool]) -> str:
        return ("# Tools\n\nThese tools can be used, one JSON signature a line:\n<tools>\n"
                + tool_signatures(tools, self._marks, wrapped=False)
                + "\n</tools>\n\nTo use a tool, write a tag of its "
                "name, and in it a tag for each parameter that you set:\n<TOOL>\n<PARAMETER>VALUE</PARAMETER>\n</TOOL>"
                "\nStrings stand as they are, without quotes and escapes, all other values as JSON. A string with "
                "white space at an end goes into a CDATA section: <PARAMETER><![CDATA[the string]]></PARAMETER>. Do "
                "not put calls into a code block. The results come in the next message.")

    def calls(self, calls: list[PastCall]) -> str:
        return "\n\n".join(map(self._call, calls))

    def _call(self, call: PastCall) -> str:
        inner = "".join(f"<{key}>{_value(key, value)}</{key}>\n"
                        for key, value in decode_members(call.arguments).items())
        return f"<{call.name}>\n{inner}</{call.name}>"

    def results(self, results: list[PastResult]) -> str:
        return "\n\n".join(map(self._result, results))

    def _result(self, result: PastResult) -> str:
        text = f"The tool execution failed with the following error:\n<error>\n{result.text}\n</error>" \
            if result.is_error else result.text
        return f"[{result.call.name}{_subject(result.call)}] Result:\n{text}"


def _value(key: str, value: object) -> str:
    closer = f"</{key}>"
    if not isinstance(value, str):
        return value_text(value, (closer,))
    if closer in value or value.startswith("<![CDATA["):
        return _section(value)
    if key == "content":
        return f"\n{value}\n"
    return value if value == value.strip() else _section(value)


def _section(text: str) -> str:
    return "<![CDATA[" + text.replace("]]>", "]]]]><![CDATA[>") + "]]>"


def _subject(call: PastCall) -> str:
    """The first short string among the arguments, which Roo repeats in the heading."""
    for value in decode_members(call.arguments).values():
        if isinstance(value, str) and value and "\n" not in value and len(value) <= _MAX_SUBJECT:
            return f" for '{value}'"
    return ""
