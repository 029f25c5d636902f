"""The rules of the scripted Gemini provider: what Google refuses is refused, what it takes is taken."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest

from tests.providers.gemini_rules import check_schema, refusal, refused

SIGNATURE = base64.b64encode(b"a signature").decode()
BYPASS = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
PNG = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
USER = {"role": "user", "parts": [{"text": "hi"}]}
SAID = {"role": "model", "parts": [{"text": "hello"}]}
FUNCTION: dict[str, Any] = {"name": "f", "description": "d", "parametersJsonSchema": {
    "type": "object", "properties": {"a": {"type": ["integer", "null"]}}}}
OLD_FUNCTION: dict[str, Any] = {"name": "f", "parameters": {
    "type": "OBJECT", "properties": {"a": {"type": "INTEGER", "nullable": True}}, "required": ["a"]}}


def call(name: str = "f", *, signature: str | None = None, **fields: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {"name": name, "args": {"a": 1}, **fields}}
    return {**part, "thoughtSignature": signature} if signature else part


def response(name: str = "f", **fields: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": "1"}, **fields}}


def turn(calls: list[Any], responses: list[Any]) -> list[Any]:
    return [{"role": "model", "parts": calls}, {"role": "user", "parts": responses}]


SIGNED_TURN = turn([call(signature=SIGNATURE), call("g")], [response(), response("g")])


def body(*contents: Any, **fields: Any) -> dict[str, Any]:
    return {"contents": list(contents) or [USER], **fields}


GOOD: list[tuple[str, dict[str, Any]]] = [
    ("gemini-3-pro-preview", body()),
    ("gemini-3-pro-preview", body(
        USER, *SIGNED_TURN, {"role": "user", "parts": [{"text": "and"}, PNG]},
        systemInstruction={"parts": [{"text": "be good"}]}, tools=[{"functionDeclarations": [FUNCTION]}],
        toolConfig={"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
        generationConfig={"temperature": 1, "topP": 0.5, "topK": 40, "maxOutputTokens": 65536, "stopSequences": ["x"],
                          "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "high"},
                          "responseMimeType": "application/json", "responseJsonSchema": {"type": "array"}},
        safetySettings=[{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}])),
    ("gemini-3-pro-preview", body(USER, *turn([call(signature=SIGNATURE, id="1"), call(id="2")],
                                              [response(id="1", parts=[PNG]), response(id="2")]))),
    ("gemini-3-pro-preview", body(USER, *turn([call(signature=BYPASS)], [response()]))),
    ("gemini-3-pro-preview", body(USER, *turn([call()], [response()]), SAID, USER)),
    ("gemini-3-pro-preview", body(USER, {"role": "model", "parts": [
        {"text": "hm", "thought": True}, {"text": "", "thoughtSignature": SIGNATURE}]}, USER)),
    ("gemini-2.5-pro", body(USER, *turn([call()], [response()]), tools=[{"functionDeclarations": [OLD_FUNCTION]}],
                            generationConfig={"thinkingConfig": {"thinkingBudget": 128, "includeThoughts": True}})),
    ("gemini-2.5-flash", body(USER, SAID, generationConfig={"thinkingConfig": {"thinkingBudget": 0}})),
    ("gemini-2.0-flash", body(tools=[{"googleSearch": {}}])),
    ("gemini-flash-latest", body(generationConfig={"thinkingConfig": {"thinkingLevel": "MEDIUM"}})),
]


@pytest.mark.parametrize(("model", "good"), GOOD)
def test_what_google_takes(model: str, good: dict[str, Any]) -> None:
    before = copy.deepcopy(good)
    assert refusal(good, model) is None
    assert good == before, "a check changes nothing"


def with_function(schema: Any, key: str = "parametersJsonSchema") -> dict[str, Any]:
    return body(tools=[{"functionDeclarations": [{"name": "f", key: schema}]}])


def with_config(**fields: Any) -> dict[str, Any]:
    return body(generationConfig=fields)


BAD: list[tuple[str, str, dict[str, Any]]] = [
    # field names at any depth, and types of values
    ("3-pro", "Unknown name \"top_k\" at 'generation_config'", with_config(top_k=1)),
    ("3-pro", "Unknown name \"stream\": Cannot find field", body(stream=True)),
    ("3-pro", "Unknown name \"type\" at 'contents[0].parts[0]'",
     body({"role": "user", "parts": [{"type": "text", "text": "x"}]})),
    ("3-pro", "Unknown name \"url\" at 'contents[0].parts[0].file_data'",
     body({"role": "user", "parts": [{"fileData": {"url": "https://x/y"}}]})),
    ("3-pro", "Unknown name \"tool_use_id\" at 'contents[2].parts[0].function_response'",
     body(USER, *turn([call(signature=BYPASS)], [response(tool_use_id="1")]))),
    ("3-pro", "Unknown name \"input_schema\" at 'tools[0].function_declarations[0]'",
     with_function({}, "input_schema")),
    ("3-pro", "Invalid value at 'contents[1].parts[0].function_call.args'",
     body(USER, *turn([call(signature=BYPASS, args="{}")], [response()]))),
    ("3-pro", "Invalid value at 'contents[2].parts[0].function_response.response'",
     body(USER, *turn([call(signature=BYPASS)], [response(response="text")]))),
    ("3-pro", "cannot start list", body(systemInstruction={"parts": [{"text": ["x"]}]})),
    ("3-pro", "Invalid value at 'system_instruction'", body(systemInstruction="be good")),
    ("3-pro", "TYPE_INT32", with_config(maxOutputTokens=1.5)),
    ("3-pro", "TYPE_BYTES", body({"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "%"}}]})),
    ("3-pro", "TYPE_BYTES", body(USER, *turn([call(signature="not base64!")], [response()]))),
    # roles and parts
    ("3-pro", "valid role", body({"role": "assistant", "parts": [{"text": "x"}]})),
    ("3-pro", "valid role", body({"parts": [{"text": "x"}]})),
    ("3-pro", "first content", body(SAID, USER)),
    ("3-pro", "contents is not specified", {"contents": []}),
    ("3-pro", "parts must not be empty", body({"role": "user", "parts": []})),
    ("3-pro", "required oneof field 'data'", body({"role": "user", "parts": [{}]})),
    ("3-pro", "must have a text parameter", body({"role": "user", "parts": [{"text": ""}]})),
    ("3-pro", "already set", body({"role": "user", "parts": [{"text": "x", **PNG}]})),
    ("3-pro", "Unsupported MIME type: image/gif",
     body({"role": "user", "parts": [{"inlineData": {"mimeType": "image/gif", "data": "R0lG"}}]})),
    ("3-pro", "Unsupported MIME type: None", body({"role": "user", "parts": [{"inlineData": {"data": "R0lG"}}]})),
    ("3-pro", "file uri", body({"role": "user", "parts": [{"fileData": {"fileUri": "file-123"}}]})),
    ("3-pro", "end with a user role", body(USER, SAID)),
    # calls and responses
    ("3-pro", "number of function response parts", body(USER, {"role": "model", "parts": [call(signature=BYPASS)]})),
    ("3-pro", "number of function response parts", body(USER, *turn([call(signature=BYPASS), call()], [response()]))),
    ("3-pro", "number of function response parts", body(USER, *turn([call(signature=BYPASS)], [response()] * 2))),
    ("3-pro", "names ['g', 'f'] do not match",
     body(USER, *turn([call(signature=BYPASS), call("g")], [response("g"), response()]))),
    ("3-pro", "ids ['2', '1'] do not match",
     body(USER, *turn([call(signature=BYPASS, id="1"), call(id="2")], [response(id="2"), response(id="1")]))),
    ("3-pro", "ids [None] do not match", body(USER, *turn([call(signature=BYPASS, id="1")], [response()]))),
    ("3-pro", "uses the id of a call twice",
     body(USER, *turn([call(signature=BYPASS, id="1"), call(id="1")], [response(id="1"), response(id="1")]))),
    ("3-pro", "holds function responses and other parts",
     body(USER, *turn([call(signature=BYPASS)], [response(), {"text": "x"}]))),
    ("3-pro", "immediately after a user turn", body(USER, SAID, *turn([call(signature=BYPASS)], [response()]))),
    ("3-pro", "immediately after a function call turn", body(USER, {"role": "user", "parts": [response()]})),
    ("3-pro", "have the role 'model'", body({"role": "user", "parts": [call()]})),
    ("3-pro", "have the role 'user'", body(USER, {"role": "model", "parts": [response()]})),
    ("3-pro", "Invalid function name", body(USER, *turn([call("a b", signature=BYPASS)], [response("a b")]))),
    ("2.5-pro", "Multimodal function responses", body(USER, *turn([call()], [response(parts=[PNG])]))),
    ("3-pro", "Unsupported MIME type: audio/wav", body(USER, *turn([call(signature=BYPASS)], [
        response(parts=[{"inlineData": {"mimeType": "audio/wav", "data": "R0lG"}}])]))),
    # signatures
    ("3-pro", "missing a thought_signature", body(USER, *turn([call()], [response()]))),
    ("3-pro", "missing a thought_signature", body(USER, *SIGNED_TURN, *turn([call()], [response()]))),
    ("3-pro", "missing a thought_signature",
     body(USER, *turn([call(), call(signature=SIGNATURE)], [response(), response()]))),
    ("3-pro", "a bypass of the signature that is not on the first",
     body(USER, *turn([call(signature=SIGNATURE), call(signature=BYPASS)], [response(), response()]))),
    ("3-pro", "thoughts belong to the model", body({"role": "user", "parts": [{"text": "x", "thought": True}]})),
    # tools
    ("3-pro", "Invalid function name", body(tools=[{"functionDeclarations": [{"name": "1f"}]}])),
    ("3-pro", "Invalid function name", body(tools=[{"functionDeclarations": [{"name": "f" * 65}]}])),
    ("3-pro", "Invalid function name", body(tools=[{"functionDeclarations": [{"name": "a/b"}]}])),
    ("3-pro", "Duplicate function", body(tools=[{"functionDeclarations": [FUNCTION, FUNCTION]}])),
    ("3-pro", "tool_type", body(tools=[{}])),
    ("3-pro", "tool_type", body(tools=[{"functionDeclarations": []}])),
    ("3-pro", "mutually exclusive", body(tools=[{"functionDeclarations": [{**FUNCTION, **OLD_FUNCTION}]}])),
    ("2.5-pro", "cannot be combined", body(tools=[{"functionDeclarations": [FUNCTION]}, {"googleSearch": {}}])),
    ("3-pro", "include_server_side_tool_invocations",
     body(tools=[{"functionDeclarations": [FUNCTION]}, {"googleSearch": {}}])),
    ("2.0-flash", "parameters_json_schema: not supported", body(tools=[{"functionDeclarations": [FUNCTION]}])),
    ("3-pro", "without function_declarations", body(toolConfig={"functionCallingConfig": {"mode": "NONE"}})),
    ("2.0-flash", "VALIDATED is not supported", body(
        tools=[{"functionDeclarations": [OLD_FUNCTION]}], toolConfig={"functionCallingConfig": {"mode": "VALIDATED"}})),
    *[("3-pro", why, body(tools=[{"functionDeclarations": [FUNCTION]}], toolConfig={"functionCallingConfig": config}))
      for why, config in (
          ("Invalid value at 'tool_config.function_calling_config.mode'", {"mode": "REQUIRED"}),
          ("only allowed when mode is ANY", {"mode": "AUTO", "allowedFunctionNames": ["f"]}),
          ("g is not a declared function", {"mode": "ANY", "allowedFunctionNames": ["g"]}),
          ("Unknown name \"streamFunctionCallArguments\"", {"streamFunctionCallArguments": True}))],
    # configuration
    *[(model, why, with_config(**config)) for model, why, config in (
        ("3-pro", "temperature", {"temperature": 2.1}), ("3-pro", "topP", {"topP": 1.5}),
        ("3-pro", "topK", {"topK": 0}), ("3-pro", "topK", {"topK": 65}),
        ("3-pro", "Penalty is not enabled", {"presencePenalty": 0.5}),
        ("3-pro", "cannot be empty", {"stopSequences": [""]}),
        ("3-pro", "candidateCount", {"candidateCount": 2}), ("3-pro", "value of 65537", {"maxOutputTokens": 65537}),
        ("3-pro", "value of 0", {"maxOutputTokens": 0}), ("2.0-flash", "value of 9000", {"maxOutputTokens": 9000}),
        ("3-pro", "at most 5", {"stopSequences": list("abcdef")}),
        ("3-pro", "with a response schema", {"responseSchema": {"type": "STRING"}}),
        ("3-pro", "Only one of", {"responseMimeType": "application/json", "responseSchema": {"type": "STRING"},
                                  "responseJsonSchema": {"type": "string"}}),
        ("3-pro", "logprobs", {"logprobs": 3}))],
    *[(model, why, with_config(thinkingConfig=config)) for model, why, config in (
        ("3-pro", "only set only one", {"thinkingBudget": 1024, "thinkingLevel": "LOW"}),
        ("2.5-pro", "level is not supported", {"thinkingLevel": "LOW"}),
        ("3-pro-preview", "level MEDIUM is not supported", {"thinkingLevel": "MEDIUM"}),
        ("3-pro", "thinking_level", {"thinkingLevel": "NONE"}),
        ("3.7-flash", "level MINIMAL is not supported", {"thinkingLevel": "MINIMAL"}),
        ("2.5-pro", "budget 0 is invalid", {"thinkingBudget": 0}),
        ("2.5-pro", "budget 100 is invalid", {"thinkingBudget": 100}),
        ("2.5-flash-lite", "budget 100 is invalid", {"thinkingBudget": 100}),
        ("2.5-flash", "budget 30000 is invalid", {"thinkingBudget": 30000}),
        ("2.5-flash", "include_thoughts is only", {"thinkingBudget": 0, "includeThoughts": True}),
        ("2.0-flash", "thinking is not supported", {"includeThoughts": True}))],
    ("2.5-pro", "response mime type", {**with_config(responseMimeType="application/json"),
                                       "tools": [{"functionDeclarations": [OLD_FUNCTION]}]}),
    ("3-pro", "duplicate safety", body(safetySettings=[
        {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}] * 2)),
    ("3-pro", "safety_settings[0].category", body(safetySettings=[{"category": "RUDE", "threshold": "OFF"}])),
    ("3-pro", "only supports text", body(systemInstruction={"parts": [PNG]})),
    ("3-pro", "CachedContent", body(cachedContent="c", systemInstruction={"parts": [{"text": "x"}]})),
]


@pytest.mark.parametrize(("model", "why", "bad"), BAD, ids=[why for _, why, _ in BAD])
def test_what_google_refuses(model: str, why: str, bad: dict[str, Any]) -> None:
    assert why in (refusal(bad, f"models/gemini-{model}") or "taken")


def test_old_gemma_has_neither_functions_nor_a_system() -> None:
    for bad in (body(tools=[{"functionDeclarations": [OLD_FUNCTION]}]),
                with_config(responseMimeType="application/json"), body(systemInstruction={"parts": [{"text": "x"}]})):
        assert "is not enabled for models/gemma" in (refusal(bad, "gemma-3-27b-it") or "taken")
    assert refusal(body(USER, SAID, USER), "gemma-3-27b-it") is None
    assert refusal(body(systemInstruction={"parts": [{"text": "x"}]}, tools=[{"functionDeclarations": [OLD_FUNCTION]}]),
                   "gemma-4-31b-it") is None


def test_every_unknown_name_is_reported_at_once() -> None:
    found = refused(body({"role": "user", "id": 1, "parts": [{"text": "x", "cache_control": {}}]}, n=1), "gemini-3-pro")
    assert found is not None
    error: Any = found.body()["error"]
    assert error["code"] == 400
    assert error["status"] == "INVALID_ARGUMENT"
    fields = [one["field"] for one in error["details"][0]["fieldViolations"]]
    assert sorted(fields) == ["", "contents[0]", "contents[0].parts[0]"]


def test_vertex_has_other_fields() -> None:
    ids = body(USER, *turn([call(signature=BYPASS, id="1")], [response(id="1")]))
    assert "Unknown name \"id\" at 'contents[1].parts[0].function_call'" in (refusal(ids, "gemini-3-pro", vertex=True)
                                                                             or "taken")
    assert refusal(ids, "gemini-3-pro") is None
    for fields in ({"labels": {"a": "b"}}, {"generationConfig": {"audioTimestamp": True}}):
        assert refusal(body(**fields), "gemini-3-pro", vertex=True) is None
        assert "Unknown name" in (refusal(body(**fields), "gemini-3-pro") or "taken")
    file = body({"role": "user", "parts": [{"fileData": {"fileUri": "gs://bucket/a.png"}}]})
    assert "mimeType" in (refusal(file, "gemini-3-pro", vertex=True) or "taken")
    assert refusal(file, "gemini-3-pro") is None


def test_a_signature_must_have_been_issued_here_for_this_part() -> None:
    asked = body(USER, *SIGNED_TURN)
    assert refusal(asked, "gemini-3-pro", issued={SIGNATURE}) is None
    assert refusal(asked, "gemini-3-pro", issued={SIGNATURE: call()}) is None
    assert refusal(asked, "gemini-3-pro", issued=set()) == "Corrupted thought signature."
    assert refusal(asked, "gemini-2.5-pro", issued={}) == "Corrupted thought signature."
    for other in (call("g"), call(args={"a": 2}), {"text": "x"}):
        assert "of another part" in (refusal(asked, "gemini-3-pro", issued={SIGNATURE: other}) or "taken")
    old = body(USER, *SIGNED_TURN, SAID, USER)
    assert refusal(old, "gemini-3-pro", issued=set()) == "Corrupted thought signature.", "in old turns as well"


# -------------------------------------------------------------------------------------------------------------- schemas
def in_object(inner: Any, **more: Any) -> dict[str, Any]:
    return {"type": "OBJECT", "properties": {"p": inner}, **more}


@pytest.mark.parametrize("schema", [
    in_object({"type": "STRING", "enum": ["a", "b"], "format": "enum"}),
    in_object({"type": "ARRAY", "items": {"type": "NUMBER", "minimum": 0.5}, "minItems": 1}, required=["p"]),
    in_object({"anyOf": [{"type": "STRING"}, {"type": "NULL"}], "description": "either"}),
    in_object({"type": "object", "nullable": True, "default": {"x": []}}),
    {"type": "OBJECT", "properties": {name: {"type": "STRING"} for name in (
        "type", "title", "$ref", "properties", "default", "a-b")}, "propertyOrdering": ["type"]},
])
def test_openapi_schemas_that_are_taken(schema: Any) -> None:
    assert check_schema(schema, json_schema=False) is None


@pytest.mark.parametrize(("why", "schema"), [
    *[(f'Unknown name "{key}"', in_object({"type": "STRING", key: value})) for key, value in (
        ("$schema", ""), ("$ref", "#"), ("$defs", {}), ("const", 1), ("oneOf", []), ("allOf", []), ("not", {}),
        ("exclusiveMinimum", 0), ("additionalProperties", False), ("propertyNames", {}), ("multipleOf", 2),
        ("patternProperties", {}), ("prefixItems", []), ("examples", []), ("if", {}), ("x-mine", 1))],
    ("cannot start list", in_object({"type": ["STRING", "NULL"]})), ("Invalid value", in_object({"type": "file"})),
    ("Invalid value", in_object(True)), ("enum: only allowed", in_object({"type": "INTEGER", "enum": ["1"]})),
    ("TYPE_STRING", in_object({"type": "STRING", "enum": [1]})),
    ("cannot be empty", in_object({"type": "STRING", "enum": ["a", ""]})),
    ("format", in_object({"type": "STRING", "format": "uri"})),
    ("format", in_object({"type": "INTEGER", "format": "uint8"})),
    ("items: missing", in_object({"type": "ARRAY"})), ("Type.ARRAY", in_object({"items": {"type": "STRING"}})),
    ("cannot start list", in_object({"type": "ARRAY", "items": [{}]})),
    ("required[0]", in_object({"type": "STRING"}, required=["q"])),
    ("only allowed for OBJECT", in_object({"properties": {"a": {"type": "STRING"}}})),
    ("TYPE_INT64", in_object({"type": "STRING", "minLength": 1.5})),
    ("should be OBJECT", {"type": "STRING"}), ("should be OBJECT", {"properties": {"a": {"type": "STRING"}}}),
    ("non-empty", {"type": "OBJECT", "properties": {}}), ("non-empty", {"type": "OBJECT"}),
])
def test_openapi_schemas_that_are_refused(why: str, schema: Any) -> None:
    assert why in (check_schema(schema, json_schema=False) or "taken")


def test_vertex_wants_any_of_alone_and_every_type() -> None:
    cases: list[tuple[Any, str]] = [({"anyOf": [{"type": "STRING"}], "description": "x"}, "alongside any_of"),
                                    ({}, "schema type")]
    for inner, why in cases:
        assert check_schema(in_object(inner), json_schema=False) is None
        assert why in (check_schema(in_object(inner), json_schema=False, vertex=True) or "taken")


@pytest.mark.parametrize("schema", [
    {"type": "object"},
    {"type": "object", "properties": {"const": {"enum": [1, "a"]}, "$ref": {"type": ["string", "null"]}},
     "required": ["const"], "additionalProperties": False},
    {"type": "object", "$defs": {"n": {"type": "integer", "minimum": 0}}, "properties": {
        "a": {"$ref": "#/$defs/n"}, "b": {"oneOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}},
    {"type": "object", "properties": {"a": {"type": "array", "prefixItems": [{"type": "string"}], "items": True}}},
])
def test_json_schemas_that_are_taken(schema: Any) -> None:
    assert check_schema(schema, json_schema=True) is None


ODD_VALUES: list[Any] = [
    {"type": "STRING"}, {"type": []}, {"enum": []}, {"enum": [None]}, {"enum": [True]}, {"anyOf": []},
    {"required": "p"}, {"minItems": -1}, {"minimum": "0"}, {"properties": []}]


@pytest.mark.parametrize(("why", "schema"), [
    *[(f"keyword '{key}'", {"type": "object", "properties": {"p": {key: value}}}) for key, value in (
        ("$schema", ""), ("const", 1), ("allOf", [{}]), ("exclusiveMinimum", 0), ("nullable", True), ("pattern", "x"),
        ("definitions", {}), ("minLength", 1), ("default", 1), ("x-mine", 1))],
    ("must describe an object", {"type": "array"}), ("must describe an object", {}),
    *[("invalid value", {"type": "object", "properties": {"p": inner}}) for inner in ODD_VALUES],
    ("must be an object", {"type": "object", "properties": {"p": True}}),
    ("not a definition", {"type": "object", "properties": {"p": {"$ref": "#/$defs/n"}}}),
    ("not a definition", {"type": "object", "properties": {"p": {"$ref": "https://example.com/schema"}}}),
    ("beside '$ref'", {"type": "object", "$defs": {"n": {}}, "properties": {
        "p": {"$ref": "#/$defs/n", "description": "x"}}}),
    ("cyclic", {"type": "object", "properties": {"p": {"$ref": "#"}}}),
])
def test_json_schemas_that_are_refused(why: str, schema: Any) -> None:
    assert why in (check_schema(schema, json_schema=True) or "taken")


@pytest.mark.parametrize("json_schema", [True, False])
@pytest.mark.parametrize("levels", [100, 20_000])
def test_deep_schemas_are_refused_not_followed(json_schema: bool, levels: int) -> None:
    schema: dict[str, Any] = {"type": "object" if json_schema else "STRING"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"p": schema}}
    assert "Message too deep" in (check_schema(schema, json_schema=json_schema) or "taken")
    asked = with_function(schema, "parametersJsonSchema" if json_schema else "parameters")
    assert "Message too deep" in (refusal(asked, "gemini-3-pro") or "taken")
