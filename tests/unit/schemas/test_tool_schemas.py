"""The schemas of tools as a provider gets them: regular expressions, references, and places that cannot be sent.

Claude Code sends the pattern of its tool Artifact with every interactive request.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc import Translation
from extproc.errors import RequestError
from extproc.schemas.portable_regex import portable
from tests.providers import anthropic_rules, openai_rules

ARTIFACT = r'^(?!__.*__$)[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}"\\./[\]]{1,200}$'
THIRD_PARTIES = ["https://api.deepseek.com/anthropic", "https://api.moonshot.ai/anthropic",
                 "https://api.z.ai/api/anthropic", "https://api.minimax.io/anthropic", "http://127.0.0.1:8000/v1"]
Json = dict[str, Any]


def asked(client: str, schema: Any, **more: Any) -> bytes:
    """A client's request with the tool `save`, which has this schema."""
    body: Json = {"model": "client-model", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}], **more}
    if client == "anthropic":
        body["tools"] = [{"name": "save", "input_schema": schema}]
    else:
        body["tools"] = [{"type": "function", "function": {"name": "save", "parameters": schema}}]
    return json.dumps(body).encode()


def sent(client: str, upstream: str, schema: Any, *, url: str, model: str, lossy: str = "report",
         **more: Any) -> tuple[Json, list[str]]:
    """The provider's body, and the names of the losses."""
    talk = Translation(client, upstream, url=url, model=model, lossy=lossy)
    body: Json = json.loads(talk.request(asked(client, schema, **more)).body)
    return body, talk.dropped.losses


def schema_in(body: Json) -> Json:
    tool = body["tools"][0]
    found: Json = tool["input_schema"] if "input_schema" in tool else tool["function"]["parameters"]
    return found


def field(**schema: Any) -> Json:
    return {"type": "object", "properties": {"field": schema}, "required": ["field"]}


# ------------------------------------------------------------------------------------------------- regular expressions


@pytest.mark.parametrize("url", THIRD_PARTIES)
@pytest.mark.parametrize("client", ["anthropic", "openai"])
def test_a_pattern_that_third_parties_do_not_compile_moves_into_the_description(client: str, url: str) -> None:
    schema = field(type="string", pattern=ARTIFACT, description="A name")
    body, lost = sent(client, "anthropic", schema, url=url, model="glm-5.3")
    found = schema_in(body)["properties"]["field"]
    assert found == {"type": "string", "description": f"A name\nMust match the regular expression {ARTIFACT}."}
    assert lost == [], "the model still knows it"


@pytest.mark.parametrize("url", THIRD_PARTIES)
def test_only_the_tool_with_such_a_pattern_is_re_encoded(url: str) -> None:
    """Everything else in a forwarded request keeps its bytes, so that prompt caches hit."""
    odd = json.dumps({"name": "save", "input_schema": field(type="array", items={"anyOf": [{"pattern": ARTIFACT}]}),
                      "cache_control": {"type": "ephemeral"}}).encode()
    plain = (b'{"name":"go",  "input_schema":{"type":"object","properties":{"pattern":{"type":"string",'
             b'"pattern":"^a+$"}}}}')
    body = (b'{"model":"m", "max_tokens":10, "brand_new":  1, "messages":[{"role":"user","content":"hi"}],"tools":['
            + odd + b"," + plain + b"]}")
    talk = Translation("anthropic", "anthropic", url=url, model="kimi-k3")
    passed = talk.request(body).body
    assert plain in passed
    assert json.loads(passed)["brand_new"] == 1
    first = json.loads(passed)["tools"][0]
    assert "pattern" not in first["input_schema"]["properties"]["field"]["items"]["anyOf"][0]
    assert first["cache_control"] == {"type": "ephemeral"}


