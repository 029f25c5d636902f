"""A chat request that may reach its provider as the client wrote it, and what changes in it.

The bytes stay except for the model's name, the output limit, the settings of the attempt, the wish for usage figures,
and fields that the profile says are refused. Whatever needs more (reasoning in another spelling, schemas that must be
mended, tools of a kind that the endpoint does not know) is not for this module: such a request is written anew from
the conversation.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec

from extproc.apis.openai.client.parameters import wants_usage
from extproc.apis.openai.client.request import FIELDS, ChatRequest
from extproc.apis.openai.passthrough.history import Turn, may_pass
from extproc.apis.openai.provider.parameters import legal_user, limit_at
from extproc.apis.shared.extras import LOSSES, name_extra
from extproc.apis.shared.json_fields import Fields, holds, joined, keep_elements, member_of, raw
from extproc.apis.shared.tool_patterns import PatternRewriter
from extproc.conversation.model import Tool, ToolChoice
from extproc.conversation.signatures import MARK
from extproc.conversation.tool_names import fits_name
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.profiles.profile import Profile
from extproc.profiles.target import Target

Raw = msgspec.Raw
Mode = Literal["auto", "required", "tool", "none"]

_FOREIGN = (b'"reasoning_content"', b'"reasoning_details"', b'"thinking_blocks"', b'"cache_control"',
            b'"extra_content"', MARK.encode())
"""Messages without these hold nothing that another provider's turns or another API's habits left there."""
_OTHER_WISHES = ("reasoning", "thinking", "enable_thinking", "thinking_budget", "include_reasoning",
                 "chat_template_kwargs", "extra_body", "think", "functions", "function_call")
"""What the client may wish in words that the format does not know, or knows no longer."""
_ELSEWHERE = LOSSES | {
    "provider", "models", "route", "preset", "usage",                                         # OpenRouter
    "cache_prompt", "slot_id", "id_slot", "keep_alive", "options", "ttl",                      # local servers
    "skip_special_tokens", "spaces_between_special_tokens", "add_generation_prompt", "continue_final_message", "echo",
    "reasoning_format", "disable_tool_validation", "citation_options", "compound_custom",      # Groq
    "return_images", "return_related_questions", "search_mode", "result_format", "incremental_output"}
"""Fields of single servers, which clients of several servers send everywhere. (A field that nobody knows passes: it
may be newer than this table.)"""
_PATTERNS = PatternRewriter("function", "parameters")
_LIMITS = ("max_tokens", "max_completion_tokens")


class _Function(msgspec.Struct):
    name: str
    parameters: Raw = Raw()
    strict: bool | None = None


class _Tool(msgspec.Struct):
    type: str = "function"
    function: _Function | None = None


class _Format(msgspec.Struct):
    type: str = "text"


class _Named(msgspec.Struct):
    name: str | None = None


class _Choice(msgspec.Struct):
    type: str = ""
    function: _Named | None = None


class Told(msgspec.Struct):
    """What is looked at of a request, in one pass and without its texts."""

    model: str
    messages: list[Turn]
    stream: bool | None = None
    stream_options: Raw = Raw()
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    stop: str | list[str] | None = None
    n: int | None = None
    seed: int | None = None
    logprobs: bool | None = None
    user: str | None = None
    tools: list[_Tool] | None = None
    tool_choice: str | _Choice | None = None
    parallel_tool_calls: bool | None = None
    response_format: _Format | None = None
    reasoning_effort: str | None = None

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    @property
    def mode(self) -> Mode | None:
        """Of the tool choice; None for one of another kind than these."""
        choice = self.tool_choice
        if isinstance(choice, str):
            return cast(Mode, choice) if choice in ("auto", "required", "none") else None
        return "tool" if choice is not None and choice.type == "function" else None


_told = msgspec.json.Decoder(Told)


def told(body: bytes) -> Told | None:
    """None for a request of another shape."""
    try:
        return _told.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None


# ------------------------------------------------------------------------------------------------------- does it fit?


def fits(asked: Told, fields: Fields, target: Target) -> bool:
    """Whether the endpoint takes what the client wrote."""
    profile = target.profile
    if not asked.messages or any(holds(fields.get(name)) for name in _OTHER_WISHES) or _is_foreign(fields["messages"]):
        return False
    return (_parameters_fit(asked, fields, profile) and _media_fits(fields["messages"], profile)
            and _tools_fit(asked, target) and may_pass(asked.messages, profile))


def _is_foreign(messages: Raw) -> bool:
    text = bytes(messages)
    return any(mark in text for mark in _FOREIGN)


def _parameters_fit(asked: Told, fields: Fields, profile: Profile) -> bool:
    limit = asked.max_completion_tokens if asked.max_completion_tokens is not None else asked.max_tokens
    effort = asked.reasoning_effort
    wanted = asked.response_format.type if asked.response_format is not None else "text"
    formats = {"json_schema": ("json_schema", "json_object"), "json_schema_only": ("json_schema",),
               "json_object": ("json_object",), "none": ()}[profile.response_format]
    return (
        (limit is None or limit >= 1 or limit == -1)
        and (asked.n is None or asked.n == 1 or (1 < asked.n <= 128 and "n" not in profile.refuses))
        and (effort is None or (profile.reasoning == "effort" and effort in profile.efforts
                                and effort not in profile.effort_map))
        and (wanted == "text" or (wanted in formats and "response_format" not in profile.refuses
                                  and (profile.format_with_tools or not asked.tools)
                                  and (profile.format_in_stream or not asked.stream)
                                  and (profile.format_while_thinking or profile.thinks == "when_asked")))
        and all(asked.stops) and len(asked.stops) <= profile.max_stop
        and not (profile.max_temperature is not None and (asked.temperature or 0) > profile.max_temperature)
        and (asked.seed is None or profile.seed_field == "seed")
        and (bool(asked.stream) or not profile.thinking_needs_stream))


def _media_fits(messages: Raw, profile: Profile) -> bool:
    text = bytes(messages)
    return ((profile.images and profile.image_urls) or b'"image_url"' not in text) and (
        profile.documents or b'"file"' not in text)


def restrict(asked: Told, fields: Fields, target: Target, dropped: Dropped) -> bool:
    """Takes the tools out that the configuration does not permit. False: the client chose one of them, or none is
    left, so that more must change."""
    kept = [target.permits(_name(tool)) for tool in asked.tools or ()]
    if all(kept):
        return True
    choice = asked.tool_choice
    chosen = choice.function.name if isinstance(choice, _Choice) and choice.function is not None else None
    if not any(kept) or (chosen is not None and not target.permits(chosen)):
        return False
    keep_elements(fields, "tools", kept)
    for tool, keep in zip(asked.tools or (), kept, strict=True):
        if not keep:
            dropped.loss(f"tools.{_name(tool)}")
    asked.tools = [tool for tool, keep in zip(asked.tools or (), kept, strict=True) if keep]
    return True


def _tools_fit(asked: Told, target: Target) -> bool:
    """Whether the tools can stay as they are: a function without parameters, which some servers refuse, gets them when
    the request is written anew."""
    profile, tools = target.profile, asked.tools or []
    if len(tools) > min(target.max_tools, profile.max_tools or target.max_tools):
        return False
    if tools and (not profile.native_tools or profile.never_parallel):
        return False
    if tools and profile.functions != "taken" and (profile.functions == "refused" or asked.reasoning_effort != "none"):
        return False
    if asked.tool_choice is not None and (asked.mode is None or not tools):
        return False
    wanted = _attempts_choice(asked, target) or asked.mode
    if wanted is not None and (wanted not in profile.tool_choices
                               or (wanted == "required" and profile.required_word != "required")):
        return False
    if wanted in ("required", "tool") and not profile.choice_while_thinking and profile.thinks != "when_asked":
        return False
    if not tools and asked.parallel_tool_calls is not None:
        return False
    parallel = asked.parallel_tool_calls if target.parallel_tool_calls is None else target.parallel_tool_calls
    if parallel is False and tools and not profile.parallel_tool_calls:
        return False
    return all(_tool_fits(tool, profile) for tool in tools) and len({_name(tool) for tool in tools}) == len(tools)


def _attempts_choice(asked: Told, target: Target) -> str | None:
    """Over the client's own; but who wants no call cannot take one, whatever the attempt forces."""
    return target.tool_choice if asked.tools and asked.mode != "none" else None


