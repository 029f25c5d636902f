"""A Messages request that may reach its provider as the client wrote it, and what changes in it.

The bytes stay except for the model's name, the output limit, the settings of the attempt, the client's billing line (it
varies and breaks prompt caches) and what other providers left in the history. A request that this model or endpoint
would refuse, because the client asked for another model or spoke to another endpoint before, is not for this module:
it is written anew from the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, cast

import msgspec

from extproc.apis.anthropic.client.request import ATTRIBUTION
from extproc.apis.anthropic.passthrough.betas import remove_beta_fields, taken_betas, takes_changes
from extproc.apis.anthropic.passthrough.history import History, Turn, without_thinking
from extproc.apis.anthropic.provider.messages import origin_at
from extproc.apis.anthropic.provider.parameters import legal_user
from extproc.apis.anthropic.provider.thinking import LEAST_BUDGET
from extproc.apis.shared.json_fields import Fields, elements_of, fields_of, holds, joined, keep_elements, member_of, raw
from extproc.apis.shared.tool_patterns import PatternRewriter
from extproc.conversation.model import Request, Tool, ToolChoice
from extproc.conversation.unsupported import Dropped
from extproc.profiles.anthropic import VERSION, AnthropicEndpoint, AnthropicModel
from extproc.profiles.target import Target

_CHOICES = {"auto": "auto", "required": "any", "none": "none"}
_PATTERNS = PatternRewriter("input_schema")
_MODES: dict[str, Literal["auto", "required", "tool", "none"]] = {
    "auto": "auto", "any": "required", "tool": "tool", "none": "none"}
_PLAIN_BLOCKS = frozenset({"text", "image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result"})
"""Blocks that every endpoint of this API knows."""


class _Tool(msgspec.Struct):
    name: str = ""
    type: str | None = None
    strict: bool | None = None


class _Choice(msgspec.Struct, gc=False):
    type: str = ""
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class _Thinking(msgspec.Struct, gc=False):
    type: str = ""
    budget_tokens: int | None = None


class _OutputConfig(msgspec.Struct):
    effort: str | None = None
    format: msgspec.Raw = msgspec.Raw()


class Told(msgspec.Struct):
    """What is looked at of a request, in one pass and without its texts."""

    model: str
    messages: list[Turn]
    max_tokens: int | None = None
    stream: bool | None = None
    tools: list[_Tool] | None = None
    tool_choice: _Choice | None = None
    stop_sequences: list[str] | None = None
    thinking: _Thinking | None = None
    output_config: _OutputConfig | None = None
    output_format: msgspec.Raw = msgspec.Raw()
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None

    @property
    def own_tools(self) -> list[_Tool]:
        """Those that the client runs."""
        return [tool for tool in self.tools or () if tool.type in (None, "custom")]

    @property
    def thinking_type(self) -> str | None:
        return self.thinking.type if self.thinking is not None else None


_told = msgspec.json.Decoder(Told)
_schemas = msgspec.json.Decoder(list[dict[str, object]])


def told(body: bytes) -> Told | None:
    """None for a request of another shape."""
    try:
        return _told.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None


# ------------------------------------------------------------------------------------------------------- does it fit?


def fits(asked: Told, fields: Fields, target: Target, endpoint: AnthropicEndpoint) -> bool:
    """Whether the model and the endpoint take what the client wrote. Who asks Anthropic for the model that is served
    knows what it takes, better than any table; otherwise the records count."""
    if not asked.messages or asked.max_tokens is None or asked.max_tokens < 1:
        return False
    if not takes_changes(asked.messages, endpoint):
        return False
    if len(asked.own_tools) > target.max_tools:
        return False
    model = endpoint.model(target.model)
    if _is_meant(asked, model, endpoint):
        return True
    return _model_takes(asked, model) and _endpoint_takes(asked, fields, endpoint)


def restrict(asked: Told, fields: Fields, target: Target, dropped: Dropped) -> bool:
    """Takes the tools out that the configuration does not permit. False: the client chose one of them, or none is
    left, so that more must change."""
    if holds(fields.get("mcp_servers")) and not target.permits("mcp_toolset"):
        del fields["mcp_servers"]  # the endpoint would offer all of their tools
        dropped.loss("mcp_servers")
    kept = [target.permits(tool.name) or (tool.type is not None and target.permits(tool.type))
            for tool in asked.tools or ()]
    if all(kept):
        return True
    chosen = asked.tool_choice.name if asked.tool_choice is not None else None
    if not any(kept) or (chosen is not None and not target.permits(chosen)):
        return False
    keep_elements(fields, "tools", kept)
    for tool, keep in zip(asked.tools or (), kept, strict=True):
        if not keep:
            dropped.loss(f"tools.{tool.name or tool.type}")
    asked.tools = [tool for tool, keep in zip(asked.tools or (), kept, strict=True) if keep]
    return True


def _is_meant(asked: Told, model: AnthropicModel, endpoint: AnthropicEndpoint) -> bool:
    """Whether the client wrote its request for this generation of models at this kind of endpoint."""
    return endpoint.signed and endpoint.model(asked.model) is model


def _model_takes(asked: Told, model: AnthropicModel) -> bool:
    kind = asked.thinking_type
    config = asked.output_config or _OutputConfig()
    sampling = [value for value in (asked.temperature, asked.top_p, asked.top_k) if value is not None]
    formatted = holds(config.format) or holds(asked.output_format) or any(tool.strict for tool in asked.own_tools)
    last = asked.messages[-1]
    return (
        (kind is None or kind in model.thinking or kind == model.off or (kind == "disabled" and model.off == "omit"))
        and (config.effort is None or config.effort in model.efforts)
        and (config.effort is None or kind in (None, *model.thinking) or config.effort in model.off_efforts)
        and (not formatted or model.output_format)
        and not (sampling and model.sampling == "none")
        and not (model.sampling == "one" and asked.temperature is not None and asked.top_p is not None)
        and (model.forced_choice or asked.tool_choice is None or asked.tool_choice.type not in ("any", "tool"))
        and (model.system_turns or all(turn.role != "system" for turn in asked.messages))
        and (model.prefill or last.role != "assistant"))


def _endpoint_takes(asked: Told, fields: Fields, endpoint: AnthropicEndpoint) -> bool:
    unknown = _types(tuple(name for name, taken in (("image", endpoint.images), ("document", endpoint.documents),
                                                    ("url", endpoint.media_urls), ("file", endpoint.files))
                           if not taken))
    if unknown is not None and unknown.search(fields["messages"]):
        return False
    if endpoint.own_blocks:
        return True
    return (len(asked.own_tools) == len(asked.tools or ()) and not holds(fields.get("mcp_servers"))
            and all(block.type in _PLAIN_BLOCKS for turn in asked.messages for block in turn.blocks))


@lru_cache(maxsize=64)
def _types(names: tuple[str, ...]) -> re.Pattern[bytes] | None:
    """Finds blocks and sources of these types, wherever they stand. (Inside a string their quotes are escaped.)"""
    return re.compile(rb'"type"\s*:\s*"(?:%b)"' % "|".join(names).encode()) if names else None


# --------------------------------------------------------------------------------------------------- what must change


def changed(asked: Told, fields: Fields, target: Target, endpoint: AnthropicEndpoint,
            dropped: Dropped) -> History | None:
    """Writes the changes into `fields`. None: there are some that only a request written anew can hold."""
    model = endpoint.model(target.model)
    if not _set_choice(fields, asked, target, endpoint, model):
        return None
    history = clean(fields, asked, target, endpoint, dropped)
    if not history.sound:
        return None
    fields["model"] = raw(target.model)
    most = target.max_output_tokens
    if not _is_meant(asked, model, endpoint):
        most = min(most or model.max_output_tokens, model.max_output_tokens)
    if most is not None and (asked.max_tokens or 0) > most:
        _clamp(fields, asked, max(1, most), dropped)
    if endpoint.signed and asked.thinking_type == "enabled" and history.loop_lost:
        _without_budget(fields, model)
        dropped.hint("thinking")
    return history


def clean(fields: Fields, asked: Told, target: Target, endpoint: AnthropicEndpoint, dropped: Dropped) -> History:
    """Takes the billing line out, regular expressions that the endpoint does not compile, fields of betas that it does
    not know, and what other providers left in the history."""
    remove_beta_fields(fields, endpoint, dropped)
    _set_user(fields, endpoint)
    if asked.tools and not endpoint.any_regex:
        fields["tools"] = _PATTERNS.rewritten(fields["tools"])
    if ATTRIBUTION.encode() in bytes(fields.get("system", b"")):
        _without_billing(fields)
    history = History(asked.messages, endpoint, origin_at(target.endpoint), thinks=asked.thinking_type != "disabled")
    if history.changed:
        fields["messages"] = history.cleaned(fields["messages"])
    if history.lost_thinking:
        dropped.hint("messages.thinking")
    return history


def _set_user(fields: Fields, endpoint: AnthropicEndpoint) -> None:
    metadata = member_of(fields, "metadata") if endpoint.plain_user else None
    if metadata is None or not holds(metadata.get("user_id")):
        return
    user = msgspec.json.decode(metadata["user_id"])
    if isinstance(user, str) and (legal := legal_user(user, endpoint)) != user:
        metadata["user_id"] = raw(legal)
        fields["metadata"] = raw(metadata)


def _without_billing(fields: Fields) -> None:
    system = fields["system"]
    blocks = elements_of(system)
    if blocks is None:
        text = msgspec.json.decode(system)
        if rest := _plain(text) if isinstance(text, str) else text:
            fields["system"] = raw(rest)
        else:
            del fields["system"]
        return
    kept = []
    for block in blocks:
        members = fields_of(block)
        text = msgspec.json.decode(members["text"]) if members is not None and "text" in members else None
        if isinstance(text, str) and text.startswith(ATTRIBUTION) and members is not None:
            rest = _plain(text)
            if not rest:
                continue
            members["text"] = raw(rest)
            block = msgspec.Raw(joined(members))
        kept.append(block)
    if kept:
        fields["system"] = raw(kept)
    else:
        del fields["system"]


def _plain(text: str) -> str:
    """The text without the line, "" when nothing is left of it."""
    rest = text.partition("\n")[2] if text.startswith(ATTRIBUTION) else text
    return rest if rest.strip() else ""


def _clamp(fields: Fields, asked: Told, most: int, dropped: Dropped) -> None:
    """A smaller limit; a budget that was below the client's stays below this one, or thinking goes where there is no
    room for it."""
    fields["max_tokens"] = raw(most)
    dropped.hint("max_tokens")
    thinking, budget = member_of(fields, "thinking"), asked.thinking.budget_tokens if asked.thinking else None
    if thinking is None or budget is None or budget < most or budget >= (asked.max_tokens or 0):
        return
    budget = most - max(LEAST_BUDGET, most // 4)
    if budget < LEAST_BUDGET:
        without_thinking(fields)
        dropped.loss("thinking")
        return
    thinking["budget_tokens"] = raw(budget)
    fields["thinking"] = msgspec.Raw(joined(thinking))
    dropped.hint("thinking.budget_tokens")


def _without_budget(fields: Fields, model: AnthropicModel) -> None:
    """A loop that does not begin with thinking cannot go on with a budget; adaptive thinking takes any loop."""
    if "adaptive" not in model.thinking:
        without_thinking(fields)
        return
    thinking = member_of(fields, "thinking") or {}
    thinking.pop("budget_tokens", None)
    fields["thinking"] = msgspec.Raw(joined({**thinking, "type": raw("adaptive")}))


def _set_choice(fields: Fields, asked: Told, target: Target, endpoint: AnthropicEndpoint,
                model: AnthropicModel) -> bool:
    """The settings of the attempt, over the client's. False: the endpoint takes them in other words only."""
    wanted, parallel = target.tool_choice, target.parallel_tool_calls
    if asked.tool_choice is not None and asked.tool_choice.type == "none":
        return True  # who wants no call cannot take one, whatever the attempt forces
    if not asked.own_tools or (wanted is None and parallel is None):
        return True
    if wanted == "required" and (not endpoint.signed or not model.forced_choice or asked.thinking_type == "enabled"):
        return False
    if parallel is False and not endpoint.parallel_flag:
        return False
    choice = member_of(fields, "tool_choice") or {}
    before = dict(choice)
    if wanted is not None and not (wanted == "auto" and not choice):
        choice["type"] = raw(_CHOICES[wanted])
        choice.pop("name", None)
    if parallel is False or (parallel and "disable_parallel_tool_use" in choice):
        choice.setdefault("type", raw("auto"))
        choice["disable_parallel_tool_use"] = raw(not parallel)
    if choice.get("type") == raw("none"):
        choice = {"type": raw("none")}
    if choice != before:
        fields["tool_choice"] = msgspec.Raw(joined(choice))
    return True


