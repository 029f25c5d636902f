"""`price` of attempts, rules and backends, and `prices`: where they apply, and the mistakes in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from extproc.config import Price
from tests.unit.config.files import ATTEMPTS, has_problem, load, load_text, problems, text_problems

PRICE = {"input": 3, "output": 15}
FILE = """
backends: {b: {api: openai, url: "https://api.example/v1", price: %s}}
models: [{match: m, attempts: [{backend: b, model: x}]}]
"""


def test_the_nearest_price_applies(tmp_path: Path) -> None:
    attempts = [{"backend": "b", "model": "x", "price": {"input": 1, "output": 2}}, {"backend": "b", "model": "y"},
                {"backend": "c", "model": "z"}]
    config = load(tmp_path, {"price": PRICE}, attempts)
    [rule] = config.models
    assert [config.configured_price(rule, attempt) for attempt in rule.attempts] == [
        Price(input=1, output=2), Price(input=3, output=15), None]


def test_a_rule_is_nearer_than_a_backend(tmp_path: Path) -> None:
    config = load_text(tmp_path, """
backends: {b: {api: openai, url: "https://api.example/v1", price: {input: 3, output: 15}}}
models: [{match: m, price: 0, attempts: [{backend: b, model: x}]}]
""")
    [rule] = config.models
    assert config.configured_price(rule, rule.attempts[0]) == 0


@pytest.mark.parametrize("per", ["1M", "1K", 1])
def test_prices_are_per_million_thousand_or_one_token(tmp_path: Path, per: str | int) -> None:
    price = load(tmp_path, {"price": {**PRICE, "per": per}}).backends["b"].price
    assert isinstance(price, Price)
    assert price.per == per


@pytest.mark.parametrize(("price", "path", "words"), [
    ("{input: -1, output: 1}", ".input", "from 0"),
    ("{input: .nan, output: 1}", ".input", "from 0"),
    ("{input: 1, output: .inf}", ".output", "from 0"),
    ("{input: 1, output: 1, cache_read: -0.1}", ".cache_read", "from 0"),
    ("{input: 1.0e+12, output: 1}", ".input", "at most"),
    ("{output: 1}", ".input", "missing"),
    ("{input: 1}", ".output", "missing"),
    ("{input: free, output: 1}", ".input", "expected a number"),
    ("{input: 1, output: 1, per: 1G}", ".per", "expected"),
    ("{input: 1, output: 1, per: true}", ".per", "expected"),
    ("{input: 1, output: 1, currency: EUR}", ".currency", "foreign currency EUR: the gateway counts in USD"),
    ('{input: 1, output: 1, currency: ""}', ".currency", "empty"),
    ("{input: 1, output: 1, currency: usd}", ".currency", "no currency code"),
    ("{input: 1, output: 1, cached: 1}", ".cached", "unknown key"),
    ("3", "", "can only be 0"),
    ("free", "", "expected"),
])
def test_mistakes_are_named_at_their_path(tmp_path: Path, price: str, path: str, words: str) -> None:
    assert has_problem(text_problems(tmp_path, FILE % price), f"backends.b.price{path}", words)


def test_every_place_of_a_price_is_checked(tmp_path: Path) -> None:
    wrong = {"input": 1, "output": -1}
    found = problems(tmp_path, {"price": wrong}, [{**ATTEMPTS[0], "price": wrong}])
    assert has_problem(found, "backends.b.price.output", "from 0")
    assert has_problem(found, "models[0].attempts[0].price.output", "from 0")
    assert has_problem(text_problems(tmp_path, (FILE % 0).replace("{match: m", "{match: m, price: 1")),
                       "models[0].price", "can only be 0")


def test_one_currency_for_the_gateway(tmp_path: Path) -> None:
    config = load(tmp_path, {"price": {**PRICE, "currency": "EUR"}}, prices={"currency": "EUR"})
    assert config.prices.currency == "EUR"


@pytest.mark.parametrize(("prices", "path", "words"), [
    ({"currency": "Euro"}, "prices.currency", "no currency code"), ({"currency": ""}, "prices.currency", "empty"),
    ({"currency": None}, "prices.currency", "expected a text"), ({"file": ""}, "prices.file", ""),
])
def test_mistakes_in_prices(tmp_path: Path, prices: dict[str, Any], path: str, words: str) -> None:
    assert has_problem(problems(tmp_path, prices=prices), path, words)
