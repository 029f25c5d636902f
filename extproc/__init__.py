"""An Envoy external processor that lets any LLM client talk to any LLM provider.

The public Python API is sans-IO: `Translation` is one HTTP exchange, `RequestError` a refused request. Both are
imported on first use, so that the command line starts fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from extproc.errors import RequestError
    from extproc.translation.exchange import Translation
    from extproc.translation.head import Head

__all__ = ["Head", "RequestError", "Translation"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "RequestError":
        from extproc.errors import RequestError

        return RequestError
    if name in ("Head", "Translation"):
        from extproc.translation import exchange, head

        return head.Head if name == "Head" else exchange.Translation
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
