"""The betas of a Messages request that passes, as its endpoint takes them.

An endpoint that knows a list of `anthropic-beta` refuses every other value, or the fields that it brings. Values that
it does not take are left out, with these fields. Used by the relay of the Messages API and where tokens are counted.
"""

from __future__ import annotations

from extproc.apis.anthropic.passthrough.history import Turn
from extproc.apis.shared.json_fields import Fields, holds, member_of, raw
from extproc.conversation.unsupported import Dropped
from extproc.profiles.anthropic import BETA_FIELDS, DISPLAY_UPDATES, TOOL_CHANGES, AnthropicEndpoint

_CHANGES = ("tool_addition", "tool_removal", "mid_conv_system")


def taken_betas(header: str, endpoint: AnthropicEndpoint, dropped: Dropped) -> str:
    """The value of the header for the endpoint, "" for none."""
    if endpoint.betas is None:
        return header
    given = [value.strip() for value in header.split(",") if value.strip()]
    taken = dict.fromkeys(endpoint.betas[value] for value in given if value in endpoint.betas)
    if any(value not in endpoint.betas for value in given):
        dropped.hint("anthropic-beta")
    return ",".join(taken)


def takes_changes(turns: list[Turn], endpoint: AnthropicEndpoint) -> bool:
    """Whether the endpoint takes what the conversation says of its tools; else the request is written anew with the
    tools that hold at its end."""
    return endpoint.takes_beta(TOOL_CHANGES) or not any(turn.holds(*_CHANGES) for turn in turns)


def remove_beta_fields(fields: Fields, endpoint: AnthropicEndpoint, dropped: Dropped) -> None:
    """Takes the fields out that only a beta allows which the endpoint does not know."""
    if endpoint.betas is None:
        return
    for name, start in BETA_FIELDS.items():
        if name not in fields or any(value.startswith(start) for value in endpoint.betas):
            continue
        if holds(fields.pop(name)):
            (dropped.loss if name == "mcp_servers" else dropped.hint)(name)
    thinking = member_of(fields, "thinking")
    if thinking is not None and thinking.get("display") == raw("updates") and not endpoint.takes_beta(DISPLAY_UPDATES):
        del thinking["display"]
        fields["thinking"] = raw(thinking)
        dropped.hint("thinking.display")
