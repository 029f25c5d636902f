"""docs/configuration.md says what the records say."""

from __future__ import annotations

from pathlib import Path

from extproc.config import load_config, warnings_of
from extproc.config.reference import INTRODUCTION, RECORDS, field_docstrings, reference

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), (
        "run: python -m extproc.config.reference > docs/configuration.md")


def test_every_key_has_a_meaning() -> None:
    for _, record in RECORDS:
        assert set(field_docstrings(record)) == set(record.__struct_fields__)


def test_the_example_is_a_good_configuration(tmp_path: Path) -> None:
    example = tmp_path / "example.yaml"
    example.write_text(INTRODUCTION.split("```yaml\n")[1].split("```")[0], encoding="utf-8")
    config = load_config(example, {"OPENROUTER_API_KEY": "a", "GEMINI_API_KEY": "c", "RED_KEY": "b"})
    assert warnings_of(config) == []
