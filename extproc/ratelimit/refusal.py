"""A limit that refuses a request -> response headers for the client: one sentence, and the fields of its API.

The sentence has a header of its own, from which Envoy's local reply mapper makes the body in the client's error shape
(`extproc.envoy_config.local_replies`), because the rate limit service never sees the request.
Sources: the API references of Anthropic (`anthropic-ratelimit-*`, reset as a time of day) and OpenAI
(`x-ratelimit-*`, reset as a duration). `extproc.translation.provider_limits` translates between the same two.
"""

from __future__ import annotations

from datetime import UTC, datetime

from extproc.headers import LIMIT_MESSAGE_HEADER
from extproc.ratelimit.counters import LimitStatus
from extproc.ratelimit.kinds import LIMIT_KINDS
from extproc.translation.provider_limits import duration


def refusal_message(status: LimitStatus) -> str:
    """The limit, its number and when to retry. Printable ASCII, because it becomes a header."""
    kind, key = LIMIT_KINDS[status.key.kind], status.key
    team = f'team "{key.team}"' + (f' for the model "{key.rule}"' if key.rule else "")
    advice = (f"It resets in {_in_words(status.reset_seconds)}." if kind.window_seconds
              else "Please try again when one has ended.")
    text = f"Rate limit reached: {team} may have {kind.describe(status.limit)} ({kind.name}). {advice}"
    return "".join(char if " " <= char <= "~" else "?" for char in text)


def refusal_headers(status: LimitStatus, api: str, now: float) -> dict[str, str]:
    """Response headers for a client of this API. `now`: seconds since 1970."""
    headers = {LIMIT_MESSAGE_HEADER: refusal_message(status), "retry-after": str(status.reset_seconds)}
    kind = LIMIT_KINDS[status.key.kind]
    if not kind.window_seconds:
        return headers
    if api == "anthropic":
        reset = datetime.fromtimestamp(now + status.reset_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        values = {"limit": str(status.limit), "remaining": str(status.remaining), "reset": reset}
        return headers | {f"anthropic-ratelimit-{kind.noun}-{name}": value for name, value in values.items()}
    values = {"limit": str(status.limit), "remaining": str(status.remaining), "reset": duration(status.reset_seconds)}
    return headers | {f"x-ratelimit-{name}-{kind.noun}": value for name, value in values.items()}


def _in_words(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} second{'' if seconds == 1 else 's'}"
    minutes = round(seconds / 60)
    return f"{minutes} minutes" if minutes < 120 else f"{minutes // 60} hours and {minutes % 60} minutes"
