"""The trace that a request belongs to: W3C Trace Context out of a request's headers, and what of it goes on.

Called by both exchanges. `traceparent` and `tracestate` are the whole of it; `baggage` is never passed on, since it
holds whatever an application put there. What is not well formed counts as missing, as the specification says
(https://www.w3.org/TR/trace-context/).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[ -~]*)?")
_LONGEST_TRACEPARENT = 256
_TRACESTATE = re.compile(r"[\x20-\x7e\t]+")
_LONGEST_TRACESTATE = 512
"""Characters that everybody on the way must take; a longer one is left out whole, never cut."""


def trace_id(headers: Mapping[str, str]) -> str | None:
    """32 hexadecimal digits; None for a request without a trace."""
    text = headers.get("traceparent")
    if text is None or len(text) > _LONGEST_TRACEPARENT:
        return None
    found = _TRACEPARENT.fullmatch(text)
    # Version 00 ends after its flags; later ones may go on.
    return None if found is None or (text.startswith("00") and found[2] is not None) else found[1]


def trace_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that tell the next one in the chain; empty for a request without a trace."""
    if trace_id(headers) is None:
        return {}
    kept = {"traceparent": headers["traceparent"]}
    state = headers.get("tracestate", "")
    if len(state) <= _LONGEST_TRACESTATE and _TRACESTATE.fullmatch(state):
        kept["tracestate"] = state
    return kept
