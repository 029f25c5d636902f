"""Same API on both sides: bytes pass, and only what must change is changed.

`Translation` asks `SAME_APIS` when client and provider speak one API. A relay has two halves: `patched` makes the
provider's request of the client's own body (or says that it must be written anew), and the reader and the encoder of
the answer hand its events on. What is changed: the model's name, limits, ids that carry signatures, thinking that the
provider never signed; what is read: usage, the end, errors. A broken stream ends in an error here as everywhere.

Beside each relay stand its request (what fits as it is, what changes), its history (what past turns of other providers
left behind) and its answer.
"""

from __future__ import annotations

from extproc.relays.anthropic import AnthropicRelay
from extproc.relays.base import Patched, Relay
from extproc.relays.openai import OpenAIRelay

__all__ = ["SAME_APIS", "Patched", "Relay"]

SAME_APIS: dict[str, Relay] = {"anthropic": AnthropicRelay(), "openai": OpenAIRelay()}
"""By the name of the API."""
