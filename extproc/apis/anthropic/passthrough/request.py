"""A Messages request that can reach its provider in the client's own bytes, and the changes that are made to it.

Changed are the model's name, the output limit, the settings of the attempt, betas that the endpoint does not know, the
client's billing line (it varies and breaks prompt caches), and traces of other providers in the history. Re-encoding
would lose betas and unknown fields, so these changes are made in place. A request that this model or endpoint would
refuse, because the client wrote it for another model or endpoint, is re-encoded from the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from extproc.apis.anthropic.client.request import ATTRIBUTION, CHOICE_MODES, without_attribution
from extproc.apis.anthropic.passthrough.history import History, without_thinking
from extproc.apis.anthropic.provider.messages import origin_at
from extproc.apis.anthropic.provider.parameters import legal_user
from extproc.apis.anthropic.provider.thinking import LEAST_BUDGET
from extproc.apis.anthropic.wire import MessageSummary, OutputConfigSummary, RequestSummary
from extproc.apis.base import request_headers
from extproc.apis.shared.json_fields import (
    Fields,
    elements_of,
    encode_fields,
    encode_raw,
    fields_of,
    has_value,
    member_of,
)
from extproc.apis.shared.passthrough import restrict_tools
from extproc.apis.shared.tool_patterns import PatternRewriter
from extproc.conversation.model import Request, Tool, ToolChoice
from extproc.conversation.unsupported import Dropped
from extproc.profiles.anthropic import (
    BETA_FIELDS,
    DISPLAY_UPDATES,
    TOOL_CHANGES,
    VERSION,
    AnthropicEndpoint,
    AnthropicModel,
)
from extproc.profiles.target import Target

_PATTERNS = PatternRewriter("input_schema")
_CHOICE_TYPES: dict[str, str] = {mode: kind for kind, mode in CHOICE_MODES.items()}
_PLAIN_BLOCKS = frozenset({"text", "image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result"})
"""Blocks that every endpoint of this API knows."""


_summary = msgspec.json.Decoder(RequestSummary)
_schemas = msgspec.json.Decoder(list[dict[str, object]])


def read_summary(body: bytes) -> RequestSummary | None:
    """None for a request of another shape."""
    try:
        return _summary.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None


# ------------------------------------------------------------------------------------------------------- does it fit?


def fits(summary: RequestSummary, fields: Fields, target: Target, endpoint: AnthropicEndpoint) -> bool:
    """True if the model and the endpoint take the request in the client's words. A client that asks Anthropic for the
    very model that is served knows better than any table; otherwise the records decide."""
    if not summary.messages or summary.max_tokens is None or summary.max_tokens < 1:
        return False
    if not takes_changes(summary.messages, endpoint):
        return False
    if len(summary.client_tools) > target.max_tools:
        return False
    model = endpoint.find_model(target.model)
    if _is_written_for(summary, model, endpoint):
        return True
    return _model_takes(summary, model) and _endpoint_takes(summary, fields, endpoint)


def restrict(summary: RequestSummary, fields: Fields, target: Target, dropped: Dropped) -> bool:
    """Removes the tools that the configuration does not permit. False: the request must be re-encoded."""
    if has_value(fields.get("mcp_servers")) and not target.permits_tool("mcp_toolset"):
        del fields["mcp_servers"]  # the endpoint would offer all of their tools
        dropped.loss("mcp_servers")
    tools = summary.tools or []
    kept = restrict_tools(fields, [tuple(filter(None, (tool.name, tool.type))) for tool in tools],
                          summary.tool_choice.name if summary.tool_choice is not None else None, target, dropped)
    if kept is None:
        return False
    if tools:
        summary.tools = [tool for tool, keep in zip(tools, kept, strict=True) if keep]
    return True


def _is_written_for(summary: RequestSummary, model: AnthropicModel, endpoint: AnthropicEndpoint) -> bool:
    """True if the client wrote its request for this generation of models at this kind of endpoint."""
    return endpoint.signed and endpoint.find_model(summary.model) is model


def _model_takes(summary: RequestSummary, model: AnthropicModel) -> bool:
    config = summary.output_config or OutputConfigSummary()
    sampling = [name for name in ("temperature", "top_p", "top_k") if getattr(summary, name) is not None]
    formatted = has_value(config.format) or has_value(summary.output_format) or any(tool.strict
                                                                            for tool in summary.client_tools)
    last = summary.messages[-1]
    return (
        model.accepts_thinking(summary.thinking_type, config.effort)
        and (not formatted or model.output_format)
        and not model.refused_sampling(sampling)
        and (model.forced_choice or summary.tool_choice is None or summary.tool_choice.type not in ("any", "tool"))
        and (model.system_turns or all(turn.role != "system" for turn in summary.messages))
        and (model.prefill or last.role != "assistant"))


def _endpoint_takes(summary: RequestSummary, fields: Fields, endpoint: AnthropicEndpoint) -> bool:
    unknown = _types(tuple(name for name, taken in (("image", endpoint.images), ("document", endpoint.documents),
                                                    ("url", endpoint.media_urls), ("file", endpoint.files))
                           if not taken))
    if unknown is not None and unknown.search(fields["messages"]):
        return False
    if endpoint.server_blocks:
        return True
    return (len(summary.client_tools) == len(summary.tools or ()) and not has_value(fields.get("mcp_servers"))
            and all(block.type in _PLAIN_BLOCKS for turn in summary.messages for block in turn.blocks))


@lru_cache(maxsize=64)
def _types(names: tuple[str, ...]) -> re.Pattern[bytes] | None:
    """Finds blocks and sources of these types at any depth. (Inside a string their quotes are escaped.)"""
    return re.compile(rb'"type"\s*:\s*"(?:%b)"' % "|".join(names).encode()) if names else None


# --------------------------------------------------------------------------------------------------- what must change


def change_fields(summary: RequestSummary, fields: Fields, target: Target, endpoint: AnthropicEndpoint,
            dropped: Dropped) -> History | None:
    """Writes the changes into `fields`. None: the request must be re-encoded."""
    model = endpoint.find_model(target.model)
    if not _set_choice(fields, summary, target, endpoint, model):
        return None
    history = clean_fields(fields, summary, target, endpoint, dropped)
    if not history.is_sound:
        return None
    fields["model"] = encode_raw(target.model)
    most = target.max_output_tokens
    if not _is_written_for(summary, model, endpoint):
        most = min(most or model.max_output_tokens, model.max_output_tokens)
    if most is not None and (summary.max_tokens or 0) > most:
        _clamp(fields, summary, max(1, most), dropped)
    if endpoint.signed and summary.thinking_type == "enabled" and history.loop_lost:
        _without_budget(fields, model)
        dropped.hint("thinking")
    return history


def clean_fields(fields: Fields, summary: RequestSummary, target: Target, endpoint: AnthropicEndpoint,
          dropped: Dropped) -> History:
    """Removes the billing line, regular expressions that the endpoint does not compile, fields of unknown betas, and
    traces of other providers in the history."""
    remove_beta_fields(fields, endpoint, dropped)
    _set_user(fields, endpoint)
    if summary.tools and not endpoint.any_regex:
        fields["tools"] = _PATTERNS.rewritten(fields["tools"])
    if ATTRIBUTION.encode() in bytes(fields.get("system", b"")):
        _without_billing(fields)
    history = History(summary.messages, endpoint, origin_at(target.endpoint),
                      thinks=summary.thinking_type != "disabled")
    if history.changed:
        fields["messages"] = history.cleaned(fields["messages"])
    if history.lost_thinking:
        dropped.hint("messages.thinking")
    return history


def _set_user(fields: Fields, endpoint: AnthropicEndpoint) -> None:
    metadata = member_of(fields, "metadata") if endpoint.plain_user_ids else None
    if metadata is None or not has_value(metadata.get("user_id")):
        return
    user = msgspec.json.decode(metadata["user_id"])
    if isinstance(user, str) and (legal := legal_user(user, endpoint)) != user:
        metadata["user_id"] = encode_raw(legal)
        fields["metadata"] = encode_raw(metadata)


def _without_billing(fields: Fields) -> None:
    system = fields["system"]
    blocks = elements_of(system)
    if blocks is None:
        text = msgspec.json.decode(system)
        if rest := without_attribution(text) if isinstance(text, str) else text:
            fields["system"] = encode_raw(rest)
        else:
            del fields["system"]
        return
    kept = []
    for block in blocks:
        members = fields_of(block)
        text = msgspec.json.decode(members["text"]) if members is not None and "text" in members else None
        if isinstance(text, str) and text.startswith(ATTRIBUTION) and members is not None:
            rest = without_attribution(text)
            if not rest:
                continue
            members["text"] = encode_raw(rest)
            block = msgspec.Raw(encode_fields(members))
        kept.append(block)
    if kept:
        fields["system"] = encode_raw(kept)
    else:
        del fields["system"]


def _clamp(fields: Fields, summary: RequestSummary, most: int, dropped: Dropped) -> None:
    """Lowers the limit. A budget below the client's limit stays below the new one; thinking is removed where there is
    no room for a budget."""
    fields["max_tokens"] = encode_raw(most)
    dropped.hint("max_tokens")
    thinking, budget = member_of(fields, "thinking"), summary.thinking.budget_tokens if summary.thinking else None
    if thinking is None or budget is None or budget < most or budget >= (summary.max_tokens or 0):
        return
    budget = most - max(LEAST_BUDGET, most // 4)
    if budget < LEAST_BUDGET:
        without_thinking(fields)
        dropped.loss("thinking")
        return
    thinking["budget_tokens"] = encode_raw(budget)
    fields["thinking"] = msgspec.Raw(encode_fields(thinking))
    dropped.hint("thinking.budget_tokens")


def _without_budget(fields: Fields, model: AnthropicModel) -> None:
    """A loop that does not begin with thinking cannot continue with a budget; adaptive thinking takes any loop."""
    if "adaptive" not in model.thinking:
        without_thinking(fields)
        return
    thinking = member_of(fields, "thinking") or {}
    thinking.pop("budget_tokens", None)
    fields["thinking"] = msgspec.Raw(encode_fields({**thinking, "type": encode_raw("adaptive")}))


def _set_choice(fields: Fields, summary: RequestSummary, target: Target, endpoint: AnthropicEndpoint,
                model: AnthropicModel) -> bool:
    """Applies the settings of the attempt over the client's. False: the endpoint takes them only in another form."""
    wanted, parallel = target.tool_choice, target.parallel_tool_calls
    if summary.tool_choice is not None and summary.tool_choice.type == "none":
        return True  # a client without calls cannot take a forced one
    if not summary.client_tools or (wanted is None and parallel is None):
        return True
    if wanted == "required" and (not endpoint.signed or not model.forced_choice or summary.thinking_type == "enabled"):
        return False
    if parallel is False and not endpoint.parallel_flag:
        return False
    choice = member_of(fields, "tool_choice") or {}
    before = dict(choice)
    if wanted is not None and not (wanted == "auto" and not choice):
        choice["type"] = encode_raw(_CHOICE_TYPES[wanted])
        choice.pop("name", None)
    if parallel is False or (parallel and "disable_parallel_tool_use" in choice):
        choice.setdefault("type", encode_raw("auto"))
        choice["disable_parallel_tool_use"] = encode_raw(not parallel)
    if choice.get("type") == encode_raw("none"):
        choice = {"type": encode_raw("none")}
    if choice != before:
        fields["tool_choice"] = msgspec.Raw(encode_fields(choice))
    return True


