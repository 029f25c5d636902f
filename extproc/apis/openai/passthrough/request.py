"""A chat request that can reach its provider in the client's own bytes, and the changes that are made to it.

Changed are the model's name, the output limit, the usage option, the user's id, tools that the configuration does not
permit, regular expressions in schemas, and fields that the profile refuses. Re-encoding would lose unknown fields and
parts, so these changes are made in place. A request that needs any other change is re-encoded from
the conversation: settings of the attempt, reasoning in another spelling, a format or a choice in another form, schemas
to be repaired, unsupported kinds of tools. The functions that decode the client's request and encode the provider's
decide on that, so that each fact of a profile is judged once.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from extproc.apis.openai.client.parameters import SERVER_FIELDS, wants_usage
from extproc.apis.openai.client.request import FIELDS, ChatRequest, decode_parameters
from extproc.apis.openai.passthrough.history import history_fits
from extproc.apis.openai.provider.parameters import format_fits, format_kind
from extproc.apis.openai.provider.reasoning import ReasoningPlan, plan_reasoning
from extproc.apis.openai.provider.tools import own_server_tools
from extproc.apis.openai.wire_messages import NativeMessage
from extproc.apis.openai.wire_request import ClientBody, ClientToolChoice
from extproc.apis.shared.efforts import limit_at, reasoning_effort
from extproc.apis.shared.extras import LOSSES, name_extra
from extproc.apis.shared.json_fields import Fields, encode_fields, encode_raw, fields_of, has_value, member_of
from extproc.apis.shared.offered_tools import choose_tools
from extproc.apis.shared.passthrough import restrict_tools
from extproc.apis.shared.tool_patterns import PatternRewriter
from extproc.apis.shared.users import legal_user
from extproc.apis.shared.wire import given, is_string, type_of
from extproc.bounds import Limits
from extproc.conversation.tool_names import fits_name
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.profiles.profile import Profile
from extproc.profiles.target import Target

Raw = msgspec.Raw
NativeBody = ClientBody[NativeMessage]

_ELSEWHERE = LOSSES | {
    "provider", "models", "route", "preset", "usage",                                         # OpenRouter
    "cache_prompt", "slot_id", "id_slot", "keep_alive", "options", "ttl",                      # local servers
    "skip_special_tokens", "spaces_between_special_tokens", "add_generation_prompt", "continue_final_message", "echo",
    "reasoning_format", "disable_tool_validation", "citation_options", "compound_custom",      # Groq
    "return_images", "return_related_questions", "search_mode", "result_format", "incremental_output"}
"""Fields of single servers, which clients of several servers send everywhere. An unknown field passes: it may be newer
than this table."""
_PATTERNS = PatternRewriter("function", "parameters")
_LIMITS = ("max_tokens", "max_completion_tokens")

_body: msgspec.json.Decoder[NativeBody] = msgspec.json.Decoder(NativeBody)
_choice = msgspec.json.Decoder(ClientToolChoice)


class _Parameters(msgspec.Struct):
    parameters: Raw = Raw()


class _NativeTool(msgspec.Struct):
    """A tool in this API's own form; another form fails to decode."""

    function: _Parameters
    type: Literal["function"] = "function"


_tool = msgspec.json.Decoder(_NativeTool)


class NativeRequest(msgspec.Struct):
    """A request whose messages have OpenAI's own fields. `fields` holds the bytes of its members; `outline` is the
    request as a re-encoded one would be decoded, without messages."""

    body: NativeBody
    fields: Fields
    outline: ChatRequest


def read_native(data: bytes, limits: Limits) -> NativeRequest | None:
    """None for any other request. `data`: JSON that was checked."""
    fields = fields_of(data)
    try:
        body = _body.decode(data)
        extra = {name: value for name, value in (fields or {}).items() if name not in FIELDS and has_value(value)}
        outline = decode_parameters(body, extra, Dropped(), limits)
    except (msgspec.DecodeError, RecursionError, BadRequest):
        return None
    return None if fields is None else NativeRequest(body, fields, outline)


# ------------------------------------------------------------------------------------------------------- does it fit?


def restrict(request: NativeRequest, target: Target, dropped: Dropped) -> bool:
    """Removes the tools that the configuration does not permit. False: the request must be re-encoded."""
    outline = request.outline
    if len(outline.tools) != len(request.body.tools or ()):  # provider-run, repeated or legacy tools
        return False
    choice = outline.tool_choice
    kept = restrict_tools(request.fields, [(tool.name,) for tool in outline.tools],
                          choice.tool if choice is not None else None, target, dropped)
    if kept is None:
        return False
    outline.tools = [tool for tool, keep in zip(outline.tools, kept, strict=True) if keep]
    return True


def fits(request: NativeRequest, target: Target) -> bool:
    """True if the endpoint takes the request in the client's words."""
    body, outline, profile = request.body, request.outline, target.profile
    try:
        return (bool(body.messages) and _media_fits(bytes(request.fields["messages"]), profile)
                and _parameters_fit(body, outline, profile) and _reasoning_fits(body, outline, target)
                and _tools_fit(body, outline, target) and history_fits(body.messages, profile))
    except BadRequest:
        return False  # the encoder refuses it with a reason


def _media_fits(messages: bytes, profile: Profile) -> bool:
    """Cache marks are another API's."""
    return (b'"cache_control"' not in messages
            and ((profile.images and profile.image_urls) or b'"image_url"' not in messages)
            and (profile.documents or b'"file"' not in messages))


