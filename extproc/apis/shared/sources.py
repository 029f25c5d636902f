"""The pages that an answer rests on -> a short list in words.

For clients whose API has no place for them: the list goes to the end of the text. Called by the answer decoders of the
providers that search, which decide whether a list fits there. Places in the text are not carried.
"""

from __future__ import annotations

MOST = 50
"""Sources that are listed; an answer with more says how many were left out."""
_LONGEST_TITLE = 300
_LONGEST_URI = 2048


class SourceList:
    """The sources of one answer, each once, in the order in which they came."""

    def __init__(self) -> None:
        self._titles: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._titles)

    def add(self, uri: object, title: object) -> bool:
        """Returns whether it is a source. A title that comes later counts where there was none."""
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
