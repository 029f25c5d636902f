"""What a provider was asked, read from the body of its own API into words that all providers share.

These readers are the tests' own: they never use the gateway's code, so that both cannot be wrong in the same way.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass
class RoutingFields:
    """One request. `calls` and `results` are (tool, arguments) and (tool, text) in order; media are base64."""

    system: str = ""
    texts: list[str] = field(default_factory=list)
    """What the user said."""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    results: list[tuple[str, str]] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    forced: str | None = None
    """The tool that must be called."""
    parallel: bool = True
    schema: Any = None
    """The schema of a structured answer."""
    settings: Json = field(default_factory=dict)
    """temperature, top_p, stop and limit, as far as they are set."""

    def add_media(self, media_type: str, data: str) -> None:
        (self.images if media_type.startswith("image/") else self.documents).append(data)


def of_openai(body: Json) -> RoutingFields:
    """Chat Completions."""
    found = RoutingFields(tools=[tool["function"]["name"] for tool in body.get("tools", [])],
                  parallel=body.get("parallel_tool_calls", True),
                  schema=body.get("response_format", {}).get("json_schema", {}).get("schema"),
                  settings=_set(body, temperature="temperature", top_p="top_p", stop="stop", max_tokens="limit",
                                max_completion_tokens="limit"))
    if isinstance(body.get("tool_choice"), dict):
        found.forced = body["tool_choice"]["function"]["name"]
    called: dict[str, str] = {}
    for message in body["messages"]:
        if message["role"] in ("system", "developer"):
            found.system += _words(message["content"])
        elif message["role"] == "tool":
            found.results.append((called[message["tool_call_id"]], _words(message["content"])))
        elif message["role"] == "user":
            _openai_parts(found, message["content"])
        else:
            found.thinking += [message[name] for name in ("reasoning_content", "reasoning") if message.get(name)]
            for item in message.get("reasoning_details", []):
                found.thinking += [item["text"]] if item.get("text") else []
                found.signatures += [item[name] for name in ("signature", "data") if item.get(name)]
            for call in message.get("tool_calls") or []:
                called[call["id"]] = call["function"]["name"]
                found.calls.append((call["function"]["name"], json.loads(call["function"]["arguments"])))
    return found


def _openai_parts(found: RoutingFields, content: Any) -> None:
    parts: list[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for part in parts:
        if part["type"] == "text":
            found.texts.append(part["text"])
        else:
            url = part["image_url"]["url"] if part["type"] == "image_url" else part["file"]["file_data"]
            head, _, data = url.partition(";base64,")
            found.add_media(head.removeprefix("data:"), data)


def _words(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def of_anthropic(body: Json) -> RoutingFields:
    """Messages."""
    choice = body.get("tool_choice", {})
    found = RoutingFields(system=_words(body.get("system", "")), tools=[tool["name"] for tool in body.get("tools", [])],
                  forced=choice.get("name"), parallel=not choice.get("disable_parallel_tool_use", False),
                  schema=body.get("output_config", {}).get("format", {}).get("schema"),
                  settings=_set(body, temperature="temperature", top_p="top_p", stop_sequences="stop",
                                max_tokens="limit"))
    called: dict[str, str] = {}
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            kind = block["type"]
            if kind == "text" and message["role"] == "user":
                found.texts.append(block["text"])
            elif kind == "thinking":
                found.thinking.append(block["thinking"])
                found.signatures.append(block["signature"])
            elif kind == "tool_use":
                called[block["id"]] = block["name"]
                found.calls.append((block["name"], block["input"]))
            elif kind == "tool_result":
                inner = block.get("content") or ""
                parts = [{"type": "text", "text": inner}] if isinstance(inner, str) else inner
                found.results.append((called[block["tool_use_id"]],
                                      "".join(part["text"] for part in parts if part["type"] == "text")))
                for part in parts:
                    _anthropic_media(found, part)
            else:
                _anthropic_media(found, block)
    return found


def _anthropic_media(found: RoutingFields, block: Json) -> None:
    if "source" in block:
        found.add_media(block["source"]["media_type"], block["source"]["data"])


def of_responses(body: Json) -> RoutingFields:
    """Responses."""
    found = RoutingFields(system=body.get("instructions", ""), tools=[tool["name"] for tool in body.get("tools", [])],
                          parallel=body.get("parallel_tool_calls", True),
                          schema=body.get("text", {}).get("format", {}).get("schema"),
                          settings=_set(body, temperature="temperature", top_p="top_p", max_output_tokens="limit"))
    if isinstance(body.get("tool_choice"), dict):
        found.forced = body["tool_choice"]["name"]
    called: dict[str, str] = {}
    for item in body["input"]:
        kind = item.get("type", "message")
        if kind == "reasoning":
            found.thinking += [part["text"] for part in item["summary"]]
            found.signatures.append(item["encrypted_content"])
        elif kind == "function_call":
            called[item["call_id"]] = item["name"]
            found.calls.append((item["name"], json.loads(item["arguments"])))
        elif kind == "function_call_output":
            parts = _response_parts(item["output"])
            found.results.append((called[item["call_id"]],
                                  "".join(part["text"] for part in parts if part["type"] == "input_text")))
            _response_media(found, parts)
        elif item["role"] == "user":
            parts = _response_parts(item["content"])
            found.texts += [part["text"] for part in parts if part["type"] == "input_text"]
            _response_media(found, parts)
    return found


def _response_parts(content: Any) -> list[Json]:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content


def _response_media(found: RoutingFields, parts: list[Json]) -> None:
    for part in parts:
        url = part.get("image_url") or part.get("file_data")
        if url is not None:
            head, _, data = url.partition(";base64,")
            found.add_media(head.removeprefix("data:"), data)


def of_gemini(body: Json) -> RoutingFields:
    """generateContent. Results are known by the name of their tool."""
    config = body.get("generationConfig", {})
    calling = body.get("toolConfig", {}).get("functionCallingConfig", {})
    found = RoutingFields(system=_gemini_words(body.get("systemInstruction", {"parts": []})),
                  tools=[one["name"] for tool in body.get("tools", []) for one in tool["functionDeclarations"]],
                  schema=config.get("responseJsonSchema"),
                  settings=_set(config, temperature="temperature", topP="top_p", stopSequences="stop",
                                maxOutputTokens="limit"))
    if calling.get("mode") == "ANY":
        (found.forced,) = calling["allowedFunctionNames"]
    for content in body["contents"]:
        for part in content["parts"]:
            if "text" in part and content["role"] == "user":
                found.texts.append(part["text"])
            if "thoughtSignature" in part:
                found.signatures.append(part["thoughtSignature"])
            if "functionCall" in part:
                found.calls.append((part["functionCall"]["name"], part["functionCall"].get("args", {})))
            _gemini_media(found, part)
            if "functionResponse" in part:
                response = part["functionResponse"]
                found.results.append((response["name"], response["response"].get("output", "")))
                for inner in response.get("parts", []):
                    _gemini_media(found, inner)
    return found


def _gemini_words(content: Json) -> str:
    return "".join(part["text"] for part in content["parts"])


def _gemini_media(found: RoutingFields, part: Json) -> None:
    if "inlineData" in part:
        found.add_media(part["inlineData"]["mimeType"], part["inlineData"]["data"])


def _set(fields: Json, **names: str) -> Json:
    return {told: fields[name] for name, told in names.items() if fields.get(name) is not None}