def _parameters_fit(body: NativeBody, outline: ChatRequest, profile: Profile) -> bool:
    stop = [body.stop] if isinstance(body.stop, str) else body.stop or []
    return (
        body.functions is None and not given(body.function_call)
        and (outline.choices == 1 or "n" not in profile.refuses)
        and outline.stop == stop and len(stop) <= profile.max_stop
        and (profile.max_temperature is None or (outline.temperature or 0) <= profile.max_temperature)
        and (outline.seed is None or profile.seed_field == "seed")
        and (outline.stream or not profile.thinking_needs_stream)
        and _format_fits(body.response_format, outline, profile))


def _reasoning_fits(body: NativeBody, outline: ChatRequest, target: Target) -> bool:
    """True if reasoning is requested as OpenAI has it, if at all, and excludes nothing else of the request."""
    profile, effort, wanted = target.profile, body.reasoning_effort, outline.thinking
    if outline.thinking_words.keys() - {"reasoning_effort"} or outline.extra.keys() & SERVER_FIELDS:
        return False
    if effort is not None and (profile.reasoning != "effort" or wanted is None
                               or reasoning_effort(wanted, profile, Dropped()) != effort):
        return False
    choice = outline.tool_choice
    planned = plan_reasoning(outline, (), target, Dropped(), tools=bool(outline.tools),
                             forced=choice is not None and choice.mode in ("required", "tool"),
                             formatted=outline.output_format is not None)
    return planned == ReasoningPlan(wanted)


def _format_fits(response_format: Raw, outline: ChatRequest, profile: Profile) -> bool:
    kind = type_of(response_format, "response_format") if given(response_format) else "text"
    wanted = outline.output_format
    if wanted is None:
        return kind == "text"
    return format_fits(outline, profile, tools=bool(outline.tools)) and format_kind(wanted, profile) == kind


def _tools_fit(body: NativeBody, outline: ChatRequest, target: Target) -> bool:
    """True if the tools can stay as they are, with the choice among them. A function without parameters, which some
    servers refuse, gets them when the request is re-encoded."""
    profile, tools = target.profile, outline.tools
    parallel = outline.parallel_tool_calls
    if not tools:
        return outline.tool_choice is None and parallel is None
    chosen = choose_tools(outline, target, own_server_tools(outline, target), Dropped())
    mode = outline.tool_choice.mode if outline.tool_choice is not None else None
    return (
        target.tool_choice is None and target.parallel_tool_calls is None
        and profile.native_tools and not profile.never_parallel
        and (parallel is None or profile.parallel_tool_calls)
        and len(chosen.offered) == len(tools) and chosen.mode == mode and not chosen.allowed
        and (mode is None or (mode in profile.tool_choices and _is_native_choice(body.tool_choice, profile)))
        and all(not tool.custom and fits_name(tool.name, profile.tool_name_max)
                and (tool.strict is None or profile.strict_tools) for tool in tools)
        and all(map(_is_native_tool, body.tools or ())))


def _is_native_tool(tool: Raw) -> bool:
    try:
        return b'"properties"' in bytes(_tool.decode(tool).function.parameters)
    except msgspec.ValidationError:
        return False


def _is_native_choice(choice: Raw, profile: Profile) -> bool:
    """True if the choice is spelt as this endpoint has it: a word, or a function inside `function`."""
    if is_string(choice):
        return bytes(choice).strip(b'"') in (b"auto", b"none", profile.required_word.encode())
    named = _choice.decode(choice)
    return named.type == "function" and given(named.function)


# --------------------------------------------------------------------------------------------------- what must change


def change(request: NativeRequest, target: Target, dropped: Dropped) -> None:
    """Writes the changes into the members of the request."""
    profile, fields, outline = target.profile, request.fields, request.outline
    fields["model"] = encode_raw(target.model)
    _set_limit(fields, request.body, target, dropped)
    _remove_refused(fields, profile, dropped)
    if outline.stream and profile.stream_usage and not wants_usage(request.body.stream_options, Raw()):
        options = member_of(fields, "stream_options") or {}
        fields["stream_options"] = Raw(encode_fields({**options, "include_usage": encode_raw(True)}))
    if outline.user and not profile.user:
        del fields["user"]
        dropped.hint("user")
    elif outline.user and legal_user(outline.user) != outline.user:
        fields["user"] = encode_raw(legal_user(outline.user))
    if outline.tools:
        fields["tools"] = _PATTERNS.rewritten(fields["tools"])
    own = {**profile.extra_body, **(profile.streamed_tools_body if outline.stream and outline.tools else {})}
    fields.update({name: encode_raw(value) for name, value in own.items() if name not in fields})


def _set_limit(fields: Fields, body: NativeBody, target: Target, dropped: Dropped) -> None:
    wanted = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
    name = target.profile.max_tokens_field
    if wanted == -1:  # no limit (llama.cpp, LM Studio)
        dropped.hint("max_tokens")
        wanted = None
    limit = limit_at(wanted, target, dropped)
    unchanged = limit == (body.max_tokens if name == "max_tokens" else body.max_completion_tokens)
    for one in _LIMITS:
        if one != name or not unchanged:
            fields.pop(one, None)
    if limit is not None and not unchanged:
        fields[name] = encode_raw(limit)


def _remove_refused(fields: Fields, profile: Profile, dropped: Dropped) -> None:
    """Removes and names the fields that the endpoint refuses, and the fields of other servers that it does not take.
    Re-encoding would lose unknown fields as well."""
    for name in list(fields):
        if name in profile.refuses:
            value = fields.pop(name)
            if has_value(value) and not (name.endswith("_penalty") and bytes(value) in (b"0", b"0.0")):
                dropped.loss(name)
        elif (name in _ELSEWHERE and name not in FIELDS and profile.extra_fields is not None
              and name not in profile.extra_fields):
            name_extra(name, fields.pop(name), dropped)
