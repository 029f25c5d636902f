"""The sources that a Chat Completions response cites -> `Citations`, or a list as text.

Models with search send them in `annotations` of the message or of deltas (OpenAI, OpenRouter; `url_citation`, with the
span of text that a source supports), or beside the choices: `citations`, a list of URLs that `[1]` in the text refers
to (Perplexity, xAI), and `search_results` with titles (Perplexity, in every chunk). Called by the response decoder.

Sources: platform.openai.com/docs (Web search), openrouter.ai/docs (Web search), docs.perplexity.ai (Chat Completions),
docs.x.ai (Live Search).
"""

from __future__ import annotations

import msgspec

from extproc.apis.shared.sources import SourceList
from extproc.conversation.model import Citations

_MOST = 1000
"""The most annotations kept per response, and the most characters of JSON of all of them together."""
_MOST_SIZE = 16_000_000

_encode = msgspec.json.Encoder().encode


class CitationCollector:
    """The sources of one response. A repeated annotation counts once; of a growing list the last version counts."""

    def __init__(self) -> None:
        self._annotations: dict[bytes, dict[str, object]] = {}
        self._size = 0
        self._lists: dict[str, list[object]] = {}
        self.lost = False
        """Something that is no annotation was received, or more than is kept."""

    def __bool__(self) -> bool:
        return bool(self._annotations or self._lists)

    def annotations(self, value: object) -> None:
        """Reads the `annotations` of a message or a delta."""
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, dict):
                self.lost = True
                continue
            text = _encode(item)
            if text in self._annotations:
                continue
            self._size += len(text)
            if len(self._annotations) >= _MOST or self._size > _MOST_SIZE:
                self.lost = True
                return
            self._annotations[text] = item

    def lists(self, citations: object, search_results: object) -> None:
        """Reads the lists beside the choices."""
        for name, value in (("citations", citations), ("search_results", search_results)):
            if isinstance(value, list):
                if value:
                    self._lists[name] = value
            elif value:
                self.lost = True

    def event(self) -> Citations:
        """All sources unchanged, for a client with a field for them."""
        return Citations([msgspec.Raw(text) for text in self._annotations],
                         {name: msgspec.Raw(_encode(value)) for name, value in self._lists.items()})

    def text(self) -> str:
        """The sources as text, for all other clients; "" if none is a page. Others set `lost`."""
        pages = SourceList()
        urls = list(self._lists.get("citations", ()))
        for url in urls:
            self._lost_unless(pages.add(url, None))
        for result in self._lists.get("search_results", ()):
            page = result if isinstance(result, dict) else {}
            self._lost_unless(pages.add(page.get("url"), page.get("title")))
        for annotation in self._annotations.values():
            cited = annotation.get("url_citation")
            page = cited if isinstance(cited, dict) else annotation  # flat, as in the Responses API
            self._lost_unless(pages.add(page.get("url"), page.get("title")))
        # The list has the numbers of the text only if no page is repeated.
        numbered = bool(self._lists) and len({str(url) for url in urls}) == len(urls)
        return pages.text(numbered=numbered) if pages else ""

    def _lost_unless(self, carried: bool) -> None:
        self.lost = self.lost or not carried
