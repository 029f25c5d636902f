"""Prices in the configuration: those of attempts, model rules and backends, the price table, and their checks.

The checks also get records of which only a part could be converted. The other parts are None and are skipped.
`extproc.prices` makes rates of these records.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from extproc.config.values import Problem, file_path_problems

TABLE_CURRENCY = "USD"
"""The currency of the price table and of the costs that providers report."""
HIGHEST_PRICE = 1e9
"""Far above any real price; with it, costs fit 64 bits."""
_CURRENCY = re.compile(r"[A-Z]{3}")
_AMOUNTS = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "reasoning")


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The price of a model's tokens, instead of the price table's."""

    input: float
    """Tokens of the prompt."""
    output: float
    """Tokens of the response. 0 for embeddings."""
    cache_read: float | None = None
    """Tokens of the prompt that were read from a cache. Unset: like `input`."""
    cache_write: float | None = None
    """Tokens of the prompt that were written to a cache. Unset: like `input`."""
    cache_write_1h: float | None = None
    """The same for a cache of an hour. Unset: like `cache_write`."""
    reasoning: float | None = None
    """Tokens of the response that were reasoning. Unset: like `output`."""
    per: Literal["1M", "1K", 1] = "1M"
    """The number of tokens that cost this much: a million, a thousand or one."""
    currency: str | None = None
    """The currency, which must be that of the gateway (`prices.currency`). Unset: that one."""


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The currency and the price table. See docs/costs.md."""

    file: str | None = None
    """A price table instead of the built-in one, in the format of genai-prices (`data.json`, or YAML with the same
    content). A relative path starts at the configuration file's folder. `extproc up` reads it again when it changes.
    Unset: the table of the installed package `genai-prices`."""
    currency: str = TABLE_CURRENCY
    """The currency of all prices, costs and budgets (ISO 4217). With another one than USD only prices of the
    configuration apply: the table and the costs that providers report are in USD."""


AnyPrice = Price | float | None
"""`price` of an attempt, a model rule or a backend; the number 0 for a model that costs nothing."""


def price_problems(path: str, price: AnyPrice, currency: str | None) -> Iterator[Problem]:
    """What makes a `price` unusable. `currency`: that of the gateway (None: not known)."""
    if price is None:
        return
    if not isinstance(price, Price):
        if price != 0:
            yield path, "a single number can only be 0: name the prices of input and output"
        return
    for name in _AMOUNTS:
        amount = getattr(price, name)
        if amount is None:
            continue
        if not math.isfinite(amount) or amount < 0:
            yield f"{path}.{name}", "must be a number from 0"
        elif amount > HIGHEST_PRICE:
            yield f"{path}.{name}", f"must be at most {HIGHEST_PRICE:.0f}"
    if price.currency is None:
        return
    if reason := _currency_problem(price.currency):
        yield f"{path}.currency", reason
    elif currency is not None and price.currency != currency:
        yield f"{path}.currency", (f"foreign currency {price.currency}: the gateway counts in {currency} "
                                   "(prices.currency), give all prices in that one")


def prices_problems(path: str, prices: Prices) -> Iterator[Problem]:
    """What makes `prices` unusable, except for the content of its file."""
    yield from file_path_problems(f"{path}.file", prices.file)
    if prices.currency is not None and (reason := _currency_problem(prices.currency)):
        yield f"{path}.currency", reason


def _currency_problem(currency: str) -> str | None:
    if not currency:
        return "is empty"
    return None if _CURRENCY.fullmatch(currency) else f'"{currency[:40]}" is no currency code such as USD (ISO 4217)'
