"""Where the requests of one attempt go: the settings of the configuration and a backend's URL -> a `Target`.

Called by `Settings`. Reads no file and knows no wire format.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from msgspec.structs import replace

from extproc.profiles import find_profile
from extproc.profiles.target import Target

_DEFAULT_BASE_PATH = {"openai": "/v1", "anthropic": "/v1", "gemini": "/v1beta"}


def make_target(upstream: str, provider: str | None, url: str | None, max_output_tokens: int | None, tool_style: str,
                tool_choice: str | None, parallel_tool_calls: bool | None, max_tools: int,
                only_tools: tuple[str, ...] | None, safety: tuple[tuple[str, str], ...], model: str) -> Target:
    """`upstream` is the provider's API, `url` the backend's; without one the API's usual path is taken."""
    parts = urlsplit(url) if url else None
    profile = find_profile(provider, parts.hostname if parts else None, model)
    if upstream != "openai":  # these APIs have a place of their own for reasoning
        profile = replace(profile, splits_reasoning=True)
    return Target(
        model=model,
        profile=profile,
        max_output_tokens=max_output_tokens,
        tool_style=tool_style,
        tool_choice=tool_choice,
        parallel_tool_calls=parallel_tool_calls,
        max_tools=max_tools,
        only_tools=only_tools,
        base_path=parts.path.rstrip("/") if parts else _DEFAULT_BASE_PATH[upstream],
        endpoint=parts.netloc.rpartition("@")[2].lower() if parts else "",
        provider=provider,
        safety=safety,
    )
