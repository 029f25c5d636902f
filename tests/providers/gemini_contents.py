"""Gemini's rules for `contents`: roles, parts, media, function calls and their responses, thought signatures.

`gemini_rules` calls `check_contents` with a request whose fields are known to parse. Stricter than the service on
purpose, because some generation or door of it needs each: every content says its role, the first one is the user's,
a content with function responses holds nothing else, responses stand in the order of their calls with their names and
ids, a part holds something, and the value that bypasses a signature stands on the first call of a step only.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Mapping
from typing import Any

from tests.providers.gemini_fields import Refusal

Part = dict[str, Any]
Issued = Mapping[str, Mapping[str, Any]] | Collection[str] | None
"""Signatures that this provider issued for the model: alone, or with the part that each one came on. None: any."""

DATA = ("text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult",
        "toolCall", "toolResponse")
BYPASS_TEXTS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
BYPASS = frozenset(BYPASS_TEXTS) | {base64.b64encode(text.encode()).decode() for text in BYPASS_TEXTS}
FUNCTION_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
IMAGES = {"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}
MIME_TYPES = IMAGES | {
    "application/pdf", "text/plain", "text/html", "text/css", "text/csv", "text/xml", "text/md", "text/markdown",
    "text/rtf", "audio/wav", "audio/mp3", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac",
    "audio/m4a", "audio/mp4", "audio/opus", "audio/webm", "audio/pcm", "video/mp4", "video/mpeg", "video/mov",
    "video/quicktime", "video/avi", "video/x-flv", "video/mpg", "video/webm", "video/wmv", "video/3gpp",
}
"""Neither image/gif nor image/jpg: `Unsupported MIME type: image/gif` (MaiBot #1435, smart-connections #1238)."""
RESULT_MIME_TYPES = {"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"}
COUNT = ("Please ensure that the number of function response parts is equal to the number of function call parts of "
         "the function call turn.")


def check_contents(contents: list[dict[str, Any]], model: str, *, vertex: bool, issued: Issued) -> None:
    if not contents:
        raise Refusal("* GenerateContentRequest.contents: contents is not specified\n")
    for i, content in enumerate(contents):
        check_content(content, f"contents[{i}]", model, vertex=vertex)
    if contents[0]["role"] != "user":
        raise Refusal("(stricter than the service) the first content must have the role 'user'.")
    check_turns(contents)
    check_signatures(contents, model, issued)
    if contents[-1]["role"] == "model" and generation(model) >= 3:
        raise Refusal("Please ensure that multiturn requests end with a user role or a function response.")


def generation(model: str) -> float:
    """3.1 of `gemini-3.1-pro-preview`; a name without a number is the newest one, older families are 1."""
    if model == "gemini-pro" or model.startswith(("gemma", "learnlm")):
        return 1.0
    found = re.match(r"gemini-(\d+(?:\.\d+)?)", model)
    return float(found[1]) if found else 3.0


# --------------------------------------------------------------------------------------------------------- one content
def check_content(content: dict[str, Any], at: str, model: str, *, vertex: bool) -> None:
    role = content.get("role")
    if role not in ("user", "model"):
        raise Refusal("Please use a valid role: user, model.")
    parts = content.get("parts")
    if not parts:
        raise Refusal(f"* GenerateContentRequest.{at}.parts: contents.parts must not be empty.\n")
    for j, part in enumerate(parts):
        here = f"{at}.parts[{j}]"
        held = [key for key in DATA if part.get(key) is not None]
        if not held:
            raise Refusal(f"* GenerateContentRequest.{here}.data: required oneof field 'data' must have one "
                          "initialized field\n")
        if len(held) > 1:
            raise Refusal(f"Invalid value at '{here}' (oneof), oneof field 'data' is already set. Cannot set "
                          f"'{held[1]}'")
        if held == ["text"] and not part["text"] and not part.get("thoughtSignature"):
            raise Refusal("Unable to submit request because it must have a text parameter. Add a text parameter and "
                          f"try again. ({here})")
        if role == "user" and (part.get("thought") or part.get("thoughtSignature")):
            raise Refusal(f"(stricter than the service) {here}: thoughts belong to the model.")
        if part.get("thought") and held != ["text"]:
            raise Refusal(f"(stricter than the service) {here}: a thought is text.")
        if "inlineData" in held or "fileData" in held:
            check_media(part, here, vertex=vertex)
        if "functionCall" in held:
            check_call(part["functionCall"], here, role)
        if "functionResponse" in held:
            check_response(part["functionResponse"], here, role, model, vertex=vertex)


def check_media(part: Part, at: str, *, vertex: bool, allowed: Collection[str] = MIME_TYPES) -> None:
    inline, file = part.get("inlineData"), part.get("fileData")
    if inline is not None:
        if not inline.get("data"):
            raise Refusal(f"* GenerateContentRequest.{at}.inline_data.data: required field is missing\n")
        if inline.get("mimeType") not in allowed:
            raise Refusal(f"Unsupported MIME type: {inline.get('mimeType')}")
    if file is not None:
        if not file.get("fileUri"):
            raise Refusal(f"* GenerateContentRequest.{at}.file_data.file_uri: required field is missing\n")
        if not re.match(r"(https?|gs)://", file["fileUri"]):
            raise Refusal(f"Invalid or unsupported file uri: {file['fileUri'][:80]}")
        if vertex and not file.get("mimeType"):
            raise Refusal("Unable to submit request because it has an empty mimeType parameter in fileData.")
        if file.get("mimeType") and file["mimeType"] not in allowed and file["mimeType"] != "video/*":
            raise Refusal(f"Unsupported MIME type: {file['mimeType']}")


def check_call(call: dict[str, Any], at: str, role: str) -> None:
    if role != "model":
        raise Refusal("Please ensure that function call turns have the role 'model'.")
    if not FUNCTION_NAME.fullmatch(call.get("name") or ""):
        raise Refusal(f"* GenerateContentRequest.{at}.function_call.name: Invalid function name.\n")
    if call.get("id") == "":
        raise Refusal(f"(stricter than the service) {at}.function_call.id is empty.")


def check_response(response: dict[str, Any], at: str, role: str, model: str, *, vertex: bool) -> None:
    if role != "user":
        raise Refusal("Please ensure that function response turns have the role 'user'.")
    if not response.get("name"):
        raise Refusal(f"* GenerateContentRequest.{at}.function_response.name: Name cannot be empty.\n")
    if response.get("response") is None:
        raise Refusal(f"* GenerateContentRequest.{at}.function_response.response: required field is missing\n")
    media = response.get("parts") or []
    if media and generation(model) < 3:
        raise Refusal(f"Multimodal function responses are not supported for models/{model}.")
    for k, part in enumerate(media):
        if len([key for key in ("inlineData", "fileData") if part.get(key) is not None]) != 1:
            raise Refusal(f"* GenerateContentRequest.{at}.function_response.parts[{k}].data: required oneof field "
                          "'data' must have one initialized field\n")
        check_media(part, f"{at}.function_response.parts[{k}]", vertex=vertex, allowed=RESULT_MIME_TYPES)


# ----------------------------------------------------------------------------------------------- calls and responses
def check_turns(contents: list[dict[str, Any]]) -> None:
    for i, content in enumerate(contents):
        calls = held_in(content, "functionCall")
        responses = held_in(content, "functionResponse")
        if calls:
            if i == 0 or contents[i - 1]["role"] == "model":
                raise Refusal("Please ensure that function call turn comes immediately after a user turn or after a "
                              "function response turn.")
            following = contents[i + 1] if i + 1 < len(contents) else {"parts": []}
            check_answers(calls, held_in(following, "functionResponse"), i)
        if responses:
            if i == 0 or not held_in(contents[i - 1], "functionCall"):
                raise Refusal("Please ensure that function response turn comes immediately after a function call turn.")
            if len(responses) != len(content["parts"]):
                raise Refusal(f"(stricter than the service) contents[{i}] holds function responses and other parts.")


def check_answers(calls: list[dict[str, Any]], responses: list[dict[str, Any]], i: int) -> None:
    if len(calls) != len(responses):
        raise Refusal(f"{COUNT} (contents[{i}]: {len(calls)} calls, {len(responses)} responses)")
    names = [[one["name"] for one in side] for side in (calls, responses)]
    if names[0] != names[1]:
        raise Refusal(f"Function response names {names[1]} do not match function call names {names[0]} "
                      f"(contents[{i + 1}]).")
    ids = [[one.get("id") for one in side] for side in (calls, responses)]
    if ids[0] != ids[1]:
        raise Refusal(f"Function response ids {ids[1]} do not match function call ids {ids[0]} (contents[{i + 1}]).")
    given = [one for one in ids[0] if one is not None]
    if len(set(given)) != len(given):
        raise Refusal(f"(stricter than the service) contents[{i}] uses the id of a call twice: {given}")


def held_in(content: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    return [part[key] for part in content["parts"] if part.get(key) is not None]


# ---------------------------------------------------------------------------------------------------------- signatures
def check_signatures(contents: list[dict[str, Any]], model: str, issued: Issued) -> None:
    """Every signature must be one that was issued here, on the part that it was issued with; from generation 3 on the
    first call of each step of the current turn must have one (the turn begins with the last content of the user that
    is no function response)."""
    turn = max((i for i, content in enumerate(contents)
                if content["role"] == "user" and not held_in(content, "functionResponse")), default=-1)
    for i, content in enumerate(contents):
        calls = [part for part in content["parts"] if part.get("functionCall") is not None]
        for part in content["parts"]:
            if part.get("thoughtSignature"):
                check_signature(part, first=not calls or part is calls[0], issued=issued, at=f"contents[{i}]")
        if calls and i > turn and generation(model) >= 3 and not calls[0].get("thoughtSignature"):
            raise Refusal(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                "work correctly, and missing thought_signature may lead to degraded model performance. Additional "
                f"data, function call `default_api:{calls[0]['functionCall']['name']}` , position {i + 1}. Please "
                "refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.")


def check_signature(part: Part, *, first: bool, issued: Issued, at: str) -> None:
    value = part["thoughtSignature"]
    if value in BYPASS:
        if part.get("functionCall") is None or not first:
            raise Refusal(f"(stricter than the service) {at}: a bypass of the signature that is not on the first call.")
        return
    if issued is None:
        return
    if value not in issued:
        raise Refusal("Corrupted thought signature.")
    if isinstance(issued, Mapping) and not same_part(issued[value], part):
        raise Refusal(f"Thought signature is not valid. (stricter than the service: {at} has the signature of another "
                      "part)")


def same_part(issued: Mapping[str, Any], part: Part) -> bool:
    """A call with its name and arguments; a text stays a text (which may have come in several pieces)."""
    call, other = issued.get("functionCall"), part.get("functionCall")
    if call is None or other is None:
        return call is None and other is None
    return bool(call["name"] == other["name"] and (call.get("args") or {}) == (other.get("args") or {}))
