"""A conversation's request as a Chat Completions request.

Called once per attempt with the original request, so nothing of an earlier attempt remains. The same request gives the
same bytes. Keys are added elsewhere; this module sends and fetches nothing.
"""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from extproc.apis.base import EncodedRequest, ProviderRequest, request_headers
from extproc.apis.openai.provider.messages import encode_messages
from extproc.apis.openai.provider.parameters import (
    client_words,
    extra_fields,
    format_fits,
    format_note,
    merge_template_kwargs,
    remove_refused,
    response_format,
    with_parameters,
)
from extproc.apis.openai.provider.reasoning import plan_reasoning, set_reasoning, thinks
from extproc.apis.openai.provider.tools import own_server_tools, set_tools
from extproc.apis.openai.wire_request import FunctionTool, StreamOptions
from extproc.apis.shared.offered_tools import choose_tools
from extproc.conversation.model import Request, Text
from extproc.conversation.tool_names import build_name_map
from extproc.conversation.tool_results import pair
from extproc.conversation.unsupported import Dropped
from extproc.dialects import writing
from extproc.errors import BadRequest
from extproc.profiles.target import Target

_ENCODER = msgspec.json.Encoder()


def encode_request(request: Request, target: Target, dropped: Dropped) -> EncodedRequest:
    """POST {base_path}/chat/completions. Names in `dropped` what the format or the endpoint cannot carry. Raises
    BadRequest for tool results without a call, two tools of one name, too many tools, tools for a model that takes none
    here, a choice of a tool that is not offered, several choices from a provider that gives one, and a conversation
    without anything to send."""
    styled = None if target.profile.native_tools else target.with_prompted_tools()
    target = styled or target
    profile = target.profile
    names = build_name_map(request, profile.tool_name_max)
    request = writing.write_for_target(request, target, names, dropped)
    body = with_parameters(request, target, dropped)
    chosen = choose_tools(request, target, own_server_tools(request, target), dropped)
    wanted = request.output_format
    fits = wanted is not None and format_fits(request, profile, tools=bool(chosen.offered))
    turns = pair(request.messages, dropped)
    planned = plan_reasoning(request, turns, target, dropped, tools=bool(chosen.offered), forced=chosen.forced,
                             formatted=fits)
    notes: list[str] = []
    if chosen.offered or request.server_tools:
        notes = set_tools(body, request, chosen, target, names, dropped, may_force=planned.choice)
    words = client_words(request, profile, dropped)
    if planned.thinking is not None and not words:
        set_reasoning(body, planned.thinking, profile, dropped)
        merge_template_kwargs(body, request, profile)
    # The client's whole response may also come as a stream: the decoder assembles it.
    if request.stream or (profile.thinking_needs_stream and thinks(planned.thinking, profile)):
        body.stream = True
        body.stream_options = StreamOptions(include_usage=True) if profile.stream_usage else None
    if wanted is not None:
        if fits and planned.format:
            body.response_format = response_format(wanted, profile)
        note = format_note(wanted, body.response_format)
        if note is not None:
            notes.append(f"When you do not call a tool: {note}" if body.tools else note)
    remove_refused(body, profile, dropped)
    custom = frozenset([tool.name for tool in chosen.offered if tool.custom]) if profile.custom_tools else frozenset()
    system = [*request.system, *map(Text, notes)]
    if profile.preserved_thinking and request.thinking is not None and request.thinking.preserved:
        target = msgspec.structs.replace(target, profile=msgspec.structs.replace(profile, reasoning_history="always"))
    marked = [tool for tool in body.tools if isinstance(tool, FunctionTool) and tool.cache_control is not None]
    body.messages = encode_messages(system, turns, names, target, dropped, custom, marked)
    if not body.messages:
        raise BadRequest("messages: the conversation holds nothing that can be sent to this model; add a user message "
                         "with text")
    head = request_headers(stream=body.stream)
    data = _ENCODER.encode(body)
    if request.extra or words or profile.extra_body or profile.streamed_tools_body:
        data = _with_extra(data, {**words, **extra_fields(body, request, profile, dropped)})
    sent = ProviderRequest(method="POST", path=chat_path(target), headers=head, body=data)
    return EncodedRequest(sent, names, styled)


def chat_path(target: Target) -> str:
    """The path of the endpoint. Azure's classic endpoint names the deployment, which is its name of the model."""
    version = target.profile.deployment_api_version
    base = target.base_path
    if version is None or base.endswith("/v1"):
        return f"{base}/chat/completions"
    if "/deployments/" not in base:
        base = f"{base.removesuffix('/openai')}/openai/deployments/{quote(target.model, safe='')}"
    return f"{base}/chat/completions?api-version={version}"


def _with_extra(body: bytes, extra: dict[str, object]) -> bytes:
    """Appends fields to the encoded object without decoding it again."""
    return body if not extra else body[:-1] + b"," + _ENCODER.encode(extra)[1:]
