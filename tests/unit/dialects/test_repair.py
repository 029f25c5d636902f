"""Damaged argument objects: the repairs and their names, and what is wrong with a value."""

from __future__ import annotations

import time

import pytest

from extproc.dialects.json.repair import Repaired, problems, read_object


@pytest.mark.parametrize("text", ["{}", '{"a": 1}', ' {"a": {"b": ["}", "\\"{"]}}\n', '{"n": 12345678901234567890123}'])
def test_valid_objects_need_no_repair(text: str) -> None:
    found = read_object(text)
    assert found is not None
    assert found.repairs == ()


@pytest.mark.parametrize(("text", "value", "repairs"), [
    ('{"a": "x\ny\tz"}', {"a": "x\ny\tz"}, ("control_characters",)),
    ('{"a": 1,}', {"a": 1}, ("trailing_comma",)),
    ('{"a": [1, 2,], }', {"a": [1, 2]}, ("trailing_comma",)),
    ("{'a': 'b'}", {"a": "b"}, ("quotes",)),
    ("{'a': \"it's\"}", {"a": "it's"}, ("quotes",)),
    ('{"a": True, "b": None, "c": false}', {"a": True, "b": None, "c": False}, ("python_literals",)),
    ("{'a': (1, 'x'), 'b': False}", {"a": [1, "x"], "b": False}, ("quotes", "python_literals")),
    ("{a: 1, b-c: 2}", {"a": 1, "b-c": 2}, ("quotes",)),
    ("{1: 'x'}", {"1": "x"}, ("quotes",)),
    ('{"a": +1, "b": .5}', {"a": 1, "b": 0.5}, ("numbers",)),
    ('{"re": "\\d+\\.\\w"}', {"re": "\\d+\\.\\w"}, ("escapes",)),
    ('{"a": "it\\\'s"}', {"a": "it's"}, ("escapes",)),
    ('{"a": "\\x41\\U0001F600"}', {"a": "A\U0001f600"}, ("escapes",)),
    ('{"a": "\\ud83d\\ude00",}', {"a": "\U0001f600"}, ("trailing_comma",)),
    ('{"a": "\\ud800"}', {"a": "�"}, ("escapes",)),
    ('{"a": 1, // why\n "b": /* no */ 2}', {"a": 1, "b": 2}, ("comments",)),
    ('{"a": "say "hi" now", "b": 1}', {"a": 'say "hi" now', "b": 1}, ("quotes",)),
    ('{"a": "a 5" pipe"}', {"a": 'a 5" pipe'}, ("quotes",)),
    ('"{\\"a\\": 1}"', {"a": 1}, ("double_encoded",)),
    ('"{\\"a\\": 1,}"', {"a": 1}, ("double_encoded", "trailing_comma")),
    ('{\\"a\\": \\"b\\"}', {"a": "b"}, ("double_encoded",)),
    ('{}{"a": 1}', {"a": 1}, ("stray_prefix",)),
    ("{} {'a': 1}", {"a": 1}, ("stray_prefix", "quotes")),
    ('```json\n{"a": 1}\n```', {"a": 1}, ("code_fence",)),
    ('{"a": 1}}', {"a": 1}, ("extra_brackets",)),
    ('{"a": 1}{"a": 1}', {"a": 1}, ("repeated",)),
    ('"a": 1}', {"a": 1}, ("missing_brackets",)),
    ('{"a": [1, 2}', {"a": [1, 2]}, ("missing_brackets",)),
    ('{"a": {"b": 1}', {"a": {"b": 1}}, ("missing_brackets",)),
])
def test_damage_with_one_plain_reading(text: str, value: object, repairs: tuple[str, ...]) -> None:
    found = read_object(text)
    assert found == Repaired(value, repairs)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "value"), [
    ('{"a": 1 "b": 2}', {"a": 1, "b": 2}),
    ('{"a": "x"\n"b": "y"}', {"a": "x", "b": "y"}),
    ('{"a"= 1}', {"a": 1}),
    ('{“a”: “b”}', {"a": "b"}),
    ('{"a": hello world, "b": 2}', {"a": "hello world", "b": 2}),
    ('{"cmd": "echo "hi", ok"}', {"cmd": 'echo "hi", ok'}),
])
def test_other_damage_goes_to_the_library(text: str, value: object) -> None:
    assert read_object(text) == Repaired(value, ("json_repair",))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [
    "", "   ", "hello world", "I will call it with {\"a\": 1} now", "null", "42", '"just text"', "[1, 2]", '[{"a": 1}]',
    '{"a": 1} and then some words', '{"a": 1}{"b": 2}', "{", "{{{", '{"a"', '{"a":', '{"a": tru', '{"a": "b',
    '{"a": 1e400}', '{"a": 1, "b": -1e999,}', '{"a" 1}', '{"a": 007}',
    '{"\\ude00a": 1, "b": {(: "y"}}', '{"a": 1, "b": {"\\ud83d": 1, (: "y"}}',  # halves of surrogate pairs
])
def test_what_would_have_to_be_guessed_is_no_object(text: str) -> None:
    assert read_object(text) is None


