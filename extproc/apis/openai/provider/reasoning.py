"""The client's reasoning settings in the form of the endpoint: an effort, an object, a toggle, a budget.

Many endpoints refuse a forced tool choice or a response format while their model reasons. The required form of the
response has precedence: reasoning is switched off where that is possible, and named if the client asked for it. Where
it is not, `Plan` says that the form must be requested in words. Called by the request encoder and, to decide whether a
request can pass unchanged, by the pass-through.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from extproc.apis.openai.provider.signatures import anthropic_signature
from extproc.apis.openai.wire_request import ProviderBody, Reasoning, ThinkingToggle
from extproc.apis.shared.efforts import effort_of_budget, is_asked, known_effort, reasoning_effort
from extproc.conversation.model import Request, Thinking, ThinkingConfig
from extproc.conversation.tool_results import Turn
from extproc.conversation.unsupported import Dropped
from extproc.profiles.profile import Profile
from extproc.profiles.target import Target

_OFF = ThinkingConfig("disabled")
_LEAST_BUDGET = 1024
"""Anthropic refuses a smaller budget, and one that reaches the output limit."""


class ReasoningPlan(msgspec.Struct, frozen=True):
    """The reasoning settings to send, and whether a forced form may be sent beside them."""

    thinking: ThinkingConfig | None
    choice: bool = True
    """True if a forced tool choice may be sent."""
    format: bool = True
    """True if a response format may be sent."""


def plan_reasoning(request: Request, turns: Sequence[Turn], target: Target, dropped: Dropped, *, tools: bool,
                   forced: bool,
         formatted: bool) -> ReasoningPlan:
    """`turns`: the conversation to be sent. `tools`: tools are offered. `forced`: the tool choice is forced.
    `formatted`: a response format is sent."""
    profile = target.profile
    wanted = _switched(request.thinking, profile)
    if tools and profile.functions == "without_reasoning":
        if thinks(wanted, profile):
            dropped.loss("thinking")
        return ReasoningPlan(_OFF)
    if profile.signed_thinking and is_asked(wanted) and _unsigned_calls(turns):
        dropped.hint("thinking")
        wanted = _off(profile)
    if not thinks(wanted, profile):
        return ReasoningPlan(wanted)
    choice_clashes = forced and not profile.choice_while_thinking
    format_clashes = formatted and not profile.format_while_thinking
    if not (choice_clashes or format_clashes):
        return ReasoningPlan(wanted)
    if not _can_be_off(profile):
        return ReasoningPlan(wanted, choice=not choice_clashes, format=not format_clashes)
    if is_asked(wanted):
        dropped.loss("thinking")
    return ReasoningPlan(_off(profile))


def _switched(wanted: ThinkingConfig | None, profile: Profile) -> ThinkingConfig | None:
    """Where the endpoint has only a switch, the least effort becomes off: OpenAI's "minimal" means few thoughts or
    none."""
    only_switch = profile.thinking_toggle is not None and profile.reasoning == "none" and profile.thinks != "always"
    if only_switch and wanted is not None and wanted.mode is None and wanted.effort == "minimal":
        return _OFF
    return wanted


def thinks(thinking: ThinkingConfig | None, profile: Profile) -> bool:
    """True if the model will reason."""
    if profile.thinks == "always":
        return True
    return profile.thinks == "by_default" if thinking is None else is_asked(thinking)


def _can_be_off(profile: Profile) -> bool:
    if profile.thinks == "always":
        return False
    return _off(profile) is None or profile.thinking_toggle is not None or "none" in profile.efforts


def _off(profile: Profile) -> ThinkingConfig | None:
    return None if profile.thinks in ("when_asked", "unknown") else _OFF


def _unsigned_calls(turns: Sequence[Turn]) -> bool:
    """True if the conversation ends with answered calls without signed reasoning."""
    last = next((turn for turn in reversed(turns) if turn.role != "system"), None)
    if last is None or not last.exchanges:
        return False
    return not any(isinstance(block, Thinking) and (anthropic_signature(block.signature)
                                                    or anthropic_signature(block.redacted))
                   for block in last.content)


# ------------------------------------------------------------------------------------------------------------- fields


def set_reasoning(body: ProviderBody, thinking: ThinkingConfig, profile: Profile, dropped: Dropped) -> None:
    """Sets the reasoning fields. Called after the output limit is set."""
    if profile.reasoning == "object":
        body.reasoning = _object(thinking, profile, body.max_tokens or body.max_completion_tokens)
    else:
        body.reasoning_effort = reasoning_effort(thinking, profile, dropped)
    if profile.thinking_toggle is not None:
        _toggle(body, thinking, profile)
    if body.thinking is not None and body.thinking.clear_thinking is not None:
        dropped.remove("thinking.clear_thinking")
    unsaid = (body.reasoning_effort, body.reasoning, body.thinking, body.enable_thinking) == (None,) * 4
    if not is_asked(thinking) and unsaid and not body.chat_template_kwargs and profile.thinks != "when_asked":
        dropped.hint("thinking")  # reasoning cannot be switched off


def _object(thinking: ThinkingConfig, profile: Profile, limit: int | None) -> Reasoning | None:
    """OpenRouter's object: an effort, a budget or a plain switch, never two of them."""
    if not is_asked(thinking):
        return Reasoning(enabled=False) if "none" in profile.efforts else None
    budget = thinking.budget
    if budget is not None and profile.reasoning_budget and thinking.effort is None:
        budget = max(_LEAST_BUDGET, budget)
        if limit is None or budget < limit:
            return Reasoning(max_tokens=budget)
    wanted = thinking.effort or effort_of_budget(thinking.budget)
    effort = None if wanted is None else known_effort(wanted, profile)
    return Reasoning(enabled=True) if effort is None else Reasoning(effort=effort)


def _toggle(body: ProviderBody, thinking: ThinkingConfig, profile: Profile) -> None:
    """Sent when the client switches reasoning on or off; an effort means on."""
    on = is_asked(thinking)
    toggle = profile.thinking_toggle
    if not on and profile.thinks == "always":
        return
    if toggle == "thinking":
        clear = None if thinking.preserved is None or not profile.preserved_thinking else not thinking.preserved
        body.thinking = ThinkingToggle(profile.thinking_on if on else "disabled", clear)
    elif toggle == "enable_thinking":
        body.enable_thinking = on
    elif toggle == "reasoning":
        body.reasoning = Reasoning(enabled=on)
    elif toggle is not None:
        body.chat_template_kwargs = {toggle.removeprefix("template:"): on}
    if on and thinking.budget is not None and profile.thinking_budget:
        body.thinking_budget = thinking.budget
