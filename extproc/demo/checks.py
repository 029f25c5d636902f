"""What the demo refuses: the mistakes for which OpenAI's own API answers 400.

A demo that took anything would hide errors of the translation in front of it. Called by the server for each request.
"""

from __future__ import annotations

import re
from typing import Any

_FIELDS = frozenset("""
    model messages tools tool_choice parallel_tool_calls stream stream_options max_tokens max_completion_tokens
    temperature top_p stop n presence_penalty frequency_penalty logit_bias logprobs top_logprobs response_format seed
    user metadata store service_tier reasoning_effort modalities prediction audio verbosity safety_identifier
    prompt_cache_key prompt_cache_retention web_search_options function_call functions
""".split())  # noqa: SIM905 - as a table of words it can be read
_ROLES = ("system", "developer", "user", "assistant", "tool")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PARTS = ("text", "image_url", "input_audio", "file", "refusal")
_MAX_TOOLS = 128
_MAX_STOP = 4


class Refused(Exception):  # noqa: N818 - the field's word
    """The request is not valid; `param` names the field, as in OpenAI's error object."""

    def __init__(self, message: str, param: str | None = None, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.param, self.status, self.code = param, status, code


def check(request: Any) -> None:
    """Raises Refused for the first thing that is wrong."""
    if not isinstance(request, dict):
        raise Refused("We expected a JSON object as the request body.")
    for field in request:
        if field not in _FIELDS:
            raise Refused(f"Unrecognized request argument supplied: {field}", field)
    if not isinstance(request.get("model"), str) or not request["model"]:
        raise Refused("you must provide a model parameter", "model")
    if request["model"] != "demo":
        raise Refused(f"The model `{request['model']}` does not exist; the demo serves `demo`.", "model", 404,
                      "model_not_found")
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused("expected a list of at least one message", "messages")
    for index, message in enumerate(messages):
        _message(message, f"messages[{index}]")
    _pairs(messages)
    _tools(request.get("tools"))
    if request.get("tool_choice") is not None and not request.get("tools"):
        raise Refused("tool_choice is only allowed when tools are specified", "tool_choice")
    stop = request.get("stop")
    if isinstance(stop, list) and len(stop) > _MAX_STOP:
        raise Refused(f"at most {_MAX_STOP} stop sequences", "stop")
    if request.get("stream_options") is not None and not request.get("stream"):
        raise Refused("stream_options is only allowed when stream is true", "stream_options")


def _message(message: Any, path: str) -> None:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in _ROLES:
        raise Refused(f"Invalid role: expected one of {', '.join(_ROLES)}", f"{path}.role")
    content = message.get("content")
    if isinstance(content, list):
        for number, part in enumerate(content):
            kind = part.get("type") if isinstance(part, dict) else None
            allowed = ("text",) if role in ("tool", "system", "developer") else _PARTS
            if kind not in allowed:
                raise Refused(f"Invalid content type {kind!r} for the role {role}", f"{path}.content[{number}].type")
    elif content is None:
        if role != "assistant" or not (message.get("tool_calls") or message.get("refusal")):
            raise Refused("expected a string, got null", f"{path}.content")
    elif not isinstance(content, str):
        raise Refused("expected a string or a list of parts", f"{path}.content")
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        raise Refused("tool messages need a tool_call_id", f"{path}.tool_call_id")
    for number, call in enumerate(message.get("tool_calls") or ()):
        _call(call, f"{path}.tool_calls[{number}]")


def _call(call: Any, path: str) -> None:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or call.get("type") != "function" or not isinstance(call.get("id"), str):
        raise Refused("a tool call has an id, the type function and a function", path)
    if not _TOOL_NAME.fullmatch(str(function.get("name"))):
        raise Refused(r"the name must match ^[a-zA-Z0-9_-]{1,64}$", f"{path}.function.name")
    if not isinstance(function.get("arguments"), str):
        raise Refused("expected a string", f"{path}.function.arguments")


def _pairs(messages: list[dict[str, Any]]) -> None:
    """Each tool call is answered by the tool messages that follow at once, and only calls are answered."""
    waiting: list[str] = []
    for index, message in enumerate([*messages, {"role": "user"}]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                raise Refused("messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
                              f"messages[{index}].role")
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            raise Refused("An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                          f"'tool_call_id'. These did not have response messages: {', '.join(waiting)}",
                          f"messages[{index}].role")
        waiting = [call["id"] for call in message.get("tool_calls") or ()]


def _tools(tools: Any) -> None:
    if tools is None:
        return
    if not isinstance(tools, list) or not tools:
        raise Refused("expected a list of at least one tool", "tools")
    if len(tools) > _MAX_TOOLS:
        raise Refused(f"at most {_MAX_TOOLS} tools", "tools")
    for index, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or tool.get("type") != "function":
            raise Refused("a tool has the type function and a function", f"tools[{index}]")
        if not _TOOL_NAME.fullmatch(str(function.get("name"))):
            raise Refused(r"the name must match ^[a-zA-Z0-9_-]{1,64}$", f"tools[{index}].function.name")
        parameters = function.get("parameters", {"type": "object"})
        if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
            raise Refused("schema must be a JSON Schema of 'type: \"object\"'", f"tools[{index}].function.parameters")
