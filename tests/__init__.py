"""The tests. Envoy's message types are loaded here as the program loads them, whichever test asks for them first."""

from __future__ import annotations

from extproc.envoy_config import plain_messages

plain_messages.install()
