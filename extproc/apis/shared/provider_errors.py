"""Errors of providers, of every API and in every form, as failures of the conversation model.

`decode_error` decodes a response that is not 2xx, `failure_from_chunk` an error object inside a 200 response (in a
stream or a whole body). The result always has a status, a kind and a message for people: bounded, without markup and
stack traces. Called by the response decoders; never raises.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping

import msgspec

from extproc.apis.shared.google_errors import delay_in_words, find_meaning, read_details
from extproc.apis.shared.json_text import without_half_pairs
from extproc.apis.shared.overflow import find_overflow
from extproc.errors import Failure, FailureKind

MESSAGE_LIMIT = 2048
"""Longest message, in characters."""
_READ_LIMIT = 256 * 1024
"""Bytes of an error body that are read."""

_KINDS: dict[int, FailureKind] = {
    401: "authentication", 402: "billing", 403: "permission", 404: "not_found", 408: "timeout", 409: "conflict",
    413: "too_large", 429: "rate_limit", 503: "unavailable", 504: "timeout", 522: "timeout", 524: "timeout",
    529: "overloaded",
}
_CODES: dict[str, int] = {
    "authentication_error": 401, "invalid_api_key": 401, "unauthenticated": 401, "unauthorized": 401,
    "billing_error": 402, "insufficient_credits": 402, "payment_required": 402,
    "permission_error": 403, "permission_denied": 403, "forbidden": 403,
    "not_found": 404, "not_found_error": 404, "model_not_found": 404,
    "request_too_large": 413, "payload_too_large": 413,
    "rate_limit_error": 429, "rate_limit_exceeded": 429, "rate_limit": 429, "rate_limited": 429,
    "too_many_requests": 429, "resource_exhausted": 429, "insufficient_quota": 429,
    "invalid_request_error": 400, "invalid_request": 400, "badrequesterror": 400, "bad_request": 400,
    "invalid_argument": 400, "content_filter": 400, "content_policy_violation": 400, "tool_use_failed": 400,
    "invalid_prompt": 400, "cyber_policy": 400, "bio_policy": 400, "misalignment_policy_violation": 400,
    "data_residency_mismatch": 400, "usage_not_included": 403, "usage_limit_reached": 429, "slow_down": 429,
    "server_is_overloaded": 529, "vector_store_timeout": 504,
    "timeout": 504, "timeout_error": 504, "request_timeout": 504, "deadline_exceeded": 504,
    "unavailable": 503, "service_unavailable": 503,
    "overloaded": 529, "overloaded_error": 529, "provider_overloaded": 529, "server_overloaded": 529,
    "engine_overloaded_error": 529, "engine_overloaded": 529,
}
"""Codes and types that imply a status, for errors inside a 200 response."""

_NOT_OVERFLOW = frozenset({401, 402, 403, 408, 429, 503, 504, 529})
"""Statuses with which words about token limits mean something else, such as a quota per minute."""
_TEMPORARY: frozenset[FailureKind] = frozenset({"rate_limit", "overloaded", "unavailable", "server", "timeout"})
"""Kinds of failures that may pass: only for these the delay in a body becomes `retry-after`."""
_OVERLOADED = re.compile(r"overloaded|over capacity|at capacity|no capacity|server is busy|too busy", re.IGNORECASE)
_STACK_TRACE = re.compile(r"Traceback \(most recent call last\)|\n\s+at [\w.$<>]+\s?\(|\n\s+File \"")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]+")
_SPACE_RUNS = re.compile(r"\s+")
_TITLE = re.compile(r"<title[^>]*>(.{1,300}?)</title>", re.IGNORECASE | re.DOTALL)
_TAGS = re.compile(r"<[^>]{0,500}>")
_CUT_MESSAGE = re.compile(r'"(?:message|detail)"\s*:\s*"((?:[^"\\]|\\.){1,1000})')
_HTML_HEADS = ("<!doctype", "<html", "<head", "<body", "<?xml", "<h1", "<center")


class _Facts(msgspec.Struct):
    """The facts of an error object. `codes`: code, type and status words, the most specific first."""

    message: str = ""
    codes: list[str] = []
    status: int | None = None
    prompt_tokens: int | None = None
    context_limit: int | None = None
    reasons: list[str] = []
    """Google's machine-readable reasons."""
    retry_after: int | None = None
    """Seconds given in the body."""


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """Decodes a response that is not 2xx. An error status is kept (a redirect becomes 502), except that a context
    overflow is always 400. `headers`: names in lower case."""
    kept = status if 400 <= status <= 599 else 502
    retry_after = headers.get("retry-after")
    facts = _read(status, body)
    failure = _failure(kept, facts)
    if retry_after is not None and len(retry_after) <= 100 and failure.kind != "context_length":
        return msgspec.structs.replace(failure, retry_after=retry_after)
    return failure


