"""What Gemini's generateContent refuses: a decoded request body in, the refusal (or None) out. No sockets.

The scripted provider asks `refused` before it answers, so that a translation that Google would refuse fails its test;
unit and property tests call `refusal` and `check_schema`. Wording follows the service (AI Studio's or Vertex's, where
only one of them has the rule); what is stricter than the service says so in its words. The fields themselves stand in
`gemini_fields`, schemas in `gemini_schema`, contents in `gemini_contents`.
"""

from __future__ import annotations

import re
from typing import Any

from tests.providers.gemini_contents import FUNCTION_NAME, Issued, check_contents, generation
from tests.providers.gemini_fields import Refusal, check_fields
from tests.providers.gemini_schema import check_schema

__all__ = ["Refusal", "check_schema", "refusal", "refused"]

MAX_FUNCTIONS = 512
REQUEST = "GenerateContentRequest"
BUDGETS = (("gemini-2.5-flash-lite", 512, 24_576), ("gemini-2.5-flash", 0, 24_576), ("gemini-2.5", 128, 32_768),
           ("gemini-3", 0, 32_768))
"""Least and most `thinkingBudget` by the start of the model's name; the first one that fits."""
LEVELS = (("gemini-3-pro", ("LOW", "HIGH")), (r"gemini-3(\.[1-6])?-flash", ("MINIMAL", "LOW", "MEDIUM", "HIGH")),
          ("gemma-4", ("MINIMAL", "HIGH")), ("gemini-4-hydrogen", ("LOW", "MEDIUM", "HIGH", "XHIGH")),
          ("", ("LOW", "MEDIUM", "HIGH")))
"""From 3.7 Flash on there is no `minimal` (docs.cloud.google.com, developer's guide to Gemini 3.7 Flash)."""


def refusal(body: Any, model: str, *, vertex: bool = False, issued: Issued = None) -> str | None:
    """The message of the first rule that `body` breaks, None when Google would take it.

    `model`: its id, as in the path. `issued`: the signatures that this provider gave out for this model, alone or
    with the part of each; None takes any that is base64.
    """
    found = refused(body, model, vertex=vertex, issued=issued)
    return found.message if found else None


def refused(body: Any, model: str, *, vertex: bool = False, issued: Issued = None) -> Refusal | None:
    """Like `refusal`, as the error that goes out."""
    try:
        check_request(body, model.rpartition("/")[2], vertex=vertex, issued=issued)
    except Refusal as found:
        return found
    return None


def check_request(body: Any, model: str, *, vertex: bool, issued: Issued) -> None:
    if not isinstance(body, dict):
        raise Refusal("Invalid JSON payload received. Unexpected token.")
    check_fields(body, REQUEST, "", vertex=vertex)
    names = check_tools(body.get("tools") or [], model, vertex=vertex)
    mixed = bool(names) and any(tool.keys() - {"functionDeclarations"} for tool in body.get("tools") or [])
    if mixed and not vertex and not (body.get("toolConfig") or {}).get("includeServerSideToolInvocations"):
        raise Refusal("Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with "
                      "Function calling.")
    check_tool_config(body.get("toolConfig") or {}, names, model)
    check_config(body.get("generationConfig") or {}, model, vertex=vertex, tools=bool(names))
    check_safety(body.get("safetySettings") or [])
    check_system(body, model)
    check_contents(body.get("contents") or [], model, vertex=vertex, issued=issued)


def check_system(body: dict[str, Any], model: str) -> None:
    system = body.get("systemInstruction")
    if system is not None:
        if not system.get("parts"):
            raise Refusal(f"* {REQUEST}.system_instruction.parts: must not be empty.\n")
        if any(not part.get("text") or len(part) != 1 for part in system["parts"]):
            raise Refusal("System instruction only supports text, and it must not be empty.")
        if old_gemma(model):
            raise Refusal(f"Developer instruction is not enabled for models/{model}")
    if body.get("cachedContent") and any(body.get(key) for key in ("systemInstruction", "tools", "toolConfig")):
        raise Refusal("CachedContent can not be used with GenerateContent request setting system_instruction, tools or "
                      "tool_config.")


def old_gemma(model: str) -> bool:
    """Gemma 4 knows system texts and functions, those before it do not."""
    return "gemma" in model and "gemma-4" not in model


