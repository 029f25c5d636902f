"""Function declarations, `toolConfig` for every choice, and server tools."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from extproc.conversation.model import Message, Request, ServerTool, Text, Tool, ToolChoice
from extproc.conversation.notes import ONE_CALL
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.translation.exchange import Translation
from tests.providers.gemini_rules import refusal
from tests.unit.apis.gemini.request.helpers import (
    FLASH_25,
    GEMMA,
    LATEST,
    OLD,
    PRO_3,
    VERTEX,
    assistant,
    call,
    encode,
    result,
    roles,
    sent,
    target,
    tool,
    user,
)

READ, WRITE = tool("read"), tool("write")
SEARCH = ServerTool("anthropic", "web_search_20250305", "web_search",
                    b'{"type":"web_search_20250305","name":"web_search","max_uses":8}')
FETCH = ServerTool("anthropic", "web_fetch_20250910", "web_fetch", b'{"type":"web_fetch_20250910","name":"web_fetch"}')
CODE = ServerTool("anthropic", "code_execution_20250825", "code_execution",
                  b'{"type":"code_execution_20250825","name":"code_execution"}')
COMPUTER = ServerTool("anthropic", "computer_20250124", "computer", b'{"type":"computer_20250124","name":"computer"}')


def calling(body: dict[str, Any]) -> dict[str, Any] | None:
    config: dict[str, Any] | None = body.get("toolConfig", {}).get("functionCallingConfig")
    return config


def declarations(body: dict[str, Any]) -> list[dict[str, Any]]:
    [only] = body["tools"]
    found: list[dict[str, Any]] = only["functionDeclarations"]
    return found


# ------------------------------------------------------------------------------------------------------- declarations


def test_a_newer_model_gets_json_schema():
    [declaration] = declarations(encode(tools=[READ]))
    assert declaration["name"] == "read"
    assert declaration["description"] == "does it"
    assert declaration["parametersJsonSchema"]["properties"] == {"path": {"type": "string"}}
    assert "parameters" not in declaration


def test_an_older_model_gets_the_openapi_subset():
    [declaration] = declarations(encode(tools=[READ], model=OLD))
    assert declaration["parameters"] == {"type": "OBJECT", "properties": {"path": {"type": "STRING"}}}
    assert "parametersJsonSchema" not in declaration


def test_an_older_model_gets_no_parameters_for_a_function_without_arguments():
    [declaration] = declarations(encode(tools=[Tool("now", None, {"type": "object", "properties": {}})], model=OLD))
    assert declaration == {"name": "now"}


@pytest.mark.parametrize("model", [PRO_3, FLASH_25, OLD])
@pytest.mark.parametrize("settings", [{}, VERTEX])
def test_p7_unusual_schemas_are_accepted_by_every_endpoint_and_model(model, settings):
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": False,
              "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
              "properties": {"node": {"$ref": "#/$defs/node"}, "default": {"type": ["string", "null"]},
                             "$ref": {"const": 3}, "limit": {"type": "number", "exclusiveMinimum": 0},
                             "mode": {"anyOf": [{"type": "string", "enum": ["a", ""]}, {"type": "null"}]},
                             "list": {"type": "array"}, "at": {"type": "string", "format": "uri"}},
              "required": ["node", "absent"]}
    [declaration] = declarations(encode(tools=[Tool("odd", None, schema)], model=model, settings=settings))
    found = declaration.get("parameters") or declaration["parametersJsonSchema"]
    assert list(found["properties"]) == list(schema["properties"])


@pytest.mark.parametrize("name", ["mcp__server__" + "x" * 80, "a/b", "1st", "ns.tool:v1-x", "ü"])
def test_names_that_gemini_refuses_are_mapped_and_restored(name):
    request = Request(model="m", tools=[tool(name)], tool_choice=ToolChoice("tool", name),
                      messages=[user("go"), assistant(call("a", name)), user(result("a", "A"))])
    encoded = sent(request, target())
    body = json.loads(encoded.request.body)
    [declaration] = declarations(body)
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}", declaration["name"])
    assert encoded.names.client_name(declaration["name"]) == name
    assert calling(body) == {"mode": "ANY", "allowedFunctionNames": [declaration["name"]]}
    assert body["contents"][1]["parts"][0]["functionCall"]["name"] == declaration["name"]
    assert body["contents"][2]["parts"][0]["functionResponse"]["name"] == declaration["name"]


@pytest.mark.parametrize("spelt", ["default_api.read", "default_api:read", "functions.read", "read"])
def test_the_namespace_of_geminis_prompt_is_removed_from_a_called_name(spelt):
    encoded = sent(Request(model="m", messages=[user("go")], tools=[READ]), target())
    assert encoded.names.client_name(spelt) == "read"


def test_too_many_tools_are_refused():
    with pytest.raises(BadRequest, match="3 tools are offered, this model takes at most 2"):
        encode(tools=[tool(str(n)) for n in range(3)], settings={"max_tools": 2})


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(BadRequest, match="used by two tools"):
        encode(tools=[READ, READ])


# -------------------------------------------------------------------------------------------------------- tool_choice


@pytest.mark.parametrize(("choice", "expected"), [
    (None, None),
    (ToolChoice("auto"), {"mode": "AUTO"}),
    (ToolChoice("required"), {"mode": "ANY"}),
    (ToolChoice("tool", "write"), {"mode": "ANY", "allowedFunctionNames": ["write"]}),
    (ToolChoice("none"), {"mode": "NONE"}),
    (ToolChoice("auto", allowed=("write",)), {"mode": "VALIDATED", "allowedFunctionNames": ["write"]}),
    (ToolChoice("required", allowed=("write", "read")), {"mode": "ANY", "allowedFunctionNames": ["read", "write"]}),
])
@pytest.mark.parametrize("model", [PRO_3, FLASH_25])
def test_every_choice(choice, expected, model):
    body = encode(tools=[READ, WRITE], tool_choice=choice, model=model)
    assert calling(body) == expected
    assert [one["name"] for one in declarations(body)] == ["read", "write"]


@pytest.mark.parametrize(("choice", "mode"), [(None, "VALIDATED"), (ToolChoice("auto"), "VALIDATED"),
                                              (ToolChoice("required"), "ANY"), (ToolChoice("none"), "NONE")])
def test_a_strict_tool_makes_calls_fit_their_schemas(choice, mode):
    assert calling(encode(tools=[READ, tool("write", strict=True)], tool_choice=choice)) == {"mode": mode}


def test_a_model_without_that_mode_is_only_offered_the_allowed_tools():
    dropped = Dropped()
    body = encode(tools=[READ, tool("write", strict=True)], tool_choice=ToolChoice("auto", allowed=("write",)),
                  model=OLD, dropped=dropped)
    assert [one["name"] for one in declarations(body)] == ["write"]
    assert calling(body) == {"mode": "AUTO"}
    assert dropped.hints == ["tools.strict"]


def test_the_attempts_choice_overrides_the_clients():
    body = encode(tools=[READ], tool_choice=ToolChoice("none"), settings={"tool_choice": "required"})
    assert calling(body) == {"mode": "ANY"}


@pytest.mark.parametrize("choice", [ToolChoice("tool", "absent"), ToolChoice("auto", allowed=("absent",))])
def test_a_choice_of_a_tool_that_is_not_offered_is_refused(choice):
    with pytest.raises(BadRequest, match="'absent' is not among the tools"):
        encode(tools=[READ], tool_choice=choice)


@pytest.mark.parametrize("choice", [None, ToolChoice("auto"), ToolChoice("none"), ToolChoice("required")])
def test_without_tools_there_is_no_tool_config(choice):
    body = encode(tool_choice=choice)
    assert "toolConfig" not in body
    assert "tools" not in body


@pytest.mark.parametrize("fields", [{"parallel_tool_calls": False}, {"settings": {"parallel_tool_calls": False}}])
def test_a_request_for_single_calls_becomes_an_instruction_and_is_named(fields):
    dropped = Dropped()
    body = encode(tools=[READ], system=[Text("be kind")], dropped=dropped, **fields)
    assert body["systemInstruction"]["parts"][0]["text"] == f"be kind\n\n{ONE_CALL}"
    assert dropped.losses == ["parallel_tool_calls"]


def test_several_calls_are_the_default_and_need_no_instruction():
    dropped = Dropped()
    body = encode(tools=[READ], parallel_tool_calls=False, settings={"parallel_tool_calls": True}, dropped=dropped)
    assert "systemInstruction" not in body
    assert dropped.losses == []


# ------------------------------------------------------------------------------------------------------- server tools


@pytest.mark.parametrize(("given", "expected"), [(SEARCH, {"googleSearch": {}}), (FETCH, {"urlContext": {}}),
                                                 (CODE, {"codeExecution": {}})])
def test_server_tools_become_googles_own(given, expected):
    dropped = Dropped()
    body = encode(server_tools=[given, given], dropped=dropped)
    assert body["tools"] == [expected]
    assert dropped.losses == []


def test_claude_codes_web_search_request_searches():
    body = json.dumps({
        "model": "claude", "max_tokens": 32000, "stream": True,
        "system": "You are an assistant for performing a web search tool use",
        "messages": [{"role": "user", "content": "Perform a web search for the query: envoy 1.40"}],
        "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}],
        "tool_choice": {"type": "tool", "name": "web_search"}}).encode()
    exchange = Translation(client="anthropic", upstream="gemini", model=PRO_3, lossy="reject")
    sent_body = json.loads(exchange.request(body).body)
    assert sent_body["tools"] == [{"googleSearch": {}}]
    assert "toolConfig" not in sent_body
    assert "Use your tool web_search to answer" in sent_body["systemInstruction"]["parts"][0]["text"]


def test_the_settings_of_a_clients_search_are_named():
    dropped = Dropped()
    raw = b'{"type":"web_search_20250305","name":"web_search","allowed_domains":["a.b"],"blocked_domains":[]}'
    encode(server_tools=[ServerTool("anthropic", "web_search_20250305", "web_search", raw)], dropped=dropped)
    assert dropped.losses == ["tools.web_search_20250305.allowed_domains"]


@pytest.mark.parametrize("model", ["gemini-2.5-pro", "gemini-2.5-flash", "gemma-4-31b-it"])
def test_older_models_refuse_server_tools_beside_functions_so_they_are_omitted_and_named(model):
    dropped = Dropped()
    body = encode(tools=[READ], server_tools=[SEARCH], model=model, dropped=dropped)
    assert [one["name"] for one in declarations(body)] == ["read"]
    assert dropped.losses == ["tools.web_search_20250305"]


@pytest.mark.parametrize("model", [PRO_3, "gemini-3.8-flash", "gemini-4-hydrogen"])
@pytest.mark.parametrize(("given", "own"), [(SEARCH, {"googleSearch": {}}), (FETCH, {"urlContext": {}}),
                                            (CODE, {"codeExecution": {}})])
def test_from_gemini_3_on_server_tools_stand_beside_functions(model, given, own):
    dropped = Dropped()
    body = encode(tools=[READ], server_tools=[given, given], model=model, dropped=dropped)
    assert [one["name"] for one in body["tools"][0]["functionDeclarations"]] == ["read"]
    assert body["tools"][1:] == [own]
    assert body["toolConfig"] == {"includeServerSideToolInvocations": True}
    assert dropped.losses == []


def test_vertex_takes_both_without_the_switch_which_it_does_not_know():
    body = encode(tools=[READ], server_tools=[SEARCH], settings={"provider": "vertex"})
    assert body["tools"][1:] == [{"googleSearch": {}}]
    assert "toolConfig" not in body


@pytest.mark.parametrize(("choice", "config"), [
    (ToolChoice("auto"), None), (ToolChoice("required"), {"mode": "ANY"}),
    (ToolChoice("tool", "read"), {"mode": "ANY", "allowedFunctionNames": ["read"]})])
def test_a_choice_among_functions_stays_beside_a_search(choice, config):
    body = encode(tools=[READ], server_tools=[SEARCH], tool_choice=choice)
    assert body["toolConfig"].get("functionCallingConfig") == config
    assert body["toolConfig"]["includeServerSideToolInvocations"] is True


def test_tool_choice_none_removes_the_search_too():
    body = encode(tools=[READ], server_tools=[SEARCH], tool_choice=ToolChoice("none"))
    assert len(body["tools"]) == 1
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}


def test_server_tools_without_an_equivalent_are_named_beside_functions_too():
    dropped = Dropped()
    body = encode(tools=[READ], server_tools=[COMPUTER, SEARCH], dropped=dropped)
    assert body["tools"][1:] == [{"googleSearch": {}}]
    assert dropped.losses == [f"tools.{COMPUTER.type}"]


@pytest.mark.parametrize("client", ["anthropic", "openai"])
def test_a_clients_search_and_its_functions_reach_gemini_together(client):
    body = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "go"}]}
    if client == "anthropic":
        body["tools"] = [{"type": "web_search_20250305", "name": "web_search"},
                         {"name": "read", "input_schema": {"type": "object", "properties": {}}}]
    else:
        body["tools"] = [{"type": "web_search"}, {"type": "function", "function": {"name": "read"}}]
    exchange = Translation(client=client, upstream="gemini", model=PRO_3, lossy="reject")
    sent_body = json.loads(exchange.request(json.dumps(body).encode()).body)
    assert [sorted(tool) for tool in sent_body["tools"]] == [["functionDeclarations"], ["googleSearch"]]
    assert sent_body["toolConfig"] == {"includeServerSideToolInvocations": True}


@pytest.mark.parametrize(("model", "effort", "level"), [
    ("gemini-4-hydrogen", "xhigh", "XHIGH"), ("gemini-4-hydrogen", "max", "XHIGH"),
    ("gemini-4-hydrogen", "high", "HIGH"), ("gemini-4-hydrogen", "minimal", "LOW"),
    ("gemini-4-argon", "xhigh", "HIGH"), ("gemini-4-carbon", "max", "HIGH"),
    ("gemini-3.8-flash", "xhigh", "HIGH"), ("gemini-flash-latest", "max", "HIGH")])
@pytest.mark.parametrize("client", ["anthropic", "openai"])
def test_gemini_4_hydrogen_thinks_up_to_xhigh(client, model, effort, level):
    body = {"model": "m", "max_tokens": 40000, "messages": [{"role": "user", "content": "go"}]}
    if client == "anthropic":
        body |= {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
    else:
        body["reasoning_effort"] = effort
    sent_body = json.loads(Translation(client=client, upstream="gemini", model=model).request(
        json.dumps(body).encode()).body)
    assert refusal(sent_body, model) is None
    assert sent_body["generationConfig"]["thinkingConfig"]["thinkingLevel"] == level


@pytest.mark.parametrize(("given", "model", "settings"), [(COMPUTER, PRO_3, {}), (SEARCH, GEMMA, {}),
                                                          (SEARCH, PRO_3, {"tool_style": "off"})])
def test_a_model_without_server_tools_gets_a_note(given, model, settings):
    dropped = Dropped()
    body = encode(server_tools=[given], model=model, settings=settings, dropped=dropped)
    assert "tools" not in body
    assert f"({given.name}) are not available" in json.dumps(body)
    assert dropped.losses == [f"tools.{given.type}"]


@pytest.mark.parametrize("fields", [{"tool_choice": ToolChoice("none")}, {"settings": {"tool_choice": "none"}}])
def test_a_choice_of_none_omits_server_tools(fields):
    assert "tools" not in encode(server_tools=[SEARCH], **fields)


# ------------------------------------------------------------------------------------------------------------- styles


def test_style_off_drops_the_tools_and_names_them():
    dropped = Dropped()
    body = encode(tools=[READ], tool_choice=ToolChoice("required"), settings={"tool_style": "off"}, dropped=dropped)
    assert "tools" not in body
    assert "toolConfig" not in body
    assert dropped.losses == ["tools"]


@pytest.mark.parametrize(("model", "settings"), [(PRO_3, {"tool_style": "prompted"}), (GEMMA, {})])
def test_tools_in_the_prompt(model, settings):
    """By wish, and for a model that takes no functions."""
    body = encode(user("go"), assistant(call("a")), user(result("a", "A")), tools=[READ], model=model,
                  settings=settings)
    assert "tools" not in body
    assert roles(body)[-2:] == ["model text", "user text"]
    assert "does it" in json.dumps(body)


def test_calls_of_a_model_without_functions_are_parsed_from_its_text():
    exchange = Translation(client="anthropic", upstream="gemini", model=GEMMA)
    exchange.request(json.dumps({
        "model": "claude", "max_tokens": 1000, "messages": [{"role": "user", "content": "look"}],
        "tools": [{"name": "Read", "input_schema": {"type": "object", "properties": {"p": {"type": "string"}}}}],
    }).encode())
    exchange.start(200, {"content-type": "application/json"})
    call_text = '<tool_call>\n{"name": "Read", "arguments": {"p": "a"}}\n</tool_call>'
    exchange.feed(json.dumps({"candidates": [{"content": {"role": "model", "parts": [{"text": call_text}]},
                                              "finishReason": "STOP"}]}).encode())
    response = json.loads(exchange.finish())
    assert [(block["name"], block["input"]) for block in response["content"]] == [("Read", {"p": "a"})]


@pytest.mark.parametrize("model", [PRO_3, LATEST, FLASH_25, OLD])
def test_past_calls_need_no_tools(model):
    """A side request without tools about a conversation with calls."""
    body = encode(user("go"), assistant(call("a")), user(result("a", "A"), "summarise"), model=model)
    assert roles(body) == ["user text", "model functionCall", "user functionResponse", "user text"]


def test_rule_6_the_request_itself_is_not_changed():
    schema = {"type": "object", "properties": {"a": {"const": 1}}}
    request = Request(model="m", messages=[Message("user", [Text("hi")])], tools=[Tool("t", None, schema)])
    sent(request, target())
    assert schema == {"type": "object", "properties": {"a": {"const": 1}}}
