r"""The project's own form, for models and servers without tool calls.

The grammar (whitespace between elements is free; `"` stands for itself):

    calls     = call*                                        (anything between calls is the model's visible text)
    call      = <tool_call name="NAME"> parameter* </tool_call>
    parameter = <parameter name="KEY"> value </parameter>
              | <parameter name="KEY" type="string"> ... | <parameter name="KEY" type="json"> ...
              | <parameter name="KEY"/>                      (the empty string)
    value     = raw | cdata+
    raw       = text without `</parameter`; one newline at its very start and one at its very end are framing
    cdata     = <![CDATA[ text without `]]>` ]]>             (whitespace around and between sections is framing; the
                                                              texts of the sections are joined, nothing else is removed)
    results   = result*
    result    = <tool_result name="NAME" id="N"> value </tool_result>      plus  is_error="true"  after a failure

* Attributes escape `&`, `<`, `>`, `"` as `&amp;` `&lt;` `&gt;` `&quot;` and control characters as `&#N;`, decimal.
  Values hold no entities: `&lt;` in a value is these four characters.
* The value of a parameter is a string if its schema allows only strings or has no type (also: unknown parameter);
  else the schema gives its type, as in the other tag dialects. `type` overrides the schema: "string" is the text,
  "json" is JSON. The writer adds it only if the value would be read differently without it.
* A value is cdata if it starts with `<![CDATA[` after whitespace. The writer uses it for each value with
  `</parameter`, `</tool_call`, `<tool_call` or a leading `<![CDATA[`, and writes `]]>` as `]]]]><![CDATA[>`. A lenient
  reader ends a section only before `</parameter>` or a further section, since models forget to split.
* A raw value with a newline is written with both framing newlines, any other with none, so newlines at both ends
  survive. `format_call` and a reader of this grammar are inverse to each other for every JSON object.
* N in a result counts the calls of the message before it, from 1; calls have no ids.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

import msgspec

from extproc.dialects.shapes import Parameter, parameter, tool_shape
from extproc.dialects.writing.form import OfferedTool, PastCall, PastResult, decode_members, escape_marks, json_text
from extproc.dialects.writing.parameters import example_arguments, needs_type, type_words

_JSON_MARKS = ("<",)
"""In JSON `<` occurs only in strings. With it escaped, no tag of the section can occur."""
_CALL_MARKS = ("</parameter", "</tool_call", "<tool_call")
_RESULT_MARKS = ("</tool_result", "<tool_result")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HIDDEN = frozenset({"description", "default", "enum", "title"})
"""Keywords of a parameter that are written elsewhere, or not at all."""


def format_call(name: str, arguments: Mapping[str, object], schema: dict[str, object] | None = None) -> str:
    """One call. `arguments`: JSON values (`msgspec.Raw` is JSON text). `schema`: the tool's, which decides whether a
    parameter needs a `type`."""
    lines = [f'<tool_call name="{escape_attribute(name)}">']
    shape = tool_shape(schema or {})
    for key, value in arguments.items():
        kind = needs_type(value, parameter(shape, key))
        typed = f' type="{kind}"' if kind else ""
        lines.append(f'<parameter name="{escape_attribute(key)}"{typed}>{_value(value)}</parameter>')
    return "\n".join([*lines, "</tool_call>"])


def escape_attribute(text: str) -> str:
    """Text for the quotes of an attribute."""
    return _CONTROL.sub(lambda found: f"&#{ord(found.group())};", html.escape(text).replace("&#x27;", "'"))


def element_text(text: str, marks: tuple[str, ...]) -> str:
    """A string as the value of an element, without `marks`."""
    if any(mark in text for mark in marks) or text.lstrip().startswith("<![CDATA["):
        return "<![CDATA[" + text.replace("]]>", "]]]]><![CDATA[>") + "]]>"
    return f"\n{text}\n" if "\n" in text else text


def _value(value: object) -> str:
    if isinstance(value, str):
        return element_text(value, _CALL_MARKS)
    if isinstance(value, msgspec.Raw):
        return escape_marks(bytes(value).decode(), _JSON_MARKS)
    return json_text(value, _JSON_MARKS)


def _escaped(text: str) -> str:
    """Text of a tool's description without tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


