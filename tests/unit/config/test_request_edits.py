"""`set`, `override`, `remove` and `headers` of backends and attempts: typed values, and the mistakes in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from extproc.config import Attempt, Backend, ModelRule
from tests.unit.config.files import ATTEMPTS, has_problem, load, load_text, problems, text_problems

FILE = """
backends: {b: {api: openai, url: "https://api.example/v1", %s}}
models: [{match: m, attempts: [{backend: b, model: x}]}]
"""


def backend_with(folder: Path, keys: str, env: dict[str, str] | None = None) -> Backend:
    return load_text(folder, FILE % keys, env or {}).backends["b"]


def test_values_keep_the_types_of_the_file(tmp_path: Path) -> None:
    backend = backend_with(tmp_path, 'set: {store: false, temperature: 0.5, top_k: 4, user: "4", stop: null, '
                                     'provider: {order: [a, b], allow: true}, day: 2026-01-01}')
    assert backend.set == {"store": False, "temperature": 0.5, "top_k": 4, "user": "4", "stop": None,
                           "provider": {"order": ["a", "b"], "allow": True}, "day": "2026-01-01"}


def test_variables_are_texts_in_fields_and_headers(tmp_path: Path) -> None:
    backend = backend_with(tmp_path, 'override: {user: "${U}", metadata: {tags: ["${U}"]}}, headers: {X-Org: "${U} 1"}',
                           {"U": "7"})
    assert backend.override == {"user": "7", "metadata": {"tags": ["7"]}}
    assert backend.headers == {"X-Org": "7 1"}
    assert all(type(text) is str for text in (backend.override["user"], backend.override["metadata"]["tags"][0]))


def test_a_number_that_json_lacks_is_named(tmp_path: Path) -> None:
    assert has_problem(text_problems(tmp_path, FILE % "set: {a: {b: .inf}}"), "backends.b.set.a.b", "JSON")


@pytest.mark.parametrize("field", ["model", "messages", "messages.0", "stream", "stream_options.include_usage", "tools",
                                   "input", "instructions", "n", "previous_response_id", "tool_choice"])
@pytest.mark.parametrize("key", ["set", "override", "remove"])
def test_fields_that_the_translation_needs_cannot_change(tmp_path: Path, key: str, field: str) -> None:
    keys = {key: [field] if key == "remove" else {field: 1}}
    place = f"{key}[0]" if key == "remove" else f"{key}.{field}"
    assert has_problem(problems(tmp_path, keys), f"backends.b.{place}", "cannot be changed")
    attempts = [{**ATTEMPTS[0], **keys}]
    assert has_problem(problems(tmp_path, attempts=attempts), f"models[0].attempts[0].{place}", "cannot be changed")


@pytest.mark.parametrize(("api", "fields"), [
    ("gemini", {"contents": []}), ("gemini", {"generationConfig.candidateCount": 2}),
    ("gemini", {"generationConfig": {"candidateCount": 2}}), ("gemini", {"systemInstruction": {}}),
    ("anthropic", {"system": "You are a cat."}), ("anthropic", {"tool_choice": {"type": "any"}})])
def test_each_api_has_such_fields(tmp_path: Path, api: str, fields: dict[str, Any]) -> None:
    backend = {"api": api, "url": "https://api.example/v1", "override": fields}
    assert has_problem(problems(tmp_path, backend), f"backends.b.override.{next(iter(fields))}", "cannot be changed")


@pytest.mark.parametrize(("keys", "path", "words"), [
    ({"set": {"": 1}}, "backends.b.set.", "not the path"),
    ({"set": {"a..b": 1}}, "backends.b.set.a..b", "not the path"),
    ({"remove": ["a."]}, "backends.b.remove[0]", "not the path"),
    ({"set": {"a": 1}, "override": {"a": 2}}, "backends.b.override.a", "also in set"),
    ({"set": {"a.b": 1}, "remove": ["c", "a.b"]}, "backends.b.remove[1]", "also in set"),
    ({"set": ["a"]}, "backends.b.set", "expected a mapping"),
    ({"remove": {"a": 1}}, "backends.b.remove", "expected a list"),
    ({"headers": {"a b": "x"}}, "backends.b.headers.a b", "no name"),
    ({"headers": {"x-a": ""}}, "backends.b.headers.x-a", "empty"),
    ({"headers": {"x-a": "a\nb"}}, "backends.b.headers.x-a", "cannot carry"),
    ({"headers": {"x-a": 1}}, "backends.b.headers.x-a", "expected a text"),
    ({"headers": {"X-A": "1", "x-a": "2"}}, "backends.b.headers.x-a", "twice"),
    *(({"headers": {name: "x"}}, f"backends.b.headers.{name}", "credential")
      for name in ("Authorization", "x-api-key", "api-key", "X-Goog-Api-Key", "Cookie", "proxy-authorization")),
    *(({"headers": {name: "x"}}, f"backends.b.headers.{name}", "sets or removes itself")
      for name in ("Host", "content-length", "content-type", "connection", "te", "transfer-encoding", "upgrade",
                   "accept-encoding", "x-request-id", "via", "x-extproc-route", "x-envoy-retry-on")),
])
def test_a_mistake_is_named_at_its_path(tmp_path: Path, keys: dict[str, Any], path: str, words: str) -> None:
    found = problems(tmp_path, keys)
    assert has_problem(found, path, words), found


def test_fields_of_other_apis_and_neighbouring_names_are_allowed(tmp_path: Path) -> None:
    fields = {"modelx": 1, "reasoning.effort": "low", "generationConfig.candidateCount": 2, "system": "x", "nn": 1}
    assert load(tmp_path, {"set": fields, "headers": {"User-Agent": "gateway/1", "X-Title": "Our gateway"}})


def test_values_of_headers_are_not_shown() -> None:
    backend = Backend(api="openai", url="https://a.example", headers={"X-Org": "hidden-value"})
    attempt = Attempt(backend="b", model="x", headers={"X-Org": "hidden-value"})
    for shown in (repr(backend), repr(attempt)):
        assert "X-Org" in shown
        assert "hidden-value" not in shown


def test_the_rule_id_follows_the_values() -> None:
    def rule(**keys: Any) -> ModelRule:
        return ModelRule(match="m", attempts=[Attempt(backend="b", model="x", **keys)])

    assert rule(set={}, override={}, remove=[], headers={}).id == rule().id
    ids = {one.id for one in (rule(), rule(set={"a": 1}), rule(set={"a": 2}), rule(override={"a": 1}),
                              rule(remove=["a"]), rule(headers={"x-a": "1"}))}
    assert len(ids) == 6
    assert len({one.partition(".")[0] for one in ids}) == 1, "Envoy's routes stay"
