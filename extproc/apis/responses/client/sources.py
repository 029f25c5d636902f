"""Sources of a response (`Citations`) -> annotations of its text, each a `url_citation`.

Providers send annotations with the span of text that a source supports, or lists beside the text: URLs that `[1]` in
the text refers to, and search results with titles. Other kinds of annotations have no counterpart here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from extproc.conversation.model import Citations

Annotation = dict[str, object]

_MOST = 1000
"""The most annotations of one response."""
_MARK = re.compile(r"\[([1-9][0-9]{0,3})\]")


def url_citations(cited: Citations, text: str) -> list[Annotation]:
    """The annotations of a part with this text. A source without a place in it supports all of it."""
    found = [_annotation(page.get("url"), page.get("title"), _span(page, text))
             for page in map(_page, cited.annotations) if _is_url(page.get("url"))]
    return (found or _of_lists(cited.extra, text))[:_MOST]


def _page(raw: msgspec.Raw) -> Mapping[str, object]:
    """The members of an annotation: nested as in Chat Completions, or flat."""
    annotation = _decoded(raw)
    if not isinstance(annotation, dict):
        return {}
    nested = annotation.get("url_citation")
    return nested if isinstance(nested, dict) else annotation


def _span(page: Mapping[str, object], text: str) -> tuple[int, int]:
    start, end = page.get("start_index"), page.get("end_index")
    if type(start) is int and type(end) is int and 0 <= start <= end:
        return start, end
    return 0, len(text)


def _of_lists(lists: Mapping[str, msgspec.Raw], text: str) -> list[Annotation]:
    """One annotation for each source: at its first mark in the text, if it has one."""
    results = [result for result in _list(lists.get("search_results")) if isinstance(result, dict)]
    titles = {result["url"]: result.get("title") for result in results if _is_url(result.get("url"))}
    urls = _list(lists.get("citations")) or list(titles)
    marks: dict[int, tuple[int, int]] = {}
    for mark in _MARK.finditer(text):
        marks.setdefault(int(mark[1]), mark.span())
    return [_annotation(url, titles.get(url), marks.get(number, (0, len(text))))
            for number, url in enumerate(urls, 1) if isinstance(url, str) and url]


def _annotation(url: object, title: object, span: tuple[int, int]) -> Annotation:
    return {"type": "url_citation", "start_index": span[0], "end_index": span[1], "url": url,
            "title": title if isinstance(title, str) else ""}


def _is_url(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _list(raw: msgspec.Raw | None) -> list[object]:
    value = None if raw is None else _decoded(raw)
    return value if isinstance(value, list) else []


def _decoded(raw: msgspec.Raw) -> object:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
