"""Plans thinking: the client's settings, the model's generation and the rest of the request -> one plan.

Called by the request encoder before anything is written, because the plan decides on max_tokens, sampling and past
thinking. Where two settings exclude each other, the more specific one has precedence: a forced tool and a prefill
before thinking. What is given up is named.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from extproc.apis.anthropic.wire import ThinkingField
from extproc.apis.shared.efforts import effort_of_budget, nearest_effort
from extproc.conversation.model import ThinkingConfig
from extproc.conversation.unsupported import Dropped
from extproc.profiles.anthropic import AnthropicModel

LEAST_BUDGET = 1024
"""The API refuses a smaller budget, and one that is not below max_tokens."""
BUDGETS = {"minimal": 1024, "low": 4096, "medium": 16_384, "high": 32_000, "xhigh": 48_000, "max": 64_000}
"""Thinking tokens for an effort, for models that only take a budget; `effort_of_budget` is the reverse."""
DEFAULT_OUTPUT = 32_000
"""`max_tokens` where the client set none: Claude Code's default, which leaves most of a small context window to the
prompt. The model's own limit applies where it is smaller."""

_Kind = Literal["enabled", "adaptive", "off"] | None


class Circumstances(msgspec.Struct, frozen=True):
    """The facts of the rest of the request that matter for thinking."""

    forced_tool: bool = False
    prefill: bool = False
    """The conversation ends with an assistant turn that the model continues."""
    loop_signed: bool = True
    """The open tool loop, if any, began with thinking that the endpoint takes back."""


class ThinkingPlan(msgspec.Struct):
    """`field` is `thinking`, `effort` is `output_config.effort`, `max_tokens` leaves room for the budget."""

    max_tokens: int
    field: ThinkingField | None = None
    effort: str | None = None
    on: bool = False
    """The model may think in this request: past thinking is sent back and sampling is fixed."""


def plan_thinking(wanted: ThinkingConfig | None, max_tokens: int | None, model: AnthropicModel,
                  circumstances: Circumstances, dropped: Dropped) -> ThinkingPlan:
    """`max_tokens`: the client's limit, None for none."""
    kind, effort = _kind_of_thinking(wanted, model, dropped)
    kind = _without_conflict(kind, model, circumstances, dropped)
    limit = min(DEFAULT_OUTPUT if max_tokens is None else max(1, max_tokens), model.max_output_tokens)
    plan = ThinkingPlan(limit, effort=effort)
    if kind == "enabled":
        kind = _with_budget(plan, wanted, max_tokens, model, dropped)
    if kind == "off":
        _switch_off(plan, model, requested=wanted is not None and _asks_for_none(wanted), dropped=dropped)
    elif kind == "adaptive":
        plan.field = ThinkingField("adaptive", display="summarized" if model.hides_thinking else None)
        plan.on = True
    elif kind is None:
        plan.on = model.thinks_by_default
    return plan


def _asks_for_none(wanted: ThinkingConfig) -> bool:
    return wanted.mode == "disabled" or (wanted.mode is None and wanted.effort == "none")


def _kind_of_thinking(wanted: ThinkingConfig | None, model: AnthropicModel, dropped: Dropped) -> tuple[_Kind,
                                                                                                       str | None]:
    """The nearest kind of thinking, and the effort to send."""
    if wanted is None:
        return None, None
    effort = None if wanted.effort == "none" else wanted.effort
    kind: _Kind
    if _asks_for_none(wanted):
        kind = "off"
    elif not model.can_think:
        kind = None
        if not model.thinks_by_default:
            dropped.loss("thinking")
    elif "adaptive" in model.thinking and not (wanted.budget is not None and "enabled" in model.thinking):
        kind = "adaptive"
    else:
        kind = "enabled"
    if kind == "adaptive" and wanted.budget is not None:
        effort = effort or effort_of_budget(wanted.budget)
        dropped.hint("thinking.budget_tokens")
    if effort is not None:
        effort = nearest_effort(model.effort_map.get(effort, effort), model.efforts) if model.efforts else None
        if effort is None and kind == "off":
            dropped.hint("reasoning_effort")
    return kind, effort


def _without_conflict(kind: _Kind, model: AnthropicModel, circumstances: Circumstances, dropped: Dropped) -> _Kind:
    """Resolves conflicts. With a budget the API answers 400 to a forced tool, to a prefill, and to a tool loop that
    does not begin with signed thinking. Adaptive thinking allows a forced tool and any loop; its models know no
    prefill."""
    switch_only = kind is None and model.thinks_by_default and model.thinking == {"enabled"}
    if kind != "enabled" and not (switch_only and circumstances.forced_tool):
        return kind
    adaptive = "adaptive" in model.thinking
    if circumstances.forced_tool or circumstances.prefill:
        if adaptive and not circumstances.prefill:
            return "adaptive"
        dropped.loss("thinking")
        return "off"
    if not circumstances.loop_signed:
        if adaptive:
            return "adaptive"
        dropped.hint("thinking")
        return "off"
    return kind


def _with_budget(plan: ThinkingPlan, wanted: ThinkingConfig | None, max_tokens: int | None, model: AnthropicModel,
                 dropped: Dropped) -> _Kind:
    """Adds a budget of at least 1024 tokens below max_tokens to the plan; "off" where there is no room for it."""
    requested = wanted.budget if wanted is not None else None
    if requested is not None:
        budget = max(LEAST_BUDGET, requested)
        if max_tokens is None:
            plan.max_tokens = min(model.max_output_tokens, budget + DEFAULT_OUTPUT)
        if budget >= plan.max_tokens:
            budget = plan.max_tokens - max(LEAST_BUDGET, plan.max_tokens // 4)
            dropped.hint("thinking.budget_tokens")
    else:
        effort = wanted.effort if wanted is not None else None
        budget = min(BUDGETS.get(effort or "medium", BUDGETS["high"]), plan.max_tokens * 3 // 4)
    if budget < LEAST_BUDGET:
        dropped.loss("thinking")
        return "off"
    plan.field = ThinkingField("enabled", budget_tokens=budget)
    plan.on = True
    return "enabled"


def _switch_off(plan: ThinkingPlan, model: AnthropicModel, *, requested: bool, dropped: Dropped) -> None:
    """`requested`: the client wants thinking off. Otherwise it only cannot be on."""
    if model.thinking_off == "never":
        plan.on = model.can_think or model.thinks_by_default
        if requested and plan.on:  # the least effort
            dropped.loss("thinking")
            plan.effort = plan.effort or (nearest_effort("minimal", model.efforts) if model.efforts else None)
        return
    if model.thinking_off == "omit" or not model.can_think:
        return
    plan.field = ThinkingField(model.thinking_off)
    plan.on = model.thinking_off == "between_tools"  # its short notes are thinking blocks and are sent back
    if plan.effort is not None:
        allowed = [effort for effort in model.efforts if effort in model.efforts_when_off]
        plan.effort = nearest_effort(plan.effort, allowed) if allowed else None
