"""The generation config of a request: limits, sampling, thinking, structured output; and the safety settings.

Each value is brought into the range that the model takes, because one outside it fails the request; what cannot be
sent is named. Called by the request encoder.

Sources: ai.google.dev/api/generate-content#generationconfig (ranges), ai.google.dev/gemini-api/docs/thinking,
ai.google.dev/gemini-api/docs/openai ("Thinking": what an effort is in levels and in tokens).
"""

from __future__ import annotations

from extproc.apis.gemini.provider.wire import Body, GenerationConfig, SafetySetting, ThinkingConfig
from extproc.apis.shared.efforts import effort_of_budget, format_in_words, nearest_effort, output_limit
from extproc.apis.shared.extras import name_extras
from extproc.conversation.model import OutputFormat, Request
from extproc.conversation.model import ThinkingConfig as Wish
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.profiles.gemini import GeminiEndpoint, GeminiModel
from extproc.profiles.target import Target
from extproc.schemas.gemini import response_schema

_EFFORT_TOKENS = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24_576}
"""What Google's own OpenAI endpoint takes an effort for; above high is the most there is."""
_DYNAMIC = -1
_TIGHT = 1024
"""Up to this output limit a model that was not asked to think is told to think as little as it can: thoughts count
as output, and an answer of which they use up everything is empty."""
_SEED = 0x7FFFFFFF
_DEFAULT_TEMPERATURE = 1.0


def set_parameters(body: Body, request: Request, target: Target, model: GeminiModel, door: GeminiEndpoint,
                   dropped: Dropped) -> None:
    """Fills `generation_config` and `safety_settings`; `body.tools` must be set. Raises `BadRequest` for several
    answers to one request."""
    if request.choices > 1:
        raise BadRequest(f"n: {request.choices} answers to one request are asked for, this provider gives one; leave n "
                         "out or send the request several times")
    config = GenerationConfig()
    config.stop_sequences = request.stop[:model.max_stop]
    if len(request.stop) > model.max_stop:
        dropped.loss("stop")
    most = model.max_output_tokens
    if target.max_output_tokens is not None:
        most = min(most, target.max_output_tokens)
    config.max_output_tokens = output_limit(request.max_output_tokens, most)
    _set_sampling(config, request, model, dropped)
    _set_format(config, request, model, door, with_tools=bool(body.tools))
    config.thinking_config = _thinking(request.thinking, model, config.max_output_tokens, dropped)
    body.generation_config = config if config != GenerationConfig() else None
    body.safety_settings = [SafetySetting(category, threshold) for category, threshold in target.safety]
    _name_the_rest(request, dropped)


def _set_sampling(config: GenerationConfig, request: Request, model: GeminiModel, dropped: Dropped) -> None:
    temperature = request.temperature
    if model.sampling:
        config.temperature = None if temperature is None else _between(0.0, temperature, 2.0)
        config.top_p = None if request.top_p is None else _between(0.0, request.top_p, 1.0)
        config.top_k = None if request.top_k is None else max(1, min(request.top_k, model.max_top_k))
    else:
        lost = (("temperature", temperature not in (None, _DEFAULT_TEMPERATURE)),
                ("top_p", request.top_p not in (None, 1.0)), ("top_k", request.top_k is not None))
        for name, said in lost:
            if said:
                dropped.loss(name)
    # A 32-bit integer: a longer one is folded, so that the same seed stays the same.
    config.seed = None if request.seed is None else request.seed & _SEED
    if model.penalties:
        config.presence_penalty = _penalty(request.presence_penalty)
        config.frequency_penalty = _penalty(request.frequency_penalty)
        return
    for name, value in (("presence_penalty", request.presence_penalty),
                        ("frequency_penalty", request.frequency_penalty)):
        if value:
            dropped.loss(name)


def _between(least: float, value: float, most: float) -> float:
    return min(max(value, least), most)


def _penalty(value: float | None) -> float | None:
    """From -2 up to, but not including, 2."""
    return None if value is None else _between(-2.0, value, 1.99)


def _name_the_rest(request: Request, dropped: Dropped) -> None:
    if request.user:
        dropped.hint("user")
    if request.logprobs:
        dropped.loss("logprobs")
    name_extras(request, dropped)


# ------------------------------------------------------------------------------------------------------------ thinking


def _thinking(wish: Wish | None, model: GeminiModel, limit: int | None, dropped: Dropped) -> ThinkingConfig | None:
    """What is sent for the client's wish, None for the model's own default. Thoughts come back when they are wanted."""
    if model.thinking == "none":
        if wish is not None and wish.mode != "disabled" and wish.effort != "none":
            dropped.loss("thinking")
        return None
    if wish is None:
        return _least(model) if limit is not None and limit <= _TIGHT else None
    if wish.mode == "disabled" or (wish.mode is None and wish.effort in (None, "none")):
        if model.thinks_always:
            dropped.hint("thinking")
        return _least(model)
    if model.thinking == "budget":
        return ThinkingConfig(include_thoughts=True, thinking_budget=_budget(wish, model, limit))
    effort = wish.effort or effort_of_budget(wish.budget)
    level = None if effort is None else nearest_effort(model.level_map.get(effort, effort), model.levels)
    return ThinkingConfig(include_thoughts=True, thinking_level=None if level is None else level.upper())


def _least(model: GeminiModel) -> ThinkingConfig:
    if model.thinking == "level":
        return ThinkingConfig(thinking_level=model.levels[0].upper())
    return ThinkingConfig(thinking_budget=model.budgets[0] if model.thinks_always else 0)


def _budget(wish: Wish, model: GeminiModel, limit: int | None) -> int:
    """The client's own figure counts before an effort; without either the model decides. Half of the output is kept
    for the answer where a budget would use up all of it."""
    least, most = model.budgets
    wanted = wish.budget
    if wanted is None and wish.effort is not None:
        wanted = _EFFORT_TOKENS.get(wish.effort, most)
    if wanted is None:
        return _DYNAMIC
    if limit is not None and wanted >= limit:
        wanted = limit // 2
    return max(least, min(wanted, most))


# --------------------------------------------------------------------------------------------------- structured output


def _set_format(config: GenerationConfig, request: Request, model: GeminiModel, door: GeminiEndpoint, *,
                with_tools: bool) -> None:
    wanted = request.output_format
    if wanted is None or not _format_taken(model, with_tools):
        return
    config.response_mime_type = "application/json"
    if wanted.schema is None:
        return
    schema = response_schema(wanted.schema, json_schema=model.json_schema, any_of_alone=door.any_of_alone)
    if model.json_schema:
        config.response_json_schema = schema
    else:
        config.response_schema = schema


def format_note(wanted: OutputFormat | None, model: GeminiModel, *, with_tools: bool) -> str | None:
    """The instruction for the system text where the generation config cannot carry the wish whole."""
    if wanted is None:
        return None
    return format_in_words(wanted, schema_sent=_format_taken(model, with_tools))


def _format_taken(model: GeminiModel, with_tools: bool) -> bool:
    return model.structured_output and (model.format_with_tools or not with_tools)
