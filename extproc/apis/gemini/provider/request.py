"""A request of the conversation model as a generateContent request.

Called once per attempt, always with the original request. The same request gives the same bytes. Keys are added
elsewhere; this module sends nothing and fetches nothing.
"""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from extproc.apis.base import EncodedRequest, ProviderRequest, request_headers
from extproc.apis.gemini.provider.contents import encode_contents
from extproc.apis.gemini.provider.parameters import format_note, set_parameters
from extproc.apis.gemini.provider.tools import MAX_NAME_LENGTH, NAME_PATTERN, NAMESPACES, set_tools
from extproc.apis.gemini.wire import RequestBody, RequestPart, SystemInstruction
from extproc.conversation.model import Request
from extproc.conversation.tool_names import build_name_map
from extproc.conversation.tool_results import pair
from extproc.conversation.unsupported import Dropped
from extproc.dialects import writing
from extproc.errors import BadRequest
from extproc.profiles.gemini import GeminiEndpoint, find_gemini_endpoint, find_gemini_model
from extproc.profiles.target import Target

_ENCODER = msgspec.json.Encoder()
_DEFAULT_VERSION = {"studio": "/v1beta", "vertex": "/v1"}
_COLLECTIONS = ("tunedModels/", "endpoints/")
"""Collections of customers' own models, instead of `models`."""


def encode_request(request: Request, target: Target, dropped: Dropped) -> EncodedRequest:
    """POST {base_path}/models/{model}:generateContent or :streamGenerateContent. Names in `dropped` what the format or
    the model cannot carry. Raises `BadRequest` for tool results without a call, two tools of one name, too many
    tools, the choice of a tool that is not offered, several responses to one request, and a conversation without
    anything to send."""
    model = find_gemini_model(target.model)
    endpoint = find_gemini_endpoint(target.endpoint, target.base_path, target.provider)
    names = build_name_map(request, MAX_NAME_LENGTH, NAME_PATTERN, NAMESPACES)
    styled = None if model.functions else target.with_prompted_tools()
    target = styled or target
    request = writing.write_for_target(request, target, names, dropped)
    body = RequestBody(contents=[])
    notes = set_tools(body, request, target, model, endpoint, names, dropped)
    set_parameters(body, request, target, model, endpoint, dropped)
    note = format_note(request.output_format, model, with_tools=bool(body.tools))
    if any(text.cache for text in request.system):
        dropped.hint("cache_control")
    system = [*(text.text for text in request.system), *notes, *([note] if note is not None else [])]
    conversation = encode_contents(system, pair(request.messages, dropped), names, target, model, endpoint, dropped)
    if not conversation.contents:
        raise BadRequest("messages: the conversation holds nothing that can be sent to this model; add a user message "
                         "with text")
    body.contents = conversation.contents
    if conversation.system:
        body.system_instruction = SystemInstruction([RequestPart(text=conversation.system)])
    verb = ":streamGenerateContent?alt=sse" if request.stream else ":generateContent"
    sent = ProviderRequest(method="POST", path=model_path(target.model, target.base_path, endpoint) + verb,
                           headers=request_headers(stream=request.stream), body=_ENCODER.encode(body))
    return EncodedRequest(sent, names, styled)


def model_path(model: str, base_path: str, endpoint: GeminiEndpoint) -> str:
    """The path of a model. Its id may have Google's prefixes: a collection, on Vertex also a publisher or the full
    resource name. Vertex's publisher is added if the backend's URL lacks it, and the version if the URL has no path."""
    base = base_path or _DEFAULT_VERSION[endpoint.name]
    name = model.removeprefix("models/").removeprefix("publishers/google/models/")
    if endpoint.name == "studio":
        collection, safe = ("", "/") if name.startswith(_COLLECTIONS) else ("/models", "@")
        return f"{base}{collection}/{quote(name, safe=safe)}"
    location = base.partition("/publishers/")[0]
    if name.startswith("projects/"):
        return f"{location.partition('/projects/')[0]}/{quote(name, safe='/@')}"
    if name.startswith((*_COLLECTIONS, "publishers/")):
        return f"{location}/{quote(name, safe='/@')}"
    publisher = "" if "/publishers/" in base + "/" else "/publishers/google"
    return f"{base}{publisher}/models/{quote(name, safe='@')}"