# ------------------------------------------------------------------------------------------------------------ around it


def sent_headers(headers: Mapping[str, str], endpoint: AnthropicEndpoint, dropped: Dropped, *,
                 stream: bool) -> dict[str, str]:
    """The client's version, its betas that the endpoint takes, and the headers of every request."""
    head = {**request_headers(stream=stream), "anthropic-version": headers.get("anthropic-version") or VERSION}
    if betas := taken_betas(headers.get("anthropic-beta", ""), endpoint, dropped):
        head["anthropic-beta"] = betas
    return head


def outline(summary: RequestSummary, tools: msgspec.Raw | None) -> Request:
    """The part of the request that the response decoder needs. `tools`: for reading calls as text, which takes their
    schemas."""
    schemas: dict[str, dict[str, object]] = {}
    if tools is not None:
        for tool in _schemas.decode(tools):
            name, schema = tool.get("name"), tool.get("input_schema")
            if isinstance(name, str) and isinstance(schema, dict):
                schemas[name] = schema
    choice = summary.tool_choice
    mode = CHOICE_MODES.get(choice.type) if choice is not None else None
    return Request(
        model=summary.model, messages=[], stream=bool(summary.stream), max_output_tokens=summary.max_tokens,
        tools=[Tool(tool.name, None, schemas.get(tool.name, {})) for tool in summary.client_tools],
        tool_choice=ToolChoice(mode, choice.name) if mode and choice is not None else None,
        stop=[text for text in summary.stop_sequences or () if text], api="anthropic")


