"""Helpers for Gemini requests. Every request is checked against Google's own types and the rules of the scripted
provider."""

from __future__ import annotations

import json
from typing import Any

from extproc.apis.base import EncodedRequest
from extproc.apis.gemini.provider.request import encode_request
from extproc.apis.gemini.provider.signatures import origin
from extproc.conversation.model import Message, Request, Signature, Text, Tool, ToolCall, ToolResult
from extproc.conversation.unsupported import Dropped
from extproc.profiles import find_profile
from extproc.profiles.gemini import find_gemini_endpoint
from extproc.profiles.target import Target
from tests.google_types import validate_body
from tests.providers.gemini_rules import refusal

PRO_3 = "gemini-3-pro-preview"
FLASH_25 = "gemini-2.5-flash"
OLD = "gemini-2.0-flash"
LATEST = "gemini-3.8-flash"
GEMMA = "gemma-3-27b-it"
STUDIO = "generativelanguage.googleapis.com"
VERTEX = {"endpoint": "us-central1-aiplatform.googleapis.com",
          "base_path": "/v1/projects/p/locations/us-central1/publishers/google"}
BYPASS = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
PNG = "iVBORw0KGgoAAAANSUhEUg=="
PDF = "JVBERi0xLjQK"


def user(*content: Any) -> Message:
    return Message("user", [Text(block) if isinstance(block, str) else block for block in content])


def assistant(*content: Any) -> Message:
    return Message("assistant", [Text(block) if isinstance(block, str) else block for block in content])


def system(text: str) -> Message:
    return Message("system", [Text(text)])


def call(call_id: str, name: str = "read", arguments: str = "{}", signed: Signature | None = None) -> ToolCall:
    return ToolCall(call_id, name, arguments, signature=signed)


def result(call_id: str, *content: Any, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id, [Text(block) if isinstance(block, str) else block for block in content], is_error)


def tool(name: str, **fields: Any) -> Tool:
    return Tool(name, "does it", {"type": "object", "properties": {"path": {"type": "string"}}}, **fields)


def target(model: str = PRO_3, **settings: Any) -> Target:
    return Target(**{"model": model, "profile": find_profile(None, None, model), "base_path": "/v1beta",
                     "endpoint": STUDIO, **settings})


def signature(value: str = "c2lnbmF0dXJl", model: str = PRO_3, **settings: Any) -> Signature:
    """A signature that this target issued."""
    return Signature(value, origin(target(model, **settings)))


def sent(request: Request, at: Target, dropped: Dropped | None = None) -> EncodedRequest:
    encoded = encode_request(request, at, Dropped() if dropped is None else dropped)
    body = json.loads(encoded.request.body)
    validate_body(body)
    vertex = find_gemini_endpoint(at.endpoint, at.base_path, at.provider).name == "vertex"
    refused = refusal(body, at.model, vertex=vertex)
    assert refused is None, refused
    return encoded


def encode(*messages: Message, model: str = PRO_3, settings: dict[str, Any] | None = None,
           dropped: Dropped | None = None, **fields: Any) -> dict[str, Any]:
    """The decoded body of a request with these messages ("hi" if there are none)."""
    request = Request(model="client-model", messages=list(messages) or [user("hi")], **fields)
    body: dict[str, Any] = json.loads(sent(request, target(model, **(settings or {})), dropped).request.body)
    return body


def roles(body: dict[str, Any]) -> list[str]:
    """One line per content: its role and the fields of its parts."""
    return [" ".join([content["role"], *(next(iter(set(part) - {"thoughtSignature"})) for part in content["parts"])])
            for content in body["contents"]]


def texts(content: dict[str, Any]) -> list[str]:
    return [part["text"] for part in content["parts"]]


def responses(content: dict[str, Any]) -> list[dict[str, Any]]:
    return [part["functionResponse"] for part in content["parts"]]
