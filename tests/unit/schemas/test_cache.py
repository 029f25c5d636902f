"""Rewritten schemas are cached by content, within bounds, and counted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from extproc.ext_proc.record import Record
from extproc.schemas import gemini
from extproc.schemas.cache import CacheFigures, Rewritten, SchemaCache
from extproc.worker.metrics import PrometheusMetrics

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def text(value: bytes) -> Rewritten:
    return Rewritten(msgspec.Raw(value))


def test_the_same_schema_is_rewritten_once():
    cache, sizes = SchemaCache(), []

    def rewrite(size: int) -> Rewritten:
        sizes.append(size)
        return text(b"{}")

    first = cache.get("k", SCHEMA, rewrite)
    again = cache.get("k", {"type": "object", "properties": {"a": {"type": "string"}}}, rewrite)
    assert again is first
    assert sizes == [len(msgspec.json.encode(SCHEMA))]
    assert cache.figures == CacheFigures(hits=1, misses=1, entries=1)


@pytest.mark.parametrize(("kind", "schema"), [
    ("other", SCHEMA),
    ("k", {"type": "object", "properties": {"a": {"type": "integer"}}}),
    ("k", {"properties": {"a": {"type": "string"}}, "type": "object"}),  # keys keep their order
])
def test_another_schema_or_rewriting_is_another_entry(kind, schema):
    cache = SchemaCache()
    cache.get("k", SCHEMA, lambda size: text(b"1"))
    assert cache.get(kind, schema, lambda size: text(b"2")) == text(b"2")


def test_an_empty_result_is_cached():
    cache = SchemaCache()
    for _ in range(2):
        assert cache.get("k", {}, lambda size: Rewritten(None)).text is None
    assert cache.figures.hits == 1


def test_rule_7_the_least_recently_used_entry_goes_first():
    cache = SchemaCache(entries=2)
    for number in (1, 2, 1, 3):
        cache.get("k", number, lambda size: text(b"x"))
    assert cache.figures == CacheFigures(hits=1, misses=3, entries=2)
    cache.get("k", 1, lambda size: text(b"x"))
    assert cache.figures.hits == 2
    cache.get("k", 2, lambda size: text(b"x"))
    assert cache.figures.misses == 4


def test_rule_7_bytes_are_bounded_and_a_giant_is_not_cached():
    cache = SchemaCache(size=10_000, largest=5_000)
    for number in range(20):
        cache.get("k", number, lambda size: text(b"x" * 1_000))
    assert cache.figures.entries == 8  # of 1,200 bytes each
    cache.get("k", "giant", lambda size: text(b"x" * 6_000))
    assert cache.figures.entries == 8


def test_several_threads_get_the_same_result():
    cache = SchemaCache(entries=8)

    def ask(number: int) -> bytes:
        return bytes(cache.get("k", number % 16, lambda size: text(b"%d" % (number % 16))).text)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, range(2_000))) == [b"%d" % (number % 16) for number in range(2_000)]
    figures = cache.figures
    assert figures.hits + figures.misses == 2_000
    assert figures.entries <= 8


def test_geminis_forms_do_not_share_entries():
    cache = SchemaCache()
    schema = {"type": "object", "properties": {"a": {"type": ["string", "integer"]}}}
    forms = {bytes(gemini.encode_parameters(schema, json_schema=json_schema, any_of_alone=alone, cache=cache))
            for json_schema, alone in ((True, False), (False, False), (False, True))}
    forms.add(bytes(gemini.encode_response_schema(schema, json_schema=False, cache=cache)))
    assert cache.figures == CacheFigures(hits=0, misses=4, entries=4)
    assert len(forms) == 3  # the schema has no anyOf that must stand alone
    gemini.encode_parameters(schema, json_schema=True, any_of_alone=True, cache=cache)
    assert cache.figures.hits == 1


def test_the_metrics_show_the_figures_of_the_cache():
    cache, registry = SchemaCache(), CollectorRegistry()
    metrics = PrometheusMetrics(registry, schemas=cache)

    def metric(name: str) -> float:
        return float(next(line for line in generate_latest(registry).decode().splitlines()
                          if line.startswith(f"extproc_schema_cache_{name} ")).split()[1])

    def one_exchange() -> None:
        metrics.began("translate")
        metrics.finished(Record(hop="translate"))

    assert (metric("hits_total"), metric("misses_total"), metric("entries")) == (0, 0, 0)
    for _ in range(3):
        gemini.encode_parameters(SCHEMA, json_schema=True, cache=cache)
    one_exchange()
    assert (metric("hits_total"), metric("misses_total"), metric("entries")) == (2, 1, 1)
    one_exchange()
    assert metric("hits_total") == 2
