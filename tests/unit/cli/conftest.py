"""A configuration file that is valid where `KEY` is set."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.commands import CONFIG


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    file = tmp_path / "good.yaml"
    file.write_text(CONFIG, encoding="utf-8")
    return file