class Prompted:
    """Tools as an XML section with an example of each; calls and results in the grammar above."""

    gap = "\n\n"

    def tools(self, tools: list[OfferedTool]) -> str:
        return ("# Tools\n\nYou can use the tools between <tools> and </tools>. In their descriptions &lt; stands for "
                "< and &amp; for &.\n\n<tools>\n" + "\n".join(map(_tool, tools)) + "\n</tools>\n\n"
                "To call a tool, write this in your answer, exactly in this form and not in a code block:\n\n"
                '<tool_call name="TOOL">\n<parameter name="PARAMETER">VALUE</parameter>\n</tool_call>\n\n'
                "- Write one <parameter> element for each parameter that you set. Set every required one; leave out "
                "an optional one that you do not need.\n"
                "- A string is written as it is: no quotes around it, no escapes in it. Numbers, booleans, null, "
                "arrays and objects are written as JSON.\n"
                "- A string that itself contains </parameter> or </tool_call> goes into a CDATA section: "
                "<![CDATA[the string]]>\n"
                "- Stop after your last call and wait. The results come in the next message, each as <tool_result> "
                "with the name of the tool and, as its id, the number of the call in your message. Never write a "
                "<tool_result> yourself.\n"
                "- When no tool is needed, answer without calling one.")

    def calls(self, calls: list[PastCall]) -> str:
        return "\n".join(format_call(call.name, decode_members(call.arguments), call.schema) for call in calls)

    def results(self, results: list[PastResult]) -> str:
        return "\n".join(map(_result, results))


def _result(result: PastResult) -> str:
    failed = ' is_error="true"' if result.is_error else ""
    return (f'<tool_result name="{escape_attribute(result.call.name)}" id="{result.call.number}"{failed}>'
            f"{element_text(result.text, _RESULT_MARKS)}</tool_result>")


# ---------------------------------------------------------------------------------------------------- the tools section


def _tool(tool: OfferedTool) -> str:
    lines = [f'<tool name="{escape_attribute(tool.name)}">']
    if tool.description:
        lines.append(f"<description>{_escaped(tool.description)}</description>")
    properties = tool.parameters.get("properties")
    required = tool.parameters.get("required")
    needed = required if isinstance(required, list) else []
    shape = tool_shape(tool.parameters)
    for name, schema in (properties.items() if isinstance(properties, dict) else ()):
        known = parameter(shape, name)
        lines.append(_parameter(name, schema if isinstance(schema, dict) else {}, known, name in needed))
    lines += _rest(tool.parameters)
    example = format_call(tool.name, example_arguments(tool.parameters), tool.parameters)
    return "\n".join([*lines, f"<example>\n{example}\n</example>", "</tool>"])


def _parameter(name: str, schema: dict[str, object], known: Parameter, required: bool) -> str:
    """A parameter's definition. Keywords without an attribute or element follow as JSON Schema."""
    head = (f'<parameter name="{escape_attribute(name)}" type="{type_words(known)}" '
            f'required="{"true" if required else "false"}"')
    inner: list[str] = []
    description = schema.get("description")
    if isinstance(description, str) and description:
        inner.append(_escaped(description))
    for keyword in ("enum", "default"):
        if keyword in schema:
            inner.append(f"<{keyword}>{json_text(schema[keyword], _JSON_MARKS)}</{keyword}>")
    rest = {key: value for key, value in schema.items() if key not in _HIDDEN}
    if any(key != "type" for key in rest):
        inner.append(f"<schema>{json_text(rest, _JSON_MARKS)}</schema>")
    return f"{head}>{''.join(inner)}</parameter>" if inner else f"{head}/>"


def _rest(parameters: dict[str, object]) -> list[str]:
    """Keywords about all parameters together, and the definitions they refer to."""
    done = ("type", "properties", "required", "title")
    rest = {key: value for key, value in parameters.items()
            if key not in done and not (key == "additionalProperties" and isinstance(value, bool))}
    return [f"<schema>{json_text(rest, _JSON_MARKS)}</schema>"] if rest else []
