"""Reasoning, structured output, limits and stop sequences of a chat request -> the conversation model.

Called by `request`. Reasoning has many spellings; the provider side decides which of them its server gets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from extproc.apis.openai.client.parts import note_unknown
from extproc.apis.openai.wire_request import (
    ClientBody,
    ClientFormat,
    ClientThinking,
    ExtraBody,
    NamedSchema,
    Reasoning,
    StreamOptions,
    TemplateSwitches,
)
from extproc.apis.shared.wire import Shape, given, refused
from extproc.conversation.model import OutputFormat, ThinkingConfig
from extproc.conversation.unsupported import Dropped

_stream_options = Shape(StreamOptions)
_format = Shape(ClientFormat)
_json_schema = Shape(NamedSchema)
_reasoning = Shape(Reasoning)
_thinking = Shape(ClientThinking)
_template: msgspec.json.Decoder[TemplateSwitches] = msgspec.json.Decoder(TemplateSwitches)
_extra_body: msgspec.json.Decoder[ExtraBody] = msgspec.json.Decoder(ExtraBody)
_ABSENT, _NULL = msgspec.Raw(), msgspec.Raw(b"null")
_any = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode
_usage: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])

_EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")


def output_limit(record: ClientBody[Any], dropped: Dropped) -> int | None:
    """`max_completion_tokens`, else `max_tokens`. -1 means no limit (llama.cpp, LM Studio)."""
    for name in ("max_completion_tokens", "max_tokens"):
        value: int | None = getattr(record, name)
        if value is None:
            continue
        if value == -1:
            dropped.hint(name)
            return None
        if value < 1:
            raise refused(name, f"expected at least 1, got {value}")
        return value
    return None


def stop_sequences(stop: str | list[str] | None, dropped: Dropped) -> list[str]:
    """Without empty sequences, which providers refuse or which would end every response at once."""
    wanted = [stop] if isinstance(stop, str) else stop or []
    sequences = [sequence for sequence in wanted if sequence]
    if len(sequences) < len(wanted):
        dropped.hint("stop")
    return sequences


def wants_usage(stream_options: msgspec.Raw, usage: msgspec.Raw) -> bool:
    """True if a stream shall end with usage figures: `include_usage`, or OpenRouter's older `usage: {include:
    true}`."""
    if given(stream_options) and _stream_options.read(stream_options, "stream_options")[0].include_usage:
        return True
    if not given(usage):
        return False
    try:
        return _usage.decode(usage).get("include") is True
    except msgspec.ValidationError:
        return False


# ---------------------------------------------------------------------------------------------------- structured output


def output_format(raw: msgspec.Raw, dropped: Dropped) -> OutputFormat | None:
    """`response_format`; None for plain text."""
    if not given(raw):
        return None
    wanted, unknown = _format.read(raw, "response_format")
    note_unknown(dropped, "response_format", unknown)
    if wanted.type == "json_object":
        return OutputFormat(wanted.schema)
    if wanted.type == "json_schema":
        if not given(wanted.json_schema):
            if wanted.schema is not None:
                return OutputFormat(wanted.schema)
            raise refused("response_format.json_schema", "this field is required")
        named, unknown = _json_schema.read(wanted.json_schema, "response_format.json_schema")
        note_unknown(dropped, "response_format.json_schema", unknown)
        if named.description:
            dropped.hint("response_format.json_schema.description")
        return OutputFormat(named.schema, name=named.name or "output", strict=named.strict)
    if wanted.type != "text":
        dropped.loss(f"response_format.{wanted.type}")
    return None


# ------------------------------------------------------------------------------------------------------------ reasoning


def thinking_config(record: ClientBody[Any], extra: Mapping[str, msgspec.Raw],
                    dropped: Dropped) -> tuple[ThinkingConfig | None, bool]:
    """The client's reasoning settings, and whether it wants to read the reasoning. `reasoning_effort` (OpenAI) gives
    the effort. `reasoning` (OpenRouter), `thinking` (Anthropic, DeepSeek, Z.AI), `enable_thinking` and
    `thinking_budget` (DashScope), `chat_template_kwargs` (vLLM), `extra_body.google` (Gemini) and `think` (Ollama) add
    to it."""
    config = _effort(record.reasoning_effort, "reasoning_effort", dropped)
    shown = record.include_reasoning is not False
    if given(record.reasoning):
        reasoning, unknown = _reasoning.read(record.reasoning, "reasoning")
        note_unknown(dropped, "reasoning", unknown)
        if given(reasoning.summary):
            dropped.hint("reasoning.summary")
        config = _merged(config, _openrouter(reasoning, dropped))
        shown = shown and not reasoning.exclude
    if given(record.thinking):
        config = _merged(config, _toggled(record.thinking, dropped))
    if record.enable_thinking is not None:
        config = _merged(config, ThinkingConfig("enabled" if record.enable_thinking else "disabled"))
    if record.thinking_budget is not None:
        config = _merged(config, _budgeted(record.thinking_budget))
    for name, read in _FURTHER.items():
        if name in extra:
            config = _merged(config, read(extra[name]))
    return config, shown


def thinking_words(record: ClientBody[Any], extra: Mapping[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    """See `Request.thinking_words`."""
    settings = {name: getattr(record, name) for name in _WORDS}
    words = {name: value if isinstance(value, msgspec.Raw) else msgspec.Raw(_encode(value))
             for name, value in settings.items() if value is not None and value not in (_ABSENT, _NULL)}
    words |= {name: extra[name] for name, read in _FURTHER.items() if name in extra and read(extra[name]) is not None}
    if record.reasoning_effort and (words or record.reasoning_effort == "none"):
        words["reasoning_effort"] = msgspec.Raw(_encode(record.reasoning_effort))
    return words


def _merged(first: ThinkingConfig | None, second: ThinkingConfig | None) -> ThinkingConfig | None:
    """Both settings combined; the first has precedence."""
    if first is None or second is None:
        return first or second
    return ThinkingConfig(first.mode or second.mode,
                          first.budget if first.budget is not None else second.budget, first.effort or second.effort,
                          first.preserved if first.preserved is not None else second.preserved)


def _budgeted(budget: int) -> ThinkingConfig:
    """A budget of 0 disables reasoning, whatever a switch beside it says; -1 leaves it to the model (Gemini)."""
    if budget == 0:
        return ThinkingConfig("disabled")
    return ThinkingConfig("adaptive") if budget < 0 else ThinkingConfig(budget=budget)


def _switches(raw: msgspec.Raw) -> ThinkingConfig | None:
    try:
        switches = _template.decode(raw)
    except msgspec.ValidationError:
        return None
    on = switches.thinking if switches.enable_thinking is None else switches.enable_thinking
    return None if on is None else ThinkingConfig("enabled" if on else "disabled")


def _google(raw: msgspec.Raw) -> ThinkingConfig | None:
    try:
        google = _extra_body.decode(raw).google
    except msgspec.ValidationError:
        return None
    config = google.thinking_config if google is not None else None
    if config is None:
        return None
    budget = config.thinkingBudget if config.thinking_budget is None else config.thinking_budget
    level = (config.thinking_level or config.thinkingLevel or "").lower()
    known = ThinkingConfig(effort=level) if level in _EFFORTS else None
    return _merged(None if budget is None else _budgeted(budget), known)


def _think(raw: msgspec.Raw) -> ThinkingConfig | None:
    value = _any.decode(raw)
    if isinstance(value, bool):
        return ThinkingConfig("enabled" if value else "disabled")
    return ThinkingConfig(effort=value) if value in _EFFORTS else None


_FURTHER: dict[str, Callable[[msgspec.Raw], ThinkingConfig | None]] = {
    "chat_template_kwargs": _switches, "extra_body": _google, "think": _think}
"""Fields of other servers that may contain reasoning settings among others."""
SERVER_FIELDS = frozenset(_FURTHER)
"""The names of these fields, which OpenAI itself does not have."""
_WORDS = ("reasoning", "include_reasoning", "thinking", "enable_thinking", "thinking_budget")


def _effort(effort: str | None, path: str, dropped: Dropped) -> ThinkingConfig | None:
    if not effort:
        return None
    if effort == "none":
        return ThinkingConfig("disabled")
    if effort in _EFFORTS:
        return ThinkingConfig(effort=effort)
    dropped.hint(path)
    return None


def _openrouter(reasoning: Reasoning, dropped: Dropped) -> ThinkingConfig | None:
    config = _effort(reasoning.effort, "reasoning.effort", dropped)
    if reasoning.enabled is False or reasoning.max_tokens == 0:
        return ThinkingConfig("disabled")
    if reasoning.max_tokens is not None:
        config = _merged(ThinkingConfig("enabled", budget=reasoning.max_tokens), config)
    elif reasoning.enabled:
        config = _merged(config, ThinkingConfig("enabled"))
    return config


def _toggled(raw: msgspec.Raw, dropped: Dropped) -> ThinkingConfig | None:
    thinking, unknown = _thinking.read(raw, "thinking")
    note_unknown(dropped, "thinking", unknown)
    preserved = None
    if thinking.clear_thinking is not None:
        preserved = not thinking.clear_thinking
        dropped.hint("thinking.clear_thinking")  # most providers do not know it
    if thinking.type == "disabled" or thinking.budget_tokens == 0:
        return ThinkingConfig("disabled", preserved=preserved)
    if thinking.type not in ("enabled", "adaptive", "auto"):
        dropped.hint(f"thinking.type.{thinking.type}")
    return ThinkingConfig("enabled" if thinking.type == "enabled" else "adaptive", budget=thinking.budget_tokens,
                          preserved=preserved)
