"""Where the requests of one attempt go: the settings of the configuration and a backend's URL -> a `Target`.

Called by `Settings`. Reads no file and knows no wire format.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from msgspec.structs import replace

from extproc.profiles import find_profile
from extproc.profiles.apis import API_FACTS
from extproc.profiles.target import Target


def make_target(upstream: str, provider: str | None, url: str | None, max_output_tokens: int | None, tool_style: str,
                tool_choice: str | None, parallel_tool_calls: bool | None, max_tools: int,
                only_tools: tuple[str, ...] | None, safety: tuple[tuple[str, str], ...], model: str) -> Target:
    """`upstream` is the provider's API, `url` the backend's; without one the API's usual path is taken."""
    parts = urlsplit(url) if url else None
    profile = find_profile(provider, parts.hostname if parts else None, model)
    facts = API_FACTS.get(upstream)
    if facts is None or facts.has_reasoning_field:
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
        base_path=parts.path.rstrip("/") if parts else API_FACTS[upstream].default_base_path,
        endpoint=parts.netloc.rpartition("@")[2].lower() if parts else "",
        provider=provider,
        safety=safety,
    )
