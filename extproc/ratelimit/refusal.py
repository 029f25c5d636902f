"""A limit that refuses -> what the client reads: one sentence, and headers in the words of its API.

Called by the service. The sentence travels in a header of its own, from which Envoy's mapper makes the body in the
client's error shape (`extproc.envoy_config.local_replies`), because the service never sees the request.
Sources of the headers: the API references of Anthropic (`anthropic-ratelimit-*`, reset as a time of day) and OpenAI
(`x-ratelimit-*`, reset as a duration), the same that `extproc.translation.provider_limits` translates between.
"""

from __future__ import annotations

from datetime import UTC, datetime

from extproc.headers import LIMIT_MESSAGE_HEADER
from extproc.ratelimit.counters import State
from extproc.ratelimit.kinds import KINDS
from extproc.translation.provider_limits import duration


def message(state: State) -> str:
    """Which limit it is, its number and when to try again. Printable ASCII, as it becomes a header."""
    kind, key = KINDS[state.key.kind], state.key
    whose = f'team "{key.team}"' + (f' for the model "{key.rule}"' if key.rule else "")
    then = f"It resets in {_in_words(state.reset)}." if kind.seconds else "Please try again when one has ended."
    said = f"Rate limit reached: {whose} may have {kind.words(state.number)} ({kind.name}). {then}"
    return "".join(char if " " <= char <= "~" else "?" for char in said)


def headers(state: State, api: str, now: float) -> dict[str, str]:
    """For a client of this API. `now`: seconds since 1970."""
    said = {LIMIT_MESSAGE_HEADER: message(state), "retry-after": str(state.reset)}
    kind = KINDS[state.key.kind]
    if not kind.seconds:
        return said
    if api == "anthropic":
        reset = datetime.fromtimestamp(now + state.reset, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        values = {"limit": str(state.number), "remaining": str(state.remaining), "reset": reset}
        return said | {f"anthropic-ratelimit-{kind.thing}-{name}": value for name, value in values.items()}
    values = {"limit": str(state.number), "remaining": str(state.remaining), "reset": duration(state.reset)}
    return said | {f"x-ratelimit-{name}-{kind.thing}": value for name, value in values.items()}


def _in_words(seconds: int) -> str:
    """For people."""
    if seconds < 120:
        return f"{seconds} second{'' if seconds == 1 else 's'}"
    minutes = round(seconds / 60)
    return f"{minutes} minutes" if minutes < 120 else f"{minutes // 60} hours and {minutes % 60} minutes"
