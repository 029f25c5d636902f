"""What an answer says about its sources (Google Search, URL context) -> a short list in words.

Client APIs have no common place for grounding, so the sources go to the end of the text. Called by the answer decoder,
which decides whether a list fits there. Offsets into the text and the search widget are not carried.

Source: GroundingMetadata and UrlContextMetadata of the generateContent reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

_MOST = 50
"""Sources that are listed; an answer with more says how many were left out."""
_LONGEST_TITLE = 300
_LONGEST_URI = 2048

_KINDS = ("web", "retrievedContext", "maps", "image")
"""Kinds of a grounding chunk, each an object with `uri` and `title`."""


class Sources:
    """The sources of one answer, each once, in the order in which they came."""

    def __init__(self) -> None:
        self._titles: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._titles)

    def grounding(self, metadata: msgspec.Raw) -> None:
        """Takes a `groundingMetadata`; they may come in several chunks, and grow."""
        for chunk in _objects(_decoded(metadata).get("groundingChunks")):
            for kind in _KINDS:
                source = chunk.get(kind)
                if isinstance(source, dict):
                    self._add(source.get("uri") or source.get("sourceUri"), source.get("title") or source.get("domain"))

    def url_context(self, metadata: msgspec.Raw) -> None:
        """Takes a `urlContextMetadata`: the pages that the model has read."""
        for page in _objects(_decoded(metadata).get("urlMetadata")):
            if page.get("urlRetrievalStatus") in (None, "URL_RETRIEVAL_STATUS_SUCCESS"):
                self._add(page.get("retrievedUrl"), None)

    def text(self) -> str:
        """`Sources:` and one line for each, as a list in Markdown."""
        lines = [f"- [{title}]({uri})" if title else f"- {uri}" for uri, title in list(self._titles.items())[:_MOST]]
        if len(self._titles) > _MOST:
            lines.append(f"- and {len(self._titles) - _MOST} more")
        return "\n".join(["Sources:", *lines])

    def _add(self, uri: object, title: object) -> None:
        if not isinstance(uri, str) or not uri or len(uri) > _LONGEST_URI:
            return
        uri = uri.replace(" ", "%20").replace("\n", "%0A").replace(")", "%29")
        words = " ".join(title.split())[:_LONGEST_TITLE] if isinstance(title, str) else ""
        words = words.replace("[", "(").replace("]", ")")
        if not self._titles.get(uri):
            self._titles[uri] = words


def _decoded(metadata: msgspec.Raw) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(metadata)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> Iterator[dict[str, Any]]:
    yield from (item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()
