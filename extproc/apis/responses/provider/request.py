"""A conversation's request as a request of the Responses API.

The request is stateless: nothing is stored, and the model's encrypted reasoning comes back with the conversation.
Called once per attempt with the original request, so nothing of an earlier attempt remains. The same request gives the
same bytes. Keys are added elsewhere; this module sends and fetches nothing.
"""

from __future__ import annotations

import msgspec

from extproc.apis.base import EncodedRequest, ProviderRequest, request_headers
from extproc.apis.responses.provider.items import encode_input
from extproc.apis.responses.provider.parameters import extra_fields, set_format, with_parameters
from extproc.apis.responses.provider.tools import own_server_tools, set_tools
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
    """POST {base_path}/responses. Names in `dropped` what the API or the endpoint cannot carry. Raises BadRequest for
    tool results without a call, two tools of one name, too many tools, a choice of a tool that is not offered, several
    choices, and a conversation without anything to send."""
    styled = None if target.profile.native_tools else target.with_prompted_tools()
    target = styled or target
    profile = target.profile
    names = build_name_map(request, profile.tool_name_max)
    request = writing.write_for_target(request, target, names, dropped)
    body = with_parameters(request, target, dropped)
    chosen = choose_tools(request, target, own_server_tools(request, target), dropped)
    notes: list[str] = []
    if chosen.offered or request.server_tools:
        notes = set_tools(body, request, chosen, target, names, dropped)
    if request.output_format is not None:
        note = set_format(body, request.output_format, profile)
        if note is not None:
            notes.append(f"When you do not call a tool: {note}" if body.tools else note)
    custom = frozenset([tool.name for tool in chosen.offered if tool.custom]) if profile.custom_tools else frozenset()
    encoded = encode_input([*request.system, *map(Text, notes)], pair(request.messages, dropped), names, target,
                           dropped, custom)
    if not encoded.items:
        raise BadRequest("messages: the conversation holds nothing that can be sent to this model; add a user message "
                         "with text")
    body.instructions, body.input = encoded.instructions, encoded.items
    extra = extra_fields(body, request, profile, dropped)
    data = _ENCODER.encode(body)
    if extra:
        data = data[:-1] + b"," + _ENCODER.encode(extra)[1:]
    head = request_headers(stream=body.stream)
    return EncodedRequest(ProviderRequest(method="POST", path=responses_path(target), headers=head, body=data), names,
                          styled)


def responses_path(target: Target) -> str:
    """The path of the endpoint. Azure's classic endpoint has it beside the deployments."""
    version, base = target.profile.deployment_api_version, target.base_path
    if version is None or base.endswith("/v1"):
        return f"{base}/responses"
    root = base.partition("/deployments/")[0].removesuffix("/openai")
    return f"{root}/openai/responses?api-version={version}"
