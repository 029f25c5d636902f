"""What is chosen outside is remembered within bounds: few texts, and short ones."""

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


def test_the_same_short_question_is_worked_out_once() -> None:
    asked: list[str] = []

    @bounded_cache(entries=2, longest=5)
    def length(text: str) -> int:
        """How long it is."""
        asked.append(text)
        return len(text)

    assert [length("short"), length("short"), length("longer"), length("longer")] == [5, 5, 6, 6]
    assert asked == ["short", "longer", "longer"]
    for text in ("a", "b", "c", "short"):
        length(text)
    assert asked[3:] == ["a", "b", "c", "short"]
    assert length.__doc__ == "How long it is."


def test_the_text_may_stand_behind_other_arguments() -> None:
    asked: list[str] = []

    @bounded_cache(entries=8, longest=3, at=1)
    def joined(host: str, model: str) -> str:
        asked.append(model)
        return host + model

    assert [joined("a much longer host", model) for model in ("m", "m", "model", "model")] == [
        "a much longer hostm"] * 2 + ["a much longer hostmodel"] * 2
    assert joined("b", "m") == "bm"
    assert asked == ["m", "model", "model", "m"]


def kept_bytes(ask: Callable[[str], object]) -> int:
    """Memory that questions with long texts leave behind, each with another one."""
    for text in ("a short one", f"{LONG}-"):
        ask(text)  # whatever the first question loads
    tracemalloc.start()
    try:
        for number in range(10):
            ask(f"{LONG}{number}")
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
    "a model and its dialect": lambda text: registry.look_for(text, tools=True),
    "a pattern that is too long to compile": lambda text: validation.problems({"type": "string", "pattern": text}, "x"),
    "a pattern that OpenAI gets": lambda text: clean_schema({"type": "string", "pattern": f"^{text}$"}),
    "a schema's shape": lambda text: shapes.tool_shape({"title": text}),
    "a schema's validator": lambda text: validation.problems({"title": text}, "x"),
}


@pytest.mark.parametrize("what", CACHED)
def test_a_text_that_is_too_long_leaves_nothing_behind(what: str) -> None:
    assert kept_bytes(CACHED[what]) < len(LONG)


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
    "translation/tokens.py",  # nothing is asked
    "gateway/envoy.py",  # the path of a binary
}


def test_what_is_remembered_without_a_bound_of_length_is_not_chosen_outside() -> None:
    """A new cache goes through `remembered`, or its module is added above with who chooses what it is asked."""
    home = Path(extproc.__file__).parent
    found = {str(path.relative_to(home)) for path in home.rglob("*.py")
             if re.search(r"from functools import .*\b(lru_)?cache\b", path.read_text())}
    assert found == KNOWN


def test_a_look_into_what_is_remembered_asks_once_and_has_two_bounds() -> None:
    asked: list[str] = []

    def upper(text: str) -> str:
        asked.append(text)
        return text.upper()

    kept = BoundedCache(upper, entries=2, longest=3)
    assert [kept["a"], kept["a"], kept["long"], kept["long"]] == ["A", "A", "LONG", "LONG"]
    assert asked == ["a", "long", "long"]
    assert [kept["b"], kept["c"]] == ["B", "C"]
    assert list(kept) == ["c"]


def test_what_raises_is_not_remembered() -> None:
    kept = BoundedCache(int, entries=2, longest=3)
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid"):
            kept["x"]
    assert kept == {}
