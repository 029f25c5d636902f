"""What the provider APIs do alike with limits, reasoning efforts and structured output: pure functions of the client's
wish and of what a model takes.

Called by the parameter modules of the request encoders. Nothing here knows an API.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from extproc.conversation.model import OutputFormat
from extproc.profiles.profile import Effort
from extproc.schemas.openai import clean_schema

_EFFORTS: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_LOW_BUDGET = 4096
_MEDIUM_BUDGET = 16384


def output_limit(wanted: int | None, most: int | None) -> int | None:
    """The client's limit, clamped to the attempt's; None when the client set none."""
    if wanted is None:
        return None
    return max(1, wanted if most is None else min(wanted, most))


def effort_of_budget(budget: int | None) -> Effort | None:
    """A budget of up to 4096 tokens is low, of up to 16384 medium, more is high."""
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


def format_in_words(wanted: OutputFormat, *, schema_sent: bool) -> str | None:
    """The instruction for the system text where no field carries the wish whole. `schema_sent`: the provider gets
    the schema, if there is one, in a field of its own."""
    if wanted.schema is None:
        return "Answer with one JSON object and nothing else."
    if schema_sent:
        return None
    schema = msgspec.json.encode(clean_schema(wanted.schema)).decode()
    return f"Answer with one JSON value and nothing else. It must match this JSON Schema: {schema}"
