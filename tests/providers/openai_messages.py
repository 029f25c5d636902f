"""OpenAI's rules for `messages`: roles, content parts, tool calls and their results. Raises `Refusal`.

`openai_rules.check_request` calls `check_messages`; what other endpoints take or refuse there stands in their
`Strictness`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

from tests.providers.openai_strictness import OPENAI, Strictness
from tests.providers.refusals import (
    Json,
    Refusal,
    check_name,
    missing,
    not_empty,
    one_of,
    only,
    string,
    unsupported,
    wrong_type,
)

MESSAGE_FIELDS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "tool_calls", "function_call", "refusal", "audio"},
    "tool": {"role", "content", "tool_call_id"},
}
PART_TYPES = {role: frozenset({"text"}) for role in MESSAGE_FIELDS}
PART_FIELDS = {"text": {"type", "text"}, "refusal": {"type", "refusal"}, "image_url": {"type", "image_url"},
               "input_audio": {"type", "input_audio"}, "file": {"type", "file"}, "thinking": {"type", "thinking"},
               "document_url": {"type", "document_url", "document_name"}, "video_url": {"type", "video_url"},
               "file_url": {"type", "file_url", "file_name"}}
IMAGE_DATA = re.compile(r"data:image/(?:png|jpe?g|gif|webp);base64,")


def check_messages(messages: Json, strictness: Strictness = OPENAI) -> None:
    if messages is None:
        raise missing("messages")
    if not isinstance(messages, list):
        raise wrong_type("messages", "an array of objects", messages)
    not_empty(messages, "messages")
    waiting: list[str] = []  # calls without a result yet, in order
    answerable = False
    used: set[str] = set()
    for i, message in enumerate(messages):
        at = f"messages[{i}]"
        if not isinstance(message, dict):
            raise wrong_type(at, "an object", message)
        role = message.get("role")
        if not isinstance(role, str) or role not in MESSAGE_FIELDS \
                or (role == "developer" and not strictness.developer_role):
            raise unsupported(role, tuple(MESSAGE_FIELDS), f"{at}.role")
        only(message, MESSAGE_FIELDS[role] | strictness.message_fields.get(role, frozenset()), f"{at}.")
        check_content(message, role, at, strictness)
        if role == "tool":
            check_result(message, at, waiting, answerable)
            continue
        if waiting:
            raise Refusal("An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                          "'tool_call_id'. The following tool_call_ids did not have response messages: "
                          + ", ".join(waiting), f"messages.[{i}].role")
        waiting = check_calls(message, at, used, strictness) if message.get("tool_calls") is not None else []
        answerable = bool(waiting)
    if waiting:
        raise Refusal("An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                      "'tool_call_id'. The following tool_call_ids did not have response messages: "
                      + ", ".join(waiting), "messages")


def check_result(message: dict[str, Json], at: str, waiting: list[str], answerable: bool) -> None:
    call = message.get("tool_call_id")
    if not isinstance(call, str):
        raise missing(f"{at}.tool_call_id")
    if not answerable:
        raise Refusal("Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                      "'tool_calls'.", f"{at}.role")
    if call not in waiting:
        raise Refusal(f"Invalid parameter: 'tool_call_id' of '{call}' not found in 'tool_calls' of previous message.",
                      f"{at}.tool_call_id")
    if call != waiting[0]:
        raise Refusal(f"(stricter than the service) the result of '{waiting[0]}' must come before that of '{call}'.",
                      f"{at}.tool_call_id")
    waiting.pop(0)


def check_calls(message: dict[str, Json], at: str, used: set[str], strictness: Strictness) -> list[str]:
    calls = message["tool_calls"]
    at = f"{at}.tool_calls"
    if not isinstance(calls, list):
        raise wrong_type(at, "an array of objects", calls)
    not_empty(calls, at)
    ids: list[str] = []
    for j, call in enumerate(calls):
        here = f"{at}[{j}]"
        if not isinstance(call, dict):
            raise wrong_type(here, "an object", call)
        kinds = ("function", "custom") if strictness.custom_tools else ("function",)
        one_of(*kinds)(call.get("type"), f"{here}.type")
        kind = str(call["type"])
        only(call, {"id", "type", kind} | strictness.call_fields, f"{here}.")
        ids.append(check_id(call.get("id"), f"{here}.id", used, strictness))
        function = call.get(kind)
        if not isinstance(function, dict):
            raise missing(f"{here}.{kind}")
        words = "input" if kind == "custom" else "arguments"
        only(function, {"name", words}, f"{here}.{kind}.")
        check_name(function.get("name"), f"{here}.{kind}.name")
        if not isinstance(function.get(words), str):
            raise wrong_type(f"{here}.{kind}.{words}", "a string", function.get(words))
    return ids


def check_id(call: Json, at: str, used: set[str], strictness: Strictness) -> str:
    if not call or not isinstance(call, str):
        raise missing(at)
    if not re.fullmatch(strictness.id_pattern, call):
        if strictness.id_refusal:
            raise Refusal(strictness.id_refusal.format(call), at)
        string(40)(call, at)
        raise Refusal(f"Invalid '{at}': string does not match pattern. Expected '{strictness.id_pattern}'.", at)
    if call in used:
        raise Refusal(f"(stricter than the service) the tool call id '{call}' is used twice.", at)
    used.add(call)
    return call


def check_content(message: dict[str, Json], role: str, at: str, strictness: Strictness) -> None:
    content = message.get("content")
    at = f"{at}.content"
    if content is None:
        if role != "assistant" or not (message.get("tool_calls") or message.get("refusal")):
            raise Refusal("Invalid value for 'content': expected a string, got null.", at)
        return
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise wrong_type(at, "one of a string or array of objects", content)
    not_empty(content, at)
    for j, part in enumerate(content):
        here = f"{at}[{j}]"
        if not isinstance(part, dict):
            raise wrong_type(here, "an object", part)
        kind = part.get("type")
        known = {"user": strictness.user_parts, "assistant": strictness.assistant_parts}.get(role, PART_TYPES[role])
        if kind not in known:
            raise unsupported(kind, tuple(sorted(known)), f"{here}.type")
        only(part, PART_FIELDS[kind] | strictness.part_fields, f"{here}.")
        check = _OWN_PARTS.get(strictness.name, {}).get(kind, PART_CHECKS[kind])
        check(part.get(kind), f"{here}.{kind}")


def check_image(image: Json, at: str) -> None:
    if not isinstance(image, dict):
        raise wrong_type(at, "an object", image)
    only(image, {"url", "detail"}, f"{at}.")
    one_of("auto", "low", "high")(image.get("detail", "auto"), f"{at}.detail")
    url = image.get("url")
    if not isinstance(url, str):
        raise missing(f"{at}.url")
    if url.startswith(("http://", "https://")):
        return
    if not IMAGE_DATA.match(url):
        raise Refusal(f"Invalid '{at}.url': expected a URL or a base64-encoded data URL with an image MIME type (e.g. "
                      "'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got something else.", at, "invalid_value")
    check_base64(url, at)


def check_file(file: Json, at: str) -> None:
    if not isinstance(file, dict):
        raise wrong_type(at, "an object", file)
    only(file, {"file_data", "file_id", "filename"}, f"{at}.")
    data = file.get("file_data")
    if data is None:
        if not file.get("file_id"):
            raise missing(f"{at}.file_id")
        return
    if not isinstance(data, str) or not data.startswith("data:application/pdf;base64,"):
        raise Refusal(f"Invalid file data: '{at}.file_data'. Expected a base64-encoded data URL with an "
                      "application/pdf MIME type.", at, "invalid_value")
    if not file.get("filename"):
        raise missing(f"{at}.filename")
    check_base64(data, at)


def check_base64(data_url: str, at: str) -> None:
    try:
        base64.b64decode(data_url.partition(",")[2], validate=True)
    except binascii.Error:
        raise Refusal("Invalid base64-encoded data.", at, "invalid_base64") from None


def check_document(url: Json, at: str) -> None:
    """Mistral: a string, by URL or as data."""
    if not isinstance(url, str):
        raise wrong_type(at, "a string", url)
    if not url.startswith(("https://", "http://")):
        if not url.startswith("data:application/pdf;base64,"):
            raise Refusal(f"Invalid '{at}'.", at)
        check_base64(url, at)


def check_video(video: Json, at: str) -> None:
    """OpenRouter."""
    url = video.get("url") if isinstance(video, dict) else None
    if not isinstance(url, str) or not url.startswith(("https://", "data:video/")):
        raise wrong_type(at, "an object with a URL", video)


def check_file_url(file: Json, at: str) -> None:
    """Perplexity: a URL, or base64 without a prefix."""
    url = file.get("url") if isinstance(file, dict) else None
    if not isinstance(url, str) or url.startswith("data:"):
        raise wrong_type(at, "an object with a URL", file)
    if not url.startswith("https://"):
        check_base64("," + url, at)


def check_voxtral(audio: Json, at: str) -> None:
    """Mistral: base64 or a URL alone."""
    if not isinstance(audio, str):
        raise wrong_type(at, "a string", audio)


def check_file_or_url(file: Json, at: str) -> None:
    """OpenRouter: `file_data` may be a URL."""
    if isinstance(file, dict) and str(file.get("file_data")).startswith("https://"):
        return
    check_file(file, at)


def check_audio(audio: Json, at: str) -> None:
    if not isinstance(audio, dict) or set(audio) != {"data", "format"}:
        raise wrong_type(at, "an object with data and format", audio)


def check_thinking(thinking: Json, at: str) -> None:
    if not isinstance(thinking, list) or not thinking or any(set(part) != {"type", "text"} for part in thinking):
        raise wrong_type(at, "an array of text parts", thinking)


PART_CHECKS: dict[str, Callable[[Json, str], None]] = {
    "text": string(10**9), "refusal": string(10**9), "image_url": check_image, "file": check_file,
    "input_audio": check_audio, "thinking": check_thinking, "document_url": check_document, "video_url": check_video,
    "file_url": check_file_url,
}
_OWN_PARTS: dict[str, dict[str, Callable[[Json, str], None]]] = {
    "mistral": {"input_audio": check_voxtral}, "openrouter": {"file": check_file_or_url}}
"""Parts that have another form at an endpoint."""
