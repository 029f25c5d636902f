"""The sources of a response -> a short list at the end of its text.

For clients whose API has no field for sources. Called by the response decoders of providers that search, which decide
whether a list may be appended. Positions in the text are not carried.
"""

from __future__ import annotations

MOST = 50
"""The most sources in a list. If there are more, the list ends with the number of omitted ones."""
_LONGEST_TITLE = 300
_LONGEST_URI = 2048


class SourceList:
    """The sources of one response, each once, in order of arrival."""

    def __init__(self) -> None:
        self._titles: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._titles)

    def add(self, uri: object, title: object) -> bool:
        """Returns False if this is not a source. A later title replaces a missing one."""
        if not isinstance(uri, str) or not uri or len(uri) > _LONGEST_URI:
            return False
        uri = uri.replace(" ", "%20").replace("\n", "%0A").replace(")", "%29")
        words = " ".join(title.split())[:_LONGEST_TITLE] if isinstance(title, str) else ""
        words = words.replace("[", "(").replace("]", ")")
        if not self._titles.get(uri):
            self._titles[uri] = words
        return True

    def text(self, *, numbered: bool = False) -> str:
        """`Sources:` and one line for each, as a list in Markdown. `numbered`: the text refers to them as `[1]`."""
        lines = ["Sources:"]
        for number, (uri, title) in enumerate(list(self._titles.items())[:MOST], 1):
            lines.append(f"{f'{number}.' if numbered else '-'} {f'[{title}]({uri})' if title else uri}")
        if len(self._titles) > MOST:
            lines.append(f"- and {len(self._titles) - MOST} more")
        return "\n".join(lines)
