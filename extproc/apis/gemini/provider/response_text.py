"""Contents of a response that no client API has a place for, as text.

Code that the provider ran and its output become fenced text. Media, which no response can carry, become a note. The
sources of grounding (Google Search, URL context) become a list at the end (`extproc.apis.shared.sources`); offsets into
the text and the search widget are not carried. Called by the response decoder, which names what is lost.

Sources: ExecutableCode, CodeExecutionResult, Blob, FileData, GroundingMetadata and UrlContextMetadata of the
generateContent reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from extproc.apis.shared.sources import SourceList

_BACKTICKS = re.compile(r"`{3,}")
_OUTCOMES = {"OUTCOME_FAILED": "The code failed:", "OUTCOME_DEADLINE_EXCEEDED": "The code ran out of time:"}
_MEDIA_KINDS = ("image", "audio", "video")


def code_text(code: object) -> str:
    """The code that the provider ran, in a fence; "" for none."""
    language = _text_field(code, "language").lower().removeprefix("language_unspecified")
    source = _text_field(code, "code")
    return _fenced(language, source) if source.strip() else ""


def result_text(result: object) -> str:
    """The output of the code, in a fence, with a line that says so if it failed; "" for none."""
    outcome = _OUTCOMES.get(_text_field(result, "outcome"))
    output = _text_field(result, "output")
    fenced = [_fenced("output", output)] if output.strip() else []
    return "\n".join(fenced if outcome is None else [outcome if fenced else outcome.replace(":", "."), *fenced])


def file_note(data: object) -> tuple[str, str]:
    """The kind of media in a part ("image", "audio", "video" or "document"), and a note for the user."""
    media_type = re.sub(r"[^\w.+/;= -]", "", _text_field(data, "mimeType"))[:80]
    kind = next((kind for kind in _MEDIA_KINDS if media_type.startswith(kind)), "document")
    uri = _text_field(data, "fileUri")
    address = f" at {uri[:1000]}" if uri else ""
    return kind, f"[{kind}{f' ({media_type})' if media_type else ''}{address}: cannot be shown by this API]"


def _fenced(label: str, text: str) -> str:
    """The text in a fence longer than any inside it."""
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{label}\n{text}{end}{fence}"


def _text_field(value: object, name: str) -> str:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


# ------------------------------------------------------------------------------------------------------------ sources

_SOURCE_KINDS = ("web", "retrievedContext", "maps", "image")
"""Kinds of a grounding chunk, each an object with `uri` and `title`."""


class GroundingSources(SourceList):
    """The sources of one response."""

    def add_grounding(self, metadata: msgspec.Raw) -> None:
        """Adds the sources of a `groundingMetadata`. Several chunks may carry one, each longer than the last."""
        for chunk in _objects(_decode_object(metadata).get("groundingChunks")):
            for kind in _SOURCE_KINDS:
                source = chunk.get(kind)
                if isinstance(source, dict):
                    self.add(source.get("uri") or source.get("sourceUri"), source.get("title") or source.get("domain"))

    def add_url_context(self, metadata: msgspec.Raw) -> None:
        """Adds the pages that the model has read."""
        for page in _objects(_decode_object(metadata).get("urlMetadata")):
            if page.get("urlRetrievalStatus") in (None, "URL_RETRIEVAL_STATUS_SUCCESS"):
                self.add(page.get("retrievedUrl"), None)


def _decode_object(metadata: msgspec.Raw) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(metadata)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> Iterator[dict[str, Any]]:
    yield from (item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()
