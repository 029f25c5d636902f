"""The safety settings of Gemini's API: which categories and thresholds there are.

Called by the checks of a configuration. What they mean is the provider's affair; they travel as they are.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence

from extproc.config.records import Problem

CATEGORIES = tuple(f"HARM_CATEGORY_{name}" for name in (
    "HARASSMENT", "HATE_SPEECH", "SEXUALLY_EXPLICIT", "DANGEROUS_CONTENT", "CIVIC_INTEGRITY",
    # Vertex only.
    "JAILBREAK", "IMAGE_HATE", "IMAGE_DANGEROUS_CONTENT", "IMAGE_HARASSMENT", "IMAGE_SEXUALLY_EXPLICIT"))
"""The enum HarmCategory of generateContent, without UNSPECIFIED, which is refused."""
THRESHOLDS = ("OFF", "BLOCK_NONE", "BLOCK_ONLY_HIGH", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_LOW_AND_ABOVE")
"""The enum HarmBlockThreshold, without UNSPECIFIED (leave the category out for that)."""


def safety_problems(path: str, safety: Mapping[str, str], api: str | None) -> Iterator[Problem]:
    """What is wrong with a `safety` mapping for a backend of this API (None: not known)."""
    if safety and api not in ("gemini", None):
        yield path, f"is for backends with api: gemini, this one has api: {api}"
    for category, threshold in safety.items():
        if category not in CATEGORIES:
            yield f"{path}.{category}", f"no such category{_meant(category, CATEGORIES)}"
        elif threshold is not None and threshold not in THRESHOLDS:
            yield f"{path}.{category}", f'no threshold "{threshold[:40]}"{_meant(threshold, THRESHOLDS)}'


def _meant(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word.upper(), known, n=1, cutoff=0.6)
    return f', did you mean "{near[0]}"?' if near else f"; known: {', '.join(known)}"
