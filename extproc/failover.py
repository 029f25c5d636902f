"""Which answers of a provider send a request on to its next attempt: Envoy is told, which does it, and the records."""

from __future__ import annotations

RETRIED_STATUSES = [401, 402, 403, 404, 408, 429]
"""Statuses below 500 with which a provider says that another one may do better; 5xx always counts."""


def is_retried(status: int | None) -> bool:
    """Whether an attempt that ends with this status is followed by the next one, where there is one."""
    return status is not None and (status >= 500 or status in RETRIED_STATUSES)