def test_anthropic_itself_gets_the_pattern_unchanged() -> None:
    schema = field(type="string", pattern=ARTIFACT)
    body, _ = sent("anthropic", "anthropic", schema, url="https://api.anthropic.com/v1", model="claude-sonnet-4-5")
    assert schema_in(body) == schema


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5"])
def test_a_forwarded_chat_request_to_openai_gets_a_description_as_well(model: str) -> None:
    body, lost = sent("openai", "openai", field(type="string", pattern=ARTIFACT), url="https://api.openai.com/v1",
                      model=model)
    assert "pattern" not in schema_in(body)["properties"]["field"]
    assert openai_rules.refusal({**body, "model": model, "max_tokens": None} if model == "gpt-4o" else body) is None
    assert lost == []


@pytest.mark.parametrize("pattern", [
    "^a(?!b)", "(?<=a)b", "(?<!a)b", "(?=a)", r"\p{L}", r"\P{L}", "a++", "a*+", "a?+", "a{1,2}+", "(?>a)", "(?i)a",
    "(?i:a)", r"(a)\1", r"(?P<x>a)(?P=x)", r"\k<x>", r"\Aa\Z", r"\z", r"a\R", r"\h", r"\Qa\E", r"\cA", "[[:alpha:]]",
    "(?#note)a", "(?|a|b)", "(?(1)a|b)", "[]a]", "[^]a]", "(", "[a", "a{2000}", r"[\b]", r"\ud83d\ude00", "(*UTF8)a",
    r"\X", r"\G", "a**", "a{,5}", r"\x{41}", "[z-a]"])
def test_syntax_that_some_engine_refuses_is_not_sent(pattern: str) -> None:
    body, _ = sent("anthropic", "anthropic", field(type="string", pattern=pattern), url=THIRD_PARTIES[0], model="m")
    found = schema_in(body)["properties"]["field"]
    assert "pattern" not in found
    assert pattern in found["description"]


@pytest.mark.parametrize(("pattern", "written"), [
    ("^[0-9a-f]{32}$", None), (r"^\d{4}-\d{2}$", None), (r"[\w.+-]+@[\w-]+\.com", None), ("(?:a|b)*?c", None),
    (r"\/\$\.\-\\", None), (r"a\tb\x41\0", None), ("^$", None), ("[^\"/]+", None), ("caf\u00e9", None),
    ("(?P<year>[0-9]+)", "([0-9]+)"), ("(?<year>[0-9]+)", "([0-9]+)"), (r"[^\u0000-\u001f]", r"[^\x00-\x1f]"),
    (r"\u4e2d+", "\u4e2d+"), ("[a[]", r"[a\[]")])
def test_what_every_engine_compiles_stays_or_keeps_its_meaning(pattern: str, written: str | None) -> None:
    body, _ = sent("openai", "anthropic", field(type="string", pattern=pattern), url=THIRD_PARTIES[0], model="m")
    assert schema_in(body)["properties"]["field"] == {"type": "string", "pattern": written or pattern}


@given(st.text(alphabet=r"ab()[]{}*+?|^$.\\:=!<>-,0123puPdwsAZ", max_size=12))
def test_portable_is_idempotent_and_its_result_compiles(pattern: str) -> None:
    found = portable(pattern)
    if found is None:
        return
    assert portable(found) == found
    re.compile(found)


# ------------------------------------------------------------------------------------ Gemini behind the OpenAI format

MESSY = {
    "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": False,
    "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "to": {"format": "uri",
                                                                                             "type": "string"}}}},
    "properties": {"root": {"$ref": "#/$defs/Node"}, "mode": {"const": "fast"},
                   "at": {"type": "string", "format": "date"},
                   "n": {"type": ["integer", "null"], "exclusiveMinimum": 0}, "which": {"enum": [1, 2, None]},
                   "map": {"type": "object", "additionalProperties": {"type": "string"},
                           "propertyNames": {"pattern": "^x-"}},
                   "either": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}},
    "required": ["root"]}


