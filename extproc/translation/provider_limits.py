"""A provider's rate-limit headers in the words of the client's API.

OpenAI tells `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` with the time to the reset as a duration (`6m0s`),
Anthropic `anthropic-ratelimit-{requests,tokens}-{limit,remaining,reset}` with a time of day (RFC 3339). Between the two
stands the answer's own `date` header: the core reads no clock. Called for every response head. What cannot be said in
the other words is left out; the provider's own headers stay beside the translated ones.
Sources: the API references of both; OpenRouter's limits come without a unit and count requests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

_UNITS = ("requests", "tokens")
_FIELDS = ("limit", "remaining", "reset")
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_MOST_SECONDS = 366 * 86400


def are_told(headers: Mapping[str, str]) -> bool:
    """Whether any header tells of limits. Asked of every head: their names are looked through at once."""
    return "ratelimit" in "\n".join(headers)


def translated(headers: Mapping[str, str], client: str) -> dict[str, str]:
    """The headers that a client of the API `client` knows, made from those of the other API in `headers` (lower-case
    names). Never one that the provider sent itself."""
    out: dict[str, str] = {}
    if not are_told(headers):
        return out
    for unit in _UNITS:
        for field in _FIELDS:
            value = _value(headers, unit, field, to_anthropic=client == "anthropic")
            name = (f"anthropic-ratelimit-{unit}-{field}" if client == "anthropic" else f"x-ratelimit-{field}-{unit}")
            if value is not None and name not in headers:
                out[name] = value
    return out


def _value(headers: Mapping[str, str], unit: str, field: str, *, to_anthropic: bool) -> str | None:
    if to_anthropic:
        value = headers.get(f"x-ratelimit-{field}-{unit}")
        if value is None and unit == "requests":
            value = headers.get(f"x-ratelimit-{field}")
        if value is None or field != "reset":
            return _number(value)
        return _time_of_day(value, headers)
    value = headers.get(f"anthropic-ratelimit-{unit}-{field}")
    return _number(value) if value is None or field != "reset" else _duration(value, headers)


def _number(value: str | None) -> str | None:
    return value.strip() if value is not None and re.fullmatch(r"\s*-?\d{1,18}(\.\d{1,6})?\s*", value) else None


def _time_of_day(value: str, headers: Mapping[str, str]) -> str | None:
    seconds = _seconds(value.strip(), headers)
    now = _date(headers)
    if seconds is None or now is None:
        return None
    return (now + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(value: str, headers: Mapping[str, str]) -> float | None:
    """Seconds from now: of a duration, of a plain number of seconds, or of a time since 1970 in seconds or
    milliseconds."""
    if re.fullmatch(r"\d{1,15}(\.\d{1,6})?", value):
        number = float(value)
        if number < _MOST_SECONDS:
            return number
        now = _date(headers)
        if now is None:
            return None
        seconds = (number / 1000 if number > 1e11 else number) - now.timestamp()
        return seconds if 0 <= seconds < _MOST_SECONDS else None
    found = _DURATION.fullmatch(value)
    if found is None or not any(found.groups()):
        return None
    days, hours, minutes, rest, thousandths = (float(part or 0) for part in found.groups())
    total = days * 86400 + hours * 3600 + minutes * 60 + rest + thousandths / 1000
    return total if total < _MOST_SECONDS else None


def _duration(value: str, headers: Mapping[str, str]) -> str | None:
    now = _date(headers)
    try:
        reset = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    if now is None or reset.tzinfo is None:
        return None
    return duration(max(0, round((reset - now).total_seconds())))


def duration(seconds: int) -> str:
    """`1h2m3s`, as OpenAI writes durations."""
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{seconds}s"


def _date(headers: Mapping[str, str]) -> datetime | None:
    try:
        return parsedate_to_datetime(headers.get("date", "")).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
