"""The configuration of envoyproxy/ratelimit -> the limits that it holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from extproc.config import LimitKey
from extproc.ratelimit.kinds import DOMAIN, LIMIT, LIMIT_KINDS, RULE, TEAM


def service_numbers(file: dict[str, Any]) -> dict[LimitKey, int]:
    """All limits of the file. Fails on what is not one of ours, or says another unit than its kind."""
    assert file.keys() == {"domain", "descriptors"}
    assert file["domain"] == DOMAIN
    return dict(_limits(file["descriptors"], ()))


def _limits(descriptors: list[dict[str, Any]], way: tuple[tuple[str, str], ...]) -> Iterator[tuple[LimitKey, int]]:
    for descriptor in descriptors:
        assert descriptor.keys() <= {"key", "value", "descriptors", "rate_limit"}
        here = (*way, (descriptor["key"], descriptor["value"]))
        yield from _limits(descriptor.get("descriptors", []), here)
        if (limit := descriptor.get("rate_limit")) is not None:
            entries = dict(here)
            assert entries.keys() <= {TEAM, RULE, LIMIT}
            assert limit.keys() <= {"name", "unit", "requests_per_unit"}
            assert limit["unit"] == LIMIT_KINDS[entries[LIMIT]].unit
            yield LimitKey(entries[TEAM], entries.get(RULE, ""), entries[LIMIT]), limit["requests_per_unit"]
