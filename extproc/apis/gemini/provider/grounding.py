"""What an answer says about its sources (Google Search, URL context) -> a short list in words.

Client APIs have no common place for grounding, so the sources go to the end of the text
(`extproc.apis.shared.sources`). Called by the answer decoder. Offsets into the text and the search widget are not
carried.

Source: GroundingMetadata and UrlContextMetadata of the generateContent reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from extproc.apis.shared.sources import SourceList

_KINDS = ("web", "retrievedContext", "maps", "image")
"""Kinds of a grounding chunk, each an object with `uri` and `title`."""


class Sources(SourceList):
    """The sources of one answer."""

    def grounding(self, metadata: msgspec.Raw) -> None:
        """Takes a `groundingMetadata`; they may come in several chunks, and grow."""
        for chunk in _objects(_decoded(metadata).get("groundingChunks")):
            for kind in _KINDS:
                source = chunk.get(kind)
                if isinstance(source, dict):
                    self.add(source.get("uri") or source.get("sourceUri"), source.get("title") or source.get("domain"))

    def url_context(self, metadata: msgspec.Raw) -> None:
        """Takes a `urlContextMetadata`: the pages that the model has read."""
        for page in _objects(_decoded(metadata).get("urlMetadata")):
            if page.get("urlRetrievalStatus") in (None, "URL_RETRIEVAL_STATUS_SUCCESS"):
                self.add(page.get("retrievedUrl"), None)


def _decoded(metadata: msgspec.Raw) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(metadata)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> Iterator[dict[str, Any]]:
    yield from (item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()