def failure_from_chunk(obj: Mapping[str, object]) -> Failure:
    """Decodes an error object inside a 200 response: `{"error": ...}`, `{"object": "error", ...}` and the like. Its
    code (a number, or a word that implies one) gives the status; without one it is a server error, 502."""
    facts = _facts(obj)
    status = facts.status or next((_CODES[code.lower()] for code in facts.codes if code.lower() in _CODES), 502)
    if not facts.message:
        facts.message = "the provider broke off with an error it did not explain"
    return _failure(status, facts)


def complaint_of(payload: bytes) -> dict[str, object] | None:
    """The error object in the JSON of a body or event without content. Servers and proxies also write it without the
    key `error`, with `message`, `detail` or `errors` at the top. None if it is not an error."""
    try:
        value = json.loads(without_half_pairs(payload).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, dict):
        return None
    says = any(value.get(name) for name in ("error", "message", "detail", "errors", "error_message", "msg"))
    return value if says or value.get("object") == "error" or value.get("error") is not None else None


def _failure(status: int, facts: _Facts) -> Failure:
    message = readable(facts.message)
    code = next((code[:64] for code in facts.codes if not code.isdigit()), None) or next(iter(facts.codes), None)
    if status not in _NOT_OVERFLOW:
        overflow = find_overflow(message, next((code for code in facts.codes if find_overflow("", code)), None))
        if overflow is not None:
            return Failure(kind="context_length", message=message, status=400, code="context_length_exceeded",
                           prompt_tokens=overflow.prompt_tokens or facts.prompt_tokens,
                           context_limit=overflow.context_limit or facts.context_limit,
                           max_tokens=overflow.max_tokens)
    found = find_meaning(message, facts.reasons)
    if found is not None:
        return Failure(kind=found.kind, message=message, status=found.status or status, code=code)
    kind = _kind(status, message, facts.codes)
    wait = (facts.retry_after or delay_in_words(message)) if kind in _TEMPORARY else None
    return Failure(kind=kind, message=message, status=status, code=code,
                   retry_after=None if wait is None else str(wait))


def kind_of_status(status: int) -> FailureKind:
    """The kind of failure for an HTTP status of 400 or more."""
    return _KINDS.get(status, "invalid_request" if status < 500 else "server")


def _kind(status: int, message: str, codes: list[str]) -> FailureKind:
    kind = kind_of_status(status)
    if status >= 500 and kind != "timeout":
        says_so = any(_CODES.get(code.lower()) == 529 for code in codes)
        return "overloaded" if says_so or _OVERLOADED.search(message) else kind
    return kind


# ------------------------------------------------------------------------------------------------------------ reading


def _read(status: int, body: bytes) -> _Facts:
    """The facts of any body."""
    text = body[:_READ_LIMIT].decode("utf-8", "replace").lstrip("\ufeff").strip()
    text = text.removeprefix("data:").lstrip()  # the response to a request for a stream may have its framing
    if not text:
        return _Facts(message=f"the provider answered {status} without a message")
    if text[:20].lower().startswith(_HTML_HEADS):
        return _Facts(message=_page(status, text))
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _unparsed(status, text)
    if isinstance(value, list):
        # Google wraps the error in a list.
        value = next((item for item in value if isinstance(item, dict)), value)
    if isinstance(value, dict):
        facts = _facts(value)
    else:
        facts = _Facts(message=value if isinstance(value, str) else "")
    if not facts.message:
        facts.message = f"the provider answered {status}: {text[:500]}"
    return facts


def _page(status: int, text: str) -> str:
    """A sentence about an HTML page, with its title."""
    title = _TITLE.search(text)
    named = _SPACE_RUNS.sub(" ", html.unescape(_TAGS.sub("", title.group(1)))).strip() if title else ""
    return f"the provider answered {status} with an HTML page" + (f": {named}" if named else "")


def _unparsed(status: int, text: str) -> _Facts:
    if text[0] not in "{[":
        return _Facts(message=f"the provider answered {status}: {_TAGS.sub(' ', text)}")
    found = _CUT_MESSAGE.search(text)
    if found is None:
        return _Facts(message=f"the provider answered {status} with broken JSON")
    return _Facts(message=f"the provider answered {status} with broken JSON: {found.group(1)}")


def _facts(obj: Mapping[str, object]) -> _Facts:
    """The facts of an error object in OpenAI's form, or in one of the other forms of servers."""
    inner = obj.get("error")
    if isinstance(inner, str) and inner:
        facts = _Facts(message=inner)
    elif isinstance(inner, dict):
        facts = _from_object(inner)
    else:
        facts = _from_object(obj)
    for name in ("status_code", "code", "type", "error_type"):
        _add_code(facts, obj.get(name))
    return facts


