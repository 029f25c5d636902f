"""Google's errors: the `details` of google.rpc -> facts, and the kind of error that reasons and messages imply.

Called by `provider_errors` for every error, since Google's errors also arrive through its OpenAI-compatible endpoint
and through proxies. Only errors with Google's reasons or wording are changed; others keep the meaning of their status.

Sources: google.rpc error_details.proto (RetryInfo, ErrorInfo, BadRequest); the reasons of google.api ErrorReason;
messages as AI Studio and Vertex AI send them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from extproc.errors import FailureKind

_LONGEST_WAIT = 30 * 86_400
"""Seconds. Longer delays are ignored."""
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_RETRY_IN = re.compile(r"(?:re)?try (?:again )?in ((?:\d+(?:\.\d+)?(?:h|ms|m|s))+)", re.IGNORECASE)


class Details(msgspec.Struct):
    """`retry_after`: whole seconds. `reasons`: the machine-readable words. `violations`: (field, description)."""

    retry_after: int | None = None
    reasons: list[str] = []
    violations: list[tuple[str, str]] = []


def read_details(value: object) -> Details:
    """Reads the `details` of an error object, in any form."""
    found = Details()
    for detail in _objects(value):
        kind = str(detail.get("@type", "")).rpartition("/")[2].rpartition(".")[2]
        if kind == "RetryInfo":
            found.retry_after = found.retry_after or seconds(detail.get("retryDelay"))
        elif kind == "BadRequest":
            found.violations += _violations(detail.get("fieldViolations"))
        reason = detail.get("reason")
        if isinstance(reason, str) and reason:
            found.reasons.append(reason[:100])
    return found


def seconds(duration: object) -> int | None:
    """A delay in whole seconds, rounded up, so that no client retries too early: "34.07s", "1h2m", {"seconds": 34}.
    None for anything else, and for no delay."""
    if isinstance(duration, dict):
        whole, nanos = duration.get("seconds", 0), duration.get("nanos", 0)
        duration = f"{whole}s" if not nanos else f"{whole}.{nanos:09d}s" if isinstance(nanos, int) else ""
    if not isinstance(duration, str):
        return None
    found = _DURATION.fullmatch(duration.strip()[:40])
    if found is None:
        return None
    hours, minutes, secs, millis = (float(group or 0) for group in found.groups())
    wait = math.ceil(hours * 3600 + minutes * 60 + secs + millis / 1000)
    return wait if 0 < wait <= _LONGEST_WAIT else None


def delay_in_words(message: str) -> int | None:
    """The delay in a message, for errors without RetryInfo: "Please retry in 47.43s."."""
    found = _RETRY_IN.search(message)
    return seconds(found.group(1)) if found is not None else None


class Meaning(msgspec.Struct, frozen=True):
    """The kind of an error whose status is not specific. `status` None: the error keeps its own."""

    kind: FailureKind
    status: int | None = None


_BAD_KEY = Meaning("authentication", 401)
_FORBIDDEN = Meaning("permission", 403)
_UNPAID = Meaning("billing", 402)

_REASONS: dict[str, Meaning] = {
    "API_KEY_INVALID": _BAD_KEY,  # sent as 400 INVALID_ARGUMENT, as if the request were wrong; also for expired keys
    "CREDENTIALS_MISSING": _BAD_KEY,
    "ACCESS_TOKEN_EXPIRED": _BAD_KEY,
    "ACCESS_TOKEN_TYPE_UNSUPPORTED": _BAD_KEY,
    "ACCOUNT_STATE_INVALID": _BAD_KEY,
    "BILLING_DISABLED": Meaning("billing"),
    "SERVICE_DISABLED": _FORBIDDEN,
    "CONSUMER_SUSPENDED": _FORBIDDEN,
    "CONSUMER_INVALID": _FORBIDDEN,
    "API_KEY_SERVICE_BLOCKED": _FORBIDDEN,
    "API_KEY_HTTP_REFERRER_BLOCKED": _FORBIDDEN,
    "API_KEY_IP_ADDRESS_BLOCKED": _FORBIDDEN,
    "ACCESS_TOKEN_SCOPE_INSUFFICIENT": _FORBIDDEN,
    "IAM_PERMISSION_DENIED": _FORBIDDEN,
}

_WORDS = tuple((re.compile(words, re.IGNORECASE), means) for words, means in (
    (r"API key (?:not valid|not found|expired)|API key was reported as leaked", _BAD_KEY),
    (r"doesn't allow unregistered callers", _BAD_KEY),  # 403: the request had no key
    (r"User location is not supported for the API use", _FORBIDDEN),  # 400 FAILED_PRECONDITION
    (r"free tier is not available in your country", _UNPAID),  # 400 FAILED_PRECONDITION
    (r"prepayment credits are depleted|monthly spending cap", _UNPAID),  # 429 RESOURCE_EXHAUSTED
    # 429 RESOURCE_EXHAUSTED: this model is not part of the plan, waiting does not help whatever the delay says
    (r"Quota exceeded for (?:quota )?metric\b[^\n]*\blimit: 0(?![\d.,]*\d)", _UNPAID),
    (r"Request payload size exceeds the limit", Meaning("too_large", 413)),
))


def find_meaning(message: str, reasons: Iterable[str]) -> Meaning | None:
    """The meaning of an error; None if its status has it."""
    for reason in reasons:
        if reason in _REASONS:
            return _REASONS[reason]
    return next((found for words, found in _WORDS if words.search(message)), None)


def _violations(value: object) -> list[tuple[str, str]]:
    out = []
    for violation in _objects(value)[:5]:
        field, description = violation.get("field"), violation.get("description")
        if isinstance(description, str) and description:
            out.append((field if isinstance(field, str) else "", description))
    return out


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value[:50] if isinstance(item, dict)] if isinstance(value, list) else []
