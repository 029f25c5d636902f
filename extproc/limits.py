"""The bounds of design rule 7. Each is a setting; past one the client gets an error that names it."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes in bytes unless a name says otherwise."""

    body: int = 64 * 1024 * 1024
    """Largest request or whole answer, after decompression."""
    replay: int = 8 * 1024 * 1024
    """Largest request that can be sent again to a further attempt; a larger one has its first attempt only. Envoy keeps
    the copy until the answer has ended: count with the size of the requests (at most this) times the answers that run
    at the same time, and twice that for a backend with several keys."""
    sse_line: int = 16 * 1024 * 1024
    """Longest line of a provider's event stream."""
    json_depth: int = 128
    """Deepest nesting of a request."""
    tools: int = 512
    """Most tools of a request, as a count."""
    prompted_tools: int = 64
    """Most tools of a request whose tools are written into the prompt, as a count."""
    tool_arguments: int = 16 * 1024 * 1024
    """Longest arguments of one tool call of a model, in characters of their JSON; a longer call ends the answer with an
    error."""
    held_back: int = 64 * 1024
    """Most text that waits for a decision (a marker, a later block)."""
