"""What OpenAI's Responses API refuses: a decoded request body in, the refusal (or None) out.

The scripted provider calls `refusal` before it answers, so that a translation which a real provider would refuse
fails its test. Wording, `param` and `code` follow the service. It keeps no store, so every reference to one is refused.
Stricter than the service on purpose: `store` must be false, `strict` must be said, no item of the history has an id,
and outputs stand in the order of their calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from tests.providers.openai_rules import EFFORTS, check_parameters
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

Item = dict[str, Any]

FIELDS = frozenset({
    "background", "conversation", "include", "input", "instructions", "max_output_tokens", "max_tool_calls", "metadata",
    "model", "parallel_tool_calls", "previous_response_id", "prompt_cache_key", "prompt_cache_retention", "reasoning",
    "safety_identifier", "service_tier", "store", "stream", "stream_options", "temperature", "text", "tool_choice",
    "tools", "top_logprobs", "top_p", "truncation", "user"})
MOVED = {"messages": "input", "max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens",
         "response_format": "text.format", "reasoning_effort": "reasoning.effort", "verbosity": "text.verbosity",
         "functions": "tools", "function_call": "tool_choice"}
INCLUDE = ("reasoning.encrypted_content", "message.output_text.logprobs")
ITEM_FIELDS = {
    "message": {"type", "role", "content", "status", "phase"},
    "function_call": {"type", "call_id", "name", "arguments", "status", "namespace"},
    "function_call_output": {"type", "call_id", "output", "status"},
    "custom_tool_call": {"type", "call_id", "name", "input", "namespace", "status"},
    "custom_tool_call_output": {"type", "call_id", "output", "status"},
    "reasoning": {"type", "summary", "content", "encrypted_content", "status"},
}
OUTPUTS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
PARTS = {"user": ("input_text", "input_image", "input_file"), "system": ("input_text",), "developer": ("input_text",),
         "assistant": ("output_text", "refusal"), "output": ("input_text", "input_image", "input_file")}
PART_FIELDS = {
    "input_text": {"type", "text"}, "output_text": {"type", "text", "annotations", "logprobs"},
    "refusal": {"type", "refusal"}, "input_image": {"type", "image_url", "file_id", "detail"},
    "input_file": {"type", "file_id", "filename", "file_data", "file_url"},
}
_OLD = re.compile(r"gpt-4|gpt-3")


def refusal(body: Json, issued: Collection[str] = (), *, only_functions: bool = False) -> Refusal | None:
    """The first rule that `body` breaks. `issued`: the encrypted reasoning that this provider may get back.
    `only_functions`: a third party that knows no other tools."""
    try:
        check_request(body, issued, only_functions=only_functions)
    except Refusal as refused:
        return refused
    return None


def reasons(model: str) -> bool:
    return not _OLD.match(model)


# ---------------------------------------------------------------------------------------------------------- top level
def check_request(body: Json, issued: Collection[str], *, only_functions: bool) -> None:
    if not isinstance(body, dict):
        raise Refusal("We could not parse the JSON body of your request.")
    for name, place in MOVED.items():
        if name in body:
            raise Refusal(f"Unsupported parameter: '{name}'. In the Responses API, this parameter has moved to "
                          f"'{place}'.", name, "unsupported_parameter")
    only(body, FIELDS, "")
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise missing("model")
    for name in ("previous_response_id", "conversation"):
        if body.get(name) is not None:
            raise Refusal(f"Previous response with id '{body[name]}' not found.", name, "previous_response_not_found")
    if body.get("store") is not False:
        raise Refusal("this provider keeps no responses: say 'store': false", "store")
    for name, check in FIELD_CHECKS.items():
        if body.get(name) is not None:
            check(body[name], name)
    check_reasoning(body)
    names = check_tools(body.get("tools"), only_functions=only_functions)
    check_choice(body, names)
    check_input(body.get("input"), issued)


def check_reasoning(body: Item) -> None:
    reasoning = body.get("reasoning")
    if not reasons(body["model"]):
        if reasoning is not None:
            raise Refusal("Unsupported parameter: 'reasoning.effort' is not supported with this model.",
                          "reasoning.effort", "unsupported_parameter")
        if INCLUDE[0] in (body.get("include") or ()):
            raise Refusal("Encrypted content is not supported with this model.", "include")
        return
    for name in ("temperature", "top_p"):
        if body.get(name) not in (None, 1):
            raise Refusal(f"Unsupported parameter: '{name}' is not supported with this model.", name,
                          "unsupported_parameter")
    if reasoning is not None:
        only(reasoning, {"effort", "summary", "context", "mode"}, "reasoning.")
        one_of(*EFFORTS, None)(reasoning.get("effort"), "reasoning.effort")  # type: ignore[arg-type]
        one_of("auto", "concise", "detailed", None)(reasoning.get("summary"), "reasoning.summary")  # type: ignore[arg-type]


def include(value: Json, name: str) -> None:
    if not isinstance(value, list):
        raise wrong_type(name, "an array", value)
    for at, one in enumerate(value):
        one_of(*INCLUDE)(one, f"{name}[{at}]")


def text_field(value: Json, name: str) -> None:
    if not isinstance(value, dict):
        raise wrong_type(name, "an object", value)
    only(value, {"format", "verbosity"}, f"{name}.")
    one_of("low", "medium", "high", None)(value.get("verbosity"), f"{name}.verbosity")  # type: ignore[arg-type]
    wanted = value.get("format")
    if wanted is None:
        return
    one_of("text", "json_object", "json_schema")(wanted.get("type"), f"{name}.format.type")
    if wanted["type"] != "json_schema":
        only(wanted, {"type"}, f"{name}.format.")
        return
    only(wanted, {"type", "name", "schema", "strict", "description"}, f"{name}.format.")
    check_name(wanted.get("name"), f"{name}.format.name")
    if not isinstance(wanted.get("schema"), dict):
        raise missing(f"{name}.format.schema")


FIELD_CHECKS: dict[str, Callable[[Json, str], None]] = {
    "max_output_tokens": integer(16), "max_tool_calls": integer(1), "temperature": number(0, 2), "top_p": number(0, 1),
    "stream": boolean, "parallel_tool_calls": boolean, "user": string(64), "safety_identifier": string(64),
    "prompt_cache_key": string(64), "include": include, "text": text_field, "instructions": string(10_000_000),
    "truncation": one_of("auto", "disabled"),
}


# ---------------------------------------------------------------------------------------------------------------- tools
def check_tools(tools: Json, *, only_functions: bool) -> dict[str, str]:
    """The names of the tools with their types."""
    names: dict[str, str] = {}
    if tools is None:
        return names
    if not isinstance(tools, list):
        raise wrong_type("tools", "an array of objects", tools)
    not_empty(tools, "tools")
    if len(tools) > 128:
        raise too_long("tools", "array", 128, len(tools))
    for at, tool in enumerate(tools):
        place = f"tools[{at}]"
        if only_functions and tool.get("type") != "function":
            raise Refusal("Only function tools are supported on this endpoint.", f"{place}.type")
        one_of("function", "custom")(tool.get("type"), f"{place}.type")
        if "function" in tool:
            raise missing(f"{place}.name")
        name = check_name(tool.get("name"), f"{place}.name")
        if tool["type"] == "custom":
            only(tool, {"type", "name", "description", "format"}, f"{place}.")
            _check_grammar(tool.get("format"), f"{place}.format")
        else:
            only(tool, {"type", "name", "description", "parameters", "strict"}, f"{place}.")
            if not isinstance(tool.get("strict"), bool):
                raise Refusal(f"say 'strict' of the function '{name}': the service would make it strict",
                              f"{place}.strict")
            check_parameters(name, tool.get("parameters"), strict=tool["strict"])
        if name in names:
            raise Refusal(f"Duplicate tool name '{name}'.", f"{place}.name")
        names[name] = tool["type"]
    return names


def _check_grammar(value: Json, name: str) -> None:
    if value is None:
        return
    assert isinstance(value, dict)
    one_of("text", "grammar")(value.get("type"), f"{name}.type")
    if value["type"] == "grammar":
        only(value, {"type", "syntax", "definition"}, f"{name}.")
        one_of("lark", "regex")(value.get("syntax"), f"{name}.syntax")
        if not value.get("definition"):
            raise missing(f"{name}.definition")


def check_choice(body: Item, names: dict[str, str]) -> None:
    choice = body.get("tool_choice")
    if choice is None:
        return
    if not names and choice != "auto":
        raise Refusal("Tool choice must be specified with 'tools' parameter.", "tool_choice")
    if isinstance(choice, str):
        one_of("none", "auto", "required")(choice, "tool_choice")
        return
    if choice.get("type") == "allowed_tools":
        only(choice, {"type", "mode", "tools"}, "tool_choice.")
        for tool in choice["tools"]:
            _check_named(tool, names)
        return
    _check_named(choice, names)


def _check_named(choice: Item, names: dict[str, str]) -> None:
    only(choice, {"type", "name"}, "tool_choice.")
    if names.get(choice.get("name", "")) != choice.get("type"):
        raise Refusal(f"Tool choice '{choice.get('type')}' not found in 'tools' parameter.", "tool_choice")


# ---------------------------------------------------------------------------------------------------------------- items
def check_input(value: Json, issued: Collection[str]) -> None:
    if isinstance(value, str):
        return
    if not isinstance(value, list):
        raise missing("input")
    not_empty(value, "input")
    waiting: list[tuple[str, str]] = []
    known: set[str] = set()
    answered: list[str] = []
    for at, item in enumerate(value):
        place = f"input[{at}]"
        kind = check_item(item, place)
        follower = value[at + 1] if at + 1 < len(value) else None
        if kind == "reasoning":
            check_past_reasoning(item, follower, place, issued)
        elif kind in OUTPUTS:
            if item["call_id"] in known:
                raise Refusal(f"Duplicate call_id '{item['call_id']}' in input.", f"{place}.call_id")
            known.add(item["call_id"])
            waiting.append((item["call_id"], OUTPUTS[kind]))
        elif kind in OUTPUTS.values():
            if not waiting or waiting[0] != (item["call_id"], kind):
                raise Refusal(f"No tool call found for {kind.replace('_', ' ')} with call_id {item['call_id']}.",
                              "input")
            answered.append(waiting.pop(0)[0])
        elif waiting and item["role"] != "assistant":
            raise Refusal(f"No tool output found for function call {waiting[0][0]}.", "input")
    if waiting:
        raise Refusal(f"No tool output found for function call {waiting[0][0]}.", "input")


def check_item(item: Json, place: str) -> str:
    if not isinstance(item, dict):
        raise wrong_type(place, "an object", item)
    kind = item.get("type") or "message"
    if kind == "item_reference" or (kind in ITEM_FIELDS and "id" in item):
        raise Refusal(f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to "
                      "false.", "input")
    if kind not in ITEM_FIELDS:
        raise unsupported(kind, tuple(ITEM_FIELDS), place)
    only(item, ITEM_FIELDS[kind], f"{place}.")
    if kind == "message":
        one_of(*PARTS)(item.get("role"), f"{place}.role")
        one_of("commentary", "final_answer", None)(item.get("phase"), f"{place}.phase")  # type: ignore[arg-type]
        check_parts(item.get("content"), item["role"], f"{place}.content")
    elif kind != "reasoning":
        if not isinstance(item.get("call_id"), str) or not item["call_id"]:
            raise missing(f"{place}.call_id")
        string(64)(item["call_id"], f"{place}.call_id")
        for name in {"function_call": ("name", "arguments"), "custom_tool_call": ("name", "input")}.get(kind, ()):
            string(10_000_000)(item.get(name), f"{place}.{name}")
        if kind in OUTPUTS.values():
            check_parts(item.get("output"), "output", f"{place}.output")
    return str(kind)


def check_parts(content: Json, role: str, place: str) -> None:
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise missing(place)
    for at, part in enumerate(content):
        where = f"{place}[{at}]"
        one_of(*PARTS[role])(part.get("type"), where)
        only(part, PART_FIELDS[part["type"]], f"{where}.")
        if part["type"] == "input_image" and not isinstance(part.get("image_url"), str):
            raise Refusal(f"Invalid type for '{where}.image_url': expected an image URL, but got an object instead.",
                          f"{where}.image_url", "invalid_type")
        if part["type"] == "input_file" and not (part.get("file_url") or (
                part.get("filename") and str(part.get("file_data")).startswith("data:application/pdf;base64,"))):
            raise missing(f"{where}.filename")
        if part["type"] in ("input_text", "output_text") and not isinstance(part.get("text"), str):
            raise missing(f"{where}.text")


def check_past_reasoning(item: Item, follower: Json, place: str, issued: Collection[str]) -> None:
    if not isinstance(item.get("summary"), list):
        raise missing(f"{place}.summary")
    if any(part.get("type") != "summary_text" for part in item["summary"]):
        raise Refusal("Supported values are: 'summary_text'.", f"{place}.summary", "invalid_value")
    if item.get("content"):
        raise too_long(f"{place}.content", "array", 0, len(item["content"]))
    if item.get("encrypted_content") not in issued:
        raise Refusal("The encrypted content could not be verified. Reason: Encrypted content could not be decrypted "
                      "or parsed.", None, "invalid_encrypted_content")
    following = follower.get("type") or "message" if isinstance(follower, dict) else None
    if following is None or following in OUTPUTS.values() or (following == "message"
                                                              and follower["role"] != "assistant"):  # type: ignore[index]
        raise Refusal("Item of type 'reasoning' was provided without its required following item.", "input")
