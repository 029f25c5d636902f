"""Caches with keys from outside are bounded: few entries, and short keys."""

from __future__ import annotations

import gc
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

import extproc
from extproc.bounds import BoundedCache, bounded_cache
from extproc.config import values
from extproc.conversation.model import Request, Tool
from extproc.conversation.tool_names import build_name_map, fits_name
from extproc.dialects import registry, shapes, validation
from extproc.profiles import anthropic, find_profile, gemini, models
from extproc.schemas.openai import clean_schema
from extproc.worker import labels

LONG = "x" * 60_000


def test_the_result_for_a_short_key_is_computed_once() -> None:
    computed: list[str] = []

    @bounded_cache(entries=2, longest=5)
    def length(text: str) -> int:
        """The length of the text."""
        computed.append(text)
        return len(text)

    assert [length("short"), length("short"), length("longer"), length("longer")] == [5, 5, 6, 6]
    assert computed == ["short", "longer", "longer"]
    for text in ("a", "b", "c", "short"):
        length(text)
    assert computed[3:] == ["a", "b", "c", "short"]
    assert length.__doc__ == "The length of the text."


def test_the_key_from_outside_may_be_a_later_argument() -> None:
    computed: list[str] = []

    @bounded_cache(entries=8, longest=3, at=1)
    def joined(host: str, model: str) -> str:
        computed.append(model)
        return host + model

    assert [joined("a much longer host", model) for model in ("m", "m", "model", "model")] == [
        "a much longer hostm"] * 2 + ["a much longer hostmodel"] * 2
    assert joined("b", "m") == "bm"
    assert computed == ["m", "model", "model", "m"]


def kept_bytes(call: Callable[[str], object]) -> int:
    """The memory that calls with different long texts leave behind."""
    for text in ("a short one", f"{LONG}-"):
        call(text)  # loads whatever the first call needs
    tracemalloc.start()
    try:
        for number in range(10):
            call(f"{LONG}{number}")
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def tool_named(text: str) -> Request:
    return Request(model="m", tools=[Tool(text, None, {})], messages=[])


CACHED: dict[str, Callable[[str], object]] = {
    "a host": lambda text: values.is_loopback(f"{text}.localhost"),
    "a dropped name": labels.dropped_name,
    "a model and its family": lambda text: models.find_family(f"qwen/{text}"),
    "a model at Google": lambda text: gemini.find_gemini_model(f"gemini-2.5-{text}"),
    "a model and its profile": lambda text: find_profile("openrouter", None, text),
    "a model of Anthropic's": lambda text: anthropic.find_anthropic_endpoint("example.com", None, text),
    "names of tools": lambda text: build_name_map(tool_named(text)),
    "a name that no provider takes": lambda text: fits_name(text, 1 << 20),
    "a model and its dialect": lambda text: registry.find_scan_plan(text, tools=True),
    "a pattern that is too long to compile": lambda text: validation.problems({"type": "string", "pattern": text}, "x"),
    "a pattern that OpenAI gets": lambda text: clean_schema({"type": "string", "pattern": f"^{text}$"}),
    "a schema's shape": lambda text: shapes.tool_shape({"title": text}),
    "a schema's validator": lambda text: validation.problems({"title": text}, "x"),
}


@pytest.mark.parametrize("name", CACHED)
def test_a_long_key_is_not_kept(name: str) -> None:
    assert kept_bytes(CACHED[name]) < len(LONG)


KNOWN = {
    "apis/anthropic/client/response.py",  # the numbers of the first blocks, counted by the encoder
    "envoy_config/rendering.py", "envoy_config/local_replies.py",  # parts of Envoy's configuration
    "globs.py", "config/keyfile.py",  # patterns and paths of the configuration
    "dialects/json/value.py", "dialects/scan_plan.py",  # marks of the dialects; names as providers take them
    "transport/http2/headers.py",  # statuses
    "profiles/gemini.py", "profiles/telemetry.py",  # endpoints of the configuration
    "apis/anthropic/passthrough/request.py",  # types of blocks
    "apis/openai/passthrough/history.py",  # patterns of profiles
    "bounds.py",
    "process/log.py", "process/output.py",  # configured keys, seconds
    "translation/tokens.py",  # no key
    "gateway/envoy.py",  # the path of a binary
}


def test_no_other_cache_has_keys_from_outside() -> None:
    """A new cache uses `bounded_cache`, or its module is added above with the origin of its keys."""
    home = Path(extproc.__file__).parent
    found = {str(path.relative_to(home)) for path in home.rglob("*.py")
             if re.search(r"from functools import .*\b(lru_)?cache\b", path.read_text())}
    assert found == KNOWN


def test_a_lookup_computes_once_and_has_two_bounds() -> None:
    computed: list[str] = []

    def upper(text: str) -> str:
        computed.append(text)
        return text.upper()

    kept = BoundedCache(upper, entries=2, longest=3)
    assert [kept["a"], kept["a"], kept["long"], kept["long"]] == ["A", "A", "LONG", "LONG"]
    assert computed == ["a", "long", "long"]
    assert [kept["b"], kept["c"]] == ["B", "C"]
    assert list(kept) == ["c"]


def test_an_exception_is_not_kept() -> None:
    kept = BoundedCache(int, entries=2, longest=3)
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid"):
            kept["x"]
    assert kept == {}
