"""The tables of docs/ that are made from the code: `python -m tests.docs_tables` writes them into the pages.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`. tests/unit/test_docs.py fails when one is out of date.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from extproc import Translation
from extproc.profiles.gemini import STUDIO, VERTEX
from extproc.schemas.gemini import rewrite_parameters
from tests import telemetry_tables
from tests.profile_tables import profile_tables

DOCS = Path(__file__).resolve().parents[1] / "docs"
PLACE = re.compile(r"(<!-- table: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.S)

# ------------------------------------------------------------------------------------------------------------ thinking

_OUTPUT = 40_000
_ANTHROPIC_WISHES: dict[str, dict[str, Any]] = {
    "off": {"thinking": {"type": "disabled"}},
    "adaptive": {"thinking": {"type": "adaptive"}},
    "low": {"output_config": {"effort": "low"}},
    "medium": {"output_config": {"effort": "medium"}},
    "high": {"output_config": {"effort": "high"}},
    "max": {"output_config": {"effort": "max"}},
    "2000 tokens": {"thinking": {"type": "enabled", "budget_tokens": 2000}},
    "10000 tokens": {"thinking": {"type": "enabled", "budget_tokens": 10_000}},
}
"""What a client of the Messages API says, by the head of the column."""
_OPENAI_WISHES: dict[str, dict[str, Any]] = {
    "off": {"reasoning_effort": "none"},
    "adaptive": {"thinking": {"type": "adaptive"}},
    **{effort: {"reasoning_effort": effort} for effort in ("low", "medium", "high", "max")},
    "2000 tokens": {"reasoning": {"max_tokens": 2000}},
    "10000 tokens": {"reasoning": {"max_tokens": 10_000}},
}

_GEMINI_MODELS = ("gemini-3-pro-preview", "gemini-3.1-pro-preview", "gemini-3-flash-preview", "gemini-3.7-flash",
                  "gemini-4-argon", "gemini-4-hydrogen",
                  "gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite", "gemini-2.0-flash")
_CLAUDE_MODELS = ("claude-3-5-haiku-latest", "claude-sonnet-4-5", "claude-opus-4-6", "claude-opus-4-7", "claude-opus-5",
                  "claude-opus-5-5")
_OPENAI_MODELS = (("gpt-5", "https://api.openai.com/v1"), ("gpt-5.1", "https://api.openai.com/v1"),
                  ("gpt-6-sol", "https://api.openai.com/v1"), ("gpt-4o", "https://api.openai.com/v1"),
                  ("anthropic/claude-sonnet-4.5", "https://openrouter.ai/api/v1"),
                  ("openai/gpt-5", "https://openrouter.ai/api/v1"),
                  ("kimi-k2.5", "https://api.moonshot.ai/v1"),
                  ("qwen3-max", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
                  ("any-model", "https://llm.example.com/v1"))


def _sent(client: str, upstream: str, model: str, wish: Mapping[str, Any],
          url: str | None = None) -> tuple[dict[str, Any], bool]:
    """The provider's body for this wish, and whether thinking was named as dropped."""
    exchange = Translation(client, upstream, model, url=url)
    body = {"model": "m", "max_tokens": _OUTPUT, "messages": [{"role": "user", "content": "hi"}], **wish}
    sent: dict[str, Any] = json.loads(exchange.request(json.dumps(body).encode(), {}).body)
    return sent, "thinking" in (*exchange.dropped.losses, *exchange.dropped.hints)


def _cell(said: str, named: bool) -> str:
    return (said or "-") + (" \\*" if named else "")


def gemini_thinking() -> str:
    def row(model: str) -> Iterable[str]:
        yield f"`{model}`"
        for wish in _ANTHROPIC_WISHES.values():
            sent, named = _sent("anthropic", "gemini", model, wish)
            config = sent.get("generationConfig", {}).get("thinkingConfig", {})
            yield _cell(str(config.get("thinkingLevel") or config.get("thinkingBudget", "default" if config else "")),
                        named)
    return _table(("model", *_ANTHROPIC_WISHES), map(row, _GEMINI_MODELS))


