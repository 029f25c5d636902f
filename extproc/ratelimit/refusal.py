"""A limit that refuses a request -> response headers for the client: one sentence, and the fields of its API.

The sentence has a header of its own, from which Envoy's local reply mapper makes the body in the client's error shape
(`extproc.envoy_config.local_replies`), because the rate limit service never sees the request.
The format of the fields is the API's own (`extproc.apis.shared.rate_limits`).
"""

from __future__ import annotations

from datetime import UTC, datetime

from extproc.apis import CLIENT_APIS, FALLBACK_CLIENT_API
from extproc.headers import LIMIT_MESSAGE_HEADER
from extproc.ratelimit.counters import LimitStatus
from extproc.ratelimit.kinds import LIMIT_KINDS


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
    formats = CLIENT_APIS.get(api, FALLBACK_CLIENT_API).rate_limits
    return headers | formats.refusal_headers(kind.noun, status.limit, status.remaining, status.reset_seconds,
                                             datetime.fromtimestamp(now, UTC))


def _in_words(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} second{'' if seconds == 1 else 's'}"
    minutes = round(seconds / 60)
    return f"{minutes} minutes" if minutes < 120 else f"{minutes // 60} hours and {minutes % 60} minutes"