def check_safety(settings: list[dict[str, Any]]) -> None:
    categories = [one.get("category") for one in settings]
    if None in categories or any(one.get("threshold") is None for one in settings):
        raise Refusal(f"* {REQUEST}.safety_settings: a setting needs a category and a threshold\n")
    if len(set(categories)) != len(categories):
        raise Refusal(f"* {REQUEST}.safety_settings: duplicate safety setting\n")


# ---------------------------------------------------------------------------------------------------------------- tools
def check_tools(tools: list[dict[str, Any]], model: str, *, vertex: bool) -> set[str]:
    names: set[str] = set()
    kinds: set[str] = set()
    for i, tool in enumerate(tools):
        held = {key for key, value in tool.items() if value is not None}
        if not held or tool.get("functionDeclarations") == []:
            raise Refusal(f"* {REQUEST}.tools[{i}].tool_type: required one_of 'tool_type' must have one initialized "
                          "field\n")
        kinds |= held
        for j, declaration in enumerate(tool.get("functionDeclarations") or []):
            at = f"{REQUEST}.tools[{i}].function_declarations[{j}]"
            name = check_declaration(declaration, at, model, vertex=vertex)
            if name in names:
                raise Refusal(f"Duplicate function declaration found: {name}")
            names.add(name)
    if names and old_gemma(model):
        raise Refusal(f"Function calling is not enabled for models/{model}")
    if names and len(kinds) > 1 and generation(model) < 3:
        raise Refusal("Tool use with function calling is unsupported: built-in tools and function calling cannot be "
                      "combined in the same request.")
    if len(names) > MAX_FUNCTIONS:
        raise Refusal(f"Unable to submit request because it has {len(names)} function declarations, but the maximum is "
                      f"{MAX_FUNCTIONS}.")
    return names


def check_declaration(declaration: dict[str, Any], at: str, model: str, *, vertex: bool) -> str:
    name = declaration.get("name") or ""
    if not FUNCTION_NAME.fullmatch(name):
        raise Refusal(f"* {at}.name: Invalid function name. Must start with a letter or an underscore. Must be "
                      "alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a "
                      "maximum length of 64.\n")
    for plain, other in (("parameters", "parametersJsonSchema"), ("response", "responseJsonSchema")):
        if declaration.get(plain) is not None and declaration.get(other) is not None:
            raise Refusal(f"* {at}: {plain} and {other} are mutually exclusive.\n")
    if declaration.get("parametersJsonSchema") is not None and generation(model) < 2.5:
        raise Refusal(f"* {at}.parameters_json_schema: not supported for models/{model}.\n")
    for key, json_schema in (("parameters", False), ("parametersJsonSchema", True)):
        if declaration.get(key) is not None:
            why = check_schema(declaration[key], json_schema=json_schema, vertex=vertex, at=f"{at}.{key}")
            if why is not None:
                raise Refusal(why)
    return str(name)


def check_tool_config(config: dict[str, Any], names: set[str], model: str) -> None:
    calling = config.get("functionCallingConfig")
    if calling is None:
        return
    if not names:
        raise Refusal("Function calling config is set without function_declarations.")
    at = f"{REQUEST}.tool_config.function_calling_config.allowed_function_names"
    if str(calling.get("mode")).upper() == "VALIDATED" and generation(model) < 2.5:
        raise Refusal("Function calling mode VALIDATED is not supported for this model.")
    allowed = calling.get("allowedFunctionNames")
    if not allowed:
        return
    if str(calling.get("mode")).upper() not in ("ANY", "VALIDATED"):
        raise Refusal(f"* {at}: only allowed when mode is ANY\n")
    for name in allowed:
        if name not in names:
            raise Refusal(f"* {at}: {name} is not a declared function\n")