@pytest.mark.parametrize("client", ["anthropic", "openai"])
@pytest.mark.parametrize(("url", "model", "endpoint"), [
    ("https://openrouter.ai/api/v1", "google/gemini-3-pro-preview", "openrouter"),
    ("https://openrouter.ai/api/v1", "google/gemini-2.5-pro", "openrouter"),
    ("https://api.kilo.ai/api/openrouter", "google/gemini-3-pro-preview", "openrouter"),
    ("https://generativelanguage.googleapis.com/v1beta/openai", "gemini-3-pro-preview", "gemini-compat"),
    ("https://generativelanguage.googleapis.com/v1beta/openai", "gemini-2.5-flash", "gemini-compat"),
    ("https://generativelanguage.googleapis.com/v1beta/openai", "gemini-4-hydrogen", "gemini-compat")])
def test_gemini_behind_an_openai_endpoint_gets_its_own_schemas(client: str, url: str, model: str,
                                                                   endpoint: str) -> None:
    body, lost = sent(client, "openai", MESSY, url=url, model=model)
    assert openai_rules.refusal(body, endpoint) is None
    found = schema_in(body)
    assert found["properties"]["mode"] == {"type": "string", "enum": ["fast"]}
    assert found["properties"]["root"]["properties"]["to"]["type"] == "string"
    assert found["properties"]["n"]["nullable"] is True
    assert lost == []


def test_other_models_of_an_aggregator_keep_references() -> None:
    body, _ = sent("anthropic", "openai", MESSY, url="https://openrouter.ai/api/v1", model="qwen/qwen3-coder")
    assert schema_in(body)["properties"]["root"] == {"$ref": "#/$defs/Node"}


def test_the_schema_of_structured_output_is_rewritten_for_gemini_as_well() -> None:
    talk = Translation("openai", "openai", url="https://openrouter.ai/api/v1", model="google/gemini-3-pro-preview")
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": MESSY}}
    body = json.loads(talk.request(json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}],
                                               "response_format": wanted}).encode()).body)
    assert openai_rules.refusal(body, "openrouter") is None


def test_a_tool_without_parameters_stays_an_object() -> None:
    body, _ = sent("openai", "openai", {}, url="https://openrouter.ai/api/v1", model="google/gemini-3-pro-preview")
    assert schema_in(body) == {"type": "object", "properties": {}}


# ---------------------------------------------------------------------------------------------- what cannot be sent

PROVIDERS = [("openai", "https://api.openai.com/v1", "gpt-4o"), ("openai", "http://127.0.0.1:9/v1", "some-model"),
             ("openai", "https://openrouter.ai/api/v1", "google/gemini-3-pro-preview"),
             ("anthropic", "https://api.anthropic.com/v1", "claude-sonnet-4-5"),
             ("gemini", "https://generativelanguage.googleapis.com/v1beta", "gemini-3-pro-preview"),
             ("gemini", "https://generativelanguage.googleapis.com/v1beta", "gemini-2.0-flash")]
FAULTS: list[tuple[Any, str]] = [
    (field(type="objekt"), "tools[save].schema.properties.field.type"),
    (field(type=["string", "objekt"]), "tools[save].schema.properties.field.type"),
    (field(type=7), "tools[save].schema.properties.field.type"),
    ({"type": "objekt", "properties": {}}, "tools[save].schema.type"),
    (field(**{"$ref": "#/$defs/Gone"}), "tools[save].schema.properties.field.$ref"),
    (field(**{"$ref": "https://example.com/item.json"}), "tools[save].schema.properties.field.$ref"),
    (field(type="array", items={"anyOf": [{"$ref": "#/definitions/Gone"}]}),
     "tools[save].schema.properties.field.items.anyOf.0.$ref"),
    ({"type": "object", "properties": {"a": {"type": "string"}}, "$ref": "#/$defs/Gone"}, "tools[save].schema.$ref"),
    ({"type": "object", "properties": {"field": "string"}}, "tools[save].schema.properties.field"),
    (field(type="array", items="string"), "tools[save].schema.properties.field.items"),
    (field(type="string", enum="a"), "tools[save].schema.properties.field.enum"),
    (field(anyOf=["string", {"type": "integer"}]), "tools[save].schema.properties.field.anyOf.0"),
    ({"type": "object", "properties": {"a": {"type": "string"}}, "required": "a"}, "tools[save].schema.required"),
    ("a schema that is a string", "tools[save].schema"),
    (["type", "object"], "tools[save].schema"),
]