def anthropic_thinking() -> str:
    def row(model: str) -> Iterable[str]:
        yield f"`{model}`"
        for wish in _OPENAI_WISHES.values():
            sent, named = _sent("openai", "anthropic", model, wish)
            thinking, effort = sent.get("thinking", {}), sent.get("output_config", {}).get("effort")
            said = [str(thinking.get("budget_tokens") or thinking.get("type", "")), effort and f"effort {effort}"]
            yield _cell(", ".join(filter(None, said)), named)
    return _table(("model", *_OPENAI_WISHES), map(row, _CLAUDE_MODELS))


def openai_thinking() -> str:
    columns = ("off", "adaptive", "medium", "max", "10000 tokens")

    def row(model: str, url: str) -> Iterable[str]:
        host = url.split("/")[2]
        yield f"`{model}` at {'an unknown host' if host == 'llm.example.com' else host}"
        for name in columns:
            sent, named = _sent("anthropic", "openai", model, _ANTHROPIC_WISHES[name], url)
            said = [f"`{field}: {json.dumps(sent[field])}`".replace('"', "") for field in
                    ("reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_budget")
                    if field in sent]
            yield _cell(", ".join(said), named)
    return _table(("model", *columns), (row(*one) for one in _OPENAI_MODELS))


# ------------------------------------------------------------------------------------------------------------- schemas

_DEFINITIONS = {"Point": {"type": "object", "properties": {"x": {"type": "number"}}}}
_SCHEMAS: tuple[dict[str, Any], ...] = (
    {"$ref": "#/$defs/Point"},
    {"const": "fixed"},
    {"enum": [1, 2]},
    {"enum": ["a", None]},
    {"enum": ["", "a"]},
    {"type": ["string", "null"]},
    {"type": ["string", "integer"]},
    {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    {"allOf": [{"type": "object", "properties": {"x": {"type": "number"}}}, {"required": ["x"]}]},
    {"type": "object", "additionalProperties": {"type": "number"}},
    {"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}], "items": False},
    {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    {"type": "string", "format": "uri"},
    {"type": "string", "pattern": "^a+$"},
    {"type": "integer", "exclusiveMinimum": 0},
    {"type": "number", "exclusiveMaximum": 1},
    {"type": "number", "multipleOf": 0.5},
    {"type": "string", "default": "x", "examples": ["y"]},
)
"""Schemas of one property."""


def gemini_schemas() -> str:
    def row(schema: dict[str, Any]) -> Iterable[str]:
        yield _code(schema)
        whole = {"type": "object", "properties": {"p": schema}, "$defs": _DEFINITIONS}
        for json_schema in (True, False):
            found: Any = rewrite_parameters(whole, json_schema=json_schema)
            yield _code(found["properties"]["p"])
    return _table(("a property of the tool", "`parametersJsonSchema`", "`parameters`"), map(row, _SCHEMAS))


def gemini_doors() -> str:
    def row(door: Any) -> Iterable[str]:
        yield {"studio": "AI Studio", "vertex": "Vertex AI"}[door.name]
        for value in (door.call_ids, door.media_type_required, door.any_of_alone):
            yield "yes" if value else "no"
    return _table(("door", "ids on calls and results", "`fileData` must say its type",
                   "`anyOf` must stand alone in `parameters`"), map(row, (STUDIO, VERTEX)))


# ------------------------------------------------------------------------------------------------------------ Markdown


def _code(value: object) -> str:
    return f"`{json.dumps(value)}`".replace("|", "\\|")


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    cells = [list(head), *(list(row) for row in rows)]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * len(cells[0]), *lines[1:]]) + "\n"


TABLES: dict[str, Callable[[], str]] = {
    "gemini-thinking": gemini_thinking,
    "anthropic-thinking": anthropic_thinking,
    "openai-thinking": openai_thinking,
    "gemini-schemas": gemini_schemas,
    "gemini-doors": gemini_doors,
    "profiles": profile_tables,
    "log-record": telemetry_tables.log_record,
    "log-events": telemetry_tables.log_events,
    "metrics": telemetry_tables.metrics,
    "alerts": telemetry_tables.alerts,
}
"""By the name in the page."""


def written(page: str) -> str:
    """The page with its tables as they must be."""
    return PLACE.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}{found[4]}", page)


if __name__ == "__main__":
    for file in sorted(DOCS.glob("*.md")):
        old = file.read_text(encoding="utf-8")
        new = written(old)
        if new != old:
            file.write_text(new, encoding="utf-8")
            print(f"{file.name}: written")
