"""Gemini's finish reasons -> the conversation's finish reasons, or a failure, and a note for the user.

A response that the provider's filter stopped is a response. One that could not be read, or that the provider gave up,
is a failure, so that another attempt may take over. An unknown reason is a failure, too: its meaning for the content is
unknown.

Source: FinishReason and BlockedReason of the generateContent references of AI Studio (v1beta) and Vertex AI (v1).
"""

from __future__ import annotations

from extproc.apis.shared.provider_errors import readable
from extproc.conversation.model import FinishReason
from extproc.errors import Failure
from extproc.profiles.gemini import GeminiEndpoint

FINISH_REASONS: dict[str, FinishReason] = {
    "STOP": "stop",  # also with calls
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",  # the model has more to say
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "LANGUAGE": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "IMAGE_OTHER": "content_filter",
}

FAILED_REASONS: dict[str, str] = {
    "MALFORMED_FUNCTION_CALL": "the model wrote a tool call that cannot be read",
    "UNEXPECTED_TOOL_CALL": "the model called a tool that was not offered",
    "TOO_MANY_TOOL_CALLS": "the model called too many tools in a row",
    "MISSING_THOUGHT_SIGNATURE": "a tool call of the conversation lacks its thought signature",
    "MALFORMED_RESPONSE": "the model wrote a response that cannot be read",
    "NO_IMAGE": "the model was to make an image and made none",
    "OTHER": "for a reason that the provider does not name",
}
"""Reasons that mean that the response is not complete, with their explanation."""

CALL_REASONS = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"})
"""Failures in which the model's call may still be present, as a part or as text."""
UNEXPECTED = "UNEXPECTED_TOOL_CALL"

_NOT_YET = "FINISH_REASON_UNSPECIFIED"

BLOCKED_PROMPT = "The provider blocked this prompt"
_STOPPED_RESPONSE = "The provider stopped this response"
_MAX_MESSAGE = 500


def reason_name(reason: object, endpoint: GeminiEndpoint) -> str:
    """The name of a finish reason. Some proxies write its number in the enum of the protocol buffers."""
    if isinstance(reason, str) and not reason.isdecimal():
        return reason.upper()
    number = int(reason) if isinstance(reason, (int, float, str)) and str(reason).replace(".0", "").isdecimal() else -1
    names = endpoint.finish_reasons
    return names[number] if 0 <= number < len(names) and not isinstance(reason, bool) else str(reason)


def decode_finish(word: str, message: object) -> tuple[FinishReason | Failure | None, str | None]:
    """The finish reason or failure of a candidate, by the name of its reason, and a note for a response that a filter
    left empty. (None, None): the candidate is not finished."""
    if word == _NOT_YET:
        return None, None
    known = FINISH_REASONS.get(word)
    if known is None:
        why = FAILED_REASONS.get(word, "for a reason that this gateway does not know")
        text = f"Gemini did not finish its response: {word[:64]} ({why}).{_provider_message(message)}"
        return Failure("server", text), None
    return known, bracketed_note(_STOPPED_RESPONSE, word, message) if known == "content_filter" else None


def bracketed_note(what: str, reason: object, message: object) -> str:
    """One line in brackets, because the gateway says it and not the model."""
    return f"[{what}: {str(reason)[:64]}.{_provider_message(message)}]"


def _provider_message(message: object) -> str:
    if not isinstance(message, str) or not message.strip():
        return ""
    text = " ".join(readable(message).split())
    return " " + (text if len(text) <= _MAX_MESSAGE else text[:_MAX_MESSAGE - 3] + "...")