RE_ENCODED = [(client, *provider) for client in ("anthropic", "openai") for provider in PROVIDERS
                if (client, provider[0]) != ("anthropic", "anthropic") and (client, provider[1]) != ("openai",
                                                                                                     PROVIDERS[0][1])]


@pytest.mark.parametrize(("client", "upstream", "url", "model"), RE_ENCODED)
@pytest.mark.parametrize(("schema", "place"), FAULTS)
def test_a_schema_that_was_changed_in_meaning_is_a_named_loss(client: str, schema: Any, place: str, upstream: str,
                                                                  url: str, model: str) -> None:
    """Requests that are re-encoded. A forwarded request keeps its schemas: the provider judges them."""
    body, lost = sent(client, upstream, schema, url=url, model=model)
    assert lost == [place]
    if upstream == "openai":
        assert openai_rules.refusal(body, "openrouter" if "openrouter" in url else "openai") is None
    if upstream == "anthropic":
        assert anthropic_rules.refusal(body) is None


@pytest.mark.parametrize("client", ["anthropic", "openai"])
def test_lossy_reject_refuses_it_and_says_where(client: str) -> None:
    with pytest.raises(RequestError) as refused:
        sent(client, "gemini", field(type="objekt"), url=PROVIDERS[4][1], model=PROVIDERS[4][2], lossy="reject")
    assert refused.value.status == 400
    assert "tools[save].schema.properties.field.type" in json.loads(refused.value.body)["error"]["message"]


def test_the_place_is_in_the_response_header() -> None:
    talk = Translation("anthropic", "openai", url="http://127.0.0.1:9/v1", model="m")
    talk.request(asked("anthropic", field(type="objekt")))
    talk.start(200, {"content-type": "application/json"})
    talk.feed(b'{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}')
    talk.finish()
    assert talk.head is not None
    assert "tools[save].schema.properties.field.type" in talk.head.headers["x-extproc-dropped"]


@pytest.mark.parametrize("schema", [
    field(type="str"), field(type="String"), field(type="list[str]"), field(type="uint8"),
    field(type="any"), field(type=None), field(), field(type=[]),
    field(type="string", pattern=ARTIFACT), field(type="string", enum=[], required=False), field(**{"$ref": "#"}),
    {"type": "object", "properties": []}, {}, None, MESSY, field(type="array"), field(type="string", minLength=None),
    {"$defs": {"A": {"$id": "a.json", "type": "string"}}, **field(**{"$ref": "a.json"})},
    {"$defs": {"A": {"$anchor": "a", "type": "string"}}, **field(**{"$ref": "#a"})},
    field(type="integer", minimum=3, exclusiveMinimum=True), {"anyOf": [field(type="string"), field(type="integer")]}])
@pytest.mark.parametrize(("upstream", "url", "model"), PROVIDERS)
def test_what_keeps_its_meaning_or_is_described_is_no_loss(schema: Any, upstream: str, url: str,
                                                                   model: str) -> None:
    client = "anthropic" if upstream != "anthropic" else "openai"
    assert sent(client, upstream, schema, url=url, model=model)[1] == []


def test_a_reference_by_name_becomes_a_path() -> None:
    schema = {"$defs": {"a/b": {"$id": "item.json", "type": "string"}}, **field(**{"$ref": "item.json"})}
    body, _ = sent("anthropic", "openai", schema, url="http://127.0.0.1:9/v1", model="m")
    assert schema_in(body)["properties"]["field"] == {"$ref": "#/$defs/a~1b"}
