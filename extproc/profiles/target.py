"""The settings of an attempt, for the encoders of a provider's request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from extproc.bounds import Limits
from extproc.globs import matches
from extproc.profiles.profile import Profile


class AttemptSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the configuration that a request's encoder reads as they are."""

    provider: str | None = None
    """The name of a profile. None: found by the host of the URL and the model."""
    max_output_tokens: int | None = None
    """Larger requests are clamped to this."""
    tool_style: str = "auto"
    """How tools are offered: auto, native, prompted, off, or the name of a dialect."""
    tool_choice: str | None = None
    """Forces "auto", "required" or "none", whatever the client chose."""
    only_tools: Sequence[str] | None = None
    """Names and globs of the tools that may be offered; None: all."""
    reasoning_summaries: bool = True
    """Responses API: a summary of the reasoning may be requested."""
    safety: Mapping[str, str] = {}
    """Gemini's safety settings: category -> threshold."""


class Target(AttemptSettings, frozen=True, kw_only=True):
    """The destination of a request: the provider's model, its profile and the attempt's settings."""

    api: str = "openai"
    """The name of the provider's API in the registry."""
    model: str
    """The provider's name of it."""
    profile: Profile
    parallel_tool_calls: bool | None = None
    """Allow or forbid several calls in one response; None: as the client asked."""
    max_tools: int = 512
    """Requests with more tools are refused."""
    base_path: str = "/v1"
    """The path of the backend's URL, without a trailing slash."""
    endpoint: str = ""
    """Host and port of the backend's URL. With the model they identify the issuer of a signature."""

    def permits_tool(self, tool: str) -> bool:
        """True if the tool with this name (the client's) may be offered."""
        return self.only_tools is None or any(matches(pattern, tool) for pattern in self.only_tools)

    def with_prompted_tools(self) -> Target | None:
        """The target with tools in the prompt, for an endpoint or model that takes no tools. None if the configuration
        sets a tool style."""
        if self.tool_style != "auto":
            return None
        max_tools = min(self.max_tools, Limits().prompted_tools)
        return msgspec.structs.replace(self, tool_style="prompted", max_tools=max_tools)
