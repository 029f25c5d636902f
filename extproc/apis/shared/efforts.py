"""Output limits, reasoning efforts and structured output for all provider APIs: pure functions of the client's request
and the model's profile.

Called by the parameter modules of the request encoders. Nothing here knows an API.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from extproc.conversation.model import OutputFormat, ThinkingConfig
from extproc.conversation.unsupported import Dropped
from extproc.profiles.profile import Effort, Profile
from extproc.profiles.target import Target
from extproc.schemas.openai import clean_schema

_EFFORTS: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_ODD_IN_FORMAT_NAME = re.compile(r"[^a-zA-Z0-9_-]+")
_LOW_BUDGET = 4096
_MEDIUM_BUDGET = 16384


def output_limit(wanted: int | None, most: int | None) -> int | None:
    """The client's limit, clamped to the attempt's; None if the client set none."""
    if wanted is None:
        return None
    return max(1, wanted if most is None else min(wanted, most))


def limit_at(wanted: int | None, target: Target, dropped: Dropped) -> int | None:
    """The client's output limit, clamped to the attempt's and the model's: providers refuse more than the model's
    with 400."""
    limit, most = output_limit(wanted, target.max_output_tokens), target.profile.max_output_tokens
    if limit is not None and most is not None and limit > most:
        dropped.hint("max_tokens")
        return most
    return limit


def effort_of_budget(budget: int | None) -> Effort | None:
    """A budget of up to 4096 tokens is low, of up to 16384 medium, more is high."""
    if budget is None:
        return None
    return "low" if budget <= _LOW_BUDGET else "medium" if budget <= _MEDIUM_BUDGET else "high"


def nearest_effort(wanted: str, known: Sequence[str]) -> str:
    """`wanted` if it is known, else the next one below it, else the lowest one above it. Only "none" itself becomes
    "none". An unknown effort counts as "high"."""
    if wanted in known:
        return wanted
    rank = _EFFORTS.index(wanted) if wanted in _EFFORTS else _EFFORTS.index("high")
    ranked = sorted((_EFFORTS.index(effort), effort) for effort in known if effort in _EFFORTS and effort != "none")
    below = [effort for at, effort in ranked if at <= rank]
    if below:
        return below[-1]
    return ranked[0][1] if ranked else wanted


def is_asked(thinking: ThinkingConfig | None) -> bool:
    """True if the client asks the model to reason."""
    return thinking is not None and thinking.mode != "disabled" and thinking.effort != "none"


def reasoning_effort(thinking: ThinkingConfig, profile: Profile, dropped: Dropped) -> str | None:
    """The effort to send; None to leave the field out.

    The client's effort has precedence over a budget. A budget of up to 4096 tokens is low, of up to 16384 medium, more
    is high. Disabled reasoning is "none" where that value is known, else nothing. Adaptive thinking without an effort
    is the provider's default.
    """
    if not is_asked(thinking):
        return "none" if profile.reasoning == "effort" and "none" in profile.efforts else None
    if profile.reasoning == "none" or not profile.efforts:
        if profile.thinking_toggle is None and profile.thinks in ("when_asked", "unknown"):
            dropped.loss("thinking")
        return None
    wanted = thinking.effort or effort_of_budget(thinking.budget)
    if wanted is None:
        return None
    return known_effort(wanted, profile)


def known_effort(wanted: str, profile: Profile) -> str | None:
    """The nearest known effort; None where only "none" is known."""
    if profile.efforts == ("none",):
        return None
    return nearest_effort(profile.effort_map.get(wanted, wanted), profile.efforts)


def format_in_words(wanted: OutputFormat, *, schema_sent: bool) -> str | None:
    """The instruction for the system text if no field of the API expresses the whole format. `schema_sent`: the
    provider gets the schema, if there is one, in a field of its own."""
    if wanted.schema is None:
        return "Answer with one JSON object and nothing else."
    if schema_sent:
        return None
    schema = msgspec.json.encode(clean_schema(wanted.schema)).decode()
    return f"Answer with one JSON value and nothing else. It must match this JSON Schema: {schema}"


def format_name(wanted: OutputFormat) -> str:
    """The name of a schema with the characters and the length that OpenAI allows."""
    return _ODD_IN_FORMAT_NAME.sub("_", wanted.name)[:64] or "output"
