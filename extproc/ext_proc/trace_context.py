"""The trace of a request: W3C Trace Context from its headers, and the headers for the provider.

Called by both exchanges. `traceparent` and `tracestate` are forwarded; `baggage` is not, since applications put any
data there. Malformed headers count as missing, as the specification requires (https://www.w3.org/TR/trace-context/).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[ -~]*)?")
_LONGEST_TRACEPARENT = 256
_TRACESTATE = re.compile(r"[\x20-\x7e\t]+")
_LONGEST_TRACESTATE = 512
"""Characters that every participant must forward. A longer value is omitted, never cut."""


def trace_id(headers: Mapping[str, str]) -> str | None:
    """32 hexadecimal digits; None for a request without a trace."""
    text = headers.get("traceparent")
    if text is None or len(text) > _LONGEST_TRACEPARENT:
        return None
    found = _TRACEPARENT.fullmatch(text)
    # Version 00 ends after its flags; later versions may have more fields.
    return None if found is None or (text.startswith("00") and found[2] is not None) else found[1]


def trace_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The trace headers for the provider; empty for a request without a trace."""
    if trace_id(headers) is None:
        return {}
    kept = {"traceparent": headers["traceparent"]}
    state = headers.get("tracestate", "")
    if len(state) <= _LONGEST_TRACESTATE and _TRACESTATE.fullmatch(state):
        kept["tracestate"] = state
    return kept
