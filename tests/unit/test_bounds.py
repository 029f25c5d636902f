"""What is chosen outside is remembered within bounds: few texts, and short ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import extproc
from extproc.bounds import BoundedCache, bounded_cache
from extproc.config import values
from extproc.conversation import tool_names
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


REMEMBERED = {
    "a host": (values.is_loopback, lambda text: (f"{text}.localhost",)),
    "a dropped name": (labels.dropped_name, lambda text: (text,)),
    "a model and its family": (models.find_family, lambda text: (f"qwen/{text}",)),
    "a model at Google": (gemini.find_gemini_model, lambda text: (f"gemini-2.5-{text}",)),
    "a model and its profile": (find_profile, lambda text: ("openrouter", None, text)),
    "a model of Anthropic's": (anthropic.find_anthropic_endpoint, lambda text: ("example.com", None, text)),
    "names of tools": (tool_names._mapped, lambda text: (text, (text,), (), 64, "[a-z]+", ())),
    "a model and its dialect": (registry._found, lambda text: (text, "auto", (), True, None)),
    "the pattern of a schema": (validation._count_choices, lambda text: (text,)),
    "a schema's shape": (shapes._cached_shape, lambda text: (b'{"title":"%b"}' % text.encode(), "")),
    "a schema's validator": (validation._validator, lambda text: (b'{"title":"%b"}' % text.encode(),)),
}


@pytest.mark.parametrize("what", REMEMBERED)
def test_a_text_that_is_too_long_leaves_nothing_behind(what: str) -> None:
    function, question = REMEMBERED[what]
    function(*question("a short one"))  # type: ignore[operator]
    before = function.cache_info().currsize  # type: ignore[attr-defined]
    assert before, "a short one is remembered"
    for number in range(3):
        function(*question(f"{LONG}{number}"))  # type: ignore[operator]
    assert function.cache_info().currsize == before  # type: ignore[attr-defined]


def test_a_long_pattern_leaves_nothing_behind() -> None:
    """Python remembers the expressions that it has compiled, of whatever length."""
    pattern = f"^{LONG}$"
    assert clean_schema({"type": "string", "pattern": pattern}) == {"type": "string", "pattern": pattern}
    assert validation.problems({"type": "string", "pattern": pattern}, "x") == []
    assert not any(LONG in str(key) for key in [*re._cache, *getattr(re, "_cache2", ())])  # type: ignore[attr-defined]


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