@pytest.mark.parametrize("text", [
    '{"content": "function() { return 1; }', '{"content": "if (x) { y(); }}', '{"a": "b\\"}',
    '{"a": "hello, "b": 1}', '{"a": "x "y}', '{"a": "say "hi" to }',
])
def test_a_string_is_never_closed_for_the_model(text: str) -> None:
    assert read_object(text) is None


@pytest.mark.parametrize("text", ['{"a": `x`}', '{"a": 1} // trailing words that nobody quoted'])
def test_a_repair_that_drops_content_does_not_count(text: str) -> None:
    assert read_object(text) is None


def test_no_prefix_of_an_object_reads_as_more_than_it_says() -> None:
    """The value of a prefix has only whole members, and the repairs name the missing brackets."""
    text = '{"path": "a.py", "body": "x = {\\"k\\": [1]}\\n", "deep": {"b": "c"}, "list": ["d"]}'
    whole = read_object(text)
    assert whole is not None
    for cut in range(1, len(text)):
        found = read_object(text[:cut])
        if found is None:
            continue
        assert "missing_brackets" in found.repairs, text[:cut]
        for key in ("path", "body"):
            assert found.value.get(key, whole.value[key]) == whole.value[key]


def test_deep_nesting_is_refused_and_does_no_harm() -> None:
    for text in ("{" * 50_000, '{"a":' * 20_000 + "1" + "}" * 20_000, "{'a':" * 300 + "1" + "}" * 300,
                 '{"a": ' + "[" * 5000 + "]" * 5000 + ",}"):
        assert read_object(text) is None


def test_the_cost_grows_with_the_text() -> None:
    """Each takes about half a second of CPU at most; quadratic time would take minutes."""
    for text in ('{"a": "' + "line\n" * 200_000 + '",}', "{'a': ['" + "', '".join(["x"] * 100_000) + "']}",
                 '{"a": "' + '"x ' * 100_000 + '"}', '{"a": "' + '" ' * 200_000 + "}", '{"a": ' + "/*" * 200_000,
                 '{"a": "' + "\\" * 500_001 + "}", '{"a": "x" ' + " " * 500_000):
        started = time.process_time()
        read_object(text)
        assert time.process_time() - started < 10


# ------------------------------------------------------------------------------------------------------------ problems

TOOL: dict[str, object] = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"}, "b": {"enum": ["x", "y"]}, "c": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "n": {"type": "object", "properties": {"m": {"type": "number", "minimum": 3}}, "required": ["q"]},
        "t": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["a"], "additionalProperties": False,
}


def test_a_value_that_fits_has_no_problems() -> None:
    assert problems(TOOL, {"a": 1, "b": "x", "c": None, "n": {"m": 3, "q": 0}, "t": ["u"]}) == []


