"""The profiles as Markdown tables for the documentation.

Two tables: how each endpoint is found and what it accepts, and which makers' rules hold at aggregators. The records are
the source; the sources of their values are in each provider's file. Called by `tests/docs_tables.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from extproc.profiles import PROVIDERS, generic
from extproc.profiles.maker_rules import MAKER_RULES, MakerRule
from extproc.profiles.profile import Profile, Provider

_HEAD = ("Name", "Found by", "Reasoning asked by", "Reasoning given back", "Tool choice", "Parallel off",
         "Structured output", "Never sent")
_CHOICES = ("auto", "required", "tool", "none")
_HISTORY = {"drop": "no", "with_tool_calls": "with calls", "always": "always"}
_RULE_HEAD = ("Models", "Rules of", "At aggregators (`" + "`, `".join(
    provider.name for provider in PROVIDERS if provider.aggregator) + "`) and")
"""The rules of a model's maker at other endpoints."""


def profile_tables() -> str:
    """Both tables, separated by a blank line."""
    rows = [_row(provider) for provider in (*PROVIDERS, generic.PROVIDER)]
    return "\n".join([*_table(_HEAD, rows), "", *_table(_RULE_HEAD, [_maker_rule(rule) for rule in MAKER_RULES]), ""])


def _maker_rule(rule: MakerRule) -> tuple[str, ...]:
    ids = " under " + ", ".join(f"`{vendor}/`" for vendor in sorted(rule.vendors)) if rule.vendors else ""
    return f"`{rule.models}`", f"`{rule.maker.name}`", f"unknown hosts{ids}"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + " --- |" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _row(provider: Provider) -> tuple[str, ...]:
    profile = provider.base
    return (_names(provider), _codes(provider.hosts) or "its name only", _reasoning(profile),
            _reasoning_history(profile), _tool_choice(profile),
            "field" if profile.parallel_tool_calls else "in words", _format(profile),
            _codes(sorted(profile.refuses)) or "-")


def _names(provider: Provider) -> str:
    others = f" ({', '.join(provider.aliases)})" if provider.aliases else ""
    return f"`{provider.name}`{others}"


def _reasoning(profile: Profile) -> str:
    ways = []
    if profile.reasoning == "effort":
        ways.append(f"`reasoning_effort` ({', '.join(profile.efforts)})")
    elif profile.reasoning == "object":
        ways.append("`reasoning`")
    if profile.thinking_toggle is not None:
        ways.append(f"`{profile.thinking_toggle.replace('template:', 'chat_template_kwargs.')}`")
    if profile.thinking_budget:
        ways.append("`thinking_budget`")
    return ", ".join(ways) or ("always reasons" if profile.thinks == "always" else "no")


def _reasoning_history(profile: Profile) -> str:
    if profile.reasoning_history == "drop":
        return "no"
    return f"{_HISTORY[profile.reasoning_history]}, as `{profile.reasoning_field}`"


def _tool_choice(profile: Profile) -> str:
    if not profile.native_tools:
        return "tools in the prompt"
    return ", ".join(choice for choice in _CHOICES if choice in profile.tool_choices)


def _format(profile: Profile) -> str:
    limits = [text for holds, text in ((profile.format_with_tools, "without tools"),
                                       (profile.format_in_stream, "not streamed"),
                                       (profile.format_while_thinking, "without reasoning")) if not holds]
    return ", ".join([{"json_schema_only": "json_schema", "none": "in words"}.get(
        profile.response_format, profile.response_format), *limits])


def _codes(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)