def _tool_fits(tool: _Tool, profile: Profile) -> bool:
    function = tool.function
    return (tool.type == "function" and function is not None and fits_name(function.name, profile.tool_name_max)
            and (function.strict is None or profile.strict_tools)
            and b'"properties"' in bytes(function.parameters))


def _name(tool: _Tool) -> str:
    return tool.function.name if tool.function is not None else ""


# --------------------------------------------------------------------------------------------------- what must change


def change(asked: Told, fields: Fields, target: Target, dropped: Dropped) -> None:
    """Writes the changes into `fields`."""
    profile = target.profile
    fields["model"] = raw(target.model)
    _set_limit(fields, asked, target, dropped)
    _remove_refused(fields, profile, dropped)
    if asked.stream and profile.stream_usage and not wants_usage(asked.stream_options, Raw()):
        options = member_of(fields, "stream_options") or {}
        fields["stream_options"] = Raw(joined({**options, "include_usage": raw(True)}))
    if asked.user and not profile.user:
        del fields["user"]
        dropped.hint("user")
    elif asked.user and legal_user(asked.user) != asked.user:
        fields["user"] = raw(legal_user(asked.user))
    if choice := _attempts_choice(asked, target):
        fields["tool_choice"] = raw(choice)
    if asked.tools:
        fields["tools"] = _PATTERNS.rewritten(fields["tools"])
    if asked.tools and target.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = raw(target.parallel_tool_calls)
    if not profile.parallel_tool_calls:
        fields.pop("parallel_tool_calls", None)  # what it says holds anyway
    own = {**profile.extra_body, **(profile.streamed_tools_body if asked.stream and asked.tools else {})}
    fields.update({name: raw(value) for name, value in own.items() if name not in fields})


