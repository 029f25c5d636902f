"""The XML tools of RooCode, Cline and Kilo: the name of the tool as a tag, in it one tag for each parameter.

A reader trims values, but for `content`, which loses one newline at each end (Roo-Code's parser up to January 2026).
So a string that would not survive this, or that holds its own closing tag, stands in a CDATA section.
"""

from __future__ import annotations

from extproc.dialects.writing.form import (
    OfferedTool,
    PastCall,
    PastResult,
    members,
    signatures,
    value_text,
)

_MAX_SUBJECT = 200
"""Characters of the argument that the heading of a result repeats."""


class NamedTags:
    """Calls as Roo's prompts show them, results under the headings that Roo sends."""

    gap = "\n\n"
    _marks = ("</tools>", "<tools>")

    def tools(self, tools: list[OfferedTool]) -> str:
        return ("# Tools\n\nThese tools can be used, one JSON signature a line:\n<tools>\n"
                + signatures(tools, self._marks, wrapped=False) + "\n</tools>\n\nTo use a tool, write a tag of its "
                "name, and in it a tag for each parameter that you set:\n<TOOL>\n<PARAMETER>VALUE</PARAMETER>\n</TOOL>"
                "\nStrings stand as they are, without quotes and escapes, all other values as JSON. A string with "
                "white space at an end goes into a CDATA section: <PARAMETER><![CDATA[the string]]></PARAMETER>. Do "
                "not put calls into a code block. The results come in the next message.")

    def calls(self, calls: list[PastCall]) -> str:
        return "\n\n".join(map(self._call, calls))

    def _call(self, call: PastCall) -> str:
        inner = "".join(f"<{key}>{_value(key, value)}</{key}>\n" for key, value in members(call.arguments).items())
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
    """The first short string among the arguments: Roo names what a tool was used for."""
    for value in members(call.arguments).values():
        if isinstance(value, str) and value and "\n" not in value and len(value) <= _MAX_SUBJECT:
            return f" for '{value}'"
    return ""
