"""A conversation's request as a Chat Completions request.

Called once per attempt, always with the original request, so nothing of an earlier attempt remains. The same request
gives the same bytes. Keys are added elsewhere; this module sends nothing and fetches nothing.
"""

from __future__ import annotations

import msgspec

from extproc.apis.base import Dropped, EncodedRequest, ProviderRequest, Target
from extproc.apis.openai.messages import encode_messages
from extproc.apis.openai.parameters import format_note, set_parameters
from extproc.apis.openai.tools import set_tools
from extproc.apis.openai.wire import Body, StreamOptions
from extproc.conversation import Request
from extproc.dialects import writing
from extproc.errors import BadRequest
from extproc.names import build_name_map
from extproc.pairing import pair

_ENCODER = msgspec.json.Encoder()


def encode_request(request: Request, target: Target, dropped: Dropped) -> EncodedRequest:
    """POST {base_path}/chat/completions. Names in `dropped` what the format or the endpoint cannot carry. Raises
    `BadRequest` for tool results without a call, two tools of one name, too many tools, a choice of a tool that is
    not offered, and a conversation of which nothing is left to send."""
    profile = target.profile
    names = build_name_map(request, profile.tool_name_max)
    request = writing.written(request, target, names, dropped)
    body = Body(model=target.model, messages=[])
    if request.stream:
        body.stream = True
        if profile.stream_usage:
            body.stream_options = StreamOptions(include_usage=True)
    set_parameters(body, request, target, dropped)
    tool_note = set_tools(body, request, target, names, dropped)
    system = [text.text for text in request.system]
    if any(text.cache for text in request.system):
        dropped.hint("cache_control")
    notes = [note for note in (tool_note, format_note(request.output_format, profile)) if note is not None]
    body.messages = encode_messages([*system, *notes], pair(request.messages, dropped), names, profile, dropped)
    if not body.messages:
        raise BadRequest("messages: the conversation holds nothing that can be sent to this model; add a user message "
                         "with text")
    head = {
        "content-type": "application/json",
        "accept": "text/event-stream" if request.stream else "application/json",
        "accept-encoding": "identity",
    }
    sent = ProviderRequest(method="POST", path=f"{target.base_path}/chat/completions", headers=head,
                           body=_with_extra(_ENCODER.encode(body), profile.extra_body))
    return EncodedRequest(sent, names)


def _with_extra(body: bytes, extra: dict[str, object]) -> bytes:
    """The fields of a profile at the end of the object, without decoding it again."""
    return body if not extra else body[:-1] + b"," + _ENCODER.encode(extra)[1:]