_CHANGES = ("tool_addition", "tool_removal", "mid_conv_system")


def taken_betas(header: str, endpoint: AnthropicEndpoint, dropped: Dropped) -> str:
    """The value of `anthropic-beta` for the endpoint, "" for none. An endpoint with a list of betas refuses every other
    value."""
    if endpoint.betas is None:
        return header
    given = [value.strip() for value in header.split(",") if value.strip()]
    taken = dict.fromkeys(endpoint.betas[value] for value in given if value in endpoint.betas)
    if any(value not in endpoint.betas for value in given):
        dropped.hint("anthropic-beta")
    return ",".join(taken)


def takes_changes(turns: list[MessageSummary], endpoint: AnthropicEndpoint) -> bool:
    """True if the endpoint takes changes of the tools inside the conversation; else the request is re-encoded with the
    tools at its end."""
    return endpoint.takes_beta(TOOL_CHANGES) or not any(turn.has_block(*_CHANGES) for turn in turns)


def remove_beta_fields(fields: Fields, endpoint: AnthropicEndpoint, dropped: Dropped) -> None:
    """Removes the fields of betas that the endpoint does not know."""
    if endpoint.betas is None:
        return
    for name, start in BETA_FIELDS.items():
        if name not in fields or any(value.startswith(start) for value in endpoint.betas):
            continue
        if has_value(fields.pop(name)):
            (dropped.loss if name == "mcp_servers" else dropped.hint)(name)
    thinking = member_of(fields, "thinking")
    if thinking is None or endpoint.takes_beta(DISPLAY_UPDATES):
        return
    if thinking.get("display") == encode_raw("updates"):
        del thinking["display"]
        fields["thinking"] = encode_raw(thinking)
        dropped.hint("thinking.display")
