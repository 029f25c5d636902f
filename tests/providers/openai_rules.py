"""What OpenAI's Chat Completions endpoint refuses: a decoded request body in, the refusal (or None) out.

The scripted provider calls `refusal` before it answers, so that a translation which a real provider would refuse
fails its test. Wording, `param` and `code` follow the service; `openai_strictness` says what other endpoints refuse
instead. Three rules are stricter than the service on purpose,
because a provider somewhere needs them: results stand in the order of their calls, a tool call id is used once in a
conversation, and every function brings `parameters`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.providers.openai_checks import model_of, reasons
from tests.providers.openai_messages import check_messages
from tests.providers.openai_strictness import OPENAI, STRICTNESS, Strictness, check_choice_words
from tests.providers.refusals import (
    Json,
    Refusal,
    boolean,
    check_name,
    integer,
    missing,
    not_empty,
    number,
    one_of,
    only,
    string,
    too_long,
    unsupported,
    wrong_type,
)

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
JSON_TYPES = {"string", "number", "integer", "boolean", "array", "object", "null"}


def refusal(body: Json, endpoint: str = "openai") -> Refusal | None:
    """The first rule of this endpoint (a name in `STRICTNESS`) that `body` breaks."""
    try:
        check_request(body, STRICTNESS[endpoint])
    except Refusal as refused:
        return refused
    return None


# ------------------------------------------------------------------------------------------------------ top level
def check_request(body: Json, strictness: Strictness = OPENAI) -> None:
    if not isinstance(body, dict):
        raise Refusal("We could not parse the JSON body of your request.")
    if strictness.fields is not None:
        only(body, strictness.fields, "")
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise Refusal("you must provide a model parameter")
    for name, check in FIELD_CHECKS.items():
        if name in body:
            if body[name] is None and name not in NULLABLE:
                raise wrong_type(name, "a value", None)
            if body[name] is not None:
                check(body[name], name)
    check_limits(body, strictness)
    names = check_tools(body, strictness)
    check_tool_choice(body, names, strictness)
    check_messages(body.get("messages"), strictness)
    for more in strictness.checks:
        more(body)


def check_limits(body: dict[str, Json], strictness: Strictness) -> None:
    stop = body.get("stop")
    if isinstance(stop, list) and len(stop) > strictness.max_stop:
        raise too_long("stop", "array", strictness.max_stop, len(stop))
    wanted = body.get("response_format")
    if isinstance(wanted, dict) and wanted.get("type") not in strictness.formats:
        raise unsupported(wanted.get("type"), strictness.formats, "response_format.type")
    if "max_tokens" in body and "max_completion_tokens" in body:
        raise Refusal("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
                      "max_completion_tokens", "invalid_parameter_combination")
    if body.get("stream_options") is not None and body.get("stream") is not True:
        raise Refusal("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
    if strictness.name not in ("openai", "azure"):
        return
    if body.get("metadata") is not None and not body.get("store"):
        raise Refusal("The 'metadata' parameter is only allowed when 'store' is enabled.", "metadata")
    if reasons(model_of(body)):
        if "max_tokens" in body:
            raise Refusal("Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                          "'max_completion_tokens' instead.", "max_tokens", "unsupported_parameter")
        for name in ("temperature", "top_p"):
            if body.get(name) not in (None, 1):
                raise Refusal(f"Unsupported value: '{name}' does not support {body[name]} with this model. Only the "
                              "default (1) value is supported.", name, "unsupported_value")


def stop_sequences(value: Json, name: str) -> None:
    if isinstance(value, str):
        return
    if not isinstance(value, list):
        raise wrong_type(name, "one of a string or array of strings", value)
    not_empty(value, name)
    for i, item in enumerate(value):
        string(10_000)(item, f"{name}[{i}]")


def stream_options(value: Json, name: str) -> None:
    if not isinstance(value, dict):
        raise wrong_type(name, "an object", value)
    only(value, {"include_usage", "include_obfuscation"}, f"{name}.")


def metadata(value: Json, name: str) -> None:
    if not isinstance(value, dict) or any(not isinstance(v, str) or len(v) > 512 for v in value.values()):
        raise wrong_type(name, "a map of strings to strings of at most 512 characters", value)


def response_format(value: Json, name: str) -> None:
    if not isinstance(value, dict):
        raise wrong_type(name, "an object", value)
    one_of("text", "json_object", "json_schema")(value.get("type"), f"{name}.type")
    if value["type"] != "json_schema":
        only(value, {"type"}, f"{name}.")
        return
    only(value, {"type", "json_schema"}, f"{name}.")
    schema = value.get("json_schema")
    if not isinstance(schema, dict):
        raise missing(f"{name}.json_schema")
    only(schema, {"name", "description", "schema", "strict"}, f"{name}.json_schema.")
    check_name(schema.get("name"), f"{name}.json_schema.name")


FIELD_CHECKS: dict[str, Callable[[Json, str], None]] = {
    "max_tokens": integer(1), "max_completion_tokens": integer(1), "n": integer(1),
    "temperature": number(0, 2), "top_p": number(0, 1), "frequency_penalty": number(-2, 2),
    "presence_penalty": number(-2, 2), "stream": boolean, "store": boolean, "parallel_tool_calls": boolean,
    "user": string(64), "safety_identifier": string(64), "prompt_cache_key": string(1024), "stop": stop_sequences,
    "stream_options": stream_options, "metadata": metadata, "response_format": response_format,
    "reasoning_effort": one_of(*EFFORTS),
}
NULLABLE = set(FIELD_CHECKS) - {"parallel_tool_calls", "stream_options"}


# ---------------------------------------------------------------------------------------------------------- tools
def check_tools(body: dict[str, Json], strictness: Strictness) -> dict[str, str]:
    """The names of the tools with their types."""
    names: dict[str, str] = {}
    tools = body.get("tools")
    if tools is None:
        if body.get("parallel_tool_calls") is not None:
            raise Refusal("Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' "
                          "are specified.", "parallel_tool_calls")
        return names
    if not isinstance(tools, list):
        raise wrong_type("tools", "an array of objects", tools)
    not_empty(tools, "tools")
    if strictness.max_tools is not None and len(tools) > strictness.max_tools:
        raise too_long("tools", "array", strictness.max_tools, len(tools))
    for i, tool in enumerate(tools):
        if strictness.server_tools and isinstance(tool, dict) and re.fullmatch(strictness.server_tools, tool["type"]):
            only(tool, {"type", "parameters"}, f"tools[{i}].")
            continue
        name, kind = check_tool(tool, f"tools[{i}]", strictness)
        if name in names:
            raise Refusal(f"Invalid 'tools': duplicate function name '{name}'.", f"tools[{i}].function.name")
        names[name] = kind
    return names


def check_tool(tool: Json, at: str, strictness: Strictness) -> tuple[str, str]:
    if not isinstance(tool, dict):
        raise wrong_type(at, "an object", tool)
    one_of("function", *(["custom"] if strictness.custom_tools else []))(tool.get("type"), f"{at}.type")
    if tool["type"] == "custom":
        return check_custom(tool, at), "custom"
    only(tool, {"type", "function", *strictness.tool_fields}, f"{at}.")
    function = tool.get("function")
    if not isinstance(function, dict):
        raise missing(f"{at}.function")
    only(function, {"name", "description", "parameters", *(["strict"] if strictness.strict_tools else [])},
         f"{at}.function.")
    name = check_name(function.get("name"), f"{at}.function.name")
    if "description" in function and not isinstance(function["description"], str):
        raise wrong_type(f"{at}.function.description", "a string", function["description"])
    if "parameters" not in function:
        raise missing(f"{at}.function.parameters")
    check_parameters(name, function["parameters"], strict=function.get("strict") is True)
    return name, "function"


def check_custom(tool: dict[str, Json], at: str) -> str:
    only(tool, {"type", "custom"}, f"{at}.")
    custom = tool.get("custom")
    if not isinstance(custom, dict):
        raise missing(f"{at}.custom")
    only(custom, {"name", "description", "format"}, f"{at}.custom.")
    if isinstance(custom.get("format"), dict):
        one_of("text", "grammar")(custom["format"].get("type"), f"{at}.custom.format.type")
    return check_name(custom.get("name"), f"{at}.custom.name")


def check_parameters(function: str, schema: Json, *, strict: bool) -> None:
    def bad(why: str) -> Refusal:
        return Refusal(f"Invalid schema for function '{function}': {why}", "tools[0].function.parameters",
                       "invalid_function_parameters")

    if not isinstance(schema, dict) or schema.get("type") != "object":
        kind = schema.get("type") if isinstance(schema, dict) else None
        raise bad(f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'.")
    if "properties" not in schema:
        raise bad("In context=(), object schema missing properties.")
    if {"oneOf", "anyOf", "allOf", "enum", "not"} & schema.keys():
        raise bad("schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.")
    waiting: list[tuple[Json, str]] = [(schema, "()")]
    while waiting:
        node, context = waiting.pop()
        if isinstance(node, bool):
            continue
        if not isinstance(node, dict):
            raise bad(f"{node!r} is not of type 'object', 'boolean'.")
        if why := schema_fault(node, context):
            raise bad(why)
        if strict and node.get("type") == "object" and (
                node.get("additionalProperties") is not False
                or set(node.get("required") or ()) != set(node.get("properties") or ())):
            raise bad(f"In context={context}, 'additionalProperties' is required to be supplied and to be false, and "
                      "'required' must list every key in properties.")
        waiting += subschemas(node)


def schema_fault(node: dict[str, Json], context: str) -> str | None:
    kinds = node.get("type")
    for kind in kinds if isinstance(kinds, list) else [] if kinds is None else [kinds]:
        if kind not in JSON_TYPES:
            return f"{kind!r} is not valid under any of the given schemas."
    if kinds == "array" and "items" not in node and "prefixItems" not in node:
        return f"In context={context}, array schema missing items."
    if "required" in node and not isinstance(node["required"], list):
        return f"{node['required']!r} is not of type 'array'."
    if "enum" in node and (not isinstance(node["enum"], list) or not node["enum"]):
        return f"{node['enum']!r} should be non-empty."
    if "properties" in node and not isinstance(node["properties"], dict):
        return f"{node['properties']!r} is not of type 'object'."
    for key in ("exclusiveMinimum", "exclusiveMaximum"):
        if isinstance(node.get(key), bool):
            return f"{node[key]} is not of type 'number'."
    if "pattern" in node and not is_plain_regex(str(node["pattern"])):
        return f"{node['pattern']!r} is not a 'regex'."
    return None


_ODD_REGEX = re.compile(r"\(\?(?!:)|\(\*|\\[a-ac-eg-mo-qu-zAC-RT-VX-Z1-9]|[*+?}]\+|\[\^?\]|\[\[:")
"""What some engine does not compile: lookaround, flags, names, `\\p`, `\\u`, anchors, backreferences, possessives."""


def is_plain_regex(pattern: str) -> bool:
    """Whether every engine compiles it. Independent of the code under test, and stricter than most services."""
    if _ODD_REGEX.search(re.sub(r"\\[vx\\]", "", pattern)):
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def subschemas(node: dict[str, Json]) -> list[tuple[Json, str]]:
    found: list[tuple[Json, str]] = []
    for key in ("properties", "$defs", "definitions", "patternProperties"):
        inner = node.get(key)
        if isinstance(inner, dict):
            found += [(value, f"('{key}', '{name}')") for name, value in inner.items()]
    found += [(node[key], f"('{key}',)") for key in ("items", "additionalProperties", "not", "propertyNames")
              if key in node]
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        inner = node.get(key)
        if isinstance(inner, list):
            found += [(value, f"('{key}', '{i}')") for i, value in enumerate(inner)]
    return found


def check_tool_choice(body: dict[str, Json], names: dict[str, str], strictness: Strictness) -> None:
    choice = body.get("tool_choice")
    if choice is None:
        return
    if not names:
        raise Refusal("Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
                      "tool_choice")
    check_choice_words(choice, strictness)
    if isinstance(choice, str):
        return
    if not isinstance(choice, dict):
        raise wrong_type("tool_choice", "one of a string or object", choice)
    one_of("function", *(["custom", "allowed_tools"] if strictness.custom_tools else []))(
        choice.get("type"), "tool_choice.type")
    if choice["type"] != "allowed_tools":
        check_named(choice, names, "tool_choice")
        return
    only(choice, {"type", "allowed_tools"}, "tool_choice.")
    allowed = choice.get("allowed_tools")
    if not isinstance(allowed, dict) or set(allowed) != {"mode", "tools"} or not isinstance(allowed["tools"], list):
        raise missing("tool_choice.allowed_tools")
    one_of("auto", "required")(allowed["mode"], "tool_choice.allowed_tools.mode")
    not_empty(allowed["tools"], "tool_choice.allowed_tools.tools")
    for i, tool in enumerate(allowed["tools"]):
        check_named(tool, names, f"tool_choice.allowed_tools.tools[{i}]")


def check_named(choice: Json, names: dict[str, str], at: str) -> None:
    if not isinstance(choice, dict):
        raise wrong_type(at, "an object", choice)
    kind = str(choice.get("type"))
    only(choice, {"type", kind}, f"{at}.")
    named = choice.get(kind)
    if not isinstance(named, dict) or set(named) != {"name"}:
        raise missing(f"{at}.{kind}.name")
    if names.get(named["name"]) != kind:
        raise Refusal(f"Invalid value for '{at}': it names a function that is not in 'tools'.", at)