def _from_object(error: Mapping[str, object]) -> _Facts:
    facts = _Facts()
    for name in ("code", "type", "status", "error_type"):
        _add_code(facts, error.get(name))
    texts = (text for name in ("message", "detail", "errors", "error", "error_message", "msg", "title", "reason")
             if (text := _words(error.get(name))))
    facts.message = next(texts, "")
    _add_figures(facts, error)
    metadata = error.get("metadata")
    if isinstance(metadata, dict):
        _add_metadata(facts, metadata)
    if error.get("details"):
        _add_details(facts, error["details"])
    if facts.message.lstrip()[:1] in ("{", "["):
        _unwrap(facts)
    return facts


def _add_code(facts: _Facts, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, str)) or value == "" or value == "error":
        return
    text = str(value)[:100]
    if text.isascii() and text.isdigit() and 400 <= int(text) <= 599 and facts.status is None:
        facts.status = int(text)
    if text not in facts.codes:
        facts.codes.append(text)


def _add_figures(facts: _Facts, error: Mapping[str, object]) -> None:
    """llama.cpp sends the figures of an overflow as fields."""
    prompt, limit = error.get("n_prompt_tokens"), error.get("n_ctx")
    if isinstance(prompt, int) and isinstance(limit, int):
        facts.prompt_tokens, facts.context_limit = prompt, limit


def _add_metadata(facts: _Facts, metadata: Mapping[str, object]) -> None:
    """OpenRouter's `metadata` has the error of its own provider, and the reasons of a moderation."""
    for name in ("error_type", "provider_code"):
        _add_code(facts, metadata.get(name))
    raw = metadata.get("raw")
    said = ""
    if isinstance(raw, str) and raw:
        said = _read(facts.status or 502, raw[:_READ_LIMIT].encode("utf-8", "replace")).message
    elif isinstance(raw, dict):
        said = _facts(raw).message
    provider = metadata.get("provider_name")
    if said and said != facts.message:
        facts.message = f"{facts.message} ({provider if isinstance(provider, str) else 'provider'}: {said})"
    reasons = metadata.get("reasons")
    if isinstance(reasons, list) and reasons:
        facts.message += " (" + ", ".join(str(reason) for reason in reasons[:10]) + ")"


def _add_details(facts: _Facts, value: object) -> None:
    """Google's details: the delay, the reason in one word, and the wrong fields."""
    details = read_details(value)
    facts.retry_after = details.retry_after
    facts.reasons = details.reasons
    said = [f"{field}: {complaint}" if field else complaint for field, complaint in details.violations
            if complaint not in facts.message]
    if said:
        facts.message = f"{facts.message} ({'; '.join(said)})" if facts.message else "; ".join(said)


def _unwrap(facts: _Facts) -> None:
    """If the message is the JSON of another error (relays of Google's errors), that error's facts count."""
    try:
        value = msgspec.json.decode(facts.message)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return
    if isinstance(value, list):
        value = next((item for item in value if isinstance(item, dict)), None)
    if not isinstance(value, dict):
        return
    inner = _facts(value)
    if inner.message:
        facts.message = inner.message
        facts.codes += [code for code in inner.codes if code not in facts.codes]
        facts.status = facts.status or inner.status
        facts.reasons, facts.retry_after = facts.reasons or inner.reasons, facts.retry_after or inner.retry_after


def _words(value: object, depth: int = 0) -> str:
    """Text from the value of a message field: a string, a list of errors with their places, or an object."""
    if isinstance(value, str):
        return value
    if depth > 4:
        return ""
    if isinstance(value, list):
        return "; ".join(filter(None, (_words(item, depth + 1) for item in value[:10])))
    if isinstance(value, dict):
        text = next((words for name in ("msg", "message", "detail", "error", "reason")
                     if (words := _words(value.get(name), depth + 1))), "")
        place = ".".join(_places(value.get("loc")))
        return f"{place}: {text}" if place and text else text
    return ""


def _places(value: object) -> Iterator[str]:
    if isinstance(value, list):
        yield from (str(step) for step in value[:20])


def readable(message: str) -> str:
    """One bounded message without a stack trace or control characters."""
    trace = _STACK_TRACE.search(message)
    if trace is not None:
        message = message[: trace.start()].rstrip(" :\n") or "the provider failed with an internal error"
    message = _CONTROL.sub(" ", message).strip()
    if len(message) > MESSAGE_LIMIT:
        message = message[: MESSAGE_LIMIT - 3] + "..."
    return message or "the provider gave no message"