# --------------------------------------------------------------------------------------------------------------- config
def check_config(config: dict[str, Any], model: str, *, vertex: bool, tools: bool) -> None:
    for key, low, high in (("temperature", 0.0, 2.0), ("topP", 0.0, 1.0), ("presencePenalty", -2.0, 2.0),
                           ("frequencyPenalty", -2.0, 2.0), ("topK", 1, 40 if generation(model) < 2.5 else 64),
                           ("candidateCount", 1, 1), ("logprobs", 0, 20)):
        value = config.get(key)
        if value is not None and not low <= value <= high:
            raise Refusal(f"* {REQUEST}.generation_config.{key}: must be in the range [{low}, {high}], got {value}.\n")
    if generation(model) != 2.0 and any(config.get(key) is not None for key in ("presencePenalty", "frequencyPenalty")):
        raise Refusal("Penalty is not enabled for this model")
    if config.get("logprobs") is not None and not config.get("responseLogprobs"):
        raise Refusal("logprobs is only allowed when response_logprobs is true.")
    most = 8192 if generation(model) < 2.5 else 65_536
    tokens = config.get("maxOutputTokens")
    if tokens is not None and not 1 <= tokens <= most:
        raise Refusal(f"Unable to submit request because it has a maxOutputTokens value of {tokens} but the supported "
                      f"range is from 1 (inclusive) to {most + 1} (exclusive). Update the value and try again.")
    stops = config.get("stopSequences") or []
    if len(stops) > 5:
        raise Refusal(f"* {REQUEST}.generation_config.stop_sequences: at most 5 stop sequences\n")
    if "" in stops:
        raise Refusal(f"* {REQUEST}.generation_config.stop_sequences[{stops.index('')}]: cannot be empty\n")
    check_format(config, model, vertex=vertex, tools=tools)
    check_thinking(config.get("thinkingConfig") or {}, model)


def check_format(config: dict[str, Any], model: str, *, vertex: bool, tools: bool) -> None:
    kind = config.get("responseMimeType") or "text/plain"
    if kind not in ("text/plain", "application/json", "text/x.enum"):
        raise Refusal(f"* {REQUEST}.generation_config.response_mime_type: allowed mimetypes are `text/plain`, "
                      "`application/json`, `application/xml`, `application/yaml` and `text/x.enum`.\n")
    schemas = [key for key in ("responseSchema", "responseJsonSchema") if config.get(key) is not None]
    if len(schemas) > 1:
        raise Refusal("Only one of response_schema and response_json_schema may be set.")
    if schemas and kind == "text/plain":
        raise Refusal(f"* {REQUEST}.generation_config.response_mime_type: must be 'application/json' with a response "
                      "schema\n")
    if kind != "text/plain" and old_gemma(model):
        raise Refusal(f"JSON mode is not enabled for models/{model}")
    if kind != "text/plain" and tools and generation(model) < 3:
        raise Refusal(f"Function calling with a response mime type: '{kind}' is unsupported")
    for key in schemas:
        if key == "responseJsonSchema" and generation(model) < 2.5:
            raise Refusal(f"* {REQUEST}.generation_config.response_json_schema: not supported for models/{model}.\n")
        why = check_schema(config[key], json_schema=key == "responseJsonSchema", vertex=vertex, top=False,
                           at=f"generation_config.{key}")
        if why is not None:
            raise Refusal(why)


def check_thinking(config: dict[str, Any], model: str) -> None:
    budget, level = config.get("thinkingBudget"), config.get("thinkingLevel")
    if budget is not None and level is not None:
        raise Refusal("You can only set only one of thinking budget and thinking level.")
    if config and generation(model) < 2.5 and "gemma-4" not in model:
        raise Refusal("Unable to submit request because thinking is not supported by this model.")
    if level is not None:
        if generation(model) < 3 and "gemma-4" not in model:
            raise Refusal("Thinking level is not supported for this model.")
        known = next(levels for start, levels in LEVELS if re.match(start, model))
        if level.upper() not in known:
            raise Refusal(f"Thinking level {level.upper()} is not supported for this model. Please retry with other "
                          "thinking level.")
    if budget is not None and budget != -1:
        low, high = next(((low, high) for start, low, high in BUDGETS if model.startswith(start)), (0, 32_768))
        off = "flash-lite" in model and budget == 0
        if not low <= budget <= high and not off:
            raise Refusal(f"The thinking budget {budget} is invalid. Please choose a value between {low} and {high}.")
    if budget == 0 and config.get("includeThoughts"):
        raise Refusal("Unable to submit request because Thinking_config.include_thoughts is only enabled when thinking "
                      "is enabled.")
