"""What the demo refuses: the mistakes that OpenAI's own API refuses with 400.

A demo that accepted anything would hide errors of the translation in front of it.
"""

from __future__ import annotations

import re
from typing import Any

_FIELDS = frozenset("""
    model messages tools tool_choice parallel_tool_calls stream stream_options max_tokens max_completion_tokens
    temperature top_p stop n presence_penalty frequency_penalty logit_bias logprobs top_logprobs response_format seed
    user metadata store service_tier reasoning_effort modalities prediction audio verbosity safety_identifier
    prompt_cache_key prompt_cache_retention web_search_options function_call functions
""".split())  # noqa: SIM905 - readable as a table of words
_ROLES = ("system", "developer", "user", "assistant", "tool")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PARTS = ("text", "image_url", "input_audio", "file", "refusal")
_MAX_TOOLS = 128
_MAX_STOP = 4


class DemoError(Exception):
    """The request is invalid. `param` names the field, as in OpenAI's error object."""

    def __init__(self, message: str, param: str | None = None, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.param, self.status, self.code = param, status, code


def check_request(request: Any) -> None:
    """Raises DemoError for the first mistake."""
    if not isinstance(request, dict):
        raise DemoError("We expected a JSON object as the request body.")
    for field in request:
        if field not in _FIELDS:
            raise DemoError(f"Unrecognized request argument supplied: {field}", field)
    if not isinstance(request.get("model"), str) or not request["model"]:
        raise DemoError("you must provide a model parameter", "model")
    if request["model"] != "demo":
        raise DemoError(f"The model `{request['model']}` does not exist; the demo serves `demo`.", "model", 404,
                      "model_not_found")
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        raise DemoError("expected a list of at least one message", "messages")
    for index, message in enumerate(messages):
        _check_message(message, f"messages[{index}]")
    _check_call_results(messages)
    _check_tools(request.get("tools"))
    if request.get("tool_choice") is not None and not request.get("tools"):
        raise DemoError("tool_choice is only allowed when tools are specified", "tool_choice")
    stop = request.get("stop")
    if isinstance(stop, list) and len(stop) > _MAX_STOP:
        raise DemoError(f"at most {_MAX_STOP} stop sequences", "stop")
    if request.get("stream_options") is not None and not request.get("stream"):
        raise DemoError("stream_options is only allowed when stream is true", "stream_options")


def _check_message(message: Any, path: str) -> None:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in _ROLES:
        raise DemoError(f"Invalid role: expected one of {', '.join(_ROLES)}", f"{path}.role")
    content = message.get("content")
    if isinstance(content, list):
        for number, part in enumerate(content):
            kind = part.get("type") if isinstance(part, dict) else None
            allowed = ("text",) if role in ("tool", "system", "developer") else _PARTS
            if kind not in allowed:
                raise DemoError(f"Invalid content type {kind!r} for the role {role}", f"{path}.content[{number}].type")
    elif content is None:
        if role != "assistant" or not (message.get("tool_calls") or message.get("refusal")):
            raise DemoError("expected a string, got null", f"{path}.content")
    elif not isinstance(content, str):
        raise DemoError("expected a string or a list of parts", f"{path}.content")
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        raise DemoError("tool messages need a tool_call_id", f"{path}.tool_call_id")
    for number, call in enumerate(message.get("tool_calls") or ()):
        _check_call(call, f"{path}.tool_calls[{number}]")


def _check_call(call: Any, path: str) -> None:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or call.get("type") != "function" or not isinstance(call.get("id"), str):
        raise DemoError("a tool call has an id, the type function and a function", path)
    if not _TOOL_NAME.fullmatch(str(function.get("name"))):
        raise DemoError(r"the name must match ^[a-zA-Z0-9_-]{1,64}$", f"{path}.function.name")
    if not isinstance(function.get("arguments"), str):
        raise DemoError("expected a string", f"{path}.function.arguments")


def _check_call_results(messages: list[dict[str, Any]]) -> None:
    """Tool messages follow their calls at once: one for each call, and none without a call."""
    pending: list[str] = []
    for index, message in enumerate([*messages, {"role": "user"}]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in pending:
                raise DemoError("messages with role 'tool' must be a response to a preceding message with "
                                "'tool_calls'.", f"messages[{index}].role")
            pending.remove(message["tool_call_id"])
            continue
        if pending:
            raise DemoError("An assistant message with 'tool_calls' must be followed by tool messages responding to "
                            f"each 'tool_call_id'. These did not have response messages: {', '.join(pending)}",
                            f"messages[{index}].role")
        pending = [call["id"] for call in message.get("tool_calls") or ()]


def _check_tools(tools: Any) -> None:
    if tools is None:
        return
    if not isinstance(tools, list) or not tools:
        raise DemoError("expected a list of at least one tool", "tools")
    if len(tools) > _MAX_TOOLS:
        raise DemoError(f"at most {_MAX_TOOLS} tools", "tools")
    for index, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or tool.get("type") != "function":
            raise DemoError("a tool has the type function and a function", f"tools[{index}]")
        if not _TOOL_NAME.fullmatch(str(function.get("name"))):
            raise DemoError(r"the name must match ^[a-zA-Z0-9_-]{1,64}$", f"tools[{index}].function.name")
        parameters = function.get("parameters", {"type": "object"})
        if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
            raise DemoError("schema must be a JSON Schema of 'type: \"object\"'", f"tools[{index}].function.parameters")