@pytest.mark.parametrize(("value", "line"), [
    ({}, "a: required, but missing"),
    ({"a": "1"}, "a: expected integer, got string"),
    ({"a": True}, "a: expected integer, got boolean"),
    ({"a": 1, "b": "z"}, 'b: must be one of ["x","y"]'),
    ({"a": 1, "c": "q"}, "c: expected integer or null, got string"),
    ({"a": 1, "n": {"m": 1, "q": 1}}, "n.m: does not keep to minimum 3"),
    ({"a": 1, "n": {}}, "n.q: required, but missing"),
    ({"a": 1, "t": ["u", 1]}, "t[1]: expected string, got integer"),
    ({"a": 1, "other": 1}, "other: not a parameter that the schema allows"),
    ({"a": 1, "odd name": 1}, '["odd name"]: not a parameter that the schema allows'),
    ("text", "$: expected object, got string"),
])
def test_a_problem_names_the_path_and_the_reason(value: object, line: str) -> None:
    assert problems(TOOL, value) == [line]


def test_problems_are_few_and_short_and_the_outer_ones_come_first() -> None:
    found = problems(TOOL, {"b": "z" * 10_000, "c": "q" * 10_000, "n": {}, "t": [1] * 1000})
    assert len(found) == 5
    assert found[0] == "a: required, but missing"
    assert max(map(len, found)) < 300


def test_formats_are_not_checked() -> None:
    assert problems({"type": "string", "format": "date-time"}, "yesterday") == []


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a schema was fetched")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)
    for reference in ("http://127.0.0.1:1/schema.json", "file:///etc/passwd", "other.json", "#/$defs/nowhere"):
        schema: dict[str, object] = {"properties": {"a": {"$ref": reference}, "b": {"type": "integer"}}}
        assert problems(schema, {"a": 1, "b": "x"}) == ["b: expected integer, got string"]
    assert problems({"$id": "http://127.0.0.1:1/base", "properties": {"a": {"$ref": "#/$defs/s"}},
                     "$defs": {"s": {"type": "string"}}}, {"a": 1}) == ["a: expected string, got integer"]


def test_schemas_that_make_no_sense_demand_nothing() -> None:
    for schema in ({"type": "no such type"}, {"properties": 3}, {"pattern": "("}, {"required": None}, {"$ref": "#"},
                   {"minimum": "x"}, {"enum": 5}):
        assert problems(schema, {"a": 1}) == []


def test_hostile_schemas_and_patterns_come_to_an_end() -> None:
    fan: dict[str, object] = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}
    started = time.process_time()
    problems({"$defs": {**fan, "a40": {"type": "string"}}, "$ref": "#/$defs/a0"}, 3)
    assert problems({"type": "string", "pattern": "(a+)+$"}, "a" * 40 + "!") == []
    problems({"type": "string", "pattern": "a?" * 40 + "a" * 40}, "a" * 40)
    problems({"type": "string", "pattern": ".*.*.*.*=x"}, "a" * 5000)
    keyed: dict[str, object] = {"patternProperties": {"(a+)+$": {}}, "additionalProperties": False}
    assert problems(keyed, {"a" * 40 + "!": 1}) == []
    problems({"type": "array", "uniqueItems": True}, [{"n": n} for n in range(20_000)])
    assert time.process_time() - started < 10
    for below in ({"patternProperties": {"(a+)+$": {}}}, {"allOf": [{"patternProperties": {"(a+)+$": {}}}]}):
        assert problems({**below, "unevaluatedProperties": False}, {"a" * 40 + "!": 1}) == []


def test_a_schema_that_refers_to_itself_ends_at_every_depth_of_the_stack() -> None:
    """At Python's recursion limit the library's Rust maps panic, past `except Exception`."""
    schema: dict[str, object] = {"properties": {"a": {}}, "if": {"$ref": "#"}}

    def deeper(frames: int) -> list[str]:
        return deeper(frames - 1) if frames else problems(schema, {"a": 1})

    for frames in range(60):
        assert deeper(frames) == []


def test_a_tree_is_checked_as_deep_as_models_nest_it() -> None:
    schema: dict[str, object] = {"type": "object", "properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}}
    tree: dict[str, object] = {"n": "x"}
    for _ in range(40):
        tree = {"next": tree}
    assert problems(schema, tree) == ["next." * 40 + "n: expected integer, got string"]


def test_plain_patterns_are_checked() -> None:
    assert problems({"type": "string", "pattern": "^[a-z]+-[0-9]+$"}, "A-1") == [
        "$: does not match the pattern ^[a-z]+-[0-9]+$"]
    assert problems({"type": "string", "pattern": "^(open|closed)$"}, "open") == []
