"""What a provider says, as a function of a seed and of the backend's name: text, calls, tokens.

The provider tells it, the client compares what it received with it. Two backends never tell the same story, so an
answer that was put together from two attempts is found out.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

WORDS = ("stream", "café", "naïve", "東京", "🙂", "👩‍🚀", "\"quoted\"", "back\\slash", "tab\t", "new\nline", "{brace}",
         "data: x", "</b>", "a&b", "\u2028", "ß", "0", "null", "событие", "e\u0301")
TOOLS: list[dict[str, Any]] = [
    {"name": name, "description": f"Does {name}.", "parameters": {
        "type": "object", "required": ["query"], "properties": {
            "query": {"type": "string"}, "count": {"type": "integer"}, "deep": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}}}}}
    for name in ("lookup", "write_note")]
LONGEST = 60
"""Pieces of a long text."""


@dataclass
class Story:
    """One answer. `pieces` make up its text, each counts as a token, as each call counts for `CALL_TOKENS`."""

    pieces: list[str]
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    input: int = 0

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def output(self) -> int:
        """Tokens of the whole answer."""
        return len(self.pieces) + CALL_TOKENS * len(self.calls)


CALL_TOKENS = 9


def story(seed: int, backend: str, *, calls: int = 0, filler: int = 0) -> Story:
    """The answer of this backend to this request, of whose prompt `filler` says the size; it ends with `calls` tool
    calls."""
    draw = random.Random(f"{seed}/{backend}")
    pieces = [f"[{seed}/{backend}]"]
    for _ in range(draw.choice((3, 8, 20, LONGEST))):
        pieces.append(" ".join(draw.choices(WORDS, k=draw.randint(1, 4))) + " ")
    made = [(TOOLS[draw.randrange(len(TOOLS))]["name"], {
        "query": " ".join(draw.choices(WORDS, k=6)), "count": draw.randint(-5, 10**12), "deep": draw.random() < 0.5,
        "tags": draw.choices(WORDS, k=draw.randint(0, 4))}) for _ in range(calls)]
    return Story(pieces, made, 90 + filler + draw.randint(0, 20))