def _set_limit(fields: Fields, asked: Told, target: Target, dropped: Dropped) -> None:
    wanted = asked.max_completion_tokens if asked.max_completion_tokens is not None else asked.max_tokens
    name = target.profile.max_tokens_field
    if wanted == -1:  # no limit (llama.cpp, LM Studio)
        dropped.hint("max_tokens")
        wanted = None
    limit = limit_at(wanted, target, dropped)
    unchanged = limit == (asked.max_tokens if name == "max_tokens" else asked.max_completion_tokens)
    for one in _LIMITS:
        if one != name or not unchanged:
            fields.pop(one, None)
    if limit is not None and not unchanged:
        fields[name] = raw(limit)


def _remove_refused(fields: Fields, profile: Profile, dropped: Dropped) -> None:
    """What the endpoint refuses, and of what other servers know all that it does not take: named."""
    for name in list(fields):
        if name in profile.refuses:
            value = fields.pop(name)
            if holds(value) and not (name.endswith("_penalty") and bytes(value) in (b"0", b"0.0")):
                dropped.loss(name)
        elif (name in _ELSEWHERE and name not in FIELDS and profile.extra_fields is not None
              and name not in profile.extra_fields):
            name_extra(name, fields.pop(name), dropped)


# ------------------------------------------------------------------------------------------------------------ around it


def outline(asked: Told) -> ChatRequest:
    """What the answer needs to know of the request."""
    choice = asked.tool_choice
    named = choice.function.name if isinstance(choice, _Choice) and choice.function is not None else None
    properties: dict[str, Any] = {}
    return ChatRequest(
        model=asked.model, messages=[], stream=bool(asked.stream), choices=asked.n or 1, logprobs=bool(asked.logprobs),
        tools=[Tool(_name(tool), None, properties) for tool in asked.tools or ()],
        tool_choice=ToolChoice(asked.mode, named) if asked.mode is not None else None, stop=asked.stops,
        want_usage=not asked.stream or _wants_usage(asked), api="openai", cites=True)


def _wants_usage(asked: Told) -> bool:
    try:
        return wants_usage(asked.stream_options, Raw())
    except BadRequest:
        return False
