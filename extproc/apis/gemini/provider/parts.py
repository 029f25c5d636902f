"""Parts of an answer that no client API has a place for -> words.

Code that the provider ran and its output become fenced text; of media, which no answer can carry, a note remains.
Called by the answer decoder, which names what is lost.

Source: ExecutableCode, CodeExecutionResult, Blob and FileData of the generateContent reference.
"""

from __future__ import annotations

import re

_BACKTICKS = re.compile(r"`{3,}")
_OUTCOMES = {"OUTCOME_FAILED": "The code failed:", "OUTCOME_DEADLINE_EXCEEDED": "The code ran out of time:"}
_KINDS = ("image", "audio", "video")


def code_text(code: object) -> str:
    """The code that the model had run, in a fence; "" for none."""
    language = _field(code, "language").lower().removeprefix("language_unspecified")
    source = _field(code, "code")
    return _fenced(language, source) if source.strip() else ""


def result_text(result: object) -> str:
    """What the code printed, in a fence, with a line about it where it failed; "" for nothing."""
    outcome = _OUTCOMES.get(_field(result, "outcome"))
    output = _field(result, "output")
    fenced = [_fenced("output", output)] if output.strip() else []
    return "\n".join(fenced if outcome is None else [outcome if fenced else outcome.replace(":", "."), *fenced])


def file_note(data: object) -> tuple[str, str]:
    """The kind of media in a part ("image", "audio", "video" or "document"), and what tells the user that they were
    there."""
    media_type = re.sub(r"[^\w.+/;= -]", "", _field(data, "mimeType"))[:80]
    kind = next((kind for kind in _KINDS if media_type.startswith(kind)), "document")
    uri = _field(data, "fileUri")
    shown = f" at {uri[:1000]}" if uri else ""
    return kind, f"[{kind}{f' ({media_type})' if media_type else ''}{shown}: cannot be shown by this API]"


def _fenced(info: str, text: str) -> str:
    """A fence longer than any in the text."""
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{info}\n{text}{end}{fence}"


def _field(value: object, name: str) -> str:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""
