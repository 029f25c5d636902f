"""Names of HTTP headers in lower case, as everything here asks for them.

Called by whoever takes headers from outside: `Translation` and the client APIs. Changes no value.
"""

from __future__ import annotations

from collections.abc import Mapping


def in_lower_case(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers by names in lower case: these themselves where all names are, as HTTP/2 has them."""
    names = "".join(headers)  # one look at all of them, instead of one at each
    if names.lower() == names:
        return headers
    return {name.lower(): value for name, value in headers.items()}
