"""The record of what is peculiar about an endpoint or a model family.

A profile is data: one record each, every field documented with its default, each quirk with its source at the place
where it is set. Code asks a profile, it never asks "is this provider X?". A `Provider` groups the profiles of one
endpoint: how it is recognised, its plain profile and its model families.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal

import msgspec

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint's peculiarities. The defaults are those of a generic OpenAI-compatible server."""

    name: str
    faithful: bool = False
    """Its requests may be an OpenAI client's own bytes, and its answers need no mending: between an OpenAI client and
    this endpoint bytes pass. Only for endpoints that keep to the format."""

    # ------------------------------------------------------------------------------------------------- parameters
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The field that carries the output limit."""
    refuses: frozenset[str] = frozenset({"top_k"})
    """Request fields (temperature, top_p, top_k, stop, response_format...) that are answered with an error or
    silently misread: removed and named. `top_k` is not in the OpenAI format, so only a profile that leaves it out
    of this set gets it."""
    max_stop: int = 4
    """Most stop sequences of a request; the OpenAI format allows four. Further ones are dropped and named."""
    user: bool = True
    """Whether the field `user` is sent (an opaque id, hashed when longer than 64 characters or oddly spelt)."""
    stream_usage: bool = True
    """Whether `stream_options: {include_usage: true}` is sent with a stream; without it most servers count nothing."""
    response_format: Literal["json_schema", "json_object", "none"] = "json_schema"
    """The strongest form of structured output that is taken. Below json_schema the schema goes into the system text."""
    extra_body: dict[str, object] = {}
    """Fields that every request of this endpoint carries, after all others."""

    # -------------------------------------------------------------------------------------------------- reasoning
    reasoning: Literal["effort", "none"] = "effort"
    """How the client's wish for thinking is sent: as `reasoning_effort`, or not at all (then it is named)."""
    efforts: tuple[Effort, ...] = ("low", "medium", "high")
    """The values of `reasoning_effort` that are understood; another wish becomes the nearest one below, else above.
    "none" switches thinking off and is sent only where it stands here, else a disabled thinking sends nothing."""
    effort_map: dict[str, Effort] = {}
    """Efforts that the endpoint itself takes for others, where the nearest is not what it means."""
    thinking_toggle: bool = False
    """Whether `thinking: {"type": "enabled" | "disabled"}` switches reasoning; sent when the client says either."""
    reasoning_history: Literal["drop", "with_tool_calls", "always"] = "drop"
    """What becomes of the thinking of earlier assistant turns: removed, sent back on turns that call tools, or on
    all turns. Servers that do not know the field refuse or ignore it, hence the default."""
    reasoning_field: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    """The message field that carries it."""
    reasoning_placeholder: str | None = None
    """Sent in that field on a turn with tool calls whose thinking was not kept, where the field must be present.
    None: the field is left out. Used only when `reasoning_history` is not "drop"."""

    # --------------------------------------------------------------------------------------------------- messages
    system_anywhere: bool = True
    """Whether `system` messages may stand in the middle. If not, they become user text there. (Those before the first
    turn join the system text at the head either way.)"""
    empty_content: Literal["null", "empty"] = "null"
    """`content` of an assistant message that only calls tools: null (the OpenAI form) or ""."""
    bridge_after_tools: str | None = None
    """Text of an assistant message put between tool messages and a user message, for servers that refuse the order
    tool, user. None: nothing is put there."""
    prefill: Literal["plain", "prefix", "partial"] = "plain"
    """How a last assistant message that is to be continued is marked: not at all, `prefix: true` or `partial: true`."""
    images: bool = True
    """Whether image parts are taken. If not, a note names each image in the text."""
    image_urls: bool = True
    """Whether an image part may hold an http(s) URL besides a data URL."""
    documents: bool = True
    """Whether `file` parts (PDF as a data URL) are taken."""

    # ------------------------------------------------------------------------------------------------------ tools
    max_tools: int | None = None
    """Most tools of a request; more are refused before the provider does. None: no limit of its own."""
    tool_name_max: int = 64
    """Longest tool name; longer ones are mapped and restored."""
    strict_tools: bool = False
    """Whether `strict` in a tool definition is taken. Sent only for schemas that meet its demands."""
    tool_choices: frozenset[str] = frozenset({"auto", "required", "tool", "none"})
    """The modes of `tool_choice` that are taken. A missing "tool" becomes "required", a missing "required" becomes
    "auto", a missing "auto" is left out; for a missing "none" the tools themselves are left out."""
    parallel_tool_calls: bool = True
    """Whether the field `parallel_tool_calls` is taken."""
    tool_call_id_pattern: str = r"[\x21-\x7e]+"
    """What a whole tool call id must match to pass unchanged."""
    tool_call_id_max: int = 40
    """Longest tool call id. The OpenAI API refuses more than 40 characters."""
    tool_call_id_form: Literal["hash", "nine", "functions"] = "hash"
    """What replaces an id that may not pass: `call_` and 24 hex digits; nine alphanumerics; or, for every call,
    `functions.NAME:N` with N counted over the conversation."""


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint: the `provider:` name of the configuration, the hosts that betray it, and its profiles."""

    name: str
    hosts: tuple[str, ...] = ()
    """Host names; subdomains count as well."""
    base: Profile
    families: tuple[tuple[str, Profile], ...] = ()
    """Globs on the lower-case model id, without a leading "vendor/", with their profiles; the first match wins."""

    def profile(self, model: str) -> Profile:
        """The profile of this model id at this endpoint."""
        plain = model.lower().rpartition("/")[2]
        for pattern, profile in self.families:
            if fnmatchcase(plain, pattern):
                return profile
        return self.base

    def serves(self, host: str) -> bool:
        """Whether this host name belongs to the endpoint."""
        return any(host == own or host.endswith("." + own) for own in self.hosts)
