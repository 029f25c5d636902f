"""The messages of generateContent as Google's JSON parser knows them, and a walk that finds what it would not parse.

Data: message -> field -> kind. The walk reports every unknown name at any depth at once, as the service does, and the
first value of a wrong type. Meaning (order of turns, signatures, ranges) is checked elsewhere. One rule is stricter
than the service: names are camelCase only.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field

Json = object

THINKING_LEVELS = ("THINKING_LEVEL_UNSPECIFIED", "MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH")
MODES = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")
TYPES = ("TYPE_UNSPECIFIED", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL")
CATEGORIES = ("HARM_CATEGORY_HARASSMENT", "HARM_CATEGORY_HATE_SPEECH", "HARM_CATEGORY_SEXUALLY_EXPLICIT",
              "HARM_CATEGORY_DANGEROUS_CONTENT", "HARM_CATEGORY_CIVIC_INTEGRITY")
THRESHOLDS = ("HARM_BLOCK_THRESHOLD_UNSPECIFIED", "BLOCK_LOW_AND_ABOVE", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_ONLY_HIGH",
              "BLOCK_NONE", "OFF")
ENUMS = {"ThinkingLevel": THINKING_LEVELS, "Mode": MODES, "Type": TYPES, "HarmCategory": CATEGORIES,
         "HarmBlockThreshold": THRESHOLDS, "Method": ("SEVERITY", "PROBABILITY"),
         "Modality": ("MODALITY_UNSPECIFIED", "TEXT", "IMAGE", "AUDIO"),
         "MediaResolution": ("MEDIA_RESOLUTION_LOW", "MEDIA_RESOLUTION_MEDIUM", "MEDIA_RESOLUTION_HIGH"),
         "Language": ("LANGUAGE_UNSPECIFIED", "PYTHON"), "Behavior": ("UNSPECIFIED", "BLOCKING", "NON_BLOCKING"),
         "Outcome": ("OUTCOME_UNSPECIFIED", "OUTCOME_OK", "OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED")}

MESSAGES: dict[str, dict[str, str]] = {
    "GenerateContentRequest": {
        "model": "string", "contents": "[]Content", "systemInstruction": "Content", "tools": "[]Tool",
        "toolConfig": "ToolConfig", "safetySettings": "[]SafetySetting", "generationConfig": "GenerationConfig",
        "cachedContent": "string", "labels": "vertex:Struct", "store": "studio:bool", "serviceTier": "studio:string"},
    "Content": {"role": "string", "parts": "[]Part"},
    "Part": {
        "text": "string", "inlineData": "Blob", "fileData": "FileData", "functionCall": "FunctionCall",
        "functionResponse": "FunctionResponse", "executableCode": "ExecutableCode",
        "codeExecutionResult": "CodeExecutionResult", "toolCall": "studio:Struct", "toolResponse": "studio:Struct",
        "thought": "bool", "thoughtSignature": "bytes", "videoMetadata": "Struct", "partMetadata": "studio:Struct",
        "mediaResolution": "Struct"},
    "Blob": {"mimeType": "string", "data": "bytes", "displayName": "vertex:string"},
    "FileData": {"mimeType": "string", "fileUri": "string", "displayName": "vertex:string"},
    "FunctionCall": {"id": "studio:string", "name": "string", "args": "Struct"},
    "FunctionResponse": {"id": "studio:string", "name": "string", "response": "Struct",
                         "parts": "[]FunctionResponsePart", "willContinue": "studio:bool", "scheduling": "string"},
    "FunctionResponsePart": {"inlineData": "ResponseBlob", "fileData": "vertex:FileData"},
    "ResponseBlob": {"mimeType": "string", "data": "bytes", "displayName": "string"},
    "ExecutableCode": {"language": "Language", "code": "string", "id": "studio:string"},
    "CodeExecutionResult": {"outcome": "Outcome", "output": "string", "id": "studio:string"},
    "Tool": {"functionDeclarations": "[]FunctionDeclaration", "googleSearch": "Struct",
             "googleSearchRetrieval": "Struct", "codeExecution": "Struct", "urlContext": "Struct",
             "computerUse": "Struct", "fileSearch": "studio:Struct", "googleMaps": "Struct",
             "retrieval": "vertex:Struct", "enterpriseWebSearch": "vertex:Struct"},
    "FunctionDeclaration": {"name": "string", "description": "string", "behavior": "Behavior", "parameters": "Schema",
                            "parametersJsonSchema": "Value", "response": "Schema", "responseJsonSchema": "Value"},
    "Schema": {
        "type": "Type", "format": "string", "title": "string", "description": "string", "nullable": "bool",
        "enum": "[]string", "items": "Schema", "minItems": "int64", "maxItems": "int64", "properties": "{}Schema",
        "required": "[]string", "minProperties": "int64", "maxProperties": "int64", "minLength": "int64",
        "maxLength": "int64", "pattern": "string", "example": "Value", "anyOf": "[]Schema",
        "propertyOrdering": "[]string", "default": "Value", "minimum": "double", "maximum": "double"},
    "ToolConfig": {"functionCallingConfig": "FunctionCallingConfig", "retrievalConfig": "Struct",
                   "includeServerSideToolInvocations": "studio:bool"},
    "FunctionCallingConfig": {"mode": "Mode", "allowedFunctionNames": "[]string",
                              "streamFunctionCallArguments": "vertex:bool"},
    "SafetySetting": {"category": "HarmCategory", "threshold": "HarmBlockThreshold", "method": "vertex:Method"},
    "GenerationConfig": {
        "stopSequences": "[]string", "responseMimeType": "string", "responseSchema": "Schema",
        "responseJsonSchema": "Value", "responseModalities": "[]Modality", "candidateCount": "int32",
        "maxOutputTokens": "int32", "temperature": "double", "topP": "double", "topK": "int32", "seed": "int32",
        "presencePenalty": "double", "frequencyPenalty": "double", "responseLogprobs": "bool", "logprobs": "int32",
        "enableEnhancedCivicAnswers": "studio:bool", "speechConfig": "Struct", "thinkingConfig": "ThinkingConfig",
        "mediaResolution": "MediaResolution", "imageConfig": "Struct", "audioTimestamp": "vertex:bool",
        "routingConfig": "vertex:Struct"},
    "ThinkingConfig": {"includeThoughts": "bool", "thinkingBudget": "int32", "thinkingLevel": "ThinkingLevel"},
}
"""A kind is a scalar, an enum, a message, "[]" or "{}" of one; "studio:" and "vertex:" are fields of one door only."""

INTEGERS = {"int32": 31, "int64": 63}


@dataclass
class Refusal(Exception):  # noqa: N818 - the field's word
    """A 400 in Google's words. `violations` are (field, description) of google.rpc.BadRequest."""

    message: str
    violations: list[tuple[str, str]] = field(default_factory=list)

    def body(self) -> dict[str, Json]:
        error: dict[str, Json] = {"code": 400, "message": self.message, "status": "INVALID_ARGUMENT"}
        if self.violations:
            error["details"] = [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [
                {"field": name, "description": text} for name, text in self.violations]}]
        return {"error": error}


def snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", lambda found: "_" + found[1].lower(), name)


def check_fields(value: Json, message: str, at: str, *, vertex: bool) -> None:
    """Raises the `Refusal` of the first wrong value, else one that names every unknown field."""
    walk = Walk("vertex" if vertex else "studio")
    try:
        walk.message(value, message, at)
    except RecursionError:
        raise Refusal("Message too deep. Max recursion depth reached.") from None
    if walk.unknown:
        texts = [f'Invalid JSON payload received. Unknown name "{name}"' + (f" at '{where}'" if where else "")
                 + ": Cannot find field." for name, where in walk.unknown]
        raise Refusal("\n".join(texts), [(where, text) for (_, where), text in zip(walk.unknown, texts, strict=True)])


class Walk:
    def __init__(self, door: str) -> None:
        self.door = door
        self.unknown: list[tuple[str, str]] = []

    def message(self, value: Json, name: str, at: str) -> None:
        if not isinstance(value, dict):
            raise wrong(value, at, name)
        fields = MESSAGES[name]
        for key, inner in value.items():
            kind = fields.get(key, "")
            door, colon, plain = kind.partition(":")
            if not kind or (colon and door != self.door):
                self.unknown.append((key, at))
            elif inner is not None:  # null is an absent field to Google's parser
                self.value(inner, plain if colon else kind, f"{at}.{snake(key)}" if at else snake(key))

    def value(self, value: Json, kind: str, at: str) -> None:
        if kind.startswith("[]"):
            if not isinstance(value, list):
                raise wrong(value, at, kind[2:])
            for i, item in enumerate(value):
                self.value(item, kind[2:], f"{at}[{i}]")
        elif kind.startswith("{}"):
            if not isinstance(value, dict):
                raise wrong(value, at, kind[2:])
            for i, item in enumerate(value.values()):
                self.value(item, kind[2:], f"{at}[{i}].value")
        elif isinstance(value, list) and kind != "Value":
            raise Refusal(f"Invalid JSON payload received. Unknown name \"{at.rpartition('.')[2]}\" at "
                          f"'{at.rpartition('.')[0]}': Proto field is not repeating, cannot start list.")
        elif kind in MESSAGES:
            self.message(value, kind, at)
        elif not fits(value, kind):
            raise wrong(value, at, kind)


def fits(value: Json, kind: str) -> bool:
    """Whether a scalar, an enum, a Struct or a Value can be read."""
    if kind == "Value":
        return True
    if kind == "Struct":
        return isinstance(value, dict)
    if kind in ENUMS:
        return isinstance(value, str) and value.upper() in ENUMS[kind]
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "double":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind in INTEGERS:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << INTEGERS[kind]
    if kind == "bytes":
        return isinstance(value, str) and is_base64(value)
    return isinstance(value, str)


def is_base64(value: str) -> bool:
    """Google's parser takes both alphabets; padding may be absent, not wrong."""
    plain = value.replace("-", "+").replace("_", "/")
    try:
        base64.b64decode(plain if plain.endswith("=") else plain + "=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        return False
    return True


def wrong(value: Json, at: str, kind: str) -> Refusal:
    name = f"TYPE_{kind.upper()}" if kind.islower() or kind in INTEGERS else f"type.googleapis.com/{kind}"
    message = f"Invalid value at '{at}' ({name}), {str(value)[:60]!r}"
    return Refusal(message, [(at, message)])