# ------------------------------------------------------------------------------------------------------------ around it


def sent_headers(headers: Mapping[str, str], endpoint: AnthropicEndpoint, dropped: Dropped, *,
                 stream: bool) -> dict[str, str]:
    """The client's version, those of its betas that the endpoint takes, and what every request has."""
    head = {"content-type": "application/json", "accept-encoding": "identity",
            "accept": "text/event-stream" if stream else "application/json", "anthropic-version": VERSION}
    if version := headers.get("anthropic-version"):
        head["anthropic-version"] = version
    if betas := taken_betas(headers.get("anthropic-beta", ""), endpoint, dropped):
        head["anthropic-beta"] = betas
    return head


def outline(asked: Told, tools: msgspec.Raw | None) -> Request:
    """What the answer needs to know of the request. `tools`: where it is read for calls, which takes their schemas."""
    schemas: dict[str, dict[str, object]] = {}
    if tools is not None:
        for tool in _schemas.decode(tools):
            name, schema = tool.get("name"), tool.get("input_schema")
            if isinstance(name, str) and isinstance(schema, dict):
                schemas[name] = schema
    choice = asked.tool_choice
    mode = _MODES.get(choice.type) if choice is not None else None
    return Request(
        model=asked.model, messages=[], stream=bool(asked.stream), max_output_tokens=asked.max_tokens,
        tools=[Tool(tool.name, None, schemas.get(tool.name, {})) for tool in asked.own_tools],
        tool_choice=ToolChoice(cast(Literal["auto"], mode), choice.name) if mode and choice is not None else None,
        stop=[text for text in asked.stop_sequences or () if text], api="anthropic")
