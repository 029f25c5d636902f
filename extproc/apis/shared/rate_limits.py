"""Rate limit headers in the format of each client API: a provider's, translated, and the gateway's own.

OpenAI's are `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` with the reset as a duration (`6m0s`), Anthropic's
`anthropic-ratelimit-{requests,tokens}-{limit,remaining,reset}` with the reset as a time (RFC 3339). The response's own
`date` header relates the two: the core reads no clock. The translation runs for every response head, omits what the
other format cannot express, and keeps the provider's own headers. Sources: the API references of both; OpenRouter's
limits have no unit and count requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import msgspec

_UNITS = ("requests", "tokens")
_FIELDS = ("limit", "remaining", "reset")
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_MOST_SECONDS = 366 * 86400


class RateLimitFormat(msgspec.Struct, frozen=True):
    """The rate limit headers of one API. `{field}` and `{unit}` are placeholders in the names."""

    name: str
    has_reset_time: bool
    """The reset is a time in RFC 3339, not a duration."""
    name_without_unit: str = ""
    """Some providers send this instead; it counts requests."""

    def header(self, unit: str, field: str) -> str:
        return self.name.format(unit=unit, field=field)

    def find_value(self, headers: Mapping[str, str], unit: str, field: str) -> str | None:
        value = headers.get(self.header(unit, field))
        if value is None and unit == "requests" and self.name_without_unit:
            value = headers.get(self.name_without_unit.format(field=field))
        return value

    def parse_reset(self, value: str, now: datetime) -> float | None:
        """Seconds from `now` to the reset; None if the value says no such time."""
        if not self.has_reset_time:
            return _parse_seconds(value.strip(), now)
        try:
            reset = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
        return (reset - now).total_seconds() if reset.tzinfo is not None else None

    def format_reset(self, seconds: float, now: datetime) -> str:
        if self.has_reset_time:
            return (now + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        return _format_duration(max(0, round(seconds)))

    def refusal_headers(self, unit: str, limit: int, remaining: int, reset_seconds: int,
                        now: datetime) -> dict[str, str]:
        """The headers of a limit of the gateway itself."""
        values = {"limit": str(limit), "remaining": str(remaining), "reset": self.format_reset(reset_seconds, now)}
        return {self.header(unit, field): value for field, value in values.items()}


OPENAI_FORMAT = RateLimitFormat("x-ratelimit-{field}-{unit}", False, "x-ratelimit-{field}")
"""Also the format of most providers that no client API is named after."""


def has_rate_limits(headers: Mapping[str, str]) -> bool:
    """True if any header names a rate limit. Runs for every response head, so it searches all names at once."""
    return "ratelimit" in "\n".join(headers)


def translate_rate_limits(headers: Mapping[str, str], to: RateLimitFormat,
                          formats: Iterable[RateLimitFormat]) -> dict[str, str]:
    """The headers in the format `to`, made from those of the other `formats` in `headers` (lower-case names). Omits
    headers that the provider sent itself."""
    out: dict[str, str] = {}
    if not has_rate_limits(headers):
        return out
    now = _parse_date(headers)
    for source in formats:
        if source == to:
            continue
        for unit in _UNITS:
            for field in _FIELDS:
                name, value = to.header(unit, field), source.find_value(headers, unit, field)
                if value is not None and field == "reset":
                    seconds = None if now is None else source.parse_reset(value, now)
                    value = None if seconds is None or now is None else to.format_reset(seconds, now)
                elif value is not None:
                    value = _parse_number(value)
                if value is not None and name not in headers:
                    out.setdefault(name, value)
    return out


def _parse_number(value: str) -> str | None:
    return value.strip() if re.fullmatch(r"\s*-?\d{1,18}(\.\d{1,6})?\s*", value) else None


def _parse_seconds(value: str, now: datetime) -> float | None:
    """Seconds from now: of a duration, of a plain number of seconds, or of a time since 1970 in seconds or
    milliseconds."""
    if re.fullmatch(r"\d{1,15}(\.\d{1,6})?", value):
        number = float(value)
        if number < _MOST_SECONDS:
            return number
        seconds = (number / 1000 if number > 1e11 else number) - now.timestamp()
        return seconds if 0 <= seconds < _MOST_SECONDS else None
    found = _DURATION.fullmatch(value)
    if found is None or not any(found.groups()):
        return None
    days, hours, minutes, rest, thousandths = (float(part or 0) for part in found.groups())
    total = days * 86400 + hours * 3600 + minutes * 60 + rest + thousandths / 1000
    return total if total < _MOST_SECONDS else None


def _format_duration(seconds: int) -> str:
    """`1h2m3s`, as OpenAI writes durations."""
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{seconds}s"


def _parse_date(headers: Mapping[str, str]) -> datetime | None:
    try:
        return parsedate_to_datetime(headers.get("date", "")).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
