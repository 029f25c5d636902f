"""The parameters of a Chat Completions request: limits, sampling, reasoning effort, structured output, user.

Each function takes the client's wish and the profile and gives the value to send; what cannot be sent is named.
Called by the request encoder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from extproc.apis.base import Dropped, Target
from extproc.apis.openai.wire import Body, JsonObject, JsonSchema, NamedSchema, ThinkingToggle
from extproc.conversation import OutputFormat, Request, ThinkingConfig
from extproc.profiles.profile import Effort, Profile
from extproc.schema import clean_schema, fits_strict

_EFFORTS: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_LOW_BUDGET = 4096
_MEDIUM_BUDGET = 16384
_LEGAL_USER = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ODD_IN_FORMAT_NAME = re.compile(r"[^a-zA-Z0-9_-]+")


def set_parameters(body: Body, request: Request, target: Target, dropped: Dropped) -> None:
    """Fills everything of `body` but the model, the messages and the tools."""
    profile = target.profile
    limit = output_limit(request.max_output_tokens, target.max_output_tokens)
    if profile.max_tokens_field == "max_tokens":
        body.max_tokens = limit
    else:
        body.max_completion_tokens = limit
    body.temperature = request.temperature
    body.top_p = request.top_p
    body.top_k = request.top_k
    body.stop = request.stop[: profile.max_stop]
    if len(request.stop) > profile.max_stop and "stop" not in profile.refuses:
        dropped.loss("stop")
    body.reasoning_effort = reasoning_effort(request.thinking, profile, dropped)
    if profile.thinking_toggle and request.thinking is not None and request.thinking.mode is not None:
        body.thinking = ThinkingToggle("disabled" if request.thinking.mode == "disabled" else "enabled")
    body.user = legal_user(request.user) if profile.user and request.user else None
    if request.user and not profile.user:
        dropped.hint("user")
    body.response_format = response_format(request.output_format, profile)
    _remove_refused(body, profile, dropped)


def _remove_refused(body: Body, profile: Profile, dropped: Dropped) -> None:
    for name in sorted(profile.refuses):
        value = getattr(body, name, None)
        if value is not None and value != []:
            setattr(body, name, [] if name == "stop" else None)
            dropped.loss(name)


def output_limit(wanted: int | None, most: int | None) -> int | None:
    """The client's limit, clamped to the attempt's; None when the client set none."""
    if wanted is None:
        return None
    return max(1, wanted if most is None else min(wanted, most))


def legal_user(user: str) -> str:
    """The id itself where every server takes it, else 32 hex digits that stand for it. Clients put whole JSON texts
    there, of more than the 64 characters that are allowed."""
    if _LEGAL_USER.fullmatch(user):
        return user
    return blake2b(user.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# --------------------------------------------------------------------------------------------------------- reasoning


def reasoning_effort(thinking: ThinkingConfig | None, profile: Profile, dropped: Dropped) -> str | None:
    """The value of `reasoning_effort`, None when the field stays out.

    An effort of the client counts before a budget; a budget of up to 4096 tokens is low, of up to 16384 medium, more
    is high. Disabled is "none" where that value is known, else nothing; adaptive thinking without an effort is the
    provider's own default.
    """
    if thinking is None:
        return None
    if thinking.mode == "disabled":
        return "none" if profile.reasoning == "effort" and "none" in profile.efforts else None
    wanted = thinking.effort or _effort_of_budget(thinking.budget)
    if wanted is None:
        return None
    if profile.reasoning == "none" or not profile.efforts:
        if not profile.thinking_toggle:
            dropped.loss("thinking")
        return None
    return nearest_effort(profile.effort_map.get(wanted, wanted), profile.efforts)


def _effort_of_budget(budget: int | None) -> Effort | None:
    if budget is None:
        return None
    return "low" if budget <= _LOW_BUDGET else "medium" if budget <= _MEDIUM_BUDGET else "high"


def nearest_effort(wanted: str, known: Sequence[str]) -> str:
    """`wanted` when it is known, else the next one below it, else the lowest one above it. Only "none" itself
    becomes "none". An effort nobody knows counts as "high"."""
    if wanted in known:
        return wanted
    rank = _EFFORTS.index(wanted) if wanted in _EFFORTS else _EFFORTS.index("high")
    ranked = sorted((_EFFORTS.index(effort), effort) for effort in known if effort in _EFFORTS and effort != "none")
    below = [effort for at, effort in ranked if at <= rank]
    if below:
        return below[-1]
    return ranked[0][1] if ranked else wanted


# --------------------------------------------------------------------------------------------------- structured output


def response_format(wanted: OutputFormat | None, profile: Profile) -> JsonObject | JsonSchema | None:
    """The strongest form that the endpoint takes; `format_note` says the rest in words."""
    if wanted is None or _format_taken(profile) == "none":
        return None
    if wanted.schema is None or _format_taken(profile) == "json_object":
        return JsonObject()
    schema = clean_schema(wanted.schema)
    strict = True if wanted.strict and fits_strict(schema) else None
    name = _ODD_IN_FORMAT_NAME.sub("_", wanted.name)[:64] or "output"
    return JsonSchema(NamedSchema(name=name, schema=schema, strict=strict))


def format_note(wanted: OutputFormat | None, profile: Profile) -> str | None:
    """The instruction for the system text where `response_format` cannot carry the wish whole."""
    if wanted is None:
        return None
    if wanted.schema is None:
        # The format demands the word JSON somewhere in the messages of such a request.
        return "Answer with one JSON object and nothing else."
    if _format_taken(profile) == "json_schema":
        return None
    schema = msgspec.json.encode(clean_schema(wanted.schema)).decode()
    return f"Answer with one JSON value and nothing else. It must match this JSON Schema: {schema}"


def _format_taken(profile: Profile) -> str:
    return "none" if "response_format" in profile.refuses else profile.response_format
