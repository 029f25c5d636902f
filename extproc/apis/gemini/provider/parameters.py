"""The generation config of a request: limits, sampling, thinking, structured output; and the safety settings.

Each value is clamped to the range that the model takes, because a value outside it fails the request; what cannot be
sent is named as a loss. Called by the request encoder.

Sources: ai.google.dev/api/generate-content#generationconfig (ranges), ai.google.dev/gemini-api/docs/thinking,
ai.google.dev/gemini-api/docs/openai ("Thinking": efforts as levels and as tokens).
"""

from __future__ import annotations

from extproc.apis.gemini.wire import GenerationConfig, RequestBody, SafetySetting, WireThinking
from extproc.apis.shared.efforts import effort_of_budget, format_in_words, nearest_effort, output_limit
from extproc.apis.shared.extras import name_extras
from extproc.conversation.model import OutputFormat, Request, ThinkingConfig
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.profiles.gemini import GeminiEndpoint, GeminiModel
from extproc.profiles.target import Target
from extproc.schemas.gemini import encode_response_schema

_EFFORT_TOKENS = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24_576}
"""The budgets of efforts at Google's own OpenAI endpoint; above high it is the model's maximum."""
_DYNAMIC_BUDGET = -1
_SMALL_LIMIT = 1024
"""Up to this output limit, in tokens, a model that was not asked to think is set to its least thinking: thoughts count
as output, and could leave nothing for the response."""
_SEED_MASK = 0x7FFFFFFF
_DEFAULT_TEMPERATURE = 1.0


def set_parameters(body: RequestBody, request: Request, target: Target, model: GeminiModel, endpoint: GeminiEndpoint,
                   dropped: Dropped) -> None:
    """Fills `generation_config` and `safety_settings`; `body.tools` must be set already. Raises `BadRequest` if the
    request asks for several responses."""
    if request.choices > 1:
        raise BadRequest(f"n: the request asks for {request.choices} responses, but this provider gives one; leave n "
                         "out, or send the request several times")
    config = GenerationConfig()
    config.stop_sequences = request.stop[:model.max_stop]
    if len(request.stop) > model.max_stop:
        dropped.loss("stop")
    most = model.max_output_tokens
    if target.max_output_tokens is not None:
        most = min(most, target.max_output_tokens)
    config.max_output_tokens = output_limit(request.max_output_tokens, most)
    _set_sampling(config, request, model, dropped)
    _set_format(config, request, model, endpoint, with_tools=bool(body.tools))
    config.thinking_config = _thinking_config(request.thinking, model, config.max_output_tokens, dropped)
    if config.thinking_config is None and request.reads_reasoning and model.thinking != "none":
        config.thinking_config = WireThinking(include_thoughts=True)
    body.generation_config = config if config != GenerationConfig() else None
    body.safety_settings = [SafetySetting(category, threshold) for category, threshold in target.safety.items()]
    _name_unsupported(request, dropped)


def _set_sampling(config: GenerationConfig, request: Request, model: GeminiModel, dropped: Dropped) -> None:
    temperature = request.temperature
    if model.sampling:
        config.temperature = None if temperature is None else _clamped(0.0, temperature, 2.0)
        config.top_p = None if request.top_p is None else _clamped(0.0, request.top_p, 1.0)
        config.top_k = None if request.top_k is None else max(1, min(request.top_k, model.max_top_k))
    else:
        lost = (("temperature", temperature not in (None, _DEFAULT_TEMPERATURE)),
                ("top_p", request.top_p not in (None, 1.0)), ("top_k", request.top_k is not None))
        for name, has_effect in lost:
            if has_effect:
                dropped.loss(name)
    # A longer seed is cut to the 31 bits that are allowed, so that equal seeds stay equal.
    config.seed = None if request.seed is None else request.seed & _SEED_MASK
    if model.penalties:
        config.presence_penalty = _penalty(request.presence_penalty)
        config.frequency_penalty = _penalty(request.frequency_penalty)
        return
    for name, value in (("presence_penalty", request.presence_penalty),
                        ("frequency_penalty", request.frequency_penalty)):
        if value:
            dropped.loss(name)


def _clamped(minimum: float, value: float, maximum: float) -> float:
    return min(max(value, minimum), maximum)


def _penalty(value: float | None) -> float | None:
    """From -2 up to, but not including, 2."""
    return None if value is None else _clamped(-2.0, value, 1.99)


def _name_unsupported(request: Request, dropped: Dropped) -> None:
    if request.user:
        dropped.hint("user")
    if request.logprobs:
        dropped.loss("logprobs")
    name_extras(request, dropped)


# ------------------------------------------------------------------------------------------------------------ thinking


def _thinking_config(wish: ThinkingConfig | None, model: GeminiModel, limit: int | None,
                     dropped: Dropped) -> WireThinking | None:
    """The thinking settings for the client's wish; None for the model's own default. The response holds thoughts if the
    client asked for thinking."""
    if model.thinking == "none":
        if wish is not None and wish.mode != "disabled" and wish.effort != "none":
            dropped.loss("thinking")
        return None
    if wish is None:
        return _least_thinking(model) if limit is not None and limit <= _SMALL_LIMIT else None
    if wish.mode == "disabled" or (wish.mode is None and wish.effort in (None, "none")):
        if model.thinks_always:
            dropped.hint("thinking")
        return _least_thinking(model)
    if model.thinking == "budget":
        return WireThinking(include_thoughts=True, thinking_budget=_budget(wish, model, limit))
    effort = wish.effort or effort_of_budget(wish.budget)
    level = None if effort is None else nearest_effort(model.level_map.get(effort, effort), model.levels)
    return WireThinking(include_thoughts=True, thinking_level=None if level is None else level.upper())


def _least_thinking(model: GeminiModel) -> WireThinking:
    if model.thinking == "level":
        return WireThinking(thinking_level=model.levels[0].upper())
    return WireThinking(thinking_budget=model.budgets[0] if model.thinks_always else 0)


def _budget(wish: ThinkingConfig, model: GeminiModel, limit: int | None) -> int:
    """Tokens of the thinking budget. The client's own figure takes precedence over an effort; without either the model
    decides. A budget that would use up the whole output limit is reduced to half of it."""
    least, most = model.budgets
    wanted = wish.budget
    if wanted is None and wish.effort is not None:
        wanted = _EFFORT_TOKENS.get(wish.effort, most)
    if wanted is None:
        return _DYNAMIC_BUDGET
    if limit is not None and wanted >= limit:
        wanted = limit // 2
    return max(least, min(wanted, most))


# --------------------------------------------------------------------------------------------------- structured output


def _set_format(config: GenerationConfig, request: Request, model: GeminiModel, endpoint: GeminiEndpoint, *,
                with_tools: bool) -> None:
    wanted = request.output_format
    if wanted is None or not _sends_format(model, with_tools):
        return
    config.response_mime_type = "application/json"
    if wanted.schema is None:
        return
    schema = encode_response_schema(wanted.schema, json_schema=model.json_schema, any_of_alone=endpoint.any_of_alone)
    if model.json_schema:
        config.response_json_schema = schema
    else:
        config.response_schema = schema


def format_note(wanted: OutputFormat | None, model: GeminiModel, *, with_tools: bool) -> str | None:
    """The instruction for the system text, if the generation config cannot carry the whole format."""
    if wanted is None:
        return None
    return format_in_words(wanted, schema_sent=_sends_format(model, with_tools))


def _sends_format(model: GeminiModel, with_tools: bool) -> bool:
    return model.structured_output and (model.format_with_tools or not with_tools)
