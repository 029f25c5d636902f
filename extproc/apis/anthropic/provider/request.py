"""A conversation's request as a Messages request, for Anthropic and for endpoints with its API.

Called once per attempt with the original request, so nothing of an earlier attempt remains. The same request gives the
same bytes. Keys are added elsewhere; this module sends and fetches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from extproc.apis.anthropic.provider.messages import (
    MessageWriter,
    ends_with_prefill,
    holds_files,
    holds_thinking,
    loop_signed,
    marked_blocks,
    origin_at,
)
from extproc.apis.anthropic.provider.parameters import set_output, set_parameters
from extproc.apis.anthropic.provider.thinking import Circumstances, plan_thinking
from extproc.apis.anthropic.provider.tools import NAME_MAX, set_tools, wanted_choice
from extproc.apis.anthropic.wire import (
    BlockBinding,
    MarkableBlock,
    ProviderBody,
    ProviderMessage,
    TextBlock,
    ThinkingField,
    ToolDefinition,
)
from extproc.apis.base import EncodedRequest, ProviderRequest, request_headers
from extproc.apis.shared.cache_marks import put_in_order
from extproc.conversation.model import Request, Text
from extproc.conversation.tool_names import build_name_map
from extproc.conversation.tool_results import Turn, pair
from extproc.conversation.unsupported import Dropped
from extproc.dialects import writing
from extproc.errors import BadRequest
from extproc.profiles.anthropic import (
    BINDING,
    FILES,
    INTERLEAVED,
    VERSION,
    AnthropicEndpoint,
    AnthropicModel,
    find_anthropic_endpoint,
    messages_path,
)
from extproc.profiles.target import Target

MOST_MARKS = 4
"""The most cache marks of one request: more are a 400."""

_ENCODER = msgspec.json.Encoder()


def encode_request(request: Request, target: Target, dropped: Dropped) -> EncodedRequest:
    """POST {base_path}/messages. Names in `dropped` what the API, the model or the endpoint cannot carry. Raises
    BadRequest for tool results without a call, two tools of one name, too many tools, a choice of a tool that is not
    offered, more than one choice, and a conversation without anything to send."""
    endpoint = find_anthropic_endpoint(target.endpoint, target.provider, target.model)
    model = endpoint.find_model(target.model)
    if target.max_output_tokens is not None:
        model = msgspec.structs.replace(model, max_output_tokens=max(1, min(model.max_output_tokens,
                                                                            target.max_output_tokens)))
    names = build_name_map(request, NAME_MAX)
    request = writing.write_for_target(request, target, names, dropped)
    turns = pair(request.messages, dropped)
    head = _leading_system(turns)
    wanted = wanted_choice(request, target, dropped)
    origin = origin_at(target.endpoint)
    prefill = ends_with_prefill(turns) and model.prefill
    circumstances = Circumstances(forced_tool=wanted.forced and model.forced_choice, prefill=prefill,
                                  loop_signed=loop_signed(turns, endpoint, origin))
    if (request.max_output_tokens or 0) > model.max_output_tokens:
        dropped.hint("max_tokens")
    plan = plan_thinking(request.thinking, request.max_output_tokens, model, circumstances, dropped)
    body = ProviderBody(model=target.model, max_tokens=plan.max_tokens, stream=request.stream, thinking=plan.field,
                        messages=[])
    set_parameters(body, request, plan, model, endpoint, dropped)
    notes = set_tools(body, request, target, wanted, turns, names, model, endpoint, dropped)
    format_note = set_output(body, request, plan, model, prefill=prefill)
    if format_note is not None:
        notes.append(format_note)
    kind = plan.field.type if plan.field is not None else None
    writer = MessageWriter(names, model, endpoint, origin, prefill=prefill, dropped=dropped,
                           thinking_first=kind == "enabled",
                    keep_thinking=plan.on or (not endpoint.signed and kind != "disabled"))
    body.system = writer.system([*request.system, *head], notes)
    body.messages = writer.messages(turns)
    _open_with_user(body, dropped)
    _limit_marks(body, dropped)
    betas = _betas(body, request, model, endpoint)
    return EncodedRequest(_sent(body, target, betas), names)


def _leading_system(turns: list[Turn]) -> list[Text]:
    """Removes and returns the leading system turns of text: they belong to the system prompt."""
    head: list[Text] = []
    while turns and turns[0].role == "system" and all(isinstance(block, Text) for block in turns[0].content):
        head += [block for block in turns.pop(0).content if isinstance(block, Text)]
    return head


def _open_with_user(body: ProviderBody, dropped: Dropped) -> None:
    """A request of system text only expects a response to it: the text becomes the user's."""
    if body.messages:
        return
    if not body.system:
        raise BadRequest("messages: the conversation holds nothing that can be sent to this model; add a user message "
                         "with text")
    dropped.hint("messages.system")
    body.messages = [ProviderMessage("user", [*body.system])]
    body.system = []


def _limit_marks(body: ProviderBody, dropped: Dropped) -> None:
    """Keeps at most four cache marks: the last of the tools, the last of the system prompt, and the last ones of the
    conversation, which mark the longest prefixes. No mark lives longer than one before it."""
    tools = [tool for tool in body.tools if isinstance(tool, ToolDefinition) and tool.cache_control is not None]
    system = [block for block in body.system if block.cache_control is not None]
    conversation_marks = marked_blocks(body.messages)
    if len(tools) + len(system) + len(conversation_marks) > MOST_MARKS:
        dropped.hint("cache_control")
        kept = len(tools[-1:]) + len(system[-1:])
        surplus: Sequence[ToolDefinition | TextBlock | MarkableBlock]
        surplus = [*tools[:-1], *system[:-1], *conversation_marks[: max(0,
                                                                        len(conversation_marks) - (MOST_MARKS - kept))]]
        for block in surplus:
            block.cache_control = None
    if put_in_order([*tools, *system, *conversation_marks]):
        dropped.hint("cache_control.ttl")


def _betas(body: ProviderBody, request: Request, model: AnthropicModel, endpoint: AnthropicEndpoint) -> list[str]:
    """The betas that this body needs. Where thinking is bound to its conversation, the body also says that blocks with
    an edited history may be dropped: clients of other APIs edit it all the time."""
    betas: list[str] = []
    field = body.thinking
    enabled = field is not None and field.type == "enabled"
    if model.interleaved and enabled and request.tools and endpoint.takes_beta(INTERLEAVED):
        betas.append(INTERLEAVED)
    if holds_files(body.messages):
        betas.append(FILES)
    adaptive = field is None or field.type == "adaptive"
    if model.thinking_bound and adaptive and endpoint.takes_beta(BINDING) and holds_thinking(body.messages):
        body.thinking = field = field or ThinkingField("adaptive")
        field.block_binding = BlockBinding()
        betas.append(BINDING)
    return betas


def _sent(body: ProviderBody, target: Target, betas: list[str]) -> ProviderRequest:
    head = {**request_headers(stream=body.stream), "anthropic-version": VERSION}
    if betas:
        head["anthropic-beta"] = ",".join(betas)
    return ProviderRequest(method="POST", path=messages_path(target.base_path), headers=head,
                           body=_ENCODER.encode(body))
